//! Secret answers: they reach the agent, and of Provost's own things they are in none.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    kit::Stage,
    requests::{files, open, turn_of},
    screen::Screen,
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
    let screen = Screen::begin_and_stay(&stage, &["answer", &id]);
    screen.shows("Which colour?");
    screen.shows("1) Red");
    screen.shows("2) Blue");
    types(&screen, "2");
    screen.shows("Which token?");
    screen.shows("(not shown)");
    types(&screen, CANARY);
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

fn types(screen: &Screen<'_>, text: &str) {
    screen.tmux(&["send-keys", "-l", text]);
    screen.tmux(&["send-keys", "Enter"]);
}
