//! The ledger's tests: one suite for both implementations, and tests that need files.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers of tests may fail loudly and say what cannot run, as the tests may"
)]

mod archive;
mod bundle;
mod checksum;
mod common;
mod conformance;
mod corruption;
mod crash;
mod differential;
mod disk;
mod exchange;
mod loss;
mod opening;
mod readers;
mod roles;
mod verify;
