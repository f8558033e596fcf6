//! The monitor's output and exit code.

use std::process::ExitCode;

use provost_api::{ApiError, ErrorCode, ProcessName, VerificationName};
use provost_core::lifecycle::State;
use provost_verify::{Advice, AttemptEnding, PreviousAttempt, VerifierVerdict, WorkflowAttempt};
use serde_json::{Value, json};

use super::{
    status::WatchTarget,
    verdict::Conclusion,
    watch::{WatchOptions, WatchResult},
};
use crate::{
    cli::CliResult,
    clock,
    commands::{
        mutation,
        run::{self, follow},
        spawn::wait,
    },
    context::Context,
    error::usage,
    home::ProvostHome,
    ui::{self, Screen, Tone},
};

/// The number of the attempt, and the result of the previous attempt.
pub(super) struct AttemptHistory {
    pub(super) number: u32,
    pub(super) previous: Option<PreviousAttempt>,
}

/// Prints all conclusions, and returns the worst of their exit codes.
pub(super) fn show(
    context: &Context,
    asked: &WatchOptions,
    tries: &AttemptHistory,
    seen: &[WatchResult],
    compat: bool,
) -> CliResult {
    let code = seen.iter().map(|one| exit_code(one, asked)).max_by_key(|code| rank(*code));
    let code = code.unwrap_or_default();
    // story-automator's scripts treat a question as a result, so the exit code must be 0.
    let code = if compat && code == ErrorCode::InputNeeded.exit_code() { 0 } else { code };
    let next = next_commands(seen);
    match (compat, seen) {
        (true, [one]) => context.ui.value(&compat_json(&context.home()?, asked, one))?,
        _ if context.ui.json => {
            context.ui.result(as_json(asked, tries, seen, code, &next), &next)?;
        }
        _ => {
            seen.iter().try_for_each(|one| print_result(context, asked, tries, one))?;
            context.ui.next(&next);
        }
    }
    Ok(ExitCode::from(code))
}

/// Parses the monitor's output for the previous attempt, which is either the whole object or the
/// entry of a single session.
pub(super) fn parse_previous(text: &str) -> Result<PreviousAttempt, ApiError> {
    let wrong = |why: &str| {
        usage(format!("the value of --previous is not valid output of `provost monitor`: {why}"))
            .next("provost monitor ID --json --workflow NAME --item ITEM")
    };
    let value: Value = serde_json::from_str(text).map_err(|why| wrong(&why.to_string()))?;
    let one = match value.get("results").map(Value::as_array) {
        Some(Some(results)) if results.len() == 1 => &results[0],
        Some(_) => return Err(wrong("expected the result of a single session")),
        None => &value,
    };
    let reason = one["reason"].as_str().ok_or_else(|| wrong("the field \"reason\" is missing"))?;
    let tree = one["facts"]["tree"].as_str();
    Ok(PreviousAttempt { reason: reason.to_owned(), tree: tree.map(str::to_owned) })
}

/// Returns the exit code for one session or run. Reaching the awaited state is not a failure,
/// unless a workflow was given and its work is not verified.
fn exit_code(seen: &WatchResult, asked: &WatchOptions) -> u8 {
    let Some(conclusion) = &seen.conclusion else { return 0 };
    match (conclusion.ending, conclusion.reached) {
        (AttemptEnding::TimedOut, _) => ErrorCode::TimedOut.exit_code(),
        (_, Some(true)) if asked.proof.is_some() && !verification(asked, seen).1 => {
            ErrorCode::Failed.exit_code()
        }
        (_, Some(true)) => 0,
        (AttemptEnding::Lost, _) => ErrorCode::Unreachable.exit_code(),
        (_, Some(false)) => ErrorCode::Failed.exit_code(),
        (AttemptEnding::Completed | AttemptEnding::Reached, None) => 0,
        (AttemptEnding::NeedsInput, None) if asked.proof.is_none() => {
            ErrorCode::InputNeeded.exit_code()
        }
        (
            AttemptEnding::NeedsInput
            | AttemptEnding::Incomplete
            | AttemptEnding::Stuck
            | AttemptEnding::Failed,
            None,
        ) => ErrorCode::Failed.exit_code(),
    }
}

/// Ranks exit codes. From worst to best: a known failure, an unknown state, a question, work in
/// progress.
fn rank(code: u8) -> u8 {
    [0, 5, 7, 6, 1].iter().position(|one| *one == code).map_or(0, |at| at as u8)
}

fn ending_name(ending: AttemptEnding) -> &'static str {
    match ending {
        AttemptEnding::Completed => "completed",
        AttemptEnding::Incomplete => "incomplete",
        AttemptEnding::NeedsInput => "needs_input",
        AttemptEnding::Stuck => "stuck",
        AttemptEnding::Failed => "failed",
        AttemptEnding::Lost => "lost",
        AttemptEnding::TimedOut => "timed_out",
        AttemptEnding::Reached => "reached",
    }
}

fn as_json(
    asked: &WatchOptions,
    tries: &AttemptHistory,
    seen: &[WatchResult],
    code: u8,
    next: &[String],
) -> Value {
    let results: Vec<Value> = seen.iter().map(|one| result(asked, tries, one)).collect();
    let window = json!({"ms": asked.window.ms(), "source": asked.window.source});
    let mut value = json!({
        "ok": code == 0, "results": results, "exit_code": code, "stale_after": window,
    });
    let worst = seen.iter().find(|one| exit_code(one, asked) == code && code != 0);
    if let Some((one, conclusion)) = worst.and_then(|one| Some((one, one.conclusion.as_ref()?))) {
        let code = match conclusion.ending {
            AttemptEnding::TimedOut => ErrorCode::TimedOut,
            AttemptEnding::Lost => ErrorCode::Unreachable,
            AttemptEnding::NeedsInput if code == ErrorCode::InputNeeded.exit_code() => {
                ErrorCode::InputNeeded
            }
            AttemptEnding::Completed | AttemptEnding::Incomplete | AttemptEnding::NeedsInput => {
                ErrorCode::Failed
            }
            AttemptEnding::Stuck | AttemptEnding::Failed | AttemptEnding::Reached => {
                ErrorCode::Failed
            }
        };
        let (id, word) = (ui::short_id(one.watched.id()), ending_name(conclusion.ending));
        let message = match &one.watched {
            WatchTarget::Session(row) if code == ErrorCode::InputNeeded => wait::message(row, code),
            WatchTarget::Run(row, _) if code == ErrorCode::InputNeeded => {
                follow::message(row, code)
            }
            WatchTarget::Session(_) | WatchTarget::Run(..) => {
                format!("{id} is {word}: {}", conclusion.reason)
            }
        };
        value["error"] = json!(ApiError::new(code, message).next_all(next));
    }
    value
}

fn result(asked: &WatchOptions, tries: &AttemptHistory, seen: &WatchResult) -> Value {
    let conclusion = seen.conclusion.as_ref();
    let (verifier, verified) = verification(asked, seen);
    let advice = conclusion.and_then(|found| advice(asked, tries, seen, found));
    json!({
        "id": seen.watched.id(),
        "name": seen.watched.name(),
        "kind": match &seen.watched { WatchTarget::Session(_) => "session", WatchTarget::Run(..) => "run" },
        "result": conclusion.map(|found| ending_name(found.ending)),
        "final_state": seen.watched.state(),
        "reached": conclusion.and_then(|found| found.reached),
        "output_verified": verified,
        "verifier": verifier,
        "workflow": asked.proof.as_ref().map(|proof| &proof.workflow),
        "reason": conclusion.map(|found| &found.reason),
        "advice": advice.map(|advice| json!({
            "what": advice.next_step.as_str(),
            "because": advice.because,
            "tries_left": advice.left,
            "agent": advice.agent,
        })),
        "facts": facts(seen),
    })
}

/// Returns the name of the verifier, and whether the work is verified. Without a workflow, returns
/// the result of the checks that Provost ran, if any.
fn verification<'a>(asked: &'a WatchOptions, seen: &WatchResult) -> (Option<&'a str>, bool) {
    if let Some(proof) = &asked.proof {
        return (Some(&proof.name), matches!(seen.verdict, Some(VerifierVerdict::Verified(_))));
    }
    let (checked, proved) = match &seen.watched {
        WatchTarget::Session(row) => (
            row.verification != VerificationName::None,
            row.verification == VerificationName::Passed,
        ),
        WatchTarget::Run(row, _) => (!row.checks.is_empty(), row.verified),
    };
    (checked.then_some("checks"), proved)
}

fn advice(
    asked: &WatchOptions,
    tries: &AttemptHistory,
    seen: &WatchResult,
    found: &Conclusion,
) -> Option<Advice> {
    let proof = asked.proof.as_ref()?;
    // An awaited state that was reached is not evidence that the workflow is completed.
    if found.ending == AttemptEnding::Reached
        && !matches!(seen.verdict, Some(VerifierVerdict::Verified(_)))
    {
        return None;
    }
    Some(proof.policy.advise(WorkflowAttempt {
        no: tries.number,
        ending: found.ending,
        reason: &found.reason,
        verifier_ran: !matches!(&seen.verdict, Some(VerifierVerdict::Incomplete(why)) if why.is_unexamined()),
        tree: seen.watched.tree(),
        previous: tries.previous.as_ref(),
    }))
}

/// Returns the facts on which the conclusion is based.
fn facts(seen: &WatchResult) -> Value {
    let place = seen.watched.worktree();
    let refuted = match &seen.verdict {
        Some(VerifierVerdict::Incomplete(reason)) => {
            let output = reason.output();
            Some(json!({"word": reason.as_str(), "text": reason.to_string(), "printed": output}))
        }
        Some(VerifierVerdict::Verified(_)) | None => None,
    };
    match &seen.watched {
        WatchTarget::Session(row) => json!({
            "sealed": row.sealed, "cause": row.cause, "flags": row.flags, "rule": row.rule,
            "claim": row.claim, "process": row.process, "exit": row.exit, "activity": row.activity,
            "verification": row.verification, "requests": row.requests, "progress": row.progress,
            "retrying": row.retrying, "limited": row.limited, "last_activity_at": row.last_activity_at,
            "since": row.since, "sealed_at": row.sealed_at, "tree": row.tree, "commit": row.commit,
            "directory": place, "refuted": refuted,
        }),
        WatchTarget::Run(row, live) => json!({
            "sealed": row.sealed, "cause": row.cause, "stage": row.stage, "verified": row.verified,
            "requests": row.requests, "tasks": row.tasks, "awaits_approval": row.awaits_approval,
            "working": live.iter().map(|session| &session.id).collect::<Vec<_>>(),
            "since": row.since, "sealed_at": row.sealed_at, "tree": row.tree, "commit": row.commit,
            "directory": place, "refuted": refuted,
        }),
    }
}

/// Converts a result to story-automator's format.
fn compat_json(home: &ProvostHome, asked: &WatchOptions, seen: &WatchResult) -> Value {
    let reason = seen.conclusion.as_ref().map(|found| found.reason.clone());
    let (verifier, verified) = verification(asked, seen);
    let unproved = asked.proof.is_some() && !verified;
    let (done, total, source) = progress(seen);
    json!({
        "final_state": seen.conclusion.as_ref().map(|found| compat_result(found, unproved)),
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

/// Returns story-automator's name for a result. If the awaited state was reached, the underlying result is used unless
/// it is a failure. If a workflow was given, work that its verifier did not accept is never reported as done.
fn compat_result(found: &Conclusion, unproved: bool) -> &'static str {
    match (found.ending, found.natural_ending) {
        (AttemptEnding::Reached, Some(waits @ AttemptEnding::NeedsInput)) => ending_name(waits),
        (AttemptEnding::Reached, _) if unproved => ending_name(AttemptEnding::Incomplete),
        (AttemptEnding::Reached, Some(good @ AttemptEnding::Completed)) => ending_name(good),
        (AttemptEnding::Failed, _) => "crashed",
        (AttemptEnding::TimedOut, _) => "timeout",
        (AttemptEnding::Lost, _) => "not_found",
        (AttemptEnding::Completed | AttemptEnding::Incomplete | AttemptEnding::NeedsInput, _) => {
            ending_name(found.ending)
        }
        (AttemptEnding::Stuck | AttemptEnding::Reached, _) => ending_name(found.ending),
    }
}

/// Returns the progress of a plan. Work without a plan counts as a single step. As in story-automator, this step is
/// done if the work is complete, or if the agent is idle or has exited after doing some work.
fn progress(seen: &WatchResult) -> (u64, u64, &'static str) {
    let (counts, rests, active) = match &seen.watched {
        WatchTarget::Session(row) => {
            let counts = row.progress.as_ref().map(|progress| (progress.done, progress.total));
            let idle = row.state == State::Idle && row.turns > 0;
            (counts, row.sealed || idle, row.process != ProcessName::NotStarted)
        }
        WatchTarget::Run(row, _) => {
            let counts = row.tasks.as_ref().map(|tasks| (tasks.merged as u64, tasks.all as u64));
            (counts, row.sealed, !row.sessions.is_empty())
        }
    };
    let is_complete =
        seen.conclusion.as_ref().is_some_and(|found| found.ending == AttemptEnding::Completed);
    match counts {
        Some((done, total)) => (done, total, "agent"),
        None => (u64::from(active && (rests || is_complete)), 1, "projection"),
    }
}

/// Returns the path of the output file, if it exists.
fn output_file(home: &ProvostHome, watched: &WatchTarget) -> Option<String> {
    let WatchTarget::Session(row) = watched else { return None };
    let journal = home.launch(&row.launches.last()?.id).join("journal");
    journal.is_file().then(|| journal.display().to_string())
}

fn print_result(
    context: &Context,
    asked: &WatchOptions,
    tries: &AttemptHistory,
    seen: &WatchResult,
) -> Result<(), crate::error::Error> {
    let (id, name) = (ui::short_id(seen.watched.id()), ui::escape_line(seen.watched.name()));
    let Some(found) = &seen.conclusion else {
        let state = seen.watched.known_state().unwrap_or("the agent's turns are not visible");
        return context.ui.line(&format!("{id} {name} continues: {state}"));
    };
    let tone = match found.ending {
        AttemptEnding::Completed | AttemptEnding::Reached => Tone::Good,
        AttemptEnding::NeedsInput | AttemptEnding::TimedOut | AttemptEnding::Stuck => Tone::Warn,
        AttemptEnding::Incomplete | AttemptEnding::Failed | AttemptEnding::Lost => Tone::Bad,
    };
    let word = ending_word(asked, seen, found);
    // A workflow's verifier is shown in addition to the state, which already reflects the checks.
    let by = match verification(asked, seen) {
        _ if asked.proof.is_none() || found.ending == AttemptEnding::NeedsInput => String::new(),
        (Some(verifier), true) => format!(", verified by {verifier}"),
        (Some(verifier), false) => format!(", not verified by {verifier}"),
        (None, _) => String::new(),
    };
    let reason = reason_after(&word, &found.reason);
    let reason = reason.map(|text| format!(": {}", ui::join_lines(text))).unwrap_or_default();
    let word = context.ui.paint.paint(tone, &word);
    context.ui.line(&format!("{id} {name} {word}{by}{reason}"))?;
    if found.ending == AttemptEnding::NeedsInput {
        question(context, &seen.watched).iter().for_each(|line| context.ui.notice(line));
    }
    if let Some(VerifierVerdict::Incomplete(reason)) = &seen.verdict
        && let Some(output) = reason.output()
    {
        context.ui.notice(&format!("the verifier printed: {}", ui::join_lines(output)));
    }
    if let Some(advice) = advice(asked, tries, seen, found) {
        let agent = advice.agent.map(|agent| format!(" with {agent}")).unwrap_or_default();
        let what = advice.next_step.as_str();
        context.ui.notice(&format!("advice: {what}{agent} ({})", advice.because));
    }
    Ok(())
}

/// Describes the ending. Unless a workflow was given, uses the same word as `provost ls` for work
/// that succeeded or failed.
fn ending_word(asked: &WatchOptions, seen: &WatchResult, found: &Conclusion) -> String {
    let ended = matches!(found.ending, AttemptEnding::Completed | AttemptEnding::Failed);
    let word = if ended && asked.proof.is_none() {
        seen.watched.state()
    } else {
        ending_name(found.ending)
    };
    word.replace('_', " ")
}

/// Returns a reason without a beginning that would merely repeat the preceding word.
fn reason_after<'r>(word: &str, reason: &'r str) -> Option<&'r str> {
    let rest = reason.strip_prefix("it ").unwrap_or(reason).strip_prefix(word);
    match rest {
        Some("") => None,
        Some(rest) => Some(rest.strip_prefix(": ").unwrap_or(reason)),
        None => Some(reason),
    }
}

/// Returns the open question and the commands that answer it.
fn question(context: &Context, watched: &WatchTarget) -> Vec<String> {
    match watched {
        WatchTarget::Session(row) => wait::input_lines(context, row),
        WatchTarget::Run(row, _) => {
            ui::requests(context.ui.notice_paint, Screen::stderr(), clock::now_ms(), &row.requests)
        }
    }
}

fn next_commands(seen: &[WatchResult]) -> Vec<String> {
    match seen {
        [WatchResult { watched: WatchTarget::Session(row), .. }] => mutation::next_commands(row),
        [WatchResult { watched: WatchTarget::Run(row, _), .. }] => run::next_commands(row),
        several => several
            .iter()
            .map(|one| format!("provost status {}", ui::short_id(one.watched.id())))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_does_not_repeat_the_state() {
        for (word, reason, rest) in [
            ("succeeded", "succeeded: every check passed", Some("every check passed")),
            ("succeeded", "succeeded", None),
            ("succeeded", "the work passed every check", Some("the work passed every check")),
            ("failed", "it failed: crash", Some("crash")),
            ("failed", "it failed", None),
            ("stuck", "silent for 5 s", Some("silent for 5 s")),
        ] {
            assert_eq!(reason_after(word, reason), rest, "{word}: {reason}");
        }
    }
}
