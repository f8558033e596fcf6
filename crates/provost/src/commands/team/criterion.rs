//! `provost team criterion`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use provost_api::DraftRow;
use provost_core::team::{
    CriterionEvidence, CriterionJudgement, DraftSource, EvidenceRequirement, TeamCommand,
    pictures::{PictureCheck, WHOLE, parse_share},
};
use serde_json::json;

use super::{args::TeamFlags, prove};
use crate::{
    cli::CliResult,
    commands::{input, mutation::KeyArgs},
    context::Context,
    error::usage,
    ui::{self, Screen},
};

/// Manage the acceptance criteria of a team
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team criterion add 'The tests pass' --check 'cargo test' -t limits\n  provost team criterion accept 1 -t limits\n  provost team criterion ls -t limits"
)]
pub(crate) struct CriterionArgs {
    #[command(subcommand)]
    what: CriterionCommand,
}

#[derive(Debug, Subcommand)]
enum CriterionCommand {
    Ls(CriterionLsArgs),
    Add(AddArgs),
    Draft(DraftArgs),
    Accept(NumberArgs),
    Satisfy(SatisfyArgs),
    Defer(DeferArgs),
    Reject(RejectArgs),
    Reopen(ReopenArgs),
}

/// List a team's criteria
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team criterion ls -t limits\n  provost team criterion ls --json"
)]
struct CriterionLsArgs {
    #[command(flatten)]
    team: TeamFlags,
    /// Only criteria that block finishing the team
    #[arg(long)]
    open: bool,
}

/// Propose one criterion
///
/// The operator and the manager can accept their own criterion with --accept; a worker's proposal
/// must be accepted by the operator or the manager. The text needs at least 12 letters or digits.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team criterion add 'The tests pass' --check 'cargo test' --accept\n  provost team criterion add 'The start page looks like its draft' --pictures design/start.png shots/start.png --differing 0.001\n  provost team criterion add 'The wording was read by a person' --rationale 'customers see it'"
)]
struct AddArgs {
    /// Text of the criterion; `-` reads standard input
    text: String,
    /// Require this command to pass; Provost runs it on the committed work. Without a check, a
    /// member can assert that the criterion holds, and the criterion is shown as asserted
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Require these two PNG files in the worker's directory to match, compared by Provost
    #[arg(long, num_args = 2, value_names = ["EXPECTED", "ACTUAL"], conflicts_with = "check")]
    pictures: Option<Vec<String>>,
    /// Per-channel pixel tolerance, 0 to 0.5 [default: 0] (not available to workers)
    #[arg(long, value_name = "SHARE", requires = "pictures", value_parser = prove::parse_tolerance)]
    tolerance: Option<u32>,
    /// Share of pixels that may differ, 0 to 1 [default: 0]
    #[arg(long, value_name = "SHARE", requires = "pictures", value_parser = parse_differing)]
    differing: Option<u32>,
    /// Reason for the criterion
    #[arg(long)]
    rationale: Option<String>,
    /// Accept immediately (operator or manager only; otherwise the command fails)
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Propose every criterion that a message or text lists
///
/// Every list item (-, *, +, •, 1., 1) or (1)) and every line that begins with `criterion:` becomes a
/// criterion, with the indented lines that follow. Quotes and fenced blocks are skipped. Items that are
/// empty, longer than 500 letters, already known or contain hidden characters are skipped and shown
/// with the reason. At most 20 criteria are proposed at once. Each one must be accepted separately.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team criterion draft --from 7 --dry-run -t limits\n  provost team criterion draft --from 7 -t limits\n  provost team criterion draft --from - --of hand -t limits < answer.md"
)]
struct DraftArgs {
    /// Number of the message; `-` reads text from standard input
    #[arg(long, value_name = "MESSAGE")]
    from: String,
    /// Author of the text [default: the caller]
    #[arg(long, value_name = "MEMBER", value_parser = input::parse_name)]
    of: Option<String>,
    /// Show the criteria, without proposing them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Accept a proposed or deferred criterion
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost team criterion accept 2 -t limits")]
struct NumberArgs {
    /// Number of the criterion
    #[arg(value_name = "NUMBER")]
    no: u32,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Assert that a criterion without a check holds
///
/// A criterion with a check is satisfied by `provost team prove`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team criterion satisfy 2 --evidence 'read aloud with the support team, two words changed' -t limits"
)]
struct SatisfyArgs {
    #[command(flatten)]
    criterion: NumberArgs,
    /// Description of the work and its result, with at least 12 letters or digits
    #[arg(long, value_name = "TEXT")]
    evidence: String,
}

/// Defer a criterion, so that it does not block finishing
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team criterion defer 2 --because 'comes with the next release'"
)]
struct DeferArgs {
    #[command(flatten)]
    criterion: NumberArgs,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    because: String,
}

/// Reject a criterion
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team criterion reject 2 --because 'the goal does not ask for it'"
)]
struct RejectArgs {
    #[command(flatten)]
    rest: DeferArgs,
}

/// Require a satisfied, deferred or rejected criterion again
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team criterion reopen 2 --because 'the tests were changed'"
)]
struct ReopenArgs {
    #[command(flatten)]
    rest: DeferArgs,
}

pub(crate) fn run(context: &Context, args: &CriterionArgs) -> CliResult {
    match &args.what {
        CriterionCommand::Ls(args) => ls(context, args),
        CriterionCommand::Add(args) => add(context, args),
        CriterionCommand::Draft(args) => draft(context, args),
        CriterionCommand::Accept(args) => judge(context, args, CriterionJudgement::Accept),
        CriterionCommand::Satisfy(SatisfyArgs { criterion, evidence }) => {
            // The daemon sets the author, so that no member can claim to be another.
            let evidence = CriterionEvidence::Asserted {
                text: input::read_text("the evidence (--evidence)", evidence)?,
                by: String::new(),
            };
            judge(context, criterion, CriterionJudgement::Satisfy { evidence })
        }
        CriterionCommand::Defer(DeferArgs { criterion, because }) => {
            judge(context, criterion, CriterionJudgement::Defer { because: because.clone() })
        }
        CriterionCommand::Reject(RejectArgs { rest }) => judge(
            context,
            &rest.criterion,
            CriterionJudgement::Reject { because: rest.because.clone() },
        ),
        CriterionCommand::Reopen(ReopenArgs { rest }) => judge(
            context,
            &rest.criterion,
            CriterionJudgement::Reopen { because: rest.because.clone() },
        ),
    }
}

/// Parses a share of pixels.
fn parse_differing(text: &str) -> Result<u32, String> {
    let expected = || format!("invalid share {text:?}: expected 0 to 1, such as 0.001");
    parse_share(text, WHOLE).ok_or_else(expected)
}

fn judge(context: &Context, args: &NumberArgs, judgement: CriterionJudgement) -> CliResult {
    args.team.target(context).change(
        context,
        &TeamCommand::Judge { no: args.no, judgement },
        &args.key,
    )
}

fn add(context: &Context, args: &AddArgs) -> CliResult {
    let files = prove::picture_files(args.pictures.as_deref(), args.tolerance);
    let pictures =
        files.map(|files| PictureCheck { files, differing: args.differing.unwrap_or_default() });
    let needs = match (&args.check, pictures) {
        (Some(check), _) => EvidenceRequirement::Verified { check: check.clone() },
        (None, Some(pictures)) => EvidenceRequirement::Pictures(Box::new(pictures)),
        (None, None) => EvidenceRequirement::Asserted,
    };
    let (text, rationale) =
        (input::read_text("the criterion", &args.text)?, args.rationale.clone());
    let command = if args.accept {
        TeamCommand::ProposeAccepted { text, rationale, needs }
    } else {
        TeamCommand::Propose { text, rationale, needs }
    };
    args.team.target(context).change(context, &command, &args.key)
}

fn draft(context: &Context, args: &DraftArgs) -> CliResult {
    let from = match (args.from.as_str(), &args.of) {
        ("-", of) => DraftSource::Text { text: input::read_text("the text", "-")?, of: of.clone() },
        (_, Some(_)) => {
            return Err(usage(
                "--of applies only with `--from -`, because a message already has an author",
            )
            .next("provost team criterion draft --help")
            .into());
        }
        (no, None) => DraftSource::Message(no.parse().map_err(|_| {
            usage(format!("{no:?} is not a message number")).next("provost team inbox ls --all")
        })?),
    };
    let command = TeamCommand::Draft { from, dry_run: args.dry_run };
    let reply = args.team.target(context).send(context, &command, &args.key.get(context))?;
    // The hints include the team even if there is only one, so that they work anywhere.
    let of = args.team.target(context).options(reply["team"]["id"].as_str().unwrap_or_default());
    let next = [
        format!("provost team criterion ls{of}"),
        format!("provost team criterion accept NUMBER{of}"),
    ];
    if context.ui.json {
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let row: Option<DraftRow> =
        reply.get("draft").cloned().and_then(|row| serde_json::from_value(row).ok());
    if let Some(row) = row {
        context.ui.lines(&ui::draft_lines(context.ui.paint, Screen::stdout(), &row))?;
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn ls(context: &Context, args: &CriterionLsArgs) -> CliResult {
    let task = args.team.target(context).find(context)?;
    let open = |state: &str| matches!(state, "proposed" | "accepted");
    let rows: Vec<_> =
        task.criteria.into_iter().filter(|row| !args.open || open(&row.state)).collect();
    if context.ui.json {
        context.ui.result(json!({"team": task.id, "criteria": rows}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        context.ui.notice("no criteria");
    } else {
        context.ui.lines(&ui::criterion_lines(context.ui.paint, Screen::stdout(), &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}
