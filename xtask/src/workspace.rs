//! The layout of the workspace, and commands that run in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process::{capture, step};

/// Features that only the test build has, such as failpoints.
const TEST_FEATURES: &[(&str, &str)] =
    &[("provost", "failpoints"), ("provost-engine", "failpoints")];
/// The package with its own test build.
pub(crate) const SIMULATOR: &str = "provost-sim";
/// The feature that only the simulator's build has: bugs that the simulator must find. They are
/// never part of the tested program.
pub(crate) const SEEDED_BUGS: (&str, &str) = (SIMULATOR, "seeded-bugs");

/// The arguments of clippy's driver that `cargo clippy -- -D warnings` passes, in its own encoding.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// The directory of installed tools, below the user's cache directory.
const TOOLS_DIR: &str = "provost-tools";

/// The packages in which a long simulator run spends its time.
pub(crate) const SIMULATED: &[&str] =
    &["provost-core", "provost-engine", "provost-ledger", SIMULATOR];
/// The packages that are worth optimizing for a short run.
pub(crate) const SIMULATED_SHORT: &[&str] = &["provost-core", SIMULATOR];

/// The workspace, and the settings of this run from the environment.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    /// The directory for installed tools, shared by all clones of the user.
    pub(crate) tools: PathBuf,
    /// Whether this run is in CI, where a missing tool is a failure and never a reason to skip
    /// tests.
    pub(crate) ci: bool,
    pub(crate) version: String,
    /// Clippy's driver, if the test build also lints.
    clippy_driver: Option<PathBuf>,
    /// The features of each package.
    features: BTreeMap<String, BTreeSet<String>>,
}

impl Workspace {
    /// Queries cargo for the workspace around the current directory.
    pub(crate) fn find() -> Result<Self> {
        let mut cargo = Command::new(cargo_program());
        cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&capture(&mut cargo)?)?;
        let dir = |key: &str| {
            metadata[key].as_str().map(PathBuf::from).context("cargo metadata lacks a directory")
        };
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let target = dir("target_directory")?;
        let cache = cache_dir(variable("XDG_CACHE_HOME"), variable("HOME"));
        Ok(Self {
            root: dir("workspace_root")?,
            tools: cache.unwrap_or_else(|| target.clone()).join(TOOLS_DIR),
            target,
            ci: variable("CI").is_some_and(|value| value == "true"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            clippy_driver: None,
            features: packages.iter().filter_map(features).collect(),
        })
    }

    /// Returns a cargo command in the workspace, with the project's tools on its path.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = self.command(cargo_program());
        if self.ci {
            // CI builds once and never debugs, so incremental data and debug information would be wasted.
            cargo.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "false");
        }
        cargo
    }

    /// Lets the test build deny every warning of rustc and clippy. Clippy's driver is rustc with more lints, so it
    /// compiles the workspace while it lints. A separate clippy run would check every package a second time.
    pub(crate) fn deny_warnings_in_test_build(&mut self) -> Result<()> {
        let sysroot = capture(self.command("rustc").args(["--print", "sysroot"]))?;
        self.clippy_driver = Some(Path::new(sysroot.trim()).join("bin/clippy-driver"));
        Ok(())
    }

    /// Returns a cargo command for the test build.
    pub(crate) fn test_build_cargo(&self) -> Command {
        let mut cargo = self.cargo();
        if let Some(driver) = &self.clippy_driver {
            cargo.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", DENY_WARNINGS);
        }
        cargo
    }

    /// Returns a command in the workspace, with the project's tools on its path.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).env("PATH", self.search_path());
        command
    }

    /// Returns the search path: the project's tools first, then the machine's.
    pub(crate) fn search_path(&self) -> OsString {
        let inherited = variable("PATH").unwrap_or_default();
        let own = [self.tools.join("bin")].into_iter();
        // After `su`, root's path lacks the sbin directories.
        let for_root = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        env::join_paths(own.chain(env::split_paths(&inherited)).chain(for_root))
            .unwrap_or(inherited)
    }

    /// Returns the target triple of this machine.
    pub(crate) fn triple(&self) -> Result<String> {
        let text = capture(self.command("rustc").arg("-vV"))?;
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        Ok(host.context("rustc does not print its host")?.to_owned())
    }

    pub(crate) fn has_feature(&self, package: &str, feature: &str) -> bool {
        self.features.get(package).is_some_and(|features| features.contains(feature))
    }

    /// Returns the features of the test build, as a cargo argument.
    pub(crate) fn test_features(&self) -> String {
        self.as_arguments(TEST_FEATURES)
    }

    /// Returns all features that any test build uses.
    pub(crate) fn all_test_features(&self) -> String {
        self.as_arguments(&[TEST_FEATURES, &[SEEDED_BUGS]].concat())
    }

    fn as_arguments(&self, features: &[(&str, &str)]) -> String {
        let known = features.iter().filter(|(package, feature)| self.has_feature(package, feature));
        known.map(|(package, feature)| format!("{package}/{feature}")).collect::<Vec<_>>().join(",")
    }

    /// Builds the tests and the programs they drive, except the simulator, which has its own build. Tests and
    /// documents use the same packages and features, so that nothing is built twice.
    pub(crate) fn build_for_tests(&self) -> Result<Programs> {
        let mut cargo = self.test_build_cargo();
        cargo.args(["build", "--quiet", "--workspace", "--exclude", SIMULATOR, "--all-targets"]);
        cargo.args(["--features", &self.test_features()]);
        step("build", &mut cargo)?;
        Ok(self.programs("debug"))
    }

    /// Returns the programs in a profile's directory.
    pub(crate) fn programs(&self, profile: &str) -> Programs {
        Programs::in_dir(&self.target.join(profile))
    }
}

/// The programs that tests and the demo drive.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) provost: PathBuf,
    pub(crate) scripted_agent: PathBuf,
}

impl Programs {
    pub(crate) fn in_dir(dir: &Path) -> Self {
        Self { provost: dir.join("provost"), scripted_agent: dir.join("scripted-agent") }
    }
}

/// Reads an environment variable.
#[expect(clippy::disallowed_methods, reason = "the only place in xtask that reads the environment")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name)
}

fn cargo_program() -> OsString {
    variable("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns the user's cache directory by the XDG rules. A relative `XDG_CACHE_HOME` is ignored.
fn cache_dir(xdg_cache_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let named = xdg_cache_home.map(PathBuf::from).filter(|dir| dir.is_absolute());
    let below_home = || home.map(PathBuf::from).map(|home| home.join(".cache"));
    named.or_else(below_home).filter(|dir| dir.is_absolute())
}

fn features(package: &Value) -> Option<(String, BTreeSet<String>)> {
    let name = package["name"].as_str()?.to_owned();
    let features = package["features"].as_object()?.keys().cloned().collect();
    Some((name, features))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_dir_follows_xdg() {
        let dir =
            |xdg: &str, home: Option<&str>| cache_dir(Some(xdg.into()), home.map(OsString::from));
        assert_eq!(dir("/c", Some("/h")), Some("/c".into()));
        for relative in ["", "c"] {
            assert_eq!(dir(relative, Some("/h")), Some("/h/.cache".into()));
        }
        assert_eq!(dir("", None), None);
        assert_eq!(dir("", Some("")), None);
    }
}
