//! The pure domain of Provost: the state of sessions, runs and teams, and the rules that change it.
//!
//! Nothing here reads a clock, a random source, a file or a socket. Time, ids and observations are
//! passed in as arguments; events and pending effects are returned as values.

#[macro_use]
pub mod aggregate;
#[macro_use]
pub mod event_codec;

pub mod ids;
pub mod lifecycle;
pub mod limits;
pub mod plan;
pub mod policy;
pub mod prompt;
pub mod request;
pub mod result;
pub mod rules;
pub mod run;
pub mod session;
pub mod shortage;
pub mod team;
pub mod text;
pub mod time;
pub mod verdict;
pub mod verification;
pub mod wait;
