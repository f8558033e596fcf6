//! Waiting for what a task does later: a check that Provost runs, and the audit of a finish.

use std::process::ExitCode;

use clap::Args;
use provost_api::{ApiError, Code, EventRow};
use provost_core::{
    task::{self, Blocker, CheckOwed, Checked, Command, Purpose},
    verdict::{CheckEnd, Receipt},
};
use provost_holder::spec::MARK;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{change::KeyArgs, tasking::Meant};
use crate::{
    cli::Outcome,
    context::Context,
    error::usage,
    follow::{self, Follow, Of},
    target,
    ui::{Tone, clean, clean_block},
};

/// Whether to wait for what comes of it
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Wait until it is known what came of it
    #[arg(long)]
    wait: bool,
}

/// Asks for a finish. Waited for, it ends well if the task is done then.
pub(crate) fn finish(
    context: &Context,
    meant: Meant<'_>,
    command: &Command,
    (key, args): (&KeyArgs, &WaitArgs),
) -> Outcome {
    if !args.wait {
        return meant.change(context, command, key);
    }
    let mut asked = Asked::ask(context, meant, command, key)?;
    while asked.reply["task"]["terminal"] != true {
        let event = asked.events.next()?;
        match event.kind.as_str() {
            "task.finish_refused" => {
                return Err(not_finished(&event, &meant.show_command(&asked.id)).into());
            }
            "task.phase_changed" => {
                asked.reply = meant.get(context, &target::task(&asked.id))?;
            }
            _ => {}
        }
    }
    let done = asked.reply["task"]["state"] == "done";
    meant.show(context, asked.reply)?;
    Ok(ExitCode::from(u8::from(!done)))
}

/// Has a check run. Waited for, it ends well if it passed.
pub(crate) fn check(
    context: &Context,
    meant: Meant<'_>,
    what: Checked,
    (key, args): (&KeyArgs, &WaitArgs),
) -> Outcome {
    let command = Command::Check { what: what.clone() };
    if !args.wait {
        return meant.change(context, &command, key);
    }
    let mut asked = Asked::ask(context, meant, &command, key)?;
    let mut wanted = None;
    loop {
        let event = asked.events.next()?;
        match event.kind.as_str() {
            "task.check_wanted" => {
                let owed: CheckOwed = field(&event, "check")?;
                wanted = wanted.or_else(|| is_for(&owed.purpose, &what).then_some(owed.no));
            }
            "task.check_done" if wanted.is_some_and(|no| event.data["no"] == no) => {
                return checked(
                    context,
                    &field(&event, "receipt")?,
                    &meant.show_command(&asked.id),
                );
            }
            _ => {}
        }
    }
}

/// Something that was asked of a task, and what happens to it from then on.
struct Asked<'a> {
    id: String,
    reply: Value,
    events: Follow<'a>,
}

impl<'a> Asked<'a> {
    fn ask(
        context: &'a Context,
        meant: Meant<'_>,
        command: &Command,
        key: &KeyArgs,
    ) -> Result<Self, ApiError> {
        if context.environment.get(MARK).is_some() {
            // To wait may be to start a daemon, and an agent starts none.
            let message = "an agent is told by itself what came of it: leave --wait out";
            return Err(usage(message.to_owned()));
        }
        let id = meant.find(context)?.id;
        let since = follow::newest(context)?;
        let reply = meant.tell(context, command, &key.get(context))?;
        let events = Follow::new(context, Of::Task(id.clone()), Some(since));
        Ok(Asked { id, reply, events })
    }
}

fn field<T: DeserializeOwned>(event: &EventRow, name: &str) -> Result<T, ApiError> {
    serde_json::from_value(event.data[name].clone()).map_err(|why| {
        ApiError::new(Code::Internal, format!("the event {} cannot be read: {why}", event.seq))
            .next("provost daemon status")
    })
}

fn is_for(purpose: &Purpose, what: &Checked) -> bool {
    match (purpose, what) {
        (Purpose::Criterion(no), Checked::Criterion(wanted)) => no == wanted,
        (
            Purpose::Evidence { name, .. },
            Checked::Evidence(wanted) | Checked::Pictures { evidence: wanted, .. },
        ) => name == wanted,
        (Purpose::Criterion(_) | Purpose::Evidence { .. } | Purpose::Audit(_), _) => false,
    }
}

fn not_finished(event: &EventRow, next: &str) -> ApiError {
    let blockers: Vec<Blocker> = field(event, "blockers").unwrap_or_default();
    ApiError::new(Code::Refused, task::not_finished(&blockers)).next(next)
}

fn checked(context: &Context, receipt: &Receipt, next: &str) -> Outcome {
    let passed = receipt.end == CheckEnd::Exit(0);
    let next = [next.to_owned()];
    if context.ui.json {
        let mut told = json!({"ok": passed, "receipt": receipt});
        if !passed {
            let message = format!("`{}` did not pass: {}", receipt.command, receipt.end.words());
            told["error"] = json!(ApiError::new(Code::Failed, clean(&message)).next(&next[0]));
        }
        context.ui.result(told, &next)?;
    } else {
        let how = if passed { (Tone::Good, "passed") } else { (Tone::Bad, "failed") };
        let word = context.ui.paint.paint(how.0, how.1);
        let command = clean(&receipt.command);
        context.ui.line(&format!(
            "{word} `{command}` {} on tree {}",
            clean(&receipt.end.to_string()),
            receipt.tree.0
        ))?;
        context
            .ui
            .lines(&clean_block(&receipt.tail).lines().map(str::to_owned).collect::<Vec<_>>())?;
        context.ui.next(&next);
    }
    Ok(ExitCode::from(u8::from(!passed)))
}
