//! The helper as a separate program, for this crate's tests.

use std::ffi::OsString;
use std::process::ExitCode;

use provost_sandbox::enter::{ORDER_VARIABLE, enter};

#[expect(clippy::disallowed_methods, reason = "the environment is read once, at the edge")]
#[expect(clippy::print_stderr, reason = "the helper reports why it failed")]
fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let error = enter(std::env::var_os(ORDER_VARIABLE).as_deref(), &args);
    eprintln!("sandbox: {}", provost_sys::error_chain(&error));
    ExitCode::from(error.exit_code())
}
