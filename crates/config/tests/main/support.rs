//! Helpers to write layers.

use std::collections::BTreeMap;

use provost_config::{ConfigFile, Error, FlagSetting, FlagValue, Inputs, Resolved, resolve};

/// Builds inputs layer by layer.
#[derive(Default)]
pub(crate) struct TestLayers(Inputs);

pub(crate) fn layers() -> TestLayers {
    TestLayers::default()
}

/// Returns the problems of a project's file, one per line.
pub(crate) fn problems(project: &str) -> String {
    layers().project(project).problems()
}

impl TestLayers {
    pub(crate) fn user(mut self, text: &str) -> Self {
        self.0.user = Some(ConfigFile { name: "/home/u/provost.toml".into(), text: text.into() });
        self
    }

    pub(crate) fn project(mut self, text: &str) -> Self {
        self.0.project = Some(ConfigFile { name: "provost.toml".into(), text: text.into() });
        self.0.project_is_trusted = true;
        self
    }

    /// Sets a project's file that the user has not trusted.
    pub(crate) fn untrusted_project(self, text: &str) -> Self {
        let mut layers = self.project(text);
        layers.0.project_is_trusted = false;
        layers
    }

    pub(crate) fn environment(mut self, variables: &[(&str, &str)]) -> Self {
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.0.environment = owned.collect::<BTreeMap<_, _>>();
        self
    }

    pub(crate) fn flag(self, flag: &str, key: &str, text: &str) -> Self {
        self.push(flag, key, FlagValue::Text(text.into()))
    }

    pub(crate) fn preset(mut self, name: &str) -> Self {
        self.0.preset = Some(name.into());
        self
    }

    pub(crate) fn list_flag(self, flag: &str, key: &str, texts: &[&str]) -> Self {
        self.push(flag, key, FlagValue::List(texts.iter().map(|text| (*text).to_owned()).collect()))
    }

    pub(crate) fn resolve(self) -> Resolved {
        resolve(&self.0).expect("the layers are valid")
    }

    pub(crate) fn error(self) -> Error {
        resolve(&self.0).expect_err("the layers are invalid")
    }

    pub(crate) fn problems(self) -> String {
        self.error().to_string()
    }

    fn push(mut self, flag: &str, key: &str, value: FlagValue) -> Self {
        self.0.flags.push(FlagSetting { flag: flag.into(), key: key.into(), value });
        self
    }
}
