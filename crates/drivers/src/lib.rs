//! provost-drivers.
