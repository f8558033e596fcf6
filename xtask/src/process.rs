//! Runs other programs, with visible output or with captured output.

use std::{
    process::{Command, Output, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use crate::print::print_line;

/// Runs a step with visible output and reports its duration.
pub(crate) fn step(title: &str, command: &mut Command) -> Result<()> {
    if try_step(title, command)? {
        return Ok(());
    }
    bail!("{title} failed")
}

/// Runs a step with visible output. Returns true if it succeeded.
pub(crate) fn try_step(title: &str, command: &mut Command) -> Result<bool> {
    print_line(&format!("── {title}"));
    let watch = Stopwatch::start();
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot run {command:?}"))?;
    print_line(&format!("   {title}: {status}, {:.1} s", watch.seconds()));
    Ok(status.success())
}

/// Runs a program and returns its stdout. Its stderr is part of the error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}\n{}", output.status, why.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program to completion, with any exit status.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))
}

/// A stopwatch for progress messages.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a step reports its duration")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
