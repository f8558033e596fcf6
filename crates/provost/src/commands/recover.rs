//! `provost ledger recover`

use std::process::ExitCode;

use clap::Args;
use provost_api::{ApiError, ErrorCode, UnknownHolder};
use provost_engine::{
    shell::{self, unknown_holders},
    stream,
};
use provost_ledger::{
    Durability, LedgerLoss, LossRecovery, OpenOptions, SqliteLedger, SqliteReader, lock_writer,
    verify,
};
use provost_sys::peer::Pinning;
use serde_json::{Value, json};

use super::{
    export::refuse_agents,
    ledger::{open_error, read_error, reader},
    mutation::KeyArgs,
};
use crate::{cli::CliResult, clock, context::Context, daemon, error::chain, ui};

#[derive(Debug, Args)]
pub(super) struct RecoverArgs {
    /// Stop processes that are missing from the ledger
    ///
    /// If the ledger cannot be read at all, this stops all processes of the home.
    #[arg(long)]
    stop_unknown: bool,
    /// Continue without the lost events
    ///
    /// The files of the ledger are copied first. The numbers of the lost events are not reused, and
    /// `provost events` shows the gap.
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// The events that the ledger has lost, and the processes that are missing from it.
struct LossSurvey {
    loss: Option<LedgerLoss>,
    /// The time of the last event that is left.
    last_at: Option<i64>,
    unknown: Vec<UnknownHolder>,
}

/// The recovery actions that were taken.
#[derive(Default)]
struct RecoveryActions {
    stopped: Vec<UnknownHolder>,
    recovered: Option<LossRecovery>,
    set_aside: usize,
}

pub(super) fn run(context: &Context, args: &RecoverArgs) -> CliResult {
    refuse_agents(context)?;
    if let Some(damage) = find_damage(context)? {
        return recover_unreadable(context, args, &damage);
    }
    let mut done = RecoveryActions::default();
    if args.stop_unknown {
        let reply: Value = context.daemon()?.post(
            "/v1/ledger/stop-unknown",
            &json!({}),
            &args.key.get(context),
        )?;
        done.stopped = serde_json::from_value(reply["stopped"].clone()).unwrap_or_default();
    }
    let survey = survey_loss(context)?;
    if args.accept_loss && survey.loss.is_some() {
        check_acceptable(context, &survey)?;
        accept(context, &mut done)?;
    }
    show(context, &survey, &done)
}

/// Returns why the ledger cannot be read at all, or `None` if the ledger can be read. A temporary failure is returned
/// as an error.
fn find_damage(context: &Context) -> Result<Option<ApiError>, ApiError> {
    let home = context.trusted_home()?;
    let reader = match SqliteReader::open(&home.ledger()) {
        Err(why) if why.is_damage() => return Ok(Some(open_error(&why))),
        opened => opened.map_err(|why| open_error(&why))?,
    };
    match unknown_holders::survey(&shell::Home::new(&home.path), &reader) {
        Err(why) if why.is_damage() => Ok(Some(read_error(&why))),
        surveyed => surveyed.map(|_| None).map_err(|why| read_error(&why)),
    }
}

/// Lists the processes of a home whose ledger cannot be read, and stops them on request. This
/// command stops the processes itself, because no daemon can run in such a home.
fn recover_unreadable(context: &Context, args: &RecoverArgs, damage: &ApiError) -> CliResult {
    let home = context.home()?;
    let places = shell::Home::new(&home.path);
    let mut stopped = Vec::new();
    if args.stop_unknown {
        stopped = daemon::without_daemon(&home, || stop_living(&places))?;
    }
    let unknown = unknown_holders::living(&places);
    if args.accept_loss {
        let message = format!(
            "{}; its work cannot be continued; restore a backup made with `provost ledger backup`, or move {} away to start with an empty home",
            damage.message,
            home.ledger().display()
        );
        return Err(ApiError::new(ErrorCode::Storage, message).next("provost doctor").into());
    }
    let mut next = vec!["provost doctor".to_owned()];
    if !unknown.is_empty() {
        next.insert(0, "provost ledger recover --stop-unknown".to_owned());
    }
    if context.ui.json {
        let value = json!({
            "ok": true, "loss": null, "unreadable": damage.message, "unknown": unknown,
            "stopped": stopped, "accepted": null,
        });
        context.ui.result(value, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![ui::escape_line(&damage.message)];
    lines.extend(stopped_lines(&stopped));
    lines.extend(ui::unknown_lines(context.ui.paint, &unknown));
    if unknown.is_empty() && stopped.is_empty() {
        lines.push("no process of this home is running".to_owned());
    }
    context.ui.lines(&lines)?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// Stops all running launches, checks and hooks of a home that has no daemon. This process must hold the ledger's lock,
/// because holders reject requests from any other process.
fn stop_living(places: &shell::Home) -> Result<Vec<UnknownHolder>, ApiError> {
    let cannot = |why: std::io::Error| chain(ErrorCode::Failed, "cannot stop the processes", &why);
    let _writer = lock_writer(&places.ledger()).map_err(|why| open_error(&why))?;
    let program = std::env::current_exe().map_err(cannot)?;
    let holders = shell::Holders::new(vec![program.into(), "hold".into()])
        .with_boundary(places.boundary(Pinning::Best));
    shell::blocking::start().map_err(cannot)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    runtime.block_on(async {
        let mut stopped = Vec::new();
        for holder in unknown_holders::living(places) {
            unknown_holders::stop(places, &holders, &holder).await?;
            stopped.push(holder);
        }
        Ok(stopped)
    })
}

fn stopped_lines(stopped: &[UnknownHolder]) -> impl Iterator<Item = String> {
    stopped
        .iter()
        .map(|holder| format!("stopped     {}  {}", holder.key, ui::escape_line(&holder.command)))
}

fn survey_loss(context: &Context) -> Result<LossSurvey, ApiError> {
    let home = shell::Home::new(&context.trusted_home()?.path);
    let reader = reader(context)?;
    let newest = reader.newest_record().map_err(|why| read_error(&why))?;
    let unknown = unknown_holders::survey(&home, &reader).map_err(|why| read_error(&why))?;
    Ok(LossSurvey { loss: reader.loss(), last_at: newest.map(|record| record.at.wall_ms), unknown })
}

/// Fails if the ledger has other damage, or if a launch that is missing from the ledger is still
/// running in a directory that a known session might reuse.
fn check_acceptable(context: &Context, survey: &LossSurvey) -> Result<(), ApiError> {
    let report = verify(&reader(context)?, &mut stream::refold).map_err(|why| read_error(&why))?;
    if let Some(damage) = report.differences.first() {
        let message = format!(
            "the rest of the ledger is damaged ({}) and cannot be used; restore a backup made with `provost ledger backup`",
            damage.what
        );
        return Err(ApiError::new(ErrorCode::Storage, message).next("provost ledger verify"));
    }
    let in_the_way =
        survey.unknown.iter().filter(|holder| holder.alive && holder.owner_known).count();
    if in_the_way > 0 {
        let message = format!(
            "{in_the_way} running launches of known sessions are missing from the ledger; stop them first"
        );
        return Err(ApiError::new(ErrorCode::Refused, message)
            .next("provost ledger recover --stop-unknown --accept-loss"));
    }
    Ok(())
}

fn accept(context: &Context, done: &mut RecoveryActions) -> Result<(), ApiError> {
    let home = context.home()?;
    daemon::without_daemon(&home, || {
        let options = OpenOptions {
            known: &stream::is_known,
            software: env!("CARGO_PKG_VERSION"),
            durability: Durability::Full,
        };
        let mut ledger =
            SqliteLedger::open(&home.ledger(), &options).map_err(|why| open_error(&why))?;
        let places = shell::Home::new(&home.path);
        // Read the ledger again, so that launches that have ended in the meantime are moved too. No
        // new launch can have started, because there is no daemon.
        let reader = SqliteReader::open(&home.ledger()).map_err(|why| open_error(&why))?;
        let unknown = unknown_holders::survey(&places, &reader).map_err(|why| read_error(&why))?;
        drop(reader);
        for holder in unknown.iter().filter(|holder| !holder.alive) {
            unknown_holders::set_aside(&places, holder).map_err(|why| {
                chain(ErrorCode::Storage, &format!("cannot move {} aside", holder.key), &why)
            })?;
            done.set_aside += 1;
        }
        done.recovered = ledger.accept_loss(clock::now_ms()).map_err(|why| read_error(&why))?;
        Ok(())
    })
}

fn show(context: &Context, survey: &LossSurvey, done: &RecoveryActions) -> CliResult {
    let next = next(survey, done);
    if context.ui.json {
        let loss = survey.loss.map(|loss| {
            json!({
                "message": loss.to_string(), "last_event": loss.found, "recorded": loss.known,
                "replaced": loss.replaced, "last_event_at": survey.last_at,
            })
        });
        let accepted = done.recovered.as_ref().map(|recovered| {
            json!({
                "seq": recovered.loss.seq, "first": recovered.loss.first,
                "last": recovered.loss.last, "copy": recovered.copy.display().to_string(),
                "set_aside": done.set_aside,
            })
        });
        let value = json!({
            "ok": true, "loss": loss, "unknown": survey.unknown, "stopped": done.stopped,
            "accepted": accepted,
        });
        context.ui.result(value, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.ui.lines(&lines(context, survey, done))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn lines(context: &Context, survey: &LossSurvey, done: &RecoveryActions) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(loss) = &survey.loss {
        lines.push(loss.to_string());
        if !loss.replaced {
            lines.push(format!("lost        events {} to {}", loss.found + 1, loss.known));
        }
        let age = survey.last_at.map(|at| ui::age(clock::now_ms(), at));
        lines.extend(age.map(|age| format!("last event  {age} ago")));
    }
    lines.extend(stopped_lines(&done.stopped));
    let left: Vec<UnknownHolder> = match &done.recovered {
        Some(_) => survey.unknown.iter().filter(|holder| holder.alive).cloned().collect(),
        None => survey.unknown.clone(),
    };
    lines.extend(ui::unknown_lines(context.ui.paint, &left));
    if let Some(LossRecovery { loss, copy }) = &done.recovered {
        lines.push(format!(
            "accepted    the next event is {}; the previous files are in {}",
            loss.seq + 1,
            copy.display()
        ));
        if done.set_aside > 0 {
            lines.push(format!("set aside   {} directories, in lost/", done.set_aside));
        }
    }
    if lines.is_empty() {
        lines.push("no events are lost, and every running process is in the ledger".to_owned());
    }
    lines
}

fn next(survey: &LossSurvey, done: &RecoveryActions) -> Vec<String> {
    let mut next = Vec::new();
    if survey.unknown.iter().any(|holder| holder.alive) {
        next.push("provost ledger recover --stop-unknown");
    }
    if survey.loss.is_some() && done.recovered.is_none() {
        next.push("provost ledger recover --accept-loss");
    }
    if done.recovered.is_some() {
        next.push("provost ls --all");
    }
    next.push("provost ledger verify");
    next.into_iter().map(str::to_owned).collect()
}
