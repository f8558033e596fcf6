//! The commands of README.md and the guides work as they are written.

use std::{fs, path::Path, process::Command};

use crate::{agents::WORKER, recorder::Recorder};

/// Blocks that are not run, by the beginning of their first command, and the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo install", "installs the program"),
    ("cargo xtask", "runs these tests"),
    ("provost spawn --agent codex", "needs Codex; the codex tests have this conversation"),
    ("provost run --check 'cargo test'", "needs an agent with structured results"),
    (
        "provost run --detach --name shop",
        "needs an agent with structured results; `cargo xtask demo` runs it",
    ),
    ("provost report completed", "is typed by an agent"),
];

/// Texts that are replaced, because a test has no account and no Rust project.
const REPLACED: &[(&str, &str)] = &[
    ("--worker codex", "--worker worker"),
    ("=codex", "=worker"),
    ("--manager codex", "--manager worker"),
    ("cargo test", "true"),
    ("./waits", "true"),
];

/// Commands that may exit with another code than 0, by their beginning, with the code and the reason.
const OTHER_EXIT: &[(&str, i32, &str)] = &[
    ("provost spawn --agent demo --name first", 7, "the agent asks a question"),
    ("provost monitor first", 7, "the agent asks again after the wrong answer"),
    ("provost team wait hello", 7, "the worker asks a question"),
    ("provost interrupt --member hand", 4, "the scripted worker may have ended its turn already"),
];

/// The commands of a block: the lines after `$`, or else all lines.
fn commands(block: &str) -> Vec<String> {
    let lines = block.lines().map(|line| line.split("    #").next().unwrap_or_default().trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let typed: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
    let typed = if typed.is_empty() { lines } else { typed };
    typed.into_iter().map(str::to_owned).collect()
}

/// The code blocks of a document, with their language.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split("```").collect();
    let fenced = parts.iter().skip(1).step_by(2);
    fenced.filter_map(|part| part.split_once('\n')).collect()
}

/// Runs the blocks of a document in order, in one repository, and describes the commands that fail.
fn failures_in(document: &str) -> Vec<String> {
    let terminal = Recorder::new();
    terminal.configure(&[("worker", WORKER)], "");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = fs::read_to_string(path).unwrap();
    let mut failures = Vec::new();
    for (language, block) in blocks(&text) {
        if language == "toml" {
            terminal.write("provost.toml", block);
            terminal.run("trust --yes");
            continue;
        }
        let commands = commands(block);
        if NOT_RUN.iter().any(|(start, _)| commands[0].starts_with(start)) {
            continue;
        }
        for command in commands {
            let mut line = command.clone();
            for (text, replacement) in REPLACED {
                line = line.replace(text, replacement);
            }
            let environment = terminal.home.command(&[""; 0]);
            let mut shell = Command::new("timeout");
            shell.args(["30", "sh", "-c", &line]).current_dir(terminal.app()).env_clear();
            shell.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
            let output = shell.output().unwrap();
            let code = output.status.code();
            let is_expected = OTHER_EXIT
                .iter()
                .any(|(start, other, _)| command.starts_with(start) && code == Some(*other));
            if code != Some(0) && !is_expected {
                let stderr = String::from_utf8_lossy(&output.stderr);
                failures.push(format!("{document}: {command}\n{:?} {stderr}", code));
            }
        }
    }
    let teams = terminal.json("team ls");
    for team in teams["teams"].as_array().unwrap() {
        if team["state"] == "active" || team["state"] == "paused" {
            terminal.run(&format!("team cancel {} --because 'the test is over'", team["id"]));
        }
    }
    failures
}

#[test]
fn commands_of_the_readme_work() {
    let failures = failures_in("README.md");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn commands_of_the_guides_work() {
    let guides = ["docs/guides/loops.md", "docs/guides/supervising.md"];
    let failures: Vec<String> = guides.into_iter().flat_map(failures_in).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
