//! Sessions on the board.

use provost_core::{
    ids::{LaunchId, RunId, SessionId},
    session::{
        DeadlineKind, Event, ExternalAgent, LimitSlot, Session, SessionCommand, SessionRejection,
        SessionSpec,
    },
    time::Moment,
};

use super::{BoardTransaction, MAX_FOLLOW_UPS, draft::Draft};
use crate::limit_queue::{LimitQueue, ResumeSlot};

impl BoardTransaction<'_> {
    /// Returns the session that an adopted agent already belongs to. This includes sessions opened
    /// in this transaction.
    pub fn has_agent(&self, adopted: &ExternalAgent) -> Option<&Session> {
        self.sessions.iter().find(|session| session.has_agent(adopted))
    }

    /// Opens a session.
    pub fn open(&mut self, id: SessionId, spec: SessionSpec, actor: &str) -> &Session {
        let mut draft = Draft::open(id, spec, self.now, actor);
        draft.advance(self.now, self.reached, actor);
        self.sessions.insert(draft)
    }

    /// Decides on a command to a session on the board. Returns the session as it would be afterwards.
    pub fn command(
        &mut self,
        id: SessionId,
        command: &SessionCommand,
        actor: &str,
    ) -> Option<Result<(&Session, Vec<Event>), SessionRejection>> {
        if let Some(run) = self.run_done_with_session(id, command) {
            return Some(Err(SessionRejection::BelongsToRun(run)));
        }
        let events = match self.decide(id, command, actor)? {
            Ok(events) => events,
            Err(why) => return Some(Err(why)),
        };
        self.answer_calls(id);
        if let Some(run) = self.session(id).and_then(|session| session.spec.run) {
            self.advance_run(run.run, "provost");
            self.share_free_slot(run.run);
        }
        self.advance_teams_of(id);
        self.session(id).map(|session| Ok((session, events)))
    }

    /// Returns the run that no longer needs the session, if the command would give the session an
    /// instruction. Only the run may resume such a session. Otherwise, a message that arrives as
    /// the session ends would start work outside the run that is not counted and cannot be
    /// cancelled.
    fn run_done_with_session(&self, id: SessionId, command: &SessionCommand) -> Option<RunId> {
        let ended = self.session(id).filter(|session| session.attempt().is_sealed())?;
        let of_run = ended.spec.run?;
        matches!(command, SessionCommand::Send { .. }).then_some(of_run.run)
    }

    /// Decides on a command and applies the follow-up events of the session itself.
    pub(super) fn decide(
        &mut self,
        id: SessionId,
        command: &SessionCommand,
        actor: &str,
    ) -> Option<Result<Vec<Event>, SessionRejection>> {
        let (now, reached) = (self.now, self.reached);
        let session = self.session(id)?;
        let events = match session.decide(command, now) {
            Ok(events) => events,
            Err(why) => {
                self.note_shortage(id, command, false);
                return Some(Err(why));
            }
        };
        let waited = session.limit_wait().cloned();
        let draft = self.sessions.draft(id)?;
        for event in &events {
            draft.add(now, event.clone(), actor);
        }
        let waits = draft.state.limit_wait().cloned();
        self.note_shortage(id, command, true);
        if waits.is_some() && waits != waited {
            self.update_slots(id, |queue| queue.slots_after_limit());
        }
        let draft = self.sessions.draft(id)?;
        let released = draft.state.spending.released_ms;
        draft.advance(now, reached, actor);
        if draft.state.spending.released_ms != released {
            self.update_slots(id, |queue| queue.slots_after_resume());
        }
        Some(Ok(events))
    }

    /// Records that an effect encountered a shortage, so that it starts again if it is pending after the commit. A
    /// shortage is rejected if the effect was not pending. If the effect becomes pending again in the same commit,
    /// nothing else would show that no task is carrying out the effect.
    fn note_shortage(&mut self, id: SessionId, command: &SessionCommand, accepted: bool) {
        let SessionCommand::EffectShortage { effect, .. } = command else { return };
        let Some(draft) = self.sessions.existing_draft_mut(id) else { return };
        let is_pending = || draft.state.effects().iter().any(|pending| pending.key() == *effect);
        if accepted || !is_pending() {
            draft.abandoned.insert(effect.clone());
        }
    }

    /// Moves the resume slots that are affected by a change to a session waiting for a limit.
    fn update_slots(
        &mut self,
        id: SessionId,
        changed: impl Fn(&LimitQueue<'_>) -> Vec<ResumeSlot>,
    ) {
        let held = self.board.sessions.iter().map(|session| session.id);
        let all = held.filter_map(|id| self.session(id));
        let queue =
            self.session(id).and_then(|subject| LimitQueue::for_subject(subject, all, self.now));
        let slots = queue.map(|queue| changed(&queue)).unwrap_or_default();
        let now = self.now;
        for (id, at_ms) in slots {
            self.sessions.add(id, now, LimitSlot { at_ms }.into(), "provost");
        }
    }

    /// Applies a deadline that has passed to a session. `heard` returns when a launch's stream last
    /// produced output.
    pub fn apply_deadline(&mut self, id: SessionId, heard: impl Fn(LaunchId) -> Option<u64>) {
        let Some((_, due)) = self.session(id).and_then(Session::deadline) else { return };
        let command = match due {
            DeadlineKind::Silence(launch) => {
                let recorded = self
                    .session(id)
                    .and_then(|session| session.launch(launch))
                    .map_or(0, |launch| launch.stream.last_heard.mono_ms);
                SessionCommand::Silence {
                    launch,
                    heard_ms: heard(launch).unwrap_or(0).max(recorded),
                }
            }
            DeadlineKind::TimeLimit
            | DeadlineKind::StreamSettle
            | DeadlineKind::Escalation
            | DeadlineKind::Seal
            | DeadlineKind::LimitLifted
            | DeadlineKind::Handshake
            | DeadlineKind::ApprovalExpiry
            | DeadlineKind::InputConfirmation
            | DeadlineKind::Reaction
            | DeadlineKind::Compaction
            | DeadlineKind::OwnTurn
            | DeadlineKind::Retry => SessionCommand::Tick,
        };
        // The session rejects the report of a silence if the stream produced output in the meantime. In that case,
        // there is nothing to record.
        drop(self.command(id, &command, "provost"));
    }

    /// Returns the sessions that the decisions so far would change.
    pub fn changed(&self) -> impl Iterator<Item = &Session> {
        let drafts = self.sessions.drafts().filter(|draft| !draft.events.is_empty());
        drafts.map(|draft| &draft.state)
    }
}

impl Draft<Session> {
    /// Applies follow-up events until none remain.
    fn advance(&mut self, now: Moment, reached: Moment, actor: &str) {
        for _ in 0..MAX_FOLLOW_UPS {
            let Some(event) = self.state.advance(reached) else { return };
            self.add(now, event, actor);
        }
        unreachable!("the rules of a session converge: {:?}", self.events.last());
    }
}
