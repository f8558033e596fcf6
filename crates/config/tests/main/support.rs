//! Helpers to write layers.

use std::collections::BTreeMap;

use provost_config::{
    Approvals, ConfigFile, Error, FilePath, FlagSetting, FlagValue, Inputs, KeyTerms, NameLabel,
    NamePatterns, Resolved, Sandbox, Switchable, Variables, agent_section, register_agent_sections,
    resolve,
};

agent_section! {
    /// The built-in agent: `--agent chat` needs no configuration.
    "chat" => ChatSettings {
        /// The path of the program. If unset or off, the newest usable one on `PATH` and in known locations.
        path: Switchable<FilePath> = unset, KeyTerms::needs_trust("the program to run as Chat").variable("PROVOST_CHAT");
        /// The model; unset or off leaves the choice to Chat and its own configuration.
        model: Switchable<NameLabel> = unset, KeyTerms::HARMLESS.in_presets();
        /// The reasoning effort, such as low, medium or high; unset or off leaves the choice to Chat.
        effort: Switchable<NameLabel> = unset, KeyTerms::HARMLESS.in_presets();
        /// What commands may do to the machine.
        sandbox: Sandbox = "workspace-write", KeyTerms::needs_trust("decides what the agent may do");
        /// Whether commands in the sandbox have network access.
        network: bool = false, KeyTerms::needs_trust("decides what the agent may do");
        /// When Chat asks for approval.
        approvals: Approvals = "on-request", KeyTerms::needs_trust("decides what the agent may do");
        /// Whether Chat may ask the user questions.
        questions: bool = true, KeyTerms::HARMLESS;
        /// Whether Chat may use sub-agents. If unset, it is left to Chat, but runs ask for it.
        multi_agent: Option<bool> = unset, KeyTerms::HARMLESS;
        /// The user's Chat home, from which the home of each session is derived; unset means
        /// `$CHAT_HOME` or else `~/.chat`, and off means none.
        home: Switchable<FilePath> = unset, KeyTerms::needs_trust("the directory of Chat's settings and login");
        /// An environment variable for Chat. `$NAME` is replaced by that variable of the daemon's environment.
        env["*"]: Variables = unset, KeyTerms::needs_trust("environment variables of programs");
        /// Variables that are passed on from the daemon's environment to Chat. A trailing star matches any suffix.
        pass_env: NamePatterns = [], KeyTerms::needs_trust("environment variables of programs");
    }
}

/// Registers the section of the agent that adapters of the tests support.
pub(crate) fn register() {
    register_agent_sections([ChatSettings::SECTION]);
}

/// Builds inputs layer by layer.
#[derive(Default)]
pub(crate) struct TestLayers(Inputs);

pub(crate) fn layers() -> TestLayers {
    register();
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
