//! Applies events to a session. This never fails, because every stored event must remain readable.

mod attempt;
mod process;
mod report;
mod stream;
mod turn_end;

use super::{
    attempt::Attempt,
    event::{EffectEvent, Event, SessionChange, SessionOpened},
    hook::{HookEvent, HookLog},
    input::InputQueue,
    launch::LaunchPhase,
    reactions::{ReactionState, Reactions},
    state::{
        AgentReports, Conversation, Dismissal, Session, SessionOrigin, SetupState, Spending, Usage,
        WorkState, Worktree,
    },
    tool_calls::ToolCalls,
};
use crate::{ids::SessionId, lifecycle::State, rules::rules, time::Moment};

impl Session {
    /// Creates a session from its first event.
    pub fn open(id: SessionId, at: Moment, event: &SessionOpened) -> Session {
        let spec = (*event.spec).clone();
        let setup = spec.setup.as_ref().map_or(SetupState::NotNeeded, |_| SetupState::Pending);
        let output_limit = spec.bounds.output_limit;
        let mut session = Session {
            id,
            opened: at,
            worktree: Worktree { state: WorkState::Pending, attempt: 1, setup, setup_attempt: 1 },
            attempts: vec![Attempt::open(1, spec.instruction.clone(), at)],
            launches: Vec::new(),
            requests: Vec::new(),
            calls: ToolCalls::default(),
            input: InputQueue::default(),
            hook_log: HookLog::default(),
            conversation: Conversation::default(),
            spending: Spending {
                usage: Usage::default(),
                turns: 0,
                budget: spec.budget,
                limited: None,
                released_ms: None,
            },
            reported: AgentReports::default(),
            reactions: Reactions {
                states: vec![ReactionState::default(); spec.reactions.len()],
                ..Reactions::default()
            },
            dismissed: None,
            forged_records: 0,
            effect_waits: Vec::new(),
            output_limit,
            origin: SessionOrigin::default(),
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
        let (at, Event::Session(SessionChange::SessionOpened(first))) = events.next()? else {
            return None;
        };
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
            Event::Session(event) => self.apply_change(at, event),
            Event::Attempt(event) => self.apply_attempt(at, event),
            Event::Worktree(event) => self.apply_worktree(event),
            Event::Process(event) => self.apply_process(at, event),
            Event::Stream(event) => self.apply_stream(at, event),
            Event::Turn(event) => self.apply_turn(at, event),
            Event::Conversation(event) => self.apply_conversation(at, event),
            Event::Budget(event) => self.apply_budget(at, event),
            Event::Input(event) => self.apply_input(at, event),
            Event::Report(event) => self.apply_report(at, event),
            Event::Request(event) => self.apply_request(at, event),
            Event::Tool(event) => self.apply_tool(at, event),
            Event::Evidence(event) => self.apply_evidence(event),
            Event::Effect(event) => self.apply_effect(at, event),
        }
    }

    /// Applies a change to the session itself.
    fn apply_change(&mut self, at: Moment, event: &SessionChange) {
        match event {
            SessionChange::SessionOpened(_) => {}
            SessionChange::SessionRenamed(e) => self.spec.name.clone_from(&e.name),
            SessionChange::SessionTakenOver(_) => self.origin.taken_over = true,
            SessionChange::SessionDismissed(e) => {
                let because = e.because.clone();
                self.dismissed = Some(Dismissal { because, at_once: e.at_once });
            }
            SessionChange::AgentReplaced(e) => self.switch_to_successor(&e.from),
            SessionChange::ReactionDone(e) => self.carry_out(e, at),
            SessionChange::HookFinished(e) => self.finish_hook(e),
        }
    }

    /// Applies an event about an effect.
    fn apply_effect(&mut self, at: Moment, event: &EffectEvent) {
        match event {
            EffectEvent::RecordForged(_) => {
                self.forged_records = self.forged_records.saturating_add(1)
            }
            EffectEvent::EffectShortage(e) => self.record_shortage(e, at),
            EffectEvent::EffectRetried(e) => self.retry(e),
        }
    }

    /// Updates the shown state and its start time, on which windows and hooks are based.
    fn update_shown_state(&mut self, at: Moment) {
        if self.attempt().is_sealed() {
            return;
        }
        let state = self.judge_facts().state;
        let working = rules().counts_time_in(state)
            && !state.is_terminal()
            && self.spending.limited.is_none()
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
            if rules().announces_when_shown(state) {
                self.queue_state_hook(state, at);
            }
        }
        self.update_occasions(at);
    }
}
