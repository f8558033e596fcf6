//! The section `[agents.codex]` of the configuration.

use provost_config::{
    Approvals, FilePath, KeyTerms, NameLabel, NamePatterns, Sandbox, Switchable, Variables,
    agent_section,
};

/// Why a key that decides about permissions needs trust.
const UNASKED: &str = "decides what Codex may do without asking";

/// Why a key that sets variables needs trust.
const VARIABLES: &str = "environment variables of programs";

agent_section! {
    /// The built-in agent: `--agent codex` needs no configuration.
    "codex" => CodexSettings {
        /// The path of the program. If unset or off, the newest usable one on `PATH` and in known locations.
        path: Switchable<FilePath> = unset, KeyTerms::needs_trust("the program to run as Codex").variable("PROVOST_CODEX");
        /// The model; unset or off leaves the choice to Codex and its own configuration.
        model: Switchable<NameLabel> = unset, KeyTerms::HARMLESS.in_presets();
        /// The reasoning effort, such as low, medium or high; unset or off leaves the choice to Codex.
        effort: Switchable<NameLabel> = unset, KeyTerms::HARMLESS.in_presets();
        /// What commands may do to the machine.
        sandbox: Sandbox = "workspace-write", KeyTerms::needs_trust(UNASKED);
        /// Whether commands in the sandbox have network access.
        network: bool = false, KeyTerms::needs_trust(UNASKED);
        /// When Codex asks for approval.
        approvals: Approvals = "on-request", KeyTerms::needs_trust(UNASKED);
        /// Whether Codex may ask the user questions.
        questions: bool = true, KeyTerms::HARMLESS;
        /// Whether Codex may use sub-agents. If unset, it is left to Codex, but runs ask for it.
        multi_agent: Option<bool> = unset, KeyTerms::HARMLESS;
        /// The user's Codex home, from which the home of each session is derived; unset means
        /// `$CODEX_HOME` or else `~/.codex`, and off means none.
        home: Switchable<FilePath> = unset, KeyTerms::needs_trust("the directory of Codex's settings and login");
        /// An environment variable for Codex. `$NAME` is replaced by that variable of the daemon's environment.
        env["*"]: Variables = unset, KeyTerms::needs_trust(VARIABLES);
        /// Variables that are passed on from the daemon's environment to Codex. A trailing star matches any suffix.
        pass_env: NamePatterns = [], KeyTerms::needs_trust(VARIABLES);
    }
}
