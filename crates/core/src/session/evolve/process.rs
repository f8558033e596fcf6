//! Applies what the kernel and the holder reported about a launch.

use crate::{
    ids::LaunchId,
    request::RequestKind,
    session::{
        event::ProcessEvent,
        hook::HookEvent,
        launch::{
            Launch, LaunchPhase, LaunchReason, ProcessTreeExit, StopProgress, StopStep, TurnState,
            Visibility,
        },
        state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    },
    time::Moment,
};

impl Session {
    /// Applies what the kernel and the holder reported about a launch.
    pub(super) fn apply_process(&mut self, at: Moment, event: &ProcessEvent) {
        match event {
            ProcessEvent::LaunchRequested(e) => {
                let continuation = self.continuation(e.why);
                let mut launch = Launch::pending(e.launch, e.why, self.attempt().no, at);
                let succeeds = matches!(e.why, LaunchReason::Crash | LaunchReason::Retry);
                let died = if succeeds { self.current_launch() } else { None };
                launch.stream.turn_input = died.and_then(|died| died.stream.turn_input.clone());
                self.launches.push(launch);
                self.resume(e.why, continuation);
                self.put_on_command_line(e.launch, at);
            }
            ProcessEvent::LaunchStarted(e) => {
                let child = Some(e.child.clone());
                self.set_phase(
                    e.launch,
                    LaunchPhase::Running { child, visibility: Visibility::Seen },
                );
                if let Some(launch) = self.launch_mut(e.launch) {
                    launch.stream.last_heard = at;
                    launch.followed = Some(at);
                    launch.holder = Some(e.holder.clone());
                    // The stop was abandoned while the process could not be observed. Now that the
                    // process can be observed again, it can also be killed.
                    if let Some(stop) = launch.stop.as_mut().filter(|s| s.step == StopStep::GivenUp)
                    {
                        (stop.step, stop.since) = (StopStep::Kill, at);
                    }
                }
                self.mark_idle_at_prompt(e.launch);
                self.settle_resume_message(e.launch);
                if self.launches.len() == 1 {
                    self.queue_hook(HookEvent::Started, at);
                }
            }
            ProcessEvent::LaunchAdopted(e) => {
                let sight = if e.child.is_some() { Visibility::Seen } else { Visibility::Unknown };
                self.set_phase(
                    e.launch,
                    LaunchPhase::Running { child: e.child.clone(), visibility: sight },
                );
                self.update_launch(e.launch, |launch| {
                    launch.adopted = true;
                    launch.stream.last_heard = at;
                    launch.stream.turn = TurnState::Over;
                });
                self.queue_hook(HookEvent::Started, at);
            }
            ProcessEvent::LaunchFailed(e) => {
                self.set_phase(e.launch, LaunchPhase::Failed { reason: e.reason.clone() });
            }
            ProcessEvent::LaunchFollowed(e) => {
                self.update_launch(e.launch, |launch| launch.followed = Some(at));
            }
            ProcessEvent::ProcessEnded(e) => {
                self.set_phase(e.launch, LaunchPhase::Ended { end: e.end, by: e.by, at });
            }
            ProcessEvent::ProcessUnknown(e) => {
                self.set_visibility(e.launch, Visibility::Unknown, Some(e.why.clone()));
            }
            ProcessEvent::ProcessSeen(e) => self.set_visibility(e.launch, Visibility::Seen, None),
            ProcessEvent::ProcessSuspended(e) => self.update_launch(e.launch, |launch| {
                launch.watch.suspended = e.suspended;
                // Time spent suspended does not count as silence.
                launch.stream.last_heard = at;
            }),
            ProcessEvent::ViewersChanged(e) => {
                self.update_launch(e.launch, |launch| {
                    (launch.viewers, launch.attended) = (e.viewers, Some(at));
                });
            }
            ProcessEvent::ProcessUnobserved(e) => {
                self.set_phase(e.launch, LaunchPhase::Unobserved { why: e.why.clone(), at });
            }
            ProcessEvent::ProcessTreeReaped(e) => {
                let gone = ProcessTreeExit { leftovers: e.leftovers, verified: e.verified };
                self.update_launch(e.launch, |launch| launch.gone = Some(gone));
            }
            ProcessEvent::StopRequested(e) => {
                let stop = StopProgress { why: e.why, step: e.step, since: at };
                self.update_launch(e.launch, |launch| launch.stop = Some(stop));
            }
            ProcessEvent::StopEscalated(e) => self.update_launch(e.launch, |launch| {
                if let Some(stop) = &mut launch.stop {
                    (stop.step, stop.since) = (e.step, at);
                }
            }),
        }
    }

    /// Returns the text for an agent that is resumed after a crash. None if it never received its
    /// instruction.
    fn continuation(&self, why: LaunchReason) -> Option<String> {
        if why != LaunchReason::Crash {
            return None;
        }
        let died = self.current_launch()?;
        let heard =
            |m: &AgentMessage| m.attempt == self.attempt().no && m.status != DeliveryStatus::Queued;
        let asks = self.open_requests().any(|r| r.asked.kind != RequestKind::Approval);
        let instruction = self.attempt().instruction.as_deref();
        let instruction = died.stream.turn_input.as_deref().or(instruction).unwrap_or_default();
        (self.input.messages.iter().any(heard) && !asks)
            .then(|| crate::prompt::continuation(&died.phase, instruction))
    }

    /// Counts the resume or relaunch, and queues the continuation text.
    fn resume(&mut self, why: LaunchReason, continuation: Option<String>) {
        if why == LaunchReason::Retry {
            self.attempt_mut().relaunches += 1;
        }
        if why != LaunchReason::Crash {
            return;
        }
        self.attempt_mut().resumes += 1;
        let (no, resumes) = (self.attempt().no, self.attempt().resumes);
        if let Some(text) = continuation {
            self.queue(
                format!("continue-{no}-{resumes}"),
                AgentMessageKind::Continue,
                text,
                None,
                None,
            );
        }
    }

    /// Marks a terminal agent as idle if its command line contained no text, because it is then
    /// waiting at its prompt.
    fn mark_idle_at_prompt(&mut self, launch: LaunchId) {
        let interface = &self.spec.agent.interface;
        let waits = interface.has_terminal()
            && interface.takes_instructions()
            && self.command_line_message(launch).is_none();
        if waits {
            self.update_launch(launch, |launch| launch.stream.turn = TurnState::Over);
        }
    }

    fn set_phase(&mut self, launch: LaunchId, phase: LaunchPhase) {
        self.update_launch(launch, |launch| launch.phase = phase);
    }

    fn set_visibility(&mut self, launch: LaunchId, seen: Visibility, why: Option<String>) {
        self.update_launch(launch, |launch| {
            if let LaunchPhase::Running { visibility: sight, .. } = &mut launch.phase {
                *sight = seen;
                launch.unobservable = why;
            }
        });
    }

    pub(in crate::session) fn update_launch(
        &mut self,
        launch: LaunchId,
        change: impl FnOnce(&mut Launch),
    ) {
        if let Some(launch) = self.launch_mut(launch) {
            change(launch);
        }
    }
}
