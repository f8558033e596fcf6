//! `provost team prove`

use clap::Args;
use provost_core::team::{
    CheckSubject,
    pictures::{MAX_TOLERANCE, PictureFiles, parse_share},
};

use super::{
    args::TeamFlags,
    wait::{self, WaitArgs},
};
use crate::{cli::CliResult, commands::mutation::KeyArgs, context::Context};

/// Run the check of a criterion or of a loop's evidence
///
/// The check runs on a commit of the worker's current tree. Its receipt, which is the record of the
/// result, is bound to that tree and satisfies the criterion or evidence. `provost team show` shows
/// the receipt. With --wait, the command waits for the receipt and exits with 0 if the check passed,
/// or 1 if it failed. Provost compares two pictures itself, pixel by pixel; the receipt contains the
/// digests of both files.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team prove --criterion 1 -t limits\n  provost team prove --evidence tests -t limits --wait\n  provost team prove --evidence screens --pictures design/start.png shots/start.png -t page\n  provost team prove --evidence screens --pictures design/start.png shots/start.png --tolerance 0.01 -t page"
)]
pub(crate) struct ProveArgs {
    /// Number of the criterion
    #[arg(long, value_name = "NUMBER", required_unless_present = "evidence")]
    criterion: Option<u32>,
    /// Name of the evidence that the loop requires
    #[arg(long, value_name = "NAME", conflicts_with = "criterion")]
    evidence: Option<String>,
    #[command(flatten)]
    pictures: PictureArgs,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

/// The pictures to compare
#[derive(Debug, Args)]
struct PictureArgs {
    /// Compare these two PNG files in the worker's directory, unless the loop specifies the files
    #[arg(long, num_args = 2, value_names = ["EXPECTED", "ACTUAL"], requires = "evidence")]
    pictures: Option<Vec<String>>,
    /// Per-channel pixel tolerance, 0 to 0.5 [default: 0] (not available to workers)
    #[arg(long, value_name = "SHARE", requires = "pictures", value_parser = parse_tolerance)]
    tolerance: Option<u32>,
}

/// Parses a per-channel tolerance.
pub(super) fn parse_tolerance(text: &str) -> Result<u32, String> {
    let expected = || format!("invalid tolerance {text:?}: expected 0 to 0.5, such as 0.01");
    parse_share(text, MAX_TOLERANCE).ok_or_else(expected)
}

/// Returns the files that the user specified, if any.
pub(super) fn picture_files(
    named: Option<&[String]>,
    tolerance: Option<u32>,
) -> Option<PictureFiles> {
    let [expected, actual] = named? else { return None };
    let tolerance = tolerance.unwrap_or_default();
    Some(PictureFiles { expected: expected.clone(), actual: actual.clone(), tolerance })
}

pub(crate) fn run(context: &Context, args: &ProveArgs) -> CliResult {
    let PictureArgs { pictures, tolerance } = &args.pictures;
    let what = match (args.criterion, &args.evidence) {
        (Some(no), _) => CheckSubject::Criterion(no),
        (None, name) => {
            let files = picture_files(pictures.as_deref(), *tolerance);
            CheckSubject::for_evidence(name.clone().unwrap_or_default(), files)
        }
    };
    wait::check(context, args.team.target(context), what, &args.key, &args.wait)
}
