//! An agent that plays a scenario file; see the README of the test kit.

use std::process::ExitCode;

fn main() -> ExitCode {
    provost_testkit::agent::main(std::env::args_os().skip(1))
}
