//! `cargo xtask lint`: what can be said about the code without running it.

mod files;
mod requirements;

use anyhow::{Result, bail};

use crate::{
    docs::{self, Mode},
    process::ran,
    say::say,
    tools::Depth,
    workspace::Workspace,
};

/// Runs the checks, also after one has failed, and says at the end which did. The code is looked at as the tests build it,
/// and in depth also as it is released.
pub(crate) fn run(workspace: &Workspace, depth: Depth) -> Result<()> {
    let mut checks: Vec<(&str, Check)> = vec![
        ("files", files::check),
        ("requirements", requirements::check),
        ("format", format),
        ("clippy with the features of tests", clippy_with_test_features),
        ("rustdoc", rustdoc),
        ("generated documents", documents),
    ];
    if depth == Depth::Deep {
        checks.push(("clippy", clippy));
    }
    let mut failed = Vec::new();
    for (title, check) in &checks {
        if let Err(error) = check(workspace) {
            say(&format!("   {title}: {error:#}"));
            failed.push(*title);
        }
    }
    if !failed.is_empty() {
        bail!("lint: {} of {} checks failed: {}", failed.len(), checks.len(), failed.join(", "));
    }
    say(&format!("── lint: all {} checks passed", checks.len()));
    Ok(())
}

type Check = fn(&Workspace) -> Result<()>;

fn format(workspace: &Workspace) -> Result<()> {
    succeeded(ran("format", workspace.cargo().args(["fmt", "--all", "--check"]))?)
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    succeeded(ran("clippy", &mut cargo)?)
}

fn clippy_with_test_features(workspace: &Workspace) -> Result<()> {
    let features = workspace.all_test_features();
    let mut cargo = workspace.cargo();
    cargo.args(["clippy", "--quiet", "--workspace", "--all-targets", "--features", &features]);
    succeeded(ran("clippy with the features of tests", cargo.args(["--", "-D", "warnings"]))?)
}

fn rustdoc(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    succeeded(ran("rustdoc", &mut cargo)?)
}

fn documents(workspace: &Workspace) -> Result<()> {
    docs::run(workspace, Mode::Check)
}

fn succeeded(success: bool) -> Result<()> {
    if success { Ok(()) } else { bail!("failed") }
}
