//! `provost demo-agent`: the scripted agent behind `--agent demo`.
//!
//! The agent communicates in JSON lines and needs no account. The agent only asks for a language and writes a greeting
//! to GREETING.md. New users can use it to try out questions, checks and outcomes in any repository. The greetings are
//! numbered, so that each one changes the file.

use std::{
    io::{BufRead as _, Write as _, stdin, stdout},
    process::ExitCode,
};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{cli::CliResult, context::Context, error::usage};

/// The hidden subcommand that starts the demo agent.
pub(crate) const DEMO_COMMAND: &str = "demo-agent";

/// The name of the agent, as passed to `--agent`.
pub(crate) const DEMO_AGENT: &str = "demo";

/// The file that the agent writes to its working directory.
const GREETING_FILE: &str = "GREETING.md";

/// The ID of the agent's only question.
const LANGUAGE: &str = "language";

/// The text of the agent's only question.
const QUESTION: &str = "In which language should the greeting be?";

/// The beginning of the line in the greeting file that contains the greeting's number.
const SIGNATURE: &str = "Greeting number ";

/// Act as the scripted agent of the tutorials, on standard input and output
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost spawn --agent demo --worktree 'Write a greeting.'")]
pub(crate) struct DemoAgentArgs {}

pub(crate) fn run(_context: &Context, _args: &DemoAgentArgs) -> CliResult {
    let broken =
        |why: std::io::Error| usage(format!("cannot communicate with the supervisor: {why}"));
    let mut output = stdout().lock();
    let mut send = |message: &Value| -> std::io::Result<()> {
        writeln!(output, "{message}")?;
        output.flush()
    };
    send(&json!({"type": "ready", "thread": DEMO_AGENT})).map_err(broken)?;
    let mut agent = DemoAgent::Idle;
    for line in stdin().lock().lines() {
        // Lines in any other format come from a newer supervisor. This agent ignores them.
        let Ok(input) = serde_json::from_str::<DemoInput>(&line.map_err(broken)?) else { continue };
        let step = agent.step(&input);
        if let Some(word) = step.greeting {
            let earlier = std::fs::read_to_string(GREETING_FILE).unwrap_or_default();
            std::fs::write(GREETING_FILE, greeting(word, &earlier)).map_err(|why| {
                usage(format!("cannot write {GREETING_FILE} in the working directory: {why}"))
            })?;
        }
        for message in &step.messages {
            send(message).map_err(broken)?;
        }
        agent = step.next;
    }
    Ok(ExitCode::SUCCESS)
}

/// The state of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DemoAgent {
    Idle,
    /// A turn is running, and the agent is waiting for the language.
    Asking,
}

/// A line from the supervisor, reduced to the fields that the script uses.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum DemoInput {
    Instruction,
    /// An instruction that starts the next turn after an interrupt. While a turn is running, the
    /// script ignores it.
    Steer,
    Continue,
    Rework {
        /// The reason why the work was sent back.
        #[serde(default)]
        text: String,
    },
    Answer {
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        answers: Value,
    },
    Interrupt,
    #[serde(other)]
    Other,
}

/// The agent's reaction to one line.
#[derive(Debug)]
struct DemoStep {
    next: DemoAgent,
    /// The greeting to write into the file, if any, before the messages are sent.
    greeting: Option<&'static str>,
    messages: Vec<Value>,
}

impl DemoAgent {
    fn step(self, input: &DemoInput) -> DemoStep {
        let reply = |next, messages| DemoStep { next, greeting: None, messages };
        match (self, input) {
            (DemoAgent::Idle, DemoInput::Instruction | DemoInput::Steer | DemoInput::Continue) => {
                let ask = question(QUESTION);
                reply(DemoAgent::Asking, vec![json!({"type": "turn_started"}), ask])
            }
            (DemoAgent::Idle, DemoInput::Rework { text }) => {
                let ask = question(&format!("{}{QUESTION}", rework_reason(text)));
                reply(DemoAgent::Asking, vec![json!({"type": "turn_started"}), ask])
            }
            (state, DemoInput::Answer { text, answers }) => {
                let language = text.clone().or_else(|| first_answer(answers)).unwrap_or_default();
                let text = format!("wrote a greeting into {GREETING_FILE}");
                // If an earlier process asked the question, this process has no open turn yet.
                let started = (state == DemoAgent::Idle).then(|| json!({"type": "turn_started"}));
                let ended = [
                    json!({"type": "claim", "claim": "completed", "text": text}),
                    json!({"type": "turn_ended", "status": "ok", "text": text}),
                ];
                DemoStep {
                    next: DemoAgent::Idle,
                    greeting: Some(greeting_word(&language)),
                    messages: started.into_iter().chain(ended).collect(),
                }
            }
            (DemoAgent::Asking, DemoInput::Interrupt) => {
                let withdrawn = json!({"type": "request_withdrawn", "id": LANGUAGE});
                let ended = json!({"type": "turn_ended", "status": "interrupted"});
                reply(DemoAgent::Idle, vec![withdrawn, ended])
            }
            (state, _) => reply(state, Vec::new()),
        }
    }
}

fn question(text: &str) -> Value {
    let options = json!([{"label": "English"}, {"label": "French"}]);
    let question = json!({"id": LANGUAGE, "question": text, "options": options});
    json!({"type": "request", "id": LANGUAGE, "kind": "question", "title": text, "questions": [question]})
}

/// Returns the first answer in a reply whose answers are keyed by question.
fn first_answer(answers: &Value) -> Option<String> {
    let answer = answers.as_object()?.values().next()?;
    let first = answer.as_str().or_else(|| answer.get(0)?.as_str());
    first.map(str::to_owned)
}

/// Returns the reason why the work was sent back, without the output of the check.
fn rework_reason(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    let reason = line.strip_suffix("Last output:").unwrap_or(line).trim_end();
    if reason.is_empty() { String::new() } else { format!("{reason} ") }
}

fn greeting_word(language: &str) -> &'static str {
    match language.trim().to_lowercase().as_str() {
        "french" | "français" => "Bonjour",
        "german" | "deutsch" => "Guten Tag",
        "spanish" | "español" => "Buenos días",
        _ => "Hello",
    }
}

/// Returns the new content of the greeting file, which always differs from the earlier content.
fn greeting(word: &str, earlier: &str) -> String {
    let number = earlier.lines().find_map(|line| line.strip_prefix(SIGNATURE)?.parse::<u32>().ok());
    let number = number.map_or(1, |number| number.wrapping_add(1));
    format!("{word}!\n\n{SIGNATURE}{number}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(line: &str) -> DemoInput {
        serde_json::from_str(line).unwrap()
    }

    fn kinds(step: &DemoStep) -> Vec<&str> {
        step.messages.iter().filter_map(|message| message["type"].as_str()).collect()
    }

    #[test]
    fn instruction_starts_turn_and_asks() {
        let step = DemoAgent::Idle.step(&input(r#"{"type":"instruction","key":"k","text":"go"}"#));
        assert_eq!(kinds(&step), ["turn_started", "request"]);
        assert_eq!((step.next, step.greeting), (DemoAgent::Asking, None));
    }

    #[test]
    fn answer_writes_greeting_and_claims_completion() {
        for line in [
            r#"{"type":"answer","key":"k","request":"language","text":"French"}"#,
            r#"{"type":"answer","key":"k","request":"language","answers":{"language":["French"]}}"#,
        ] {
            let step = DemoAgent::Asking.step(&input(line));
            assert_eq!(kinds(&step), ["claim", "turn_ended"]);
            assert_eq!(step.greeting, Some("Bonjour"));
        }
    }

    #[test]
    fn answer_to_earlier_process_starts_a_turn() {
        let line = r#"{"type":"answer","key":"k","request":"language","text":"French"}"#;
        let step = DemoAgent::Idle.step(&input(line));
        assert_eq!(kinds(&step), ["turn_started", "claim", "turn_ended"]);
        assert_eq!((step.next, step.greeting), (DemoAgent::Idle, Some("Bonjour")));
    }

    #[test]
    fn rework_repeats_its_reason() {
        for (text, title) in [
            (
                "Nothing was changed.",
                "Nothing was changed. In which language should the greeting be?",
            ),
            (
                "The check `false` exited with 1. Last output:\nno greeting",
                "The check `false` exited with 1. In which language should the greeting be?",
            ),
            ("", "In which language should the greeting be?"),
        ] {
            let line = json!({"type": "rework", "key": "k", "text": text}).to_string();
            let step = DemoAgent::Idle.step(&input(&line));
            assert_eq!(step.messages[1]["title"], title);
        }
    }

    #[test]
    fn repeated_greeting_changes_the_file() {
        let first = greeting("Bonjour", "");
        assert_eq!(first, "Bonjour!\n\nGreeting number 1\n");
        assert_eq!(greeting("Bonjour", &first), "Bonjour!\n\nGreeting number 2\n");
        assert_eq!(greeting("Bonjour", "Bonjour!\n"), first);
    }

    #[test]
    fn interrupt_withdraws_question() {
        let step = DemoAgent::Asking.step(&input(r#"{"type":"interrupt","key":"k"}"#));
        assert_eq!(kinds(&step), ["request_withdrawn", "turn_ended"]);
        assert_eq!(step.next, DemoAgent::Idle);
    }

    #[test]
    fn unknown_input_changes_nothing() {
        let step = DemoAgent::Asking.step(&input(r#"{"type":"compact","key":"k"}"#));
        assert_eq!((step.next, step.messages.len()), (DemoAgent::Asking, 0));
    }
}
