//! `cargo xtask bench [NAME…]`: builds what is measured as it is released, and runs `provost-bench` with it.

use anyhow::Result;

use crate::{process::step, workspace::Workspace};

/// Runs the named measurements, or all.
pub(crate) fn run(workspace: &Workspace, names: &[&str]) -> Result<()> {
    let mut build = workspace.cargo();
    build.args(["build", "--release", "--package", "provost", "--package", "provost-bench"]);
    step("release build", &mut build)?;
    let programs = workspace.programs("release");
    let bench = programs.provost.with_file_name("provost-bench");
    let mut run = workspace.command(bench);
    step("measurements", run.args(names).env("PROVOST_BIN", &programs.provost))
}
