//! A task with members who ask for their messages, and short ways to act for them.

use std::ops::Deref;

use provost_testkit::harness::Output;
use serde_json::Value;

use crate::kit::Stage;

/// A stage with the task `limits`: a worker `hand` and a manager `boss`, none of them a session.
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

    /// The same with further flags of `task new`.
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

    /// The same in a repository with a commit, where its checks can run.
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

    /// Does something to the task as a member.
    #[track_caller]
    pub(crate) fn act(&self, member: &str, words: &[&str]) -> Output {
        self.provost(&[words, &["--task", "limits", "--as", member, "--json"]].concat())
    }

    /// Does something to the task as the operator.
    #[track_caller]
    pub(crate) fn operate(&self, words: &[&str]) -> Output {
        self.provost(&[words, &["--task", "limits", "--json"]].concat())
    }

    /// What a command prints that succeeds.
    #[track_caller]
    pub(crate) fn shown(&self, words: &[&str]) -> String {
        self.provost(words).ok().stdout.clone()
    }

    /// Sends a message and gives its number.
    #[track_caller]
    pub(crate) fn send(&self, to: &str, text: &str) -> u64 {
        let sent = self.operate(&["send", "--to", to, text]).ok().json();
        sent["message"]["no"].as_u64().unwrap()
    }

    /// Takes the next message of a member.
    #[track_caller]
    pub(crate) fn next(&self, member: &str, flags: &[&str]) -> Value {
        let taken = self.act(member, &[&["inbox", "next"], flags].concat());
        taken.ok().json()["item"].clone()
    }

    /// Says that a member handled a message.
    #[track_caller]
    pub(crate) fn ack(&self, member: &str, item: &Value) -> Output {
        let (no, lease) = (item["no"].to_string(), item["lease"].to_string());
        self.act(member, &["inbox", "ack", &no, "--lease", &lease])
    }

    /// Has the task proved by the operator's word, so that it may be finished.
    #[track_caller]
    pub(crate) fn prove(&self) {
        let add = ["criteria", "add", "the wording was read by a person", "--accept"];
        let no = self.operate(&add).ok().json()["criterion"]["no"].to_string();
        let evidence = "read aloud with the support team";
        self.operate(&["criteria", "satisfy", &no, "--evidence", evidence]).ok();
    }

    /// The task as it is shown.
    #[track_caller]
    pub(crate) fn task(&self) -> Value {
        self.provost(&["task", "show", "limits", "--json"]).ok().json()["task"].clone()
    }

    /// The messages as they are listed.
    #[track_caller]
    pub(crate) fn messages(&self) -> Vec<Value> {
        let listed = self.operate(&["inbox", "ls", "--all"]).ok().json();
        listed["messages"].as_array().unwrap().clone()
    }
}
