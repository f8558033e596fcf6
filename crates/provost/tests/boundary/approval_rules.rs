//! Approval rules: which commands `allow`, `deny` and `ask` match. The tests use real Codex,
//! because a rule can let a command leave its sandbox.

use std::{fs, path::Path};

use provost_testkit::{
    harness::{TestHome, TestRepo},
    model::{MODEL, ModelServer, codex, codex_config},
};
use serde_json::Value;

/// A repository, a scripted model and real Codex with its default sandbox.
pub(crate) struct SandboxedCodexEnv {
    pub(crate) home: TestHome,
    pub(crate) model: ModelServer,
    pub(crate) repo: TestRepo,
}

impl SandboxedCodexEnv {
    /// Returns `None` if Codex is not installed and this test run allows that.
    pub(crate) fn new(responses: &str, rules: &str) -> Option<SandboxedCodexEnv> {
        let program = codex()?;
        let result = r#"{ message = '{"status":"completed","summary":"done"}' }"#;
        let scenario = format!(
            "[[thread]]\nturn = [\n  {{ response = [\n{responses}\n  ] }},\n  {{ response = [{{ items = [{result}] }}] }},\n]\n"
        );
        let model = ModelServer::play(&scenario);
        let mut home = TestHome::new();
        home.set_env("PROVOST_CODEX", program);
        // Approval rules do not resolve a program beyond a temporary directory on the `PATH`. This
        // `PATH` has none.
        home.set_env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let repo = home.repo("work");
        let codex_home = home.root().join("user/.codex");
        fs::create_dir_all(&codex_home).unwrap();
        // Otherwise Codex creates mount points in the machine's temporary directory.
        let sandbox = "[sandbox_workspace_write]\nexclude_slash_tmp = true\n";
        let config = codex_config(MODEL, &model.url()) + sandbox;
        fs::write(codex_home.join("config.toml"), config).unwrap();
        home.configure(rules);
        Some(SandboxedCodexEnv { home, model, repo })
    }

    fn spawn(&self) -> String {
        let arguments = ["spawn", "--json", "--agent", "codex", "Do it."];
        let spawned = self.home.provost_in(self.repo.path(), &arguments);
        spawned.ok().json()["id"].as_str().unwrap().to_owned()
    }

    /// Waits for the request with this number to be open, denies it, and returns its command.
    fn deny_request(&self, id: &str, no: u32) -> String {
        let name = format!("{id}.q{no}");
        let find = |row: &Value| {
            let mut requests = row["requests"].as_array()?.iter();
            requests.find(|request| request["id"] == name.as_str()).cloned()
        };
        let row = self.home.wait_state(id, |row| {
            let sealed = row["state"] == "completed";
            assert!(!sealed, "{name} was never asked: {row:#}");
            find(row).is_some()
        });
        self.home.provost(&["deny", &name]).ok();
        find(&row).unwrap()["subject"]["command"].as_str().unwrap().to_owned()
    }

    /// A directory outside Codex's sandbox.
    fn outside_dir(&self) -> &Path {
        self.home.root()
    }
}

/// The agent writes a program with an allowed name and asks to run it outside the sandbox.
#[test]
fn f2_1_program_written_by_agent_needs_approval() {
    let script = "#!/bin/sh\\necho out > ../../outside.txt\\n";
    let responses = format!(
        r#"
    {{ items = [{{ shell = "mkdir -p bin; printf '{script}' > git; chmod +x git; cp git bin/git" }}] }},
    {{ items = [{{ shell = "./git status", escalate = true, justification = "One?" }}] }},
    {{ items = [{{ shell = "bin/git status", escalate = true, justification = "Two?" }}] }},
    {{ items = [{{ shell = "git status", workdir = "bin", escalate = true, justification = "Three?" }}] }},
    {{ items = [{{ message = "Asked." }}] }},"#
    )
    .replace("\\n", "\\\\n");
    let rules = "[approvals]\nversion = 1\nallow = [\"command: git status\"]\n";
    let Some(stage) = SandboxedCodexEnv::new(&responses, rules) else { return };
    let id = stage.spawn();
    for (no, command) in [(1, "./git status"), (2, "bin/git status"), (3, "git status")] {
        let asked = stage.deny_request(&id, no);
        assert!(asked.contains(command), "{asked}");
    }
    assert_eq!(stage.home.wait_sealed(&id)["state"], "completed");
    assert!(stage.repo.path().join("git").exists(), "the agent wrote its program");
    assert!(!stage.outside_dir().join("outside.txt").exists(), "it ran outside the sandbox");
    let ruled = stage.home.events_of(&id, "request.ruled");
    assert!(ruled.is_empty(), "{ruled:#?}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn f2_1_path_program_allowed_options_do_not_evade_deny() {
    let responses = r#"
    { items = [{ shell = "git status", escalate = true, justification = "One?" }] },
    { items = [{ shell = "git -C . push", escalate = true, justification = "Two?" }] },
    { items = [{ shell = "git --git-dir=.git -c a.b=c push origin", escalate = true, justification = "Three?" }] },
    { items = [{ message = "Asked." }] },"#;
    let rules =
        "[approvals]\nversion = 1\nallow = [\"command: git\"]\ndeny = [\"command: git push\"]\n";
    let Some(stage) = SandboxedCodexEnv::new(responses, rules) else { return };
    let id = stage.spawn();
    assert_eq!(stage.home.wait_sealed(&id)["state"], "completed");
    let ruled = stage.home.events_of(&id, "request.ruled");
    let rules: Vec<&str> =
        ruled.iter().filter_map(|event| event["data"]["rule"].as_str()).collect();
    assert_eq!(rules, ["command git", "command git push", "command git push"], "{ruled:#?}");
    stage.model.assert_all_as_scripted();
}
