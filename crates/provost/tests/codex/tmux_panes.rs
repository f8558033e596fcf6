//! An external Codex in a tmux pane. Provost observes the pane and types into it only when that is
//! safe.

use provost_agent_codex::rollout::{CodexHomes, NextLine, RolloutEvent, RolloutFold, RolloutTail};
use provost_testkit::harness::{Crash, TestHome, eventually};
use serde_json::{Value, json};

use crate::{
    codex_env::{CodexEnv, TestedCodex},
    tmux_screen::TmuxScreen,
};

/// Responds once, then blocks on hold `door` in its second turn.
const TALKS: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ message = "First is done." }] }] },
  { response = [{ items = [{ hold = "door" }, { message = "Second is done." }] }] },
  { response = [{ items = [{ message = "Third is done." }] }] },
]
"#;

/// Responds once, then asks for an approval.
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

/// A Codex in a pane, started from a shell as a user does.
struct PaneCodex<'a> {
    stage: &'a CodexEnv,
    screen: TmuxScreen<'a>,
}

impl<'a> PaneCodex<'a> {
    /// Starts Codex and waits until its first turn is done.
    fn start(stage: &'a CodexEnv) -> PaneCodex<'a> {
        let path = stage.repo.path().display().to_string();
        let trust = format!("[projects.{path:?}]\ntrust_level = \"trusted\"\n");
        stage.configure_codex(TestedCodex::Pinned.model(), &trust);
        let screen = TmuxScreen::run(stage, &["PS1='at-the-shell> ' exec sh -i"]);
        let theirs = PaneCodex { stage, screen };
        theirs.screen.wait_for_text("at-the-shell>");
        theirs.type_line(&theirs.command_line());
        theirs.screen.wait_for_text("First is done.");
        theirs
    }

    fn command_line(&self) -> String {
        let path = self.stage.repo.path().display().to_string();
        let home = self.stage.codex_home().display().to_string();
        let program = provost_testkit::model::codex().unwrap().display().to_string();
        format!(
            "cd {path}; CODEX_HOME={home} {program} -c features.daemon_auto_start=false 'Do the first.'"
        )
    }

    /// Starts Codex without a prompt, so that it has not written a rollout yet.
    fn start_without_prompt(stage: &'a CodexEnv) -> PaneCodex<'a> {
        let path = stage.repo.path().display().to_string();
        let trust = format!("[projects.{path:?}]\ntrust_level = \"trusted\"\n");
        stage.configure_codex(TestedCodex::Pinned.model(), &trust);
        let home = stage.codex_home().display().to_string();
        let program = provost_testkit::model::codex().unwrap().display().to_string();
        let line = format!(
            "cd {path}; CODEX_HOME={home} exec {program} -c features.daemon_auto_start=false"
        );
        let screen = TmuxScreen::run(stage, &["sh", "-c", &line]);
        screen.wait_for_text("Ask Codex");
        PaneCodex { stage, screen }
    }

    /// Types a line and waits until it is visible before pressing Enter.
    fn type_line(&self, text: &str) {
        self.screen.tmux(&["send-keys", "-l", text]);
        self.screen.wait_for_text(text.get(..40).unwrap_or(text));
        self.screen.tmux(&["send-keys", "Enter"]);
    }

    /// Returns the pane in the format of `adopt --tmux`.
    fn pane(&self) -> String {
        let socket = self.stage.home.root().join("tmux.sock");
        let id = self.screen.tmux(&["list-panes", "-F", "#{pane_id}"]);
        format!("{}:{}", socket.display(), id.trim())
    }

    /// Adopts the agent once it has written its rollout.
    fn adopt_in(&self, home: &TestHome) -> String {
        eventually("it is discovered with its rollout", || {
            let discovered = home.provost(&["discover", "--json"]).ok().json();
            let agents = discovered["agents"].as_array().unwrap().clone();
            let cwd = self.stage.repo.path().display().to_string();
            let ours = agents.iter().find(|one| one["cwd"] == cwd && one["rollout"].is_string());
            ours.map(|_| ()).ok_or_else(|| format!("{} agents", agents.len()))
        });
        let adopted = home.provost(&["adopt", "--tmux", &self.pane(), "--json"]);
        adopted.ok().json()["id"].as_str().unwrap().to_owned()
    }

    fn adopt(&self) -> String {
        let id = self.adopt_in(&self.stage.home);
        wait_at_prompt(&self.stage.home, &id);
        id
    }

    /// Ends Codex and waits for the session's outcome.
    fn end(self, id: &str) -> Value {
        let stage = self.stage;
        drop(self);
        stage.wait_sealed(id)
    }
}

/// Waits until the pane is open and shows its prompt.
fn wait_at_prompt(home: &TestHome, id: &str) {
    home.wait_state(id, |row| row["state"] == "idle" && row["thread"].is_string());
    wait_sight(home, id, "open");
    eventually("it is at its prompt", || {
        let shown = home.events_of(id, "signal.inferred");
        let last = shown.iter().rev().find(|event| event["data"]["by"] == "screen").cloned();
        let last = last.unwrap_or_default();
        if last["data"]["said"] == "at_prompt" { Ok(()) } else { Err(last.to_string()) }
    });
}

/// Waits until the pane was last observed in this state.
fn wait_sight(home: &TestHome, id: &str, sight: &str) {
    eventually(&format!("the pane is {sight}"), || {
        let last = home.events_of(id, "pane.seen").pop().unwrap_or_default();
        if last["data"]["state"] == sight { Ok(()) } else { Err(last.to_string()) }
    });
}

/// Returns how many times Codex received this text as input, according to its rollouts.
fn count_inputs(stage: &CodexEnv, wanted: &str) -> usize {
    let mut times = 0;
    for rollout in CodexHomes::new(vec![stage.codex_home()]).newest(10).rollouts {
        let (mut tail, mut fold) =
            (RolloutTail::open(&rollout.path, 0).unwrap(), RolloutFold::new());
        while let NextLine::Line(line) = tail.next_line().unwrap() {
            fold.line(&line, |event| {
                let took =
                    matches!(event, RolloutEvent::UserMessage { text, .. } if text == wanted);
                times += usize::from(took);
            });
        }
    }
    times
}

/// Waits until a message is queued for this reason.
fn wait_queued(home: &TestHome, id: &str, no: usize, why: &str) {
    let reason = |row: &Value| row["messages"][no]["reason"].as_str().unwrap_or("").to_owned();
    let row = home.wait_state(id, |row| reason(row).contains(why));
    assert_eq!(row["messages"][no]["status"], "queued", "{row:#}");
}

#[test]
fn a07_text_is_typed_only_at_the_pane_prompt() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let theirs = PaneCodex::start(&stage);
    let id = theirs.adopt();
    stage.home.provost(&["send", &id, "Now the\nsecond."]).ok();
    stage.model.wait_for_hold("door");
    let row = stage.home.wait_state(&id, |row| row["messages"][0]["status"] == "delivered");
    assert_eq!(row["state"], "working", "{row:#}");
    assert_eq!(count_inputs(&stage, "Now the\nsecond."), 1, "it came as one text");
    stage.home.provost(&["send", &id, "And a third."]).ok();
    wait_queued(&stage.home, &id, 1, "in a turn");
    stage.model.release("door");
    stage.home.wait_state(&id, |row| row["messages"][1]["status"] == "delivered");
    theirs.screen.wait_for_text("Third is done.");
    let row = theirs.end(&id);
    assert_eq!(row["state"], "exited_without_claim", "{row:#}");
    assert!(row["flags"].as_array().unwrap().contains(&json!("exit_code_unobserved")), "{row:#}");
}

#[test]
fn approval_in_adopted_pane_can_be_given_by_cli() {
    let Some(stage) = CodexEnv::new(ASKS) else { return };
    let theirs = PaneCodex::start(&stage);
    let id = theirs.adopt();
    stage.home.provost(&["send", &id, "Write it."]).ok();
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    assert_eq!(row["requests"][0]["kind"], "approval", "{row:#}");
    let row = stage.home.wait_state(&id, |row| row["requests"][0]["subject"].is_object());
    let subject = &row["requests"][0]["subject"];
    let (command, by) = (&subject["command"], &subject["inferred_from"]);
    assert_eq!((command, by), (&json!("echo hi > hi.txt"), &json!("screen")), "{row:#}");
    let shown = stage.home.provost(&["status", &id]).ok().stdout.clone();
    assert!(shown.contains("command: echo hi > hi.txt (inferred from its screen)"), "{shown}");
    // Text that is typed now would answer the open request.
    stage.home.provost(&["send", &id, "Anything."]).ok();
    wait_queued(&stage.home, &id, 1, "open request");
    let request = row["requests"][0]["id"].as_str().unwrap().to_owned();
    stage.home.provost(&["approve", &request]).ok();
    eventually("it wrote", || std::fs::read_to_string(stage.repo.path().join("hi.txt")).ok());
    theirs.end(&id);
}

#[test]
fn approval_in_small_pane_says_where_to_look() {
    let Some(stage) = CodexEnv::new(ASKS) else { return };
    let theirs = PaneCodex::start(&stage);
    let id = theirs.adopt();
    theirs.screen.tmux(&["resize-window", "-x", "60", "-y", "8"]);
    stage.home.provost(&["send", &id, "Do the second."]).ok();
    theirs.screen.wait_for_text("lines] ^a view all");
    // The terminal's title changes before its screen. Until the screen is read, Provost knows only
    // that input is needed.
    let row = stage.home.wait_state(&id, |row| {
        row["state"] == "needs_input" && row["requests"][0]["kind"] == "approval"
    });
    let (request, pane) = (&row["requests"][0], theirs.pane());
    let (socket, pane) = pane.rsplit_once(':').unwrap();
    assert_eq!(request["subject"], Value::Null, "{row:#}");
    assert!(request["title"].as_str().unwrap().contains("does not show the subject"), "{row:#}");
    assert_eq!(request["commands"][0], format!("tmux -S {socket} attach -t {pane}"), "{row:#}");
    let shown = stage.home.provost(&["status", &id]).ok().stdout.clone();
    for command in request["commands"].as_array().unwrap() {
        assert!(shown.contains(command.as_str().unwrap()), "{shown}");
    }
    // With enough room, the command is shown.
    theirs.screen.tmux(&["resize-window", "-x", "60", "-y", "20"]);
    let row = stage.home.wait_state(&id, |row| row["requests"][0]["subject"].is_object());
    assert_eq!(row["requests"][0]["subject"]["command"], "echo hi > hi.txt", "{row:#}");
    let first = row["requests"][0]["commands"][0].as_str().unwrap();
    assert!(first.starts_with("provost approve"), "{row:#}");
    theirs.end(&id);
}

#[test]
fn a07_nothing_is_typed_into_foreground_shell() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let theirs = PaneCodex::start(&stage);
    let id = theirs.adopt();
    // This sends SIGTSTP to the foreground process group, like Ctrl-Z.
    let pid = stage.home.wait_state(&id, |_| true)["launches"][0]["pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let group = rustix::process::getpgid(Some(pid)).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::STOP).unwrap();
    stage.home.provost(&["send", &id, "rm -rf everything"]).ok();
    let row = stage.home.wait_state(&id, |row| row["messages"][0]["reason"].is_string());
    assert_eq!(row["messages"][0]["status"], "queued", "{row:#}");
    // The stopped agent left the terminal in raw mode, so input is not echoed and Ctrl-J replaces
    // Enter.
    theirs.screen.tmux(&["send-keys", "-l", "echo this-is-$((6*7))"]);
    theirs.screen.tmux(&["send-keys", "C-j"]);
    theirs.screen.wait_for_text("this-is-42");
    wait_sight(&stage.home, &id, "other_program");
    assert!(!theirs.screen.tmux(&["capture-pane", "-p"]).contains("rm -rf"), "typed into a shell");
    theirs.end(&id);
}

#[test]
fn t09_scrolling_or_typing_user_is_not_disturbed() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let theirs = PaneCodex::start(&stage);
    let id = theirs.adopt();
    let second = TestHome::new();
    let other = theirs.adopt_in(&second);
    wait_at_prompt(&second, &other);
    theirs.screen.tmux(&["copy-mode"]);
    stage.home.provost(&["send", &id, "Now the second."]).ok();
    wait_queued(&stage.home, &id, 0, "scrolling back");
    wait_sight(&stage.home, &id, "scrolled_back");
    theirs.screen.tmux(&["resize-window", "-x", "100", "-y", "35"]);
    assert_eq!(theirs.screen.tmux(&["display-message", "-p", "#{pane_in_mode}"]).trim(), "1");
    theirs.screen.tmux(&["send-keys", "-X", "cancel"]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["messages"][0]["status"] == "delivered");
    second.wait_state(&other, |row| row["state"] == "working");
    stage.model.release("door");
    stage.home.wait_state(&id, |row| row["state"] == "idle");
    second.wait_state(&other, |row| row["state"] == "idle");
    assert_eq!(count_inputs(&stage, "Now the second."), 1);
    theirs.screen.tmux(&["send-keys", "-l", "half a thought"]);
    theirs.screen.wait_for_text("half a thought");
    stage.home.provost(&["send", &id, "And a third."]).ok();
    wait_queued(&stage.home, &id, 1, "begun to write");
    theirs.screen.tmux(&["send-keys", "C-u"]);
    stage.home.wait_state(&id, |row| row["messages"][1]["status"] == "delivered");
    assert_eq!(
        (count_inputs(&stage, "And a third."), count_inputs(&stage, "half a thought")),
        (1, 0)
    );
    theirs.end(&id);
    second.wait_sealed(&other);
}

#[test]
fn crash_while_typing_types_nothing_again() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let theirs = PaneCodex::start(&stage);
    let id = theirs.adopt();
    stage.home.daemon().kill();
    let crash = Crash { failpoint: "pane.typing", nth: 1 };
    let mut daemon = stage.home.daemon().start(Some(&crash));
    stage.home.provost(&["send", &id, "Never typed."]).ok();
    daemon.wait().unwrap();
    wait_queued(&stage.home, &id, 0, "may have been typed");
    assert!(!theirs.screen.tmux(&["capture-pane", "-p"]).contains("Never typed."));
    theirs.type_line("Now the second.");
    stage.model.wait_for_hold("door");
    stage.model.release("door");
    stage.home.wait_state(&id, |row| row["messages"][0]["status"] == "undeliverable");
    assert_eq!(count_inputs(&stage, "Never typed."), 0);
    theirs.end(&id);
}

#[test]
fn crash_after_typing_finds_confirmation() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let theirs = PaneCodex::start(&stage);
    let id = theirs.adopt();
    stage.home.daemon().kill();
    let crash = Crash { failpoint: "pane.typed", nth: 1 };
    let mut daemon = stage.home.daemon().start(Some(&crash));
    stage.home.provost(&["send", &id, "Now the second."]).ok();
    daemon.wait().unwrap();
    stage.home.wait_state(&id, |row| row["messages"][0]["status"] == "delivered");
    stage.model.wait_for_hold("door");
    assert_eq!(count_inputs(&stage, "Now the second."), 1);
    stage.model.release("door");
    theirs.end(&id);
}

/// Counts the desktop notifications that Codex sent to its terminal.
fn count_notifications(stream: &std::path::Path) -> usize {
    let bytes = std::fs::read(stream).unwrap_or_default();
    String::from_utf8_lossy(&bytes).matches("\u{1b}]9;").count()
}

#[test]
fn f6_w4_adopted_codex_still_notifies_its_user() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let path = stage.repo.path().display().to_string();
    let more = format!(
        "[projects.{path:?}]\ntrust_level = \"trusted\"\n\
         [tui]\nnotifications = true\nnotification_method = \"osc9\"\n"
    );
    stage.configure_codex(TestedCodex::Pinned.model(), &more);
    let screen = TmuxScreen::run(&stage, &["PS1='at-the-shell> ' exec sh -i"]);
    let theirs = PaneCodex { stage: &stage, screen };
    let stream = stage.home.root().join("stream");
    theirs.screen.tmux(&["set-option", "-g", "focus-events", "on"]);
    // Captures all terminal output, with a pipe that belongs to the user.
    theirs.screen.tmux(&["pipe-pane", &format!("exec cat > {}", stream.display())]);
    theirs.screen.wait_for_text("at-the-shell>");
    theirs.type_line(&theirs.command_line());
    theirs.screen.wait_for_text("First is done.");
    let wait_notified = |turns: usize| {
        eventually("the user is notified", || {
            let notified = count_notifications(&stream);
            if notified == turns { Ok(()) } else { Err(notified) }
        });
    };
    wait_notified(1);
    let id = theirs.adopt();
    theirs.type_line("Now the second.");
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["state"] == "working");
    stage.model.release("door");
    theirs.screen.wait_for_text("Second is done.");
    wait_notified(2);
    stage.home.provost(&["cancel", &id]).ok();
    stage.wait_sealed(&id);
    theirs.type_line("And the third.");
    theirs.screen.wait_for_text("Third is done.");
    wait_notified(3);
}

/// Codex creates its rollout with the first prompt.
#[test]
fn codex_adopted_before_first_prompt_is_followed() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let theirs = PaneCodex::start_without_prompt(&stage);
    let adopted = stage.home.provost(&["adopt", "--tmux", &theirs.pane(), "--json"]).ok().json();
    let id = adopted["id"].as_str().unwrap().to_owned();
    assert!(adopted["warnings"].to_string().contains("first prompt"), "{adopted:#}");
    let row = stage.home.wait_state(&id, |row| row["process"] == "alive");
    assert!(row["flags"].as_array().unwrap().contains(&json!("turns_unobservable")), "{row:#}");
    stage.home.provost(&["send", &id, "Do the first."]).ok();
    let row = stage.home.wait_state(&id, |row| {
        row["messages"][0]["status"] == "delivered" && row["state"] == "idle" && row["turns"] == 1
    });
    assert!(!row["flags"].as_array().unwrap().contains(&json!("turns_unobservable")), "{row:#}");
    let thread = row["thread"].as_str().unwrap().to_owned();
    theirs.type_line("Now the second.");
    stage.model.wait_for_hold("door");
    stage.home.daemon().kill();
    stage.home.wait_state(&id, |row| row["state"] == "working" && row["turns"] == 2);
    stage.model.release("door");
    let row = stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert_eq!(row["thread"], thread.as_str(), "{row:#}");
    theirs.end(&id);
}

#[test]
fn interrupt_and_compact_work_in_a_pane() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let theirs = PaneCodex::start(&stage);
    let id = theirs.adopt();
    theirs.type_line("Now the second.");
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["state"] == "working");
    stage.home.provost(&["interrupt", &id, "Do the third instead."]).ok();
    theirs.screen.wait_for_text("Third is done.");
    let delivered = |row: &Value| {
        let messages = row["messages"].as_array().unwrap();
        !messages.is_empty() && messages.iter().all(|one| one["status"] == "delivered")
    };
    stage.home.wait_state(&id, |row| delivered(row) && row["state"] == "idle");
    let ends = stage.home.events_of(&id, "turn.ended");
    assert_eq!(ends[0]["data"]["end"], "interrupted", "{ends:#?}");
    stage.home.provost(&["compact", &id]).ok();
    eventually("the compaction is recorded", || {
        (stage.home.events_of(&id, "context.compacted").len() == 1).then_some(())
    });
    stage.home.wait_state(&id, |row| delivered(row) && row["state"] == "idle");
    theirs.end(&id);
}
