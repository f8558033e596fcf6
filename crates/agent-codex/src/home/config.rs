//! Builds the `config.toml` of a session from the user's file, adapted so that it is quiet and safe
//! to use in another home.
//!
//! Later layers override earlier ones:
//!
//! 1. [`QUIET`]: defaults without which Codex accesses the network or runs a login shell for every
//!    thread; the user's own setting takes precedence;
//! 2. the user's `config.toml`, with relative paths made absolute, because Codex resolves them
//!    relative to the file;
//! 3. [`FORCED`] and [`DROPPED`]: settings that would not work in a supervised session, including
//!    those in the user's profiles;
//! 4. the trust level of the worktree, which Codex would otherwise write itself. The levels of
//!    other projects are dropped, because Codex would apply the level of the repository's main
//!    checkout to the worktree;
//! 5. the MCP server that provides the supervisor's tools, if it is used. It replaces a server of
//!    the user that has the same name, and its instructions follow the user's developer
//!    instructions;
//! 6. the session's own settings.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::ToolServer;

/// Defaults that keep Codex from accessing the network and starting shells.
pub const QUIET: [(&str, FixedSetting); 3] = [
    ("analytics.enabled", FixedSetting::Off),
    ("otel.metrics_exporter", FixedSetting::Text("none")),
    ("features.shell_snapshot", FixedSetting::Off),
];

/// Settings that a session needs even if the user's file sets them differently. They prevent
/// updates of the running program, downloads of plugins, and a Codex daemon that would outlive the
/// session.
pub const FORCED: [(&str, FixedSetting); 3] = [
    ("check_for_update_on_startup", FixedSetting::Off),
    ("features.plugins", FixedSetting::Off),
    ("features.daemon_auto_start", FixedSetting::Off),
];

/// Settings that would make Codex write outside of the session's home.
pub const DROPPED: [&str; 2] = ["sqlite_home", "log_dir"];

/// Settings in the user's file that may contain paths. `*` matches every key or element.
const PATHS: [&str; 15] = [
    "agents.*.config_file",
    "experimental_compact_prompt_file",
    "experimental_instructions_file",
    "model_catalog_json",
    "model_instructions_file",
    "model_providers.*.auth.cwd",
    "otel.*.*.tls.ca-certificate",
    "otel.*.*.tls.client-certificate",
    "otel.*.*.tls.client-private-key",
    "profiles.*.experimental_compact_prompt_file",
    "profiles.*.experimental_instructions_file",
    "profiles.*.model_catalog_json",
    "profiles.*.model_instructions_file",
    "sandbox_workspace_write.writable_roots.*",
    "skills.config.*.path",
];

/// The setting that selects where Codex stores credentials.
const AUTH_STORE: &str = "cli_auth_credentials_store";

/// The setting that contains additional instructions to the model.
const INSTRUCTIONS: &str = "developer_instructions";

/// The startup timeout of the tool server, in seconds. It is long because a busy machine starts the
/// server slowly.
const TOOLS_START_S: i64 = 60;

const HEADER: &str =
    "# Written by Provost for one session at each launch: changes here are lost.\n\n";

/// A value that Provost sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FixedSetting {
    Off,
    Text(&'static str),
}

/// Whether Codex reads a repository's own settings, servers, hooks and rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepositoryTrust {
    Trusted,
    Untrusted,
    /// The level in the user's own settings. Without one, Codex asks the user on its screen.
    UserDefault,
    /// Codex asks the user on its screen.
    AskUser,
}

/// The user's configuration file.
#[derive(Debug)]
pub struct UserConfig {
    pub path: PathBuf,
    pub text: String,
}

/// The inputs from which a session's configuration file is built.
#[derive(Debug)]
pub struct ConfigRequest<'a> {
    pub user: Option<&'a UserConfig>,
    pub worktree: &'a Path,
    /// The root of the checkout.
    pub root: &'a Path,
    pub trust: RepositoryTrust,
    /// Whether `auth.json` was carried over.
    pub auth_is_a_file: bool,
    pub tools: Option<&'a ToolServer>,
    pub settings: &'a Table,
}

/// A session's configuration file.
#[derive(Debug)]
pub struct SessionConfig {
    pub text: String,
    /// The user's settings that do not apply in the session, each with the reason.
    pub changed: Vec<(String, &'static str)>,
    /// Whether the user's file configures a keyring for credentials.
    pub keeps_auth_elsewhere: bool,
}

/// The reason why a session's configuration file could not be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}, line {line}: {why}", .path.display())]
    Malformed { path: PathBuf, line: usize, why: String },
    #[error("cannot set `{key}`: `{at}` is not a table in the user's config.toml")]
    NotATable { key: String, at: String },
    #[error("cannot use {}: its path is not UTF-8", .path.display())]
    NotText { path: PathBuf },
    #[error("cannot write the session's config.toml")]
    Write(#[from] toml::ser::Error),
}

/// Returns the text of a session's `config.toml`.
pub fn build_config(request: &ConfigRequest<'_>) -> Result<SessionConfig, Error> {
    let mut table = request.user.map_or_else(|| Ok(Table::new()), parse)?;
    let mut changed = Vec::new();
    let keeps_auth_elsewhere = uses_keyring(&table);
    if let Some(base) = request.user.and_then(|user| user.path.parent()) {
        PATHS.iter().for_each(|path| make_paths_absolute(&mut table, path, base));
    }
    for (key, setting) in QUIET {
        if get(&table, key).is_none() {
            set(&mut table, key, setting.value())?;
        }
    }
    force(&mut table, &mut changed)?;
    if request.auth_is_a_file {
        // If the session used any other store, a refreshed token would not reach the user.
        set(&mut table, AUTH_STORE, "file".into())?;
    }
    set_trust(&mut table, request)?;
    if let Some(tools) = request.tools {
        add_tools(&mut table, tools, &mut changed)?;
    }
    merge(&mut table, request.settings);
    let text = format!("{HEADER}{}", toml::to_string(&table)?);
    Ok(SessionConfig { text, changed, keeps_auth_elsewhere })
}

pub(super) fn parse(user: &UserConfig) -> Result<Table, Error> {
    user.text.parse::<Table>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = user.text.as_bytes().iter().take(start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Error::Malformed { path: user.path.clone(), line, why: error.message().to_owned() }
    })
}

fn force(table: &mut Table, changed: &mut Vec<(String, &'static str)>) -> Result<(), Error> {
    for (key, setting) in FORCED {
        if get(table, key).is_some_and(|users| *users != setting.value()) {
            changed.push((key.to_owned(), "the setting is turned off in supervised sessions"));
        }
        set(table, key, setting.value())?;
    }
    for key in DROPPED {
        if table.remove(key).is_some() {
            changed.push((key.to_owned(), "a session stores its files in its own home"));
        }
    }
    let forced = FORCED.iter().map(|(key, _)| *key).chain(DROPPED);
    let profiles = table.get_mut("profiles").and_then(Value::as_table_mut);
    let profiles: Vec<(&String, &mut Table)> = profiles.map_or_else(Vec::new, |profiles| {
        profiles
            .iter_mut()
            .filter_map(|(name, value)| Some((name, value.as_table_mut()?)))
            .collect()
    });
    for (name, profile) in profiles {
        for key in forced.clone() {
            if remove(profile, key) {
                let key = format!("profiles.{name}.{key}");
                changed.push((key, "a profile cannot change this setting in supervised sessions"));
            }
        }
    }
    Ok(())
}

/// Whether the user's own Codex configuration trusts a directory.
pub fn trusts(codex_home: &Path, directory: &Path) -> Result<bool, super::Error> {
    let path = codex_home.join("config.toml");
    let Some(text) = super::files::read_text(&path)? else { return Ok(false) };
    let table = parse(&UserConfig { path, text })?;
    let Some(name) = directory.to_str() else { return Ok(false) };
    let project = table.get("projects").and_then(|projects| projects.get(name));
    let level = project.and_then(|project| project.get("trust_level"));
    Ok(level.and_then(Value::as_str) == Some("trusted"))
}

/// Sets the trust level. Codex looks for the level of the working directory, then of the checkout's
/// root, then of the repository's main checkout. Therefore the first two are set, and all others
/// are dropped.
fn set_trust(table: &mut Table, request: &ConfigRequest<'_>) -> Result<(), Error> {
    let level = match request.trust {
        RepositoryTrust::Trusted => "trusted",
        RepositoryTrust::Untrusted => "untrusted",
        RepositoryTrust::UserDefault => return Ok(()),
        RepositoryTrust::AskUser => {
            table.remove("projects");
            return Ok(());
        }
    };
    let mut projects = Table::new();
    for directory in [request.root, request.worktree] {
        let name =
            directory.to_str().ok_or_else(|| Error::NotText { path: directory.to_owned() })?;
        let project = Table::from_iter([("trust_level".to_owned(), Value::from(level))]);
        projects.insert(name.to_owned(), project.into());
    }
    table.insert("projects".into(), projects.into());
    Ok(())
}

fn add_tools(
    table: &mut Table,
    tools: &ToolServer,
    changed: &mut Vec<(String, &'static str)>,
) -> Result<(), Error> {
    let not_text = || Error::NotText { path: tools.command.clone() };
    let command = tools.command.to_str().ok_or_else(not_text)?;
    let server = Table::from_iter([
        ("command".to_owned(), Value::from(command)),
        ("args".to_owned(), tools.arguments.clone().into()),
        ("env_vars".to_owned(), tools.variables.clone().into()),
        // An agent's reports to its supervisor need no approval.
        ("default_tools_approval_mode".to_owned(), "approve".into()),
        ("startup_timeout_sec".to_owned(), TOOLS_START_S.into()),
    ]);
    let servers = child(table, "mcp_servers", "mcp_servers")?;
    if servers.insert(tools.name.clone(), server.into()).is_some() {
        let key = format!("mcp_servers.{}", tools.name);
        changed.push((key, "the supervisor's tools use this name"));
    }
    let users = table.get(INSTRUCTIONS).and_then(Value::as_str);
    let prefix = users.map_or_else(String::new, |users| format!("{users}\n\n"));
    table.insert(INSTRUCTIONS.into(), format!("{prefix}{}", tools.instructions).into());
    Ok(())
}

pub(super) fn uses_keyring(table: &Table) -> bool {
    let store = table.get(AUTH_STORE).and_then(Value::as_str);
    store.is_some_and(|store| store != "file")
}

impl FixedSetting {
    fn value(self) -> Value {
        match self {
            Self::Off => Value::Boolean(false),
            Self::Text(text) => text.into(),
        }
    }
}

fn get<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        None => table.get(key),
        Some((first, rest)) => get(table.get(first)?.as_table()?, rest),
    }
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<(), Error> {
    let (parents, last) = key.rsplit_once('.').map_or((None, key), |(up, last)| (Some(up), last));
    let mut table = table;
    for name in parents.into_iter().flat_map(|parents| parents.split('.')) {
        table = child(table, name, key)?;
    }
    table.insert(last.into(), value);
    Ok(())
}

fn remove(table: &mut Table, key: &str) -> bool {
    match key.split_once('.') {
        None => table.remove(key).is_some(),
        Some((first, rest)) => {
            let inner = table.get_mut(first).and_then(Value::as_table_mut);
            inner.is_some_and(|inner| remove(inner, rest))
        }
    }
}

fn child<'a>(table: &'a mut Table, name: &str, key: &str) -> Result<&'a mut Table, Error> {
    let value = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
    let not_a_table = || Error::NotATable { key: key.to_owned(), at: name.to_owned() };
    value.as_table_mut().ok_or_else(not_a_table)
}

/// Merges one table into another. Nested tables are merged recursively, and other values are
/// replaced.
fn merge(below: &mut Table, above: &Table) {
    for (key, value) in above {
        match (below.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            _ => {
                below.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Makes relative paths in settings that match a pattern absolute.
fn make_paths_absolute(table: &mut Table, pattern: &str, base: &Path) {
    let (first, rest) = pattern.split_once('.').map_or((pattern, None), |(a, b)| (a, Some(b)));
    for (_, value) in table.iter_mut().filter(|(key, _)| first == "*" || *key == first) {
        make_value_absolute(value, rest, base);
    }
}

fn make_value_absolute(value: &mut Value, rest: Option<&str>, base: &Path) {
    match (value, rest) {
        (Value::String(text), None) => *text = absolute(text, base),
        (Value::Table(table), Some(rest)) => make_paths_absolute(table, rest, base),
        (Value::Array(elements), Some(rest)) => {
            let rest = rest
                .split_once('.')
                .map_or(rest.strip_prefix('*').filter(|rest| !rest.is_empty()), |(_, below)| {
                    Some(below)
                });
            elements.iter_mut().for_each(|element| make_value_absolute(element, rest, base));
        }
        (
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Table(_)
            | Value::Array(_),
            _,
        ) => {}
    }
}

fn absolute(text: &str, base: &Path) -> String {
    // Codex itself expands paths that start with `~`.
    if text.is_empty() || text.starts_with('~') || Path::new(text).is_absolute() {
        return text.to_owned();
    }
    base.join(text).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_from(text: &str, settings: &str) -> Result<(Table, SessionConfig), Error> {
        let user = UserConfig { path: "/home/u/.codex/config.toml".into(), text: text.into() };
        let made = build_config(&ConfigRequest {
            user: Some(&user),
            trust: RepositoryTrust::Trusted,
            root: Path::new("/w/tree"),
            worktree: Path::new("/w/tree"),
            auth_is_a_file: false,
            tools: None,
            settings: &settings.parse().unwrap(),
        })?;
        Ok((made.text.parse().unwrap(), made))
    }

    fn table(text: &str) -> Table {
        make_from(text, "").unwrap().0
    }

    fn at<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
        get(table, key)
    }

    #[test]
    fn empty_config_is_quiet_and_trusts_worktree() {
        let expected: Table = r#"
            check_for_update_on_startup = false
            analytics.enabled = false
            otel.metrics_exporter = "none"
            features = { shell_snapshot = false, plugins = false, daemon_auto_start = false }
            projects."/w/tree".trust_level = "trusted"
        "#
        .parse()
        .unwrap();
        assert_eq!(table(""), expected);
    }

    #[test]
    fn trust_covers_only_worktree_and_cwd() {
        let user = UserConfig {
            path: "/u/.codex/config.toml".into(),
            text: "[projects.\"/main\"]\ntrust_level = \"trusted\"\n".into(),
        };
        let made = |trust| {
            let request = ConfigRequest {
                user: Some(&user),
                worktree: Path::new("/w/sub"),
                root: Path::new("/w"),
                trust,
                auth_is_a_file: false,
                tools: None,
                settings: &Table::new(),
            };
            build_config(&request).unwrap().text.parse::<Table>().unwrap()["projects"].clone()
        };
        let level = |trust: &str| {
            let text =
                format!("\"/w\".trust_level = {trust:?}\n\"/w/sub\".trust_level = {trust:?}\n");
            Value::Table(text.parse().unwrap())
        };
        assert_eq!(made(RepositoryTrust::Untrusted), level("untrusted"));
        assert_eq!(made(RepositoryTrust::Trusted), level("trusted"));
        assert_eq!(
            made(RepositoryTrust::UserDefault)["/main"]["trust_level"].as_str(),
            Some("trusted")
        );
    }

    #[test]
    fn tool_server_replaces_users_namesake() {
        let text = "developer_instructions = \"Mine.\"\n[mcp_servers.p]\nurl = \"http://x\"\n\
                    [mcp_servers.q]\ncommand = \"q\"\n";
        let user = UserConfig { path: "/home/u/.codex/config.toml".into(), text: text.into() };
        let tools = ToolServer {
            name: "p".to_owned(),
            command: "/bin/provost".into(),
            arguments: vec!["serve".to_owned()],
            variables: vec!["TOKEN".to_owned()],
            instructions: "Ours.".to_owned(),
        };
        let request = ConfigRequest {
            user: Some(&user),
            trust: RepositoryTrust::Trusted,
            root: Path::new("/w"),
            worktree: Path::new("/w"),
            auth_is_a_file: false,
            tools: Some(&tools),
            settings: &Table::new(),
        };
        let made = build_config(&request).unwrap();
        let table: Table = made.text.parse().unwrap();
        assert_eq!(at(&table, "developer_instructions"), Some(&"Mine.\n\nOurs.".into()));
        assert_eq!(at(&table, "mcp_servers.p.command"), Some(&"/bin/provost".into()));
        assert_eq!(at(&table, "mcp_servers.p.env_vars"), Some(&vec!["TOKEN"].into()));
        assert_eq!(at(&table, "mcp_servers.p.url"), None);
        assert_eq!(at(&table, "mcp_servers.q.command"), Some(&"q".into()));
        assert_eq!(made.changed[0].0, "mcp_servers.p");
        let made = build_config(&ConfigRequest { user: None, ..request }).unwrap();
        let table: Table = made.text.parse().unwrap();
        assert_eq!(at(&table, "developer_instructions"), Some(&"Ours.".into()));
        assert!(made.changed.is_empty());
    }

    #[test]
    fn user_settings_stay_except_forced() {
        let (table, made) = make_from(
            "model = \"m\"\nsqlite_home = \"/x\"\n[features]\nshell_snapshot = true\nplugins = true\ngoals = false\n\
             [analytics]\nenabled = true\n[profiles.p]\nmodel = \"n\"\nfeatures.plugins = true\n\
             [projects.\"/other\"]\ntrust_level = \"untrusted\"\n",
            "",
        )
        .unwrap();
        assert_eq!(at(&table, "model"), Some(&"m".into()));
        assert_eq!(at(&table, "features.shell_snapshot"), Some(&true.into()));
        assert_eq!(at(&table, "features.goals"), Some(&false.into()));
        assert_eq!(at(&table, "analytics.enabled"), Some(&true.into()));
        assert_eq!(at(&table, "features.plugins"), Some(&false.into()));
        assert_eq!(at(&table, "profiles.p.features.plugins"), None);
        assert_eq!(at(&table, "profiles.p.model"), Some(&"n".into()));
        assert_eq!(at(&table, "sqlite_home"), None);
        assert_eq!(
            at(&table, "projects./other.trust_level"),
            None,
            "only the worktree's level is carried"
        );
        let changed: Vec<&str> = made.changed.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(changed, ["features.plugins", "sqlite_home", "profiles.p.features.plugins"]);
    }

    #[test]
    fn session_settings_override_all() {
        let (table, _) = make_from(
            "model = \"m\"\n[model_providers.a]\nname = \"a\"\n",
            "model = \"s\"\nfeatures.plugins = true\nmodel_providers.b.name = \"b\"\n",
        )
        .unwrap();
        assert_eq!(at(&table, "model"), Some(&"s".into()));
        assert_eq!(at(&table, "features.plugins"), Some(&true.into()));
        assert_eq!(at(&table, "model_providers.a.name"), Some(&"a".into()));
        assert_eq!(at(&table, "model_providers.b.name"), Some(&"b".into()));
    }

    #[test]
    fn relative_paths_become_absolute() {
        let table = table(
            "model = \"a/b\"\nmodel_instructions_file = \"i.md\"\nmodel_catalog_json = \"/abs.json\"\n\
             [agents.r]\nconfig_file = \"agents/r.toml\"\n\
             [sandbox_workspace_write]\nwritable_roots = [\"x\", \"~/y\"]\n\
             [[skills.config]]\npath = \"skills/a/SKILL.md\"\nenabled = false\n",
        );
        assert_eq!(at(&table, "model"), Some(&"a/b".into()));
        assert_eq!(at(&table, "model_instructions_file"), Some(&"/home/u/.codex/i.md".into()));
        assert_eq!(at(&table, "model_catalog_json"), Some(&"/abs.json".into()));
        assert_eq!(
            at(&table, "agents.r.config_file"),
            Some(&"/home/u/.codex/agents/r.toml".into())
        );
        let roots: Value = vec!["/home/u/.codex/x", "~/y"].into();
        assert_eq!(at(&table, "sandbox_workspace_write.writable_roots"), Some(&roots));
        let skill = at(&table, "skills.config").unwrap().as_array().unwrap()[0].clone();
        assert_eq!(skill.get("path"), Some(&"/home/u/.codex/skills/a/SKILL.md".into()));
    }

    #[test]
    fn broken_config_error_has_line() {
        let error = make_from("model = \"m\"\n\nx = = 1\n", "").unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("cannot read /home/u/.codex/config.toml, line 3: "),
            "{message}"
        );
        let error = make_from("features = 3\n", "").unwrap_err();
        let expected = "cannot set `features.shell_snapshot`: `features` is not a table in the user's config.toml";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn file_credentials_stay_in_file() {
        let settings = Table::new();
        let user = UserConfig {
            path: "/u/config.toml".into(),
            text: "cli_auth_credentials_store = \"auto\"".into(),
        };
        let mut request = ConfigRequest {
            user: Some(&user),
            trust: RepositoryTrust::Trusted,
            root: Path::new("/w"),
            worktree: Path::new("/w"),
            auth_is_a_file: true,
            tools: None,
            settings: &settings,
        };
        let made = build_config(&request).unwrap();
        assert!(made.text.contains("cli_auth_credentials_store = \"file\""));
        request.auth_is_a_file = false;
        let made = build_config(&request).unwrap();
        assert!(made.text.contains("cli_auth_credentials_store = \"auto\""));
        assert!(made.keeps_auth_elsewhere);
    }
}
