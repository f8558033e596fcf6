//! A loopback model that answers by a scenario file; see the README of the test kit.

use std::process::ExitCode;

fn main() -> ExitCode {
    provost_testkit::model::main(std::env::args_os().skip(1))
}
