//! Secret answers reach the agent, but appear in none of Provost's files or output.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use provost_testkit::harness::{eventually, provost_bin};

use crate::{
    approvals::{all_files, rollout_path, turn_with_result, wait_request},
    codex_env::{CodexEnv, TestedCodex},
    tmux_screen::TmuxScreen,
};

/// Pause between two scans of the processes.
const SCAN_INTERVAL: Duration = Duration::from_millis(10);

const CANARY: &str = "c4n4ry-s3cr3t-9f27";

const TOKEN: &str = r#"
    { items = [{ ask = [{ id = "token", header = "Token", question = "Which token?", secret = true, options = [{ label = "None", description = "go on without" }, { label = "Later", description = "ask again" }] }] }] },
    { items = [{ shell = "cat /proc/self/environ > environment" }] },
    { items = [{ hold = "door" }, { message = "Thank you." }] },"#;

const COLOUR_AND_TOKEN: &str = r#"
    { items = [{ ask = [
      { id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] },
      { id = "token", header = "Token", question = "Which token?", secret = true, options = [{ label = "None", description = "go on without" }, { label = "Later", description = "ask again" }] },
    ] }] },
    { items = [{ message = "Thank you." }] },"#;

#[test]
fn r06_secret_answer_is_never_stored_or_shown() {
    let Some(stage) = CodexEnv::new(&turn_with_result(TOKEN)) else { return };
    let canary = &format!("{CANARY}-{}", stage.root().file_name().unwrap().to_str().unwrap());
    assert_search_finds(canary);
    let watch = ProcessScan::start(canary);
    let payloads = stage.root().join("payloads");
    let hook = format!("cat - /proc/self/environ /proc/self/cmdline >> {}", payloads.display());
    stage.configure(&format!(
        "[hooks]\nsession.needs_input = {hook:?}\nsession.completed = {hook:?}\n"
    ));
    let id = stage.spawn(&["Log in."]);
    let asked = wait_request(&stage, &id, 1);
    assert_eq!(asked["questions"][0]["secret"], true, "{asked:#}");
    let shown = stage.provost(&["answer", &id, "0th3r-s3cr3t"]);
    assert!(shown.assert_code(2).stderr.contains("secret"), "an argument can be seen: {shown:#?}");
    assert!(!shown.stderr.contains("0th3r-s3cr3t"), "{shown:#?}");

    let given = stage.provost_with_input(&["answer", &id, "--secret"], &format!("{canary}\n"));
    given.ok();
    stage.model.wait_for_hold("door");
    let outputs = stage.model.requests().pop().unwrap().request.outputs();
    let heard = outputs.iter().filter(|(_, text)| text.contains(canary)).count();
    assert_eq!(heard, 1, "it did not reach the agent once: {outputs:?}");
    assert!(stage.repo.read("environment").contains("PROVOST_SESSION="), "a command ran since");
    assert_hidden(&stage, &id, canary);
    stage.model.release("door");
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert!(!given.stdout.contains(canary) && !given.stderr.contains(canary), "{given:#?}");
    assert_hidden(&stage, &id, canary);
    let payloads = fs::read_to_string(payloads).unwrap();
    assert!(payloads.contains("\"secret\":true"), "the hook did run: {payloads}");

    stage.provost(&["daemon", "stop"]).ok();
    assert_hidden(&stage, &id, canary);
    assert_eq!(files_with(&stage, canary), [rollout_path(&stage, &id)], "as it is documented");
    stage.provost(&["gc", "--apply", "--older-than", "0s"]).ok();
    assert_eq!(files_with(&stage, canary), Vec::<PathBuf>::new(), "gc left no secret behind");
    assert!(!stage.path().join("agents").join(&id).exists(), "all of Codex's store is gone");
    let (looks, seen) = watch.finish();
    assert!(looks > 10, "{looks} looks at all processes");
    assert_eq!(seen, BTreeSet::new());
}

/// A secret that needs escapes in JSON, and a part of it that is the same with all escapes.
const REPEATED: (&str, &str) = (r#"c4n4ry-9f27-"x\y"#, "c4n4ry-9f27");

#[test]
fn secret_repeated_by_agent_is_masked() {
    let (secret, canary) = REPEATED;
    let print = format!("printf '%s\\n' '{secret}'; printf '%s\\n' '{secret}' >&2");
    let report = format!("{} report working --message '{secret}'", provost_bin().display());
    let turn = format!(
        r#"
        {{ items = [{{ ask = [{{ id = "token", header = "Token", question = "Which token?", secret = true, options = [{{ label = "None", description = "go on without" }}, {{ label = "Later", description = "ask again" }}] }}] }}] }},
        {{ items = [{{ message = "You said {{{{last_output}}}}" }}, {{ shell = {print:?} }}] }},
        {{ items = [{{ shell = {report:?} }}] }},
        {{ items = [{{ tool = "provost_fact", args = {{ kind = "artifact", value = {secret:?} }} }}] }},
        {{ items = [{{ tool = "provost_report", args = {{ status = "completed", summary = {secret:?} }} }}] }},
        {{ items = [{{ message = {secret:?} }}] }},"#
    );
    let scenario = format!(
        "[[thread]]\nturn = [{{ response = [{turn}] }}, {{ response = [{{ items = [{{ message = {secret:?} }}] }}] }}, {{ response = [{{ items = [{{ message = '{{\"status\":\"completed\",\"summary\":\"done\"}}' }}] }}] }}]"
    );
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, &scenario) else { return };
        let id = stage.spawn(&["Log in."]);
        wait_request(&stage, &id, 1);
        stage.provost_with_input(&["answer", &id, "--secret"], &format!("{secret}\n")).ok();
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{which:?}: {row:#}");
        for masked in [&row["claim_text"], &row["facts"][0]["value"]] {
            let masked = masked.as_str().unwrap();
            assert!(!masked.is_empty() && masked.bytes().all(|byte| byte == b'*'), "{row:#}");
        }
        assert_eq!(stage.events_of(&id, "claim.made").len(), 2);
        assert_only_in(&stage, &id, canary, "codex");
        let logs = stage.provost(&["logs", &id, "--raw"]).ok().stdout.clone();
        assert!(logs.contains("You said ") && logs.contains("*****"), "{which:?}: {logs}");
        let requests = stage.model.requests();
        let heard =
            requests.iter().filter(|made| made.request.last_output().contains(canary)).count();
        assert!(heard >= 2, "the agent knows it: {heard}");

        // The next process may receive the whole conversation again.
        stage.provost(&["send", &id, "Once more."]).ok();
        assert_eq!(stage.wait_sealed(&id)["state"], "completed");
        assert_only_in(&stage, &id, canary, "codex");
        stage.model.assert_all_as_scripted();
    }
}

/// Asserts that a process with the secret is found, both by its arguments and by its environment.
#[track_caller]
fn assert_search_finds(secret: &str) {
    let in_arguments = ["-c", "read nothing", secret];
    for (arguments, variable) in [(&in_arguments[..], ""), (&in_arguments[..2], secret)] {
        let mut shown = Command::new("sh");
        shown.args(arguments).env("SHOWN", variable).stdin(Stdio::piped());
        let mut shown = shown.spawn().unwrap();
        eventually("it is found", || processes_with(secret).pop());
        // The process ends when its input is closed.
        shown.wait().unwrap();
        assert_eq!(processes_with(secret), Vec::<String>::new());
    }
}

/// Scans the arguments and environment of every process on the machine, repeatedly.
struct ProcessScan {
    stop: Sender<()>,
    scanner: JoinHandle<(usize, BTreeSet<String>)>,
}

impl ProcessScan {
    fn start(secret: &str) -> ProcessScan {
        let (end, ended) = mpsc::channel();
        let secret = secret.to_owned();
        let looking = thread::spawn(move || {
            let (mut looks, mut seen) = (0, BTreeSet::new());
            while ended.recv_timeout(SCAN_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                seen.extend(processes_with(&secret));
                looks += 1;
            }
            (looks, seen)
        });
        ProcessScan { stop: end, scanner: looking }
    }

    /// Returns the number of scans and the processes found.
    fn finish(self) -> (usize, BTreeSet<String>) {
        drop(self.stop);
        self.scanner.join().unwrap()
    }
}

/// Returns the files that contain the secret.
fn files_with(stage: &CodexEnv, secret: &str) -> Vec<PathBuf> {
    let has = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(secret.len()).any(|part| part == secret.as_bytes())
    };
    all_files(stage).into_iter().filter(has).collect()
}

/// Asserts that only Codex's rollouts contain the secret, and that no command shows it.
#[track_caller]
fn assert_hidden(stage: &CodexEnv, id: &str, secret: &str) {
    assert_only_in(stage, id, secret, "codex/sessions");
}

/// Asserts that only this part of Codex's store contains the secret, and that no command shows it.
#[track_caller]
fn assert_only_in(stage: &CodexEnv, id: &str, secret: &str, part: &str) {
    let store = stage.path().join("agents").join(id).join(part);
    let elsewhere: Vec<PathBuf> =
        files_with(stage, secret).into_iter().filter(|path| !path.starts_with(&store)).collect();
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
        let output = stage.provost(arguments);
        assert!(!output.stdout.contains(secret) && !output.stderr.contains(secret), "{output:#?}");
    }
}

/// Returns the arguments and environments that contain a text, of processes of any user.
fn processes_with(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let shown = processes.map(|process| {
        let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
        let all = [read("cmdline"), read("environ")].concat();
        String::from_utf8_lossy(&all).into_owned()
    });
    shown.filter(|shown| shown.contains(text)).collect()
}

#[test]
fn terminal_prompt_numbers_options_and_hides_secret() {
    let Some(stage) = CodexEnv::new(&turn_with_result(COLOUR_AND_TOKEN)) else { return };
    let id = stage.spawn(&["Paint it."]);
    wait_request(&stage, &id, 1);
    let screen = TmuxScreen::run_provost_and_stay(&stage, &["answer", &id]);
    screen.wait_for_text("Which colour?");
    screen.wait_for_text("1) Red");
    screen.wait_for_text("2) Blue");
    type_line(&screen, "2");
    screen.wait_for_text("Which token?");
    screen.wait_for_text("(not shown)");
    type_line(&screen, CANARY);
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    let seen = screen.tmux(&["capture-pane", "-p", "-S", "-"]);
    assert!(seen.contains("Which token?") && !seen.contains(CANARY), "{seen}");
    let given = stage.model.requests().pop().unwrap().request.outputs().pop().unwrap().1;
    assert!(
        given.contains(r#""colour":{"answers":["Blue"]}"#) && given.contains(CANARY),
        "{given}"
    );
    stage.model.assert_all_as_scripted();
}

fn type_line(screen: &TmuxScreen<'_>, text: &str) {
    screen.tmux(&["send-keys", "-l", text]);
    screen.tmux(&["send-keys", "Enter"]);
}
