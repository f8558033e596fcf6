//! A Codex that somebody runs in a pane of tmux: read there, and typed into when it is a place for that.

use provost_testkit::harness::{Home, eventually};
use serde_json::{Value, json};

use crate::{
    kit::{Stage, Which},
    screen::Screen,
};

/// Answers once, then waits behind a door in its second turn.
const TALKS: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ message = "First is done." }] }] },
  { response = [{ items = [{ hold = "door" }, { message = "Second is done." }] }] },
  { response = [{ items = [{ message = "Third is done." }] }] },
]
"#;

/// Answers once, then asks for an approval.
const ASKS: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ message = "First is done." }] }] },
  { response = [
    { items = [{ shell = "echo hi > hi.txt", escalate = true, justification = "May I write?" }] },
    { items = [{ message = "It is there." }] },
  ] },
]
"#;

/// A Codex in a pane, as a person starts one from a shell.
struct Theirs<'a> {
    stage: &'a Stage,
    screen: Screen<'a>,
}

impl<'a> Theirs<'a> {
    /// Begins one that has done its first turn.
    fn begin(stage: &'a Stage) -> Theirs<'a> {
        let path = stage.repo.path().display().to_string();
        let trust = format!("[projects.{path:?}]\ntrust_level = \"trusted\"\n");
        stage.configure_codex(Which::Pinned.model(), &trust);
        let screen = Screen::run(stage, &["PS1='at-the-shell> ' exec sh -i"]);
        let theirs = Theirs { stage, screen };
        theirs.screen.shows("at-the-shell>");
        theirs.types(&theirs.line());
        theirs.screen.shows("First is done.");
        theirs
    }

    fn line(&self) -> String {
        let path = self.stage.repo.path().display().to_string();
        let home = self.stage.codex_home().display().to_string();
        let program = provost_testkit::model::codex().unwrap().display().to_string();
        format!(
            "cd {path}; CODEX_HOME={home} {program} -c features.daemon_auto_start=false 'Do the first.'"
        )
    }

    fn types(&self, text: &str) {
        self.screen.tmux(&["send-keys", "-l", text]);
        self.screen.tmux(&["send-keys", "Enter"]);
    }

    /// The pane, as `adopt` takes it.
    fn pane(&self) -> String {
        let socket = self.stage.home.root().join("tmux.sock");
        let id = self.screen.tmux(&["list-panes", "-F", "#{pane_id}"]);
        format!("{}:{}", socket.display(), id.trim())
    }

    /// Adopts it, once it has written down its conversation.
    fn adopt_in(&self, home: &Home) -> String {
        eventually("it is seen with its record", || {
            let told = home.provost(&["discover", "--json"]).ok().json();
            let agents = told["agents"].as_array().unwrap().clone();
            let cwd = self.stage.repo.path().display().to_string();
            let ours = agents.iter().find(|one| one["cwd"] == cwd && one["rollout"].is_string());
            ours.map(|_| ()).ok_or_else(|| format!("{} agents", agents.len()))
        });
        let adopted = home.provost(&["adopt", "--tmux", &self.pane(), "--json"]);
        adopted.ok().json()["id"].as_str().unwrap().to_owned()
    }

    fn adopt(&self) -> String {
        let id = self.adopt_in(&self.stage.home);
        at_its_prompt(&self.stage.home, &id);
        id
    }

    /// Ends it, and with it the session.
    fn leave(self, id: &str) -> Value {
        let stage = self.stage;
        drop(self);
        stage.sealed(id)
    }
}

/// Waits until the pane shows its prompt and is open.
fn at_its_prompt(home: &Home, id: &str) {
    home.wait_state(id, |row| row["state"] == "idle" && row["thread"].is_string());
    seen(home, id, "open");
    eventually("it is seen at its prompt", || {
        let shown = home.events_of(id, "signal.hinted");
        let last = shown.iter().rev().find(|event| event["data"]["by"] == "screen").cloned();
        let last = last.unwrap_or_default();
        if last["data"]["said"] == "at_prompt" { Ok(()) } else { Err(last.to_string()) }
    });
}

/// Waits until the pane was last seen like this.
fn seen(home: &Home, id: &str, sight: &str) {
    eventually(&format!("the pane is {sight}"), || {
        let last = home.events_of(id, "pane.seen").pop().unwrap_or_default();
        if last["data"]["sight"] == sight { Ok(()) } else { Err(last.to_string()) }
    });
}

/// Waits until a message waits for this reason.
fn waits_since(home: &Home, id: &str, no: usize, why: &str) {
    let reason = |row: &Value| row["messages"][no]["reason"].as_str().unwrap_or("").to_owned();
    let row = home.wait_state(id, |row| reason(row).contains(why));
    assert_eq!(row["messages"][no]["fate"], "queued", "{row:#}");
}

#[test]
fn a07_text_is_typed_into_an_adopted_pane_at_its_prompt_and_nowhere_else() {
    let Some(stage) = Stage::new(TALKS) else { return };
    let theirs = Theirs::begin(&stage);
    let id = theirs.adopt();
    stage.home.provost(&["send", &id, "Now the\nsecond."]).ok();
    stage.model.wait_for_hold("door");
    let row = stage.home.wait_state(&id, |row| row["messages"][0]["fate"] == "delivered");
    assert_eq!(row["state"], "working", "{row:#}");
    assert_eq!(stage.turns_asked("Now the\nsecond."), 1, "it came as one text");
    stage.home.provost(&["send", &id, "And a third."]).ok();
    waits_since(&stage.home, &id, 1, "in a turn");
    stage.model.release("door");
    stage.home.wait_state(&id, |row| row["messages"][1]["fate"] == "delivered");
    theirs.screen.shows("Third is done.");
    let row = theirs.leave(&id);
    assert_eq!(row["state"], "ended_unclaimed", "{row:#}");
    assert!(row["flags"].as_array().unwrap().contains(&json!("exit_code_unobserved")), "{row:#}");
}
