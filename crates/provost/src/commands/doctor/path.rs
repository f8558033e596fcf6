//! Checks that the programs that Provost and its agents call are on PATH.

use std::path::{Path, PathBuf};

use provost_config::{Resolved, Variable};
use rustix::fs::Access;

use crate::{environment::Environment, ui::DoctorFinding};

pub(super) fn examine(environment: &Environment, config: Option<&Resolved>) -> Vec<DoctorFinding> {
    let own = environment.get("PATH").unwrap_or_default();
    let mut findings = vec![git(own), optional("tmux", own), optional("strace", own)];
    findings.push(provost("provost", "your PATH", own));
    findings.push(provost("agent PATH", "a spawned agent's PATH", own));
    findings.extend(config.into_iter().flat_map(agent_paths));
    findings
}

/// Finds a program in the way a shell does.
fn find(program: &str, path: &str) -> Option<PathBuf> {
    let candidates = std::env::split_paths(path).map(|dir| dir.join(program));
    candidates
        .into_iter()
        .find(|file| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok())
}

fn git(path: &str) -> DoctorFinding {
    match find("git", path) {
        Some(file) => DoctorFinding::ok("git", file.display().to_string()),
        None => DoctorFinding::fail(
            "git",
            "not found on PATH; checks and worktrees need git",
            "install git",
        ),
    }
}

fn optional(program: &'static str, path: &str) -> DoctorFinding {
    match find(program, path) {
        Some(file) => DoctorFinding::ok(program, file.display().to_string()),
        None => DoctorFinding::ok(program, "not found (optional)"),
    }
}

/// Checks that agents would find the same `provost` program, because they report by calling it.
fn provost(what: &'static str, whose: &str, path: &str) -> DoctorFinding {
    let own = std::env::current_exe().ok();
    let fix = match own.as_deref().and_then(Path::parent) {
        Some(dir) => format!("add {} to PATH", dir.display()),
        None => "add the directory of provost to PATH".to_owned(),
    };
    match find("provost", path) {
        None => DoctorFinding::warn(what, format!("provost is not on {whose}"), fix),
        Some(file) if same(&file, own.as_deref()) => {
            DoctorFinding::ok(what, format!("{} is on {whose}", file.display()))
        }
        Some(file) => DoctorFinding::warn(
            what,
            format!("{} on {whose} is a different provost from this one", file.display()),
            fix,
        ),
    }
}

fn same(file: &Path, own: Option<&Path>) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    own.is_some_and(|own| real(file) == real(own))
}

/// Checks the PATH of each agent whose configuration sets one.
fn agent_paths(config: &Resolved) -> Vec<DoctorFinding> {
    let own_path = |(name, agent): (&String, &provost_config::Agent)| match agent.env.get("PATH") {
        Some(Variable::Literal(path)) => {
            Some(provost("agent PATH", &format!("the PATH of agent {name}"), path))
        }
        Some(Variable::Reference(_)) | None => None,
    };
    config.agents.iter().filter_map(own_path).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn find_ignores_non_executables() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir_all(first.join("tool")).unwrap();
        fs::create_dir(&second).unwrap();
        fs::write(second.join("tool"), "").unwrap();
        let path = format!("{}:{}", first.display(), second.display());
        assert_eq!(find("tool", &path), None);
        fs::set_permissions(second.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("tool", &path), Some(second.join("tool")));
    }
}
