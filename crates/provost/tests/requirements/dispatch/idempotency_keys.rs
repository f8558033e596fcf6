//! Idempotency keys: each identifies one change of one team, and a request with another content is
//! refused.

use serde_json::json;

use provost_testkit::harness::ProgramOutput;

use super::team_env::TeamEnv;

#[test]
fn key_is_bound_to_one_team() {
    let env = TeamEnv::new();
    env.provost(&["team", "new", "other", "--goal", "something else"]).ok();
    env.bind("other", "hand", "worker");
    let send = |task: &str, text: &str| {
        let words = ["team", "send", "hand", text, "-t", task, "--key", "once", "--json"];
        env.provost(&words)
    };
    assert_eq!(send("limits", "Begin.").ok().json()["message"]["no"], 1);
    assert_eq!(send("limits", "Begin.").ok().json()["message"]["no"], 1, "the same again");
    assert_eq!(env.list_messages().len(), 1);
    send("other", "Begin there.").ok();
    let there = env.provost(&["team", "inbox", "ls", "-t", "other", "--json"]).ok().json();
    assert_eq!(there["messages"][0]["text"], "Begin there.", "{there:#}");
    let taken = send("limits", "Something else.").assert_code(4).json();
    assert!(taken["error"]["message"].as_str().unwrap().contains("another key"), "{taken}");
    let cancel = ["team", "cancel", "other", "--because", "nobody needs it", "--key", "once"];
    env.provost(&cancel).ok();
    let over = env.provost(&["team", "show", "other", "--json"]).ok().json();
    assert_eq!(over["team"]["state"], "cancelled");
}

#[test]
fn key_is_bound_to_one_member() {
    let env = TeamEnv::new();
    let send = |member: &str, to: &str, text: &str| {
        env.act_as(member, &["team", "send", to, text, "--key", "same"]).ok();
    };
    send("hand", "boss", "It is done.");
    send("boss", "hand", "Do the next one.");
    let texts: Vec<_> = env.list_messages().iter().map(|one| one["text"].clone()).collect();
    assert_eq!(texts, ["It is done.", "Do the next one."]);
}

#[test]
fn contract_change_keeps_other_fields() {
    let env = TeamEnv::new();
    env.act_as_operator(&[
        "team", "contract", "set", "--recipe", "strict", "--yes", "--expect", "0",
    ])
    .ok();
    let shown = env.act_as_operator(&["team", "contract", "show"]);
    let before = shown.ok().json()["config"].clone();
    assert_eq!(before["mode"], "strict");
    let misspelt = r#"{"denyed": ["end"]}"#;
    let refused = env
        .act_as_operator(&["team", "contract", "set", misspelt, "--expect", "1"])
        .assert_code(2)
        .json();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("denyed") && why.contains("denied"), "{why}");
    env.act_as_operator(&["team", "contract", "set", &shown.stdout, "--expect", "1"]).ok();
    env.act_as_operator(&[
        "team",
        "contract",
        "set",
        r#"{"objective": "be quick"}"#,
        "--expect",
        "2",
    ])
    .ok();
    let mut after =
        env.act_as_operator(&["team", "contract", "show"]).ok().json()["config"].clone();
    assert_eq!(after["objective"], "be quick");
    for name in ["objective", "revision"] {
        after[name] = before[name].clone();
    }
    assert_eq!(after, before);
    assert_eq!(before["revision"], json!(1));
}

#[test]
fn key_is_bound_to_one_continuation_or_team() {
    let env = TeamEnv::new();
    env.act_as_operator(&["team", "loop", "start", "--require", "notes=asserted"]).ok();
    env.act_as_operator(&["team", "send", "hand", "plain", "--key", "kx"]).ok();
    let go_on = |no: &str, key: &str| {
        env.act_as_operator(&[
            "team",
            "send",
            "hand",
            "go on",
            "--next",
            "--iteration",
            no,
            "--key",
            key,
        ])
    };
    let taken = go_on("2", "kx");
    assert!(taken.assert_code(4).stdout.contains("another key"), "{taken:?}");
    env.act_as_operator(&["team", "loop", "submit", "notes", "--text", "the tests of one caller"])
        .ok();
    let first = go_on("2", "k2").ok().json()["message"]["no"].clone();
    assert_eq!(go_on("2", "k2").ok().json()["message"]["no"], first, "the same again");
    assert!(go_on("3", "k2").assert_code(4).stdout.contains("another key"));
    let pair = |goal: &str, name: &str, worker: &str| {
        let words = ["team", "start", goal, "--name", name, "--pull", "--worker", worker];
        env.provost(&[&words[..], &["--key", "same", "--json"]].concat())
    };
    let id = pair("one thing", "one", "arm").ok().json()["id"].clone();
    assert_eq!(pair("one thing", "one", "arm").ok().json()["id"], id, "the same again");
    for other in [pair("another", "one", "arm"), pair("one thing", "two", "arm")] {
        assert!(other.assert_code(4).stdout.contains("the key was already used"), "{other:?}");
    }
    assert!(
        pair("one thing", "one", "leg").assert_code(4).stdout.contains("the key was already used")
    );
}

/// Runs twelve commands concurrently and returns their outputs.
fn run_concurrently(
    env: &TeamEnv,
    words: impl Fn(usize) -> Vec<String> + Sync,
) -> Vec<ProgramOutput> {
    std::thread::scope(|scope| {
        let begin = |n| {
            let words = words(n);
            scope.spawn(move || env.provost(&words.iter().map(String::as_str).collect::<Vec<_>>()))
        };
        let begun: Vec<_> = (0..12).map(begin).collect();
        begun.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn words_for(words: &str, n: usize) -> Vec<String> {
    words.split(' ').map(|word| word.replace("{}", &n.to_string())).collect()
}

#[test]
fn concurrent_opens_give_key_and_name_once() {
    let env = TeamEnv::new();
    let pairs = run_concurrently(&env, |n| {
        words_for("team start goal-{} --name pair-{} --pull --worker hand --key same --json", n)
    });
    let opened: Vec<_> = pairs.iter().filter(|one| one.status.success()).collect();
    let [one] = opened.as_slice() else { panic!("{} pairs have one key", opened.len()) };
    let refused = pairs.iter().filter(|one| !one.status.success());
    assert!(
        refused.clone().all(|one| one.assert_code(4).stdout.contains("the key was already used"))
    );
    let name = one.json()["team"]["name"].as_str().unwrap().to_owned();
    let tasks = env.provost(&["team", "ls", "--json"]).ok().json()["teams"].clone();
    let names: Vec<_> = tasks.as_array().unwrap().iter().map(|task| &task["name"]).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&&json!(name)), "{names:?}");
    let tasks = run_concurrently(&env, |n| words_for("team new same --goal goal-{} --json", n));
    assert_eq!(tasks.iter().filter(|one| one.status.success()).count(), 1);
    let refused = tasks.iter().filter(|one| !one.status.success());
    assert!(refused.clone().all(|one| one.assert_code(4).stdout.contains("already")));
}

#[test]
fn id_like_names_are_refused() {
    let env = TeamEnv::new();
    let id = env.show_task()["id"].as_str().unwrap().to_owned();
    let short = &id[id.len() - 8..];
    for name in [short, id.as_str(), "DEADBEEF"] {
        for words in [
            &["team", "new", name, "--goal", "something else"][..],
            &["team", "rename", "limits", name],
            &["team", "start", "something else", "--name", name, "--pull", "--worker", "hand"],
            &["spawn", "--name", name, "--", "true"],
        ] {
            let refused = env.provost(words);
            assert!(
                refused.assert_code(2).stderr.contains("looks like an id"),
                "{words:?}: {refused:?}"
            );
        }
    }
    env.provost(&["team", "new", "deadbeefs", "--goal", "nine letters are no id"]).ok();
}
