//! The environment of this process, which is read once at startup.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use provost_api::{ApiError, ErrorCode};

/// The environment variables of this process, except those that are not UTF-8.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    pub(crate) fn read() -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Environment { variables: std::env::vars_os().filter_map(text).collect() }
    }

    #[cfg(test)]
    pub(crate) fn from_pairs(variables: &[(&str, &str)]) -> Self {
        // Tests read the configuration with the variables of this environment.
        crate::adapters::register_sections();
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment { variables: owned.collect() }
    }

    /// Returns a copy without these variables.
    pub(crate) fn without(&self, names: &[&str]) -> Self {
        let mut variables = self.variables.clone();
        variables.retain(|name, _| !names.contains(&name.as_str()));
        Environment { variables }
    }

    /// Returns a variable. An empty variable is treated as unset.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a path from a variable. As in the XDG specification, a relative path is treated as unset.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    pub(crate) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// Returns the current directory of the process.
    pub(crate) fn current_dir(&self) -> Result<PathBuf, ApiError> {
        std::env::current_dir().map_err(|why| {
            let message = format!("cannot find the current directory: {why}");
            ApiError::new(ErrorCode::BadRequest, message).next("cd ~")
        })
    }
}
