//! Fixtures for runs: a run with its sessions, and shorthands for their events.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    ids::{CommitId, RunId, SessionId, TreeId},
    lifecycle::{ClaimKind, State},
    limits::Bounds,
    request::{Asked, Question, Reply, RequestKind, Waiting},
    result::{Finding, Review, Severity, Structured, Triage},
    run::{
        Around, Command, Effect, Ending, Event, LandMode, LandStep, Order, Outcome, Planning,
        PullChecks, PullStanding, PullState, Rejected, Remark, ReviewMode, Reviews, Run,
        RunHookEvent, RunOpened, RunSession, RunSpec, RunStopped, Stage, Step, Target,
    },
    session::{
        self, Cursor, Driver, End, EndedBy, HookSpec, Identity, LaunchPhase, Session,
        SessionOpened, SetupState, Signal, Spec, Testimony, TurnEnd, Usage, Work, WorkState,
    },
    time::Moment,
    verdict::{CheckEnd, EmptyDiff, Snapshot},
};

use crate::kit::{receipt, snapshot};

/// A run without triage or reviews that lands on its own branch, with one check.
pub(crate) fn run_spec() -> RunSpec {
    let hook = HookSpec { argv: vec!["hook".to_owned()], time_limit_ms: 1, output_limit: 1 };
    RunSpec {
        name: "limit".to_owned(),
        goal: "add rate limiting".to_owned(),
        preset: None,
        spec: None,
        project: "/project".to_owned(),
        cwd: "/project/api".to_owned(),
        target: Target { branch: Some("main".to_owned()), base: snapshot("old"), remote: None },
        worktrees: "/trees/limit".to_owned(),
        branch: "provost/limit".to_owned(),
        agent: crate::kit::spec().agent,
        triage: false,
        planning: Planning::default(),
        reviews: Reviews {
            plan: ReviewMode::Off,
            task: ReviewMode::Off,
            whole: ReviewMode::Off,
            cycles: 2,
        },
        land: LandMode::Branch,
        checks: vec!["check".to_owned()],
        configured_checks: false,
        no_checks: false,
        keep: Vec::new(),
        protected: Vec::new(),
        setup: None,
        copy: Vec::new(),
        empty_diff: EmptyDiff::Refused,
        bounds: Bounds { settle_ms: 50, rework: 0, ..Bounds::default() },
        budget: Default::default(),
        policy: Default::default(),
        questions: true,
        answers: BTreeMap::new(),
        templates: BTreeMap::new(),
        hooks: RunHookEvent::ALL.into_iter().map(|event| (event, hook.clone())).collect(),
        pull_every_ms: 1,
        comments_from: Default::default(),
        pull_checks_ms: 1,
        prices: None,
        origin: None,
        warnings: Vec::new(),
    }
}

pub(crate) fn unchecked() -> RunSpec {
    RunSpec { checks: Vec::new(), ..run_spec() }
}

pub(crate) fn triaged() -> RunSpec {
    RunSpec { triage: true, ..run_spec() }
}

pub(crate) fn landing_by(land: LandMode) -> RunSpec {
    RunSpec { land, ..run_spec() }
}

pub(crate) fn reviewed(task: ReviewMode, whole: ReviewMode) -> RunSpec {
    RunSpec { reviews: Reviews { plan: ReviewMode::Off, task, whole, cycles: 2 }, ..run_spec() }
}

pub(crate) fn finding(title: &str) -> Finding {
    Finding {
        title: title.to_owned(),
        detail: format!("about {title}"),
        severity: Severity::High,
        file: Some("src/api.rs".to_owned()),
        line: Some(7),
        repaired: false,
    }
}

pub(crate) fn understood(words: &str) -> Structured {
    Structured::Triage(Triage { understanding: words.to_owned(), needs_plan: false })
}

pub(crate) fn review(findings: Vec<Finding>) -> Structured {
    Structured::Review(Review { findings })
}

/// A request with one question, using the agent's ids for both.
pub(crate) fn asks(native: &str, id: &str, words: &str) -> Asked {
    Asked {
        native: native.to_owned(),
        kind: RequestKind::Question,
        waiting: Waiting::Blocking,
        title: "A question".to_owned(),
        questions: vec![one_question(id, words)],
        subject: None,
    }
}

pub(crate) fn one_question(id: &str, words: &str) -> Question {
    Question {
        id: id.to_owned(),
        header: String::new(),
        question: words.to_owned(),
        options: Vec::new(),
        only_options: false,
        secret: false,
    }
}

pub(crate) fn remark(id: &str, text: &str) -> Remark {
    Remark::new(id.to_owned(), "ann", text)
}

pub(crate) fn merge_step(tree: &str, conflicts: &[&str]) -> Box<LandStep> {
    Box::new(LandStep::Merge {
        onto: CommitId("theirs".to_owned()),
        work: CommitId("ours".to_owned()),
        merge: snapshot(tree),
        conflicts: conflicts.iter().map(|file| (*file).to_owned()).collect(),
    })
}

pub(crate) const OPEN: PullStanding = PullStanding::Open;

/// A run with its sessions and a clock that only moves forward.
pub(crate) struct RunBench {
    pub(crate) run: Run,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) log: Vec<(Moment, Event)>,
    pub(crate) now: Moment,
    /// Debug output of every command applied to a session.
    pub(crate) told: Vec<String>,
    /// Sessions that users continue on their own.
    pub(crate) theirs: BTreeSet<SessionId>,
    /// Number of agents that work for other runs.
    pub(crate) elsewhere: usize,
    /// The session that shorthands act on if several are live.
    pub(crate) focus: Option<SessionId>,
    cursor: u64,
}

impl RunBench {
    pub(crate) fn open(spec: RunSpec) -> RunBench {
        let now = Moment { wall_ms: 1_000_000, mono_ms: 1_000 };
        let opened = RunOpened { spec: Box::new(spec) };
        let run = Run::open(RunId(uuid::Uuid::from_u128(0x100)), now, &opened);
        let mut bench = RunBench {
            run,
            sessions: BTreeMap::new(),
            log: vec![(now, opened.into())],
            now,
            told: Vec::new(),
            theirs: BTreeSet::new(),
            elsewhere: 0,
            focus: None,
            cursor: 0,
        };
        bench.follow();
        bench
    }

    pub(crate) fn try_tell(&mut self, command: Command) -> Result<(), Rejected> {
        for event in self.run.decide(&command)? {
            self.fold(event);
        }
        self.follow();
        Ok(())
    }

    pub(crate) fn tell(&mut self, command: Command) -> &mut Self {
        let shown = format!("{command:?}");
        self.try_tell(command).unwrap_or_else(|why| panic!("{shown} was rejected: {why}"));
        self
    }

    pub(crate) fn cancel(&mut self) -> &mut Self {
        self.tell(Command::Cancel { because: "enough".to_owned() })
    }

    fn fold(&mut self, event: Event) {
        let stored = Event::decode(event.kind().0, event.kind().1, &event.encode());
        assert_eq!(stored.ok().as_ref(), Some(&event), "an event is read as it was written");
        self.run.evolve(self.now, &event);
        self.log.push((self.now, event));
        self.no_more_than_may_live();
    }

    /// Checks that only tasks run in parallel, each in its own worktree.
    fn no_more_than_may_live(&self) {
        let planning = &self.run.spec.planning;
        let most = if self.run.stage == Stage::Tasks { planning.parallel as usize + 1 } else { 1 };
        assert!(self.living().count() <= most, "more than {most} sessions of the run are live");
        assert!(self.run.agents_at_work() <= planning.parallel.max(1) as usize, "too many agents");
        let places = self.living().map(|one| self.run.worktree(one.id)).collect::<BTreeSet<_>>();
        assert_eq!(places.len(), self.living().count(), "two live sessions share a worktree");
    }

    /// Advances the run until it is idle, like the board does.
    pub(crate) fn follow(&mut self) {
        for _ in 0..200 {
            let sessions = &self.sessions;
            match self.run.advance(&Around {
                now: self.now,
                elsewhere: self.elsewhere,
                look: &|id| sessions.get(&id),
            }) {
                None => return self.rest(),
                Some(Step::Event(event)) => self.fold(event),
                Some(Step::With(event, Order::Open(id, spec))) => {
                    self.fold(event);
                    self.open_session(id, *spec);
                }
                Some(Step::With(event, Order::Tell(id, command))) => {
                    match self.try_session(id, &command) {
                        Ok(()) => self.fold(event),
                        Err(why) => {
                            let cause = provost_core::run::Cause::Work;
                            self.fold(RunStopped { cause, detail: why.to_string() }.into());
                        }
                    }
                }
                Some(Step::Tell(id, command)) => {
                    if self.try_session(id, &command).is_err() {
                        return;
                    }
                }
            }
        }
        panic!("the run does not terminate: {:?}", self.log.last());
    }

    /// Checks the invariants that hold whenever the run is idle.
    fn rest(&self) {
        let keys: BTreeSet<String> = self.run.effects().iter().map(Effect::key).collect();
        assert_eq!(keys.len(), self.run.effects().len(), "two effects have one key");
        if self.run.is_sealed() {
            assert_eq!(self.living().count(), 0, "sealed while a session is live");
        } else {
            let waits = self.run.awaits_approval() || self.elsewhere > 0;
            let ending = |one: &Session| one.launches.last().is_some_and(|last| !last.is_gone());
            let ends = self.sessions.values().any(ending);
            let works = self.run.is_live() || !self.owed().is_empty() || ends;
            assert!(works || waits, "the run waits for nothing: {:?}", self.run.stage);
        }
        let mut folded = None;
        for (at, event) in &self.log {
            match (&mut folded, event) {
                (None, Event::RunOpened(opened)) => {
                    folded = Some(Run::open(self.run.id, *at, opened));
                }
                (Some(run), event) => run.evolve(*at, event),
                (None, _) => panic!("a run begins with its being opened"),
            }
        }
        assert_eq!(folded.as_ref(), Some(&self.run), "the fold of the events is the run");
    }

    fn living(&self) -> impl Iterator<Item = &Session> {
        let ours = |session: &&Session| !self.theirs.contains(&session.id);
        self.sessions.values().filter(|one| !one.attempt().is_sealed()).filter(ours)
    }

    fn open_session(&mut self, id: SessionId, spec: Spec) {
        let opened = SessionOpened { spec: Box::new(spec) };
        let session = Session::open(id, self.now, &opened);
        assert!(self.sessions.insert(id, session).is_none(), "a session is opened once");
        self.advance_session(id);
    }

    fn try_session(
        &mut self,
        id: SessionId,
        command: &session::Command,
    ) -> Result<(), session::Rejected> {
        let now = self.now;
        let session = self.sessions.get_mut(&id).expect("the run knows its sessions");
        for event in session.decide(command, now)? {
            session.evolve(now, &event);
        }
        self.told.push(format!("{command:?}"));
        self.advance_session(id);
        Ok(())
    }

    fn advance_session(&mut self, id: SessionId) {
        let now = self.now;
        let session = self.sessions.get_mut(&id).expect("the run knows its sessions");
        for _ in 0..50 {
            let Some(event) = session.advance(now) else { return };
            session.evolve(now, &event);
        }
        panic!("a session does not terminate");
    }

    /// Applies a command to a session, then advances the run.
    pub(crate) fn say_to(&mut self, id: SessionId, command: session::Command) -> &mut Self {
        let shown = format!("{command:?}");
        let told = self.try_session(id, &command);
        told.unwrap_or_else(|why| panic!("{shown} was rejected: {why}"));
        self.follow();
        self
    }

    /// Returns the focused session, or the first live one.
    pub(crate) fn live(&self) -> SessionId {
        let focus = self.focus.filter(|focus| self.run.live().any(|one| one.id == *focus));
        focus.unwrap_or_else(|| self.run.live().next().expect("a session works").id)
    }

    pub(crate) fn session(&self, no: u32) -> &Session {
        &self.sessions[&self.run.id.session(no)]
    }

    pub(crate) fn say(&mut self, command: session::Command) -> &mut Self {
        self.say_to(self.live(), command)
    }

    pub(crate) fn pass(&mut self, ms: u64) -> &mut Self {
        self.now.mono_ms += ms;
        self.now.wall_ms += ms as i64;
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        ids.into_iter().for_each(|id| self.advance_session(id));
        self.follow();
        self
    }

    /// Prepares the live session's worktree and starts its agent.
    pub(crate) fn start(&mut self) -> &mut Self {
        let id = self.live();
        if self.sessions[&id].work == WorkState::Owed {
            let base = match &self.sessions[&id].spec.work {
                Work::Worktree { base, .. } => base.clone(),
                Work::Detached { base, .. } => Some(base.clone()),
                Work::Plain | Work::InPlace { .. } => None,
            };
            let base = base.map(|commit| {
                let tree = TreeId(commit.0.trim_start_matches("commit-of-").to_owned());
                Snapshot { commit, tree }
            });
            self.say(session::Command::WorkPrepared { cwd: "/w".to_owned(), base });
        }
        if self.sessions[&id].setup == SetupState::Owed {
            let attempt = self.sessions[&id].setup_for;
            self.say(session::Command::SetupFinished { attempt, failure: None });
        }
        let launch = self.sessions[&id].launches.last().expect("a launch is pending");
        if launch.phase == LaunchPhase::Owed {
            let launch = launch.id;
            let child = Identity { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
            self.say(session::Command::LaunchStarted { launch, holder: child.clone(), child });
        }
        self
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> &mut Self {
        self.cursor += 10;
        let cursor = Cursor { offset: self.cursor, skip: 0 };
        let launch = self.sessions[&self.live()].launches.last().expect("a launch is pending").id;
        self.say(session::Command::Observed { launch, signal, cursor })
    }

    /// Runs a successful turn with this claim and result.
    pub(crate) fn turn(&mut self, kind: ClaimKind, result: Option<Structured>) -> &mut Self {
        let turn = Some("turn".to_owned());
        self.signal(Signal::TurnStarted { turn: turn.clone() });
        self.signal(match result {
            Some(result) => Signal::Told { kind, text: Some("so".to_owned()), result },
            None => Signal::Said(Testimony::Claim { kind, text: Some("so".to_owned()) }),
        });
        self.signal(Signal::TurnEnded { turn, end: TurnEnd::Ok, usage: None, says: None })
    }

    pub(crate) fn uses(&mut self, tokens: u64) -> &mut Self {
        self.signal(Signal::Usage(Usage { input: tokens, output: 0 }))
    }

    /// Starts `count` turns and ends all but the last.
    pub(crate) fn turns(&mut self, count: usize) -> &mut Self {
        for no in 1..=count {
            let turn = Some(no.to_string());
            self.signal(Signal::TurnStarted { turn: turn.clone() });
            if no < count {
                self.signal(Signal::TurnEnded { turn, end: TurnEnd::Ok, usage: None, says: None });
            }
        }
        self
    }

    /// Runs the pending verification of the live session.
    pub(crate) fn verify(&mut self, tree: &str, end: CheckEnd) -> &mut Self {
        let id = self.live();
        for _ in 0..10 {
            let session = &self.sessions[&id];
            let attempt = session.attempt().no;
            let no = session.attempt().verifying.taken + 1;
            let owed = session.effects().into_iter().find(|effect| {
                matches!(
                    effect,
                    session::Effect::TakeSnapshot { .. } | session::Effect::RunCheck { .. }
                )
            });
            let caveats = Default::default();
            let snapshot = snapshot(tree);
            match owed {
                Some(session::Effect::TakeSnapshot { .. }) => {
                    self.say(session::Command::SnapshotTaken { attempt, no, snapshot, caveats });
                }
                Some(session::Effect::RunCheck { index, .. }) => {
                    let command = session.spec.checks[index as usize].clone();
                    let receipt = receipt(tree, &command, end.clone());
                    self.say(session::Command::CheckFinished { attempt, receipt });
                }
                Some(_) | None => return self,
            }
        }
        panic!("verification does not end")
    }

    /// Ends the processes of a session and advances the clock until it is sealed.
    pub(crate) fn end_session(&mut self, id: SessionId) -> &mut Self {
        let attempt = self.sessions[&id].attempt().no;
        for _ in 0..20 {
            let session = &self.sessions[&id];
            let launch = session.launches.last().filter(|launch| launch.may_live());
            // The run has resumed the session at once.
            let ends = launch.is_some_and(|launch| launch.stop.is_some());
            if session.attempt().no > attempt && !ends {
                return self;
            }
            match (launch, session.attempt().is_sealed()) {
                (Some(launch), _) if launch.stop.is_some() => {
                    let launch = launch.id;
                    let (end, by) = (End::Signal(15), EndedBy::Provost);
                    self.say_to(id, session::Command::ProcessEnded { launch, end, by });
                    self.cursor += 10;
                    let cursor = Cursor { offset: self.cursor, skip: 0 };
                    let signal = Signal::Closed;
                    self.say_to(id, session::Command::Observed { launch, signal, cursor });
                    let gone = session::Command::TreeGone { launch, leftovers: 0, verified: true };
                    self.say_to(id, gone);
                }
                (_, false) => {
                    let (at, _) = session.deadline().expect("it ends by itself");
                    self.pass(at.saturating_sub(self.now.mono_ms));
                }
                (_, true) => return self,
            }
        }
        panic!("the session does not end")
    }

    /// Finishes the live session: it claims completion, is checked on this tree, and is sealed.
    pub(crate) fn works(&mut self, tree: &str) -> &mut Self {
        self.does(tree, None)
    }

    pub(crate) fn reviews(&mut self, tree: &str, findings: Vec<Finding>) -> &mut Self {
        self.does(tree, Some(review(findings)))
    }

    pub(crate) fn does(&mut self, tree: &str, result: Option<Structured>) -> &mut Self {
        let id = self.live();
        self.start().turn(ClaimKind::Completed, result).verify(tree, CheckEnd::Exit(0));
        self.end_session(id)
    }

    /// Lets the live session report failure.
    pub(crate) fn fails(&mut self) -> &mut Self {
        let id = self.live();
        self.start().turn(ClaimKind::Failed, None).verify("bad", CheckEnd::Exit(1));
        self.end_session(id)
    }

    /// Finishes a check-only session, which leaves the tree unchanged.
    pub(crate) fn is_checked(&mut self, tree: &str, end: CheckEnd) -> &mut Self {
        let id = self.live();
        assert_eq!(self.sessions[&id].spec.agent.driver, Driver::Command, "it has no agent");
        self.start();
        let launch = self.sessions[&id].launches.last().expect("it runs").id;
        let (by, exit) = (EndedBy::Itself, End::Exit(0));
        self.say(session::Command::ProcessEnded { launch, end: exit, by });
        self.signal(Signal::Closed);
        self.say(session::Command::TreeGone { launch, leftovers: 0, verified: true });
        self.verify(tree, end);
        self.end_session(id)
    }

    /// Answers the pending head.
    pub(crate) fn head(&mut self, tree: &str) -> &mut Self {
        let taken = self.head_taken(tree);
        self.tell(taken)
    }

    pub(crate) fn head_taken(&self, tree: &str) -> Command {
        let owed = self.run.effects().into_iter().find_map(|effect| match effect {
            Effect::TakeHead(session) => Some(session),
            Effect::Bring { .. }
            | Effect::MergeBatch { .. }
            | Effect::Integrate { .. }
            | Effect::Land { .. }
            | Effect::WatchPull { .. }
            | Effect::LookLanded { .. }
            | Effect::RunHook(_)
            | Effect::WriteCard { .. } => None,
        });
        let session = owed.expect("a head is pending");
        Command::HeadTaken { session, head: snapshot(tree), caveats: Default::default() }
    }

    pub(crate) fn landed(&mut self, tree: &str) -> &mut Self {
        self.tell(landed(tree))
    }

    pub(crate) fn requested(&mut self, tree: &str) -> &mut Self {
        self.tell(requested(tree))
    }

    pub(crate) fn pull_seen(&self, checks: PullChecks, remarks: &[Remark]) -> Command {
        let state = PullState { standing: OPEN, checks, left_out: 0 };
        Command::PullSeen { look: self.run.looks, state, remarks: remarks.to_vec() }
    }

    pub(crate) fn sees(&mut self, checks: PullChecks, remarks: &[Remark]) -> &mut Self {
        let seen = self.pull_seen(checks, remarks);
        self.tell(seen)
    }

    pub(crate) fn sees_standing(&mut self, standing: PullStanding) -> &mut Self {
        let state = PullState { standing, checks: PullChecks::Pending, left_out: 0 };
        self.tell(Command::PullSeen { look: self.run.looks, state, remarks: Vec::new() })
    }

    pub(crate) fn answer(&mut self, reply: Reply) -> &mut Self {
        let id = self.live();
        let request = self.sessions[&id].open_requests().next().expect("something is asked");
        let (request, revision) = (request.id, request.revision);
        self.say(session::Command::Answer { request, revision, reply })
    }

    /// Returns the keys of the pending effects, except for hooks and reports.
    pub(crate) fn owed(&self) -> Vec<String> {
        let apart = |effect: &Effect| match effect {
            Effect::RunHook(_) | Effect::WriteCard { .. } => false,
            Effect::TakeHead(_)
            | Effect::Bring { .. }
            | Effect::MergeBatch { .. }
            | Effect::Integrate { .. }
            | Effect::Land { .. }
            | Effect::WatchPull { .. }
            | Effect::LookLanded { .. } => true,
        };
        self.run.effects().iter().filter(|effect| apart(effect)).map(Effect::key).collect()
    }

    pub(crate) fn outcome(&self) -> &Outcome {
        self.run.leg().sealed.as_ref().expect("the run is sealed")
    }

    pub(crate) fn ending(&self) -> Ending {
        self.outcome().ending
    }

    pub(crate) fn hooks(&self) -> Vec<String> {
        self.run.hooks.iter().map(|hook| hook.key.event.to_string()).collect()
    }

    pub(crate) fn stages(&self) -> Vec<Stage> {
        let entered = |(_, event): &(Moment, Event)| {
            if let Event::StageEntered(entered) = event { Some(entered.stage) } else { None }
        };
        self.log.iter().filter_map(entered).collect()
    }

    pub(crate) fn last(&self) -> &RunSession {
        self.run.sessions.last().expect("a session was opened")
    }

    pub(crate) fn state(&self, no: u32) -> State {
        self.session(no).judgement().state
    }

    pub(crate) fn instruction(&self) -> &str {
        let session = &self.sessions[&self.live()];
        session.attempt().instruction.as_deref().expect("it was instructed")
    }
}

pub(crate) fn landed(tree: &str) -> Command {
    let commit = snapshot(tree).commit;
    Command::Landed { branch: "provost/limit".to_owned(), commit, merged: false }
}

pub(crate) fn requested(tree: &str) -> Command {
    let (number, url) = (12, "https://example.org/12".to_owned());
    Command::PullRequested { number, url, commit: snapshot(tree).commit }
}
