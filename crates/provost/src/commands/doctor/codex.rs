//! Codex: the candidates, which one is chosen and why, and whether its sandbox works.

use std::path::{Path, PathBuf};

use provost_agents::{
    Candidate, Codex, Preflight, Standing,
    find::{self, FLOOR},
    preflight,
};
use provost_config::Resolved;

use crate::{codex::Setup, context::Context, ui::Finding};

/// The command that installs Codex.
const GET: &str = "npm install -g @openai/codex";

pub(super) fn examine(context: &Context, config: &Resolved) -> Vec<Finding> {
    let setup = context
        .environment
        .here()
        .and_then(|cwd| Setup::to_look(&context.environment, config, &cwd));
    let setup = match setup {
        Ok(setup) => setup,
        Err(error) => return vec![Finding::warn("codex", error.message, "export HOME=DIRECTORY")],
    };
    if setup.is_named_by_project() {
        let named =
            setup.explicit().map_or_else(String::new, |named| format!(" {}", named.path.display()));
        let found = format!(
            "the project's provost.toml names it{named}; doctor runs no program that a repository names"
        );
        return vec![Finding::ok("codex", found)];
    }
    let temporary = context.environment.path("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    let (mut findings, chosen) = candidates(&setup);
    findings.extend(codex_home(&setup));
    if let Some(codex) = chosen {
        findings.extend(login(&setup));
        findings.push(sandbox(&setup, &codex, &temporary));
        findings.extend(context.home().ok().and_then(|home| reach(&home.path, &temporary)));
    }
    findings
}

/// Describes every candidate and returns the one a session would use. Only a Codex that is configured but unusable is a
/// failure, because Codex is optional.
fn candidates(setup: &Setup<'_>) -> (Vec<Finding>, Option<Codex>) {
    let around = setup.surroundings();
    let named = setup.explicit();
    let seen = match &named {
        None => find::survey(&around),
        Some(_) => {
            provost_agents::find_codex(named.as_ref(), &around).map(|found| found.candidates)
        }
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            let fix = "correct the path, or leave it out to use the newest Codex found";
            return (vec![Finding::fail("codex", format!("cannot {why}"), fix)], None);
        }
    };
    let chosen = seen.iter().find(|seen| seen.standing == Standing::Chosen);
    let chosen = chosen.and_then(|chosen| chosen.codex.clone().ok());
    let told = if seen.is_empty() {
        vec![Finding::ok("codex", format!("not found; install it with `{GET}`"))]
    } else {
        seen.iter().map(|candidate| told(candidate, chosen.is_some())).collect()
    };
    (told, chosen)
}

/// Describes one candidate. An unusable one is a warning only if no other is chosen.
fn told(candidate: &Candidate, some_is_chosen: bool) -> Finding {
    let path = candidate.path.display();
    let also: Vec<String> = candidate.also.iter().map(|path| path.display().to_string()).collect();
    let also = if also.is_empty() { String::new() } else { format!(" (also {})", also.join(", ")) };
    match (&candidate.codex, candidate.standing) {
        (Ok(codex), Standing::Chosen) => {
            Finding::ok("codex", format!("{path}{also}: {}, used by --agent codex", codex.version))
        }
        (Ok(codex), Standing::NotNewest | Standing::Unusable) => Finding::ok(
            "codex",
            format!("{path}{also}: {}, not used: it is not the newest", codex.version),
        ),
        (Err(fault), _) if some_is_chosen => {
            Finding::ok("codex", format!("{path}{also}: not usable: {fault}"))
        }
        (Err(fault), _) => Finding::warn(
            "codex",
            format!("{path}{also}: not usable: {fault}"),
            format!("install a usable one (>= {FLOOR}) with {GET}"),
        ),
    }
}

/// Checks that a configured home exists.
fn codex_home(setup: &Setup<'_>) -> Option<Finding> {
    let error = setup.codex_home().err()?;
    Some(Finding::fail("codex home", error.message, "correct it, or leave it out to use ~/.codex"))
}

/// Checks the login; without one the first turn fails. A missing home is reported by `codex_home`.
fn login(setup: &Setup<'_>) -> Option<Finding> {
    setup.codex_home().ok()?;
    Some(match setup.lacks_login(&|_| false) {
        Ok(None) => Finding::ok(
            "codex login",
            "sessions have the credentials that the model provider needs",
        ),
        Ok(Some(missing)) => Finding::warn("codex login", missing.found, missing.fix),
        Err(error) => Finding::fail("codex login", error.message, "correct Codex's config.toml"),
    })
}

/// Checks the sandbox, because Codex reports a broken one only to its model.
fn sandbox(setup: &Setup<'_>, codex: &Codex, temporary: &Path) -> Finding {
    match preflight(codex, &setup.surroundings(), temporary) {
        Ok(Preflight::Works) => Finding::ok("sandbox", "works"),
        Ok(Preflight::Broken(broken)) => {
            let said =
                if broken.said.is_empty() { String::new() } else { format!(": {}", broken.said) };
            let found = format!("Codex cannot run any command in its sandbox{said}");
            Finding::warn("sandbox", found, broken.reason.advice())
        }
        Err(why) => Finding::warn(
            "sandbox",
            format!("could not be tested: {why}"),
            "try `codex sandbox -- true` by hand",
        ),
    }
}

/// Warns about a home among temporary files, which every sandboxed command can write to.
fn reach(home: &Path, temporary: &Path) -> Option<Finding> {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let within = [temporary, Path::new("/tmp")].iter().any(|dir| real(home).starts_with(real(dir)));
    within.then(|| {
        Finding::warn(
            "codex home",
            "PROVOST_HOME is in a temporary directory: Codex creates no helper programs there, and sandboxed commands can write to it",
            "export PROVOST_HOME=DIRECTORY elsewhere",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Level;

    #[test]
    fn a_home_among_temporary_files_is_within_reach() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(reach(&dir.path().join("p"), dir.path()).unwrap().level, Level::Warn);
        assert!(reach(Path::new("/srv/p"), dir.path()).is_none());
        assert!(reach(Path::new("/tmp/p"), Path::new("/elsewhere")).is_some());
    }
}
