//! `cargo xtask lint`: static checks of the code and documents.

mod files;
mod licences;
mod requirements;
mod strings;
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
    run_checks(workspace, &[TEXT_CHECKS, TEST_BUILD_CHECKS, RELEASE_CHECKS].concat())?;
    documents(workspace)
}

/// Runs the checks that precede the build of a whole test run. Clippy runs as part of that build.
/// With [`Depth::Deep`], also checks the release code and its rustdoc.
pub(crate) fn before_test_build(workspace: &Workspace, depth: Depth) -> Result<()> {
    match depth {
        Depth::Usual => run_checks(workspace, TEXT_CHECKS),
        Depth::Deep => run_checks(workspace, &[TEXT_CHECKS, RELEASE_CHECKS].concat()),
    }
}

/// Runs all given checks, even if one of them fails.
fn run_checks(workspace: &Workspace, checks: &[(&str, LintCheck)]) -> Result<()> {
    let mut failed = Vec::new();
    for (title, check) in checks {
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

/// Verifies that the generated documents are up to date. Requires a finished build of the tests.
pub(crate) fn documents(workspace: &Workspace) -> Result<()> {
    docs::run(workspace, DocsMode::Check).context("generated documents")
}

type LintCheck = fn(&Workspace) -> Result<()>;

/// The checks that do not compile anything.
const TEXT_CHECKS: &[(&str, LintCheck)] = &[
    ("files", files::check),
    ("licences", licences::check),
    ("requirements", requirements::check),
    ("wording", wording::check),
    ("format", format),
];
/// The checks of the code with the features of the tests.
const TEST_BUILD_CHECKS: &[(&str, LintCheck)] =
    &[("clippy with test features", clippy_with_test_features)];
/// The checks of the code without the features of the tests.
const RELEASE_CHECKS: &[(&str, LintCheck)] =
    &[("rustdoc", rustdoc), ("clippy", clippy), ("build without agents", without_agents)];

fn format(workspace: &Workspace) -> Result<()> {
    succeeded(try_step("format", workspace.cargo().args(["fmt", "--all", "--check"]))?)
}

/// Checks that the program builds without the adapters of agents, so that no other code needs them.
fn without_agents(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["check", "--quiet", "--package", "provost", "--no-default-features"]);
    succeeded(try_step("build without agents", &mut cargo)?)
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    succeeded(try_step("clippy", &mut cargo)?)
}

fn clippy_with_test_features(workspace: &Workspace) -> Result<()> {
    let features = workspace.all_test_features();
    let mut cargo = workspace.cargo();
    cargo.args([
        "clippy",
        "--quiet",
        "--keep-going",
        "--workspace",
        "--all-targets",
        "--features",
        &features,
    ]);
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
