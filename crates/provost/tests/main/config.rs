//! `provost config`, and the settings that `spawn` takes from the configuration.

use crate::cli_env::CliEnv;

#[test]
fn every_value_shows_its_source() {
    let world = CliEnv::new();
    world.git(&["init", "-q"]);
    world.write("user/.config/provost/provost.toml", "[session]\nsettle = \"5s\"\nrework = 1\n");
    world.write("work/provost.toml", "[session]\nsettle = \"1s\"\n");
    let ran =
        world.run_with(&["config", "show", "--json"], &[("PROVOST_SESSION_STALE_AFTER", "9s")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let value = ran.json();
    assert_eq!(value["ok"], true);
    let entry = |key: &str| {
        let entries = value["entries"].as_array().unwrap();
        entries.iter().find(|entry| entry["key"] == key).unwrap().clone()
    };
    assert_eq!(entry("session.settle")["value"], "1s");
    assert_eq!(entry("session.settle")["source"]["layer"], "project");
    assert_eq!(entry("session.settle")["source"]["line"], 2);
    assert_eq!(entry("session.settle")["shadowed"][0]["value"], "5s");
    assert_eq!(entry("session.rework")["source"]["layer"], "user");
    assert_eq!(entry("session.stale_after")["source"]["variable"], "PROVOST_SESSION_STALE_AFTER");
    assert_eq!(entry("session.drain")["source"]["layer"], "default");
    let people = world.run(&["config", "show"]);
    let settle: Vec<_> = people
        .stdout
        .lines()
        .skip_while(|line| !line.starts_with("session.settle"))
        .take(2)
        .collect();
    assert!(
        settle[0].contains("provost.toml:2:") && settle[1].contains("hidden: user"),
        "{settle:?}"
    );
}

#[test]
fn mistake_is_reported_with_line_and_suggestion() {
    let world = CliEnv::new();
    world.write("user/.config/provost/provost.toml", "[sesion]\nsettle = \"5s\"\n");
    let ran = world.run(&["config", "show"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("provost.toml:1:")
            && ran.stderr.contains("did you mean \"session.settle\"?"),
        "{}",
        ran.stderr
    );
    let spawned = world.run(&["spawn", "--json", "--", "true"]);
    assert!(spawned.json_error("bad_request").contains("session"));
    world.assert_untouched();
}

#[test]
fn unread_file_outside_repository_is_reported() {
    let world = CliEnv::new();
    world.write("work/provost.toml", "[session]\nsettle = \"9s\"\n");
    let shown = world.run(&["config", "show", "--json"]).json();
    let warnings = shown["warnings"].to_string();
    assert!(warnings.contains("work/provost.toml is not read"), "{warnings}");
    assert!(world.run(&["config", "show"]).stderr.contains("it is not in a git repository"));
    world.git(&["init", "-q"]);
    let read = world.run(&["config", "show", "--json"]).json();
    assert_eq!(read["warnings"], serde_json::json!([]));
    assert!(read["entries"].to_string().contains("\"9s\""), "{read}");
}

#[test]
fn schema_is_json() {
    let schema: serde_json::Value =
        serde_json::from_str(&CliEnv::new().run(&["config", "schema"]).stdout).unwrap();
    assert!(schema["properties"]["session"].is_object());
}

#[test]
fn unknown_agent_suggests_the_nearest() {
    let world = CliEnv::new();
    world.write("user/.config/provost/provost.toml", "[agents.helper]\ncommand = [\"true\"]\n");
    let message = |agent: &str| {
        let ran = world.run(&["spawn", "--json", "--agent", agent, "do it"]);
        assert_eq!(ran.code, 2);
        ran.json_error("bad_request")
    };
    assert!(message("codx").contains("did you mean \"codex\"?"));
    assert!(message("helpr").contains("did you mean \"helper\"?"));
    assert!(message("zzz").contains("known agents: \"codex\", \"demo\", \"helper\""));
    world.assert_untouched();
}

#[test]
fn settings_without_effect_are_refused() {
    let world = CliEnv::new();
    world.write(
        "user/.config/provost/provost.toml",
        "[agents.plain]\ncommand = [\"true\"]\n[agents.talks]\nadapter = \"jsonl\"\ncommand = [\"true\"]\n[agents.renames]\ncommand = [\"true\"]\nenv.FOO = \"$BAR\"\n[agents.leaks]\ncommand = [\"true\"]\nenv.MY_TOKEN = \"abc\"\n",
    );
    let message = |arguments: &[&str]| {
        world.run(&[&["spawn", "--json"], arguments].concat()).json_error("bad_request")
    };
    assert!(message(&["--agent", "plain", "do it"]).contains("standard input is closed"));
    assert!(message(&["--agent", "talks", "--stdin", "do it"]).contains("--stdin"));
    assert!(message(&["--agent", "renames"]).contains("under the same name"));
    assert!(message(&["--agent", "leaks"]).contains("looks like a secret"));
    world.assert_untouched();
}
