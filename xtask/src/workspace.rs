//! Where things are, and how programs are called there.

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

/// What the tests' build has besides: places to crash at.
const TEST_FEATURES: &[(&str, &str)] =
    &[("provost", "failpoints"), ("provost-engine", "failpoints")];
/// The package that is tested in a build of its own.
pub(crate) const SIMULATOR: &str = "provost-sim";
/// What only the simulator's build has: bugs that it has to find. They never get near the tested program.
pub(crate) const SEEDED_BUGS: (&str, &str) = (SIMULATOR, "seeded-bugs");

/// The directory of installed tools, below the user's cache directory.
const TOOLS_DIR: &str = "provost-tools";

/// The packages that a long run of the simulator spends its time in.
pub(crate) const SIMULATED: &[&str] =
    &["provost-core", "provost-engine", "provost-ledger", SIMULATOR];
/// Those that are worth optimising for a short run.
pub(crate) const SIMULATED_SHORT: &[&str] = &["provost-core", SIMULATOR];

/// The workspace and what the environment says about this run.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    /// The directory for tools that the machine lacks, shared by all clones of the user.
    pub(crate) tools: PathBuf,
    /// A missing tool is a failure, never a skip.
    pub(crate) ci: bool,
    pub(crate) version: String,
    /// The features of each package.
    features: BTreeMap<String, BTreeSet<String>>,
}

impl Workspace {
    /// Asks cargo about the workspace around the current directory.
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
            features: packages.iter().filter_map(features).collect(),
        })
    }

    /// Cargo, in the workspace, with the tools of the project on its path.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = self.command(cargo_program());
        if self.ci {
            // What is built once gains nothing from being ready to be built again, and nobody debugs it.
            cargo.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "false");
        }
        cargo
    }

    /// A program, in the workspace, with the tools of the project on its path.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).env("PATH", self.search_path());
        command
    }

    /// The project's own tools first, then what the machine has.
    pub(crate) fn search_path(&self) -> OsString {
        let inherited = variable("PATH").unwrap_or_default();
        let own = [self.tools.join("bin")].into_iter();
        // The path of root after `su` lacks the programs for root.
        let for_root = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        env::join_paths(own.chain(env::split_paths(&inherited)).chain(for_root))
            .unwrap_or(inherited)
    }

    /// The target triple of this machine.
    pub(crate) fn triple(&self) -> Result<String> {
        let text = capture(self.command("rustc").arg("-vV"))?;
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        Ok(host.context("rustc does not print its host")?.to_owned())
    }

    pub(crate) fn has_feature(&self, (package, feature): (&str, &str)) -> bool {
        self.features.get(package).is_some_and(|features| features.contains(feature))
    }

    /// The features of the tests' build, as cargo takes them.
    pub(crate) fn test_features(&self) -> String {
        self.as_arguments(TEST_FEATURES)
    }

    /// All features that any test is built with.
    pub(crate) fn all_test_features(&self) -> String {
        self.as_arguments(&[TEST_FEATURES, &[SEEDED_BUGS]].concat())
    }

    fn as_arguments(&self, features: &[(&str, &str)]) -> String {
        let known = features.iter().filter(|feature| self.has_feature(**feature));
        known.map(|(package, feature)| format!("{package}/{feature}")).collect::<Vec<_>>().join(",")
    }

    /// Builds what the tests are and drive, besides the simulator, which has a build of its own. One set of
    /// packages and features for tests and documents, so that nothing is built twice.
    pub(crate) fn build_for_tests(&self) -> Result<Programs> {
        let mut cargo = self.cargo();
        cargo.args(["build", "--quiet", "--workspace", "--exclude", SIMULATOR, "--all-targets"]);
        cargo.args(["--features", &self.test_features()]);
        step("build", &mut cargo)?;
        Ok(self.programs("debug"))
    }

    /// The programs in a profile's directory.
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

/// A variable of the environment, read at this edge only.
#[expect(
    clippy::disallowed_methods,
    reason = "the edge at which the chores look at their environment"
)]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name)
}

fn cargo_program() -> OsString {
    variable("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The user's cache directory by the XDG rules: `XDG_CACHE_HOME` counts only if it is absolute.
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
