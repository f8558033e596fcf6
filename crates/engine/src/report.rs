//! Reports: converts API requests to report bodies and back.

use provost_api::{ApiError, ErrorCode, Hint, ProgressReport, ReportRequest};
use provost_core::{
    ids::looks_like_id,
    lifecycle::ClaimKind,
    session::{FactKind, Progress, ReportBody},
};

/// The maximum length of a text that is sent to an agent or stored as a claim, in bytes.
pub const MAX_TEXT: usize = 512 << 10;

/// Parses a report strictly.
pub fn parse_testimony(request: &ReportRequest) -> Result<ReportBody, ApiError> {
    check_text(request.text.as_deref().unwrap_or_default(), "message")?;
    match (&request.claim, &request.fact, &request.value, request.progress) {
        (Some(claim), None, None, None) => {
            let kind = ClaimKind::ALL.into_iter().find(|kind| kind.as_str() == claim);
            let kind = kind.filter(|kind| *kind != ClaimKind::None).ok_or_else(|| {
                let expected = "working, needs_input, completed or failed";
                bad_request(format!("\"{claim}\" is not a claim; expected {expected}"))
            })?;
            Ok(ReportBody::Claim { kind, text: request.text.clone() })
        }
        (None, Some(fact), Some(value), None) => {
            check_text(value, "value")?;
            let kind = match fact.as_str() {
                "branch" => FactKind::Branch,
                "pr" => FactKind::Pr,
                "artifact" => FactKind::Artifact,
                other => {
                    return Err(bad_request(format!(
                        "\"{other}\" is not a fact; expected branch, pr or artifact"
                    )));
                }
            };
            Ok(ReportBody::Fact { kind, value: value.clone() })
        }
        (None, None, None, Some(ProgressReport { done, total })) if done <= total => {
            Ok(ReportBody::Progress(Progress { done, total }))
        }
        (None, None, None, Some(_)) => {
            Err(bad_request("the progress is invalid: \"done\" is greater than \"total\""))
        }
        _ => Err(bad_request("a report is a claim, a fact with its value, or progress")
            .next(Hint::ReportCompletedWithText)),
    }
}

/// Converts a report body to a request that would be parsed into the same body.
pub fn to_request(testimony: &ReportBody) -> ReportRequest {
    match testimony {
        ReportBody::Claim { kind, text } => ReportRequest {
            claim: Some(kind.as_str().to_owned()),
            text: text.clone(),
            ..ReportRequest::default()
        },
        ReportBody::Fact { kind, value } => {
            let word = match kind {
                FactKind::Branch => "branch",
                FactKind::Pr => "pr",
                FactKind::Artifact => "artifact",
            };
            let (fact, value) = (Some(word.to_owned()), Some(value.clone()));
            ReportRequest { fact, value, ..ReportRequest::default() }
        }
        ReportBody::Progress(Progress { done, total }) => {
            let progress = Some(ProgressReport { done: *done, total: *total });
            ReportRequest { progress, ..ReportRequest::default() }
        }
    }
}

/// Rejects a text that exceeds the limit. The limit applies to the escaped form, because that is
/// what is stored.
pub fn check_text(text: &str, what: &str) -> Result<(), ApiError> {
    let bytes = serde_json::to_string(text).map_or(usize::MAX, |text| text.len());
    if bytes <= MAX_TEXT {
        Ok(())
    } else {
        Err(bad_request(format!("the {what} has {bytes} bytes; the limit is {MAX_TEXT}")))
    }
}

/// Rejects a name that is too long or looks like an id.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    check_text(name, "name")?;
    if looks_like_id(name) {
        Err(bad_request(format!(
            "\"{name}\" looks like an id and would be ambiguous; choose another name"
        )))
    } else {
        Ok(())
    }
}

fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn testimony_round_trips() {
        let claim = |kind| ReportBody::Claim { kind, text: Some("t".to_owned()) };
        let kinds = ClaimKind::ALL.into_iter().filter(|kind| *kind != ClaimKind::None);
        let fact = |kind| ReportBody::Fact { kind, value: "v".to_owned() };
        let facts = [FactKind::Branch, FactKind::Pr, FactKind::Artifact].map(fact);
        let progress = ReportBody::Progress(Progress { done: 1, total: 1 });
        for report in kinds.map(claim).chain(facts).chain([progress]) {
            assert_eq!(parse_testimony(&to_request(&report)), Ok(report));
        }
    }

    #[test]
    fn ambiguous_report_is_rejected() {
        let progress = Some(ProgressReport { done: 2, total: 1 });
        let too_much = ReportRequest { progress, ..ReportRequest::default() };
        let two = ReportRequest { claim: Some("failed".to_owned()), ..too_much.clone() };
        for bad in [ReportRequest::default(), too_much, two] {
            assert!(parse_testimony(&bad).is_err(), "{bad:?}");
        }
    }
}
