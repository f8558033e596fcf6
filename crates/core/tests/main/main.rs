//! Tests of the pure domain through its public surface.

mod contract;
mod found;
mod kit;
mod laws;
mod purity;
mod random;
#[expect(unreachable_pub, dead_code, reason = "it is the simulator's own file, public there")]
#[path = "../../../sim/src/rng.rs"]
mod rng;
mod secrets;
mod stories;
mod verdict;
// The laws have one wording, the simulator's.
#[expect(unreachable_pub, reason = "it is the simulator's own file, public there")]
#[path = "../../../sim/src/laws.rs"]
mod watched;
