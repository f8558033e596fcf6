//! Messages and instructions for the agent.

use crate::{
    lifecycle::State,
    limits::MAX_QUEUED,
    session::{
        command::{SendMode, SessionRejection},
        decide::{CommandResult, one_event},
        event::{
            AttemptOpened, AttemptSuperseded, Event, LaunchRequested, MessageLost, MessageQueued,
            RequestOpened, TaskAssigned, ThreadRestarted,
        },
        input::check_typeable,
        launch::{Launch, LaunchReason, StopProgress, StopReason, StopStep},
        spec::Assignment,
        state::{AgentMessageKind, DeliveryStatus, Session, WorkState},
    },
};

impl Session {
    pub(in crate::session) fn drop_message(&self, key: &str, reason: &str) -> CommandResult {
        if !self.is_queued(key) {
            return Err(SessionRejection::NothingNew);
        }
        let lost = MessageLost { key: key.to_owned(), reason: reason.to_owned() };
        Ok(std::iter::once(lost.into()).chain(self.reopen_question(key).map(Event::from)).collect())
    }

    /// Reopens a question if its secret answer was never delivered, because secret answers are not stored.
    fn reopen_question(&self, key: &str) -> Option<RequestOpened> {
        let message = self.input.message(key)?;
        let request = self.requests.iter().find(|request| Some(request.id) == message.request)?;
        let launch = self.current_launch()?;
        request.asked.is_secret().then(|| RequestOpened {
            request: request.id,
            launch: launch.id,
            asked: request.asked.clone(),
            revision: request.revision + 1,
            cursor: launch.cursor,
        })
    }

    pub(in crate::session) fn send(&self, key: &str, text: &str, mode: SendMode) -> CommandResult {
        if self.input.queued().count() >= MAX_QUEUED {
            return Err(SessionRejection::QueueFull(MAX_QUEUED));
        }
        let sealed = self.attempt().is_sealed();
        let agent = &self.spec.agent;
        let alive = self.launches.last().is_some_and(Launch::may_be_running);
        let instructs = mode != SendMode::Continue || sealed;
        if self.worktree.state == WorkState::Removed {
            return Err(SessionRejection::WorktreeRemoved(
                self.spec.work.branch().map(str::to_owned),
            ));
        }
        if self.conversation.deleted && self.conversation.thread.is_some() {
            return Err(SessionRejection::ConversationGone);
        }
        if instructs && let Some(used_up) = self.exhausted_budget() {
            return Err(SessionRejection::BudgetUsedUp(used_up));
        }
        // One-shot work accepts no input while it is running, but its conversation can be resumed later.
        if agent.interface.is_one_shot()
            && agent.interface.can_resume()
            && sealed
            && !alive
            && self.conversation.thread.is_some()
        {
            let instruction = Some(text.to_owned());
            return one_event(AttemptOpened { no: self.attempt().no + 1, instruction });
        }
        if agent.interface.is_one_shot() {
            let refused = if sealed && !alive {
                SessionRejection::OneShotWithoutConversation
            } else {
                SessionRejection::OneShotBusy
            };
            return Err(refused(agent.name.clone()));
        }
        match &self.spec.adopted {
            Some(_) if !alive && !self.launches.is_empty() => {
                return Err(SessionRejection::ExternalAgentEnded);
            }
            Some(adopted) if adopted.pane.is_none() => return Err(SessionRejection::NoChannel),
            Some(_) if !alive => return Err(SessionRejection::NotRunning),
            Some(_) if !agent.accepts_input() => return Err(SessionRejection::NoTranscript),
            Some(_) | None => {}
        }
        if !agent.accepts_input() || (instructs && !agent.interface.takes_instructions()) {
            return Err(SessionRejection::TakesNoInstruction(agent.name.clone()));
        }
        if !agent.interface.takes_instructions() && !alive {
            return Err(SessionRejection::NotRunning);
        }
        check_typeable(&agent.interface, text)?;
        let message = MessageQueued {
            key: key.to_owned(),
            kind: AgentMessageKind::Steer,
            text: text.to_owned(),
            request: None,
            reply: None,
        };
        let next = AttemptOpened { no: self.attempt().no + 1, instruction: Some(text.to_owned()) };
        if mode == SendMode::NewThread {
            return self.start_new_thread(next);
        }
        match (mode, sealed) {
            (SendMode::Continue, false) if self.attempt().cancelled.is_some() => {
                Err(SessionRejection::Cancelled)
            }
            (SendMode::Continue, false) if self.input.messages.iter().any(|m| m.key == key) => {
                Err(SessionRejection::NothingNew)
            }
            (SendMode::Continue, false) if self.is_stopped_first() => {
                Err(SessionRejection::StoppedFirst)
            }
            (SendMode::Continue, false) => Ok(self.steer(message)),
            (SendMode::Continue | SendMode::Supersede | SendMode::NewThread, true) => {
                one_event(next)
            }
            (SendMode::Supersede | SendMode::NewThread, false) => {
                let mut events = self.supersede();
                events.push(next.into());
                Ok(events)
            }
        }
    }

    fn supersede(&self) -> Vec<Event> {
        let since = self.attempt().since;
        let superseded = AttemptSuperseded {}.into();
        let mut after = self.clone();
        after.evolve(since, &superseded);
        vec![superseded, after.seal(since).into()]
    }

    /// Opens the next attempt in a new conversation, which requires a new process.
    fn start_new_thread(&self, next: AttemptOpened) -> CommandResult {
        if !self.spec.agent.interface.can_start_threads() {
            return Err(SessionRejection::CannotStartThread(self.spec.agent.name.clone()));
        }
        let open = !self.attempt().is_sealed();
        let mut events = if open { self.supersede() } else { Vec::new() };
        let running = self.launches.last().filter(|launch| launch.may_be_stopped());
        events.extend(running.map(|one| self.stop_launch(one.id, StopReason::Finished).into()));
        events.extend([ThreadRestarted {}.into(), next.into()]);
        Ok(events)
    }

    /// Assigns another task, which is possible only if the conversation has finished.
    pub(in crate::session) fn assign(
        &self,
        key: &str,
        text: &str,
        assignment: &Assignment,
    ) -> CommandResult {
        if !self.attempt().is_sealed() {
            return Err(SessionRejection::AtWork);
        }
        let mut events = vec![TaskAssigned { assignment: assignment.clone() }.into()];
        events.extend(self.send(key, text, SendMode::Continue)?);
        Ok(events)
    }

    /// Queues a message. If the agent exited while it was waiting for input, any message resumes
    /// it, not only an answer.
    fn steer(&self, message: MessageQueued) -> Vec<Event> {
        let mut events = vec![message.into()];
        if self.has_ended() && self.judge_facts().state == State::NeedsInput {
            events.push(
                LaunchRequested { launch: self.next_launch(), why: LaunchReason::Answer }.into(),
            );
        }
        events
    }

    /// Whether the operator's stop must be handled before a message is sent. A message sent now
    /// would reach neither the process that is being stopped nor a later one.
    pub(crate) fn is_stopped_first(&self) -> bool {
        let by_operator =
            |stop: StopProgress| stop.why == StopReason::Operator && stop.step != StopStep::GivenUp;
        let stopped = self.current_launch().is_some_and(|one| one.stop.is_some_and(by_operator));
        let resumed_by_it = self.has_ended() && self.judge_facts().state == State::NeedsInput;
        stopped && !resumed_by_it
    }

    fn is_queued(&self, key: &str) -> bool {
        self.input.messages.iter().any(|m| m.key == key && m.status == DeliveryStatus::Queued)
    }
}
