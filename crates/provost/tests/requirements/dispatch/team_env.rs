//! A team whose members pull their messages, and short helpers to act as them.

use std::ops::Deref;

use provost_testkit::harness::ProgramOutput;
use serde_json::Value;

use provost_testkit::env::TestEnv;

/// An environment with the team `limits`: a worker `hand` and a manager `boss`, neither bound to a session.
pub(crate) struct TeamEnv {
    stage: TestEnv,
}

impl Deref for TeamEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.stage
    }
}

impl TeamEnv {
    pub(crate) fn new() -> Self {
        Self::with_flags(&[])
    }

    /// Creates the environment like `new`, with further flags for `team new`.
    #[track_caller]
    pub(crate) fn with_flags(flags: &[&str]) -> Self {
        let env = TeamEnv { stage: TestEnv::new() };
        let new = ["team", "new", "limits", "--goal", "limit how often each caller may call"];
        env.provost(&[&new, flags].concat()).ok();
        env.bind("limits", "hand", "worker");
        env.bind("limits", "boss", "manager");
        env.act_as("boss", &["team", "contract", "accept", "--revision", "0"]).ok();
        env
    }

    /// Creates the environment in a repository with a commit, where checks can run, and without a
    /// manager.
    #[track_caller]
    pub(crate) fn in_repo(flags: &[&str]) -> Self {
        let env = TeamEnv { stage: TestEnv::new() };
        let repo = env.repo("work");
        let new = ["team", "new", "limits", "--goal", "limit how often each caller may call"];
        env.provost_in(repo.path(), &[&new, flags].concat()).ok();
        env.bind("limits", "hand", "worker");
        env
    }

    #[track_caller]
    pub(crate) fn bind(&self, task: &str, name: &str, role: &str) {
        self.provost(&["team", "bind", task, name, "--role", role]).ok();
    }

    /// Runs a command on the team as a member.
    #[track_caller]
    pub(crate) fn act_as(&self, member: &str, words: &[&str]) -> ProgramOutput {
        self.provost(&[words, &["-t", "limits", "--as", member, "--json"]].concat())
    }

    /// Runs a command on the team as the operator.
    #[track_caller]
    pub(crate) fn act_as_operator(&self, words: &[&str]) -> ProgramOutput {
        self.provost(&[words, &["-t", "limits", "--json"]].concat())
    }

    /// The standard output of a command that succeeds.
    #[track_caller]
    pub(crate) fn stdout_of(&self, words: &[&str]) -> String {
        self.provost(words).ok().stdout.clone()
    }

    /// Sends a message and returns its number.
    #[track_caller]
    pub(crate) fn send(&self, to: &str, text: &str) -> u64 {
        let sent = self.act_as_operator(&["team", "send", to, text]).ok().json();
        sent["message"]["no"].as_u64().unwrap()
    }

    /// Takes a member's next message.
    #[track_caller]
    pub(crate) fn take_next(&self, member: &str, flags: &[&str]) -> Value {
        let taken = self.act_as(member, &[&["team", "next"], flags].concat());
        taken.ok().json()["item"].clone()
    }

    /// Acknowledges a message as a member.
    #[track_caller]
    pub(crate) fn ack(&self, member: &str, item: &Value) -> ProgramOutput {
        let (no, lease) = (item["no"].to_string(), item["lease"].to_string());
        self.act_as(member, &["team", "inbox", "ack", &no, "--lease", &lease])
    }

    /// Satisfies a criterion by the operator's assertion, so that the team can be finished.
    #[track_caller]
    pub(crate) fn satisfy_criterion(&self) {
        let add = ["team", "criterion", "add", "the wording was read by a person", "--accept"];
        let no = self.act_as_operator(&add).ok().json()["criterion"]["no"].to_string();
        let evidence = "read aloud with the support team";
        self.act_as_operator(&["team", "criterion", "satisfy", &no, "--evidence", evidence]).ok();
    }

    /// The team's row from `team show`.
    #[track_caller]
    pub(crate) fn show_task(&self) -> Value {
        self.provost(&["team", "show", "limits", "--json"]).ok().json()["team"].clone()
    }

    /// All messages from `team inbox ls`.
    #[track_caller]
    pub(crate) fn list_messages(&self) -> Vec<Value> {
        let listed = self.act_as_operator(&["team", "inbox", "ls", "--all"]).ok().json();
        listed["messages"].as_array().unwrap().clone()
    }
}
