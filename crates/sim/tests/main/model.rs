//! A model check of one session: every observation, user action and time step, in any order, including late and
//! repeated ones. It is exhaustive up to a stated depth.

use std::hash::{Hash, Hasher};

use provost_core::{
    ids::{CommitId, LaunchId, RequestId, SessionId, TreeId},
    lifecycle::{ClaimKind, State},
    limits::Bounds,
    request::{AgentRequest, BlockingMode, RequestKind, RequestReply},
    session::{
        AgentInterface, AgentSpec, CommandStdin, Cursor, DeadlineKind, Event, ExitZeroPolicy,
        LaunchPhase, ManualOutcome, OnFinish, ProcessExit, ProcessIdentity, ReportBody, Reporter,
        SendMode, Session, SessionCommand, SessionOpened, SessionSpec, StoppedBy, StreamSignal,
        TurnEnd, WorkLocation,
    },
    time::Moment,
    verdict::{CheckEnd, EmptyDiff, Receipt, Snapshot},
};
use provost_sim::session_laws::SessionWatch;
use stateright::{Checker, Model, Property};

/// The number of actions up to which every order is tried.
const DEPTH: usize = 5;

/// The length of a time step, and of most windows.
const TICK: u64 = 1;

/// One session and everything that may happen to it.
struct OneSession;

/// A session with the history needed to judge it.
#[derive(Clone, Debug)]
struct SessionNode {
    session: Session,
    now: Moment,
    watch: SessionWatch,
    violations: Violations,
    /// The stored form, which defines the identity of a node.
    text: String,
}

/// The properties that the step into a node violated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Violations {
    law: Option<String>,
    sealed_changed: bool,
    deadline_stuck: bool,
    fence_broken: bool,
    cancel_overwritten: bool,
}

impl PartialEq for SessionNode {
    fn eq(&self, other: &SessionNode) -> bool {
        self.text == other.text && self.violations == other.violations
    }
}

impl Hash for SessionNode {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text.hash(hasher);
        self.violations.law.hash(hasher);
    }
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a step lives for one transition")]
enum SessionModelStep {
    Command(SessionCommand),
    Tick,
}

macro_rules! reaches {
    ($name:literal, $state:ident) => {
        Property::sometimes($name, |_: &OneSession, node: &SessionNode| {
            let sealed = node.session.attempts.iter().filter_map(|a| a.sealed.as_ref());
            sealed.map(|sealed| sealed.judgement.state).any(|state| state == State::$state)
        })
    };
}

impl Model for OneSession {
    type State = SessionNode;
    type Action = SessionModelStep;

    fn init_states(&self) -> Vec<SessionNode> {
        let checks = [vec![], vec!["check".to_owned()]];
        let begun = checks.into_iter().flat_map(|checks| [begin(&checks), begin_resumed(&checks)]);
        begun.chain([begin_checked()]).collect()
    }

    fn actions(&self, node: &SessionNode, actions: &mut Vec<SessionModelStep>) {
        actions.push(SessionModelStep::Tick);
        let all = commands(&node.session).into_iter();
        let new = all.filter(|command| node.session.decide(command, node.now).is_ok());
        actions.extend(new.map(SessionModelStep::Command));
    }

    fn next_state(&self, node: &SessionNode, step: SessionModelStep) -> Option<SessionNode> {
        let mut next = node.clone();
        next.violations = Violations::default();
        match &step {
            SessionModelStep::Tick => next.tick(),
            SessionModelStep::Command(command) => next.apply(command),
        }
        next.judge(node, &step);
        next.text = text(&next.session, next.now);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every law holds", |_, node: &SessionNode| {
                node.violations.law.is_none()
            }),
            Property::always("sealed is final", |_, node: &SessionNode| {
                !node.violations.sealed_changed
            }),
            Property::always("a due deadline makes progress", |_, node: &SessionNode| {
                !node.violations.deadline_stuck
            }),
            Property::always("older launches are fenced", |_, node: &SessionNode| {
                !node.violations.fence_broken
            }),
            Property::always("cancelled stays", |_, node: &SessionNode| {
                !node.violations.cancel_overwritten
            }),
            reaches!("succeeded", Succeeded),
            reaches!("completed", Completed),
            reaches!("accepted", Accepted),
            reaches!("failed", Failed),
            reaches!("exited_without_claim", ExitedWithoutClaim),
            reaches!("stopped", Stopped),
            reaches!("disputed", Disputed),
            reaches!("cancelled", Cancelled),
            reaches!("superseded", Superseded),
        ]
    }
}

#[test]
fn all_event_orders_keep_the_contract() {
    let checker = OneSession.checker().threads(2).target_max_depth(DEPTH).spawn_bfs().join();
    println!(
        "{} states, {} of them different, depth {}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth()
    );
    checker.assert_properties();
}

impl SessionNode {
    fn tick(&mut self) {
        self.now.mono_ms += TICK;
        self.now.wall_ms += TICK as i64;
        self.settle();
        if let Some((at, DeadlineKind::Silence(launch))) = self.session.deadline()
            && at <= self.now.mono_ms
        {
            let heard = self.session.launch(launch).map_or(0, |l| l.stream.last_heard.mono_ms);
            self.apply(&SessionCommand::Silence { launch, heard_ms: heard });
        }
    }

    fn apply(&mut self, command: &SessionCommand) {
        for event in self.session.decide(command, self.now).unwrap_or_default() {
            self.fold(&event);
        }
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(event) = self.session.advance(self.now) {
            self.fold(&event);
        }
        let rest = self.watch.check_settled(&self.session, self.now);
        self.violations.law = self.violations.law.take().or(rest.err());
    }

    fn fold(&mut self, event: &Event) {
        let before = self.session.clone();
        self.session.evolve(self.now, event);
        let judged = self.watch.check_event(&before, self.now, event, &self.session);
        self.violations.law = self.violations.law.take().or(judged.err());
    }

    /// Checks the four properties that the contract names, once more in their simplest form.
    fn judge(&mut self, before: &SessionNode, step: &SessionModelStep) {
        let (was, is) = (before.session.attempt(), self.session.attempt());
        let resolved = matches!(step, SessionModelStep::Command(SessionCommand::Resolve { .. }));
        let (before_state, state) = (before.session.judgement(), self.session.judgement());
        let same = was.no == is.no;
        self.violations.sealed_changed = was.is_sealed()
            && (self.session.attempts[was.no as usize - 1].sealed != was.sealed
                || (same && !resolved && before_state.state != state.state));
        self.violations.deadline_stuck =
            self.session.deadline().is_some_and(|(at, _)| at <= self.now.mono_ms);
        self.violations.cancel_overwritten =
            same && !resolved && was.cancelled.is_some() && before_state.state != state.state;
        let older = launch_of(step).is_some_and(|launch| {
            before.session.current_launch().is_some_and(|current| current.id != launch)
        });
        self.violations.fence_broken = older
            && (was.claim != is.claim
                || was.verifying != is.verifying
                || before_state.state != state.state);
    }
}

fn launch_of(step: &SessionModelStep) -> Option<LaunchId> {
    match step {
        SessionModelStep::Command(SessionCommand::Observed {
            signal: StreamSignal::RequestWithdrawn { .. },
            ..
        })
        | SessionModelStep::Tick => None,
        SessionModelStep::Command(SessionCommand::Observed { launch, .. }) => Some(*launch),
        SessionModelStep::Command(SessionCommand::Report {
            from: Reporter::Launch(launch),
            ..
        }) => Some(*launch),
        SessionModelStep::Command(_) => None,
    }
}

fn begin(checks: &[String]) -> SessionNode {
    let now = Moment { wall_ms: 0, mono_ms: 0 };
    let opened = SessionOpened { spec: Box::new(spec(checks)) };
    let session = Session::open(SessionId(uuid()), now, &opened);
    let watch = SessionWatch::start(&session);
    let mut node =
        SessionNode { session, now, watch, violations: Violations::default(), text: String::new() };
    node.apply(&SessionCommand::WorkPrepared { cwd: "/w".to_owned(), base: Some(snapshot("t0")) });
    node.apply(&started(node.session.launches[0].id));
    node.text = text(&node.session, node.now);
    node
}

/// Returns a session whose first launch ended with a question, and whose second runs.
fn begin_resumed(checks: &[String]) -> SessionNode {
    let mut node = begin(checks);
    let launch = node.session.launches[0].id;
    let cursor = Cursor { offset: 1, skip: 0 };
    node.apply(&SessionCommand::Observed {
        launch,
        signal: StreamSignal::RequestOpened(asked()),
        cursor,
    });
    node.apply(&SessionCommand::ProcessEnded {
        launch,
        end: ProcessExit::Exit(0),
        by: StoppedBy::Itself,
    });
    let request = RequestId { session: node.session.id, no: 1 };
    node.apply(&SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Text("yes".to_owned()),
    });
    node.apply(&started(node.session.launches[1].id));
    node.text = text(&node.session, node.now);
    node
}

/// Returns a session whose work was claimed and checked, and whose tree needs a second snapshot.
fn begin_checked() -> SessionNode {
    let mut node = begin(&["check".to_owned()]);
    let launch = node.session.launches[0].id;
    let at = |offset| Cursor { offset, skip: 0 };
    let report = ReportBody::Claim { kind: ClaimKind::Completed, text: None };
    node.apply(&SessionCommand::Observed {
        launch,
        signal: StreamSignal::Reported(report),
        cursor: at(1),
    });
    let over = StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None };
    node.apply(&SessionCommand::Observed { launch, signal: over, cursor: at(2) });
    let [look, _, pass, _] = proof(&node.session).try_into().expect("there are four");
    node.apply(&look);
    node.apply(&pass);
    node.text = text(&node.session, node.now);
    node
}

fn commands(session: &Session) -> Vec<SessionCommand> {
    let mut all = Vec::new();
    for launch in &session.launches {
        let id = launch.id;
        let next = Cursor { offset: launch.cursor.offset + 1, skip: 0 };
        let again = launch.cursor;
        let observed =
            |signal: StreamSignal, cursor| SessionCommand::Observed { launch: id, signal, cursor };
        let claim = |kind| StreamSignal::Reported(ReportBody::Claim { kind, text: None });
        all.extend([
            observed(StreamSignal::TurnStarted { turn: None }, next),
            observed(
                StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None },
                next,
            ),
            observed(claim(ClaimKind::Completed), next),
            observed(claim(ClaimKind::Completed), again),
            observed(claim(ClaimKind::Failed), next),
            observed(StreamSignal::RequestOpened(asked()), next),
            observed(StreamSignal::RequestWithdrawn { native: "q".to_owned() }, next),
            observed(StreamSignal::Closed, next),
            SessionCommand::ProcessEnded {
                launch: id,
                end: ProcessExit::Exit(0),
                by: StoppedBy::Itself,
            },
            SessionCommand::ProcessEnded {
                launch: id,
                end: ProcessExit::Exit(1),
                by: StoppedBy::Itself,
            },
            SessionCommand::ProcessEnded {
                launch: id,
                end: ProcessExit::Signal(15),
                by: StoppedBy::Provost,
            },
            SessionCommand::ProcessUnobserved { launch: id, why: String::new() },
            SessionCommand::ProcessTreeGone { launch: id, leftovers: 0, verified: true },
        ]);
        if launch.phase == LaunchPhase::Pending {
            all.push(started(id));
        }
    }
    all.extend(proof(session));
    all.extend(user_commands(session));
    all
}

fn proof(session: &Session) -> Vec<SessionCommand> {
    let attempt = session.attempt().no;
    let no = session.attempt().verifying.taken + 1;
    let receipt = |end| Receipt {
        command: "check".to_owned(),
        tree: TreeId("t1".to_owned()),
        end,
        duration_ms: 0,
        output_digest: String::new(),
        output: String::new(),
        tail: String::new(),
        warm: false,
        environment: None,
        overlay: None,
    };
    vec![
        SessionCommand::SnapshotTaken {
            attempt,
            no,
            snapshot: snapshot("t1"),
            caveats: Default::default(),
        },
        SessionCommand::SnapshotTaken {
            attempt,
            no,
            snapshot: snapshot("t2"),
            caveats: Default::default(),
        },
        SessionCommand::CheckFinished { attempt, receipt: receipt(CheckEnd::Exit(0)) },
        SessionCommand::CheckFinished { attempt, receipt: receipt(CheckEnd::Exit(1)) },
    ]
}

fn user_commands(session: &Session) -> Vec<SessionCommand> {
    let because = String::new();
    let newest = session.requests.last().map(|request| (request.id, request.revision));
    let answer = newest.map(|(request, revision)| SessionCommand::Answer {
        request,
        revision,
        reply: RequestReply::Text(String::new()),
    });
    let key = format!("send-{}", session.input.messages.len());
    let mut all = vec![
        SessionCommand::Cancel { because: because.clone() },
        SessionCommand::Stop,
        SessionCommand::Resolve { to: ManualOutcome::Accepted, because: because.clone() },
        SessionCommand::Send { key, text: because, mode: SendMode::Supersede },
    ];
    all.extend(answer);
    // Endlessly repeated user actions add states without insight.
    let busy = session.attempts.len() > 1 || !session.attempt().resolutions.is_empty();
    if busy { Vec::new() } else { all }
}

fn spec(checks: &[String]) -> SessionSpec {
    SessionSpec {
        name: "m".to_owned(),
        role: None,
        task: None,
        adopted: None,
        project: None,
        cwd: "/w".to_owned(),
        agent: AgentSpec {
            name: "m".to_owned(),
            interface: AgentInterface::json_lines(),
            argv: vec!["a".to_owned()],
            env: Default::default(),
            pass_env: Vec::new(),
            own_env: Vec::new(),
            input: CommandStdin::Closed,
            settings: Default::default(),
            version: None,
            profile: Default::default(),
        },
        instruction: None,
        work: WorkLocation::Plain,
        setup: None,
        checks: checks.to_vec(),
        keep: Vec::new(),
        protected: Vec::new(),
        check_terms: Default::default(),
        empty_diff: EmptyDiff::Refused,
        exit_zero: ExitZeroPolicy::NotAClaim,
        on_finish: OnFinish::Close,
        bounds: Bounds {
            settle_ms: TICK,
            drain_ms: TICK,
            stream_settle_ms: TICK,
            stale_ms: 2 * TICK,
            stop_grace_ms: TICK,
            kill_grace_ms: TICK,
            time_limit_ms: Some(4 * TICK),
            rework: 1,
            snapshots: 1,
            ..Bounds::default()
        },
        budget: Default::default(),
        policy: Default::default(),
        hooks: Default::default(),
        reactions: Vec::new(),
        warnings: Vec::new(),
        run: None,
    }
}

fn started(launch: LaunchId) -> SessionCommand {
    let child = ProcessIdentity { pid: 1, start_time: 1, boot_id: String::new() };
    SessionCommand::LaunchStarted { launch, holder: child.clone(), child }
}

fn asked() -> AgentRequest {
    AgentRequest {
        native: "q".to_owned(),
        kind: RequestKind::Question,
        waiting: BlockingMode::Blocking,
        title: String::new(),
        questions: Vec::new(),
        subject: None,
    }
}

fn snapshot(tree: &str) -> Snapshot {
    Snapshot { commit: CommitId("c".to_owned()), tree: TreeId(tree.to_owned()) }
}

fn text(session: &Session, now: Moment) -> String {
    let stored = serde_json::to_string(session).expect("a session has string keys only");
    format!("{}{stored}", now.mono_ms)
}

fn uuid() -> uuid::Uuid {
    uuid::Uuid::from_u128(1)
}
