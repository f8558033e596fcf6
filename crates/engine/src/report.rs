//! Reports: from what was sent to testimony.

use provost_api::{ApiError, Code, ReportRequest};
use provost_core::{
    lifecycle::ClaimKind,
    session::{FactKind, Testimony},
};

/// The longest text that is sent to an agent or kept as a claim.
pub const MAX_TEXT: usize = 512 << 10;

/// Reads what a report says, strictly.
pub fn testimony(request: &ReportRequest) -> Result<Testimony, ApiError> {
    check_text(request.text.as_deref().unwrap_or_default(), "message")?;
    match (&request.claim, &request.fact, &request.value) {
        (Some(claim), None, None) => {
            let kind = ClaimKind::ALL.into_iter().find(|kind| kind.word() == claim);
            let kind = kind.filter(|kind| *kind != ClaimKind::None).ok_or_else(|| {
                let expected = "working, needs_input, completed or failed";
                bad(format!("\"{claim}\" is no claim; expected {expected}"))
            })?;
            Ok(Testimony::Claim { kind, text: request.text.clone() })
        }
        (None, Some(fact), Some(value)) => {
            check_text(value, "value")?;
            let kind = match fact.as_str() {
                "branch" => FactKind::Branch,
                "pr" => FactKind::Pr,
                "artifact" => FactKind::Artifact,
                other => {
                    return Err(bad(format!(
                        "\"{other}\" is no fact; expected branch, pr or artifact"
                    )));
                }
            };
            Ok(Testimony::Fact { kind, value: value.clone() })
        }
        _ => Err(bad("a report is either a claim or a fact with its value")
            .next("provost report completed --message TEXT")),
    }
}

/// Refuses a text that is too long, with the limit. It counts as it is written down: escaped.
pub fn check_text(text: &str, what: &str) -> Result<(), ApiError> {
    let bytes = serde_json::to_string(text).map_or(usize::MAX, |text| text.len());
    match bytes <= MAX_TEXT {
        true => Ok(()),
        false => Err(bad(format!("the {what} takes {bytes} bytes; at most {MAX_TEXT} are taken"))),
    }
}

fn bad(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::BadRequest, message)
}
