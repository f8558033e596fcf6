//! Help, completions, and mistyped commands.

use crate::cli_env::CliEnv;

const COMMANDS: &[&[&str]] = &[
    &["spawn"],
    &["ls"],
    &["status"],
    &["logs"],
    &["events"],
    &["send"],
    &["answer"],
    &["stop"],
    &["cancel"],
    &["resolve"],
    &["limit"],
    &["report"],
    &["report", "completed"],
    &["report", "fact"],
    &["gc"],
    &["doctor"],
    &["skills"],
    &["skills", "list"],
    &["config"],
    &["config", "show"],
    &["config", "schema"],
    &["completions"],
    &["ledger"],
    &["ledger", "verify"],
    &["ledger", "export"],
    &["ledger", "import"],
    &["ledger", "backup"],
    &["ledger", "archive"],
    &["ledger", "path"],
    &["daemon"],
    &["daemon", "run"],
    &["daemon", "stop"],
    &["daemon", "status"],
];

#[test]
fn every_command_has_help_with_examples() {
    let world = CliEnv::new();
    for command in COMMANDS {
        let ran = world.run(&[command, ["--help"].as_slice()].concat());
        assert_eq!(ran.code, 0, "{command:?}: {ran:?}");
        assert!(ran.stdout.contains("Examples:\n  provost"), "{command:?}: {}", ran.stdout);
        assert!(ran.stdout.contains("--json"), "{command:?}: {}", ran.stdout);
    }
    world.assert_untouched();
}

#[test]
fn exit_codes_have_a_help_topic() {
    let world = CliEnv::new();
    let topic = world.run(&["help", "exit-codes"]);
    assert_eq!(topic.code, 0);
    for code in 0..=7 {
        let start = format!("{code}  ");
        assert!(topic.stdout.lines().any(|line| line.starts_with(&start)), "{}", topic.stdout);
    }
    assert!(!topic.stdout.contains("Usage:"), "a topic is not a command: {}", topic.stdout);
    let command = world.run(&["exit-codes"]);
    assert_eq!(command.code, 2);
    assert!(command.stderr.contains("`provost help exit-codes`"), "{command:?}");
    for arguments in [&["help", "exit-codes", "--json"][..], &["--json", "help", "exit-codes"]] {
        let ran = world.run(arguments);
        assert_eq!((ran.code, &ran.json()["exit_codes"][2]["code"]), (0, &2.into()), "{ran:?}");
    }
}

#[test]
fn help_is_a_json_object_with_json_flag() {
    let world = CliEnv::new();
    for arguments in [&["help", "ls", "--json"][..], &["ls", "--help", "--json"]] {
        let ran = world.run(arguments);
        let reply = ran.json();
        assert_eq!((ran.code, &reply["ok"]), (0, &true.into()), "{ran:?}");
        assert!(reply["help"].as_str().unwrap().contains("Usage: provost ls"), "{ran:?}");
    }
    let wrong = world.run(&["help", "nothing", "--json"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    wrong.json_error("bad_request");
    world.assert_untouched();
}

#[test]
fn bad_usage_exits_with_2() {
    let world = CliEnv::new();
    let wrong: &[&[&str]] = &[
        &[],
        &["nonsense"],
        &["ls", "--state", "wroking"],
        &["ls", "--limit", "0"],
        &["resolve", "x"],
        &["resolve", "x", "--as", "succeeded", "--because", "y"],
        &["report"],
        &["report", "fact"],
        &["report", "fact", "--branch", "a", "--pr", "b"],
        &["status", "--why"],
        &["status", ""],
        &["events", " "],
        &["stop", ""],
        &["answer", "", "yes"],
        &["limit", "x", "--output", "much"],
        &["gc", "--older-than", "soon"],
        &["spawn"],
        &["spawn", "instruction only"],
        &["spawn", "--model", "m", "--", "true"],
        &["spawn", "--budget", "2M", "--", "true"],
        &["spawn", "--turns", "2", "--", "true"],
        &["spawn", "--agent", "codex"],
        &["spawn", "--agent", "codex", "--budget", "2m", "do it"],
        &["spawn", "--agent", "codex", "--once", "--approvals", "untrusted", "do it"],
        &["spawn", "--agent", "codex", "--once", "--keep", "do it"],
        &["send", "x", "  "],
        &["spawn", "--env", "API_TOKEN=x", "--", "true"],
        &["spawn", "--name", "a\u{1b}b", "--", "true"],
        &["stop", "x", "--key", "a b"],
        &["logs", "x", "--check", "1", "-f"],
    ];
    for arguments in wrong {
        let people = world.run(arguments);
        assert_eq!(people.code, 2, "{arguments:?}: {people:?}");
        assert!(people.stdout.is_empty() && !people.stderr.is_empty(), "{arguments:?}: {people:?}");
        let program = world.run(&[arguments, ["--json"].as_slice()].concat());
        if !arguments.contains(&"--") {
            assert_eq!(program.code, 2, "{arguments:?}: {program:?}");
            assert!(!program.json_error("bad_request").is_empty());
        }
    }
    world.assert_untouched();
}

#[test]
fn misspelt_word_gets_a_suggestion() {
    let world = CliEnv::new();
    assert!(world.run(&["spwan"]).stderr.contains("spawn"));
    assert!(world.run(&["ls", "--state", "wroking"]).stderr.contains("working"));
}

#[test]
fn completions_exist_for_each_shell() {
    let world = CliEnv::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = world.run(&["completions", shell]);
        assert_eq!(ran.code, 0);
        assert!(ran.stdout.contains("provost") && ran.stdout.contains("spawn"), "{shell}");
    }
    assert_eq!(world.run(&["completions", "dos"]).code, 2);
}

#[test]
fn closed_stdout_is_not_an_error() {
    let world = CliEnv::new();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_provost"))
        .args(["completions", "bash"])
        .env("PROVOST_HOME", world.home())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
