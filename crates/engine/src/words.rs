//! The search terms of sessions, runs, teams and their events: names, and texts of users and
//! agents.

use provost_core::{
    run::{self, Run},
    session::{self, Session},
    task::{self, Evidence, Judgement, Member, Phase, Shown, Task},
};
use provost_ledger::{FoundBy, Words};

pub(crate) fn of_session(session: &Session) -> FoundBy {
    let spec = &session.spec;
    let texts = [spec.role.as_deref(), Some(spec.agent.name.as_str()), spec.project.as_deref()];
    let more = [session.thread.as_deref(), spec.instruction.as_deref()];
    FoundBy {
        name: Words::of([spec.name.as_str()]),
        words: Words::of(texts.into_iter().chain(more).flatten()),
        parts: Words::default(),
    }
}

pub(crate) fn of_run(run: &Run) -> FoundBy {
    let spec = &run.spec;
    let issue = spec.origin.as_ref().map(|origin| origin.identifier.as_str());
    let texts = [spec.goal.as_str(), spec.project.as_str()];
    FoundBy {
        name: Words::of([spec.name.as_str()]),
        words: Words::of(texts.into_iter().chain(issue)),
        parts: Words::default(),
    }
}

pub(crate) fn of_task(task: &Task) -> FoundBy {
    let spec = &task.spec;
    let texts = [Some(spec.goal.as_str()), spec.summary.as_deref(), spec.project.as_deref()];
    let names = task.members.iter().map(|member| member.name.as_str());
    let words = texts.into_iter().flatten().chain(names);
    // A session is indexed by its whole id, so that its teams can be found by it.
    let sessions = task.members.iter().filter_map(|member| member.session);
    let sessions: Vec<String> = sessions.map(|session| session.0.simple().to_string()).collect();
    let members = task.members.iter().flat_map(member_texts);
    let parts = members.chain([spec.name.as_str()]).chain(sessions.iter().map(String::as_str));
    let name = Words::of([spec.name.as_str()]);
    FoundBy { name, words: Words::of(words), parts: Words::of(parts) }
}

/// Returns the search terms of a member, with the name of its team.
pub(crate) fn of_member<'a>(
    task_name: &'a str,
    texts: impl IntoIterator<Item = Option<&'a str>>,
) -> Words {
    Words::of([task_name].into_iter().chain(texts.into_iter().flatten()))
}

fn member_texts(member: &Member) -> impl Iterator<Item = &str> {
    let labels = [member.labels.thread.as_deref(), member.labels.title.as_deref()];
    [member.name.as_str(), member.role.word()].into_iter().chain(labels.into_iter().flatten())
}

/// Returns the search terms of an event. Most events of a session contain no text and have none.
#[expect(clippy::wildcard_enum_match_arm, reason = "only events with text have search terms")]
pub(crate) fn of_event(event: &session::Event) -> Words {
    use session::Event;
    match event {
        Event::AttemptOpened(e) => Words::of(e.instruction.as_deref()),
        Event::ClaimMade(e) => Words::of(e.text.as_deref()),
        Event::TurnEnded(e) => Words::of(e.says.as_deref()),
        Event::AgentWarned(e) => Words::of([e.text.as_str()]),
        Event::RequestOpened(e) => Words::of([e.asked.title.as_str()]),
        Event::AttemptCancelled(e) => Words::of([e.because.as_str()]),
        Event::AttemptResolved(e) => Words::of([e.because.as_str()]),
        Event::AttemptStopped(e) => Words::of([e.detail.as_str()]),
        Event::MessageLost(e) => Words::of([e.key.as_str(), e.reason.as_str()]),
        _ => Words::default(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only events with text have search terms")]
pub(crate) fn of_run_event(event: &run::Event) -> Words {
    use run::Event;
    match event {
        Event::RunCancelled(e) => Words::of([e.because.as_str()]),
        Event::RunStopped(e) => Words::of([e.detail.as_str()]),
        Event::LandFailed(e) => Words::of([e.reason.as_str()]),
        Event::TaskFailed(e) => Words::of([e.detail.as_str()]),
        Event::PlanFaulty(e) => Words::of(e.faults.iter().map(String::as_str)),
        _ => Words::default(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only events with text have search terms")]
pub(crate) fn of_task_event(event: &task::Event) -> Words {
    use task::Event;
    match event {
        Event::MessageStored(e) => {
            let ids = [Some(e.key.as_str()), e.correlation.as_deref()];
            Words::of(ids.into_iter().flatten().chain([e.text.as_str()]))
        }
        Event::NewsAdded(e) => Words::of([e.text.as_str()]),
        Event::PhaseChanged(e) => Words::of(because(&e.phase)),
        Event::MemberLeft(e) => Words::of([e.because.as_str()]),
        Event::MemberRotated(e) => Words::of([e.handover.as_str()]),
        Event::MessageAcknowledged(e) => Words::of(e.note.as_deref()),
        Event::MessageCancelled(e) => Words::of([e.because.as_str()]),
        Event::MessageDead(e) => Words::of([e.reason.as_str()]),
        Event::CriterionProposed(e) => {
            Words::of([e.text.as_str()].into_iter().chain(e.rationale.as_deref()))
        }
        Event::CriterionJudged(e) => Words::of(judged(&e.judgement)),
        Event::CheckDone(e) => Words::of([e.receipt.command.as_str()]),
        Event::EvidenceShown(e) => Words::of([e.name.as_str()].into_iter().chain(shown(&e.shown))),
        Event::ContinuationRefused(e) => Words::of([e.why.code(), "refused"]),
        Event::MoveRecorded(e) => Words::of([e.because.as_str()]),
        Event::EpilogueDone(e) => Words::of([e.evidence.as_str()]),
        Event::WorkAttacked(e) => {
            Words::of([e.attack.failure_mode.as_str(), &e.attack.check, &e.attack.result])
        }
        Event::NextChosen(e) => Words::of([e.because.as_str()]),
        Event::FinishAsked(e) => Words::of([e.because.as_str()]),
        Event::FinishAllowed(e) => {
            Words::of(["allowed"].into_iter().chain(e.blockers.iter().map(|one| one.code())))
        }
        Event::FinishRefused(e) => {
            Words::of(["refused"].into_iter().chain(e.blockers.iter().map(|one| one.code())))
        }
        _ => Words::default(),
    }
}

pub(crate) fn because(phase: &Phase) -> Option<&str> {
    match phase {
        Phase::Open | Phase::Active => None,
        Phase::Paused { because }
        | Phase::Done { because }
        | Phase::Failed { because }
        | Phase::Cancelled { because } => Some(because),
    }
}

fn judged(judgement: &Judgement) -> Option<&str> {
    match judgement {
        Judgement::Satisfy { evidence: Evidence::Asserted { text, .. } } => Some(text),
        Judgement::Defer { because }
        | Judgement::Reject { because }
        | Judgement::Reopen { because } => Some(because),
        Judgement::Accept | Judgement::Satisfy { evidence: Evidence::Verified(_) } => None,
    }
}

fn shown(shown: &Shown) -> Option<&str> {
    match shown {
        Shown::Evidence(Evidence::Asserted { text, .. }) => Some(text),
        Shown::Attack(attack) => Some(&attack.result),
        Shown::Evidence(Evidence::Verified(_)) | Shown::Artifact(_) | Shown::Pictures(_) => None,
    }
}
