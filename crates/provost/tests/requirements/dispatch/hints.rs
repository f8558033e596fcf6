//! Messages for users: plain text, with the command that solves the problem.

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::{history::CLAIMS_EACH_DONE, team_env::TeamEnv};
use provost_testkit::env::{TALKER, WRITES_CREDENTIALS, output_of};

#[track_caller]
fn first_hint(error: &Value) -> &str {
    error["error"]["next"][0].as_str().unwrap()
}

#[test]
fn loop_command_without_loop_is_error_with_hint() {
    let env = TeamEnv::new();
    for more in [&["--max-iterations", "4"][..], &["--adversarial"]] {
        let words = ["team", "start", "a goal", "--pull", "--worker", "a"];
        let refused = env.provost(&[&words[..], more].concat());
        assert!(
            refused.assert_code(2).stderr.contains("provost team start GOAL --worker"),
            "{refused:?}"
        );
    }
}

#[test]
fn reused_team_name_means_the_newest_team() {
    let env = TeamEnv::new();
    let first = env.show_task()["id"].clone();
    env.provost(&["team", "cancel", "limits", "--because", "nobody needs it"]).ok();
    assert_eq!(env.show_task()["id"], first, "the only one of that name");
    let pair =
        ["team", "start", "the same once more", "--name", "limits", "--pull", "--worker", "hand"];
    let second = env.provost(&pair);
    let second = second.ok();
    assert_eq!(second.stdout.lines().count(), 1, "the id alone is data: {second:?}");
    assert!(second.stderr.contains("── hand-off for hand: "), "{second:?}");
    let id = second.stdout.trim();
    assert_eq!(env.show_task()["id"], id);
    assert_eq!(env.send("hand", "Begin with the tests."), 1);
    env.provost(&["replay", "limits"]).ok();
    env.provost(&["team", "cancel", "limits", "--because", "nobody needs it"]).ok();
    assert_eq!(env.show_task()["id"], id, "the newest that is over");
    env.provost(&["audit", "limits"]).ok();
}

#[test]
fn refusals_are_text_with_a_next_command() {
    let env = TeamEnv::new();
    let short =
        env.act_as_operator(&["team", "criterion", "add", "worker wants"]).assert_code(2).json();
    let why = short["error"]["message"].as_str().unwrap();
    assert!(
        why.starts_with("\"worker wants\" is too short: expected at least 12 letters"),
        "{why}"
    );
    let short = env.act_as("boss", &["team", "contract", "move", "stop", "--because", "all done"]);
    assert!(short.assert_code(2).stdout.contains("is too short"), "{short:?}");
    let stop = ["team", "contract", "move", "stop", "--because", "nothing is left to do"];
    let refused = env.act_as("hand", &stop).assert_code(4).json();
    assert_eq!(refused["error"]["message"], "a worker cannot record moves");
    let finish = ["team", "done", "limits", "--as", "hand", "--because", "it is done, I think"];
    let refused = env.provost(&finish);
    assert!(refused.assert_code(4).stderr.contains("a worker cannot pause or end the team"));
    env.bind("limits", "deputy", "manager");
    let refused = env.act_as("deputy", &["team", "send", "hand", "Begin."]).assert_code(4).json();
    assert!(first_hint(&refused).starts_with("provost team contract accept --revision 0 -t "));
    assert!(first_hint(&refused).ends_with(" --as deputy"), "{refused}");
    env.send("hand", "Begin with the tests.");
    let item = env.take_next("hand", &[]);
    let stale = json!({"no": item["no"], "lease": 9});
    let refused = env.ack("hand", &stale).assert_code(4).json();
    assert!(first_hint(&refused).starts_with("provost team next -t "), "{refused}");
    assert!(first_hint(&refused).ends_with(" --as hand"), "{refused}");
    let empty = env.provost(&["team", "send", "hand", "", "-t", "limits"]);
    assert!(empty.assert_code(2).stderr.contains("the message is empty"), "{empty:?}");
    let set = ["team", "contract", "set", "--recipe", "strict", "--expect", "0"];
    let reply = env.act_as_operator(&set).ok().json();
    assert!(reply["next"][0].as_str().unwrap().ends_with("--expect 0 --team=limits"), "{reply}");
    let twice = ["team", "loop", "submit", "report", "--field", "a=1", "--field", "a=2"];
    let refused = env.act_as_operator(&twice);
    assert!(refused.assert_code(2).stdout.contains("given twice"), "{refused:?}");
    let silent = env.provost(&["team", "ping", "limits", "--timeout", "1", "--json"]);
    assert_eq!(silent.assert_code(5).json()["ready"], false);
    env.provost(&["daemon", "stop"]).ok();
    let none = env.provost(&["daemon", "status"]);
    assert!(none.assert_code(6).stderr.contains("next: provost ls"), "{none:?}");
}

#[test]
fn contract_and_overview_print_working_commands() {
    let env = TeamEnv::new();
    let contract = env.stdout_of(&["team", "contract", "show", "-t", "limits"]);
    assert!(contract.starts_with("limits · revision 0, mode guided\n"), "{}", contract);
    assert!(contract.contains("boss has accepted it"), "{}", contract);
    env.bind("limits", "deputy", "manager");
    let shown = env.provost(&["team", "contract", "show", "-t", "limits"]);
    assert!(shown.ok().stderr.contains(" --as deputy"), "{shown:?}");
    let cycle = env.stdout_of(&["team", "overview", "limits"]);
    assert!(cycle.starts_with("limits · active\n") && !cycle.contains('{'), "{}", cycle);
    let added =
        env.act_as_operator(&["team", "criterion", "add", "The wording was read"]).ok().json();
    let of = |task: &Value| task["members"][0]["communication"]["receive_command"].clone();
    assert_eq!(of(&added["team"]), of(&env.show_task()));
}

#[test]
fn team_shows_worker_directory_and_status() {
    let env = TeamEnv::new();
    env.configure_talker(CLAIMS_EACH_DONE, "[session]\nstop_grace = \"100ms\"\n");
    let repo = env.repo("shop");
    let hand = format!("hand={TALKER}");
    let pair =
        ["team", "start", "a shop that sells", "--name", "shop", "--worker", &hand, "--json"];
    env.provost_in(repo.path(), &pair).ok();
    let member = eventually("the worker has a state and a branch", || {
        let task = env.provost(&["team", "show", "shop", "--json"]).ok().json();
        let member = task["team"]["members"][0].clone();
        (member["state"].is_string() && member["branch"].is_string()).then_some(member)
    });
    let branch = member["branch"].as_str().unwrap();
    assert!(branch.starts_with("provost/"), "{branch}");
    let shown = env.stdout_of(&["team", "show", "shop"]);
    assert!(shown.contains(&format!("work      hand · branch {branch}")), "{}", shown);
    assert!(shown.contains("member    hand (worker) · session "), "{}", shown);
    let audit = env.stdout_of(&["audit", "shop"]);
    assert!(audit.contains(&format!("· branch {branch}")), "{}", audit);
    let session = member["session"].as_str().unwrap();
    env.wait_state(session, |row| row["process"] == "alive");
    env.provost(&["stop", session]).ok();
    env.wait_state(session, |row| row["process"] != "alive");
}

/// D18: an agent may have neither Provost on its path nor the home in its environment.
#[test]
fn d18_next_commands_work_in_empty_environment() {
    let env = TeamEnv::new();
    env.configure_talker(&format!("{WRITES_CREDENTIALS}\n[[step]]\nhang = true\n"), "");
    let session = env.spawn_in(env.home.root(), &["--agent", TALKER, "begin"]);
    env.provost(&["team", "bind", "limits", "arm", "--role", "worker", "--session", &session]).ok();
    let who = env.credentials(1);
    let finish = ["team", "done", "limits", "--because", "it is done, I think", "--json"];
    let mut command = env.command(&finish);
    command.env("PROVOST_LAUNCH", &who.launch).env("PROVOST_TOKEN", &who.token);
    let refused = output_of(command).assert_code(4).json();
    let hint = first_hint(&refused);
    assert!(hint.starts_with("PROVOST_HOME=") && hint.contains("/provost team show"), "{hint}");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", hint]).env_clear().env("HOME", env.home.root()).env("PATH", "/usr/bin:/bin");
    assert!(output_of(shell).ok().stdout.contains("limit how often each caller may call"));
    let finish = [&finish[..], &["--as", "hand"]].concat();
    let person = env.provost(&finish);
    assert!(
        first_hint(&person.assert_code(4).json()).starts_with("provost team show"),
        "{person:?}"
    );
    env.provost(&["stop", &session]).ok();
    env.wait_state(&session, |row| row["process"] != "alive");
}

/// A caller that acts for a member and follows the suggestions stays that member and never becomes the operator.
#[test]
fn suggestions_for_a_member_use_as_flag() {
    let env = TeamEnv::new();
    env.act_as_operator(&["team", "criterion", "add", "The wording was read", "--accept"]).ok();
    let of_boss = |suggested: &Value| {
        let all = suggested.as_array().unwrap();
        let words = |one: &Value| one.as_str().unwrap().replace("--as=boss", "--as boss");
        assert!(!all.is_empty(), "{suggested}");
        assert!(all.iter().all(|one| words(one).contains("--as boss")), "{suggested}");
    };
    of_boss(
        &env.act_as("boss", &["team", "criterion", "add", "The answer says how long"]).ok().json()
            ["next"],
    );
    of_boss(&env.act_as("boss", &["team", "loop", "status"]).ok().json()["next"]);
    let cycle = env.provost(&["team", "overview", "limits", "--as", "boss", "--json"]).ok().json();
    let hints = cycle["cycle"]["blockers"].as_array().unwrap().iter();
    of_boss(&hints.clone().map(|one| one["hint"].clone()).collect());
    of_boss(&hints.map(|one| one["next"].clone()).collect());
    let shown = ["team", "show", "limits", "--as", "boss", "--json"];
    let shown = env.provost(&shown).ok().json();
    of_boss(&shown["next"]);
    let again = |one: &Value| one.as_str().unwrap().starts_with("provost team show");
    assert!(!shown["next"].as_array().unwrap().iter().any(again), "{}", shown["next"]);
    let finish =
        ["team", "done", "limits", "--because", "all of it holds now", "--as", "boss", "--json"];
    of_boss(&env.provost(&finish).assert_code(4).json()["error"]["next"]);
    // Another member's statement is requested, and not made in its name.
    env.bind("limits", "deputy", "manager");
    let refused = env.provost(&finish).assert_code(4).json();
    let next = refused["error"]["next"].to_string();
    assert!(next.contains("provost team send deputy TEXT"), "{next}");
    assert!(!next.contains("--as deputy"), "{next}");
    // The operator is not a member, so nothing is added.
    let operator = env.provost(&["team", "show", "limits", "--json"]).ok().json();
    assert!(!operator["next"].to_string().contains("--as"), "{}", operator["next"]);
}

#[test]
fn dropped_gate_leaves_finish_to_operator() {
    let env = TeamEnv::new();
    env.act_as_operator(&["team", "loop", "start", "--require", "notes=asserted"]).ok();
    env.act_as("boss", &["team", "loop", "stop", "--because", "it takes too long for us"]).ok();
    let hint = |by: &[&str]| {
        let show = [&["team", "show", "limits", "--json"], by].concat();
        let task = env.provost(&show).ok().json();
        let blockers = task["team"]["blockers"].as_array().unwrap().clone();
        let dropped = blockers.into_iter().find(|one| one["code"] == "gate_dropped").unwrap();
        dropped["hint"].as_str().unwrap().to_owned()
    };
    assert!(hint(&[]).starts_with("provost team done "), "{}", hint(&[]));
    let to_boss = hint(&["--as", "boss"]);
    assert!(to_boss.starts_with("provost team send operator TEXT "), "{to_boss}");
    assert!(to_boss.ends_with(" --as boss"), "{to_boss}");
}

#[test]
fn ack_of_offered_message_hints_at_accept() {
    let env = TeamEnv::new();
    env.send("hand", "Begin with the tests.");
    let taken = env.act_as("hand", &["team", "next", "--hold"]).ok().json();
    let (item, next) = (&taken["item"], &taken["next"]);
    assert_eq!(next[0], item["accept_command"], "{taken:#}");
    assert_eq!(next[1], item["acknowledge_command"], "{taken:#}");
    let refused = env.ack("hand", item).assert_code(4).json();
    assert!(
        first_hint(&refused).starts_with("provost team inbox accept 1 --lease 1 "),
        "{refused}"
    );
    assert!(first_hint(&refused).ends_with(" --as hand"), "{refused}");
    for command in [&next[0], &next[1]] {
        let words = command.as_str().unwrap().split_whitespace();
        // The words before `team` are the home and the program, which are specific to this
        // environment.
        let words: Vec<&str> = words.skip_while(|word| *word != "team").collect();
        env.provost(&words).ok();
    }
    env.send("hand", "Now the second caller.");
    assert_eq!(env.take_next("hand", &[])["accept_command"], Value::Null);
}

#[test]
fn draft_suggests_team_and_takes_no_message() {
    let env = TeamEnv::new();
    env.act_as("hand", &["team", "send", "boss", "criterion: the second caller is limited, too"])
        .ok();
    let drafted = env.act_as("boss", &["team", "criterion", "draft", "--from", "1"]).ok().json();
    for next in drafted["next"].as_array().unwrap() {
        let next = next.as_str().unwrap();
        assert!(next.contains(" -t ") && next.ends_with(" --as boss"), "{next}");
    }
    let missing =
        env.act_as("boss", &["team", "criterion", "draft", "--from", "77"]).assert_code(3).json();
    assert!(first_hint(&missing).starts_with("provost team inbox ls --all -t "), "{missing}");
    let replay = |form: &str| {
        let replayed = env.provost(&["replay", "limits", "--as", form, "--json"]).ok().json();
        replayed["next"].to_string().contains("--as timeline")
    };
    assert!(replay("compact") && !replay("timeline"));
}

#[test]
fn start_title_labels_exactly_one_worker() {
    let env = TeamEnv::new();
    let pair =
        ["team", "start", "rework the start page", "--pull", "--title", "Start page", "--json"];
    let opened = |more: &[&str]| env.provost(&[&pair[..], more].concat());
    let one = opened(&["--worker", "app", "--manager", "desk"]).ok().json();
    let titles = one["team"]["members"].as_array().unwrap().iter().map(|one| &one["title"]);
    assert_eq!(titles.collect::<Vec<_>>(), [&json!("Start page"), &Value::Null], "{one}");
    let two = opened(&["--worker", "app", "--worker", "other"]).assert_code(2).json();
    assert!(first_hint(&two).starts_with("provost team label TEAM MEMBER "), "{two}");
    let none =
        ["team", "start", "rework it", "--worker", "codex", "--title", "Start page", "--json"];
    env.provost(&none).assert_code(2);
}

#[test]
fn awaited_failed_check_is_a_json_error() {
    let env = TeamEnv::in_repo(&[]);
    let add = ["team", "criterion", "add", "The tests pass", "--check", "exit 7", "--accept"];
    env.act_as_operator(&add).ok();
    let failed =
        env.act_as_operator(&["team", "prove", "--criterion", "1", "--wait"]).assert_code(1).json();
    assert_eq!((&failed["ok"], &failed["error"]["code"]), (&json!(false), &json!("failed")));
    assert_eq!(failed["error"]["message"], "check `exit 7` failed: exit 7", "{failed}");
}

#[test]
fn echoed_input_has_no_terminal_controls() {
    let env = TeamEnv::new();
    let refused = env.provost(&["team", "show", "--\u{1b}[31mred", "--json"]).assert_code(2).json();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("red") && !why.contains('\u{1b}'), "{why:?}");
}

#[test]
fn config_outside_a_repository_is_reported_unread() {
    let env = TeamEnv::new();
    let place = env.home.root().join("plain");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("provost.toml"), "[agents.sample]\ncommand = [\"true\"]\n").unwrap();
    let spawn = ["spawn", "--agent", "sample", "begin"];
    let refused = env.provost_in(&place, &spawn);
    assert!(refused.assert_code(2).stderr.contains("provost.toml is not read"), "{refused:?}");
    let elsewhere = env.provost_in(env.home.root(), &spawn);
    assert!(!elsewhere.assert_code(2).stderr.contains("is not read"), "{elsewhere:?}");
}

#[test]
fn failed_worker_shows_cause_and_no_finish_hint() {
    let env = TeamEnv::new();
    env.configure_talker("[[step]]\nexit = 3\n", "");
    let repo = env.repo("shop");
    let hand = format!("hand={TALKER}");
    let pair =
        ["team", "start", "a shop that sells", "--name", "shop", "--worker", &hand, "--json"];
    env.provost_in(repo.path(), &pair).ok();
    let show = ["team", "show", "shop", "--json"];
    let task = eventually("the worker failed", || {
        let shown = env.provost(&show).ok().json();
        (shown["team"]["members"][0]["state"] == "failed").then_some(shown)
    });
    assert_eq!(task["team"]["members"][0]["cause"], "crash", "{task:#}");
    assert!(!task["next"].to_string().contains("provost team done"), "{task:#}");
    assert!(env.stdout_of(&["team", "show", "shop"]).contains("failed (crash)"));
    let cycle = env.stdout_of(&["team", "overview", "shop"]);
    assert!(cycle.contains("hand (worker) · failed (crash)"), "{}", cycle);
    assert!(cycle.contains("see why hand (crash) failed"), "{}", cycle);
    assert!(!cycle.contains("nothing is open"), "{}", cycle);
}
