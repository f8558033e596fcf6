//! `cargo xtask lint`: static checks of the code and documents.

mod files;
mod requirements;
mod wording;

use anyhow::{Context as _, Result, bail};

use crate::{
    docs::{self, DocsMode},
    print::print_line,
    process::try_step,
    tools::Depth,
    workspace::Workspace,
};

/// Runs all checks.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    source(workspace, Depth::Deep)?;
    documents(workspace)
}

/// Checks the source and the code as the tests build it. Deep checks add rustdoc and the code as it is released.
/// All checks run, even after a failure.
pub(crate) fn source(workspace: &Workspace, depth: Depth) -> Result<()> {
    let mut checks: Vec<(&str, LintCheck)> = vec![
        ("files", files::check),
        ("requirements", requirements::check),
        ("wording", wording::check),
        ("format", format),
        ("clippy with test features", clippy_with_test_features),
    ];
    if depth == Depth::Deep {
        checks.extend([("rustdoc", rustdoc as LintCheck), ("clippy", clippy)]);
    }
    let mut failed = Vec::new();
    for (title, check) in &checks {
        if let Err(error) = check(workspace) {
            print_line(&format!("   {title}: {error:#}"));
            failed.push(*title);
        }
    }
    if !failed.is_empty() {
        bail!("lint: {} of {} checks failed: {}", failed.len(), checks.len(), failed.join(", "));
    }
    print_line(&format!("── lint: all {} checks passed", checks.len()));
    Ok(())
}

/// Verifies that the generated documents are up to date. Needs the build of the tests.
pub(crate) fn documents(workspace: &Workspace) -> Result<()> {
    docs::run(workspace, DocsMode::Check).context("generated documents")
}

type LintCheck = fn(&Workspace) -> Result<()>;

fn format(workspace: &Workspace) -> Result<()> {
    succeeded(try_step("format", workspace.cargo().args(["fmt", "--all", "--check"]))?)
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    succeeded(try_step("clippy", &mut cargo)?)
}

fn clippy_with_test_features(workspace: &Workspace) -> Result<()> {
    let features = workspace.all_test_features();
    let mut cargo = workspace.cargo();
    cargo.args(["clippy", "--quiet", "--workspace", "--all-targets", "--features", &features]);
    succeeded(try_step("clippy with test features", cargo.args(["--", "-D", "warnings"]))?)
}

fn rustdoc(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    succeeded(try_step("rustdoc", &mut cargo)?)
}

fn succeeded(success: bool) -> Result<()> {
    if success { Ok(()) } else { bail!("failed") }
}
