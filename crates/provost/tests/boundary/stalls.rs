//! An agent that tries to stall the daemon.
