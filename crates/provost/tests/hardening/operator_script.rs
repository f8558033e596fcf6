//! A script that starts the daemon itself and then runs other commands.

use std::fs;
use std::process::{Command, Stdio};

use provost_testkit::env::count_lines;
use provost_testkit::eventually;
use provost_testkit::harness::{TestHome, string_value};

/// How many times each command is run. The daemon is killed during every second run.
const ROUNDS: usize = 12;

/// An agent that asks `ROUNDS` questions, and logs each answer.
fn asker_scenario() -> String {
    let begin = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
"#;
    let question = |n: usize| {
        format!(
            r#"
[[step]]
emit = {{ type = "request", id = "q{n}", kind = "question", blocking = true, title = "Storage", questions = [{{ id = "store", header = "Store", question = "Where?", options = [], secret = false }}] }}
[[step]]
wait_input = {{ type = "answer" }}
[[step]]
append = {{ path = "{{{{root}}}}/answers", content = "{{{{input}}}}\n" }}
"#
        )
    };
    let questions: String = (1..=ROUNDS).map(question).collect();
    format!("{begin}{questions}[[step]]\nhang = true\n")
}

/// Starts the daemon, then runs commands and logs how each ended. A command that failed because the
/// daemon was killed is repeated with the same key.
const SCRIPT: &str = r#"
provost daemon run > ready &
while ! test -s ready; do sleep 0.05; done
touch running
while ! test -e go; do sleep 0.05; done
give() {
  while :; do
    provost "$@" > said 2>&1; code=$?
    echo "$code $1" >> codes
    test $code = 6 || break
  done
  test $code = 0 || { echo "$*" >> refused; cat said >> refused; }
}
for n in $(seq 1 ROUNDS); do
  test $((n % 2)) = 0 && { kill -9 $(cat "$PROVOST_HOME/ledger/ledger.lock") 2> /dev/null & }
  give send "$(cat listener)" --key "send-$n" "message $n"
  while ! provost status "$(cat asker)" --json 2> /dev/null | grep -q '"state": *"needs_input"'; do sleep 0.05; done
  test $((n % 3)) = 0 && { kill -9 $(cat "$PROVOST_HOME/ledger/ledger.lock") 2> /dev/null & }
  give answer "$(cat asker)" --key "answer-$n" "answer $n"
  while test $(cat answers 2> /dev/null | wc -l) -lt $n; do provost status > /dev/null 2>&1; sleep 0.05; done
done
touch done
"#;

/// Receives messages and logs each.
const LISTENER: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
repeat = { times = 50, steps = [
  { read_line = true },
  { append = { path = "{{root}}/messages", content = "{{input}}\n" } },
] }
[[step]]
hang = true
"#;

#[test]
fn f8_o1_script_running_the_daemon_is_operator() {
    let home = TestHome::with_short_windows();
    let asker = home.scripted_agent("asker", &asker_scenario());
    home.configure(&(asker + &home.scripted_agent("listener", LISTENER)));
    let file = |name: &str| home.root().join(name);
    let mut script = Command::new("setsid");
    script.args(["sh", "-c", &SCRIPT.replace("ROUNDS", &ROUNDS.to_string())]);
    let provost = home.command::<&str>(&[]);
    script.current_dir(home.root()).env_clear();
    script.envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut script = script.stdin(Stdio::null()).spawn().expect("the script can be started");
    eventually("the script's daemon answers", || file("running").exists().then_some(()));
    // The holder of this launch was killed. From now on, an unknown process may be its agent.
    let lost = home.spawn(&["--", "sleep", "600"]);
    home.wait_state(&lost, |row| row["process"] == "alive");
    let held = home.path().join(format!("launches/{lost}.l1/held.json"));
    let held: serde_json::Value =
        serde_json::from_slice(&fs::read(held).expect("its record")).expect("JSON");
    let holder = i32::try_from(held["holder"]["pid"].as_i64().expect("a pid")).expect("a pid");
    let holder = rustix::process::Pid::from_raw(holder).expect("a pid");
    rustix::process::kill_process(holder, rustix::process::Signal::KILL).expect("it can be killed");
    home.wait_state(&lost, |row| row["sealed"] == true);
    for name in ["asker", "listener"] {
        let id = home.spawn(&["--agent", name, "begin"]);
        fs::write(file(name), &id).expect("its id can be written");
        assert!(!string_value(&home.status(&id)["id"]).is_empty());
    }
    fs::write(file("go"), "").expect("the file can be written");
    eventually("the script is done", || match (file("done").exists(), script.try_wait()) {
        (true, _) => Ok(()),
        (false, ended) => Err((ended, fs::read_to_string(file("codes")))),
    });
    script.wait().expect("the script ends");
    let codes = fs::read_to_string(file("codes")).expect("the log exists");
    let refused = fs::read_to_string(file("refused")).unwrap_or_default();
    let with = |code: &str| codes.lines().filter(|line| line.starts_with(code)).count();
    assert_eq!((with("0 "), with("4 ")), (2 * ROUNDS, 0), "{codes}{refused}");
    assert_eq!(with("0 ") + with("6 "), codes.lines().count(), "{codes}{refused}");
    eventually("every message arrived", || {
        (count_lines(&file("messages")) == ROUNDS).then_some(())
    });
    let messages = fs::read_to_string(file("messages")).expect("the messages");
    for n in 1..=ROUNDS {
        let named = |line: &&str| line.contains(&format!("message {n}\""));
        let count = messages.lines().filter(named).count();
        assert_eq!(count, 1, "message {n}: {messages}");
    }
    for name in ["asker", "listener"] {
        let id = fs::read_to_string(file(name)).expect("its id");
        home.provost(&["stop", &id]).ok();
    }
    home.assert_ledger_verified();
}
