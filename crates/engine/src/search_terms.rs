//! The search terms for sessions, runs, teams and their events: names, and texts written by users
//! and agents.

use provost_core::{
    run::{self, Run},
    session::{self, Session},
    team::{
        self, CriterionEvidence, CriterionJudgement, ShownEvidence, Team, TeamMember, TeamPhase,
    },
};
use provost_ledger::{SearchTerms, TermSet};

pub(crate) fn session_terms(session: &Session) -> SearchTerms {
    let spec = &session.spec;
    let texts = [spec.role.as_deref(), Some(spec.agent.name.as_str()), spec.project.as_deref()];
    let more = [session.conversation.thread.as_deref(), spec.instruction.as_deref()];
    SearchTerms {
        name: TermSet::from_texts([spec.name.as_str()]),
        words: TermSet::from_texts(texts.into_iter().chain(more).flatten()),
        parts: TermSet::default(),
    }
}

pub(crate) fn run_terms(run: &Run) -> SearchTerms {
    let spec = &run.spec;
    let issue = spec.origin.as_ref().map(|origin| origin.identifier.as_str());
    let texts = [spec.goal.as_str(), spec.project.as_str()];
    SearchTerms {
        name: TermSet::from_texts([spec.name.as_str()]),
        words: TermSet::from_texts(texts.into_iter().chain(issue)),
        parts: TermSet::default(),
    }
}

pub(crate) fn team_terms(task: &Team) -> SearchTerms {
    let spec = &task.spec;
    let texts = [Some(spec.goal.as_str()), spec.summary.as_deref(), spec.project.as_deref()];
    let names = task.members.iter().map(|member| member.name.as_str());
    let words = texts.into_iter().flatten().chain(names);
    // Index a team by the complete ids of its sessions, so that a session's teams can be found.
    let sessions = task.members.iter().filter_map(|member| member.session);
    let sessions: Vec<String> = sessions.map(|session| session.0.simple().to_string()).collect();
    let members = task.members.iter().flat_map(member_texts);
    let parts = members.chain([spec.name.as_str()]).chain(sessions.iter().map(String::as_str));
    let name = TermSet::from_texts([spec.name.as_str()]);
    SearchTerms { name, words: TermSet::from_texts(words), parts: TermSet::from_texts(parts) }
}

/// Returns the search terms for a member, including the name of its team.
pub(crate) fn member_terms<'a>(
    task_name: &'a str,
    texts: impl IntoIterator<Item = Option<&'a str>>,
) -> TermSet {
    TermSet::from_texts([task_name].into_iter().chain(texts.into_iter().flatten()))
}

fn member_texts(member: &TeamMember) -> impl Iterator<Item = &str> {
    let labels = [member.labels.thread.as_deref(), member.labels.title.as_deref()];
    [member.name.as_str(), member.role.as_str()].into_iter().chain(labels.into_iter().flatten())
}

/// Returns the search terms for an event. Most session events contain no text and therefore have none.
#[expect(clippy::wildcard_enum_match_arm, reason = "only events with text have search terms")]
pub(crate) fn session_event_terms(event: &session::Event) -> TermSet {
    use session::{
        AttemptEvent, Event, InputEvent, ReportEvent, RequestEvent, StreamEvent, TurnEvent,
    };
    match event {
        Event::Attempt(AttemptEvent::AttemptOpened(e)) => {
            TermSet::from_texts(e.instruction.as_deref())
        }
        Event::Report(ReportEvent::ClaimMade(e)) => TermSet::from_texts(e.text.as_deref()),
        Event::Turn(TurnEvent::TurnEnded(e)) => TermSet::from_texts(e.says.as_deref()),
        Event::Stream(StreamEvent::AgentWarned(e)) => TermSet::from_texts([e.text.as_str()]),
        Event::Request(RequestEvent::RequestOpened(e)) => {
            TermSet::from_texts([e.asked.title.as_str()])
        }
        Event::Attempt(AttemptEvent::AttemptCancelled(e)) => {
            TermSet::from_texts([e.because.as_str()])
        }
        Event::Attempt(AttemptEvent::AttemptResolved(e)) => {
            TermSet::from_texts([e.because.as_str()])
        }
        Event::Attempt(AttemptEvent::AttemptStopped(e)) => TermSet::from_texts([e.detail.as_str()]),
        Event::Input(InputEvent::MessageLost(e)) => {
            TermSet::from_texts([e.key.as_str(), e.reason.as_str()])
        }
        _ => TermSet::default(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only events with text have search terms")]
pub(crate) fn run_event_terms(event: &run::Event) -> TermSet {
    use run::{Event, LandingEvent, PlanEvent, RunChange, TaskEvent};
    match event {
        Event::Run(RunChange::RunCancelled(e)) => TermSet::from_texts([e.because.as_str()]),
        Event::Run(RunChange::RunStopped(e)) => TermSet::from_texts([e.detail.as_str()]),
        Event::Landing(LandingEvent::LandingFailed(e)) => TermSet::from_texts([e.reason.as_str()]),
        Event::Task(TaskEvent::TaskFailed(e)) => TermSet::from_texts([e.detail.as_str()]),
        Event::Plan(PlanEvent::PlanInvalid(e)) => {
            TermSet::from_texts(e.faults.iter().map(String::as_str))
        }
        _ => TermSet::default(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only events with text have search terms")]
pub(crate) fn team_event_terms(event: &team::Event) -> TermSet {
    use team::{
        CheckEvent, CriterionEvent, Event, FinishEvent, LoopEvent, ManagerEvent, MemberEvent,
        MessageEvent, TeamChange,
    };
    match event {
        Event::Message(MessageEvent::MessageStored(e)) => {
            let ids = [Some(e.key.as_str()), e.correlation.as_deref()];
            TermSet::from_texts(ids.into_iter().flatten().chain([e.text.as_str()]))
        }
        Event::Message(MessageEvent::NewsAdded(e)) => TermSet::from_texts([e.text.as_str()]),
        Event::Team(TeamChange::PhaseChanged(e)) => TermSet::from_texts(phase_reason(&e.phase)),
        Event::Member(MemberEvent::MemberLeft(e)) => TermSet::from_texts([e.because.as_str()]),
        Event::Member(MemberEvent::MemberRotated(e)) => TermSet::from_texts([e.handover.as_str()]),
        Event::Message(MessageEvent::MessageAcknowledged(e)) => {
            TermSet::from_texts(e.note.as_deref())
        }
        Event::Message(MessageEvent::MessageCancelled(e)) => {
            TermSet::from_texts([e.because.as_str()])
        }
        Event::Message(MessageEvent::MessageDead(e)) => TermSet::from_texts([e.reason.as_str()]),
        Event::Criterion(CriterionEvent::CriterionProposed(e)) => {
            TermSet::from_texts([e.text.as_str()].into_iter().chain(e.rationale.as_deref()))
        }
        Event::Criterion(CriterionEvent::CriterionJudged(e)) => {
            TermSet::from_texts(judgement_text(&e.judgement))
        }
        Event::Check(CheckEvent::CheckDone(e)) => TermSet::from_texts([e.receipt.command.as_str()]),
        Event::Loop(LoopEvent::EvidenceShown(e)) => {
            TermSet::from_texts([e.name.as_str()].into_iter().chain(evidence_text(&e.shown)))
        }
        Event::Loop(LoopEvent::ContinuationRefused(e)) => {
            TermSet::from_texts([e.why.code(), "refused"])
        }
        Event::Manager(ManagerEvent::MoveRecorded(e)) => TermSet::from_texts([e.because.as_str()]),
        Event::Manager(ManagerEvent::EpilogueDone(e)) => TermSet::from_texts([e.evidence.as_str()]),
        Event::Finish(FinishEvent::WorkChallenged(e)) => TermSet::from_texts([
            e.challenge.failure_mode.as_str(),
            &e.challenge.check,
            &e.challenge.result,
        ]),
        Event::Manager(ManagerEvent::NextChosen(e)) => TermSet::from_texts([e.because.as_str()]),
        Event::Finish(FinishEvent::FinishRequested(e)) => TermSet::from_texts([e.because.as_str()]),
        Event::Finish(FinishEvent::FinishAllowed(e)) => TermSet::from_texts(
            ["allowed"].into_iter().chain(e.blockers.iter().map(|one| one.code())),
        ),
        Event::Finish(FinishEvent::FinishRefused(e)) => TermSet::from_texts(
            ["refused"].into_iter().chain(e.blockers.iter().map(|one| one.code())),
        ),
        _ => TermSet::default(),
    }
}

pub(crate) fn phase_reason(phase: &TeamPhase) -> Option<&str> {
    match phase {
        TeamPhase::Open | TeamPhase::Active => None,
        TeamPhase::Paused { because }
        | TeamPhase::Done { because }
        | TeamPhase::Failed { because }
        | TeamPhase::Cancelled { because } => Some(because),
    }
}

fn judgement_text(judgement: &CriterionJudgement) -> Option<&str> {
    match judgement {
        CriterionJudgement::Satisfy { evidence: CriterionEvidence::Asserted { text, .. } } => {
            Some(text)
        }
        CriterionJudgement::Defer { because }
        | CriterionJudgement::Reject { because }
        | CriterionJudgement::Reopen { because } => Some(because),
        CriterionJudgement::Accept
        | CriterionJudgement::Satisfy { evidence: CriterionEvidence::Verified(_) } => None,
    }
}

fn evidence_text(shown: &ShownEvidence) -> Option<&str> {
    match shown {
        ShownEvidence::Evidence(CriterionEvidence::Asserted { text, .. }) => Some(text),
        ShownEvidence::Challenge(challenge) => Some(&challenge.result),
        ShownEvidence::Evidence(CriterionEvidence::Verified(_))
        | ShownEvidence::Artifact(_)
        | ShownEvidence::Pictures(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use provost_core::ids::SHORT_LEN;

    /// The ledger does not depend on the core, so it defines its own constant for the length.
    #[test]
    fn ledger_indexes_short_ids_as_shown() {
        assert_eq!(provost_ledger::SHORT_ID, SHORT_LEN);
    }
}
