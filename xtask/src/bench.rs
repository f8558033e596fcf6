//! `cargo xtask bench [NAME…]`: builds what is measured as it is released, and runs `provost-bench` with it.

use anyhow::Result;

use crate::{process::step, tools, workspace::Workspace};

/// Runs the named measurements, or all.
pub(crate) fn run(workspace: &Workspace, names: &[&str]) -> Result<()> {
    let mut build = workspace.cargo();
    build.args(["build", "--release", "--package", "provost", "--package", "provost-bench"]);
    step("release build", &mut build)?;
    let programs = workspace.programs("release");
    let bench = programs.provost.with_file_name("provost-bench");
    let mut run = workspace.command(bench);
    run.args(names).env("PROVOST_BIN", &programs.provost);
    run.envs(tools::provide_codex(workspace)?.map(|codex| ("PROVOST_CODEX", codex)));
    step("measurements", &mut run)
}
