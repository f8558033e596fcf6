//! Fixtures and shorthands for session tests.

use std::collections::BTreeMap;

use provost_core::{
    ids::{CommitId, LaunchId, SessionId, TreeId},
    lifecycle::{Cause, ClaimKind, Flag, State},
    limits::Bounds,
    request::{AgentRequest, BlockingMode, RequestKind, RequestReply},
    session::{
        AgentInterface, AgentSpec, Cursor, Event, ExitZeroPolicy, HookEvent, HookSpec, OnFinish,
        ProcessExit, ProcessIdentity, ReportBody, Reporter, SendMode, Session, SessionCommand,
        SessionEffect, SessionOpened, SessionRejection, SessionSpec, StopStep, StoppedBy,
        StreamSignal, TurnEnd, WorkLocation,
    },
    time::Moment,
    verdict::{
        CheckEnd, CheckRefutation, EmptyDiff, Evidence, Receipt, Snapshot, Verdict, VerifiedTree,
    },
};

pub(crate) fn snapshot(tree: &str) -> Snapshot {
    Snapshot { commit: CommitId(format!("commit-of-{tree}")), tree: TreeId(tree.to_owned()) }
}

pub(crate) fn receipt(tree: &str, command: &str, end: CheckEnd) -> Receipt {
    Receipt {
        command: command.to_owned(),
        tree: TreeId(tree.to_owned()),
        end,
        duration_ms: 1,
        output_digest: String::new(),
        output: String::new(),
        tail: String::new(),
        warm: false,
        environment: None,
        overlay: None,
    }
}

pub(crate) fn passed() -> VerifiedTree {
    let required = ["check".to_owned()];
    let verdict = Verdict::from_evidence(Evidence {
        snapshot: &snapshot("new"),
        base: Some(&TreeId("old".to_owned())),
        empty_diff: EmptyDiff::Refused,
        required: &required,
        receipts: &[receipt("new", "check", CheckEnd::Exit(0))],
    });
    match verdict {
        Verdict::Passed(passed) => passed,
        Verdict::Open | Verdict::Refuted(_) => panic!("the evidence is complete"),
    }
}

pub(crate) fn failed() -> CheckRefutation {
    CheckRefutation::Check { command: "check".to_owned(), end: CheckEnd::Exit(1) }
}

pub(crate) fn spec() -> SessionSpec {
    SessionSpec {
        name: "test".to_owned(),
        role: None,
        project: None,
        cwd: "/work".to_owned(),
        agent: AgentSpec {
            name: "test".to_owned(),
            interface: AgentInterface::json_lines(),
            argv: vec!["agent".to_owned()],
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            own_env: Vec::new(),
            input: provost_core::session::CommandStdin::Closed,
            settings: Default::default(),
            version: None,
            profile: Default::default(),
        },
        instruction: Some("do it".to_owned()),
        work: WorkLocation::Plain,
        setup: None,
        checks: Vec::new(),
        keep: Vec::new(),
        protected: Vec::new(),
        check_terms: Default::default(),
        empty_diff: EmptyDiff::Refused,
        exit_zero: ExitZeroPolicy::NotAClaim,
        on_finish: OnFinish::Close,
        bounds: Bounds { settle_ms: 50, ..Bounds::default() },
        budget: Default::default(),
        policy: Default::default(),
        hooks: HookEvent::all()
            .into_iter()
            .map(|event| {
                (
                    event,
                    HookSpec { argv: vec!["hook".to_owned()], time_limit_ms: 1, output_limit: 1 },
                )
            })
            .collect(),
        reactions: Vec::new(),
        warnings: Vec::new(),
        run: None,
        task: None,
        adopted: None,
    }
}

pub(crate) fn checked_spec() -> SessionSpec {
    SessionSpec { checks: vec!["check".to_owned()], ..spec() }
}

pub(crate) fn command_spec() -> SessionSpec {
    let mut spec = spec();
    spec.agent.interface = AgentInterface::command();
    spec.instruction = None;
    spec
}

/// A blocking question with the agent's own id for it.
pub(crate) fn question(native: &str) -> AgentRequest {
    AgentRequest {
        native: native.to_owned(),
        kind: RequestKind::Question,
        waiting: BlockingMode::Blocking,
        title: String::new(),
        questions: Vec::new(),
        subject: None,
    }
}

pub(crate) fn send(key: &str, mode: SendMode) -> SessionCommand {
    SessionCommand::Send { key: key.to_owned(), text: format!("the text of {key}"), mode }
}

/// The successful end of a turn.
pub(crate) const TURN_ENDED_OK: StreamSignal =
    StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None };

/// A session under test, with a clock and a journal cursor that only move forward.
pub(crate) struct TestSession {
    pub(crate) session: Session,
    pub(crate) log: Vec<(Moment, Event)>,
    pub(crate) now: Moment,
    cursor: u64,
}

impl TestSession {
    pub(crate) fn new(spec: SessionSpec) -> TestSession {
        let now = Moment { wall_ms: 1_000_000, mono_ms: 1_000 };
        let opened = SessionOpened { spec: Box::new(spec) };
        let id = SessionId(uuid::Uuid::from_u128(7));
        let session = Session::open(id, now, &opened);
        TestSession { session, log: vec![(now, opened.into())], now, cursor: 0 }
    }

    /// Opens a session and starts its first launch.
    pub(crate) fn running(spec: SessionSpec) -> TestSession {
        let mut harness = TestSession::new(spec);
        let base = Some(snapshot("old"));
        harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base });
        harness.start();
        harness
    }

    /// Opens a session whose first launch ended with a question and whose second launch is running.
    pub(crate) fn resumed() -> TestSession {
        let mut harness = TestSession::running(spec());
        harness.signal(StreamSignal::RequestOpened(question("q"))).end(ProcessExit::Exit(0));
        let request = harness.session.requests[0].id;
        harness.apply(SessionCommand::Answer {
            request,
            revision: 1,
            reply: RequestReply::Text("yes".to_owned()),
        });
        harness.start();
        harness
    }

    pub(crate) fn start(&mut self) {
        let launch = self.launch();
        let child = ProcessIdentity { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
        let holder = ProcessIdentity { pid: 4, ..child.clone() };
        self.apply(SessionCommand::LaunchStarted { launch, holder, child });
    }

    pub(crate) fn launch(&self) -> LaunchId {
        LaunchId { session: self.session.id, no: self.session.launches.len() as u32 }
    }

    pub(crate) fn try_apply(&mut self, command: SessionCommand) -> Result<(), SessionRejection> {
        let events = self.session.decide(&command, self.now)?;
        for event in events {
            self.fold(event);
        }
        self.advance();
        Ok(())
    }

    pub(crate) fn apply(&mut self, command: SessionCommand) -> &mut Self {
        let shown = format!("{command:?}");
        self.try_apply(command).unwrap_or_else(|why| panic!("{shown} was rejected: {why}"));
        self
    }

    fn fold(&mut self, event: Event) {
        self.session.evolve(self.now, &event);
        self.log.push((self.now, event));
    }

    pub(crate) fn advance(&mut self) {
        for _ in 0..50 {
            match self.session.advance(self.now) {
                Some(event) => self.fold(event),
                None => return,
            }
        }
        panic!("advance() does not terminate: {:?}", self.log.last());
    }

    pub(crate) fn advance_clock(&mut self, ms: u64) -> &mut Self {
        self.now.mono_ms += ms;
        self.now.wall_ms += ms as i64;
        self.advance();
        self
    }

    /// Advances the clock until no deadline but silence is left.
    pub(crate) fn settle(&mut self) -> &mut Self {
        for _ in 0..100 {
            let Some((at, due)) = self.session.deadline() else { return self };
            let ahead = at.saturating_sub(self.now.mono_ms);
            if let provost_core::session::DeadlineKind::Silence(_) = due {
                return self;
            }
            self.advance_clock(ahead);
        }
        panic!("deadlines never end")
    }

    pub(crate) fn signal(&mut self, signal: StreamSignal) -> &mut Self {
        self.cursor += 10;
        let cursor = Cursor { offset: self.cursor, skip: 0 };
        let launch = self.launch();
        self.apply(SessionCommand::Observed { launch, signal, cursor })
    }

    /// Sends a signal that may be rejected.
    pub(crate) fn try_signal(&mut self, signal: StreamSignal) -> Result<(), SessionRejection> {
        self.cursor += 10;
        let cursor = Cursor { offset: self.cursor, skip: 0 };
        self.try_apply(SessionCommand::Observed { launch: self.launch(), signal, cursor })
    }

    pub(crate) fn claim(&mut self, kind: ClaimKind) -> &mut Self {
        self.claim_with_text(kind, None)
    }

    pub(crate) fn claim_with_text(&mut self, kind: ClaimKind, text: Option<&str>) -> &mut Self {
        let (from, text) = (Reporter::Launch(self.launch()), text.map(str::to_owned));
        self.apply(SessionCommand::Report { from, testimony: ReportBody::Claim { kind, text } })
    }

    /// Ends the process by itself, closes its stream and reports its tree as gone.
    pub(crate) fn end(&mut self, end: ProcessExit) -> &mut Self {
        self.end_by(end, StoppedBy::Itself)
    }

    pub(crate) fn end_by(&mut self, end: ProcessExit, by: StoppedBy) -> &mut Self {
        let launch = self.launch();
        self.apply(SessionCommand::ProcessEnded { launch, end, by });
        if self.session.launch(launch).expect("it was requested").stream.closed.is_none() {
            self.signal(StreamSignal::Closed);
        }
        self.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true })
    }

    /// Answers the pending snapshot.
    pub(crate) fn snapshot(&mut self, tree: &str) -> &mut Self {
        let taken = self.snapshot_taken(tree);
        self.apply(taken)
    }

    /// Builds the result of the pending snapshot.
    pub(crate) fn snapshot_taken(&self, tree: &str) -> SessionCommand {
        let attempt = self.session.attempt();
        let no = attempt.verifying.taken + 1;
        let caveats = Default::default();
        SessionCommand::SnapshotTaken { attempt: attempt.no, no, snapshot: snapshot(tree), caveats }
    }

    /// Finishes the only check on a tree.
    pub(crate) fn check(&mut self, tree: &str, end: CheckEnd) -> &mut Self {
        let attempt = self.session.attempt().no;
        self.apply(SessionCommand::CheckFinished { attempt, receipt: receipt(tree, "check", end) })
    }

    /// Runs the pending verification: snapshots `tree` and ends every check with `end`.
    pub(crate) fn verify(&mut self, tree: &str, end: CheckEnd) -> &mut Self {
        for _ in 0..10 {
            let pending = self.session.effects();
            let step = pending.iter().find(|effect| {
                matches!(
                    effect,
                    SessionEffect::TakeSnapshot { .. } | SessionEffect::RunCheck { .. }
                )
            });
            match step {
                Some(SessionEffect::TakeSnapshot { .. }) => self.snapshot(tree),
                Some(_) => self.check(tree, end.clone()),
                None => return self,
            };
        }
        panic!("verification does not end")
    }

    /// Decides a command without applying its events.
    pub(crate) fn decide(&self, command: &SessionCommand) -> Result<Vec<Event>, SessionRejection> {
        self.session.decide(command, self.now)
    }

    /// Ends the process, but leaves its stream open and its tree unknown.
    pub(crate) fn exit(&mut self, end: ProcessExit, by: StoppedBy) -> &mut Self {
        let launch = self.launch();
        self.apply(SessionCommand::ProcessEnded { launch, end, by })
    }

    /// Reports silence on the stream since the last signal, after the stale window.
    pub(crate) fn report_silence(&mut self) -> &mut Self {
        let launch = self.launch();
        let heard_ms =
            self.session.launch(launch).expect("it was requested").stream.last_heard.mono_ms;
        self.advance_clock(self.session.spec.bounds.stale_ms);
        self.apply(SessionCommand::Silence { launch, heard_ms })
    }

    pub(crate) fn has_effect(&self, effect: &SessionEffect) -> bool {
        self.session.effects().contains(effect)
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.session.judgement().cause
    }

    pub(crate) fn has_flag(&self, flag: Flag) -> bool {
        self.session.judgement().has(flag)
    }

    pub(crate) fn stop_step(&self) -> Option<StopStep> {
        self.session.launches.last()?.stop.map(|stop| stop.step)
    }

    pub(crate) fn state(&self) -> State {
        self.session.judgement().state
    }

    pub(crate) fn sealed(&self) -> bool {
        self.session.attempt().is_sealed()
    }

    pub(crate) fn hooks(&self) -> Vec<String> {
        self.session.hook_log.pending.iter().map(|hook| hook.key.event.to_string()).collect()
    }
}
