//! Strict parsing of plan reviews.

use provost_core::plan::{
    FaultLocation, MAX_EDITS, MAX_REASON, PlanEdit, PlanFault, PlanReview, PlanVerdict,
    format_faults,
};
use serde_json::{Value, json};

use super::{kit::id, parsing::assert_strict};

fn review(verdict: &str, reason: &str, edits: Value) -> Value {
    json!({"verdict": verdict, "reason": reason, "edits": edits})
}

fn describe_faults(value: &Value) -> String {
    format_faults(&PlanReview::parse(value).expect_err("the review is refused"))
}

#[test]
fn plan_review_parses_accept_and_reject() {
    let change = json!({"op": "change", "id": "a", "title": null, "instruction": "i", "criteria": null,
        "checks": ["make"], "scope": null});
    let read = PlanReview::parse(&review("accept", "", json!([change]))).unwrap();
    assert_eq!(read.verdict, PlanVerdict::Accept);
    let edit = PlanEdit::Change {
        id: id("a"),
        title: None,
        instruction: Some("i".to_owned()),
        criteria: None,
        checks: Some(vec!["make".to_owned()]),
        scope: None,
    };
    assert_eq!(read.edits, [edit]);
    let read = PlanReview::parse(&review("reject", "too coarse", json!([]))).unwrap();
    assert_eq!((read.verdict, read.reason.as_str()), (PlanVerdict::Reject, "too coarse"));
    let stored = serde_json::to_value(&read).unwrap();
    assert_eq!(stored, review("reject", "too coarse", json!([])));
    assert_eq!(serde_json::from_value::<PlanReview>(stored).unwrap(), read);
}

#[test]
fn all_review_faults_are_reported_at_once() {
    let edits = json!([{"op": "swap"}, {"op": "remove", "id": "A"}, {"op": "depend", "id": "a"},
        {"op": "remove", "id": "a", "status": "done"}, "remove a", ["remove", "a"],
        {"op": "add", "task": ["a", "t", "i", [], [], [], []]}, {"op": "add", "task": {"id": "a", "title": "", "done": 1}}]);
    let mut bad = review("approve", "r", edits);
    bad["score"] = 3.into();
    let places =
        PlanReview::parse(&bad).unwrap_err().iter().map(PlanFault::location).collect::<Vec<_>>();
    assert_eq!(places[..2], [FaultLocation::Review, FaultLocation::Review]);
    assert_eq!(places[2..], (1..=8).map(FaultLocation::Edit).collect::<Vec<_>>());
    insta::assert_snapshot!(describe_faults(&bad), @r#"
    - the review has an unknown field "score": expected only verdict, reason and edits
    - the review has the verdict "approve": expected "accept" or "reject"
    - edit number 1 of the review cannot be read: unknown variant `swap`, expected one of `add`, `remove`, `change`, `depend`, `release`
    - edit number 2 of the review cannot be read: "A" is not a valid task id: expected 1 to 40 of a-z, 0-9 and "-", starting with a letter or digit
    - edit number 3 of the review cannot be read: missing field `on`
    - edit number 4 of the review cannot be read: unknown field `status`, expected `id`
    - edit number 5 of the review is a text: expected an object
    - edit number 6 of the review is a list: expected an object
    - edit number 7 of the review cannot be read: the task is a list: expected an object
    - edit number 8 of the review cannot be read: task "a" has an unknown field "done": expected only id, title, instruction, after, criteria, checks and scope; task "a" has no "instruction": expected a text; task "a" has an empty text in "title": expected at least one word
    "#);
    insta::assert_snapshot!([
        json!([]),
        json!({}),
        review("reject", " ", json!([])),
        review("accept", &"x".repeat(MAX_REASON + 1), json!({})),
        review("accept", "", json!(vec![json!(1); MAX_EDITS + 1])),
    ].map(|value| describe_faults(&value)).join("\n"), @r#"
    - the review is a list: expected an object
    - the review has no "verdict": expected a text
    - the review has no "reason": expected a text
    - the review has no "edits": expected a list of edits
    - the review has an empty text in "reason": expected at least one word
    - the review has 16385 characters in "reason": expected at most 16384
    - the review has an object for "edits": expected a list of edits
    - the review has 501 edits: expected at most 500
    "#);
}

#[test]
fn review_schema_is_strict_and_complete() {
    let schema = PlanReview::schema();
    assert_strict(&schema);
    let forms = schema["properties"]["edits"]["items"]["anyOf"].as_array().unwrap();
    let known: Vec<&Value> =
        forms.iter().map(|form| &form["properties"]["op"]["enum"][0]).collect();
    assert_eq!(known, ["add", "remove", "change", "depend", "release"]);
    assert_eq!(schema["properties"]["verdict"]["enum"], json!(["accept", "reject"]));
}
