//! Reads answers from the user's terminal or from a file.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, Read as _, Write as _},
    path::Path,
};

use provost_api::{ApiError, QuestionRow, RequestRow};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde::Deserialize;

use crate::{error::usage, ui};

/// The maximum size of an answers file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The format of an answers file. Codex uses the same format for answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswersFile {
    answers: BTreeMap<String, AnswerEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerEntry {
    answers: Vec<String>,
}

/// Reads an answers file. `-` means standard input.
pub(super) fn from_file(path: &Path) -> Result<BTreeMap<String, Vec<String>>, ApiError> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(MAX_FILE + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
    };
    let length =
        read.map_err(|why| usage(format!("cannot read answers from {}: {why}", path.display())))?;
    if length as u64 > MAX_FILE {
        return Err(usage(format!("{} is larger than {MAX_FILE} bytes", path.display())));
    }
    parse(&text)
}

fn parse(text: &str) -> Result<BTreeMap<String, Vec<String>>, ApiError> {
    let file: AnswersFile = serde_json::from_str(text).map_err(|why| {
        usage(format!(
            "cannot parse the answers: {why}; expected {{\"answers\":{{ID:{{\"answers\":[TEXT]}}}}}}"
        ))
    })?;
    Ok(file.answers.into_iter().map(|(id, given)| (id, given.answers)).collect())
}

/// Prompts for the answer to a request with a single question.
pub(super) fn prompt_one(request: &RequestRow) -> Result<String, ApiError> {
    match request.questions.first() {
        Some(question) => prompt_question(question),
        None => {
            show(&ui::escape_line(&request.title))?;
            read_line(false)
        }
    }
}

/// Prompts for an answer to each question of a request.
pub(super) fn prompt_each(request: &RequestRow) -> Result<BTreeMap<String, Vec<String>>, ApiError> {
    let asked = request.questions.iter();
    asked.map(|question| Ok((question.id.clone(), vec![prompt_question(question)?]))).collect()
}

fn prompt_question(question: &QuestionRow) -> Result<String, ApiError> {
    let header =
        if question.header.is_empty() { String::new() } else { format!("{}: ", question.header) };
    show(&ui::escape_line(&format!("{header}{}", question.question)))?;
    for (at, option) in question.options.iter().enumerate() {
        let meaning = question.descriptions.get(at).filter(|text| !text.is_empty());
        let meaning = meaning.map_or(String::new(), |text| format!(": {text}"));
        // The options of a secret are not numbered, because a typed number could be the secret itself.
        let label = if question.secret { "-".to_owned() } else { format!("{})", at + 1) };
        show(&format!("  {label} {}", ui::escape_line(&format!("{option}{meaning}"))))?;
    }
    if !question.options.is_empty() && !question.only_options {
        show("  or type your own answer")?;
    }
    if question.secret {
        return read_line(true);
    }
    loop {
        let line = read_line(false)?;
        match resolve_choice(&line, &question.options) {
            Some(answer) => return Ok(answer.to_owned()),
            None => {
                show(&format!("there are only {} options; try again:", question.options.len()))?
            }
        }
    }
}

/// If the user typed a number, returns the option with that number, or `None` if the option does not exist. Returns any
/// other text unchanged.
fn resolve_choice<'a>(line: &'a str, options: &'a [String]) -> Option<&'a str> {
    match line.trim().parse::<usize>() {
        Ok(number) if !options.is_empty() => {
            number.checked_sub(1).and_then(|at| options.get(at)).map(String::as_str)
        }
        Ok(_) | Err(_) => Some(line),
    }
}

fn show(line: &str) -> Result<(), ApiError> {
    writeln!(std::io::stderr(), "{line}")
        .map_err(|why| usage(format!("cannot prompt on the terminal: {why}")))
}

fn read_line(secret: bool) -> Result<String, ApiError> {
    let prompt = if secret { "(not shown) > " } else { "> " };
    let failed = |why: std::io::Error| usage(format!("cannot prompt on the terminal: {why}"));
    let mut stderr = std::io::stderr();
    write!(stderr, "{prompt}").and_then(|()| stderr.flush()).map_err(failed)?;
    let quiet = secret.then(EchoOff::begin).transpose().map_err(failed)?;
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).map_err(failed);
    if quiet.is_some() {
        drop(quiet);
        show("")?;
    }
    match read? {
        0 => Err(usage("no answer given, so nothing was sent")),
        _ => Ok(line.trim_end_matches(['\n', '\r']).to_owned()),
    }
}

/// Turns off terminal echo until dropped.
struct EchoOff {
    original: rustix::termios::Termios,
}

impl EchoOff {
    fn begin() -> std::io::Result<EchoOff> {
        let before = tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(EchoOff { original: before })
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // The call fails only if the terminal no longer exists, which does not matter here.
        tcsetattr(std::io::stdin(), OptionalActions::Now, &self.original).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_file_rejects_other_forms() {
        let good = parse(r#"{"answers":{"a":{"answers":["1","2"]},"b":{"answers":[]}}}"#).unwrap();
        assert_eq!(good["a"], ["1", "2"]);
        assert!(good["b"].is_empty());
        for bad in [r#"{"a":["1"]}"#, r#"{"answers":{"a":["1"]}}"#, r#"{"answers":{},"x":1}"#, "{"]
        {
            let error = parse(bad).unwrap_err();
            assert!(error.message.contains("expected {\"answers\""), "{}", error.message);
        }
    }

    #[test]
    fn number_selects_option_other_text_is_kept() {
        let options = ["red".to_owned(), "blue".to_owned()];
        assert_eq!(resolve_choice("2", &options), Some("blue"));
        for text in ["red wine", "-1", ""] {
            assert_eq!(resolve_choice(text, &options), Some(text));
        }
        for slip in ["0", "3"] {
            assert_eq!(resolve_choice(slip, &options), None, "prompts again");
        }
        assert_eq!(resolve_choice("2", &[]), Some("2"));
    }
}
