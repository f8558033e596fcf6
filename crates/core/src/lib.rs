//! The pure domain of Provost: the state of sessions, runs and teams, and the rules that change it.
//!
//! Nothing here reads a clock, a random source, a file or a socket. Time, ids and observations come in
//! as arguments; events and pending effects go out as values.

/// Whether a rule is broken on purpose. See the feature `seeded-bugs`.
#[cfg(feature = "seeded-bugs")]
macro_rules! bug {
    ($name:ident) => {
        crate::bugs::is_on(crate::bugs::Bug::$name)
    };
}

/// Whether a rule is broken on purpose: never, in this build.
#[cfg(not(feature = "seeded-bugs"))]
macro_rules! bug {
    ($name:ident) => {
        false
    };
}

#[macro_use]
pub mod event_codec;

#[cfg(feature = "seeded-bugs")]
pub mod bugs;
pub mod ids;
pub mod lifecycle;
pub mod limits;
pub mod plan;
pub mod policy;
pub mod prompt;
pub mod request;
pub mod result;
pub mod run;
pub mod session;
pub mod shortage;
pub mod team;
pub mod text;
pub mod time;
pub mod trust;
pub mod verdict;
pub mod wait;
