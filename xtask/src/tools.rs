//! Installs the tools that the tests need. To add a tool, add it to the list of its kind below.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use rustix::process::geteuid;

use crate::{
    print::print_line,
    process::{output, try_step},
    workspace::Workspace,
};

/// Tools for `cargo xtask test`.
const FOR_TESTS: &[RequiredTool] = &[
    RequiredTool::new("git", &["git", "--version"], Install::Debian("git")),
    RequiredTool::new("tmux", &["tmux", "-V"], Install::Debian("tmux")),
    RequiredTool::new("strace", &["strace", "-V"], Install::Debian("strace")),
    RequiredTool::new("bwrap", &["bwrap", "--version"], Install::Debian("bubblewrap")),
    RequiredTool::new("unshare", &["unshare", "--version"], Install::Debian("util-linux")),
    RequiredTool::new("tar", &["tar", "--version"], Install::Debian("tar")),
    RequiredTool::new("rustfmt", &["cargo", "fmt", "--version"], Install::Component("rustfmt")),
    RequiredTool::new("clippy", &["cargo", "clippy", "--version"], Install::Component("clippy")),
    RequiredTool::new(
        "cargo-nextest",
        &["cargo", "nextest", "--version"],
        Install::Crate { name: "cargo-nextest", version: "0.9.143" },
    )
    .since([0, 9, 100]),
];

/// Tools that root needs to run tests as another user.
const FOR_ROOT: &[RequiredTool] = &[
    RequiredTool::new("useradd", &["useradd", "--help"], Install::Debian("passwd")),
    RequiredTool::new("setpriv", &["setpriv", "--version"], Install::Debian("util-linux")),
];
/// The names of the tools in `FOR_ROOT`.
pub(crate) const USER_SWITCH_TOOLS: &[&str] = &["useradd", "setpriv"];

/// Additional tools for `--deep`.
const FOR_DEEP_TESTS: &[RequiredTool] = &[RequiredTool::new(
    "cargo-mutants",
    &["cargo", "mutants", "--version"],
    Install::Crate { name: "cargo-mutants", version: "27.1.0" },
)
.since([27, 0, 0])];

/// The installer of Codex.
const NPM: RequiredTool = RequiredTool::new("npm", &["npm", "--version"], Install::Debian("npm"));
/// The npm package of Codex.
const CODEX_PACKAGE: &str = "@openai/codex";
/// The Codex versions that tests drive, and the environment variables that hold their paths.
const CODEX: &[(&str, &str)] =
    &[("0.166.0", "PROVOST_CODEX_FOR_TESTS"), ("0.107.0", "PROVOST_CODEX_OLD_FOR_TESTS")];

/// Tools that are required even outside CI, because nothing can be tested without them.
const INDISPENSABLE: &[&str] = &["git", "rustfmt", "clippy", "cargo-nextest", "cargo-mutants"];

/// The thoroughness of the tests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Usual,
    Deep,
}

/// Installs missing tools if possible, and returns the names of the tools that are still missing.
/// Tests that need a missing tool cannot run.
pub(crate) fn ensure_tools(workspace: &Workspace, depth: Depth) -> Result<Vec<&'static str>> {
    let deep = if depth == Depth::Deep { FOR_DEEP_TESTS } else { &[] };
    let root = if geteuid().is_root() { FOR_ROOT } else { &[] };
    let wanted: Vec<RequiredTool> =
        FOR_TESTS.iter().chain(deep).chain(root).chain([&NPM]).copied().collect();
    let mut missing = missing_of(workspace, &wanted);
    if !missing.is_empty() {
        install(workspace, &missing)?;
        missing = missing_of(workspace, &missing);
    }
    let has_npm = !missing.iter().any(|tool| tool.name == NPM.name);
    if has_npm {
        missing.extend(install_codex(workspace)?);
    }
    report_missing(workspace, &missing)?;
    Ok(missing.iter().map(|tool| tool.name).collect())
}

/// Returns the installed Codex programs, each after its variable.
pub(crate) fn codex_programs(workspace: &Workspace) -> Vec<(&'static str, PathBuf)> {
    let installed = |(version, variable): &(&str, &'static str)| {
        Some((*variable, installed_codex(&codex_prefix(workspace, version), version)?))
    };
    CODEX.iter().filter_map(installed).collect()
}

/// Returns the pinned Codex, if it is installed.
pub(crate) fn pinned_codex(workspace: &Workspace) -> Option<PathBuf> {
    let (version, _) = CODEX.first()?;
    installed_codex(&codex_prefix(workspace, version), version)
}

/// Returns the pinned Codex, and installs it first if necessary. Returns `None` if that is
/// impossible.
pub(crate) fn ensure_codex(workspace: &Workspace) -> Result<Option<PathBuf>> {
    if let (None, Some((version, _)), true) =
        (pinned_codex(workspace), CODEX.first(), NPM.is_there(workspace))
    {
        install_codex_version(workspace, version)?;
    }
    Ok(pinned_codex(workspace))
}

/// A required program.
#[derive(Clone, Copy)]
struct RequiredTool {
    name: &'static str,
    /// The command that proves the program's presence and prints its version.
    probe: &'static [&'static str],
    since: [u32; 3],
    install: Install,
}

#[derive(Clone, Copy)]
enum Install {
    Debian(&'static str),
    Component(&'static str),
    Crate {
        name: &'static str,
        version: &'static str,
    },
    /// A version of Codex, in its own directory.
    Codex {
        version: &'static str,
    },
}

impl RequiredTool {
    const fn new(name: &'static str, probe: &'static [&'static str], install: Install) -> Self {
        Self { name, probe, since: [0; 3], install }
    }

    const fn since(mut self, version: [u32; 3]) -> Self {
        self.since = version;
        self
    }

    fn is_there(&self, workspace: &Workspace) -> bool {
        let (program, args) = match self.probe {
            ["cargo", args @ ..] => (workspace.cargo(), args),
            [program, args @ ..] => (workspace.command(program), args),
            [] => return true,
        };
        let mut probe = program;
        let Ok(output) = output(probe.args(args)) else { return false };
        let new_enough =
            || version_in(&String::from_utf8_lossy(&output.stdout)) >= Some(self.since);
        output.status.success() && (self.since == [0; 3] || new_enough())
    }

    /// Returns the command that installs the tool.
    fn advice(&self, workspace: &Workspace) -> String {
        match self.install {
            Install::Debian(package) => format!("apt-get install {package}"),
            Install::Component(component) => format!("rustup component add {component}"),
            Install::Crate { name, version } => {
                format!("cargo install {name} --locked --version {version}")
            }
            Install::Codex { version } => format!(
                "npm install --no-save --prefix {} {CODEX_PACKAGE}@{version}",
                codex_prefix(workspace, version).display()
            ),
        }
    }
}

fn missing_of(workspace: &Workspace, tools: &[RequiredTool]) -> Vec<RequiredTool> {
    tools.iter().filter(|tool| !tool.is_there(workspace)).copied().collect()
}

/// Tries to install tools. The caller checks the result by probing again.
fn install(workspace: &Workspace, missing: &[RequiredTool]) -> Result<()> {
    let debian: Vec<&str> = missing
        .iter()
        .filter_map(|tool| match tool.install {
            Install::Debian(package) => Some(package),
            Install::Component(_) | Install::Crate { .. } | Install::Codex { .. } => None,
        })
        .collect();
    if !debian.is_empty() {
        install_debian(workspace, &debian)?;
    }
    for tool in missing {
        match tool.install {
            Install::Debian(_) | Install::Codex { .. } => {}
            Install::Component(component) => install_component(workspace, component)?,
            Install::Crate { name, version } => install_crate(workspace, name, version)?,
        }
    }
    Ok(())
}

fn install_debian(workspace: &Workspace, packages: &[&str]) -> Result<()> {
    let apt = |args: &[&str]| {
        let mut command = workspace.command("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(args);
        command
    };
    if !geteuid().is_root() || !exists(&mut apt(&["--version"])) {
        return Ok(());
    }
    let mut install = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    install.extend(packages);
    // The package lists of a fresh machine are empty or old. On other machines, an update would
    // waste time.
    if !try_step("install packages", &mut apt(&install))?
        && try_step("update the package lists", &mut apt(&["update", "--quiet"]))?
    {
        try_step("install packages", &mut apt(&install))?;
    }
    Ok(())
}

fn install_component(workspace: &Workspace, component: &str) -> Result<()> {
    let mut rustup = workspace.command("rustup");
    if exists(workspace.command("rustup").arg("--version")) {
        try_step(&format!("add {component}"), rustup.args(["component", "add", component]))?;
    }
    Ok(())
}

fn install_crate(workspace: &Workspace, name: &str, version: &str) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["install", name, "--locked", "--version", version, "--root"]).arg(&workspace.tools);
    try_step(&format!("install {name}"), &mut cargo)?;
    Ok(())
}

/// Installs missing Codex versions and returns those that failed. They are reported as npm, because
/// tests without npm have no Codex.
fn install_codex(workspace: &Workspace) -> Result<Vec<RequiredTool>> {
    let mut missing = Vec::new();
    for (version, _) in CODEX {
        let prefix = codex_prefix(workspace, version);
        if installed_codex(&prefix, version).is_none() {
            install_codex_version(workspace, version)?;
        }
        if installed_codex(&prefix, version).is_none() {
            missing.push(RequiredTool::new(NPM.name, &[], Install::Codex { version }));
        }
    }
    Ok(missing)
}

/// Tries to install one version. The caller checks the result. Other clones share the directory, so
/// a version must appear there either complete or not at all.
fn install_codex_version(workspace: &Workspace, version: &str) -> Result<()> {
    let prefix = codex_prefix(workspace, version);
    let staging = prefix.with_file_name(format!("{version}.{}", std::process::id()));
    fs::create_dir_all(&staging).with_context(|| format!("cannot make {}", staging.display()))?;
    let mut npm = workspace.command("npm");
    npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--prefix"]);
    npm.arg(&staging).arg(format!("{CODEX_PACKAGE}@{version}"));
    let installed = try_step(&format!("install Codex {version}"), &mut npm)?;
    if installed
        && fs::rename(&staging, &prefix).is_err()
        && installed_codex(&prefix, version).is_none()
    {
        // An existing directory is either incomplete, or was completed by another clone and is
        // kept.
        fs::remove_dir_all(&prefix)
            .and_then(|()| fs::rename(&staging, &prefix))
            .with_context(|| format!("cannot move Codex to {}", prefix.display()))?;
    }
    if staging.exists() {
        fs::remove_dir_all(&staging)?;
    }
    Ok(())
}

fn codex_prefix(workspace: &Workspace, version: &str) -> PathBuf {
    workspace.tools.join("npm").join(version)
}

/// Returns the program of exactly this version: the native program, which needs no node, or else
/// the launcher.
fn installed_codex(prefix: &Path, version: &str) -> Option<PathBuf> {
    let modules = prefix.join("node_modules");
    let package = fs::read(modules.join(CODEX_PACKAGE).join("package.json")).ok()?;
    let package: serde_json::Value = serde_json::from_slice(&package).ok()?;
    if package["version"] != version {
        return None;
    }
    native_codex(&modules.join("@openai"))
        .or_else(|| Some(modules.join(".bin/codex")).filter(|launcher| launcher.is_file()))
}

/// Finds `PACKAGE/vendor/TRIPLE/bin/codex`, or `PACKAGE/vendor/TRIPLE/codex/codex` in older versions.
fn native_codex(packages: &Path) -> Option<PathBuf> {
    let below = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let triples =
        below(packages.to_owned()).flat_map(|package| below(package.path().join("vendor")));
    let programs = triples
        .flat_map(|triple| ["bin/codex", "codex/codex"].map(|program| triple.path().join(program)));
    programs.filter(|program| program.is_file()).min()
}

/// Prints the missing tools. Fails if one of them is indispensable, or if any is missing in CI.
fn report_missing(workspace: &Workspace, missing: &[RequiredTool]) -> Result<()> {
    for tool in missing {
        print_line(&format!("missing: {} (to install: {})", tool.name, tool.advice(workspace)));
    }
    let fatal = |tool: &&RequiredTool| workspace.ci || INDISPENSABLE.contains(&tool.name);
    let fatal: Vec<&str> = missing.iter().filter(fatal).map(|tool| tool.name).collect();
    if !fatal.is_empty() {
        bail!("tools are missing: {}", fatal.join(", "));
    }
    if !missing.is_empty() {
        print_line("tests that need them are skipped");
    }
    Ok(())
}

fn exists(probe: &mut Command) -> bool {
    output(probe).is_ok_and(|output| output.status.success())
}

/// Returns the first version number in a program's output.
fn version_in(text: &str) -> Option<[u32; 3]> {
    text.split_whitespace().find_map(|word| {
        let mut parts = word.split('.').map(|part| part.parse().ok());
        Some([parts.next()??, parts.next()??, parts.next()??])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codex_is_found_by_exact_version() {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = dir.path().join("node_modules").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        assert_eq!(installed_codex(dir.path(), "1.0.0"), None);
        file("@openai/codex/package.json", r#"{"version":"1.0.0"}"#);
        assert_eq!(installed_codex(dir.path(), "1.0.0"), None);
        let launcher = file(".bin/codex", "");
        assert_eq!(installed_codex(dir.path(), "1.0.0"), Some(launcher));
        let native =
            file("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/codex/codex", "");
        assert_eq!(installed_codex(dir.path(), "1.0.0"), Some(native));
        assert_eq!(installed_codex(dir.path(), "1.0.1"), None);
    }

    #[test]
    fn version_is_parsed_from_program_output() {
        assert_eq!(version_in("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)"), Some([0, 9, 143]));
        assert_eq!(version_in("tmux 3.4"), None);
        assert!(version_in("cargo-nextest 0.9.99") < Some([0, 9, 100]));
    }

    #[test]
    fn absent_or_old_program_is_missing() {
        let workspace = Workspace::find().unwrap();
        let absent =
            RequiredTool::new("x", &["no-such-program", "--version"], Install::Debian("x"));
        let old = RequiredTool::new("cargo", &["cargo", "--version"], Install::Debian("x"))
            .since([9999, 0, 0]);
        let there = RequiredTool::new("cargo", &["cargo", "--version"], Install::Debian("x"))
            .since([1, 0, 0]);
        let missing: Vec<&str> =
            missing_of(&workspace, &[absent, old, there]).iter().map(|tool| tool.name).collect();
        assert_eq!(missing, ["x", "cargo"]);
    }

    #[test]
    fn missing_tool_fails_in_ci_only() {
        let mut workspace = Workspace::find().unwrap();
        let strace = RequiredTool::new("strace", &["strace"], Install::Debian("strace"));
        workspace.ci = false;
        report_missing(&workspace, &[strace]).unwrap();
        workspace.ci = true;
        let error = report_missing(&workspace, &[strace]).unwrap_err();
        assert_eq!(error.to_string(), "tools are missing: strace");
    }
}
