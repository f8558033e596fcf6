//! Checks of Codex: which candidates there are, which one is selected and why, and whether its sandbox works.

use std::path::{Path, PathBuf};

use provost_agent::front_end::{DoctorFinding, FrontEndContext};

use super::setup::CodexSetup;
use crate::{
    CandidateStatus, CodexCandidate, CodexProgram, Preflight, find_codex,
    locate::{self, FLOOR},
    preflight,
};

/// The command that installs Codex.
const INSTALL_COMMAND: &str = "npm install -g @openai/codex";

pub(super) fn examine(context: &FrontEndContext<'_>, home: Option<&Path>) -> Vec<DoctorFinding> {
    let setup = match CodexSetup::new(context) {
        Ok(setup) => setup,
        Err(error) => {
            return vec![DoctorFinding::warn("codex", error.message, "export HOME=DIRECTORY")];
        }
    };
    if setup.is_named_by_project() && !context.runs_project_programs {
        let named = setup
            .explicit_program()
            .map_or_else(String::new, |named| format!(" {}", named.path.display()));
        let found = format!(
            "set by the project's provost.toml{named}; `doctor` never runs programs that are configured by a repository"
        );
        return vec![DoctorFinding::ok("codex", found)];
    }
    let temporary = context.absolute_path("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    let (mut findings, chosen) = candidates(&setup);
    findings.extend(codex_home(&setup));
    if let Some(codex) = chosen {
        findings.extend(login(&setup));
        findings.push(sandbox(&setup, &codex, &temporary));
        findings.extend(home.and_then(|home| temporary_home(home, &temporary)));
    }
    findings
}

/// Describes every candidate, and returns the one that a session would use. Because Codex is
/// optional, reports a failure only if the configured Codex is unusable.
fn candidates(setup: &CodexSetup<'_>) -> (Vec<DoctorFinding>, Option<CodexProgram>) {
    let search = setup.search_environment();
    let named = setup.explicit_program();
    let seen = match &named {
        None => locate::survey(&search),
        Some(_) => find_codex(named.as_ref(), &search).map(|found| found.candidates),
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            let fix = "correct the path, or remove it to use the newest Codex found";
            return (vec![DoctorFinding::fail("codex", why.to_string(), fix)], None);
        }
    };
    let chosen = seen.iter().find(|seen| seen.status == CandidateStatus::Chosen);
    let chosen = chosen.and_then(|chosen| chosen.codex.clone().ok());
    let findings = if seen.is_empty() {
        vec![DoctorFinding::ok(
            "codex",
            format!("not installed (optional); to use --agent codex, run `{INSTALL_COMMAND}`"),
        )]
    } else {
        seen.iter().map(|candidate| describe_candidate(candidate, chosen.is_some())).collect()
    };
    (findings, chosen)
}

/// Describes a candidate. An unusable one is a warning only if no other candidate was chosen.
fn describe_candidate(candidate: &CodexCandidate, some_is_chosen: bool) -> DoctorFinding {
    let path = candidate.path.display();
    let also: Vec<String> =
        candidate.aliases.iter().map(|path| path.display().to_string()).collect();
    let also = if also.is_empty() { String::new() } else { format!(" (also {})", also.join(", ")) };
    match (&candidate.codex, candidate.status) {
        (Ok(codex), CandidateStatus::Chosen) => DoctorFinding::ok(
            "codex",
            format!("{path}{also}: {}, used by --agent codex", codex.version),
        ),
        (Ok(codex), CandidateStatus::NotNewest | CandidateStatus::Unusable) => DoctorFinding::ok(
            "codex",
            format!(
                "{path}{also}: {}, not used because a newer version is installed",
                codex.version
            ),
        ),
        (Err(fault), _) if some_is_chosen => {
            DoctorFinding::ok("codex", format!("{path}{also}: not usable: {fault}"))
        }
        (Err(fault), _) => DoctorFinding::warn(
            "codex",
            format!("{path}{also}: not usable: {fault}"),
            format!("install a usable Codex (>= {FLOOR}) with `{INSTALL_COMMAND}`"),
        ),
    }
}

/// Checks that a configured home exists.
fn codex_home(setup: &CodexSetup<'_>) -> Option<DoctorFinding> {
    let error = setup.codex_home().err()?;
    Some(DoctorFinding::fail(
        "codex home",
        error.message,
        "correct the path, or remove it to use ~/.codex",
    ))
}

/// Checks the login, because the first turn fails without one. A missing home is reported by `codex_home`.
fn login(setup: &CodexSetup<'_>) -> Option<DoctorFinding> {
    setup.codex_home().ok()?;
    Some(match setup.login_problem(&|_| false) {
        Ok(None) => DoctorFinding::ok(
            "codex login",
            "sessions have the credentials that their model provider needs",
        ),
        Ok(Some(missing)) => DoctorFinding::warn("codex login", missing.problem, missing.fix),
        Err(error) => {
            DoctorFinding::fail("codex login", error.message, "correct Codex's config.toml")
        }
    })
}

/// Checks that the sandbox works, because Codex reports a broken one only to its model.
fn sandbox(setup: &CodexSetup<'_>, codex: &CodexProgram, temporary: &Path) -> DoctorFinding {
    match preflight(codex, &setup.search_environment(), temporary) {
        Ok(Preflight::Works) => DoctorFinding::ok("sandbox", "works"),
        Ok(Preflight::Broken(broken)) => {
            let output = if broken.output.is_empty() {
                String::new()
            } else {
                format!(": {}", broken.output)
            };
            let found = format!("Codex cannot run any command in its sandbox{output}");
            DoctorFinding::warn("sandbox", found, broken.reason.advice())
        }
        Err(why) => DoctorFinding::warn(
            "sandbox",
            format!("could not be tested: {why}"),
            "run `codex sandbox -- true` to see the error",
        ),
    }
}

/// Warns if the home is in a temporary directory, because all sandboxed commands can write to
/// temporary directories.
fn temporary_home(home: &Path, temporary: &Path) -> Option<DoctorFinding> {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let within = [temporary, Path::new("/tmp")].iter().any(|dir| real(home).starts_with(real(dir)));
    within.then(|| {
        DoctorFinding::warn(
            "codex home",
            "PROVOST_HOME is in a temporary directory, where Codex creates no helper programs and sandboxed commands can write",
            "export PROVOST_HOME=DIRECTORY, where DIRECTORY is not a temporary directory",
        )
    })
}

#[cfg(test)]
mod tests {
    use provost_agent::front_end::FindingLevel;

    use super::*;

    #[test]
    fn temporary_home_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            temporary_home(&dir.path().join("p"), dir.path()).unwrap().level,
            FindingLevel::Warn
        );
        assert!(temporary_home(Path::new("/srv/p"), dir.path()).is_none());
        assert!(temporary_home(Path::new("/tmp/p"), Path::new("/elsewhere")).is_some());
    }
}
