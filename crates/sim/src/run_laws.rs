//! The laws (invariants) of a run, written independently of the rules that uphold them.
//!
//! A [`RunWatch`] checks every event together with the run before and after it, and every settled run together with
//! its sessions.

use std::collections::BTreeSet;

use provost_core::{
    ids::SessionId,
    lifecycle::{ClaimKind, State},
    request::{Request, RequestKind, RequestQuestion, RequestStatus},
    run::{
        Event, LandStep, LandingEvent, LandingState, MAX_MERGES, MAX_ROUNDS, PlanEvent, Run,
        RunAdvanceContext, RunChange, RunEffect, RunEnding, RunHookEvent, RunHookKey, RunSession,
        RunStage, RunStop, StageEvent, TaskGraph, VerificationEvent,
    },
    session::{Launch, Session},
    time::Moment,
};

use crate::{graph_laws::GraphWatch, session_laws::BrokenLaw};

/// The part of a run's history that is needed to judge its current state.
#[derive(Clone, Debug, Default)]
pub struct RunWatch {
    hooks: BTreeSet<RunHookKey>,
    graph: GraphWatch,
}

macro_rules! law {
    ($holds:expr, $($words:tt)+) => {
        if !$holds { return Err(format!($($words)+)); }
    };
}

impl RunWatch {
    /// Starts watching a run that was just opened.
    pub fn start(run: &Run) -> Result<RunWatch, BrokenLaw> {
        let mut watch = RunWatch::default();
        watch.hooks_fire_once(&BTreeSet::new(), Some(RunHookEvent::Opened), run)?;
        Ok(watch)
    }

    /// Checks one event.
    pub fn check_event(
        &mut self,
        before: &Run,
        event: &Event,
        after: &Run,
    ) -> Result<(), BrokenLaw> {
        sealed_is_final(before, event, after)?;
        cancel_is_final(before, event, after)?;
        self.graph.event(before, event, after)?;
        seal_is_due(before, event)?;
        new_commit_voids_verdict(after)?;
        decisions_persist(before, after)?;
        steps_are_bounded(after)?;
        use_is_counted_once(after)?;
        let keys: BTreeSet<RunHookKey> = before.hooks.iter().map(|hook| hook.key).collect();
        self.hooks_fire_once(&keys, required_hook(event), after)
    }

    /// Checks a settled run. `elsewhere` is the number of agents that work for other runs.
    pub fn check_settled<'s>(
        &self,
        run: &Run,
        now: Moment,
        elsewhere: usize,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Result<(), BrokenLaw> {
        law!(cannot_advance(run, now, elsewhere, &look), "the run is settled, yet it can advance");
        let at_work = run.agents_at_work();
        law!(
            !run.is_sealed() || at_work == 0,
            "the run has ended, but still counts {at_work} working agents"
        );
        let effects = run.effects();
        let keys: BTreeSet<String> = effects.iter().map(RunEffect::key).collect();
        law!(keys.len() == effects.len(), "two effects of a run share a key: {effects:?}");
        let mut live = run.live().filter_map(|live| look(live.id));
        // The run waits for the worktrees of launches that are still ending.
        let ends = |last: &Launch| !last.is_gone() && !last.is_stop_abandoned();
        let mut ending = run.sessions.iter().filter_map(|one| look(one.id)?.launches.last());
        law!(
            run.is_sealed()
                || live.next().is_some()
                || ending.any(ends)
                || effects.iter().any(makes_progress)
                || run.awaits_approval()
                || elsewhere >= run.spec.planning.machine_parallel as usize,
            "the run is in {} and waits for nothing",
            run.stage.as_str()
        );
        for session in run.sessions.iter().filter_map(|one| look(one.id)) {
            let lives = !session.attempt().is_sealed();
            let known = run.live().any(|live| live.id == session.id);
            law!(!lives || known, "{} is live, but its run does not know it", session.spec.name);
        }
        let live: Vec<&Session> = run.live().filter_map(|live| look(live.id)).collect();
        for one in &live {
            law!(!one.attempt().is_sealed(), "a session has ended, but its run does not know it");
            law!(
                run.attempt().stopped.is_none() || one.attempt().is_decided(),
                "a run was stopped, but its session continues"
            );
            answers_are_decisions(run, one)?;
            nothing_is_asked_again(run, one)?;
        }
        budget_holds(run, &live)
    }

    fn hooks_fire_once(
        &mut self,
        before: &BTreeSet<RunHookKey>,
        wanted: Option<RunHookEvent>,
        after: &Run,
    ) -> Result<(), BrokenLaw> {
        let fresh: Vec<RunHookKey> =
            after.hooks.iter().map(|hook| hook.key).filter(|key| !before.contains(key)).collect();
        for key in &fresh {
            law!(self.hooks.insert(*key), "the hook key {} {} was used before", key.event, key.no);
        }
        let keys: BTreeSet<RunHookKey> = after.hooks.iter().map(|hook| hook.key).collect();
        law!(keys.len() == after.hooks.len(), "a hook key of a run is pending twice");
        let wanted = wanted.filter(|hook| after.spec.hooks.contains_key(hook));
        let fired: Vec<RunHookEvent> = fresh.iter().map(|key| key.event).collect();
        law!(
            fired == Vec::from_iter(wanted),
            "a hook of a run must be pending exactly once: wanted {wanted:?}, pending {fired:?}"
        );
        Ok(())
    }
}

/// Whether the run cannot advance. A command does not count if its session currently rejects it.
fn cannot_advance<'s>(
    run: &Run,
    now: Moment,
    elsewhere: usize,
    look: &impl Fn(SessionId) -> Option<&'s Session>,
) -> bool {
    use provost_core::run::RunStep;
    match run.advance(&RunAdvanceContext { now, other_agents: elsewhere, session: &|id| look(id) })
    {
        None => true,
        Some(RunStep::Command(id, command)) => {
            look(id).is_some_and(|session| session.decide(&command, now).is_err())
        }
        // A run that was evicted advances only when it receives a command.
        Some(RunStep::Event(_) | RunStep::EventAndOrder(..)) => false,
    }
}

/// Whether the result of an effect lets its run continue. A run never waits for a hook or a report.
fn makes_progress(effect: &RunEffect) -> bool {
    match effect {
        RunEffect::CommitLeftovers(_)
        | RunEffect::MoveWorktree { .. }
        | RunEffect::MergeBatch { .. }
        | RunEffect::Verify { .. }
        | RunEffect::Integrate { .. }
        | RunEffect::Land { .. }
        | RunEffect::WatchPullRequest { .. }
        | RunEffect::CheckLanded { .. } => true,
        RunEffect::RunHook(_) | RunEffect::WriteReport { .. } => false,
    }
}

/// Returns the hook that an event must trigger.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
fn required_hook(event: &Event) -> Option<RunHookEvent> {
    use provost_core::result::StructuredResult;
    match event {
        Event::Stage(StageEvent::RequestObserved(_))
        | Event::Landing(LandingEvent::LandingHeld(_)) => Some(RunHookEvent::Question),
        Event::Plan(PlanEvent::PlanReviewed(_)) => Some(RunHookEvent::Planned),
        Event::Run(RunChange::RunSealed(e)) => Some(RunHookEvent::Ended(e.outcome.ending)),
        Event::Stage(StageEvent::SessionEnded(e)) => match &e.end.result {
            Some(StructuredResult::Review(review)) => {
                (!review.findings.is_empty()).then_some(RunHookEvent::Findings)
            }
            Some(
                StructuredResult::Triage(_)
                | StructuredResult::Plan(_)
                | StructuredResult::PlanReview(_),
            )
            | None => None,
        },
        _ => None,
    }
}

/// A sealed run attempt never changes. Only its pending effects and the next run attempt may follow.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
fn sealed_is_final(before: &Run, event: &Event, after: &Run) -> Result<(), BrokenLaw> {
    for (was, is) in
        before.attempts.iter().zip(&after.attempts).filter(|(was, _)| was.sealed.is_some())
    {
        law!(
            was.sealed == is.sealed && was.stopped == is.stopped,
            "the sealed run attempt {} was changed by {}",
            was.no,
            event.kind().0
        );
    }
    if !before.is_sealed() {
        return Ok(());
    }
    let may = match event {
        Event::Run(RunChange::RunResumed(_)) => {
            let ending = before.attempt().sealed.as_ref().map(|outcome| outcome.ending);
            matches!(ending, Some(RunEnding::Failed | RunEnding::Cancelled))
        }
        Event::Run(
            RunChange::BudgetRaised(_)
            | RunChange::HookFinished(_)
            | RunChange::RunReportWritten(_)
            | RunChange::RecordForged(_),
        ) => true,
        _ => false,
    };
    law!(may, "{} follows a sealed outcome", event.kind().0);
    Ok(())
}

fn cancel_is_final(before: &Run, event: &Event, after: &Run) -> Result<(), BrokenLaw> {
    let (was, is) = (before.attempt(), after.attempts.get(before.attempts.len() - 1));
    let Some(RunStop::Cancelled { .. }) = was.stopped else { return Ok(()) };
    law!(
        is.is_some_and(|is| is.stopped == was.stopped),
        "a cancel was undone by {}",
        event.kind().0
    );
    let sealed = is.and_then(|is| is.sealed.as_ref());
    law!(
        sealed.is_none_or(|outcome| outcome.ending == RunEnding::Cancelled),
        "a cancelled run was sealed as {sealed:?}"
    );
    let starts = matches!(
        event,
        Event::Stage(StageEvent::RunSessionOpened(_))
            | Event::Verification(VerificationEvent::VerificationRequested(_))
    );
    law!(!starts, "a cancelled run continues with {}", event.kind().0);
    Ok(())
}

/// A run is sealed only when no session works for it, nothing is landing, and its outcome is verified.
fn seal_is_due(before: &Run, event: &Event) -> Result<(), BrokenLaw> {
    let Event::Run(RunChange::RunSealed(sealed)) = event else { return Ok(()) };
    law!(!before.is_sealed(), "a run attempt is sealed twice");
    law!(
        sealed.attempt == before.attempt().no,
        "a run attempt other than the current one is sealed"
    );
    law!(!before.is_live(), "a run is sealed while a session works for it");
    let landed = matches!(before.landing, LandingState::Done(_));
    let ending = sealed.outcome.ending;
    let attempt = before.attempt();
    law!(
        attempt.stopped.is_none()
            || before.stage != RunStage::Land
            || landed
            || attempt.landing_aborted,
        "a run is sealed as {} while it may be landing",
        ending.as_str()
    );
    let wanted = match (&attempt.stopped, &before.proof, &before.head) {
        (Some(RunStop::Cancelled { .. }), _, _) => RunEnding::Cancelled,
        (Some(RunStop::Failed { .. }), _, _) => RunEnding::Failed,
        (None, Some(proof), Some(head)) if proof.is_for(head) => RunEnding::Succeeded,
        (None, _, _) => RunEnding::Completed,
    };
    law!(ending == wanted, "a run is sealed as {} and not as {}", ending.as_str(), wanted.as_str());
    let only_planned = before.spec.planning.only && before.stage == RunStage::PlanReview;
    law!(attempt.stopped.is_some() || landed || only_planned, "a run succeeds without landing");
    let tasks = before.graph.iter().flat_map(TaskGraph::tasks).flat_map(|(plan, _)| &plan.checks);
    // A check that only agents wrote proves nothing.
    let named_by_agents = before.agent_checks();
    let tasks = tasks.filter(|check| !named_by_agents.contains(check));
    let checked = before.spec.checks.iter().chain(tasks).next().is_some();
    // A user may accept work as it is. Accepted work is reported as completed, never as succeeded.
    let taken = |one: &RunSession| one.end.as_ref().is_some_and(|end| end.state == State::Accepted);
    let accepted = before.sessions.iter().any(taken);
    law!(
        attempt.stopped.is_some()
            || only_planned
            || !checked
            || accepted
            || ending == RunEnding::Succeeded,
        "a run succeeds on a tree on which its checks did not pass"
    );
    let undone = before.graph.as_ref().is_some_and(|graph| !graph.is_done());
    law!(attempt.stopped.is_some() || !undone, "a run succeeds without merging all of its tasks");
    Ok(())
}

fn new_commit_voids_verdict(after: &Run) -> Result<(), BrokenLaw> {
    let Some(proof) = &after.proof else { return Ok(()) };
    let fits = after.head.as_ref().is_some_and(|head| proof.is_for(head));
    law!(fits, "the verdict is for a tree other than the newest");
    Ok(())
}

fn decisions_persist(before: &Run, after: &Run) -> Result<(), BrokenLaw> {
    law!(after.decisions.starts_with(&before.decisions), "a decision was changed");
    let all: BTreeSet<(&str, &str)> =
        after.decisions.iter().map(|one| (one.id.as_str(), one.question.as_str())).collect();
    law!(all.len() == after.decisions.len(), "a decision was kept twice");
    Ok(())
}

/// Every review comment of a pull request is handled or dropped exactly once; the steps of a run attempt are
/// bounded.
fn steps_are_bounded(after: &Run) -> Result<(), BrokenLaw> {
    let (mut merges, mut rounds) = (0, 0);
    let mut seen = BTreeSet::new();
    for (no, step) in after.steps.iter().enumerate() {
        let counts = usize::from(no >= after.attempt().steps);
        match step {
            LandStep::Merge { .. } => merges += counts,
            LandStep::Answer { comments } => {
                rounds += counts;
                for comment in comments {
                    law!(seen.insert(&comment.id), "{} is handled twice", comment.id);
                }
            }
        }
    }
    for comment in &after.comments_dropped {
        law!(
            seen.insert(&comment.id),
            "{} is dropped, but was handled or dropped before",
            comment.id
        );
    }
    law!(merges <= MAX_MERGES && rounds <= MAX_ROUNDS, "{merges} merges and {rounds} rounds");
    Ok(())
}

fn use_is_counted_once(after: &Run) -> Result<(), BrokenLaw> {
    let counted: u64 = after.sessions.iter().map(|one| one.counted.usage.total()).sum();
    let turns: u32 = after.sessions.iter().map(|one| one.counted.turns).sum();
    law!(
        (counted, turns) == (after.usage.total(), after.turns),
        "the sessions used {counted} tokens, the run counts {}",
        after.usage.total()
    );
    Ok(())
}

fn wording<'a>(request: &'a Request, question: &'a RequestQuestion) -> &'a str {
    [&question.question, &question.header]
        .into_iter()
        .find(|words| !words.is_empty())
        .unwrap_or(&request.asked.title)
}

fn decided<'r>(
    run: &'r Run,
    request: &Request,
    question: &RequestQuestion,
) -> Option<&'r Option<Vec<String>>> {
    let words = wording(request, question);
    let found = run.decisions.iter().find(|one| one.id == question.id && one.question == words);
    found.map(|one| &one.answer)
}

fn questions(session: &Session) -> impl Iterator<Item = &Request> {
    session.requests.iter().filter(|request| request.asked.kind == RequestKind::Question)
}

/// Users' answers become decisions, but secret answers are not stored.
fn answers_are_decisions(run: &Run, live: &Session) -> Result<(), BrokenLaw> {
    for request in questions(live).filter(|request| request.status == RequestStatus::Answered) {
        for question in &request.asked.questions {
            let Some(answer) = decided(run, request, question) else {
                return Err(format!("the answer to {} is not a decision", question.id));
            };
            law!(!question.secret || answer.is_none(), "the secret {} was stored", question.id);
        }
    }
    Ok(())
}

fn nothing_is_asked_again(run: &Run, live: &Session) -> Result<(), BrokenLaw> {
    let ends =
        live.attempt().is_decided() || live.current_launch().is_some_and(Launch::is_stopping);
    for request in questions(live).filter(|request| request.is_open() && !ends) {
        let known = |question: &RequestQuestion| {
            !question.secret && matches!(decided(run, request, question), Some(Some(_)))
        };
        let asked = &request.asked.questions;
        let again = !asked.is_empty() && asked.iter().all(known);
        law!(!again, "{:?} was decided, but is asked again", request.asked.questions);
    }
    Ok(())
}

/// Once the sessions together have used up the budget, none of them continues.
fn budget_holds(run: &Run, live: &[&Session]) -> Result<(), BrokenLaw> {
    let counted = |id: SessionId| {
        run.live().find(|one| one.id == id).map_or(0, |one| one.counted.usage.total())
    };
    let more: u64 =
        live.iter().map(|one| one.spending.usage.total().saturating_sub(counted(one.id))).sum();
    let used = run.usage.total() + more;
    for one in live {
        let (Some(limit), Some(_)) = (run.budget.tokens, one.spending.budget.tokens) else {
            continue;
        };
        let claimed = matches!(one.claim(), ClaimKind::Completed | ClaimKind::Failed);
        law!(
            used < limit || claimed || one.attempt().is_decided(),
            "{used} of {limit} tokens are used, but a session continues"
        );
    }
    Ok(())
}
