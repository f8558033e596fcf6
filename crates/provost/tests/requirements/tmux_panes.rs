//! Tmux panes: external agents that run in them, and windows that show the sessions Provost hosts.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use provost_testkit::harness::{TestHome, eventually, eventually_within};
use serde_json::{Value, json};

use provost_testkit::env::{TestEnv, is_running, kill};

/// Looks like Codex at its prompt. Records each line of input and obeys some of them. It can outlive its
/// terminal.
const FAKE_CODEX_SCRIPT: &str = r#"
exec 3>>"$1"
[ -e "$2.stays" ] && trap '' HUP
stty -echo
[ -e "$2.focus" ] && printf '\033[?1004h'
prompt() { printf '\033[2J\033[H\033[?2004h\033[1m›\033[0m \033[2mAsk Codex to do anything\033[0m\r\n\r\n  ? for shortcuts\r\n'; }
written() { printf '\033[2J\033[H\033[1m›\033[0m %s\r\n\r\n  GPT · /\r\n' "$1"; }
prompt
while read -r line; do
  printf '%s\n' "$line" >> "$2"
  case $line in
    flood) printf '\033[2J\033[H'; yes 0123456789012345678901234567890123456789012345678901234567890123456789 | head -c 100000000; touch "$2.flooded"; prompt;;
    working) printf '\033]0;Working | here\007';;
    idle) printf '\033]0;Ready | here\007';;
    *it*stays*) written 'it stays';;
    *it*grows*) written 'it grows, and I write on';;
  esac
done
while [ -e "$2.stays" ]; do sleep 0.1; done
"#;

/// Time limit for a hundred megabytes on a busy machine.
const FLOOD_TIMEOUT: Duration = Duration::from_secs(150);

/// A tmux server that Provost did not start, in the test's directory.
pub(crate) struct ForeignTmux<'a>(pub(crate) &'a TestEnv);

impl<'a> ForeignTmux<'a> {
    /// Starts a server with these sessions, each running an agent.
    pub(crate) fn start(stage: &'a TestEnv, names: &[&str]) -> Option<ForeignTmux<'a>> {
        if tmux_is_missing() {
            return None;
        }
        fs::write(stage.file("looks"), FAKE_CODEX_SCRIPT).unwrap();
        // Provost recognizes an agent by the name of its program.
        fs::copy("/bin/sh", stage.file("codex")).unwrap();
        let theirs = ForeignTmux(stage);
        names.iter().for_each(|name| theirs.start_agent(name));
        Some(theirs)
    }

    pub(crate) fn start_agent(&self, name: &str) {
        let thread = format!("01a1e08b-614a-7c61-a49a-{:012x}", thread_suffix(name));
        let record = self.0.file(&format!("rollout-2026-11-15T18-49-53-{thread}.jsonl"));
        let meta = json!({"id": thread, "timestamp": "2026-11-15T18:49:53.000Z", "cwd": "/",
            "originator": "codex", "cli_version": "0.166.0", "source": "cli"});
        let line = json!({"timestamp": "2026-11-15T18:49:53.000Z", "type": "session_meta", "payload": meta});
        fs::write(&record, format!("{line}\n")).unwrap();
        let (program, script) = (self.0.file("codex"), self.0.file("looks"));
        let start = ["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-s", name];
        let log = self.log_path(name);
        let words = [program.as_str(), &script, &record, &log];
        self.tmux(&[start.as_slice(), &words].concat());
    }

    pub(crate) fn log_path(&self, name: &str) -> String {
        self.0.file(&format!("{name}.log"))
    }

    pub(crate) fn received_input(&self, name: &str) -> String {
        fs::read_to_string(self.log_path(name)).unwrap_or_default()
    }

    /// Adopts the agent of a session in a home, and waits until it is seen at its prompt.
    pub(crate) fn adopt_in(&self, home: &TestHome, name: &str) -> String {
        let pane = format!("{}:{}", self.0.file("their.sock"), self.pane_id(name));
        let id = eventually("the agent is there", || {
            let adopted = home.provost(&["adopt", "--tmux", &pane, "--json"]);
            match adopted.code() {
                Some(0) => Ok(adopted.json()["id"].as_str().unwrap().to_owned()),
                _ => Err(adopted.stdout),
            }
        });
        wait_screen_signal(home, &id, "screen", "at_prompt");
        id
    }

    pub(crate) fn pane_id(&self, name: &str) -> String {
        let exact = format!("={name}:");
        self.tmux(&["list-panes", "-t", &exact, "-F", "#{pane_id}"]).trim().to_owned()
    }

    /// Types a line into the pane of a session, as a user does.
    pub(crate) fn type_line(&self, name: &str, line: &str) {
        let pane = self.pane_id(name);
        self.tmux(&["send-keys", "-t", &pane, "-l", line]);
        self.tmux(&["send-keys", "-t", &pane, "Enter"]);
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.tmux(&["display-message", "-p", "#{pid}"]).trim().parse().unwrap()
    }

    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        tmux(self.0, &self.0.file("their.sock"), arguments)
    }
}

impl Drop for ForeignTmux<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

pub(crate) fn tmux(stage: &TestEnv, socket: &str, arguments: &[&str]) -> String {
    let like = stage.home.command(&["status"]);
    let environment = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut tmux = Command::new("tmux");
    tmux.env_clear().envs(environment).env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
    tmux.arg("-S").arg(socket).args(arguments).stdin(Stdio::null());
    let ran = tmux.current_dir(stage.home.root()).output().unwrap();
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[expect(clippy::disallowed_methods, reason = "the test run says what it does without")]
pub(crate) fn tmux_is_missing() -> bool {
    std::env::var("PROVOST_TEST_MISSING").unwrap_or_default().split(',').any(|tool| tool == "tmux")
}

fn thread_suffix(name: &str) -> u64 {
    name.bytes().fold(7, |sum, byte| (sum * 31 + u64::from(byte)) & 0xff_ffff)
}

/// Waits until the newest signal from this source about a terminal has this label.
pub(crate) fn wait_screen_signal(home: &TestHome, id: &str, by: &str, signal: &str) {
    eventually(&format!("{by} says {signal}"), || {
        let hints = home.events_of(id, "signal.inferred");
        let last = hints.into_iter().rev().find(|event| event["data"]["by"] == by);
        let last = last.unwrap_or_default();
        if last["data"]["said"] == signal { Ok(()) } else { Err(last.to_string()) }
    });
}

/// Returns a process's resident memory in KiB.
fn memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn m14_text_goes_to_the_adopted_pane_despite_prefixes() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["agent", "agent-2", "agent-22"]) else {
        return;
    };
    let id = theirs.adopt_in(&stage.home, "agent-2");
    stage.home.provost(&["send", &id, "for the second"]).ok();
    eventually("the text", || {
        theirs.received_input("agent-2").contains("for the second").then_some(())
    });
    assert_eq!(
        (theirs.received_input("agent"), theirs.received_input("agent-22")),
        (String::new(), String::new())
    );
    // The rollout never shows the text, so delivery stays unconfirmed and the text is not typed twice.
    let reason = |row: &Value| row["messages"][0]["reason"].as_str().unwrap_or("").to_owned();
    stage.home.wait_state(&id, |row| reason(row).contains("may have been typed"));
    assert_eq!(theirs.received_input("agent-2").matches("for the second").count(), 1);
}

#[test]
fn a07_enter_is_retried_only_after_the_exact_text() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["stays", "grows"]) else { return };
    let unconfirmed = |row: &Value| {
        let reason = row["messages"][0]["reason"].as_str().unwrap_or_default();
        reason.contains("may have been typed")
    };
    for (name, lines) in [("stays", 2), ("grows", 1)] {
        let id = theirs.adopt_in(&stage.home, name);
        stage.home.provost(&["send", &id, &format!("it {name}")]).ok();
        stage.home.wait_state(&id, unconfirmed);
        assert_eq!(
            theirs.received_input(name).lines().count(),
            lines,
            "{}",
            theirs.received_input(name)
        );
    }
}

#[test]
fn agent_pane_is_found_from_its_environment() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    let pane = json!({"socket": stage.file("their.sock"), "id": theirs.pane_id("agent")});
    let found = eventually("the agent is seen in its pane", || {
        let discovered = stage.home.provost(&["discover", "--json"]).ok().json();
        let agents = discovered["agents"].as_array().unwrap().clone();
        agents.into_iter().find(|one| one["pane"] == pane).ok_or(discovered)
    });
    let pid = found["pid"].to_string();
    let id = stage.home.provost(&["adopt", "--pid", &pid, "--json"]).ok().json()["id"].clone();
    let id = id.as_str().unwrap();
    assert_eq!(stage.spec(id)["adopted"]["pane"]["id"], pane["id"]);
    wait_screen_signal(&stage.home, id, "screen", "at_prompt");
    // The environment alone is not trusted: this process runs in no pane of that server.
    let liar = stage.file("lies");
    fs::copy("/bin/sleep", &liar).unwrap();
    fs::rename(&liar, stage.file("claude")).unwrap();
    let mut liar = Command::new(stage.file("claude"));
    let tmux = format!("{},{},0", stage.file("their.sock"), theirs.server_pid());
    liar.arg("600").env("TMUX", tmux).env("TMUX_PANE", theirs.pane_id("agent"));
    let mut liar = liar.stdin(Stdio::null()).spawn().unwrap();
    let lies = eventually("the other agent is seen", || {
        let discovered = stage.home.provost(&["discover", "--json"]).ok().json();
        let agents = discovered["agents"].as_array().unwrap().clone();
        agents
            .into_iter()
            .find(|one| one["pid"].as_u64() == Some(liar.id().into()))
            .ok_or(discovered)
    });
    assert_eq!(lies["pane"], Value::Null, "{lies:#}");
    liar.kill().unwrap();
    liar.wait().unwrap();
}

#[test]
fn env_named_agent_in_a_pane_is_found_alone() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["codex"]) else { return };
    let run = ["new-session", "-d", "-e", "AI_AGENT=aider", "-s", "aider", "sh"];
    theirs.tmux(&[&run[..], &["-c", "sleep 600; true"]].concat());
    let pane = format!("{}:{}", stage.file("their.sock"), theirs.pane_id("aider"));
    let id = eventually("the agent is there", || {
        let adopted = stage.home.provost(&["adopt", "--tmux", &pane, "--json"]);
        match adopted.code() {
            Some(0) => Ok(adopted.json()["id"].as_str().unwrap().to_owned()),
            _ => Err(adopted.stdout),
        }
    });
    let row = stage.status(&id);
    assert_eq!(row["agent"], "aider", "{row:#}");
    let pid =
        theirs.tmux(&["display-message", "-p", "-t", &theirs.pane_id("aider"), "#{pane_pid}"]);
    assert_eq!(stage.pid(&id).to_string(), pid.trim());
}

#[test]
fn m16_dead_pane_is_not_an_end_unseen_end_is_unobserved() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    theirs.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    let id = theirs.adopt_in(&stage.home, "agent");
    kill(stage.pid(&id));
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["cause"]),
        (&json!("exited_without_claim"), &Value::Null),
        "{row:#}"
    );
    assert!(row["flags"].as_array().unwrap().contains(&json!("exit_code_unobserved")), "{row:#}");
}

#[test]
fn m16_tmux_server_exit_ends_no_live_session() {
    let stage = TestEnv::new();
    let stays = stage.file("agent.log.stays");
    fs::write(&stays, "").unwrap();
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    let id = theirs.adopt_in(&stage.home, "agent");
    let pid = stage.pid(&id);
    kill(theirs.server_pid());
    eventually("the pane is not to be seen", || {
        let last = stage.home.events_of(&id, "pane.seen").pop().unwrap_or_default();
        if last["data"]["state"] == "gone" { Ok(()) } else { Err(last.to_string()) }
    });
    let row = stage.status(&id);
    assert!(row["sealed"] == false && row["process"] == "alive" && is_running(pid), "{row:#}");
    stage.home.provost(&["send", &id, "Anything."]).ok();
    let row = stage.status(&id);
    assert_eq!(row["messages"][0]["status"], "queued", "{row:#}");
    fs::remove_file(stays).unwrap();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "exited_without_claim", "{row:#}");
}

#[test]
fn t06_pane_flood_is_bounded_and_delays_no_one() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["flood", "other"]) else { return };
    let (flood, other) =
        (theirs.adopt_in(&stage.home, "flood"), theirs.adopt_in(&stage.home, "other"));
    let (server, flooded) =
        (theirs.server_pid(), PathBuf::from(format!("{}.flooded", theirs.log_path("flood"))));
    let (before, mut most) = (memory_kib(server), 0);
    theirs.type_line("flood", "flood");
    eventually("the flood began", || {
        theirs.received_input("flood").contains("flood").then_some(())
    });
    for state in ["working", "idle", "working", "idle"] {
        theirs.type_line("other", state);
        let word = if state == "idle" { "at_prompt" } else { state };
        wait_screen_signal(&stage.home, &other, "title", word);
        most = most.max(memory_kib(server));
    }
    eventually_within(FLOOD_TIMEOUT, "the flood ended", || {
        most = most.max(memory_kib(server));
        flooded.exists().then_some(())
    });
    assert!(most.saturating_sub(before) <= 20 << 10, "tmux grew from {before} to {most} kB");
    // Output after the flood is seen, although parts of the flood were skipped.
    stage.home.provost(&["send", &flood, "after the flood"]).ok();
    eventually("the text", || {
        theirs.received_input("flood").contains("after the flood").then_some(())
    });
}

#[test]
fn t09_two_supervisors_lose_and_press_nothing() {
    let (stage, second) = (TestEnv::new(), TestEnv::new());
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    let one = theirs.adopt_in(&stage.home, "agent");
    let two = theirs.adopt_in(&second.home, "agent");
    theirs.tmux(&["resize-window", "-t", &theirs.pane_id("agent"), "-x", "100", "-y", "30"]);
    for state in ["working", "idle"] {
        theirs.type_line("agent", state);
        let word = if state == "idle" { "at_prompt" } else { state };
        wait_screen_signal(&stage.home, &one, "title", word);
        wait_screen_signal(&second.home, &two, "title", word);
    }
    stage.home.daemon().kill();
    stage.home.wait_state(&one, |row| row["state"] == "idle");
    assert_eq!(theirs.received_input("agent"), "working\nidle\n", "nothing but the person's keys");
}

/// Returns the lines that an agent received, without bracketed-paste markers.
fn received_lines(input: &str) -> Vec<String> {
    let plain = input.replace("\u{1b}[200~", "").replace("\u{1b}[201~", "");
    plain.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn t09_concurrent_supervisor_texts_are_not_mixed() {
    let (stage, second) = (TestEnv::new(), TestEnv::new());
    let names = ["a", "b", "c", "d", "e", "f"];
    let Some(theirs) = ForeignTmux::start(&stage, &names) else { return };
    for name in names {
        let pairs = [(&stage.home, "one"), (&second.home, "two")]
            .map(|(home, text)| (home, theirs.adopt_in(home, name), text));
        let sent = pairs.map(|(home, id, text)| {
            let mut send = home.command(&["send", &id, text]);
            send.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        });
        sent.into_iter().for_each(|mut one| assert!(one.wait().unwrap().success()));
        let mut received = eventually("both texts", || {
            let received = theirs.received_input(name);
            let both = received.contains("one") && received.contains("two");
            if both { Ok(received_lines(&received)) } else { Err(received) }
        });
        received.sort();
        assert_eq!(received, ["one", "two"], "{name}");
    }
}

#[test]
fn t09_pane_locked_by_another_supervisor_is_not_typed() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["claimed", "free"]) else { return };
    let ids = ["claimed", "free"].map(|name| theirs.adopt_in(&stage.home, name));
    let place = theirs.pane_id("claimed");
    let tty = theirs.tmux(&["display-message", "-p", "-t", &place, "#{pane_tty}"]);
    // Locks the pane as a Provost of another home does while it types.
    let claimed = fs::File::open(tty.trim()).unwrap();
    rustix::fs::flock(&claimed, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for id in &ids {
        stage.home.provost(&["send", id, "the text"]).ok();
    }
    eventually("the other was notified", || {
        theirs.received_input("free").contains("the text").then_some(())
    });
    assert_eq!(theirs.received_input("claimed"), "");
    drop(claimed);
    eventually("it waited", || theirs.received_input("claimed").contains("the text").then_some(()));
}

/// Whether the first message waits for this reason.
fn is_waiting_for(row: &Value, why: &str) -> bool {
    row["messages"][0]["reason"].as_str().unwrap_or_default().contains(why)
}

#[test]
fn reused_pane_gets_no_text_of_the_first_agent() {
    let stage = TestEnv::new();
    // One of the two agents outlives its terminal.
    let stays = stage.file("stays.log.stays");
    fs::write(&stays, "").unwrap();
    let Some(theirs) = ForeignTmux::start(&stage, &["ends", "stays"]) else { return };
    for name in ["ends", "stays"] {
        let id = theirs.adopt_in(&stage.home, name);
        let (pid, place) = (stage.pid(&id), theirs.pane_id(name));
        theirs.type_line(name, "it stays");
        eventually("something is written there", || {
            let drawn = theirs.tmux(&["capture-pane", "-p", "-t", &place]);
            if drawn.contains("it stays") { Ok(()) } else { Err(drawn) }
        });
        stage.home.provost(&["send", &id, "for the first"]).ok();
        stage.home.wait_state(&id, |row| is_waiting_for(row, "begun to write"));
        theirs.tmux(&["respawn-pane", "-k", "-t", &place]);
        if name == "stays" {
            let row = stage.home.wait_state(&id, |row| is_waiting_for(row, "another program"));
            assert_eq!((&row["process"], is_running(pid)), (&json!("alive"), true), "{row:#}");
            fs::remove_file(&stays).unwrap();
        }
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "exited_without_claim", "{row:#}");
        assert_eq!(row["messages"][0]["status"], "undeliverable", "{row:#}");
        let again = eventually("another agent is there", || {
            let pane = format!("{}:{place}", stage.file("their.sock"));
            let adopted = stage.home.provost(&["adopt", "--tmux", &pane, "--json"]);
            match adopted.code() {
                Some(0) => Ok(adopted.json()["id"].as_str().unwrap().to_owned()),
                _ => Err((adopted.stdout, adopted.stderr)),
            }
        });
        assert_ne!(stage.pid(&again), pid);
        wait_screen_signal(&stage.home, &again, "screen", "at_prompt");
        stage.home.provost(&["send", &again, "for the second"]).ok();
        eventually("its text", || {
            theirs.received_input(name).contains("for the second").then_some(())
        });
        assert!(
            !theirs.received_input(name).contains("for the first"),
            "{}",
            theirs.received_input(name)
        );
    }
}

#[test]
fn full_context_in_a_pane_only_nudges() {
    let stage = TestEnv::new();
    stage.configure(
        "[reactions.say]\non = \"context\"\nat = 80\ndo = \"nudge\"\ntext = \"Be short.\"\n\
         [reactions.shorten]\non = \"context\"\nat = 80\ndo = \"compact\"\n\
         [reactions.other]\non = \"context\"\nat = 80\ndo = \"hand_over\"\nagent = \"codex\"\n",
    );
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    let id = theirs.adopt_in(&stage.home, "agent");
    let usage = json!({"input_tokens": 90, "output_tokens": 0, "total_tokens": 90});
    let info =
        json!({"total_token_usage": usage, "last_token_usage": usage, "model_context_window": 100});
    let entry = json!({"timestamp": "T", "type": "event_msg", "payload": {"type": "token_count", "info": info}});
    let path = stage.spec(&id)["adopted"]["rollout"].as_str().unwrap().to_owned();
    let mut record = fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut record, format!("{entry}\n").as_bytes()).unwrap();
    eventually("it is nudged", || {
        theirs.received_input("agent").contains("Be short.").then_some(())
    });
    assert_eq!(received_lines(&theirs.received_input("agent")), ["Be short."]);
    let done = stage.home.events_of(&id, "reaction.done");
    assert_eq!(done.len(), 1, "{done:#?}");
    assert_eq!(stage.status(&id)["process"], "alive");
}
