//! `provost check`

use clap::Args;
use provost_core::task::{
    Checked,
    pictures::{Files, MAX_TOLERANCE, read_share},
};

use super::{
    awaited::{self, WaitArgs},
    change::KeyArgs,
    tasking::OfTask,
};
use crate::{cli::Outcome, context::Context};

/// Have Provost run the check of a criterion, or of a piece of a loop's evidence
///
/// It runs on a commit of what the worker left. Its receipt, bound to that tree, satisfies what it was run for;
/// `provost task show` tells when it is there, and with --wait this command ends then: with 0 if it passed, 1 if not. Two
/// pictures are compared by Provost itself, point by point, and the receipt has the digests of both files.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost check --criterion 1 --task limits\n  provost check --evidence tests --task limits --wait\n  provost check --evidence screens --pictures design/start.png shots/start.png --task page\n  provost check --evidence screens --pictures design/start.png shots/start.png --tolerance 0.01 --task page"
)]
pub(crate) struct CheckArgs {
    /// The criterion's number
    #[arg(long, value_name = "NO", required_unless_present = "evidence")]
    criterion: Option<u32>,
    /// The name of the evidence that the loop asks for
    #[arg(long, value_name = "NAME", conflicts_with = "criterion")]
    evidence: Option<String>,
    #[command(flatten)]
    pictures: PictureArgs,
    #[command(flatten)]
    task: OfTask,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Which pictures are compared
#[derive(Debug, Args)]
struct PictureArgs {
    /// Compare these two PNG files below the worker's directory, where the loop does not say which
    #[arg(long, num_args = 2, value_names = ["EXPECTED", "ACTUAL"], requires = "evidence")]
    pictures: Option<Vec<String>>,
    /// How far each colour of a point may be off before it counts as different, as a share of its range; not for workers
    #[arg(long, value_name = "SHARE", requires = "pictures", value_parser = tolerance)]
    tolerance: Option<u32>,
}

/// Reads how far a colour may be off.
pub(super) fn tolerance(text: &str) -> Result<u32, String> {
    let expected = || format!("{text:?} is no tolerance: expected 0 to 0.5, as in 0.01");
    read_share(text, MAX_TOLERANCE).ok_or_else(expected)
}

/// Gives the files that are named, if they are.
pub(super) fn files(named: Option<&[String]>, tolerance: Option<u32>) -> Option<Files> {
    let [expected, actual] = named? else { return None };
    let tolerance = tolerance.unwrap_or_default();
    Some(Files { expected: expected.clone(), actual: actual.clone(), tolerance })
}

pub(crate) fn run(context: &Context, args: &CheckArgs) -> Outcome {
    let PictureArgs { pictures, tolerance } = &args.pictures;
    let what = match (args.criterion, &args.evidence) {
        (Some(no), _) => Checked::Criterion(no),
        (None, name) => {
            let files = files(pictures.as_deref(), *tolerance);
            Checked::of_evidence(name.clone().unwrap_or_default(), files)
        }
    };
    awaited::check(context, args.task.meant(), what, (&args.key, &args.wait))
}
