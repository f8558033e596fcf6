//! The requirements as tests of the real binary. A test name starts with the id of the requirement it proves,
//! if the requirement has one.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

mod chatter;
mod damage;
mod dispatch;
mod doctor;
mod endings;
mod graphs;
mod guides;
mod hooks;
mod keys;
mod kit;
mod lapses;
mod layers;
mod limits;
mod listing;
mod liveness;
mod monitor;
mod moving;
mod options;
mod panes;
mod peers;
mod reactions;
mod reads;
mod records;
mod reports;
mod run_cancel;
mod run_git;
mod run_options;
mod run_safety;
mod run_site;
mod run_trust;
mod runs;
mod safety;
mod schemas;
mod screens;
mod serve;
mod sessions;
mod shapes;
mod states;
mod strangers;
mod streams;
mod submodules;
mod talk;
mod untouched;
mod verification;
mod visible;
mod waits;
mod watched;
mod writers;
