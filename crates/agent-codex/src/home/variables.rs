//! Finds the environment variables to which a user's `config.toml` refers. They contain keys for
//! model providers and MCP servers, which Codex reads from its environment.

use std::collections::BTreeSet;
use std::path::Path;

use toml::{Table, Value};

use super::config::{self, UserConfig};
use super::{Error, files};

/// Keys that Codex reads without any configuration.
pub const KEYS: [&str; 2] = ["CODEX_API_KEY", "OPENAI_API_KEY"];

/// Returns the names of the variables to which the user's `config.toml` refers. Returns no names if
/// the file is missing, and an error if the file is invalid.
pub fn named_variables(codex_home: &Path) -> Result<BTreeSet<String>, Error> {
    let path = codex_home.join("config.toml");
    let Some(text) = files::read_text(&path)? else { return Ok(BTreeSet::new()) };
    let table = config::parse(&UserConfig { path, text })?;
    let providers = entries(&table, "model_providers").flat_map(provider_variables);
    let servers = entries(&table, "mcp_servers").flat_map(server_variables);
    Ok(providers.chain(servers).filter(|name| is_name(name)).map(str::to_owned).collect())
}

fn provider_variables(provider: &Table) -> Vec<&str> {
    let headers = provider.get("env_http_headers").and_then(Value::as_table);
    let headers = headers.into_iter().flat_map(Table::values).filter_map(Value::as_str);
    let key = provider.get("env_key").and_then(Value::as_str);
    key.into_iter().chain(headers).collect()
}

fn server_variables(server: &Table) -> Vec<&str> {
    let named = server.get("env_vars").and_then(Value::as_array);
    let named = named.into_iter().flatten().filter_map(Value::as_str);
    let bearer = server.get("bearer_token_env_var").and_then(Value::as_str);
    bearer.into_iter().chain(named).collect()
}

fn entries<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    let within = table.get(key).and_then(Value::as_table);
    within.into_iter().flat_map(Table::values).filter_map(Value::as_table)
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_and_server_keys_are_found() {
        let dir = tempfile::tempdir().unwrap();
        assert!(named_variables(dir.path()).unwrap().is_empty());
        let text = r#"
            model_provider = "a"
            [model_providers.a]
            env_key = "A_KEY"
            [model_providers.b]
            env_http_headers = { "X-Org" = "B_ORG" }
            env_key = "not a name"
            [mcp_servers.s]
            bearer_token_env_var = "S_TOKEN"
            env_vars = ["S_MODE", 7]
        "#;
        std::fs::write(dir.path().join("config.toml"), text).unwrap();
        let found: Vec<String> = named_variables(dir.path()).unwrap().into_iter().collect();
        assert_eq!(found, ["A_KEY", "B_ORG", "S_MODE", "S_TOKEN"]);
        std::fs::write(dir.path().join("config.toml"), "a = = 1").unwrap();
        assert!(named_variables(dir.path()).unwrap_err().to_string().contains("line 1"));
    }
}
