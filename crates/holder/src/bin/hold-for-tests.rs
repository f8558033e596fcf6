//! The holder as a separate program, for this crate's tests.
//!
//! `hold-for-tests DIR < SPEC` runs a holder. `hold-for-tests --ping DIR` exits with 0 if the
//! directory's holder responds, otherwise with 1. `hold-for-tests --view DIR` opens a viewport of
//! its terminal. `hold-for-tests --sandbox COMMAND…` is the helper of sandboxes.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use provost_holder::client::viewport::{self, ViewportIo};
use provost_holder::wire::HolderOp;
use provost_sandbox::enter::{ORDER_VARIABLE, enter};

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    match args.as_slice() {
        [flag, dir] if flag == "--ping" => ping(Path::new(dir)),
        [flag, dir] if flag == "--view" => view(Path::new(dir)),
        [flag, command @ ..] if flag == "--sandbox" => enter_sandbox(command),
        [word, dir] if word == "hold" => {
            provost_holder::hold(Path::new(dir), std::io::stdin().lock())
        }
        [dir] => provost_holder::hold(Path::new(dir), std::io::stdin().lock()),
        _ => ExitCode::from(2),
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment is read once, at the edge")]
#[expect(clippy::print_stderr, reason = "the helper reports why it failed")]
fn enter_sandbox(command: &[OsString]) -> ExitCode {
    let error = enter(std::env::var_os(ORDER_VARIABLE).as_deref(), command);
    eprintln!("sandbox: {error}");
    ExitCode::from(error.exit_code())
}

fn view(dir: &Path) -> ExitCode {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let Ok((calls, _caller)) = std::io::pipe() else { return ExitCode::FAILURE };
    let (input, output, calls) = (input.as_fd(), output.as_fd(), calls.as_fd());
    let place = ViewportIo { input, output, calls, attended: true };
    if viewport::view(dir, place).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn ping(dir: &Path) -> ExitCode {
    let answer =
        provost_holder::HolderLink::connect(dir).and_then(|mut link| link.request(HolderOp::Ping));
    if answer.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
