//! The review of a plan.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    edit::{MAX_EDITS, PlanEdit},
    fault::{FaultLocation, PlanFault, clipped},
    parse,
};

/// Maximum length of a reason, in characters.
pub const MAX_REASON: usize = 16 << 10;

/// Maximum number of characters to quote from the error for one invalid edit.
const MAX_WHY: usize = 500;

/// An agent's review of a plan: the verdict, the reason and the edits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanReview {
    pub verdict: PlanVerdict,
    /// The reason for the verdict. A rejection requires a reason.
    pub reason: String,
    /// The edits that the reviewer requests. They are not applied if the plan is rejected.
    pub edits: Vec<PlanEdit>,
}

/// The verdict of a plan review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanVerdict {
    /// The plan is accepted with the edits in the review.
    Accept,
    /// The plan is rejected, and the run fails.
    Reject,
}

impl PlanVerdict {
    pub const ALL: [PlanVerdict; 2] = [PlanVerdict::Accept, PlanVerdict::Reject];

    pub fn as_str(self) -> &'static str {
        match self {
            PlanVerdict::Accept => "accept",
            PlanVerdict::Reject => "reject",
        }
    }
}

impl PlanReview {
    /// Parses a review, or returns all of its faults.
    pub fn parse(value: &Value) -> Result<PlanReview, Vec<PlanFault>> {
        let mut faults = Vec::new();
        let review = read_review(value, &mut faults);
        match review {
            Some(review) if faults.is_empty() => Ok(review),
            Some(_) | None => Err(faults),
        }
    }
}

fn read_review(value: &Value, faults: &mut Vec<PlanFault>) -> Option<PlanReview> {
    let place = FaultLocation::Review;
    let fields = parse::object_fields(value, &place, faults)?;
    let known = ["verdict", "reason", "edits"];
    parse::reject_unknown_fields(fields, &known, "verdict, reason and edits", &place, faults);
    let verdict = read_verdict(fields, faults);
    let reason = parse::required_text(fields, "reason", &place, faults);
    if let Some(reason) = reason {
        check_reason(reason, verdict, faults);
    }
    let edits = read_edits(fields, faults);
    Some(PlanReview { verdict: verdict?, reason: reason?.to_owned(), edits })
}

fn read_verdict(fields: &Map<String, Value>, faults: &mut Vec<PlanFault>) -> Option<PlanVerdict> {
    let written = parse::required_text(fields, "verdict", &FaultLocation::Review, faults)?;
    let verdict = PlanVerdict::ALL.into_iter().find(|verdict| verdict.as_str() == written);
    if verdict.is_none() {
        faults.push(PlanFault::BadVerdict { found: clipped(written) });
    }
    verdict
}

fn check_reason(reason: &str, verdict: Option<PlanVerdict>, faults: &mut Vec<PlanFault>) {
    let (place, field) = (FaultLocation::Review, "reason");
    if verdict == Some(PlanVerdict::Reject) && reason.trim().is_empty() {
        faults.push(PlanFault::EmptyText { place: place.clone(), field });
    }
    let length = reason.chars().count();
    if length > MAX_REASON {
        faults.push(PlanFault::TooLong { place, field, length, most: MAX_REASON });
    }
}

fn read_edits(fields: &Map<String, Value>, faults: &mut Vec<PlanFault>) -> Vec<PlanEdit> {
    let (place, field, expected) = (FaultLocation::Review, "edits", "a list of edits");
    let edits = match fields.get(field) {
        Some(Value::Array(edits)) => edits,
        Some(other) => {
            faults.push(PlanFault::WrongType {
                place,
                field,
                found: parse::type_name(other),
                expected,
            });
            return Vec::new();
        }
        None => {
            faults.push(PlanFault::Missing { place, field, expected });
            return Vec::new();
        }
    };
    if edits.len() > MAX_EDITS {
        faults.push(PlanFault::TooManyEdits { count: edits.len(), most: MAX_EDITS });
        return Vec::new();
    }
    let numbered = edits.iter().enumerate();
    numbered.filter_map(|(at, edit)| read_edit(at + 1, edit, faults)).collect()
}

fn read_edit(no: usize, value: &Value, faults: &mut Vec<PlanFault>) -> Option<PlanEdit> {
    // Without this check, serde would also accept a JSON array as an edit.
    parse::object_fields(value, &FaultLocation::Edit(no), faults)?;
    match PlanEdit::deserialize(value) {
        Ok(edit) => Some(edit),
        Err(why) => {
            faults.push(PlanFault::BadEdit {
                no,
                why: why.to_string().chars().take(MAX_WHY).collect(),
            });
            None
        }
    }
}
