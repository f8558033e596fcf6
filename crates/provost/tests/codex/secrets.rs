//! Secret answers: they reach the agent, and of Provost's own things they are in none.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use provost_testkit::harness::eventually;

use crate::{
    kit::Stage,
    requests::{files, open, turn_of},
};

const CANARY: &str = "c4n4ry-s3cr3t-9f27";

const TOKEN: &str = r#"
    { items = [{ ask = [{ id = "token", header = "Token", question = "Which token?", secret = true, options = [{ label = "None", description = "go on without" }, { label = "Later", description = "ask again" }] }] }] },
    { items = [{ hold = "door" }, { message = "Thank you." }] },"#;

const COLOUR_AND_TOKEN: &str = r#"
    { items = [{ ask = [
      { id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] },
      { id = "token", header = "Token", question = "Which token?", secret = true, options = [{ label = "None", description = "go on without" }, { label = "Later", description = "ask again" }] },
    ] }] },
    { items = [{ message = "Thank you." }] },"#;

#[test]
fn r06_a_secret_answer_is_in_no_file_argument_environment_or_output_of_provost() {
    let Some(stage) = Stage::new(&turn_of(TOKEN)) else { return };
    let payloads = stage.home.root().join("payloads");
    let hook = format!("cat >> {}", payloads.display());
    stage.configure(&format!(
        "[hooks]\nsession.needs_input = {hook:?}\nsession.completed = {hook:?}\n"
    ));
    let id = stage.spawn(&["Log in."]);
    let asked = open(&stage, &id, 1);
    assert_eq!(asked["questions"][0]["secret"], true, "{asked:#}");
    let shown = stage.home.provost(&["answer", &id, CANARY]);
    assert!(shown.exits(2).stderr.contains("secret"), "an argument can be seen: {shown:#?}");
    assert!(!shown.stderr.contains(CANARY), "{shown:#?}");

    let given = stage.home.provost_with_input(&["answer", &id, "--secret"], &format!("{CANARY}\n"));
    given.ok();
    stage.model.wait_for_hold("door");
    let outputs = stage.model.requests().pop().unwrap().request.outputs();
    let heard = outputs.iter().filter(|(_, text)| text.contains(CANARY)).count();
    assert_eq!(heard, 1, "it reached the agent: {outputs:?}");
    assert_eq!(processes_with(CANARY, stage.home.root()), Vec::<String>::new());
    assert_hidden(&stage, &id);
    stage.model.release("door");
    assert_eq!(stage.sealed(&id)["state"], "completed");
    assert!(!given.stdout.contains(CANARY) && !given.stderr.contains(CANARY), "{given:#?}");
    assert_hidden(&stage, &id);
    let payloads = fs::read_to_string(payloads).unwrap();
    assert!(payloads.contains("\"secret\":true"), "the hook did run: {payloads}");

    stage.home.provost(&["daemon", "stop"]).ok();
    assert_hidden(&stage, &id);
    assert!(
        !hits(&stage).is_empty(),
        "Codex keeps it in its own store, so this search can find it"
    );
    stage.home.provost(&["gc", "--apply", "--older-than", "0s"]).ok();
    assert_eq!(hits(&stage), Vec::<PathBuf>::new(), "what was put away holds no secret");
}

/// Files with the secret in them.
fn hits(stage: &Stage) -> Vec<PathBuf> {
    let has = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes())
    };
    files(stage).into_iter().filter(has).collect()
}

/// Demands that only Codex's own store has the secret, and that no command shows it.
#[track_caller]
fn assert_hidden(stage: &Stage, id: &str) {
    let store = stage.home.path().join("agents").join(id);
    let elsewhere: Vec<PathBuf> =
        hits(stage).into_iter().filter(|path| !path.starts_with(&store)).collect();
    assert_eq!(elsewhere, Vec::<PathBuf>::new());
    for arguments in [
        &["status", id][..],
        &["status", id, "--json"],
        &["status", id, "--why"],
        &["events", id],
        &["events", id, "--json", "--limit", "10000"],
        &["logs", id],
        &["logs", id, "--raw"],
        &["ls", "--all"],
        &["ls", "--all", "--json"],
    ] {
        let told = stage.home.provost(arguments);
        assert!(!told.stdout.contains(CANARY) && !told.stderr.contains(CANARY), "{told:#?}");
    }
}

/// Processes of this home that show a text in their arguments or environment.
fn processes_with(text: &str, root: &Path) -> Vec<String> {
    let ours = root.to_str().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| {
            String::from_utf8_lossy(&fs::read(entry.path().join(name)).unwrap_or_default())
                .into_owned()
        };
        let seen = read("cmdline") + &read("environ");
        if seen.contains(ours) && seen.contains(text) {
            found.push(seen);
        }
    }
    found
}

#[test]
fn at_a_terminal_options_are_numbered_and_a_secret_is_not_shown() {
    let Some(stage) = Stage::new(&turn_of(COLOUR_AND_TOKEN)) else { return };
    let id = stage.spawn(&["Paint it."]);
    open(&stage, &id, 1);
    let screen = Screen::begin(&stage, &["answer", &id]);
    screen.shows("Which colour?");
    screen.shows("1) Red");
    screen.shows("2) Blue");
    screen.types("2");
    screen.shows("Which token?");
    screen.shows("(not shown)");
    screen.types(CANARY);
    assert_eq!(stage.sealed(&id)["state"], "completed");
    let seen = screen.tmux(&["capture-pane", "-p", "-S", "-"]);
    assert!(seen.contains("Which token?") && !seen.contains(CANARY), "{seen}");
    let given = stage.model.requests().pop().unwrap().request.outputs().pop().unwrap().1;
    assert!(
        given.contains(r#""colour":{"answers":["Blue"]}"#) && given.contains(CANARY),
        "{given}"
    );
    stage.model.assert_all_as_scripted();
}

/// A terminal in which a command runs. Dropping it closes the terminal.
struct Screen<'a>(&'a Stage);

impl<'a> Screen<'a> {
    fn begin(stage: &'a Stage, arguments: &[&str]) -> Self {
        let screen = Screen(stage);
        let command = stage.home.command(arguments);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
        // The screen stays when the command has ended, so that all of it can be read.
        let start = ["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40"];
        let line = format!("{}; cat", words.join(" "));
        screen.tmux(&[&start[..], &[line.as_str()]].concat());
        screen
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        eventually(&format!("{text:?} on the screen"), || {
            let shown = self.tmux(&["capture-pane", "-p"]);
            if shown.contains(text) { Ok(()) } else { Err(shown) }
        });
    }

    fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.tmux(&["send-keys", "Enter"]);
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let like = self.0.home.command(&["answer"]);
        let environment = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut tmux = Command::new("tmux");
        tmux.env_clear().envs(environment).env("TERM", "xterm-256color");
        tmux.arg("-S").arg(self.0.home.root().join("tmux.sock")).args(arguments);
        let ran = tmux.current_dir(self.0.home.root()).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
