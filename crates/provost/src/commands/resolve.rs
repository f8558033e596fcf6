//! `provost resolve`

use clap::Args;
use provost_api::ResolveRequest;

use super::{
    input,
    mutation::{KeyArgs, change},
};
use crate::{cli::CliResult, context::Context};

/// Override the outcome of a session, with a reason
///
/// The original outcome stays on record; this command appends a new one. `succeeded` is not
/// available, because only checks can establish it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost resolve 1a2b3c4d --as accepted --because 'read the diff, it is right'\n  provost resolve fixer --as failed --because 'it only deleted the test'"
)]
pub(crate) struct ResolveArgs {
    /// Session ID or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// New outcome: accepted, failed or cancelled
    #[arg(long = "as", value_name = "OUTCOME", value_parser = parse_outcome)]
    to: &'static str,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT")]
    because: String,
    #[command(flatten)]
    key: KeyArgs,
}

/// Parses an outcome that an operator may set.
fn parse_outcome(text: &str) -> Result<&'static str, String> {
    match text {
        "accepted" => Ok("accepted"),
        "failed" => Ok("failed"),
        "cancelled" => Ok("cancelled"),
        "succeeded" => Err("only passed checks can establish it; \
             use `accepted` if you reviewed the work yourself"
            .to_owned()),
        _ => Err("expected accepted, failed or cancelled".to_owned()),
    }
}

pub(crate) fn run(context: &Context, args: &ResolveArgs) -> CliResult {
    let to = args.to.to_owned();
    let request =
        ResolveRequest { to, because: input::read_text("the reason (--because)", &args.because)? };
    change(context, &args.id, "resolve", &request, &args.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn succeeded_is_refused_with_the_reason() {
        let why = parse_outcome("succeeded").unwrap_err();
        assert!(why.starts_with("only passed checks can establish it"), "{why}");
        assert_eq!(parse_outcome("failed"), Ok("failed"));
        assert!(parse_outcome("fine").unwrap_err().starts_with("expected accepted"));
    }
}
