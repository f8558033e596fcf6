//! Explains the state of a session in sentences.

use provost_api::{Vocabulary as _, WhyFact};
use provost_core::{
    lifecycle::{Activity, Cause, ClaimKind, Flag, Rule, StopCause, VerificationFact},
    request::{BlockingMode, RequestStatus},
    session::{
        ClaimSource, LastSignal, Launch, LaunchPhase, ScreenSource, Session, SignalKind,
        WorkLocation,
    },
    shortage::EffectWait,
    time::Moment,
    verdict::Caveats,
};

use super::{MAX_ITEMS, activity_at, clip, is_suspended, phase_detail, wait_reason};
use crate::projection;

/// The claim on which the state is based, and its source.
pub(super) struct EffectiveClaim<'a> {
    pub(super) kind: ClaimKind,
    pub(super) source: Option<ClaimSource>,
    pub(super) at: Option<i64>,
    pub(super) text: Option<&'a str>,
}

/// The reason shown for an agent whose turn the user interrupted.
const INTERRUPTED: &str = "its turn was interrupted; it waits for your next message";

/// The reason shown for an agent without a readable transcript.
const TURNS_UNKNOWN: &str =
    "it runs, but its turns are unknown because no transcript of it can be read";

/// The reason shown for an agent that was asked for a result but has not reported one.
const RESULT_ASKED: &str = "its turn ended without a claim; it was asked for its result";

/// Lists the facts behind a state, each with its value, source and time.
pub fn explain(session: &Session, now_ms: u64) -> (Vec<WhyFact>, String) {
    let (attempt, launch) = (session.attempt(), session.current_launch());
    let mut facts = Vec::new();
    let mut add =
        |fact: &str, value: &str, source: &str, at: Option<i64>, detail: Option<String>| {
            facts.push(WhyFact {
                fact: fact.to_owned(),
                value: value.to_owned(),
                source: source.to_owned(),
                at,
                detail,
            });
        };
    let judged = session.judgement();
    let claim = effective_claim(session, judged.rule);
    let source = claim.source.map_or("none", ClaimSource::as_str);
    add("claim", claim.kind.as_str(), source, claim.at, claim.text.map(str::to_owned));
    let phase = launch.map(phase_detail);
    let (source, at, detail) =
        phase.unwrap_or(("provost", None, Some("not launched yet".to_owned())));
    let stopped = launch.is_some_and(is_suspended).then_some("suspended: a signal stopped it");
    let detail = [stopped.map(str::to_owned), detail].into_iter().flatten();
    let detail = Some(detail.collect::<Vec<_>>().join(", ")).filter(|detail| !detail.is_empty());
    add("process", projection::common::process_name(session).as_str(), source, at, detail);
    let (source, heard, unseen) = if projection::common::is_unseen(session) {
        ("none", None, Some(TURNS_UNKNOWN.to_owned()))
    } else {
        let heard = launch.map(activity_at);
        (session.spec.agent.interface.adapter.as_str(), heard, None)
    };
    add("activity", projection::common::activity_name(session).as_str(), source, heard, unseen);
    let watch = launch.map(|launch| &launch.watch);
    for (by, seen) in watch.into_iter().flat_map(|watch| &watch.records) {
        let place = (seen.place > 0).then(|| format!("up to byte {}", seen.place));
        add("record", seen.said.describe(), by.as_str(), Some(seen.at.wall_ms), place);
    }
    for (by, seen) in watch.into_iter().flat_map(|watch| &watch.hints) {
        let place = format!("inferred from byte {} of the terminal output", seen.place);
        let over = launch.and_then(|launch| stale_signal_suffix(launch, *by, seen, now_ms));
        let over = over.unwrap_or_default();
        let shown = format!("{}{over}", seen.said.describe());
        add("hint", &shown, by.as_str(), Some(seen.at.wall_ms), Some(place));
    }
    if let Some(sight) = watch.and_then(|watch| watch.pane) {
        add("pane", sight.describe(), "tmux", None, None);
    }
    if let Some(found) = launch.and_then(|launch| launch.contradiction(now_ms)) {
        let turn = if found.in_turn { "a turn is open" } else { "no turn is open" };
        let detail = format!("the agent's transcript says that {turn}, and takes precedence");
        let at = Some(found.since.wall_ms);
        add("contradiction", found.shows.describe(), found.by.as_str(), at, Some(detail));
    }
    let open: Vec<_> = session.open_requests().map(|request| request.id.to_string()).collect();
    let count = open.len().to_string();
    add("requests", &count, "agent", None, (!open.is_empty()).then(|| open.join(", ")));
    let receipts = &attempt.verifying.receipts;
    let found = receipts
        .last()
        .map(|receipt| format!("{} on tree {}", receipt.end.summary(), receipt.tree.0));
    add("verification", session.verification().as_str(), "provost's checks", None, found);
    let (decision, by) = describe_decision(session);
    add("decision", decision, by, None, reason(session, judged.cause));
    (facts, describe_rule(session, judged.rule, judged.has(Flag::ExitCodeUnobserved)).to_owned())
}

/// Describes the event after which a screen signal can no longer be true. A stale window title is
/// ignored. If escape codes and the screen keep showing work for a long time, they contradict the
/// transcript instead.
fn stale_signal_suffix(
    launch: &Launch,
    by: ScreenSource,
    seen: &LastSignal,
    now_ms: u64,
) -> Option<&'static str> {
    let (watch, before) = (&launch.watch, |at: Moment| at.mono_ms >= seen.at.mono_ms);
    let works = matches!(seen.said, SignalKind::Working | SignalKind::Retrying);
    let contradicts = launch.contradiction(now_ms).is_some_and(|found| found.by == by);
    let over = launch.activity() == Activity::Idle && watch.turn_changed_at.is_some_and(before);
    if launch.has_ended() {
        Some(", before its process ended")
    } else {
        (works && over && !contradicts).then_some(", before its turn ended")
    }
}

/// Describes how an attempt was decided, and by whom.
fn describe_decision(session: &Session) -> (&'static str, &'static str) {
    let attempt = session.attempt();
    if !attempt.resolutions.is_empty() {
        ("resolved", "operator")
    } else if attempt.cancelled.is_some() {
        let by = match (&session.dismissed, session.spec.run) {
            (Some(_), _) => "its team",
            (None, Some(_)) => "its run",
            (None, None) => "operator",
        };
        ("cancelled", by)
    } else if attempt.superseded {
        ("superseded", "operator")
    } else if attempt.stopped.is_some() {
        ("stopped", "Provost")
    } else {
        ("no", "operator or Provost")
    }
}

/// Describes the rule, with more detail if more is known than the rule requires.
fn describe_rule(session: &Session, rule: Rule, unobserved: bool) -> &'static str {
    let plain = !session.spec.agent.interface.takes_instructions();
    match (rule, unobserved, awaits_result(session), plain) {
        (Rule::Stopped, _, _, _) => describe_stop(session),
        (Rule::Ended, _, _, _) if session.dismissed.is_some() => {
            "Provost stopped it because its team ended; it had made no claim"
        }
        (Rule::Cancelled, _, _, _) if session.dismissed.is_some() => {
            "its team ended, so its work was cancelled"
        }
        (Rule::L10, _, _, _) if session.is_starting() => "it is being started",
        (Rule::L11, _, _, _) if session.awaits_user() => INTERRUPTED,
        (Rule::L11, _, _, _) if projection::common::is_unseen(session) => TURNS_UNKNOWN,
        (Rule::X12, _, _, _) if projection::common::is_stopped(session) => {
            "it made no claim before Provost ended it, although the checks passed"
        }
        (Rule::X13, _, _, _) if projection::common::is_stopped(session) => {
            "it made no claim before Provost ended it, and its work failed verification"
        }
        (Rule::X14, false, _, _) if projection::common::is_stopped(session) => {
            "it made no claim before Provost ended it"
        }
        (Rule::X14, true, _, _) => {
            "it ended with an unknown exit status and never reported success"
        }
        (Rule::L10, _, true, _) => RESULT_ASKED,
        (Rule::L10, _, _, _) if session.current_launch().is_some_and(is_suspended) => {
            "its turn is open, and a signal stopped its process"
        }
        (Rule::X7, _, _, true) => {
            "it ended while it needed input; a plain command takes no answer, so resolve it yourself"
        }
        (rule, _, _, _) => rule.meaning(),
    }
}

/// Describes why Provost itself ended an attempt.
fn describe_stop(session: &Session) -> &'static str {
    match session.attempt().stopped.as_ref().map(|(cause, _)| *cause) {
        Some(StopCause::Timeout) => "Provost stopped it at its time limit",
        Some(StopCause::Budget) => "Provost stopped it because its budget is used up",
        Some(StopCause::Launch) if session.launches.iter().any(has_started) => {
            "it could not be started again"
        }
        Some(StopCause::Launch) => "it could not be started",
        None => Rule::Stopped.meaning(),
    }
}

fn has_started(launch: &Launch) -> bool {
    !matches!(launch.phase, LaunchPhase::Pending | LaunchPhase::Failed { .. })
}

/// Returns the claim that the state is based on. If an agent exited with an open request, it needs
/// input. This remains true for a sealed outcome, although the request is void by then.
pub(super) fn effective_claim(session: &Session, rule: Rule) -> EffectiveClaim<'_> {
    let attempt = session.attempt();
    let claimed = attempt.claim.as_ref();
    let by_request =
        session.claim() == ClaimKind::NeedsInput || matches!(rule, Rule::X7 | Rule::X8 | Rule::X9);
    let asked = session.requests.iter().rev().find(|request| {
        request.asked.waiting == BlockingMode::Blocking
            && matches!(request.status, RequestStatus::Open | RequestStatus::Void)
    });
    let asked =
        if by_request && attempt.claim_kind() != ClaimKind::NeedsInput { asked } else { None };
    match asked {
        Some(request) => EffectiveClaim {
            kind: ClaimKind::NeedsInput,
            source: Some(ClaimSource::Agent),
            at: Some(request.at.wall_ms),
            text: Some(request.asked.title.as_str()).filter(|title| !title.is_empty()),
        },
        None => EffectiveClaim {
            kind: attempt.claim_kind(),
            source: claimed.map(|claim| claim.source),
            at: claimed.map(|claim| claim.at.wall_ms),
            text: claimed.and_then(|claim| claim.text.as_deref()),
        },
    }
}

/// Whether the agent was asked for its result and has claimed nothing since.
fn awaits_result(session: &Session) -> bool {
    let attempt = session.attempt();
    let silent = matches!(attempt.claim_kind(), ClaimKind::None | ClaimKind::Working);
    attempt.result_requested.is_some() && silent && !session.state().is_terminal()
}

pub(super) fn reason(session: &Session, cause: Option<Cause>) -> Option<String> {
    let attempt = session.attempt();
    let resolved = attempt.resolutions.last().map(|resolution| resolution.because.clone());
    let stopped = attempt.stopped.as_ref().map(|(_, detail)| detail.clone());
    let superseded = attempt.superseded.then(|| "a newer instruction came first".to_owned());
    let decided = resolved.or_else(|| attempt.cancelled.clone()).or(stopped).or(superseded);
    let asked = awaits_result(session).then(|| RESULT_ASKED.to_owned());
    let asked = session.awaits_user().then(|| INTERRUPTED.to_owned()).or(asked);
    let dismissed = session.dismissed.as_ref().map(|dismissed| dismissed.because.clone());
    let decided = decided.or(dismissed);
    // If the process crashed, the crash is shown as the reason, regardless of the results of the checks.
    let refuted = || if cause == Some(Cause::Crash) { None } else { describe_refutation(session) };
    let answer = || if attempt.is_sealed() { None } else { describe_waiting_answer(session) };
    let held = decided
        .or_else(refuted)
        .or_else(|| describe_shortage(session))
        .or_else(|| describe_full_disk(session))
        .or_else(answer);
    held.or(asked).as_deref().map(clip)
}

/// Describes why an answer has not been typed yet.
fn describe_waiting_answer(session: &Session) -> Option<String> {
    let message = session.untyped_answer()?;
    let request = message.request.map(|request| format!("q{} ", request.no)).unwrap_or_default();
    let why = wait_reason(session, message).unwrap_or_else(|| "it is being typed".to_owned());
    Some(format!("the answer to {request}waits: {why}"))
}

/// Describes, as text, the resource that an effect is waiting for.
fn describe_shortage(session: &Session) -> Option<String> {
    let EffectWait { shortage, tries, .. } = session.longest_wait()?;
    let tries = if *tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") };
    let name = shortage.resource.name();
    Some(format!("waiting for {name} after {tries}: {}", shortage.detail))
}

/// Describes which full disk blocks the agent.
fn describe_full_disk(session: &Session) -> Option<String> {
    let launch = session.current_launch().filter(|launch| launch.may_be_running())?;
    let dir = launch.disk_full.as_deref()?;
    Some(format!("the disk of {dir} is full: free some space and it resumes by itself"))
}

/// Describes which result refuted the work.
fn describe_refutation(session: &Session) -> Option<String> {
    match session.verification() {
        VerificationFact::Failed(refuted) => Some(refuted.describe()),
        VerificationFact::None | VerificationFact::Passed(_) => None,
    }
}

/// Describes why the changes in a worktree are not on its branch.
pub(super) fn describe_uncommitted(session: &Session) -> Option<String> {
    let reason = session.attempt().verifying.failed.as_ref();
    if !session.spec.checks.is_empty() {
        return None;
    }
    let reason = reason?;
    match &session.spec.work {
        WorkLocation::Worktree { path, .. } => {
            // If the reason mentions the directory, it already describes what happened to it.
            let place = if reason.contains(path.as_str()) {
                String::new()
            } else {
                format!("; the files are in {path}")
            };
            Some(clip(&format!("not committed: {reason}{place}")))
        }
        WorkLocation::Plain | WorkLocation::InPlace { .. } | WorkLocation::Detached { .. } => None,
    }
}

/// Describes why the agent's process cannot be observed at the moment.
pub(super) fn describe_unobservable(session: &Session) -> Option<String> {
    let launch = session.current_launch().filter(|launch| launch.may_be_running())?;
    let why = launch.unobservable.as_deref()?;
    Some(clip(&format!("the agent cannot be observed: {why}")))
}

/// Describes the caveats of the verified commit.
pub(crate) fn describe_caveats(caveats: &Caveats) -> Vec<String> {
    let strayed = caveats.kept_at.as_ref().map(|kept_at| {
        format!("the session's branch does not have the verified commit, which is at {kept_at}")
    });
    let left_out = (!caveats.left_out.is_empty()).then(|| {
        let paths = caveats.left_out.join(", ");
        format!("not in the committed tree, although not ignored: {paths}")
    });
    let protected = (!caveats.protected.is_empty()).then(|| {
        let paths = caveats.protected.join(", ");
        format!(
            "the work changed files that affect the checks or widen permissions; it was checked with the base version of: {paths}"
        )
    });
    strayed.into_iter().chain(left_out).chain(protected).map(|warning| clip(&warning)).collect()
}

/// Describes the approvals where the agent's action contradicts the recorded answer.
pub(super) fn describe_contradictions(session: &Session) -> Vec<String> {
    let warnings = session.contradicted_requests().take(MAX_ITEMS).map(|request| {
        let (no, title) = (request.id.no, &request.asked.title);
        match request.contradicted_by_outcome {
            Some(true) => {
                format!("q{no} was denied here but allowed by an earlier answer elsewhere: {title}")
            }
            Some(false) | None => format!(
                "q{no} was approved here but declined by an earlier answer elsewhere: {title}"
            ),
        }
    });
    warnings.map(|warning| clip(&warning)).collect()
}
