//! The commands of README.md and the guides work as they are written, and print what README.md shows.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use provost_testkit::eventually;
use regex::Regex;

use crate::{agents::WORKER, recorder::Recorder, redact::Redactor};

/// Blocks that are not run, by the beginning of their first command, and the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo install", "installs the program"),
    ("cargo xtask", "runs these tests"),
    ("provost spawn --agent codex", "needs Codex; the codex tests have this conversation"),
    ("provost run --detach --name shop", "needs Codex for its plan; `cargo xtask demo` runs it"),
];

/// Texts that are replaced, because a test has no account and no Rust project.
const REPLACED: &[(&str, &str)] = &[
    ("--worker codex", "--worker worker"),
    ("=codex", "=worker"),
    ("--manager codex", "--manager worker"),
    ("provost run --check", "provost run --agent worker --check"),
    ("cargo test", "true"),
    ("./waits", "true"),
];

/// Lines of README.md that the test does not find in the output, and the reason.
const NOT_COMPARED: &[(&str, &str)] = &[
    ("stage triage", "the scripted agent has no structured results"),
    (" starting", "such a short state may be over before it is shown"),
    (" working", "such a short state may be over before it is shown"),
];

/// Commands that may exit with another code than 0, by their beginning, with the code and the reason.
const OTHER_EXIT: &[(&str, i32, &str)] = &[
    ("provost spawn --agent demo --name first", 7, "the agent asks a question"),
    ("provost monitor first", 7, "the agent asks again after the wrong answer"),
    ("provost team wait hello", 7, "the worker asks a question"),
    ("provost report needs-input", 7, "the agent asks a question"),
    ("provost interrupt --member hand", 4, "the scripted worker may have ended its turn already"),
];

/// A command of a document, and the output that the document shows.
struct ShownCommand {
    line: String,
    output: Vec<String>,
}

impl ShownCommand {
    /// Returns the line that a shell runs in the test.
    fn runnable(&self) -> String {
        let line = REPLACED
            .iter()
            .fold(self.line.clone(), |line, (text, replacement)| line.replace(text, replacement));
        // A report is a command of an agent.
        if line.starts_with("provost report") {
            return format!("provost spawn --wait -- sh -c '{line}'");
        }
        line
    }
}

/// The commands of a block: the lines after `$` with the output below them, or else all lines.
fn commands(block: &str) -> Vec<ShownCommand> {
    let has_prompts = block.lines().any(|line| line.starts_with("$ "));
    let mut commands: Vec<ShownCommand> = Vec::new();
    for line in block.lines().filter(|line| !line.trim().is_empty()) {
        let typed = if has_prompts { line.strip_prefix("$ ") } else { Some(line) };
        match (typed, commands.last_mut()) {
            (Some(typed), _) => {
                let typed = typed.split("    #").next().unwrap_or_default().trim();
                commands.push(ShownCommand { line: typed.to_owned(), output: Vec::new() });
            }
            (None, Some(last)) => last.output.push(line.to_owned()),
            (None, None) => {}
        }
    }
    commands
}

/// The code blocks of a document, with their language.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split("```").collect();
    let fenced = parts.iter().skip(1).step_by(2);
    fenced.filter_map(|part| part.split_once('\n')).collect()
}

/// Whether the output that a document shows is compared with the printed one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputCheck {
    Compared,
    Ignored,
}

/// Compares shown with printed output. All ids count as equal, and so do all hashes and ages.
struct OutputComparison {
    shown: Redactor,
    printed: Redactor,
    /// The numbers with which the redactors replace ids and hashes.
    numbers: Regex,
}

impl OutputComparison {
    fn new(terminal: &Recorder) -> Self {
        let user = terminal.home.root().join("user").display().to_string();
        Self {
            shown: Redactor::new(vec![("~/src/app".to_owned(), "~/app")]),
            printed: Redactor::new(vec![(user, "~")]),
            numbers: Regex::new(r"\b(0{8}-0000-7000-8000-\d{12}|0{3}\d{5}|\d\dc{8,})\b").unwrap(),
        }
    }

    /// Returns the first shown line that was not printed after the lines before it.
    fn missing_line(&mut self, shown: &[String], printed: &str) -> Option<String> {
        let plain = |text: String| -> Vec<String> {
            let text = self.numbers.replace_all(&text, "ID");
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let shown = plain(self.shown.text(&shown.join("\n")));
        let printed = plain(self.printed.text(printed));
        let mut rest = printed.iter();
        shown.into_iter().find(|line| {
            let is_exempt = NOT_COMPARED.iter().any(|(text, _)| line.ends_with(text));
            !is_exempt && !rest.any(|printed| is_same(line, printed))
        })
    }
}

/// Whether two lines are the same, as far as neither is shortened.
fn is_same(one: &str, other: &str) -> bool {
    match (one.strip_suffix('…'), other.strip_suffix('…')) {
        (None, None) => one == other,
        (Some(start), None) => other.starts_with(start),
        (None, Some(start)) => one.starts_with(start),
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
    }
}

/// Runs a command of a document in the repository.
fn run_command(terminal: &Recorder, command: &ShownCommand) -> Output {
    let environment = terminal.home.command(&[""; 0]);
    let mut shell = Command::new("timeout");
    shell.args(["30", "sh", "-c", &format!("exec 2>&1; {}", command.runnable())]);
    shell.current_dir(terminal.app()).env_clear();
    shell.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.output().unwrap()
}

/// Runs the blocks of a document in order, in one repository. Describes the commands that fail or
/// print something else.
fn failures_in(document: &str, check: OutputCheck) -> Vec<String> {
    let terminal = Recorder::new();
    terminal.configure(&[("worker", WORKER)], "[run]\ntriage = false\n[review]\ntask = \"off\"\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = fs::read_to_string(path).unwrap();
    let mut comparison = OutputComparison::new(&terminal);
    let mut failures = Vec::new();
    let blocks = blocks(&text);
    for (at, (language, block)) in blocks.iter().enumerate() {
        if *language == "toml" {
            terminal.write("provost.toml", block);
            if !blocks.get(at + 1).is_some_and(|(_, next)| next.starts_with("$ provost trust")) {
                terminal.run("trust --yes");
            }
            continue;
        }
        let commands = commands(block);
        if NOT_RUN.iter().any(|(start, _)| commands[0].line.starts_with(start)) {
            continue;
        }
        for command in commands {
            let lacks = |missing: String, printed: &str| {
                format!("{document}: {}\nlacks {missing:?}:\n{printed}", command.line)
            };
            let mut missing = |output: &Output| match check {
                OutputCheck::Compared => {
                    let printed = String::from_utf8_lossy(&output.stdout);
                    let line = comparison.missing_line(&command.output, &printed)?;
                    Some(lacks(line, &printed))
                }
                OutputCheck::Ignored => None,
            };
            let output = if command.line.starts_with("provost status") {
                // The process may end shortly after the outcome of its session is sealed.
                eventually("the status is as shown", || {
                    let output = run_command(&terminal, &command);
                    missing(&output).map_or(Ok(output), Err)
                })
            } else {
                let output = run_command(&terminal, &command);
                failures.extend(missing(&output));
                output
            };
            let code = output.status.code();
            let is_expected = OTHER_EXIT
                .iter()
                .any(|(start, other, _)| command.line.starts_with(start) && code == Some(*other));
            if code != Some(0) && !is_expected {
                let printed = String::from_utf8_lossy(&output.stdout);
                failures.push(format!("{document}: {}\n{code:?} {printed}", command.line));
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
fn commands_of_the_readme_print_what_it_shows() {
    let failures = failures_in("README.md", OutputCheck::Compared);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn commands_of_the_guides_work() {
    let guides = ["docs/guides/loops.md", "docs/guides/supervising.md"];
    let failures: Vec<String> =
        guides.into_iter().flat_map(|guide| failures_in(guide, OutputCheck::Ignored)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
