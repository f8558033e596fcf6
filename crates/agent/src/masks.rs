//! Computes the encoded forms of a secret answer, so that it can be masked in the agent's later
//! output.

use std::collections::BTreeSet;

use provost_core::request::{AgentRequest, RequestQuestion, RequestReply};

/// The minimum length of a masked secret. A shorter one would match unrelated text.
pub const MIN_SECRET: usize = 8;

/// The maximum length of a pattern. A longer line is split, so that no pattern is too long for a
/// holder.
const MAX_PIECE: usize = 512;

/// Terms of Provost's own protocol and tools. Masking one of them would break the conversation.
const PROTOCOL_TERMS: [&str; 22] = [
    "approval",
    "artifact",
    "blocking",
    "completed",
    "continue",
    "decision",
    "declined",
    "instruction-",
    "interrupt-",
    "interrupted",
    "needs_input",
    "progress",
    "provost_ask",
    "provost_fact",
    "provost_progress",
    "provost_report",
    "question",
    "questions",
    "request_withdrawn",
    "retrying",
    "turn_ended",
    "turn_started",
];

/// Returns the patterns to mask: each line of each secret answer, as it appears in a message, and
/// in JSON nested in a message. Parts of the given terms of the agent's protocol are never masked.
pub fn secret_masks(asked: &AgentRequest, reply: &RequestReply, terms: &[&str]) -> Vec<Vec<u8>> {
    let secrets = asked.questions.iter().filter(|question| question.secret);
    let given = secrets.flat_map(|question| secret_answers(question, reply));
    let lines = given.flat_map(str::lines).map(str::trim);
    let hidden = lines.filter(|line| line.len() >= MIN_SECRET && !is_part_of(line, terms));
    let forms: BTreeSet<String> = hidden.flat_map(split_line).flat_map(escaped_forms).collect();
    forms.into_iter().map(String::into_bytes).collect()
}

/// Returns the answers to a question, except the answers that the agent itself offered, because
/// they are not secret.
fn secret_answers<'a>(
    question: &'a RequestQuestion,
    reply: &'a RequestReply,
) -> impl Iterator<Item = &'a str> {
    let given = match reply {
        RequestReply::Text(text) => std::slice::from_ref(text),
        RequestReply::Answers(answers) => answers.get(&question.id).map_or(&[][..], Vec::as_slice),
        RequestReply::Approve(_) | RequestReply::Deny => &[],
    };
    let offered = |text: &&String| question.options.iter().any(|option| option.label == **text);
    given.iter().filter(move |text| !offered(text)).map(String::as_str)
}

fn is_part_of(text: &str, terms: &[&str]) -> bool {
    PROTOCOL_TERMS.iter().chain(terms).any(|term| term.contains(text))
}

/// Splits a long line into pieces that cover it. The last piece overlaps the previous one, so that
/// all pieces have the full length.
fn split_line(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while rest.len() > MAX_PIECE {
        let end = (0..=MAX_PIECE).rev().find(|at| rest.is_char_boundary(*at));
        let (piece, more) = rest.split_at(end.unwrap_or(rest.len()));
        pieces.push(piece);
        rest = more;
    }
    let begin = (line.len().saturating_sub(MAX_PIECE)..).find(|at| line.is_char_boundary(*at));
    pieces.push(&line[begin.unwrap_or_default()..]);
    pieces
}

/// Returns the piece as it is escaped in a message, and in JSON nested in a message. The unescaped
/// form is omitted: text that needs escaping never appears without it, and masking it could break
/// the line.
fn escaped_forms(piece: &str) -> [String; 2] {
    let once = escape_json(piece);
    let twice = escape_json(&once);
    [once, twice]
}

fn escape_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use provost_core::request::{AnswerOption, BlockingMode, RequestKind};

    use super::*;

    fn asked(secret: bool) -> AgentRequest {
        let question = |id: &str, secret| RequestQuestion {
            id: id.to_owned(),
            header: String::new(),
            question: String::new(),
            options: vec![AnswerOption {
                label: "Without one".to_owned(),
                description: String::new(),
            }],
            only_options: false,
            secret,
        };
        AgentRequest {
            native: "ask:1".to_owned(),
            kind: RequestKind::Question,
            waiting: BlockingMode::Blocking,
            title: String::new(),
            questions: vec![question("token", secret)],
            subject: None,
        }
    }

    fn masked(text: &str) -> Vec<String> {
        let masks = secret_masks(&asked(true), &RequestReply::Text(text.to_owned()), &["threadId"]);
        masks.into_iter().map(|form| String::from_utf8(form).unwrap()).collect()
    }

    #[test]
    fn secret_is_masked_plain_and_nested() {
        assert_eq!(masked("s3cr3t-token"), ["s3cr3t-token"]);
        assert_eq!(masked("s3cr3t\"\\x"), [r#"s3cr3t\"\\x"#, r#"s3cr3t\\\"\\\\x"#]);
        assert_eq!(masked("first line\r\nshort\n  and third"), ["and third", "first line"]);
        let answers = [("token".to_owned(), vec!["s3cr3t-token".to_owned()])];
        let masks = secret_masks(&asked(true), &RequestReply::Answers(answers.into()), &[]);
        assert_eq!(masks, [b"s3cr3t-token"]);
    }

    #[test]
    fn short_and_protocol_terms_are_not_masked() {
        assert!(
            secret_masks(&asked(false), &RequestReply::Text("s3cr3t-token".to_owned()), &[])
                .is_empty()
        );
        for text in ["1234567", "Without one", "completed", "provost_report", "threadId"] {
            assert_eq!(masked(text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(masked("completed-1"), ["completed-1"]);
    }

    #[test]
    fn long_secret_is_masked_in_pieces() {
        let text: String = (0..700).map(|no| format!("{no:04}é")).collect();
        let pieces = split_line(&text);
        assert!(pieces.iter().all(|piece| (MIN_SECRET..=MAX_PIECE).contains(&piece.len())));
        let mut covered = 0;
        for piece in &pieces {
            let at = text.find(piece).unwrap();
            assert!(at <= covered, "nothing is left out");
            covered = at + piece.len();
        }
        assert_eq!(covered, text.len());
        assert_eq!(super::split_line("s3cr3t-token"), ["s3cr3t-token"]);
    }
}
