//! The requirements as tests of the real binary. A test's name begins with the requirement that it proves.

mod damage;
mod endings;
mod kit;
mod layers;
mod limits;
mod liveness;
mod options;
mod reads;
mod reports;
mod safety;
mod states;
mod waits;
mod writers;
