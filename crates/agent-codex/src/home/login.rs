//! Determines which credentials a Codex session will have.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::account::{DEFAULT_PROVIDER, provider_in, read_user_config};
use super::config::uses_keyring;
use super::{Error, KEYS, files};

/// The credentials of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// The login file, which is carried over to the session's home.
    File(PathBuf),
    /// A key in this environment variable.
    Variable(String),
    /// The user has configured another provider, which does not need a Codex login.
    NotNeeded {
        provider: String,
    },
    Missing(MissingLogin),
}

/// The reason why credentials are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingLogin {
    /// The user has not logged in.
    NoLogin,
    /// The login is in a keyring, which only the user's own home can use.
    InKeyring,
}

/// Returns the credentials of a session, given the variables that are passed to it. Only Codex can
/// check whether they are valid.
pub fn login(codex_home: Option<&Path>, is_set: impl Fn(&str) -> bool) -> Result<Login, Error> {
    let table = read_user_config(codex_home)?;
    let provider = provider_in(&table);
    if !needs_login(&table, provider) {
        return Ok(Login::NotNeeded { provider: provider.to_owned() });
    }
    let file = codex_home.map(|home| home.join("auth.json")).filter(|file| file.is_file());
    if let Some(file) = file {
        return Ok(Login::File(file));
    }
    let kept = codex_home.map(|home| files::read_text(&home.join(".env"))).transpose()?.flatten();
    let kept = kept.unwrap_or_default();
    let set = |name: &&str| is_set(name) || kept.lines().any(|line| sets_variable(line, name));
    Ok(match KEYS.into_iter().find(set) {
        Some(name) => Login::Variable(name.to_owned()),
        None if uses_keyring(&table) => Login::Missing(MissingLogin::InKeyring),
        None => Login::Missing(MissingLogin::NoLogin),
    })
}

/// Whether the provider needs a Codex login. A provider that the user defined needs it only if its
/// configuration requires it.
fn needs_login(table: &Table, provider: &str) -> bool {
    let own = table.get("model_providers").and_then(|all| all.get(provider));
    let says_so = own.and_then(|own| own.get("requires_openai_auth")).and_then(Value::as_bool);
    says_so.unwrap_or(provider == DEFAULT_PROVIDER)
}

/// Whether a line of an environment file sets a variable.
fn sets_variable(line: &str, name: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn login_sources_are_detected() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let with = |set: &[&str]| login(Some(home), |name| set.contains(&name)).unwrap();
        let missing = |why| Login::Missing(why);
        assert_eq!(with(&["HOME"]), missing(MissingLogin::NoLogin));
        assert_eq!(with(&["OPENAI_API_KEY"]), Login::Variable("OPENAI_API_KEY".to_owned()));
        assert_eq!(login(None, |_| false).unwrap(), missing(MissingLogin::NoLogin));
        let config = |text: &str| fs::write(home.join("config.toml"), text).unwrap();
        config("cli_auth_credentials_store = \"keyring\"\n");
        assert_eq!(with(&[]), missing(MissingLogin::InKeyring));
        config("model_provider = \"p\"\n[model_providers.p]\nbase_url = \"x\"\n");
        assert_eq!(with(&[]), Login::NotNeeded { provider: "p".to_owned() });
        config("model_provider = \"p\"\n[model_providers.p]\nrequires_openai_auth = true\n");
        assert_eq!(with(&[]), missing(MissingLogin::NoLogin));
        config("model_provider = \"ollama\"\n");
        assert_eq!(with(&[]), Login::NotNeeded { provider: "ollama".to_owned() });
        config("");
        fs::write(home.join(".env"), "# OPENAI_API_KEY=no\n").unwrap();
        assert_eq!(with(&[]), missing(MissingLogin::NoLogin));
        fs::write(home.join(".env"), "A=1\nexport OPENAI_API_KEY = x\n").unwrap();
        assert_eq!(with(&[]), Login::Variable("OPENAI_API_KEY".to_owned()));
        fs::write(home.join("auth.json"), "{}").unwrap();
        assert_eq!(with(&[]), Login::File(home.join("auth.json")));
    }
}
