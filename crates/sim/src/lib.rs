//! provost-sim.
