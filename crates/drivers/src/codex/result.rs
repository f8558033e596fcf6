//! The structured result of a turn: asked for by a schema, believed only if it fits.
//!
//! The server does not enforce the schema, so what comes back is read strictly. A text that merely
//! sounds like success is none.

use provost_core::{lifecycle::ClaimKind, session::Testimony};
use serde::Deserialize;
use serde_json::{Value, json};

use super::wire::bounded;

/// So much of a summary is kept.
pub(crate) const MAX_SUMMARY: usize = 16 << 10;

/// Asks for the result.
pub(crate) const WANTED: &str = "Your turn is over, and it is not known how your work stands. Answer with the result alone, as the \
     schema of this turn demands: `completed` if all that was asked for is done, `failed` if it cannot be \
     done, `needs_input` if a person has to decide something first. Say in the summary what was done and \
     what was not. Change nothing now.";

/// The words for how work can stand, as the agent says them.
pub(crate) const STATUSES: [(&str, ClaimKind); 3] = [
    ("completed", ClaimKind::Completed),
    ("failed", ClaimKind::Failed),
    ("needs_input", ClaimKind::NeedsInput),
];

/// The form that a result has.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "status": {"type": "string", "enum": STATUSES.map(|(word, _)| word)},
            "summary": {"type": "string"},
        },
        "required": ["status", "summary"],
        "additionalProperties": false,
    })
}

/// Reads a result; none if the text is anything else.
pub(crate) fn read(text: &str) -> Option<Testimony> {
    // A list would do for a structure otherwise.
    let object = Some(text.trim()).filter(|text| text.starts_with('{'))?;
    let told: Told = serde_json::from_str(object).ok()?;
    let (_, kind) = STATUSES.into_iter().find(|(word, _)| *word == told.status)?;
    Some(Testimony::Claim { kind, text: Some(bounded(&told.summary, MAX_SUMMARY)) })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    status: String,
    summary: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_a_result_says_how_the_work_stands() {
        for (word, kind) in STATUSES {
            let said = read(&format!(r#" {{"status":"{word}","summary":"s"}} "#));
            assert_eq!(said, Some(Testimony::Claim { kind, text: Some("s".to_owned()) }));
        }
    }

    #[test]
    fn e19_nothing_is_inferred_from_words() {
        for text in [
            "completed",
            "All done, 0 failed.",
            "```json\n{\"status\":\"completed\",\"summary\":\"s\"}\n```",
            r#"{"status":"completed"}"#,
            r#"{"status":"completed","summary":"s","more":1}"#,
            r#"{"status":"success","summary":"s"}"#,
            r#"{"status":"Completed","summary":"s"}"#,
            r#"[{"status":"completed","summary":"s"}]"#,
            r#"["completed","s"]"#,
            r#"{"status":"completed","summary":"s"} and more"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
