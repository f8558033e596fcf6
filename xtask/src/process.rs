//! Running other programs: in view of the person, or for what they print.

use std::{
    process::{Command, Output, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use crate::say::say;

/// Runs a step with its output in view, and says how long it took.
pub(crate) fn step(title: &str, command: &mut Command) -> Result<()> {
    if ran(title, command)? {
        return Ok(());
    }
    bail!("{title} failed")
}

/// Runs a step with its output in view; gives whether it succeeded.
pub(crate) fn ran(title: &str, command: &mut Command) -> Result<bool> {
    say(&format!("── {title}"));
    let watch = Watch::start();
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot run {command:?}"))?;
    say(&format!("   {title}: {status}, {:.1} s", watch.seconds()));
    Ok(status.success())
}

/// Runs a program for what it prints on stdout; its stderr is part of the error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}\n{}", output.status, why.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program to its end, whatever that is.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))
}

/// Measures how long something takes, for people only.
pub(crate) struct Watch(Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "a step says how long it took")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
