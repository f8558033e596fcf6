//! The pure domain of Provost: the state of sessions, runs and teams, and the rules that change it.
//!
//! Nothing here reads a clock, a random source, a file or a socket. Time, ids and observations are
//! passed in as arguments; events and pending effects are returned as values.

/// Whether the given bug is switched on for this thread. Requires the feature `seeded-bugs`.
#[cfg(feature = "seeded-bugs")]
macro_rules! bug {
    ($name:ident) => {
        crate::bugs::is_on(crate::bugs::Bug::$name)
    };
}

/// Always false: this build has no seeded bugs.
#[cfg(not(feature = "seeded-bugs"))]
macro_rules! bug {
    ($name:ident) => {
        false
    };
}

#[macro_use]
pub mod aggregate;
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
pub mod verdict;
pub mod verification;
pub mod wait;
