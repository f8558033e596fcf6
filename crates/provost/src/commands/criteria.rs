//! `provost criteria`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use provost_api::DraftRow;
use provost_core::task::{
    Command, DraftFrom, Evidence, Judgement, Needs,
    pictures::{Pictures, WHOLE, read_share},
};
use serde_json::json;

use super::{change::KeyArgs, check, input, tasking::OfTask};
use crate::{
    cli::Outcome,
    context::Context,
    error::usage,
    ui::{self, Screen},
};

/// What must hold before a task is done, and the receipts that say that it does
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost criteria add 'The tests pass' --check 'cargo test' --task limits\n  provost criteria accept 1 --task limits\n  provost criteria ls --task limits"
)]
pub(crate) struct CriteriaArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Ls(LsArgs),
    Add(AddArgs),
    Draft(DraftArgs),
    Accept(NumberArgs),
    Satisfy(SatisfyArgs),
    Defer(DeferArgs),
    Reject(RejectArgs),
    Reopen(ReopenArgs),
}

/// List a task's criteria
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost criteria ls --task limits\n  provost criteria ls --json"
)]
struct LsArgs {
    #[command(flatten)]
    task: OfTask,
    /// Only those that keep the task from being finished
    #[arg(long)]
    open: bool,
}

/// Propose a criterion
///
/// A person's or the manager's own is accepted with --accept; what a worker proposes waits for one of them. It has 12
/// letters or digits at least.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost criteria add 'The tests pass' --check 'cargo test' --accept\n  provost criteria add 'The start page looks like its draft' --pictures design/start.png shots/start.png --differing 0.001\n  provost criteria add 'The wording was read by a person' --rationale 'customers see it'"
)]
struct AddArgs {
    /// What must hold; `-` takes it from standard input
    text: String,
    /// Only a pass of this command, run by Provost on the committed work, satisfies it; without one somebody's word
    /// does, and is shown as such
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Only a comparison of these two PNG files by Provost, below the worker's directory, satisfies it
    #[arg(long, num_args = 2, value_names = ["EXPECTED", "ACTUAL"], conflicts_with = "check")]
    pictures: Option<Vec<String>>,
    /// How far each colour of a point may be off before it counts as different, as a share of its range; not for workers
    #[arg(long, value_name = "SHARE", requires = "pictures", value_parser = check::tolerance)]
    tolerance: Option<u32>,
    /// Which share of the points may differ; none otherwise
    #[arg(long, value_name = "SHARE", requires = "pictures", value_parser = differing)]
    differing: Option<u32>,
    /// Why it must hold
    #[arg(long)]
    rationale: Option<String>,
    /// Accept it at once, which is for a person or the manager; whoever may not, proposes nothing
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    task: OfTask,
    #[command(flatten)]
    key: KeyArgs,
}

/// Propose the criteria that somebody listed in a message
///
/// Every item of a list (-, *, +, •, 1., 1) or (1)) and every line that begins with `criterion:` is one, with the indented
/// lines behind it; what is quoted or stands between fences is none. What says nothing, is longer than 500 letters, has
/// hidden characters or is known already is left out and shown with the reason. At most 20 are proposed at once, and
/// accepted one by one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost criteria draft --from 7 --dry-run --task limits\n  provost criteria draft --from 7 --task limits\n  provost criteria draft --from - --of hand --task limits < answer.md"
)]
struct DraftArgs {
    /// The number of the message; `-` takes a text from standard input
    #[arg(long, value_name = "MESSAGE")]
    from: String,
    /// Whose words the text is; those of whoever runs this otherwise
    #[arg(long, value_name = "MEMBER", value_parser = input::parse_name)]
    of: Option<String>,
    /// Show what would be proposed, and propose nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    task: OfTask,
    #[command(flatten)]
    key: KeyArgs,
}

/// Accept a proposed or deferred criterion: it must hold
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost criteria accept 2 --task limits")]
struct NumberArgs {
    /// The criterion's number
    no: u32,
    #[command(flatten)]
    task: OfTask,
    #[command(flatten)]
    key: KeyArgs,
}

/// Say that a criterion holds, where somebody's word is enough
///
/// One that needs a check is satisfied by `provost check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost criteria satisfy 2 --evidence 'read aloud with the support team, two words changed' --task limits"
)]
struct SatisfyArgs {
    #[command(flatten)]
    criterion: NumberArgs,
    /// What was done, and what came of it, in 12 letters or digits at least
    #[arg(long)]
    evidence: String,
}

/// Put a criterion off: it does not keep the task from being finished
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost criteria defer 2 --because 'comes with the next release'"
)]
struct DeferArgs {
    #[command(flatten)]
    criterion: NumberArgs,
    /// Why
    #[arg(long)]
    because: String,
}

/// Reject a criterion: it need not hold
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost criteria reject 2 --because 'not asked for'")]
struct RejectArgs {
    #[command(flatten)]
    rest: DeferArgs,
}

/// Demand again what was satisfied, deferred or rejected
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost criteria reopen 2 --because 'the tests were changed'")]
struct ReopenArgs {
    #[command(flatten)]
    rest: DeferArgs,
}

pub(crate) fn run(context: &Context, args: &CriteriaArgs) -> Outcome {
    match &args.what {
        What::Ls(args) => ls(context, args),
        What::Add(args) => add(context, args),
        What::Draft(args) => draft(context, args),
        What::Accept(args) => judge(context, args, Judgement::Accept),
        What::Satisfy(SatisfyArgs { criterion, evidence }) => {
            // Who says it is filled in where it is taken: nobody signs for another.
            let evidence = Evidence::Asserted { text: input::text(evidence)?, by: String::new() };
            judge(context, criterion, Judgement::Satisfy { evidence })
        }
        What::Defer(DeferArgs { criterion, because }) => {
            judge(context, criterion, Judgement::Defer { because: because.clone() })
        }
        What::Reject(RejectArgs { rest }) => {
            judge(context, &rest.criterion, Judgement::Reject { because: rest.because.clone() })
        }
        What::Reopen(ReopenArgs { rest }) => {
            judge(context, &rest.criterion, Judgement::Reopen { because: rest.because.clone() })
        }
    }
}

/// Reads a share of the points.
fn differing(text: &str) -> Result<u32, String> {
    let expected = || format!("{text:?} is no share of the points: expected 0 to 1, as in 0.001");
    read_share(text, WHOLE).ok_or_else(expected)
}

fn judge(context: &Context, args: &NumberArgs, judgement: Judgement) -> Outcome {
    args.task.meant().change(context, &Command::Judge { no: args.no, judgement }, &args.key)
}

fn add(context: &Context, args: &AddArgs) -> Outcome {
    let files = check::files(args.pictures.as_deref(), args.tolerance);
    let pictures =
        files.map(|files| Pictures { files, differing: args.differing.unwrap_or_default() });
    let needs = match (&args.check, pictures) {
        (Some(check), _) => Needs::Verified { check: check.clone() },
        (None, Some(pictures)) => Needs::Pictures(Box::new(pictures)),
        (None, None) => Needs::Asserted,
    };
    let (text, rationale) = (input::text(&args.text)?, args.rationale.clone());
    let command = match args.accept {
        true => Command::Demand { text, rationale, needs },
        false => Command::Propose { text, rationale, needs },
    };
    args.task.meant().change(context, &command, &args.key)
}

fn draft(context: &Context, args: &DraftArgs) -> Outcome {
    let from = match (args.from.as_str(), &args.of) {
        ("-", of) => DraftFrom::Text { text: input::text("-")?, of: of.clone() },
        (_, Some(_)) => {
            return Err(usage("a message says itself whose words it is: --of is for `--from -`")
                .next("provost criteria draft --help")
                .into());
        }
        (no, None) => DraftFrom::Message(no.parse().map_err(|_| {
            usage(format!("{no:?} is no number of a message")).next("provost inbox ls --all")
        })?),
    };
    let command = Command::Draft { from, dry_run: args.dry_run };
    let reply = args.task.meant().tell(context, &command, &args.key.get(context))?;
    // What is suggested works anywhere: it names the task, also if that was the only one.
    let of = args.task.meant().words(reply["task"]["id"].as_str().unwrap_or_default());
    let next = [format!("provost criteria ls{of}"), format!("provost criteria accept NO{of}")];
    if context.ui.json {
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let row: Option<DraftRow> =
        reply.get("draft").cloned().and_then(|row| serde_json::from_value(row).ok());
    if let Some(row) = row {
        context.ui.lines(&ui::draft_lines(context.ui.paint, Screen::output(), &row))?;
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn ls(context: &Context, args: &LsArgs) -> Outcome {
    let task = args.task.meant().find(context)?;
    let open = |state: &str| matches!(state, "proposed" | "accepted");
    let rows: Vec<_> =
        task.criteria.into_iter().filter(|row| !args.open || open(&row.state)).collect();
    if context.ui.json {
        context.ui.result(json!({"task": task.id, "criteria": rows}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    match rows.is_empty() {
        true => context.ui.talk("no criteria"),
        false => {
            context.ui.lines(&ui::criterion_lines(context.ui.paint, Screen::output(), &rows))?
        }
    }
    Ok(ExitCode::SUCCESS)
}
