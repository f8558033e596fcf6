//! A team whose members pull their messages, and short helpers to act as them.

use std::ops::Deref;

use provost_testkit::harness::Output;
use serde_json::Value;

use crate::kit::Stage;

/// An environment with the team `limits`: a worker `hand` and a manager `boss`, neither bound to a session.
pub(crate) struct Desk {
    stage: Stage,
}

impl Deref for Desk {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::opened(&[])
    }

    /// Like `new`, with further flags for `task new`.
    #[track_caller]
    pub(crate) fn opened(flags: &[&str]) -> Self {
        let desk = Desk { stage: Stage::new() };
        let new = ["task", "new", "limits", "--goal", "limit how often each caller may call"];
        desk.provost(&[&new, flags].concat()).ok();
        desk.bind("limits", "hand", "worker");
        desk.bind("limits", "boss", "manager");
        desk.act("boss", &["manager", "ack", "--revision", "0"]).ok();
        desk
    }

    /// The same in a repository with a commit, where checks can run; without a manager.
    #[track_caller]
    pub(crate) fn in_repo(flags: &[&str]) -> Self {
        let desk = Desk { stage: Stage::new() };
        let repo = desk.repo("work");
        let new = ["task", "new", "limits", "--goal", "limit how often each caller may call"];
        desk.provost_in(repo.path(), &[&new, flags].concat()).ok();
        desk.bind("limits", "hand", "worker");
        desk
    }

    #[track_caller]
    pub(crate) fn bind(&self, task: &str, name: &str, role: &str) {
        self.provost(&["task", "bind", task, name, "--role", role]).ok();
    }

    /// Runs a command on the team as a member.
    #[track_caller]
    pub(crate) fn act(&self, member: &str, words: &[&str]) -> Output {
        self.provost(&[words, &["--task", "limits", "--as", member, "--json"]].concat())
    }

    /// Runs a command on the team as the operator.
    #[track_caller]
    pub(crate) fn operate(&self, words: &[&str]) -> Output {
        self.provost(&[words, &["--task", "limits", "--json"]].concat())
    }

    /// The standard output of a command that succeeds.
    #[track_caller]
    pub(crate) fn shown(&self, words: &[&str]) -> String {
        self.provost(words).ok().stdout.clone()
    }

    /// Sends a message and returns its number.
    #[track_caller]
    pub(crate) fn send(&self, to: &str, text: &str) -> u64 {
        let sent = self.operate(&["send", "--to", to, text]).ok().json();
        sent["message"]["no"].as_u64().unwrap()
    }

    /// Takes a member's next message.
    #[track_caller]
    pub(crate) fn next(&self, member: &str, flags: &[&str]) -> Value {
        let taken = self.act(member, &[&["inbox", "next"], flags].concat());
        taken.ok().json()["item"].clone()
    }

    /// Acknowledges a message as a member.
    #[track_caller]
    pub(crate) fn ack(&self, member: &str, item: &Value) -> Output {
        let (no, lease) = (item["no"].to_string(), item["lease"].to_string());
        self.act(member, &["inbox", "ack", &no, "--lease", &lease])
    }

    /// Satisfies a criterion by the operator's assertion, so that the team can be finished.
    #[track_caller]
    pub(crate) fn prove(&self) {
        let add = ["criteria", "add", "the wording was read by a person", "--accept"];
        let no = self.operate(&add).ok().json()["criterion"]["no"].to_string();
        let evidence = "read aloud with the support team";
        self.operate(&["criteria", "satisfy", &no, "--evidence", evidence]).ok();
    }

    /// The team's row from `task show`.
    #[track_caller]
    pub(crate) fn task(&self) -> Value {
        self.provost(&["task", "show", "limits", "--json"]).ok().json()["task"].clone()
    }

    /// All messages from `inbox ls`.
    #[track_caller]
    pub(crate) fn messages(&self) -> Vec<Value> {
        let listed = self.operate(&["inbox", "ls", "--all"]).ok().json();
        listed["messages"].as_array().unwrap().clone()
    }
}
