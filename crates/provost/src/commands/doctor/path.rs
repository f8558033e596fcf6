//! Checks that PATH contains the programs that Provost and its agents call.

use std::path::{Path, PathBuf};

use provost_config::{Resolved, Variable};
use rustix::fs::Access;

use provost_agent::front_end::DoctorFinding;

use crate::environment::Environment;

/// The subject of findings about the PATH of agents.
const AGENT_PATH: &str = "agent PATH";

pub(super) fn examine(environment: &Environment, config: Option<&Resolved>) -> Vec<DoctorFinding> {
    let own = environment.get("PATH").unwrap_or_default();
    let mut findings = vec![git(own), optional("tmux", own), optional("strace", own)];
    findings.push(provost("provost", "your PATH", "your PATH", own));
    findings.extend(config.into_iter().flat_map(agent_paths));
    findings
}

/// Searches PATH for a program, as a shell does.
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

/// Checks that calling `provost` starts this program. `setting` is the setting to change if another
/// program would start.
fn provost(what: &'static str, whose: &str, setting: &str, path: &str) -> DoctorFinding {
    let own = std::env::current_exe().ok();
    let fix = match own.as_deref().and_then(Path::parent) {
        Some(dir) => format!("add {} to the front of {setting}", dir.display()),
        None => format!("add the directory of provost to the front of {setting}"),
    };
    match find("provost", path) {
        None => DoctorFinding::warn(what, format!("provost is not on {whose}"), fix),
        Some(file) if same(&file, own.as_deref()) => {
            DoctorFinding::ok(what, format!("{} is on {whose}", file.display()))
        }
        Some(file) => DoctorFinding::warn(
            what,
            format!("{} on {whose} is a different provost program", file.display()),
            fix,
        ),
    }
}

fn same(file: &Path, own: Option<&Path>) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    own.is_some_and(|own| real(file) == real(own))
}

/// Checks the PATH of each agent whose configuration sets a PATH, because agents report by calling `provost`. All other
/// agents get the PATH of the command that starts them.
fn agent_paths(config: &Resolved) -> Vec<DoctorFinding> {
    let own_path = |(name, agent): (&String, &provost_config::Agent)| match agent.env.get("PATH") {
        Some(Variable::Literal(path)) => {
            let (whose, setting) =
                (format!("the PATH of agent {name}"), format!("agents.{name}.env.PATH"));
            Some(provost(AGENT_PATH, &whose, &setting, path))
        }
        Some(Variable::Reference(_)) | None => None,
    };
    let own: Vec<DoctorFinding> = config.agents.iter().filter_map(own_path).collect();
    if own.is_empty() {
        return vec![DoctorFinding::ok(AGENT_PATH, "agents get your PATH; none sets its own")];
    }
    own
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn config(text: &str) -> Resolved {
        let project = provost_config::ConfigFile { name: "x".to_owned(), text: text.to_owned() };
        let inputs = provost_config::Inputs {
            project: Some(project),
            project_is_trusted: true,
            ..provost_config::Inputs::default()
        };
        provost_config::resolve(&inputs).unwrap()
    }

    #[test]
    fn agent_path_fix_names_the_setting() {
        let inherits = agent_paths(&config(""));
        assert_eq!(inherits[0].found, "agents get your PATH; none sets its own");
        let text =
            "[agents.mine]\nadapter = \"jsonl\"\ncommand = [\"x\"]\nenv.PATH = \"/nowhere\"\n";
        let own = agent_paths(&config(text));
        assert_eq!(own.len(), 1);
        assert_eq!(own[0].found, "provost is not on the PATH of agent mine");
        let fix = own[0].fix.as_deref().unwrap();
        assert!(fix.ends_with("to the front of agents.mine.env.PATH"), "{fix}");
    }

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
