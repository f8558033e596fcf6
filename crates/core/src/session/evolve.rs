//! Applies events to a session. This never fails, because every stored event must remain readable.

mod turn_end;

use std::collections::BTreeMap;

use super::{
    attempt::{Attempt, Claim, ReportStatus, Resolution},
    decide::answer_message,
    event::{Event, RequestOpened, SessionOpened, SnapshotTaken},
    hook::HookEvent,
    launch::{
        Cursor, Launch, LaunchPhase, LaunchReason, ProcessTreeExit, StopProgress, StopStep,
        TurnState, Visibility,
    },
    pane::unconfirmed_reason,
    reactions::ReactionState,
    spec::Assignment,
    state::{
        AgentMessage, AgentMessageKind, DeliveryStatus, Dismissal, Fact, Session, SetupState,
        Usage, WorkState,
    },
    tool_calls::ToolCalls,
    watch::{LastSignal, RecordSource, SignalKind, TypedInput, TypingState},
};
use crate::{
    ids::{LaunchId, SessionId},
    lifecycle::{ClaimKind, State},
    limits::{MAX_FACTS_KEPT, MAX_LATE_CLAIMS_KEPT, MAX_TEXT_KEPT},
    request::{Request, RequestKind, RequestStatus},
    text::shortened,
    time::Moment,
};

impl Session {
    /// Creates a session from its first event.
    pub fn open(id: SessionId, at: Moment, event: &SessionOpened) -> Session {
        let spec = (*event.spec).clone();
        let setup = spec.setup.as_ref().map_or(SetupState::NotNeeded, |_| SetupState::Pending);
        let output_limit = spec.bounds.output_limit;
        let mut session = Session {
            id,
            opened: at,
            work: WorkState::Pending,
            setup,
            work_for: 1,
            setup_for: 1,
            attempts: vec![Attempt::open(1, spec.instruction.clone(), at)],
            launches: Vec::new(),
            requests: Vec::new(),
            calls: ToolCalls::default(),
            messages: Vec::new(),
            hooks: Vec::new(),
            hooks_fired: BTreeMap::new(),
            hooks_ended: Vec::new(),
            thread: None,
            progress: None,
            usage: Usage::default(),
            context: None,
            compactions: 0,
            compacting: None,
            reacted: vec![ReactionState::default(); spec.reactions.len()],
            handing_over: None,
            handed_over: false,
            dismissed: None,
            turns: 0,
            budget: spec.budget,
            limited: None,
            released_ms: None,
            warnings: Vec::new(),
            facts: Vec::new(),
            forged_records: 0,
            effect_waits: Vec::new(),
            conversation_deleted: false,
            output_limit,
            imported: false,
            taken_over: false,
            spec,
        };
        session.queue_instruction();
        session.queue_hook(HookEvent::Opened, at);
        session
    }

    /// Folds an entire stream. Returns None if the first event does not open a session.
    pub fn fold<'a>(
        id: SessionId,
        events: impl IntoIterator<Item = (Moment, &'a Event)>,
    ) -> Option<Session> {
        let mut events = events.into_iter();
        let (at, Event::SessionOpened(first)) = events.next()? else { return None };
        let mut session = Session::open(id, at, first);
        for (at, event) in events {
            session.evolve(at, event);
        }
        Some(session)
    }

    /// Applies one event.
    pub fn evolve(&mut self, at: Moment, event: &Event) {
        let was_blocked = self.is_blocked();
        self.apply(at, event);
        self.restart_silence_window(was_blocked, at);
        self.update_shown_state(at);
        self.forget_waits();
    }

    fn apply(&mut self, at: Moment, event: &Event) {
        match event {
            Event::SessionOpened(_) => {}
            Event::SessionRenamed(e) => self.spec.name.clone_from(&e.name),
            Event::SessionTakenOver(_) => self.taken_over = true,
            Event::SessionDismissed(e) => {
                let because = e.because.clone();
                self.dismissed = Some(Dismissal { because, at_once: e.at_once });
            }
            Event::AttemptOpened(e) => self.open_attempt(e.no, e.instruction.clone(), at),
            Event::TaskAssigned(e) => self.take_assignment(&e.assignment),
            Event::WorkPrepared(e) => {
                self.work = WorkState::Ready { cwd: e.cwd.clone(), base: e.base.clone() };
            }
            Event::WorkFailed(e) => self.work = WorkState::Failed { reason: e.reason.clone() },
            Event::WorkRemoved(_) => self.work = WorkState::Removed,
            Event::ConversationDeleted(_) => self.conversation_deleted = true,
            Event::SetupFinished(e) => {
                self.setup = match &e.failure {
                    None => SetupState::Done,
                    Some(reason) => SetupState::Failed { reason: reason.clone() },
                };
            }
            Event::LaunchRequested(e) => {
                let continuation = self.continuation(e.why);
                let mut launch = Launch::pending(e.launch, e.why, self.attempt().no, at);
                let succeeds = matches!(e.why, LaunchReason::Crash | LaunchReason::Retry);
                let died = if succeeds { self.current_launch() } else { None };
                launch.stream.turn_input = died.and_then(|died| died.stream.turn_input.clone());
                self.launches.push(launch);
                self.resume(e.why, continuation);
                self.put_on_command_line(e.launch, at);
            }
            Event::LaunchStarted(_)
            | Event::LaunchAdopted(_)
            | Event::LaunchFailed(_)
            | Event::LaunchFollowed(_)
            | Event::ProcessEnded(_)
            | Event::ProcessUnknown(_)
            | Event::ProcessSeen(_)
            | Event::ProcessSuspended(_)
            | Event::ViewersChanged(_)
            | Event::ProcessUnobserved(_)
            | Event::ProcessTreeReaped(_)
            | Event::StopRequested(_)
            | Event::StopEscalated(_) => self.apply_process(at, event),
            Event::StreamReady(_)
            | Event::TurnStarted(_)
            | Event::TurnEnded(_)
            | Event::StreamRefused(_)
            | Event::StreamUnreachable(_)
            | Event::GoalChanged(_)
            | Event::TurnMissing(_)
            | Event::AgentWarned(_)
            | Event::LimitSlot(_)
            | Event::LimitLifted(_)
            | Event::BudgetRaised(_)
            | Event::StreamHeard(_)
            | Event::StreamSilent(_)
            | Event::StreamRetrying(_)
            | Event::StreamClosed(_)
            | Event::StreamSettled(_)
            | Event::OutputOversized(_)
            | Event::OutputAtLimit(_)
            | Event::OutputDiskFull(_)
            | Event::OutputResumed(_)
            | Event::OutputLost(_)
            | Event::RecordForged(_)
            | Event::ReportsRefused(_)
            | Event::LimitRaised(_)
            | Event::ProgressReported(_)
            | Event::UsageReported(_)
            | Event::ContextReported(_)
            | Event::ContextCompacted(_)
            | Event::CompactionFailed(_) => self.apply_stream(at, event),
            Event::SignalRecorded(e) => {
                if e.by == RecordSource::Hook {
                    self.count_report(e.launch, usize::try_from(e.bytes).unwrap_or(usize::MAX));
                }
                let seen = LastSignal { said: e.said, place: e.place, at };
                self.update_launch(e.launch, |launch| {
                    launch.watch.store_signal(e.by, seen);
                    launch.watch.approved.take_if(|_| e.said == SignalKind::Continued);
                });
            }
            Event::SignalInferred(e) => {
                let seen = LastSignal { said: e.said, place: e.place, at };
                self.update_launch(e.launch, |launch| {
                    launch.watch.hints.insert(e.by, seen);
                });
            }
            Event::ThreadSwitched(e) => self.switch_thread(e, at),
            Event::PaneSeen(e) => {
                self.update_launch(e.launch, |launch| launch.watch.pane = Some(e.state));
            }
            Event::ClaimMade(_)
            | Event::FactReported(_)
            | Event::ResultReported(_)
            | Event::RequestOpened(_)
            | Event::RequestSettled(_)
            | Event::RequestContradicted(_)
            | Event::RequestRuled(_)
            | Event::ToolCalled(_)
            | Event::ToolAnswered(_)
            | Event::TeamCommandCounted(_)
            | Event::MessageQueued(_)
            | Event::MessageDelivered(_)
            | Event::MessageTyped(_)
            | Event::MessageUnconfirmed(_)
            | Event::MessageRefused(_)
            | Event::MessageLost(_) => self.apply_communication(at, event),
            Event::ResultRequested(_)
            | Event::ReworkSent(_)
            | Event::SnapshotTaken(_)
            | Event::SnapshotFailed(_)
            | Event::CheckFinished(_)
            | Event::AttemptCancelled(_)
            | Event::AttemptSuperseded(_)
            | Event::ThreadRestarted(_)
            | Event::AttemptStopped(_)
            | Event::AttemptResolved(_)
            | Event::AttemptSealed(_) => self.apply_attempt(at, event),
            Event::HookFinished(e) => self.finish_hook(e),
            Event::EffectShortage(e) => self.record_shortage(e, at),
            Event::EffectRetried(e) => self.retry(e),
            Event::ReactionDone(e) => self.carry_out(e, at),
            Event::AgentReplaced(e) => self.switch_to_successor(&e.from),
        }
    }

    /// Applies what the kernel and the holder reported about a launch.
    #[expect(clippy::wildcard_enum_match_arm, reason = "apply() is the exhaustive match")]
    fn apply_process(&mut self, at: Moment, event: &Event) {
        match event {
            Event::LaunchStarted(e) => {
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
            Event::LaunchAdopted(e) => {
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
            Event::LaunchFailed(e) => {
                self.set_phase(e.launch, LaunchPhase::Failed { reason: e.reason.clone() });
            }
            Event::LaunchFollowed(e) => {
                self.update_launch(e.launch, |launch| launch.followed = Some(at));
            }
            Event::ProcessEnded(e) => {
                self.set_phase(e.launch, LaunchPhase::Ended { end: e.end, by: e.by, at });
            }
            Event::ProcessUnobserved(e) => {
                self.set_phase(e.launch, LaunchPhase::Unobserved { why: e.why.clone(), at });
            }
            Event::ProcessUnknown(e) => {
                self.set_visibility(e.launch, Visibility::Unknown, Some(e.why.clone()));
            }
            Event::ProcessSeen(e) => self.set_visibility(e.launch, Visibility::Seen, None),
            Event::ProcessSuspended(e) => self.update_launch(e.launch, |launch| {
                launch.watch.suspended = e.suspended;
                // Time spent suspended does not count as silence.
                launch.stream.last_heard = at;
            }),
            Event::ViewersChanged(e) => {
                self.update_launch(e.launch, |launch| {
                    (launch.viewers, launch.attended) = (e.viewers, Some(at));
                });
            }
            Event::ProcessTreeReaped(e) => {
                let gone = ProcessTreeExit { leftovers: e.leftovers, verified: e.verified };
                self.update_launch(e.launch, |launch| launch.gone = Some(gone));
            }
            Event::StopRequested(e) => {
                let stop = StopProgress { why: e.why, step: e.step, since: at };
                self.update_launch(e.launch, |launch| launch.stop = Some(stop));
            }
            Event::StopEscalated(e) => self.update_launch(e.launch, |launch| {
                if let Some(stop) = &mut launch.stop {
                    (stop.step, stop.since) = (e.step, at);
                }
            }),
            _ => unreachable!("apply() sends only events about a process here"),
        }
    }

    /// Applies what was observed on a launch's stream.
    #[expect(clippy::wildcard_enum_match_arm, reason = "apply() is the exhaustive match")]
    fn apply_stream(&mut self, at: Moment, event: &Event) {
        match event {
            Event::StreamReady(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.thread = e.thread.clone().or(self.thread.take());
                self.update_launch(e.launch, |launch| launch.stream.ready = true);
            }
            Event::TurnStarted(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.update_launch(e.launch, |launch| {
                    launch.stream.begin_turn(e.turn.clone());
                    launch.watch.turn_changed_at = Some(at);
                    launch.watch.approved = None;
                });
                self.begin_turn(e.launch);
            }
            Event::TurnEnded(e) => self.end_turn(e, at),
            Event::StreamRefused(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.update_launch(e.launch, |launch| {
                    launch.stream.refused = Some(e.reason.clone())
                });
            }
            Event::StreamUnreachable(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.update_launch(e.launch, |launch| {
                    launch.stream.refused = Some(e.reason.clone());
                    launch.stream.unreachable = true;
                });
            }
            Event::GoalChanged(e) => self.change_goal(e, at),
            Event::TurnMissing(e) => self.update_launch(e.launch, |launch| {
                launch.stream.goal = false;
                launch.stream.forget_expected_turn();
            }),
            Event::AgentWarned(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.warnings.push(e.text.clone());
            }
            Event::LimitSlot(e) => {
                if let (Some(limited), false) = (&mut self.limited, bug!(SlotIgnored)) {
                    limited.until_mono_ms = e.at_ms;
                }
            }
            Event::LimitLifted(_) => {
                self.released_ms = Some(at.mono_ms);
                let detail = self.limited.take().map(|limited| limited.detail).unwrap_or_default();
                let text = format!("{}\n\n{detail}", crate::prompt::LIMIT_LIFTED);
                let (no, waits) = (self.attempt().no, self.attempt().limit_waits);
                self.queue(
                    format!("lifted-{no}-{waits}"),
                    AgentMessageKind::Continue,
                    text,
                    None,
                    None,
                );
                self.expect_turn(at);
            }
            Event::BudgetRaised(e) => {
                self.budget.tokens = e.tokens.or(self.budget.tokens);
                self.budget.turns = e.turns.or(self.budget.turns);
            }
            Event::StreamHeard(e) => {
                self.break_silence(e.launch);
                self.update_launch(e.launch, |launch| {
                    launch.stream.last_heard.mono_ms = e.heard_ms;
                    launch.stream.silent = false;
                });
            }
            Event::StreamSilent(e) => {
                self.update_launch(e.launch, |launch| launch.stream.silent = true)
            }
            Event::StreamRetrying(e) => {
                // Retrying is not progress, so the silence window continues.
                self.update_launch(e.launch, |launch| {
                    launch.stream.retrying = true;
                    launch.stream.retrying_why = Some(e.detail.clone());
                    launch.cursor = launch.cursor.max(e.cursor);
                });
            }
            Event::StreamClosed(e) => self.update_launch(e.launch, |launch| {
                launch.stream.closed = Some(at);
                launch.cursor = launch.cursor.max(e.cursor);
            }),
            Event::StreamSettled(e) => {
                self.update_launch(e.launch, |launch| launch.stream.settled = true)
            }
            Event::OutputOversized(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.update_launch(e.launch, |launch| launch.oversized = true);
            }
            Event::OutputAtLimit(e) => {
                self.update_launch(e.launch, |launch| launch.at_limit = true)
            }
            Event::OutputDiskFull(e) => {
                self.update_launch(e.launch, |launch| launch.disk_full = Some(e.dir.clone()));
            }
            Event::OutputResumed(e) => {
                self.update_launch(e.launch, |launch| launch.disk_full = None)
            }
            Event::OutputLost(e) => self.update_launch(e.launch, |launch| {
                launch.output_lost = true;
                launch.cursor = e.cursor;
            }),
            Event::RecordForged(_) => self.forged_records = self.forged_records.saturating_add(1),
            Event::ReportsRefused(e) => {
                self.update_launch(e.launch, |launch| launch.reports.refused = true);
            }
            Event::LimitRaised(e) => {
                self.output_limit = e.bytes;
                for launch in &mut self.launches {
                    launch.at_limit = false;
                }
            }
            Event::ProgressReported(e) => {
                self.set_awaits_input(Some(e.launch), false);
                // Progress on the stream is already limited to one report per second.
                if e.cursor.is_none() {
                    self.count_report(e.launch, 0);
                }
                self.record_heard(e.launch, at, e.cursor.unwrap_or_default());
                self.progress = Some(e.progress);
            }
            Event::UsageReported(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.usage.add(e.usage);
            }
            Event::ContextReported(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.context = Some(e.context);
            }
            Event::ContextCompacted(e) => {
                self.record_heard(e.launch, at, e.cursor);
                // The usage after the compaction has not been reported yet.
                self.context = None;
                self.compactions = self.compactions.saturating_add(1);
                self.compacting = self.compacting.filter(|asked| asked.turn);
            }
            Event::CompactionFailed(e) => {
                self.advance_cursor(Some(e.launch), e.cursor, at);
                self.compacting = None;
            }
            _ => unreachable!("apply() sends only events about a stream here"),
        }
    }

    /// Applies events about claims, requests and messages.
    #[expect(clippy::wildcard_enum_match_arm, reason = "apply() is the exhaustive match")]
    fn apply_communication(&mut self, at: Moment, event: &Event) {
        match event {
            Event::ClaimMade(e) => {
                self.advance_cursor(e.launch, e.cursor, at);
                if let Some(launch) = e.launch {
                    self.count_report(launch, e.text.as_deref().map_or(0, str::len));
                }
                let claim = Claim {
                    kind: e.kind,
                    source: e.source,
                    text: e.text.clone(),
                    launch: e.launch,
                    at,
                };
                self.take_claim(claim, e.status, at);
            }
            Event::FactReported(e) => {
                self.advance_cursor(e.launch, e.cursor, at);
                self.set_awaits_input(e.launch, false);
                if let Some(launch) = e.launch {
                    self.count_report(launch, e.value.len());
                }
                if e.status == ReportStatus::Applied {
                    let value = shortened(&e.value, MAX_TEXT_KEPT);
                    push_bounded(&mut self.facts, Fact { kind: e.fact, value, at }, MAX_FACTS_KEPT);
                }
            }
            Event::ResultReported(e) => {
                self.advance_cursor(Some(e.launch), Some(e.cursor), at);
                if e.status == ReportStatus::Applied {
                    self.attempt_mut().result = Some(e.result.clone());
                }
            }
            Event::RequestOpened(e) => self.open_request(e, at),
            Event::RequestSettled(e) => {
                if let Some(request) = self.requests.iter_mut().find(|r| r.id == e.request) {
                    request.status = e.status;
                    let launch = request.launch;
                    self.advance_cursor(Some(launch), e.cursor, at);
                }
            }
            Event::RequestContradicted(e) => {
                if let Some(request) = self.requests.iter_mut().find(|r| r.id == e.request) {
                    request.contradicted_by_outcome = Some(e.done);
                    let launch = request.launch;
                    self.advance_cursor(Some(launch), Some(e.cursor), at);
                }
            }
            Event::RequestRuled(e) => {
                let ruled = self.requests.iter_mut().find(|request| request.id == e.request);
                if let Some(request) = ruled {
                    request.status = RequestStatus::Answered;
                    let answer = answer_message(request, &e.reply);
                    self.queue(answer.key, answer.kind, answer.text, answer.request, answer.reply);
                }
            }
            Event::ToolCalled(e) => self.record_call(e, at),
            Event::ToolAnswered(e) => self.queue_call_result(e),
            Event::TeamCommandCounted(e) => {
                self.count_report(e.launch, usize::try_from(e.bytes).unwrap_or(usize::MAX));
            }
            Event::MessageQueued(e) => {
                self.queue(e.key.clone(), e.kind, e.text.clone(), e.request, e.reply.clone());
            }
            Event::MessageDelivered(e) => {
                self.set_awaits_input(Some(e.launch), false);
                self.record_delivery(&e.key, e.launch, at);
                self.remember_approval(&e.key, e.launch, at);
                self.settle_message(&e.key, DeliveryStatus::Delivered { launch: e.launch });
            }
            Event::MessageTyped(e) => {
                let typed = TypedInput { launch: e.launch, at, state: e.state };
                self.update_message(&e.key, |message| {
                    message.typed = (e.state != TypingState::Untyped).then_some(typed);
                    message.unconfirmed_reason = unconfirmed_reason(e.state);
                });
            }
            Event::MessageUnconfirmed(e) => self.update_message(&e.key, |message| {
                message.typed = None;
                message.unconfirmed_reason = Some(e.reason.clone());
            }),
            Event::MessageRefused(e) => self.record_refusal(e, at),
            Event::MessageLost(e) => {
                if self.message_kind(&e.key) == Some(AgentMessageKind::Interrupt) {
                    // The turn may have ended because a user interrupted it at the screen.
                    let attempt = self.attempt_mut();
                    attempt.awaits_user = attempt.was_interrupted();
                    self.drop_interrupt_text(&e.key, &e.reason);
                }
                self.settle_message(
                    &e.key,
                    DeliveryStatus::Undeliverable { reason: e.reason.clone() },
                );
            }
            _ => unreachable!("apply() sends only events about speech here"),
        }
    }

    /// Applies events about the current attempt and its verification.
    #[expect(clippy::wildcard_enum_match_arm, reason = "apply() is the exhaustive match")]
    fn apply_attempt(&mut self, at: Moment, event: &Event) {
        match event {
            Event::ResultRequested(e) => {
                self.attempt_mut().result_requested = Some(at);
                self.queue(
                    e.key.clone(),
                    AgentMessageKind::ResultWanted,
                    String::new(),
                    None,
                    None,
                );
                self.expect_turn(at);
            }
            Event::ReworkSent(e) => {
                let attempt = self.attempt_mut();
                attempt.reworks += 1;
                attempt.claim = None;
                attempt.result_requested = None;
                attempt.verifying.discard();
                self.queue(e.key.clone(), AgentMessageKind::Rework, e.text.clone(), None, None);
                self.expect_turn(at);
            }
            Event::SnapshotTaken(e) => self.take_snapshot(e),
            Event::SnapshotFailed(e) => {
                self.attempt_mut().verifying.failed = Some(e.reason.clone());
            }
            Event::CheckFinished(e) => {
                self.attempt_mut().verifying.receipts.push(e.receipt.clone())
            }
            Event::AttemptCancelled(e) => self.attempt_mut().cancelled = Some(e.because.clone()),
            Event::AttemptSuperseded(_) => self.attempt_mut().superseded = true,
            Event::ThreadRestarted(_) => (self.thread, self.context) = (None, None),
            Event::AttemptStopped(e) => {
                self.attempt_mut().stopped = Some((e.cause, e.detail.clone()));
            }
            Event::AttemptResolved(e) => {
                let because = e.because.clone();
                let resolution = Resolution { state: e.state, cause: e.cause, because, at };
                let sealed = self.attempt().is_sealed();
                self.attempt_mut().resolutions.push(resolution);
                if sealed {
                    self.queue_state_hook(e.state, at);
                }
            }
            Event::AttemptSealed(e) => {
                self.attempt_mut().sealed = Some(e.sealed.clone());
                self.queue_state_hook(e.sealed.judgement.state, at);
            }
            _ => unreachable!("apply() sends only events about an attempt here"),
        }
    }

    /// Updates the shown state and its start time, on which windows and hooks are based.
    fn update_shown_state(&mut self, at: Moment) {
        if self.attempt().is_sealed() {
            return;
        }
        let state = self.judge_facts().state;
        let working = (state != State::NeedsInput || bug!(WaitingCounted))
            && !state.is_terminal()
            && self.limited.is_none()
            // A team member may stay idle indefinitely.
            && !(state == State::Idle && self.is_member())
            // Time spent waiting for the user does not count.
            && !(state == State::Idle && self.attempt().awaits_user)
            && self
                .current_launch()
                .is_some_and(|launch| matches!(launch.phase, LaunchPhase::Running { .. }));
        let attempt = self.attempt_mut();
        attempt.clock.set_running(working, at);
        if attempt.shown != state {
            (attempt.shown, attempt.since) = (state, at);
            if !state.is_terminal() || bug!(OutcomeAnnouncedTwice) {
                self.queue_state_hook(state, at);
            }
        }
        self.update_occasions(at);
    }

    fn open_attempt(&mut self, no: u32, instruction: Option<String>, at: Moment) {
        self.attempts.push(Attempt::open(no, instruction, at));
        self.retry_worktree(no);
        (self.handing_over, self.limited, self.dismissed) = (None, None, None);
        self.reacted.iter_mut().for_each(|reacted| reacted.total = 0);
        self.queue_instruction();
        // A process that is being stopped receives no new instruction. The next launch waits until
        // it has exited.
        let free = |launch: &&mut Launch| launch.may_be_running() && launch.stop.is_none();
        if let Some(launch) = self.launches.last_mut().filter(free) {
            launch.attempt = no;
            self.expect_turn(at);
        }
    }

    /// Prepares a failed worktree or setup again for the next attempt, because the user may have
    /// fixed the cause.
    fn retry_worktree(&mut self, attempt: u32) {
        if matches!(self.work, WorkState::Failed { .. }) {
            (self.work, self.work_for) = (WorkState::Pending, attempt);
        }
        match self.setup {
            SetupState::Pending | SetupState::Failed { .. } => {
                (self.setup, self.setup_for) = (SetupState::Pending, attempt);
            }
            SetupState::NotNeeded | SetupState::Done => {}
        }
    }

    /// Expects a running agent to start a turn. Until it does, the agent counts as active, not idle.
    pub(super) fn expect_turn(&mut self, at: Moment) {
        if let Some(launch) = self.launches.last_mut() {
            launch.stream.expect_turn(at);
        }
    }

    fn take_assignment(&mut self, assignment: &Assignment) {
        self.spec.task = Some(assignment.task.clone());
        self.spec.checks = assignment.checks.clone();
        self.spec.check_terms.agent_checks = assignment.agent_checks.clone();
        if let WorkState::Ready { base, .. } = &mut self.work {
            *base = assignment.base.clone().or(base.take());
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
        (self.messages.iter().any(heard) && !asks)
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

    /// Counts a report against its launch's budget.
    pub(super) fn count_report(&mut self, launch: LaunchId, bytes: usize) {
        self.update_launch(launch, |launch| launch.reports.add(bytes));
    }

    fn take_claim(&mut self, claim: Claim, status: ReportStatus, at: Moment) {
        match status {
            ReportStatus::Applied => {
                self.set_awaits_input(claim.launch, claim.kind == ClaimKind::NeedsInput);
                self.attempt_mut().claim = Some(claim);
            }
            ReportStatus::Recorded => {}
            ReportStatus::RecordedLate => {
                let text = claim.text.map(|text| shortened(&text, MAX_TEXT_KEPT));
                let claim = Claim { text, ..claim };
                push_bounded(&mut self.attempt_mut().late_claims, claim, MAX_LATE_CLAIMS_KEPT);
                self.queue_hook(HookEvent::LateClaim, at);
            }
        }
    }

    fn open_request(&mut self, e: &RequestOpened, at: Moment) {
        self.record_heard(e.launch, at, e.cursor);
        let current = self.current_launch().is_some_and(|launch| launch.id == e.launch);
        let known = self.requests.iter().any(|request| request.id == e.request);
        // Requests from an older launch are void, because that launch no longer waits for answers.
        // Requests that it made earlier stay unchanged.
        let fate = match (current, known) {
            (true, _) => RequestStatus::Open,
            (false, false) => RequestStatus::Void,
            (false, true) => return,
        };
        self.requests.retain(|request| request.id != e.request);
        self.requests.push(Request {
            id: e.request,
            launch: e.launch,
            asked: e.asked.clone(),
            revision: e.revision,
            at,
            status: fate,
            allowed: None,
            contradicted_by_outcome: None,
        });
    }

    /// Records a snapshot. The first snapshot is judged. The next snapshot either confirms the
    /// first one or shows that the tree has changed.
    fn take_snapshot(&mut self, e: &SnapshotTaken) {
        let verifying = &mut self.attempt_mut().verifying;
        verifying.taken += 1;
        verifying.caveats = e.caveats.clone();
        let same = verifying.snapshot.as_ref().map(|snapshot| snapshot.tree == e.snapshot.tree);
        match same {
            Some(true) => verifying.confirmed = true,
            Some(false) => {
                verifying.moved += 1;
                verifying.receipts.clear();
                verifying.snapshot = Some(e.snapshot.clone());
            }
            None => verifying.snapshot = Some(e.snapshot.clone()),
        }
    }

    /// Discards the evidence, because a new turn may change the work.
    pub(super) fn void_verdict(&mut self, launch: LaunchId) {
        let current = self.current_launch().is_some_and(|current| current.id == launch);
        if current && !self.attempt().is_sealed() {
            self.attempt_mut().verifying.discard();
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

    pub(super) fn record_heard(&mut self, launch: LaunchId, at: Moment, cursor: Cursor) {
        self.break_silence(launch);
        self.update_launch(launch, |launch| {
            launch.stream.last_heard = at;
            launch.stream.silent = false;
            launch.stream.retrying = false;
            launch.stream.retrying_why = None;
            launch.cursor = launch.cursor.max(cursor);
        });
    }

    /// Discards the evidence if the agent had been silent, because it may now change the work again.
    fn break_silence(&mut self, launch: LaunchId) {
        if self.launch(launch).is_some_and(|launch| launch.stream.silent) {
            self.void_verdict(launch);
        }
    }

    pub(super) fn advance_cursor(
        &mut self,
        launch: Option<LaunchId>,
        cursor: Option<Cursor>,
        at: Moment,
    ) {
        if let (Some(launch), Some(cursor)) = (launch, cursor) {
            self.record_heard(launch, at, cursor);
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

    pub(super) fn update_launch(&mut self, launch: LaunchId, change: impl FnOnce(&mut Launch)) {
        if let Some(launch) = self.launch_mut(launch) {
            change(launch);
        }
    }
}

/// Adds an item, and drops the oldest items if there are more than `limit`.
fn push_bounded<T>(items: &mut Vec<T>, item: T, limit: usize) {
    items.push(item);
    items.drain(..items.len().saturating_sub(limit));
}
