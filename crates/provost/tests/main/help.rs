//! The grouped help, aliases of commands, and words that mean a command.

use crate::cli_env::CliEnv;

/// The lines of a help text that list commands.
fn listed(help: &str) -> Vec<&str> {
    let groups = help.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1);
    let lines = groups.take_while(|line| *line != "Options:");
    let names = lines.filter_map(|line| line.strip_prefix("  "));
    names.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn main_help_shows_common_commands_in_groups() {
    let world = CliEnv::new();
    let (short, all) = (world.run(&["--help"]), world.run(&["help", "--all"]));
    assert_eq!((short.code, all.code), (0, 0), "{short:?} {all:?}");
    for title in
        ["Start:", "See:", "Steer:", "Results:", "Team:", "External:", "History:", "Set up:"]
    {
        for help in [&short, &all] {
            assert!(help.stdout.lines().any(|line| line == title), "{title}: {}", help.stdout);
        }
    }
    let (common, every) = (listed(&short.stdout), listed(&all.stdout));
    assert!((10..=30).contains(&common.len()), "{common:?}");
    assert!(common.iter().all(|name| every.contains(name)) && every.len() > common.len());
    for name in ["run", "spawn", "ls", "status", "doctor"] {
        assert!(common.contains(&name), "{name}");
    }
    assert!(every.contains(&"ledger") && !common.contains(&"ledger"), "{common:?}");
    assert!(!every.contains(&"exit-codes") && !every.contains(&"ps"), "{every:?}");
    assert!(short.stdout.contains("provost help --all"), "{}", short.stdout);
    assert!(short.stdout.contains("Examples:\n  provost run"), "{}", short.stdout);
    assert_eq!(world.run(&["help"]).stdout, short.stdout);
    assert_eq!(world.run(&["-h"]).stdout, short.stdout);
    world.assert_untouched();
}

#[test]
fn help_topics_are_commands_and_guides() {
    let world = CliEnv::new();
    let (topic, flag) = (world.run(&["help", "ledger", "verify"]), ["ledger", "verify", "--help"]);
    assert_eq!((topic.code, topic.stdout), (0, world.run(&flag).stdout));
    assert_eq!(world.run(&["ledger", "help"]).stdout, world.run(&["ledger", "--help"]).stdout);
    let guide = world.run(&["help", "managing"]);
    assert_eq!((guide.code, guide.stdout), (0, world.run(&["guide", "managing"]).stdout));
    let wrong = world.run(&["help", "nothing"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.stderr.contains("nothing"), "{wrong:?}");
    let all = world.run(&["help", "--all", "--json"]).json();
    assert!(all["help"].as_str().unwrap().contains("\nStart:\n"), "{all}");
}

#[test]
fn aliases_work_and_are_named_in_help() {
    let world = CliEnv::new();
    for (alias, command) in [
        ("list", "ls"),
        ("ps", "ls"),
        ("log", "logs"),
        ("tail", "logs"),
        ("kill", "stop"),
        ("wait", "monitor"),
        ("restart", "resume"),
        ("new", "spawn"),
    ] {
        let help = world.run(&[alias, "--help"]);
        assert_eq!(help.code, 0, "{alias}: {help:?}");
        assert!(help.stdout.contains(&format!("Usage: provost {command}")), "{alias}: {help:?}");
        let aliases = help.stdout.lines().find_map(|line| line.strip_prefix("Aliases: "));
        assert!(aliases.unwrap().split(", ").any(|one| one == alias), "{alias}: {help:?}");
    }
    world.assert_untouched();
}

#[test]
fn unknown_command_with_a_meaning_names_the_command() {
    let world = CliEnv::new();
    for (word, command) in [
        ("delete", "provost gc"),
        ("remove", "provost gc"),
        ("abort", "provost cancel ID"),
        ("start", "provost run GOAL"),
        ("show", "provost status ID"),
        ("continue", "provost resume ID"),
        ("pause", "provost interrupt ID"),
        ("message", "provost send ID TEXT"),
        ("history", "provost events"),
        ("merge", "provost status RUN"),
    ] {
        let ran = world.run(&[word, "1a2b3c4d"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{word}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{word}: {ran:?}");
        let start = format!("error: there is no command \"{word}\"; use `{command}`");
        assert!(ran.stderr.starts_with(&start), "{word}: {ran:?}");
        let json = world.run(&["--json", word]);
        assert_eq!((json.code, &json.json()["error"]["next"][0]), (2, &command.into()), "{json:?}");
    }
    world.assert_untouched();
}
