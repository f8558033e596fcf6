//! The structured result of a turn. Provost requests it with a schema, and accepts it only if it
//! matches.
//!
//! The server does not enforce the schema, so results are parsed strictly. A text that merely
//! describes success is not a result.

use provost_core::{
    plan::{Plan, PlanReview},
    result::{Finding, MAX_FINDINGS, ResultForm, Review, Severity, StructuredResult, Triage},
    session::{ReportBody, StreamSignal},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use provost_agent::{
    fields::bounded,
    tools::{MAX_SUMMARY, STATUSES},
};

/// The maximum length in bytes of a finding's title, and of its file name.
const MAX_TITLE: usize = 1 << 10;

/// The maximum size of a reported plan, in bytes.
const MAX_PLAN: usize = 1 << 20;

/// The message that asks for a result.
pub(crate) const RESULT_REQUEST: &str = "Your turn is over, and the status of your work is unknown. Answer with the result alone, in the schema \
     of this turn: `completed` if everything that was asked for is done, `failed` if it cannot be done, \
     `needs_input` if the user has to decide something first. Say in the summary what is done and what is \
     not. Do not change anything now.";

/// Returns the JSON Schema of a result.
pub(crate) fn schema(form: ResultForm) -> Value {
    let mut properties = json!({
        "status": {"type": "string", "enum": STATUSES.map(|(word, _)| word)},
        "summary": {"type": "string"},
    });
    let mut required = vec!["status".to_owned(), "summary".to_owned()];
    let further = match form {
        ResultForm::Plain => vec![],
        ResultForm::Triage => vec![
            ("understanding".to_owned(), json!({"type": "string"})),
            ("needs_plan".to_owned(), json!({"type": "boolean"})),
        ],
        ResultForm::Plan => properties_of(&Plan::schema()),
        ResultForm::PlanReview => properties_of(&PlanReview::schema()),
        ResultForm::Review => {
            vec![("findings".to_owned(), json!({"type": "array", "items": finding()}))]
        }
    };
    for (name, what) in further {
        properties[&name] = what;
        required.push(name);
    }
    object(&properties, &required)
}

fn finding() -> Value {
    let properties = json!({
        "title": {"type": "string"},
        "detail": {"type": "string"},
        "severity": {"type": "string", "enum": Severity::ALL.map(Severity::as_str)},
        "file": {"type": ["string", "null"]},
        "line": {"type": ["integer", "null"]},
        "repaired": {"type": "boolean"},
    });
    object(&properties, &["title", "detail", "severity", "file", "line", "repaired"])
}

/// Returns an object schema in which every property is required, because a strict schema must
/// require all of them.
fn object<T: serde::Serialize>(properties: &Value, required: &[T]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Parses a result of this form. Returns `None` if the text does not have this form.
pub(crate) fn parse_result(text: &str, form: ResultForm) -> Option<StreamSignal> {
    // Serde would also accept a list in place of a struct.
    let object = Some(text.trim()).filter(|text| text.starts_with('{'))?;
    let (status, summary, result) = match form {
        ResultForm::Plain => {
            let result: RawResult = serde_json::from_str(object).ok()?;
            (result.status, result.summary, None)
        }
        ResultForm::Triage => {
            let result: RawTriage = serde_json::from_str(object).ok()?;
            let understanding = bounded(&result.understanding, MAX_SUMMARY);
            let triage = Triage { understanding, needs_plan: result.needs_plan };
            (result.status, result.summary, Some(StructuredResult::Triage(triage)))
        }
        ResultForm::Plan | ResultForm::PlanReview => {
            let mut result: Map<String, Value> = serde_json::from_str(object).ok()?;
            let (status, summary) =
                (take_string(&mut result, "status")?, take_string(&mut result, "summary")?);
            // Errors in a plan are reported by the run, which knows the rules for plans.
            let rest = bounded_json(result)?;
            let result = match form {
                ResultForm::PlanReview => StructuredResult::PlanReview(rest),
                ResultForm::Plain | ResultForm::Triage | ResultForm::Plan | ResultForm::Review => {
                    StructuredResult::Plan(rest)
                }
            };
            (status, summary, Some(result))
        }
        ResultForm::Review => {
            let result: RawReview = serde_json::from_str(object).ok()?;
            let findings =
                result.findings.into_iter().take(MAX_FINDINGS).map(truncate_finding).collect();
            (result.status, result.summary, Some(StructuredResult::Review(Review { findings })))
        }
    };
    let (_, kind) = STATUSES.into_iter().find(|(word, _)| *word == status)?;
    let text = Some(bounded(&summary, MAX_SUMMARY));
    Some(match result {
        None => StreamSignal::Reported(ReportBody::Claim { kind, text }),
        Some(result) => StreamSignal::ClaimWithResult { kind, text, result },
    })
}

/// Removes a string field and returns it.
fn take_string(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    fields.remove(name)?.as_str().map(str::to_owned)
}

/// Returns the object as JSON, or `None` if the plan is too long.
fn bounded_json(fields: Map<String, Value>) -> Option<String> {
    let text = Value::Object(fields).to_string();
    (text.len() <= MAX_PLAN).then_some(text)
}

/// Returns the properties of a schema. All of them are required.
fn properties_of(schema: &Value) -> Vec<(String, Value)> {
    let all = schema["properties"].as_object();
    all.into_iter().flatten().map(|(name, what)| (name.clone(), what.clone())).collect()
}

fn truncate_finding(finding: Finding) -> Finding {
    Finding {
        title: bounded(&finding.title, MAX_TITLE),
        detail: bounded(&finding.detail, MAX_SUMMARY),
        file: finding.file.map(|file| bounded(&file, MAX_TITLE)),
        ..finding
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawResult {
    status: String,
    summary: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTriage {
    status: String,
    summary: String,
    understanding: String,
    needs_plan: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReview {
    status: String,
    summary: String,
    findings: Vec<Finding>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_result_becomes_claim() {
        for (word, kind) in STATUSES {
            let text = format!(r#" {{"status":"{word}","summary":"s"}} "#);
            let claim = ReportBody::Claim { kind, text: Some("s".to_owned()) };
            assert_eq!(parse_result(&text, ResultForm::Plain), Some(StreamSignal::Reported(claim)));
        }
    }

    #[test]
    fn e19_prose_is_not_a_result() {
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
            assert_eq!(parse_result(text, ResultForm::Plain), None, "{text}");
        }
    }

    #[test]
    fn review_result_accepts_only_findings() {
        let finding = r#"{"title":"t","detail":"d","severity":"high","file":"a.rs","line":3,"repaired":false}"#;
        let text = format!(r#"{{"status":"completed","summary":"s","findings":[{finding}]}}"#);
        let Some(StreamSignal::ClaimWithResult {
            result: StructuredResult::Review(review), ..
        }) = parse_result(&text, ResultForm::Review)
        else {
            panic!("a review is read");
        };
        assert_eq!(review.findings[0].severity, Severity::High);
        assert_eq!(review.findings[0].file.as_deref(), Some("a.rs"));
        for text in [
            r#"{"status":"completed","summary":"s"}"#,
            r#"{"status":"completed","summary":"s","findings":[],"state":"succeeded"}"#,
            r#"{"status":"completed","summary":"s","findings":[{"title":"t","severity":"worst"}]}"#,
        ] {
            assert_eq!(parse_result(text, ResultForm::Review), None, "{text}");
        }
    }

    #[test]
    fn triage_result_has_understanding() {
        let text = r#"{"status":"completed","summary":"s","understanding":"u","needs_plan":false}"#;
        let triage = Triage { understanding: "u".to_owned(), needs_plan: false };
        let expected = StreamSignal::ClaimWithResult {
            kind: provost_core::lifecycle::ClaimKind::Completed,
            text: Some("s".to_owned()),
            result: StructuredResult::Triage(triage),
        };
        assert_eq!(parse_result(text, ResultForm::Triage), Some(expected));
        assert_eq!(
            parse_result(r#"{"status":"completed","summary":"s"}"#, ResultForm::Triage),
            None
        );
    }
}
