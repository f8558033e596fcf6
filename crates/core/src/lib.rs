//! The pure domain of Provost: what is true about a session, and what follows from it.
//!
//! Nothing here reads a clock, a random source, a file or a socket. Time, ids and observations come in
//! as arguments; events and owed effects go out as values.

pub mod ids;
pub mod lifecycle;
pub mod limits;
pub mod request;
pub mod session;
pub mod time;
pub mod verdict;
