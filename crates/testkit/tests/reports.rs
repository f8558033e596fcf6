//! Reports, made to a fake `provost` that records its calls.

use provost_testkit::eventually;

use crate::agent_env::AgentEnv;

/// Records its arguments, one line per call in brackets, and answers.
const RECORDER: &str = r#"for arg in "$@"; do printf '[%s]' "$arg" >> called; done; echo >> called; echo '{"ok":true}'; echo noise >&2; exit ${RECORDER_EXIT:-0}"#;

#[test]
fn report_runs_provost_and_prints_nothing() {
    let stage = AgentEnv::new();
    let provost = stage.script("recorder", RECORDER);
    let scenario = r#"
        [[step]]
        report = "needs_input"
        message = "which one, launch {{launch_no}}?"
        args = ["--json"]
        reply_to = "reply"
        [[step]]
        report = "completed"
    "#;
    let output = stage.agent(scenario).env("PROVOST_BIN", provost).output().unwrap();
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}"
    );
    let called = stage.read("called");
    assert_eq!(
        called,
        "[report][needs-input][--message][which one, launch 1?][--json]\n[report][completed]\n"
    );
    assert_eq!(stage.read("reply"), "{\"ok\":true}\n");
}

#[test]
fn provost_defaults_to_the_search_path() {
    let stage = AgentEnv::new();
    stage.script("provost", RECORDER);
    let path = format!("{}:/usr/bin:/bin", stage.path("").display());
    let output = stage.agent("[[step]]\nreport = 'working'").env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stage.read("called"), "[report][working]\n");
}

#[test]
fn unexpected_exit_code_breaks_the_scenario() {
    let stage = AgentEnv::new();
    let provost = stage.script("recorder", RECORDER);
    let play = |scenario: &str| {
        let mut agent = stage.agent(scenario);
        agent.env("PROVOST_BIN", &provost).env("RECORDER_EXIT", "2").output().unwrap()
    };
    let broken = play("[[step]]\nreport = 'nonsense'");
    assert_eq!(broken.status.code(), Some(70));
    assert!(
        String::from_utf8_lossy(&broken.stderr).contains("exited with 2; it said: noise"),
        "{broken:?}"
    );
    assert!(play("[[step]]\nreport = 'nonsense'\nexpect_exit = 2").status.success());
}

#[test]
fn report_after_exit_follows_the_exit() {
    let stage = AgentEnv::new();
    let provost = stage.script(
        "recorder",
        &format!("kill -0 \"$(cat agent)\" 2>/dev/null && echo alive >> called\n{RECORDER}"),
    );
    let scenario = r#"
        [[step]]
        write = { path = "agent", content = "{{pid}}" }
        [[step]]
        report_after_exit = { claim = "completed", message = "late", reply_to = "reply" }
        [[step]]
        say = "there"
        [[step]]
        read_line = true
    "#;
    let mut agent = stage.agent(scenario);
    agent
        .env("PROVOST_BIN", provost)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut playing = AgentEnv::started(agent);
    assert_eq!(playing.line(), "there");
    assert!(!stage.path("called").exists());
    drop(playing.stdin.take());
    assert_eq!(playing.code(), Some(0));
    eventually("the late report is answered", || stage.path("reply").exists().then_some(()));
    assert_eq!(stage.read("called"), "[report][completed][--message][late]\n");
}
