//! Reads values from front matter, and keeps track of the full name of each key for messages.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{EnvironmentMap, Error};

/// A section of the front matter. Reading a value removes it, so the keys that remain at the end are unknown.
#[derive(Debug)]
pub(crate) struct Fields {
    name: String,
    left: Map<String, Value>,
}

impl Fields {
    pub(crate) fn new(name: &str, map: Map<String, Value>) -> Self {
        Fields { name: name.to_owned(), left: map }
    }

    /// Returns the full name of a key.
    pub(crate) fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// Removes and returns a value. Null is treated as absent.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.left.remove(key).filter(|value| !value.is_null())
    }

    /// Removes and returns a section. An absent section is treated as empty.
    pub(crate) fn part(&mut self, key: &str) -> Result<Fields, Error> {
        let name = self.path(key);
        match self.take(key) {
            None => Ok(Fields::new(&name, Map::new())),
            Some(Value::Object(map)) => Ok(Fields::new(&name, map)),
            Some(other) => Err(wrong(&name, "keys with values", &other)),
        }
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.path(key), "a text", &other)),
        }
    }

    pub(crate) fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, Error> {
        let path = self.path(key);
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(items)) => {
                let text = |item: Value| {
                    let text = item.as_str().map(str::to_owned);
                    text.ok_or_else(|| wrong(&path, "a list of strings", &item))
                };
                items.into_iter().map(text).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(wrong(&path, "a list of strings", &other)),
        }
    }

    pub(crate) fn integer(&mut self, key: &str) -> Result<Option<i64>, Error> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| wrong(&self.path(key), "an integer", &value))
    }

    /// Removes and returns a number, which must be at least `least`.
    pub(crate) fn count(&mut self, key: &str, least: u32) -> Result<Option<u32>, Error> {
        let Some(number) = self.integer(key)? else { return Ok(None) };
        match u32::try_from(number) {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => Err(Error::config(
                &self.path(key),
                format!("is {number}; expected an integer of at least {least}"),
            )),
        }
    }

    /// Removes and returns a path on this machine. Expands `~` and a leading `$NAME`, and resolves
    /// relative paths against `dir`.
    pub(crate) fn file(
        &mut self,
        key: &str,
        dir: &Path,
        environment: &EnvironmentMap,
    ) -> Result<Option<PathBuf>, Error> {
        let name = self.path(key);
        let Some(text) = self.text(key)? else { return Ok(None) };
        let text = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", variable("HOME", &name, environment)?)
            }
            _ => resolved(&text, &name, environment)?,
        };
        Ok(Some(dir.join(text)))
    }

    /// Returns the names of the remaining keys, all of which are unknown.
    pub(crate) fn unknown(self) -> Vec<String> {
        self.left.keys().map(|key| self.path(key)).collect()
    }
}

/// Expands a value that starts with `$NAME`. Other values are returned unchanged.
pub(crate) fn resolved(
    text: &str,
    key: &str,
    environment: &EnvironmentMap,
) -> Result<String, Error> {
    let Some(rest) = text.strip_prefix('$') else { return Ok(text.to_owned()) };
    let rest = rest.strip_prefix('{').unwrap_or(rest);
    let end = rest.find(|one: char| !one.is_ascii_alphanumeric() && one != '_');
    let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
    let behind =
        if text.starts_with("${") { behind.strip_prefix('}').unwrap_or(behind) } else { behind };
    Ok(format!("{}{behind}", variable(name, key, environment)?))
}

/// Returns the value of a variable. An empty variable is treated as unset.
fn variable<'a>(name: &str, key: &str, environment: &'a EnvironmentMap) -> Result<&'a str, Error> {
    let value = environment.get(name).map(String::as_str).filter(|value| !value.is_empty());
    value.ok_or_else(|| Error::config(key, format!("refers to ${name}, which is not set")))
}

fn wrong(key: &str, expected: &str, found: &Value) -> Error {
    let found = match found {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "keys with values".to_owned(),
    };
    Error::config(key, format!("is {found}; expected {expected}"))
}
