//! provost-engine.
