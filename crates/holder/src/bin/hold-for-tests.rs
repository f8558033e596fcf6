//! The holder as a program of its own, for this crate's tests: `hold-for-tests DIR < SPEC`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(dir) => provost_holder::hold(Path::new(&dir), std::io::stdin().lock()),
        None => ExitCode::from(2),
    }
}
