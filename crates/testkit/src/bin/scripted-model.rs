//! A model on loopback that answers what a scenario file says; see the README of the test kit.

use std::process::ExitCode;

fn main() -> ExitCode {
    provost_testkit::model::main(std::env::args_os().skip(1))
}
