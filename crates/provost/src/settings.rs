//! The effective configuration for a directory, and the colors that it selects.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

use provost_api::{ApiError, ErrorCode};
use provost_config::{
    Color, ConfigFile, ConfigPaths, FlagSetting, FlagValue, Inputs, LoadError, MAX_FILE_BYTES,
    Problem, Resolved, ValueSource,
};
use provost_trust::ProjectSnapshot;

use crate::{
    context::Context,
    environment::Environment,
    error::{chain, usage},
    trust::{self, ProjectTrust, ProjectTrustState, TrustPrompt},
    ui::{Charset, ColorInputs, Paint},
};

/// The name of the file in a repository and in the user's configuration directory.
const FILE: &str = "provost.toml";

/// The inputs of a configuration in addition to the environment and the user's file.
#[derive(Clone, Default)]
pub(crate) struct ConfigInputs<'a> {
    /// Values from flags, which are the highest layer.
    pub(crate) flags: Vec<FlagSetting>,
    /// The name of a preset. Its values rank just below explicit flags.
    pub(crate) preset: Option<&'a str>,
    /// Whether to ignore the project's file.
    pub(crate) ignores_project: bool,
    /// The version of the project's file that the operator approved, which may be older than the
    /// current content.
    pub(crate) pinned: Option<&'a ProjectFile>,
}

/// The version of a project's file that the operator approved, or `None` if the project had no
/// file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectFile(Option<ConfigFile>);

/// Reads the project's file for a directory. Returns `None` unless the operator trusts the project's files.
pub(crate) fn trusted_project(
    environment: &Environment,
    cwd: &Path,
) -> Result<Option<ProjectFile>, ApiError> {
    let Some(project) = trust::project_trust(environment, cwd) else {
        return Ok(Some(ProjectFile(None)));
    };
    match &project.state {
        ProjectTrustState::Trusted(snapshot) => {
            Ok(Some(ProjectFile(snapshot_file(&project.top, snapshot).map_err(load_error)?)))
        }
        ProjectTrustState::Untrusted(_) | ProjectTrustState::Unsafe(_) => Ok(None),
    }
}

fn load_error(why: LoadError) -> ApiError {
    chain(ErrorCode::BadRequest, "cannot read the configuration", &why)
}

/// Loads the configuration for a directory. Flags have the highest precedence. Values in a
/// project's file that run programs or widen permissions are left out until the user trusts them,
/// so this function is safe to call in any directory.
pub(crate) fn load(
    environment: &Environment,
    cwd: &Path,
    flags: Vec<FlagSetting>,
) -> Result<Resolved, ApiError> {
    load_with(environment, cwd, ConfigInputs { flags, ..ConfigInputs::default() })
}

/// Loads the configuration like [`load`], but optionally with a preset or without the project's file.
pub(crate) fn load_with(
    environment: &Environment,
    cwd: &Path,
    wanted: ConfigInputs<'_>,
) -> Result<Resolved, ApiError> {
    let looks = !wanted.ignores_project && wanted.pinned.is_none();
    let found = if looks { trust::project_trust(environment, cwd) } else { None };
    let (project, project_is_trusted) = match &found {
        None => (wanted.pinned.and_then(|pinned| pinned.0.clone()), wanted.pinned.is_some()),
        Some(project) => judged_file(project)?,
    };
    resolve(environment, wanted, project, project_is_trusted)
}

/// Returns a project's file, and whether the project is trusted.
fn judged_file(project: &ProjectTrust) -> Result<(Option<ConfigFile>, bool), ApiError> {
    Ok(match &project.state {
        ProjectTrustState::Trusted(snapshot) => {
            (snapshot_file(&project.top, snapshot).map_err(load_error)?, true)
        }
        ProjectTrustState::Untrusted(snapshot) => {
            (snapshot_file(&project.top, snapshot).map_err(load_error)?, false)
        }
        ProjectTrustState::Unsafe(_) => (None, false),
    })
}

/// Returns the problems that a project's file would cause if it were trusted. Problems in other
/// layers are not included.
pub(crate) fn project_problems(
    environment: &Environment,
    top: &Path,
    snapshot: &ProjectSnapshot,
) -> Option<String> {
    let file = match snapshot_file(top, snapshot) {
        Ok(file) => file?,
        Err(why) => return Some(load_error(why).message),
    };
    let paths = ConfigPaths { user: user_file(environment), project: None };
    let inputs = Inputs {
        // The project's file may change an agent that is defined in the user's own file.
        user: provost_config::load(&paths).ok().and_then(|(user, _)| user),
        project: Some(file),
        project_is_trusted: true,
        environment: environment.variables().clone(),
        ..Inputs::default()
    };
    let mut why = provost_config::resolve(&inputs).err()?;
    why.problems.retain(|problem| matches!(problem.source, ValueSource::Project(_)));
    (!why.problems.is_empty()).then(|| why.to_string())
}

fn resolve(
    environment: &Environment,
    wanted: ConfigInputs<'_>,
    project: Option<ConfigFile>,
    project_is_trusted: bool,
) -> Result<Resolved, ApiError> {
    let paths = ConfigPaths { user: user_file(environment), project: None };
    let (user, _) = provost_config::load(&paths).map_err(load_error)?;
    let inputs = Inputs {
        user,
        project,
        project_is_trusted,
        environment: environment.variables().clone(),
        flags: wanted.flags,
        preset: wanted.preset.map(str::to_owned),
    };
    provost_config::resolve(&inputs).map_err(|why| {
        let is_flag = |one: &Problem| matches!(one.source, ValueSource::Flag { .. });
        let error = usage(why.to_string());
        // The schema describes the keys in files, but not the flags.
        if why.problems.iter().all(is_flag) { error } else { error.next("provost config schema") }
    })
}

/// Loads the configuration for a command that starts something. The command fails unless the
/// project's files are trusted or the operator agrees to trust them now. The files are read only
/// once, so the content that was checked and displayed is the content that is used.
pub(crate) fn load_to_start(
    context: &Context,
    cwd: &Path,
    wanted: ConfigInputs<'_>,
    asking: TrustPrompt,
) -> Result<Resolved, ApiError> {
    let environment = &context.environment;
    if wanted.ignores_project || wanted.pinned.is_some() {
        return load_with(environment, cwd, wanted);
    }
    let Some(project) = trust::project_trust(environment, cwd) else {
        return resolve(environment, wanted, None, false);
    };
    // If the file is invalid, report that before asking the user to trust it.
    let (file, is_trusted) = judged_file(&project)?;
    resolve(environment, ConfigInputs::default(), file.clone(), is_trusted)?;
    trust::require_project(context, project, asking)?;
    resolve(environment, wanted, file, true)
}

/// Returns the project's file from the snapshot that was checked.
fn snapshot_file(top: &Path, snapshot: &ProjectSnapshot) -> Result<Option<ConfigFile>, LoadError> {
    let Some(bytes) = &snapshot.config else { return Ok(None) };
    let path = top.join(FILE);
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(LoadError::TooLarge { path });
    }
    let text = String::from_utf8(bytes.clone()).map_err(|why| LoadError::NotUtf8 {
        path: path.clone(),
        valid: why.utf8_error().valid_up_to(),
    })?;
    Ok(Some(ConfigFile { name: path.to_string_lossy().into_owned(), text }))
}

/// Parses a size in the same way as the configuration: `64MiB`, `1GB`, or whole bytes.
pub(crate) fn parse_size(flag: &str, text: &str) -> Result<u64, ApiError> {
    let inputs =
        Inputs { flags: vec![flag_text(flag, "session.output_limit", text)], ..Inputs::default() };
    let resolved = provost_config::resolve(&inputs).map_err(|why| usage(why.to_string()))?;
    Ok(resolved.session.output_limit.get())
}

/// Parses a duration in the same way as the configuration: `90s`, `1h30m`, or whole seconds.
pub(crate) fn parse_duration(flag: &str, text: &str) -> Result<Duration, ApiError> {
    let inputs =
        Inputs { flags: vec![flag_text(flag, "verify.time_limit", text)], ..Inputs::default() };
    let resolved = provost_config::resolve(&inputs).map_err(|why| usage(why.to_string()))?;
    Ok(resolved.verify.time_limit)
}

pub(crate) fn flag_text(flag: &str, key: &str, text: &str) -> FlagSetting {
    FlagSetting {
        flag: flag.to_owned(),
        key: key.to_owned(),
        value: FlagValue::Text(text.to_owned()),
    }
}

pub(crate) fn flag_list(flag: &str, key: &str, texts: &[String]) -> FlagSetting {
    FlagSetting {
        flag: flag.to_owned(),
        key: key.to_owned(),
        value: FlagValue::List(texts.to_vec()),
    }
}

/// Returns the colors for standard output and standard error.
pub(crate) fn paints(environment: &Environment, flag: Option<Color>) -> (Paint, Paint) {
    let (configured, is_own) =
        flag.map_or_else(|| configured_color(environment), |color| (color, true));
    let no_color = environment.get("NO_COLOR").is_some() && !is_own;
    let dumb = environment.get("TERM") == Some("dumb");
    let forced = environment.get("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    let charset = charset(environment);
    let paint = |terminal: bool| {
        let terminal = terminal && !dumb;
        let wish = ColorInputs { configured, no_color, forced, terminal };
        Paint::from_inputs(wish).with_charset(charset)
    };
    (paint(std::io::stdout().is_terminal()), paint(std::io::stderr().is_terminal()))
}

/// Returns the characters of the user's locale. If no variable names a locale, Unicode is assumed.
fn charset(environment: &Environment) -> Charset {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| environment.get(name));
    match locale {
        Some("C" | "POSIX") => Charset::Ascii,
        Some(_) | None => Charset::Unicode,
    }
}

/// Returns the configured color mode, and whether Provost's own variable sets it. Ignores a
/// configuration that cannot be read, because the commands that need the configuration report that
/// error.
fn configured_color(environment: &Environment) -> (Color, bool) {
    let resolved = environment.current_dir().and_then(|cwd| load(environment, &cwd, Vec::new()));
    resolved.map_or((Color::Auto, false), |resolved| {
        let source = resolved.provenance.get("ui.color");
        (resolved.ui.color, matches!(source, Some(ValueSource::Environment { .. })))
    })
}

/// Returns the git filters that the user trusts. Only the user's own file is considered. If it
/// cannot be read, no filter is trusted.
pub(crate) fn trusted_filters(environment: &Environment) -> Vec<String> {
    let paths = ConfigPaths { user: user_file(environment), project: None };
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

/// Returns the `provost.toml` that is ignored because its directory is not in a repository. If such
/// files were read, anyone who can write to a parent directory such as `/tmp` could decide which
/// programs run.
pub(crate) fn ignored_file(cwd: &Path) -> Option<PathBuf> {
    let file = cwd.join(FILE);
    (project_top(cwd).is_none() && file.is_file()).then_some(file)
}

/// Returns the top of the checkout that contains a directory, without running git.
pub(crate) fn project_top(cwd: &Path) -> Option<PathBuf> {
    provost_trust::find_top(cwd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_like_the_configuration() {
        assert_eq!(parse_size("--output", "64MiB").unwrap(), 64 << 20);
        let error = parse_size("--output", "64mib").unwrap_err();
        assert!(error.message.contains("did you mean \"MiB\"?"), "{}", error.message);
        assert_eq!(error.code.exit_code(), 2);
        let error = parse_size("--output", "banana").unwrap_err().message;
        let expected =
            "invalid value for --output; \"banana\" is not a size: expected a number such as 64MiB";
        assert_eq!(error, expected);
    }

    #[test]
    fn invalid_duration_names_only_its_flag() {
        assert_eq!(parse_duration("--timeout", "1h30m").unwrap(), Duration::from_secs(5400));
        for text in ["nonsense", "0", ""] {
            let error = parse_duration("--timeout", text).unwrap_err();
            assert_eq!(error.code.exit_code(), 2, "{text}");
            assert!(error.message.contains("--timeout"), "{}", error.message);
            assert!(!error.message.contains("time_limit"), "{}", error.message);
        }
    }
}
