//! The configuration that holds for a directory, and the colours that follow from it.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

use provost_api::{ApiError, Code};
use provost_config::{
    Color, File, Flag, FlagValue, Inputs, LoadError, MAX_FILE_BYTES, Paths, Resolved, Source,
};
use provost_trust::Snapshot;

use crate::{
    context::Context,
    environment::Environment,
    error::{chain, usage},
    trust::{self, Asking, ProjectTrust, State},
    ui::{Paint, Wish},
};

/// The file's name, in the repository and in the user's configuration directory.
const FILE: &str = "provost.toml";

/// What a configuration is asked for.
#[derive(Clone, Default)]
pub(crate) struct Wanted<'a> {
    /// The highest layer.
    pub(crate) flags: Vec<Flag>,
    /// It counts as flags do.
    pub(crate) preset: Option<&'a str>,
    /// Whether the project's file is left out.
    pub(crate) ignores_project: bool,
    /// The project's file as the operator agreed to it, whatever stands there now.
    pub(crate) pinned: Option<&'a ProjectFile>,
}

/// A project's file as the operator agreed to it at some moment; none if there was none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectFile(Option<File>);

/// Reads the project's file for a directory. None while the operator has not agreed to the project's files.
pub(crate) fn trusted_project(
    environment: &Environment,
    cwd: &Path,
) -> Result<Option<ProjectFile>, ApiError> {
    let Some(project) = trust::of(environment, cwd) else { return Ok(Some(ProjectFile(None))) };
    match &project.state {
        State::Trusted(snapshot) => {
            Ok(Some(ProjectFile(file(&project.top, snapshot).map_err(unread)?)))
        }
        State::Untrusted(_) | State::Unsafe(_) => Ok(None),
    }
}

fn unread(why: LoadError) -> ApiError {
    chain(Code::BadRequest, "cannot read the configuration", &why)
}

/// Puts together what holds in a directory. Flags come last and win. A project's values that run something or widen
/// rights are left out until the user trusts them, so looking is safe anywhere.
pub(crate) fn load(
    environment: &Environment,
    cwd: &Path,
    flags: Vec<Flag>,
) -> Result<Resolved, ApiError> {
    load_with(environment, cwd, Wanted { flags, ..Wanted::default() })
}

/// The same with a preset, or without the project's file.
pub(crate) fn load_with(
    environment: &Environment,
    cwd: &Path,
    wanted: Wanted<'_>,
) -> Result<Resolved, ApiError> {
    let looks = !wanted.ignores_project && wanted.pinned.is_none();
    let found = if looks { trust::of(environment, cwd) } else { None };
    let (project, project_is_trusted) = match &found {
        None => (wanted.pinned.and_then(|pinned| pinned.0.clone()), wanted.pinned.is_some()),
        Some(project) => as_judged(project)?,
    };
    resolve(environment, wanted, project, project_is_trusted)
}

/// The file of a project, and whether its values that need trust count.
fn as_judged(project: &ProjectTrust) -> Result<(Option<File>, bool), ApiError> {
    Ok(match &project.state {
        State::Trusted(snapshot) => (file(&project.top, snapshot).map_err(unread)?, true),
        State::Untrusted(snapshot) => (file(&project.top, snapshot).map_err(unread)?, false),
        State::Unsafe(_) => (None, false),
    })
}

fn resolve(
    environment: &Environment,
    wanted: Wanted<'_>,
    project: Option<File>,
    project_is_trusted: bool,
) -> Result<Resolved, ApiError> {
    let paths = Paths { user: user_file(environment), project: None };
    let (user, _) = provost_config::load(&paths).map_err(unread)?;
    let inputs = Inputs {
        user,
        project,
        project_is_trusted,
        environment: environment.variables().clone(),
        flags: wanted.flags,
        preset: wanted.preset.map(str::to_owned),
    };
    provost_config::resolve(&inputs)
        .map_err(|why| usage(why.to_string()).next("provost config schema"))
}

/// The configuration of a command that starts something: the project's files are trusted, or the operator agrees to
/// them now, or it is refused. They are read once: what was judged, and shown, is what counts.
pub(crate) fn load_to_start(
    context: &Context,
    cwd: &Path,
    wanted: Wanted<'_>,
    asking: Asking,
) -> Result<Resolved, ApiError> {
    let environment = &context.environment;
    if wanted.ignores_project || wanted.pinned.is_some() {
        return load_with(environment, cwd, wanted);
    }
    let Some(project) = trust::of(environment, cwd) else {
        return resolve(environment, wanted, None, false);
    };
    // A file that cannot be read is reported as that, before anyone is asked to trust it.
    let (file, is_trusted) = as_judged(&project)?;
    resolve(environment, Wanted::default(), file.clone(), is_trusted)?;
    trust::require_project(context, project, asking)?;
    resolve(environment, wanted, file, true)
}

/// The project's file as it was judged.
fn file(top: &Path, snapshot: &Snapshot) -> Result<Option<File>, LoadError> {
    let Some(bytes) = &snapshot.config else { return Ok(None) };
    let path = top.join(FILE);
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(LoadError::TooLarge { path });
    }
    let text = String::from_utf8(bytes.clone()).map_err(|why| LoadError::NotUtf8 {
        path: path.clone(),
        valid: why.utf8_error().valid_up_to(),
    })?;
    Ok(Some(File { name: path.to_string_lossy().into_owned(), text }))
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

/// Returns the git filters that the user trusts. Only the user's own file counts; one that cannot be read trusts none.
pub(crate) fn trusted_filters(environment: &Environment) -> Vec<String> {
    let paths = Paths { user: user_file(environment), project: None };
    let Ok((user, _)) = provost_config::load(&paths) else { return Vec::new() };
    let resolved = provost_config::resolve(&Inputs { user, ..Inputs::default() });
    let filters = resolved.map(|resolved| resolved.git.filters).unwrap_or_default();
    filters.iter().map(|name| name.as_str().to_owned()).collect()
}

fn user_file(environment: &Environment) -> Option<PathBuf> {
    let config = environment.path("XDG_CONFIG_HOME");
    let config = config.or_else(|| Some(environment.path("HOME")?.join(".config")))?;
    Some(config.join("provost").join(FILE))
}

/// Gives the file in a directory that is in no repository, and so is not read: whoever can write to a place above, such
/// as `/tmp`, would say what is run.
pub(crate) fn unread_file(cwd: &Path) -> Option<PathBuf> {
    let file = cwd.join(FILE);
    (project_top(cwd).is_none() && file.is_file()).then_some(file)
}

/// The top of the checkout that a directory lies in, found without git.
pub(crate) fn project_top(cwd: &Path) -> Option<PathBuf> {
    provost_trust::find_top(cwd)
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
}
