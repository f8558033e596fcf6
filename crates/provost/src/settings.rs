//! The configuration that holds for a directory, and the colours that follow from it.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

use provost_api::{ApiError, Code};
use provost_config::{Color, Flag, FlagValue, Inputs, Paths, Resolved, Source};

use crate::{
    environment::Environment,
    error::{chain, usage},
    ui::{Paint, Wish},
};

/// The file's name, in the repository and in the user's configuration directory.
const FILE: &str = "provost.toml";

/// Puts together what holds in a directory. Flags come last and win.
pub(crate) fn load(
    environment: &Environment,
    cwd: &Path,
    flags: Vec<Flag>,
) -> Result<Resolved, ApiError> {
    load_with(environment, cwd, flags, None)
}

/// The same with a preset, which counts as flags do.
pub(crate) fn load_with(
    environment: &Environment,
    cwd: &Path,
    flags: Vec<Flag>,
    preset: Option<&str>,
) -> Result<Resolved, ApiError> {
    load_pinned(environment, flags, preset, &read_project(cwd)?)
}

/// The project's file as it was read at some moment.
#[derive(Clone, Debug)]
pub(crate) struct ProjectFile {
    /// Where it is or would be; none outside of a repository.
    pub(crate) path: Option<PathBuf>,
    pub(crate) content: Option<provost_config::File>,
}

/// Reads the project's file for a directory.
pub(crate) fn read_project(cwd: &Path) -> Result<ProjectFile, ApiError> {
    let path = project_file(cwd);
    let (_, content) = read(Paths { user: None, project: path.clone() })?;
    Ok(ProjectFile { path, content })
}

/// The same with the project's file as it was read before, whatever stands there now.
pub(crate) fn load_pinned(
    environment: &Environment,
    flags: Vec<Flag>,
    preset: Option<&str>,
    project: &ProjectFile,
) -> Result<Resolved, ApiError> {
    let (user, _) = read(Paths { user: user_file(environment), project: None })?;
    let project = project.content.clone();
    let environment = environment.variables().clone();
    let inputs = Inputs { user, project, environment, flags, preset: preset.map(str::to_owned) };
    provost_config::resolve(&inputs)
        .map_err(|why| usage(why.to_string()).next("provost config schema"))
}

type Files = (Option<provost_config::File>, Option<provost_config::File>);

fn read(paths: Paths) -> Result<Files, ApiError> {
    provost_config::load(&paths)
        .map_err(|why| chain(Code::BadRequest, "cannot read the configuration", &why))
}

/// Reads a size as the configuration does: `64MiB`, `1GB`, or whole bytes.
pub(crate) fn parse_size(flag: &str, text: &str) -> Result<u64, ApiError> {
    let inputs =
        Inputs { flags: vec![flag_text(flag, "session.output_limit", text)], ..Inputs::default() };
    let resolved = provost_config::resolve(&inputs).map_err(|why| usage(why.to_string()))?;
    Ok(resolved.session.output_limit.get())
}

/// Reads a length of time as the configuration does: `90s`, `1h30m`, or whole seconds.
pub(crate) fn parse_duration(flag: &str, text: &str) -> Result<Duration, ApiError> {
    let inputs =
        Inputs { flags: vec![flag_text(flag, "verify.time_limit", text)], ..Inputs::default() };
    // The key only lends its rules, so nothing is said of it.
    let resolved = provost_config::resolve(&inputs).map_err(|why| {
        let details: Vec<&str> = why.problems.iter().map(|one| one.detail.as_str()).collect();
        usage(format!("invalid value for {flag}; {}", details.join("; ")))
    })?;
    Ok(resolved.verify.time_limit)
}

pub(crate) fn flag_text(flag: &str, key: &str, text: &str) -> Flag {
    Flag { flag: flag.to_owned(), key: key.to_owned(), value: FlagValue::Text(text.to_owned()) }
}

pub(crate) fn flag_list(flag: &str, key: &str, texts: &[String]) -> Flag {
    Flag { flag: flag.to_owned(), key: key.to_owned(), value: FlagValue::List(texts.to_vec()) }
}

/// Gives the colours for standard output and standard error.
pub(crate) fn paints(environment: &Environment) -> (Paint, Paint) {
    let (configured, own_variable) = wished(environment);
    let no_color = environment.get("NO_COLOR").is_some() && !own_variable;
    let dumb = environment.get("TERM") == Some("dumb");
    let paint =
        |terminal: bool| Paint::by(Wish { configured, no_color, terminal: terminal && !dumb });
    (paint(std::io::stdout().is_terminal()), paint(std::io::stderr().is_terminal()))
}

/// Gives what is configured, and whether Provost's own variable says so. A configuration that cannot be
/// read is no reason not to show anything; the commands that need it report it.
fn wished(environment: &Environment) -> (Color, bool) {
    let resolved = environment.here().and_then(|cwd| load(environment, &cwd, Vec::new()));
    resolved.map_or((Color::Auto, false), |resolved| {
        let source = resolved.provenance.get("ui.color");
        (resolved.ui.color, matches!(source, Some(Source::Environment { .. })))
    })
}

fn user_file(environment: &Environment) -> Option<PathBuf> {
    let config = environment.path("XDG_CONFIG_HOME");
    let config = config.or_else(|| Some(environment.path("HOME")?.join(".config")))?;
    Some(config.join("provost").join(FILE))
}

/// Finds the file at the top of the checkout that a directory lies in, without asking git.
fn project_file(cwd: &Path) -> Option<PathBuf> {
    project_top(cwd).map(|top| top.join(FILE))
}

/// Gives the file in a directory that is in no repository, and so is not read: whoever can write to a place above, such
/// as `/tmp`, would say what is run.
pub(crate) fn unread_file(cwd: &Path) -> Option<PathBuf> {
    let file = cwd.join(FILE);
    (project_top(cwd).is_none() && file.is_file()).then_some(file)
}

pub(crate) fn project_top(cwd: &Path) -> Option<PathBuf> {
    let top = cwd.ancestors().find(|dir| is_repository(&dir.join(".git")))?;
    Some(top.to_owned())
}

/// An empty `.git` makes no repository: sandboxes leave such directories behind, in `/tmp` too.
fn is_repository(git: &Path) -> bool {
    git.is_file() || git.join("HEAD").symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_configuration() {
        assert_eq!(parse_size("--output", "64MiB").unwrap(), 64 << 20);
        let error = parse_size("--output", "64mib").unwrap_err();
        assert!(error.message.contains("did you mean \"MiB\"?"), "{}", error.message);
        assert_eq!(error.code.exit_code(), 2);
    }

    #[test]
    fn a_duration_that_is_none_names_its_flag_alone() {
        assert_eq!(parse_duration("--timeout", "1h30m").unwrap(), Duration::from_secs(5400));
        for text in ["nonsense", "0", ""] {
            let error = parse_duration("--timeout", text).unwrap_err();
            assert_eq!(error.code.exit_code(), 2, "{text}");
            assert!(error.message.contains("--timeout"), "{}", error.message);
            assert!(!error.message.contains("time_limit"), "{}", error.message);
        }
    }

    #[test]
    fn the_project_is_found_from_below() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        let found = || project_top(&dir.path().join("a/b"));
        assert_ne!(found().as_deref(), Some(dir.path()), "an empty directory is no repository");
        std::fs::write(dir.path().join(".git/HEAD"), "").unwrap();
        assert_eq!(found().as_deref(), Some(dir.path()));
        std::fs::write(dir.path().join("a/.git"), "gitdir: /x").unwrap();
        assert_eq!(found(), Some(dir.path().join("a")), "a worktree has a file");
    }
}
