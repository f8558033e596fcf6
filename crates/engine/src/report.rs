//! Reports: converts requests to testimony and back.

use provost_api::{ApiError, Code, ProgressReport, ReportRequest};
use provost_core::{
    ids::reads_like_an_id,
    lifecycle::ClaimKind,
    session::{FactKind, Progress, Testimony},
};

/// The longest text that is sent to an agent or kept as a claim.
pub const MAX_TEXT: usize = 512 << 10;

/// Parses a report strictly.
pub fn testimony(request: &ReportRequest) -> Result<Testimony, ApiError> {
    check_text(request.text.as_deref().unwrap_or_default(), "message")?;
    match (&request.claim, &request.fact, &request.value, request.progress) {
        (Some(claim), None, None, None) => {
            let kind = ClaimKind::ALL.into_iter().find(|kind| kind.word() == claim);
            let kind = kind.filter(|kind| *kind != ClaimKind::None).ok_or_else(|| {
                let expected = "working, needs_input, completed or failed";
                bad(format!("\"{claim}\" is not a claim; expected {expected}"))
            })?;
            Ok(Testimony::Claim { kind, text: request.text.clone() })
        }
        (None, Some(fact), Some(value), None) => {
            check_text(value, "value")?;
            let kind = match fact.as_str() {
                "branch" => FactKind::Branch,
                "pr" => FactKind::Pr,
                "artifact" => FactKind::Artifact,
                other => {
                    return Err(bad(format!(
                        "\"{other}\" is not a fact; expected branch, pr or artifact"
                    )));
                }
            };
            Ok(Testimony::Fact { kind, value: value.clone() })
        }
        (None, None, None, Some(ProgressReport { done, total })) if done <= total => {
            Ok(Testimony::Progress(Progress { done, total }))
        }
        (None, None, None, Some(_)) => Err(bad("done is greater than total")),
        _ => Err(bad("a report is a claim, a fact with its value, or progress")
            .next("provost report completed --message TEXT")),
    }
}

/// Converts testimony to a report that parses to the same testimony.
pub fn request(testimony: &Testimony) -> ReportRequest {
    match testimony {
        Testimony::Claim { kind, text } => ReportRequest {
            claim: Some(kind.word().to_owned()),
            text: text.clone(),
            ..ReportRequest::default()
        },
        Testimony::Fact { kind, value } => {
            let word = match kind {
                FactKind::Branch => "branch",
                FactKind::Pr => "pr",
                FactKind::Artifact => "artifact",
            };
            let (fact, value) = (Some(word.to_owned()), Some(value.clone()));
            ReportRequest { fact, value, ..ReportRequest::default() }
        }
        Testimony::Progress(Progress { done, total }) => {
            let progress = Some(ProgressReport { done: *done, total: *total });
            ReportRequest { progress, ..ReportRequest::default() }
        }
    }
}

/// Rejects a text over the limit. The escaped form counts, as it is written down.
pub fn check_text(text: &str, what: &str) -> Result<(), ApiError> {
    let bytes = serde_json::to_string(text).map_or(usize::MAX, |text| text.len());
    if bytes <= MAX_TEXT {
        Ok(())
    } else {
        Err(bad(format!("the {what} has {bytes} bytes; the limit is {MAX_TEXT}")))
    }
}

/// Rejects a name that is too long or looks like an id.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    check_text(name, "name")?;
    if reads_like_an_id(name) {
        Err(bad(format!("\"{name}\" looks like an id and would be ambiguous; choose another name")))
    } else {
        Ok(())
    }
}

fn bad(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let claim = |kind| Testimony::Claim { kind, text: Some("t".to_owned()) };
        let kinds = ClaimKind::ALL.into_iter().filter(|kind| *kind != ClaimKind::None);
        let fact = |kind| Testimony::Fact { kind, value: "v".to_owned() };
        let facts = [FactKind::Branch, FactKind::Pr, FactKind::Artifact].map(fact);
        let progress = Testimony::Progress(Progress { done: 1, total: 1 });
        for said in kinds.map(claim).chain(facts).chain([progress]) {
            assert_eq!(testimony(&request(&said)), Ok(said));
        }
    }

    #[test]
    fn a_report_says_one_thing_that_can_be() {
        let progress = Some(ProgressReport { done: 2, total: 1 });
        let too_much = ReportRequest { progress, ..ReportRequest::default() };
        let two = ReportRequest { claim: Some("failed".to_owned()), ..too_much.clone() };
        for bad in [ReportRequest::default(), too_much, two] {
            assert!(testimony(&bad).is_err(), "{bad:?}");
        }
    }
}
