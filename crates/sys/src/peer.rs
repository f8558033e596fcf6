//! Identifies the process at the other end of a Unix socket, pinned when it connects.
