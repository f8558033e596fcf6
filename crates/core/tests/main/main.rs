//! Tests of the pure domain through its public API.

mod adoptions;
mod budget;
mod calls;
mod contract;
mod contradicted_approvals;
mod control;
mod ending;
mod evidence;
mod graphs;
mod hooks;
mod ids;
mod imported;
mod inbox;
mod input;
#[path = "../../../sim/src/interfaces.rs"]
mod interfaces;
mod kit;
mod launching;
mod laws;
mod limits;
mod overlay;
mod own_turns;
mod plans;
mod policy;
mod purity;
mod quoting;
mod random;
mod reactions;
mod regressions;
mod resume;

mod display_state;
mod replies;
mod reports;
#[expect(unreachable_pub, dead_code, reason = "it is the simulator's own file, public there")]
#[path = "../../../sim/src/rng.rs"]
mod rng;
mod runs;
mod scenarios;
mod secrets;
mod sessions;
mod shortage_messages;
mod shortages;
mod streams;
mod teams;
#[path = "../../../sim/src/turn_watch.rs"]
mod turn_watch;
mod verdict;
// The laws are defined once, in the simulator.
mod stored_names;
mod wait_events;
mod waiting;
#[expect(unreachable_pub, reason = "it is the simulator's own file, public there")]
#[path = "../../../sim/src/session_laws.rs"]
mod watched;
