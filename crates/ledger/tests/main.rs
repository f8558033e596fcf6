//! The ledger's tests: one suite for both implementations, and what only files can show.

mod archive;
mod common;
mod conformance;
mod corruption;
mod crash;
mod differential;
mod disk;
mod exchange;
mod opening;
mod readers;
mod roles;
mod verify;
