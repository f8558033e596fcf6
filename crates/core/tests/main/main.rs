//! Tests of the pure domain through its public API.

mod adoptions;
mod budget;
mod calls;
mod contract;
mod control;
mod elsewhere;
mod ending;
mod evidence;
mod found;
mod going_on;
mod graphs;
mod guesses;
mod hooks;
mod inbox;
mod kit;
mod launching;
mod laws;
mod moving;
mod otherwise;
mod overlay;
mod own_turns;
mod panes;
mod plans;
mod policy;
mod purity;
mod random;
mod reactions;

mod replies;
#[expect(unreachable_pub, dead_code, reason = "it is the simulator's own file, public there")]
#[path = "../../../sim/src/rng.rs"]
mod rng;
mod runs;
mod secrets;
mod sessions;
mod shortages;
mod shown;
mod speech;
mod stories;
mod streams;
mod tasks;
#[path = "../../../sim/src/turn_watch.rs"]
mod turn_watch;
mod typing;
mod verdict;
// The laws are defined once, in the simulator.
mod waiting;
#[expect(unreachable_pub, reason = "it is the simulator's own file, public there")]
#[path = "../../../sim/src/laws.rs"]
mod watched;
mod watching;
mod words;
