//! Watching a pane of a foreign tmux server changes neither that server nor the agent in the pane.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Stdio},
};

use provost_testkit::harness::{eventually, is_deep};
use serde_json::{Value, json};

use crate::tmux_panes::{ForeignTmux, wait_screen_signal};
use provost_testkit::env::{TestEnv, is_running, kill};

/// Hooks that a user may have set for clients, sessions and windows.
const USER_HOOKS: [&str; 9] = [
    "client-attached",
    "client-detached",
    "client-session-changed",
    "session-created",
    "session-closed",
    "session-window-changed",
    "window-linked",
    "window-unlinked",
    "pane-focus-in",
];

/// Everything tmux reports about its clients, sessions, windows, panes, environments and options.
fn tmux_snapshot(theirs: &ForeignTmux<'_>) -> String {
    let sessions = "#{session_id} #{session_name} #{session_attached} #{session_activity} \
        #{session_last_attached} #{session_windows} #{session_alerts} #{session_grouped}";
    let windows = "#{window_id} #{window_linked} #{window_flags} #{window_width} #{window_height}";
    let panes = "#{pane_id} #{pane_pipe} #{pane_in_mode} #{pane_marked} #{pane_active}";
    let asked: [&[&str]; 9] = [
        &["list-sessions", "-F", sessions],
        &["list-windows", "-a", "-F", windows],
        &["list-panes", "-a", "-F", panes],
        &["list-clients"],
        &["list-buffers"],
        &["show-environment", "-t", "=agent:"],
        &["show-environment", "-g"],
        &["show-options", "-t", "=agent:"],
        &["show-options", "-g"],
    ];
    asked.map(|arguments| format!("{arguments:?}\n{}", theirs.tmux(arguments))).concat()
}

/// Puts a wrapper named tmux before the real one on the `PATH` of the daemon and of this home's
/// commands. In the script, `$tmux` is the real program.
fn wrap_tmux(stage: &mut TestEnv, script: &str) {
    let like = stage.home.command(&["status"]);
    let usual = like.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, path)| path);
    let usual = usual.unwrap().to_str().unwrap().to_owned();
    let real = usual.split(':').map(|dir| Path::new(dir).join("tmux")).find(|path| path.exists());
    let directory = stage.home.root().join("wrapped");
    fs::create_dir(&directory).unwrap();
    let path = directory.join("tmux");
    let real = real.unwrap();
    fs::write(&path, format!("#!/bin/sh\ntmux={}\n{script}", real.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    stage.home.set_env("PATH", format!("{}:{usual}", directory.display()));
}

fn newest_message(row: &Value) -> (&str, &str) {
    let message = &row["messages"][0];
    (message["status"].as_str().unwrap_or_default(), message["reason"].as_str().unwrap_or_default())
}

#[test]
fn f6_w1_agent_death_before_paste_spares_tmux() {
    let mut stage = TestEnv::new();
    // The agent ends after the paste buffer was loaded and before the next command.
    let script = r#"case " $* " in
*' load-buffer '*)
  "$tmux" "$@" || exit
  kill -9 "$(cat agent.pid)"
  until [ "$("$tmux" -S their.sock list-panes -a -F '#{pane_dead}')" = 1 ]; do sleep 0.05; done;;
*) exec "$tmux" "$@";;
esac
"#;
    let root = stage.home.root().to_owned();
    wrap_tmux(&mut stage, &format!("cd {} || exit 1\n{script}", root.display()));
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    theirs.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    let server = theirs.server_pid();
    let id = theirs.adopt_in(&stage.home, "agent");
    fs::write(stage.file("agent.pid"), stage.pid(&id).to_string()).unwrap();
    stage.home.provost(&["send", &id, "for nobody"]).ok();
    let row = stage.wait_sealed(&id);
    let row = match newest_message(&row).0 {
        "queued" => stage.home.wait_state(&id, |row| newest_message(row).0 != "queued"),
        _ => row,
    };
    assert!(is_running(server), "the server of tmux died");
    assert_eq!(theirs.server_pid(), server);
    assert_eq!(newest_message(&row), ("undeliverable", "the session ended first"), "{row:#}");
    assert_eq!(theirs.tmux(&["list-buffers"]), "", "the text is left nowhere");
    let typed = stage.home.events_of(&id, "message.typed");
    let nowhere =
        |event: &Value| event["data"]["state"] == "typing" || event["data"]["state"] == "untyped";
    assert!(!typed.is_empty() && typed.iter().all(nowhere), "{typed:#?}");
}

#[test]
fn f6_w1_text_waits_while_copy_mode_is_on() {
    let mut stage = TestEnv::new();
    let script = r#"case " $* " in
*' load-buffer '*)
  "$tmux" "$@" || exit
  mkdir browsed 2>/dev/null || exit 0
  "$tmux" -S their.sock copy-mode -t "$(cat agent.pane)";;
*) exec "$tmux" "$@";;
esac
"#;
    let root = stage.home.root().to_owned();
    wrap_tmux(&mut stage, &format!("cd {} || exit 1\n{script}", root.display()));
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    let id = theirs.adopt_in(&stage.home, "agent");
    fs::write(stage.file("agent.pane"), theirs.pane_id("agent")).unwrap();
    stage.home.provost(&["send", &id, "after the look back"]).ok();
    let row = stage.home.wait_state(&id, |row| newest_message(row).1.contains("scrolling back"));
    assert_eq!(
        (newest_message(&row).0, theirs.received_input("agent").as_str()),
        ("queued", ""),
        "{row:#}"
    );
    theirs.tmux(&["send-keys", "-t", &theirs.pane_id("agent"), "-X", "cancel"]);
    eventually("the text", || {
        theirs.received_input("agent").contains("after the look back").then_some(())
    });
    assert_eq!(theirs.received_input("agent").matches("after the look back").count(), 1);
}

/// The tmux clients that a daemon of this home has started.
fn tmux_clients(socket: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let ours = String::from_utf8_lossy(&environment).contains("PROVOST_LAUNCH=helper");
        if line.starts_with("tmux") && line.contains(socket) && ours {
            found.push(line);
        }
    }
    found
}

/// Kills a server in the usual way. A server that waits for a client would never exit.
fn kill_server(theirs: &ForeignTmux<'_>) {
    let server = theirs.server_pid();
    let mut command = std::process::Command::new("tmux");
    command.args(["-S", &theirs.0.file("their.sock"), "kill-server"]);
    let mut asked: Child = command.stdin(Stdio::null()).spawn().unwrap();
    let ended = std::panic::catch_unwind(|| {
        eventually("the server ends", || (!is_running(server)).then_some(()));
    });
    if ended.is_err() {
        kill(server);
    }
    asked.wait().unwrap();
    assert!(ended.is_ok(), "kill-server did not end the server");
}

#[test]
fn f6_w2_tmux_clients_end_with_a_killed_daemon() {
    let stage = TestEnv::new();
    // The number of tmux commands between adoption and the daemon's death, at a few milliseconds each.
    let all = [0, 1, 2, 4, 6, 8, 12, 16, 24, 32, 48];
    for answers in all.into_iter().step_by(if is_deep() { 1 } else { 3 }) {
        let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
        stage.home.provost(&["ls"]).ok();
        let daemon = stage.home.daemon().pid().unwrap();
        let pane = format!("{}:{}", stage.file("their.sock"), theirs.pane_id("agent"));
        let id = eventually("the agent is there", || {
            let adopted = stage.home.provost(&["adopt", "--tmux", &pane, "--json"]);
            match adopted.code() {
                Some(0) => Ok(adopted.json()["id"].as_str().unwrap().to_owned()),
                _ => Err(adopted.stdout),
            }
        });
        for _ in 0..answers {
            theirs.server_pid();
        }
        kill(daemon);
        eventually("the daemon is gone", || (!is_running(daemon)).then_some(()));
        let socket = stage.file("their.sock");
        eventually("its clients are gone", || {
            let left = tmux_clients(&socket);
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        kill_server(&theirs);
        stage.wait_sealed(&id);
    }
}

#[test]
fn f6_w3_adopt_changes_nothing_in_foreign_tmux() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    let own = [("DISPLAY", ":77"), ("SSH_AUTH_SOCK", "/agent.sock"), ("SSH_CONNECTION", "1 2 3 4")];
    for (name, value) in own {
        theirs.tmux(&["set-environment", "-t", "=agent:", name, value]);
    }
    let ran = stage.file("hooks");
    for hook in USER_HOOKS {
        let line = format!("run-shell 'echo {hook} >> {ran}'");
        theirs.tmux(&["set-hook", "-g", hook, &line]);
    }
    let before = tmux_snapshot(&theirs);
    assert!(before.contains("SSH_AUTH_SOCK=/agent.sock"), "{before}");
    let id = theirs.adopt_in(&stage.home, "agent");
    assert_eq!(tmux_snapshot(&theirs), before, "after adopt");
    stage.home.daemon().kill();
    stage.home.provost(&["send", &id, "typed"]).ok();
    eventually("the text", || theirs.received_input("agent").contains("typed").then_some(()));
    assert_eq!(tmux_snapshot(&theirs), before, "after a restart and a text");
    stage.home.provost(&["cancel", &id]).ok();
    stage.wait_sealed(&id);
    assert_eq!(tmux_snapshot(&theirs), before, "after cancel");
    assert_eq!(fs::read_to_string(&ran).unwrap_or_default(), "", "no hook ran");
}

#[test]
fn f6_w4_no_focus_event_reaches_a_watched_agent() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["first"]) else { return };
    // This option is set before the agents ask for focus events, because tmux answers that request
    // with one.
    theirs.tmux(&["set-option", "-g", "focus-events", "on"]);
    for name in ["agent", "other"] {
        fs::write(stage.file(&format!("{name}.log.focus")), "").unwrap();
        theirs.start_agent(name);
    }
    let id = theirs.adopt_in(&stage.home, "agent");
    // An agent that is not watched gets the same input from tmux.
    let printed = |name: &str, line: &str| {
        theirs.type_line(name, line);
        eventually("the line", || theirs.received_input(name).contains(line).then_some(()));
        theirs.received_input(name)
    };
    assert_eq!(printed("agent", "one"), printed("other", "one"), "while it is watched");
    stage.home.provost(&["cancel", &id]).ok();
    stage.wait_sealed(&id);
    assert_eq!(printed("agent", "two"), printed("other", "two"), "after that");
    assert!(
        !theirs.received_input("agent").contains("\u{1b}[I"),
        "{:?}",
        theirs.received_input("agent")
    );
}

/// A turn in Codex's rollout format.
fn turn_lines() -> String {
    let line = |kind: &str, more: Value| {
        let mut payload = json!({"type": kind, "turn_id": "turn-1"});
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let line = json!({"timestamp": "2026-11-15T18:50:00.000Z", "type": "event_msg", "payload": payload});
        format!("{line}\n")
    };
    line("task_started", json!({})) + &line("task_complete", json!({"last_agent_message": "Done."}))
}

#[test]
fn f6_w8_idle_compat_progress_is_one_of_one() {
    let stage = TestEnv::new();
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    let id = theirs.adopt_in(&stage.home, "agent");
    let compat = |more: &[&str], code: i32| {
        let known = ["monitor", &id, "--compat", "story-automator"];
        let found = stage.home.provost(&[&known[..], more].concat()).assert_code(code).json();
        let state = found["final_state"].as_str().unwrap_or_default().to_owned();
        (state, found["progress"].clone(), found["todos_done"].clone())
    };
    let over = ["--timeout", "50ms"];
    assert_eq!(compat(&over, 5), ("timeout".to_owned(), json!("0/1"), json!(0)), "no turn yet");
    let path = stage.spec(&id)["adopted"]["rollout"].as_str().unwrap().to_owned();
    let mut record = fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut record, turn_lines().as_bytes()).unwrap();
    stage.home.wait_state(&id, |row| row["turns"] == 1 && row["state"] == "idle");
    assert_eq!(compat(&over, 5), ("timeout".to_owned(), json!("1/1"), json!(1)), "idle after it");
    let verifier = |name: &str, exit: &str| {
        format!(
            "[verifiers.{name}]\ncommand = [\"{exit}\"]\n[workflows.{name}]\nverifier = \"{name}\"\n"
        )
    };
    stage.configure(&(verifier("yes", "true") + &verifier("no", "false")));
    let proved = compat(&["--workflow", "yes", "--item", "1-2"], 0);
    assert_eq!(proved, ("completed".to_owned(), json!("1/1"), json!(1)));
    let window = ["--workflow", "no", "--item", "1-2", "--stale-after", "20ms"];
    assert_eq!(compat(&window, 1), ("incomplete".to_owned(), json!("1/1"), json!(1)));
}

#[test]
fn f6_w14_waiting_plain_command_needs_input() {
    let stage = TestEnv::new();
    let scenario = "[[step]]\nreport = \"needs_input\"\n[[step]]\nwait_file = \"go\"\n\
        [[step]]\nreport = \"working\"\n[[step]]\nwait_file = \"end\"\n\
        [[step]]\nreport = \"completed\"\n[[step]]\nexit = 0\n";
    let id = stage.spawn_scenario(scenario, &[]);
    let row = stage.wait(&id, "needs_input");
    assert_eq!(row["process"], "alive", "{row:#}");
    let report = stage.home.provost(&["monitor", &id, "--json"]).assert_code(7).json();
    assert_eq!(report["results"][0]["result"], "needs_input", "{report:#}");
    fs::write(stage.home.root().join("go"), "").unwrap();
    stage.wait(&id, "working");
    fs::write(stage.home.root().join("end"), "").unwrap();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
}

#[test]
fn f6_w14_input_makes_plain_command_work_again() {
    let stage = TestEnv::new();
    let scenario = "[[step]]\nreport = \"needs_input\"\n[[step]]\nread_line = true\n\
        [[step]]\nwait_file = \"end\"\n[[step]]\nexit = 0\n";
    let id = stage.spawn_scenario(scenario, &["--stdin"]);
    stage.wait(&id, "needs_input");
    stage.home.provost(&["send", &id, "blue"]).ok();
    stage.wait(&id, "working");
    fs::write(stage.home.root().join("end"), "").unwrap();
    stage.wait_state(&id, |row| row["process"] != "alive");
}

/// Provost observes a pane only with commands that read.
#[test]
fn f6_w3_watching_runs_only_read_commands() {
    let mut stage = TestEnv::new();
    let root = stage.home.root().to_owned();
    let log =
        format!("printf '%s\\n' \"$*\" >> {}/commands\nexec \"$tmux\" \"$@\"\n", root.display());
    wrap_tmux(&mut stage, &log);
    let Some(theirs) = ForeignTmux::start(&stage, &["agent"]) else { return };
    let id = theirs.adopt_in(&stage.home, "agent");
    theirs.type_line("agent", "working");
    wait_screen_signal(&stage.home, &id, "title", "working");
    let commands = fs::read_to_string(root.join("commands")).unwrap();
    assert!(!commands.contains("attach-session") && !commands.contains(" -C "), "{commands}");
    let reads = ["list-panes", "display-message -p", "capture-pane -p"];
    // The test's own commands do not have the flag that prevents tmux from starting a server.
    let ours = commands.lines().filter_map(|line| line.split_once(" -N ")).map(|(_, words)| words);
    let ours: Vec<&str> = ours.flat_map(|words| words.split(" ; ")).collect();
    assert!(ours.iter().any(|command| command.starts_with("capture-pane")), "{commands}");
    for command in ours {
        assert!(reads.iter().any(|known| command.starts_with(known)), "{command}");
    }
}
