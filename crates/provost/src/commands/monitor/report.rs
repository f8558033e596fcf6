//! The monitor's output and exit code.

use std::process::ExitCode;

use provost_api::{ApiError, Code};
use provost_verify::{Advice, Ending, Previous, Try, Verdict};
use serde_json::{Value, json};

use super::{
    conclude::Conclusion,
    stand::Watched,
    watch::{Asked, Seen},
};
use crate::{
    cli::Outcome,
    clock,
    commands::{
        change,
        run::{self, follow},
        spawn::wait,
    },
    context::Context,
    error::usage,
    home::Home,
    ui::{self, Screen, Tone},
};

/// The attempt number, and the result of the previous attempt.
pub(super) struct Tries {
    pub(super) no: u32,
    pub(super) previous: Option<Previous>,
}

/// Prints all conclusions, and exits with the worst code.
pub(super) fn show(
    context: &Context,
    asked: &Asked,
    tries: &Tries,
    seen: &[Seen],
    compat: bool,
) -> Outcome {
    let code = seen.iter().map(|one| exit_code(one, asked)).max_by_key(|code| rank(*code));
    let code = code.unwrap_or_default();
    // Scripts of story-automator's users take a question for a result.
    let code = if compat && code == Code::InputNeeded.exit_code() { 0 } else { code };
    let next = next_commands(seen);
    match (compat, seen) {
        (true, [one]) => context.ui.value(&projected(&context.home()?, asked, one))?,
        _ if context.ui.json => {
            context.ui.result(as_json(asked, tries, seen, code, &next), &next)?;
        }
        _ => {
            seen.iter().try_for_each(|one| tell(context, asked, tries, one))?;
            context.ui.next(&next);
        }
    }
    Ok(ExitCode::from(code))
}

/// Parses the output for the previous attempt: the whole object, or the part about one session.
pub(super) fn parse_previous(text: &str) -> Result<Previous, ApiError> {
    let wrong = |why: &str| {
        usage(format!("--previous is not output of the monitor: {why}"))
            .next("provost monitor ID --json --workflow NAME --key KEY")
    };
    let value: Value = serde_json::from_str(text).map_err(|why| wrong(&why.to_string()))?;
    let one = match value.get("results").map(Value::as_array) {
        Some(Some(results)) if results.len() == 1 => &results[0],
        Some(_) => return Err(wrong("expected the result of one session")),
        None => &value,
    };
    let reason = one["reason"].as_str().ok_or_else(|| wrong("it has no reason"))?;
    let tree = one["facts"]["tree"].as_str();
    Ok(Previous { reason: reason.to_owned(), tree: tree.map(str::to_owned) })
}

/// A state that was reached is not a failure, unless proof was asked for and there is none.
fn exit_code(seen: &Seen, asked: &Asked) -> u8 {
    let Some(conclusion) = &seen.conclusion else { return 0 };
    match (conclusion.ending, conclusion.reached) {
        (Ending::TimedOut, _) => Code::TimedOut.exit_code(),
        (_, Some(true)) if asked.proof.is_some() && !proved(asked, seen).1 => {
            Code::Failed.exit_code()
        }
        (_, Some(true)) => 0,
        (Ending::Lost, _) => Code::Unreachable.exit_code(),
        (_, Some(false)) => Code::Failed.exit_code(),
        (Ending::Completed | Ending::Reached, None) => 0,
        (Ending::NeedsInput, None) if asked.proof.is_none() => Code::InputNeeded.exit_code(),
        (Ending::NeedsInput | Ending::Incomplete | Ending::Stuck | Ending::Failed, None) => {
            Code::Failed.exit_code()
        }
    }
}

/// A known failure is worse than an unknown state, that is worse than a question, and that than work under way.
fn rank(code: u8) -> u8 {
    [0, 5, 7, 6, 1].iter().position(|one| *one == code).map_or(0, |at| at as u8)
}

fn word(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "completed",
        Ending::Incomplete => "incomplete",
        Ending::NeedsInput => "needs_input",
        Ending::Stuck => "stuck",
        Ending::Failed => "failed",
        Ending::Lost => "lost",
        Ending::TimedOut => "timed_out",
        Ending::Reached => "reached",
    }
}

fn as_json(asked: &Asked, tries: &Tries, seen: &[Seen], code: u8, next: &[String]) -> Value {
    let results: Vec<Value> = seen.iter().map(|one| result(asked, tries, one)).collect();
    let window = json!({"ms": asked.window.ms(), "source": asked.window.source});
    let mut value = json!({
        "ok": code == 0, "results": results, "exit_code": code, "stale_after": window,
    });
    let worst = seen.iter().find(|one| exit_code(one, asked) == code && code != 0);
    if let Some((one, conclusion)) = worst.and_then(|one| Some((one, one.conclusion.as_ref()?))) {
        let code = match conclusion.ending {
            Ending::TimedOut => Code::TimedOut,
            Ending::Lost => Code::Unreachable,
            Ending::NeedsInput if code == Code::InputNeeded.exit_code() => Code::InputNeeded,
            Ending::Completed | Ending::Incomplete | Ending::NeedsInput => Code::Failed,
            Ending::Stuck | Ending::Failed | Ending::Reached => Code::Failed,
        };
        let (id, word) = (ui::short(one.watched.id()), word(conclusion.ending));
        let message = match &one.watched {
            Watched::Session(row) if code == Code::InputNeeded => wait::message(row, code),
            Watched::Run(row, _) if code == Code::InputNeeded => follow::message(row, code),
            Watched::Session(_) | Watched::Run(..) => {
                format!("{id} is {word}: {}", conclusion.reason)
            }
        };
        value["error"] = json!(ApiError { code, message, next: next.to_vec() });
    }
    value
}

fn result(asked: &Asked, tries: &Tries, seen: &Seen) -> Value {
    let conclusion = seen.conclusion.as_ref();
    let (verifier, verified) = proved(asked, seen);
    let advice = conclusion.and_then(|found| advice(asked, tries, seen, found));
    json!({
        "id": seen.watched.id(),
        "name": seen.watched.name(),
        "kind": match &seen.watched { Watched::Session(_) => "session", Watched::Run(..) => "run" },
        "result": conclusion.map(|found| word(found.ending)),
        "final_state": seen.watched.state(),
        "reached": conclusion.and_then(|found| found.reached),
        "output_verified": verified,
        "verifier": verifier,
        "workflow": asked.proof.as_ref().map(|proof| &proof.workflow),
        "reason": conclusion.map(|found| &found.reason),
        "advice": advice.map(|advice| json!({
            "what": advice.what.word(),
            "because": advice.because,
            "tries_left": advice.left,
            "agent": advice.agent,
        })),
        "facts": facts(seen),
    })
}

/// Returns the verifier and whether it accepted the work. Without a workflow, the checks that Provost ran, if any.
fn proved<'a>(asked: &'a Asked, seen: &Seen) -> (Option<&'a str>, bool) {
    if let Some(proof) = &asked.proof {
        return (Some(&proof.name), matches!(seen.verdict, Some(Verdict::Verified(_))));
    }
    let (checked, proved) = match &seen.watched {
        Watched::Session(row) => (row.verification != "none", row.verification == "passed"),
        Watched::Run(row, _) => (!row.checks.is_empty(), row.proved),
    };
    (checked.then_some("checks"), proved)
}

fn advice(asked: &Asked, tries: &Tries, seen: &Seen, found: &Conclusion) -> Option<Advice> {
    let proof = asked.proof.as_ref()?;
    // Reaching a state says nothing about the workflow.
    if found.ending == Ending::Reached && !matches!(seen.verdict, Some(Verdict::Verified(_))) {
        return None;
    }
    Some(proof.policy.advise(Try {
        no: tries.no,
        ending: found.ending,
        reason: &found.reason,
        asked: !matches!(&seen.verdict, Some(Verdict::Incomplete(why)) if why.is_no_answer()),
        tree: seen.watched.tree(),
        previous: tries.previous.as_ref(),
    }))
}

/// Returns the facts behind the conclusion.
fn facts(seen: &Seen) -> Value {
    let place = seen.watched.place();
    let refuted = match &seen.verdict {
        Some(Verdict::Incomplete(reason)) => {
            let said = reason.said();
            Some(json!({"word": reason.word(), "text": reason.to_string(), "printed": said}))
        }
        Some(Verdict::Verified(_)) | None => None,
    };
    match &seen.watched {
        Watched::Session(row) => json!({
            "sealed": row.sealed, "cause": row.cause, "flags": row.flags, "rule": row.rule,
            "claim": row.claim, "process": row.process, "exit": row.exit, "activity": row.activity,
            "verification": row.verification, "requests": row.requests, "progress": row.progress,
            "retrying": row.retrying, "limited": row.limited, "heard_at": row.heard_at,
            "since": row.since, "sealed_at": row.sealed_at, "tree": row.tree, "commit": row.commit,
            "directory": place, "refuted": refuted,
        }),
        Watched::Run(row, live) => json!({
            "sealed": row.sealed, "cause": row.cause, "stage": row.stage, "proved": row.proved,
            "requests": row.requests, "tasks": row.tasks, "awaits_approval": row.awaits_approval,
            "working": live.iter().map(|session| &session.id).collect::<Vec<_>>(),
            "since": row.since, "sealed_at": row.sealed_at, "tree": row.tree, "commit": row.commit,
            "directory": place, "refuted": refuted,
        }),
    }
}

/// Converts the result to story-automator's format.
fn projected(home: &Home, asked: &Asked, seen: &Seen) -> Value {
    let reason = seen.conclusion.as_ref().map(|found| found.reason.clone());
    let (verifier, verified) = proved(asked, seen);
    let unproved = asked.proof.is_some() && !verified;
    let (done, total, source) = progress(seen);
    json!({
        "final_state": seen.conclusion.as_ref().map(|found| projected_word(found, unproved)),
        "output_verified": verified,
        "verifier": verifier,
        "reason": reason,
        "exit_reason": reason,
        "progress": format!("{done}/{total}"),
        "progress_source": source,
        "todos_done": done,
        "todos_total": total,
        "output_file": output_file(home, &seen.watched),
        "session": seen.watched.id(),
        "state": seen.watched.state(),
    })
}

/// Returns story-automator's word for a reached state, unless that word would signal a failure. If a workflow was named
/// and is unproved, it must not look done.
fn projected_word(found: &Conclusion, unproved: bool) -> &'static str {
    match (found.ending, found.otherwise) {
        (Ending::Reached, Some(waits @ Ending::NeedsInput)) => word(waits),
        (Ending::Reached, _) if unproved => word(Ending::Incomplete),
        (Ending::Reached, Some(good @ Ending::Completed)) => word(good),
        (Ending::Failed, _) => "crashed",
        (Ending::TimedOut, _) => "timeout",
        (Ending::Lost, _) => "not_found",
        (Ending::Completed | Ending::Incomplete | Ending::NeedsInput, _) => word(found.ending),
        (Ending::Stuck | Ending::Reached, _) => word(found.ending),
    }
}

/// Returns the progress of a plan. Without one there is a single step. As in story-automator, it is done once there was
/// work and the agent ended or is idle, or the work was found complete.
fn progress(seen: &Seen) -> (u64, u64, &'static str) {
    let (told, rests, active) = match &seen.watched {
        Watched::Session(row) => {
            let told = row.progress.as_ref().map(|progress| (progress.done, progress.total));
            let idle = row.state == "idle" && row.turns > 0;
            (told, row.sealed || idle, row.process != "not_started")
        }
        Watched::Run(row, _) => {
            let told = row.tasks.as_ref().map(|tasks| (tasks.merged as u64, tasks.all as u64));
            (told, row.sealed, !row.sessions.is_empty())
        }
    };
    let is_complete =
        seen.conclusion.as_ref().is_some_and(|found| found.ending == Ending::Completed);
    match told {
        Some((done, total)) => (done, total, "agent"),
        None => (u64::from(active && (rests || is_complete)), 1, "projection"),
    }
}

/// Returns the path of the output file, if it exists.
fn output_file(home: &Home, watched: &Watched) -> Option<String> {
    let Watched::Session(row) = watched else { return None };
    let journal = home.launch(&row.launches.last()?.id).join("journal");
    journal.is_file().then(|| journal.display().to_string())
}

fn tell(
    context: &Context,
    asked: &Asked,
    tries: &Tries,
    seen: &Seen,
) -> Result<(), crate::error::Error> {
    let (id, name) = (ui::short(seen.watched.id()), ui::clean(seen.watched.name()));
    let Some(found) = &seen.conclusion else {
        let state = seen.watched.known().unwrap_or("its turns are not visible");
        return context.ui.line(&format!("{id} {name} continues: {state}"));
    };
    let tone = match found.ending {
        Ending::Completed | Ending::Reached => Tone::Good,
        Ending::NeedsInput | Ending::TimedOut | Ending::Stuck => Tone::Warn,
        Ending::Incomplete | Ending::Failed | Ending::Lost => Tone::Bad,
    };
    let word = context.ui.paint.paint(tone, word(found.ending));
    let by = match proved(asked, seen) {
        (Some(verifier), true) => format!(", verified by {verifier}"),
        (Some(verifier), false) => format!(", not verified by {verifier}"),
        (None, _) => String::new(),
    };
    context.ui.line(&format!("{id} {name} {word}{by}: {}", ui::clean(&found.reason)))?;
    if found.ending == Ending::NeedsInput {
        question(context, &seen.watched).iter().for_each(|line| context.ui.talk(line));
    }
    if let Some(Verdict::Incomplete(reason)) = &seen.verdict
        && let Some(said) = reason.said()
    {
        context.ui.talk(&format!("the verifier printed: {}", ui::clean(said)));
    }
    if let Some(advice) = advice(asked, tries, seen, found) {
        let agent = advice.agent.map(|agent| format!(" with {agent}")).unwrap_or_default();
        let what = advice.what.word();
        context.ui.talk(&format!("advice: {what}{agent} ({})", advice.because));
    }
    Ok(())
}

/// Returns what is asked, with the commands that answer it.
fn question(context: &Context, watched: &Watched) -> Vec<String> {
    match watched {
        Watched::Session(row) => wait::asked(context, row),
        Watched::Run(row, _) => {
            ui::requests(context.ui.talk_paint, Screen::talk(), clock::now_ms(), &row.requests)
        }
    }
}

fn next_commands(seen: &[Seen]) -> Vec<String> {
    match seen {
        [Seen { watched: Watched::Session(row), .. }] => change::next_commands(row),
        [Seen { watched: Watched::Run(row, _), .. }] => run::next_commands(row),
        several => several
            .iter()
            .map(|one| format!("provost status {}", ui::short(one.watched.id())))
            .collect(),
    }
}
