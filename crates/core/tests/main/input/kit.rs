//! Fixtures for input: sessions in terminals and panes, and shorthands for their signals.

use provost_core::{
    request::{AgentRequest, BlockingMode, RequestKind},
    session::{
        DeliveryStatus, ExternalAgent, InputBlocked, ProcessIdentity, RecordSignal, RecordSource,
        ScreenHint, ScreenSource, SendMode, SessionCommand, SessionEffect, SessionSpec,
        StreamSignal, TmuxPane, TurnEnd,
    },
};

use crate::interfaces;
use crate::kit::{TestSession, spec};

pub(crate) fn terminal_spec() -> SessionSpec {
    let mut spec = spec();
    spec.agent.interface = interfaces::screen();
    spec.instruction = None;
    spec.on_finish = provost_core::session::OnFinish::Park;
    spec
}

pub(crate) fn adopted_spec(pane: bool) -> SessionSpec {
    let pane =
        pane.then(|| TmuxPane { socket: "/tmux".to_owned(), id: "%1".to_owned(), server: Some(3) });
    let adopted = ExternalAgent { pane, ..ExternalAgent::default() };
    SessionSpec { adopted: Some(Box::new(adopted)), ..terminal_spec() }
}

pub(crate) fn identity() -> ProcessIdentity {
    ProcessIdentity { pid: 7, start_time: 8, boot_id: "boot".to_owned() }
}

/// A session that adopted an external agent.
pub(crate) fn adopted_session(spec: SessionSpec) -> TestSession {
    let mut harness = TestSession::new(spec);
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = harness.launch();
    harness.apply(SessionCommand::LaunchAdopted { launch, child: Some(identity()) });
    harness
}

/// Shorthands for observations, each at its own position.
pub(crate) trait WatchSignals {
    fn record(&mut self, place: u64, what: RecordSignal) -> &mut TestSession;
    fn show(&mut self, by: ScreenSource, place: u64, what: ScreenHint) -> &mut TestSession;
    fn begin_turn(&mut self, place: u64, turn: &str) -> &mut TestSession;
    fn end_turn(&mut self, place: u64, turn: &str) -> &mut TestSession;
}

impl WatchSignals for TestSession {
    fn record(&mut self, place: u64, what: RecordSignal) -> &mut TestSession {
        let launch = self.launch();
        self.apply(SessionCommand::RecordRead { launch, by: RecordSource::Rollout, place, what })
    }

    fn show(&mut self, by: ScreenSource, place: u64, what: ScreenHint) -> &mut TestSession {
        let launch = self.launch();
        self.apply(SessionCommand::ScreenHinted { launch, by, place, what })
    }

    fn begin_turn(&mut self, place: u64, turn: &str) -> &mut TestSession {
        self.record(place, RecordSignal::TurnStarted { turn: Some(turn.to_owned()) })
    }

    fn end_turn(&mut self, place: u64, turn: &str) -> &mut TestSession {
        self.record(
            place,
            RecordSignal::TurnEnded { turn: Some(turn.to_owned()), end: TurnEnd::Ok, says: None },
        )
    }
}

pub(crate) fn send(key: &str, text: &str) -> SessionCommand {
    let (key, text) = (key.to_owned(), text.to_owned());
    SessionCommand::Send { key, text, mode: SendMode::Continue }
}

pub(crate) fn approval() -> AgentRequest {
    AgentRequest {
        native: "hook-1".to_owned(),
        kind: RequestKind::Approval,
        waiting: BlockingMode::Blocking,
        title: "run it".to_owned(),
        questions: Vec::new(),
        subject: None,
    }
}

pub(crate) fn pending_delivery(harness: &TestSession) -> Option<String> {
    harness.session.effects().into_iter().find_map(|effect| match effect {
        SessionEffect::Deliver { message, .. } => Some(message),
        SessionEffect::PrepareWork { .. }
        | SessionEffect::RunSetup { .. }
        | SessionEffect::StartLaunch(_)
        | SessionEffect::Follow(_)
        | SessionEffect::StopLaunch(..)
        | SessionEffect::PressAgain { .. }
        | SessionEffect::TakeSnapshot { .. }
        | SessionEffect::RunCheck { .. }
        | SessionEffect::RunHook(_) => None,
    })
}

pub(crate) fn input_blocked(harness: &TestSession) -> Option<InputBlocked> {
    let message = harness.session.input.messages.last().expect("something was sent");
    let launch = harness.session.current_launch().expect("it runs");
    harness.session.input_blocked(launch, message)
}

/// A terminal session with "hello" typed at its prompt.
pub(crate) fn typed_hello() -> TestSession {
    let mut harness = TestSession::running(terminal_spec());
    harness.show(ScreenSource::Osc, 10, ScreenHint::AtPrompt).apply(send("one", "hello"));
    harness.signal(StreamSignal::InputWritten { key: "one".to_owned() });
    harness
}

pub(crate) fn first_message_fate(harness: &TestSession) -> &DeliveryStatus {
    &harness.session.input.messages[0].status
}
