//! Identifies the account that a session uses. Sessions that use the same account share its limits.

use std::path::Path;

use toml::{Table, Value};

use super::config::{self, UserConfig};
use super::{Error, files};

/// Codex's default provider.
pub(super) const DEFAULT_PROVIDER: &str = "openai";

/// Returns a name for the account: the model provider, and the path of the login with links
/// resolved. The login is `auth.json` if it exists, otherwise the Codex home, otherwise the user's
/// home. The content of the login is not read, because it changes whenever a token is refreshed,
/// but the account remains the same.
pub fn account(codex_home: Option<&Path>, user_home: &Path) -> Result<String, Error> {
    let login = codex_home.map(|home| home.join("auth.json"));
    let places = [login.as_deref(), codex_home, Some(user_home)];
    let place = places.into_iter().flatten().find_map(|place| place.canonicalize().ok());
    let place = place.unwrap_or_else(|| user_home.to_owned());
    Ok(format!("{} {}", provider(codex_home)?, place.display()))
}

fn provider(codex_home: Option<&Path>) -> Result<String, Error> {
    read_user_config(codex_home).map(|table| provider_in(&table).to_owned())
}

/// Reads the user's `config.toml`. Returns an empty table if the file is missing.
pub(super) fn read_user_config(codex_home: Option<&Path>) -> Result<Table, Error> {
    let Some(path) = codex_home.map(|home| home.join("config.toml")) else {
        return Ok(Table::new());
    };
    match files::read_text(&path)? {
        Some(text) => Ok(config::parse(&UserConfig { path, text })?),
        None => Ok(Table::new()),
    }
}

/// Returns the model provider. The setting of the active profile takes precedence.
pub(super) fn provider_in(table: &Table) -> &str {
    let profile = table.get("profile").and_then(Value::as_str);
    let profile = profile.and_then(|name| table.get("profiles")?.get(name)?.as_table());
    let named = |table: &'_ Table| table.get("model_provider").is_some();
    let table = profile.filter(|profile| named(profile)).unwrap_or(table);
    table.get("model_provider").and_then(Value::as_str).unwrap_or(DEFAULT_PROVIDER)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a09_account_is_login_and_provider() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        let of = |home: &Path| account(Some(home), dir.path()).unwrap();
        assert_ne!(of(&one), of(&two), "without a login, the homes distinguish them");
        fs::write(one.join("auth.json"), "{}").unwrap();
        symlink(one.join("auth.json"), two.join("auth.json")).unwrap();
        assert_eq!(of(&one), of(&two), "one login through several paths");
        assert!(of(&one).starts_with("openai /"), "{}", of(&one));
        fs::write(one.join("auth.json"), "{\"refreshed\": true}").unwrap();
        assert_eq!(of(&one), of(&two));
        fs::write(two.join("config.toml"), "model_provider = \"p\"\n").unwrap();
        assert_ne!(of(&one), of(&two), "another provider has other limits");
        let text =
            "model_provider = \"q\"\nprofile = \"x\"\n[profiles.x]\nmodel_provider = \"p\"\n";
        fs::write(two.join("config.toml"), text).unwrap();
        assert!(of(&two).starts_with("p /"), "{}", of(&two));
        assert_ne!(account(None, dir.path()).unwrap(), of(&one));
        fs::write(two.join("config.toml"), "a = = 1").unwrap();
        assert!(account(Some(&two), dir.path()).is_err());
    }
}
