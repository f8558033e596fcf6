//! `team wait`, `team send --next` and `--now`, the shell variables, and the built-in demo agent.

use provost_testkit::harness::ProgramOutput;
use serde_json::Value;

use super::team_env::TeamEnv;
use provost_testkit::env::{TestEnv, output_of};

/// An environment with a repository and the team `greet`, whose only worker is the demo agent.
struct DemoTeam {
    stage: TestEnv,
    worker: String,
}

impl DemoTeam {
    fn start(flags: &[&str]) -> Self {
        let stage = TestEnv::new();
        let repo = stage.repo("work");
        let start =
            ["team", "start", "Greet people", "--name", "greet", "--worker", "demo", "--json"];
        let started = stage.provost_in(repo.path(), &[&start[..], flags].concat()).ok().json();
        let member = &started["team"]["members"][0];
        let worker = member["session"].as_str().unwrap_or_else(|| panic!("{started:#}")).to_owned();
        DemoTeam { stage, worker }
    }

    fn wait(&self) -> ProgramOutput {
        self.stage.provost(&["team", "wait", "greet", "--json"])
    }

    fn answer(&self, text: &str) {
        self.stage.provost(&["answer", &self.worker, text]).ok();
    }
}

#[test]
fn team_wait_exits_7_for_question_and_0_when_idle() {
    let team = DemoTeam::start(&[]);
    let asks = team.wait();
    let asks = asks.assert_code(7).json();
    assert_eq!(
        (&asks["ended"], &asks["error"]["code"]),
        (&"needs_input".into(), &"input_needed".into())
    );
    team.answer("French");
    let idle = team.wait().ok().json();
    assert_eq!(idle["ended"], "idle", "{idle:#}");
}

#[test]
fn cancelled_team_asks_for_no_answer() {
    let team = DemoTeam::start(&[]);
    team.wait().assert_code(7);
    team.stage.provost(&["team", "cancel", "greet", "--because", "not needed"]).ok();
    let row = team.stage.wait_sealed(&team.worker);
    assert_eq!(row["state"], "cancelled", "{row:#}");
    assert_eq!(row["requests"].as_array().unwrap().len(), 0, "{row:#}");
    let request = format!("{}.q1", team.worker);
    let late = team.stage.provost(&["answer", &request, "French", "--revision", "1"]);
    assert!(late.assert_code(4).stderr.contains("its team \"greet\" is cancelled"), "{late:?}");
}

#[test]
fn overview_says_who_may_answer_a_worker() {
    let team = DemoTeam::start(&["--manager", "me"]);
    team.wait().assert_code(7);
    for by in [&[][..], &["--as", "me"]] {
        let seen = team.stage.provost(&[&["team", "overview", "greet"][..], by].concat());
        assert!(seen.ok().stdout.contains("answer worker: provost answer "), "{seen:?}");
        assert!(!seen.stdout.contains("needs_input"), "{seen:?}");
    }
    let done = ["team", "done", "greet", "--because", "the greeting is there"];
    let refused = team.stage.provost(&done);
    assert!(
        refused.assert_code(4).stderr.contains("member_working: worker needs input"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("provost answer "), "{refused:?}");
}

#[test]
fn team_name_answers_its_only_request() {
    let team = DemoTeam::start(&["--manager", "me", "--check", "grep -q Bonjour GREETING.md"]);
    team.wait().assert_code(7);
    team.stage.provost(&["answer", "greet", "French"]).ok();
    team.wait().ok();
    let none = team.stage.provost(&["answer", "greet", "French"]);
    assert!(
        none.assert_code(4).stderr.contains("no member of the team greet has an open request"),
        "{none:?}"
    );
    team.stage
        .provost(&["team", "contract", "accept", "--revision", "0", "-t", "greet", "--as", "me"])
        .ok();
    let done = ["team", "done", "greet", "--because", "the greeting is there"];
    let done = team.stage.provost(&done);
    assert!(done.ok().stdout.contains("greet done"), "{done:?}");
    assert!(done.stderr.contains("the final checks are running"), "{done:?}");
    assert!(done.stderr.contains("git merge provost/"), "{done:?}");
}

#[test]
fn refused_finish_is_waited_for_and_exits_4() {
    let team = DemoTeam::start(&["--check", "grep -q Bonjour GREETING.md"]);
    team.wait().assert_code(7);
    team.answer("English");
    team.wait().ok();
    let done = ["team", "done", "greet", "--because", "the greeting is there"];
    let refused = team.stage.provost(&done);
    assert!(refused.assert_code(4).stderr.contains("check_failed"), "{refused:?}");
    let begun = team.stage.provost(&[&done[..], &["--no-wait"]].concat());
    assert!(begun.ok().stdout.contains("final checks running"), "{begun:?}");
}

#[test]
fn team_wait_after_send_waits_for_the_new_turn() {
    let team = DemoTeam::start(&[]);
    team.wait().assert_code(7);
    team.answer("French");
    team.wait().ok();
    // The worker was idle when the message was sent, so an early look would end the wait.
    team.stage.provost(&["team", "send", "Greet again.", "-t", "greet"]).ok();
    let asks = team.wait();
    assert_eq!(asks.assert_code(7).json()["ended"], "needs_input");
}

#[test]
fn team_wait_ends_when_team_is_cancelled() {
    let team = DemoTeam::start(&[]);
    let cancel = ["team", "cancel", "greet", "--because", "the goal was dropped"];
    team.stage.provost(&cancel).ok();
    let over = team.wait();
    let over = over.assert_code(1).json();
    assert_eq!((&over["ended"], &over["team"]["state"]), (&"closed".into(), &"cancelled".into()));
}

#[test]
fn team_send_next_starts_iteration_once_evidence_is_there() {
    let env = TeamEnv::new();
    let no_loop = env.act_as_operator(&["team", "send", "hand", "go on", "--next"]);
    assert!(no_loop.assert_code(4).stdout.contains("has no loop"), "{no_loop:?}");
    env.act_as_operator(&["team", "loop", "start", "--require", "notes=asserted"]).ok();
    let early = env.act_as_operator(&["team", "send", "hand", "go on", "--next"]);
    assert!(early.assert_code(4).stdout.contains("missing_evidence"), "{early:?}");
    let notes = ["team", "loop", "submit", "notes", "--text", "the tests of one caller"];
    env.act_as_operator(&notes).ok();
    let skipped = ["team", "send", "hand", "go on", "--next", "--iteration", "3"];
    env.act_as_operator(&skipped).assert_code(4);
    // Without WHO the message goes to the only worker.
    let sent = env.act_as_operator(&["team", "send", "go on", "--next"]).ok().json();
    assert_eq!(
        (&sent["message"]["to"], &sent["message"]["iteration"]),
        (&"hand".into(), &2.into())
    );
    assert_eq!(env.take_next("hand", &[])["kind"], "continuation");
}

#[test]
fn team_send_now_interrupts_the_turn() {
    let team = DemoTeam::start(&[]);
    team.wait().assert_code(7);
    team.stage.provost(&["team", "send", "--now", "Greet the manager.", "-t", "greet"]).ok();
    let events = team.stage.provost(&["events", &team.worker, "--verbose", "--json"]);
    assert!(events.ok().stdout.contains("Greet the manager."), "{}", events.stdout);
    // The interrupted turn withdrew its question, and the next turn asks again.
    let row = team.stage.wait_state(&team.worker, |row| row["turns"].as_u64() >= Some(2));
    assert_eq!(row["state"], "needs_input", "{row:#}");
}

#[test]
fn shell_variables_name_team_and_member() {
    let env = TeamEnv::new();
    env.provost(&["team", "new", "other", "--goal", "a second open team"]).ok();
    env.send("hand", "Begin with the tests.");
    let run = |words: &[&str], team: &str, member: &str| -> ProgramOutput {
        let mut command = env.command(words);
        command.env("PROVOST_TEAM", team).env("PROVOST_AS", member);
        output_of(command)
    };
    let taken = run(&["team", "next", "--json"], "limits", "hand").ok().json();
    assert_eq!(taken["item"]["text"], "Begin with the tests.");
    // An option overrides the variable, and an empty variable counts as unset.
    let shown = run(&["team", "show", "limits", "--json"], "other", "").ok().json();
    assert_eq!(shown["team"]["name"], "limits");
    let inbox: Value = run(&["team", "inbox", "ls", "--json"], "limits", "").ok().json();
    assert_eq!(inbox["messages"].as_array().map(Vec::len), Some(1), "{inbox:#}");
}

#[test]
fn failed_check_makes_demo_agent_ask_again() {
    let stage = TestEnv::new();
    let repo = stage.repo("work");
    let check = "grep -q Bonjour GREETING.md";
    let spawn = ["spawn", "--agent", "demo", "--name", "first", "--worktree", "--check", check];
    let asked =
        stage.provost_in(repo.path(), &[&spawn[..], &["--wait", "Write a greeting."]].concat());
    asked.assert_code(7);
    stage.provost(&["answer", "first", "English"]).ok();
    let again = |row: &Value| {
        row["state"] == "needs_input"
            && row["requests"][0]["title"]
                .as_str()
                .is_some_and(|title| title.contains("exited with 1"))
    };
    stage.wait_state("first", again);
    stage.provost(&["answer", "first", "French"]).ok();
    let row = stage.wait_state("first", |row| row["sealed"] == true);
    assert_eq!(row["state"], "succeeded", "{row:#}");
}
