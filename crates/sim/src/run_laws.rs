//! The laws (invariants) of a run, written independently of the rules that uphold them.
//!
//! A [`RunWatch`] checks every event together with the run before and after it, and every settled run together with
//! its sessions.

use std::collections::BTreeSet;

use provost_core::{
    ids::SessionId,
    lifecycle::{ClaimKind, State},
    request::{Fate, Question, Request, RequestKind},
    run::{
        Around, Effect, Ending, Event, Graph, LandStep, Landing, MAX_MERGES, MAX_ROUNDS, Run,
        RunHookEvent, RunHookKey, RunSession, Stage, Stopped,
    },
    session::{Launch, Session},
    time::Moment,
};

use crate::{graph_laws::GraphWatch, laws::Broken};

/// The history of a run that is needed to judge its present state.
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
    pub fn of(run: &Run) -> Result<RunWatch, Broken> {
        let mut watch = RunWatch::default();
        watch.hooks_fire_once(&BTreeSet::new(), Some(RunHookEvent::Opened), run)?;
        Ok(watch)
    }

    /// Checks one event.
    pub fn event(&mut self, before: &Run, event: &Event, after: &Run) -> Result<(), Broken> {
        sealed_is_final(before, event, after)?;
        cancelled_stays(before, event, after)?;
        self.graph.event(before, event, after)?;
        seal_is_due(before, event)?;
        a_new_commit_voids_the_proof(after)?;
        decisions_stand(before, after)?;
        steps_are_bounded(after)?;
        use_is_counted_once(after)?;
        let keys: BTreeSet<RunHookKey> = before.hooks.iter().map(|hook| hook.key).collect();
        self.hooks_fire_once(&keys, announced(event), after)
    }

    /// Checks a settled run, while `elsewhere` agents work for other runs.
    pub fn rest<'s>(
        &self,
        run: &Run,
        now: Moment,
        elsewhere: usize,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Result<(), Broken> {
        law!(refused(run, now, elsewhere, &look), "the run is settled, yet it can advance");
        let at_work = run.agents_at_work();
        law!(
            !run.is_sealed() || at_work == 0,
            "the run has ended, but still counts {at_work} working agents"
        );
        let effects = run.effects();
        let keys: BTreeSet<String> = effects.iter().map(Effect::key).collect();
        law!(keys.len() == effects.len(), "two effects of a run share a key: {effects:?}");
        let mut live = run.live().filter_map(|live| look(live.id));
        // The run waits for their worktrees.
        let ends = |last: &Launch| !last.is_gone() && !last.is_given_up();
        let mut ending = run.sessions.iter().filter_map(|one| look(one.id)?.launches.last());
        law!(
            run.is_sealed()
                || live.next().is_some()
                || ending.any(ends)
                || effects.iter().any(brings_on)
                || run.awaits_approval()
                || elsewhere >= run.spec.planning.machine_parallel as usize,
            "the run is in {} and waits for nothing",
            run.stage.word()
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
                run.leg().stopped.is_none() || one.attempt().is_decided(),
                "a run was stopped, but its session continues"
            );
            answers_are_decisions(run, one)?;
            nothing_is_asked_again(run, one)?;
        }
        the_budget_holds(run, &live)
    }

    fn hooks_fire_once(
        &mut self,
        before: &BTreeSet<RunHookKey>,
        wanted: Option<RunHookEvent>,
        after: &Run,
    ) -> Result<(), Broken> {
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

/// Whether the run cannot advance, except by commands that a session rejects until it changes.
fn refused<'s>(
    run: &Run,
    now: Moment,
    elsewhere: usize,
    look: &impl Fn(SessionId) -> Option<&'s Session>,
) -> bool {
    use provost_core::run::Step;
    match run.advance(&Around { now, elsewhere, look: &|id| look(id) }) {
        None => true,
        Some(Step::Tell(id, command)) => {
            look(id).is_some_and(|session| session.decide(&command, now).is_err())
        }
        // An evicted run advances only with a command about it.
        Some(Step::Event(_) | Step::With(..)) => false,
    }
}

/// Whether an effect leads to progress; nothing waits for a hook or a report card.
fn brings_on(effect: &Effect) -> bool {
    match effect {
        Effect::TakeHead(_)
        | Effect::Bring { .. }
        | Effect::MergeBatch { .. }
        | Effect::Integrate { .. }
        | Effect::Land { .. }
        | Effect::WatchPull { .. }
        | Effect::LookLanded { .. } => true,
        Effect::RunHook(_) | Effect::WriteCard { .. } => false,
    }
}

/// Returns the hook that an event must trigger.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
fn announced(event: &Event) -> Option<RunHookEvent> {
    use provost_core::result::Structured;
    match event {
        Event::QuestionSeen(_) | Event::LandingHeld(_) => Some(RunHookEvent::Question),
        Event::PlanReviewed(_) => Some(RunHookEvent::Planned),
        Event::RunSealed(e) => Some(RunHookEvent::Ended(e.outcome.ending)),
        Event::SessionEnded(e) => match &e.end.result {
            Some(Structured::Review(review)) => {
                (!review.findings.is_empty()).then_some(RunHookEvent::Findings)
            }
            Some(Structured::Triage(_) | Structured::Plan(_) | Structured::PlanReview(_))
            | None => None,
        },
        _ => None,
    }
}

/// A sealed run attempt never changes. Only its pending effects and the next run attempt may follow.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
fn sealed_is_final(before: &Run, event: &Event, after: &Run) -> Result<(), Broken> {
    for (was, is) in before.legs.iter().zip(&after.legs).filter(|(was, _)| was.sealed.is_some()) {
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
        Event::RunResumed(_) => {
            let ending = before.leg().sealed.as_ref().map(|outcome| outcome.ending);
            matches!(ending, Some(Ending::Failed | Ending::Cancelled))
        }
        Event::BudgetRaised(_)
        | Event::HookFinished(_)
        | Event::CardWritten(_)
        | Event::RecordForged(_) => true,
        _ => false,
    };
    law!(may, "{} follows a sealed outcome", event.kind().0);
    Ok(())
}

fn cancelled_stays(before: &Run, event: &Event, after: &Run) -> Result<(), Broken> {
    let (was, is) = (before.leg(), after.legs.get(before.legs.len() - 1));
    let Some(Stopped::Cancelled { .. }) = was.stopped else { return Ok(()) };
    law!(
        is.is_some_and(|is| is.stopped == was.stopped),
        "a cancel was undone by {}",
        event.kind().0
    );
    let sealed = is.and_then(|is| is.sealed.as_ref());
    law!(
        sealed.is_none_or(|outcome| outcome.ending == Ending::Cancelled),
        "a cancelled run was sealed as {sealed:?}"
    );
    law!(!matches!(event, Event::SessionOwed(_)), "a cancelled run starts a session");
    Ok(())
}

/// A run is sealed only when no session works for it, nothing is landing, and its outcome is verified.
fn seal_is_due(before: &Run, event: &Event) -> Result<(), Broken> {
    let Event::RunSealed(sealed) = event else { return Ok(()) };
    law!(!before.is_sealed(), "a run attempt is sealed twice");
    law!(sealed.leg == before.leg().no, "a run attempt other than the current one is sealed");
    law!(!before.is_live(), "a run is sealed while a session works for it");
    let landed = matches!(before.landing, Landing::Done(_));
    let ending = sealed.outcome.ending;
    let leg = before.leg();
    law!(
        leg.stopped.is_none() || before.stage != Stage::Land || landed || leg.landing_over,
        "a run is sealed as {} while it may be landing",
        ending.word()
    );
    let wanted = match (&leg.stopped, &before.proof, &before.head) {
        (Some(Stopped::Cancelled { .. }), _, _) => Ending::Cancelled,
        (Some(Stopped::Failed { .. }), _, _) => Ending::Failed,
        (None, Some(proof), Some(head)) if proof.is_for(head) => Ending::Succeeded,
        (None, _, _) => Ending::Completed,
    };
    law!(ending == wanted, "a run is sealed as {} and not as {}", ending.word(), wanted.word());
    let only_planned = before.spec.planning.only && before.stage == Stage::PlanReview;
    law!(leg.stopped.is_some() || landed || only_planned, "a run succeeds without landing");
    let tasks = before.graph.iter().flat_map(Graph::tasks).flat_map(|(plan, _)| &plan.checks);
    let checked = before.spec.checks.iter().chain(tasks).next().is_some();
    // A user may accept work as it is. That is reported as completed, never as succeeded.
    let taken = |one: &RunSession| one.end.as_ref().is_some_and(|end| end.state == State::Accepted);
    let accepted = before.sessions.iter().any(taken);
    law!(
        leg.stopped.is_some()
            || only_planned
            || !checked
            || accepted
            || ending == Ending::Succeeded,
        "a run succeeds on a tree on which its checks did not pass"
    );
    let undone = before.graph.as_ref().is_some_and(|graph| !graph.is_done());
    law!(leg.stopped.is_some() || !undone, "a run succeeds without merging all of its tasks");
    Ok(())
}

fn a_new_commit_voids_the_proof(after: &Run) -> Result<(), Broken> {
    let Some(proof) = &after.proof else { return Ok(()) };
    let fits = after.head.as_ref().is_some_and(|head| proof.is_for(head));
    law!(fits, "the verdict is for a tree other than the newest");
    Ok(())
}

fn decisions_stand(before: &Run, after: &Run) -> Result<(), Broken> {
    law!(after.decisions.starts_with(&before.decisions), "a decision was changed");
    let all: BTreeSet<(&str, &str)> =
        after.decisions.iter().map(|one| (one.id.as_str(), one.question.as_str())).collect();
    law!(all.len() == after.decisions.len(), "a decision was kept twice");
    Ok(())
}

/// Every review comment of a pull request is handled or dropped exactly once; the steps of a run attempt are
/// bounded.
fn steps_are_bounded(after: &Run) -> Result<(), Broken> {
    let (mut merges, mut rounds) = (0, 0);
    let mut seen = BTreeSet::new();
    for (no, step) in after.steps.iter().enumerate() {
        let counts = usize::from(no >= after.leg().steps);
        match step {
            LandStep::Merge { .. } => merges += counts,
            LandStep::Answer { remarks } => {
                rounds += counts;
                for remark in remarks {
                    law!(seen.insert(&remark.id), "{} is handled twice", remark.id);
                }
            }
        }
    }
    for remark in &after.remarks_left {
        law!(
            seen.insert(&remark.id),
            "{} is dropped, but was handled or dropped before",
            remark.id
        );
    }
    law!(merges <= MAX_MERGES && rounds <= MAX_ROUNDS, "{merges} merges and {rounds} rounds");
    Ok(())
}

fn use_is_counted_once(after: &Run) -> Result<(), Broken> {
    let counted: u64 = after.sessions.iter().map(|one| one.counted.0.total()).sum();
    let turns: u32 = after.sessions.iter().map(|one| one.counted.1).sum();
    law!(
        (counted, turns) == (after.usage.total(), after.turns),
        "the sessions used {counted} tokens, the run counts {}",
        after.usage.total()
    );
    Ok(())
}

fn wording<'a>(request: &'a Request, question: &'a Question) -> &'a str {
    [&question.question, &question.header]
        .into_iter()
        .find(|words| !words.is_empty())
        .unwrap_or(&request.asked.title)
}

fn decided<'r>(
    run: &'r Run,
    request: &Request,
    question: &Question,
) -> Option<&'r Option<Vec<String>>> {
    let words = wording(request, question);
    let found = run.decisions.iter().find(|one| one.id == question.id && one.question == words);
    found.map(|one| &one.answer)
}

fn questions(session: &Session) -> impl Iterator<Item = &Request> {
    session.requests.iter().filter(|request| request.asked.kind == RequestKind::Question)
}

/// Answers of users become decisions, but secrets are not kept.
fn answers_are_decisions(run: &Run, live: &Session) -> Result<(), Broken> {
    for request in questions(live).filter(|request| request.fate == Fate::Answered) {
        for question in &request.asked.questions {
            let Some(answer) = decided(run, request, question) else {
                return Err(format!("the answer to {} is not a decision", question.id));
            };
            law!(!question.secret || answer.is_none(), "the secret {} was stored", question.id);
        }
    }
    Ok(())
}

fn nothing_is_asked_again(run: &Run, live: &Session) -> Result<(), Broken> {
    let ends =
        live.attempt().is_decided() || live.current_launch().is_some_and(Launch::is_being_ended);
    for request in questions(live).filter(|request| request.is_open() && !ends) {
        let known = |question: &Question| {
            !question.secret && matches!(decided(run, request, question), Some(Some(_)))
        };
        let asked = &request.asked.questions;
        let again = !asked.is_empty() && asked.iter().all(known);
        law!(!again, "{:?} was decided, but is asked again", request.asked.questions);
    }
    Ok(())
}

/// No session continues once all sessions together have used up the budget.
fn the_budget_holds(run: &Run, live: &[&Session]) -> Result<(), Broken> {
    let counted =
        |id: SessionId| run.live().find(|one| one.id == id).map_or(0, |one| one.counted.0.total());
    let more: u64 = live.iter().map(|one| one.usage.total().saturating_sub(counted(one.id))).sum();
    let used = run.usage.total() + more;
    for one in live {
        let (Some(limit), Some(_)) = (run.budget.tokens, one.budget.tokens) else {
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
