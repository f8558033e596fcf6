//! Tasks that stand alone: messages, criteria, loops, permissions, the end.

mod criteria;
mod delivery;
mod ends;
mod kit;
mod loops;
mod model;
mod roles;
mod waking;
mod words;
