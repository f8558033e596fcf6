//! Fixtures for runs: a run with its sessions, and shorthands for their events.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    ids::{RunId, SessionId, TreeId},
    lifecycle::{ClaimKind, State},
    request::RequestReply,
    result::{Finding, StructuredResult},
    run::{
        Event, PullRequestChecks, PullRequestState, PullRequestStatus, ReviewComment, Run,
        RunAdvanceContext, RunAttemptOutcome, RunChange, RunCommand, RunEffect, RunEnding,
        RunOpened, RunRejection, RunSession, RunSpec, RunStage, RunStep, RunStopped, SessionOrder,
        StageEvent,
    },
    session::{
        self, Cursor, LaunchPhase, ProcessExit, ProcessIdentity, ReportBody, Session,
        SessionOpened, SessionSpec, SetupState, StoppedBy, StreamSignal, TurnEnd, Usage,
        WorkLocation, WorkState,
    },
    time::Moment,
    verdict::{CheckEnd, Snapshot},
};

pub(crate) use super::fixtures::*;
use crate::kit::{receipt, snapshot};

/// A run with its sessions and a clock that only moves forward.
pub(crate) struct TestRun {
    pub(crate) run: Run,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) log: Vec<(Moment, Event)>,
    pub(crate) now: Moment,
    /// Debug output of every command applied to a session.
    pub(crate) session_commands: Vec<String>,
    /// Sessions that users continue on their own.
    pub(crate) user_sessions: BTreeSet<SessionId>,
    /// Number of agents that work for other runs.
    pub(crate) agents_of_other_runs: usize,
    /// The session that shorthands act on if several are live.
    pub(crate) focus: Option<SessionId>,
    cursor: u64,
}

impl TestRun {
    pub(crate) fn open(spec: RunSpec) -> TestRun {
        let now = Moment { wall_ms: 1_000_000, mono_ms: 1_000 };
        let opened = RunOpened { spec: Box::new(spec) };
        let run = Run::open(RunId(uuid::Uuid::from_u128(0x100)), now, &opened);
        let mut harness = TestRun {
            run,
            sessions: BTreeMap::new(),
            log: vec![(now, opened.into())],
            now,
            session_commands: Vec::new(),
            user_sessions: BTreeSet::new(),
            agents_of_other_runs: 0,
            focus: None,
            cursor: 0,
        };
        harness.advance();
        harness
    }

    pub(crate) fn try_apply(&mut self, command: RunCommand) -> Result<(), RunRejection> {
        for event in self.run.decide(&command)? {
            self.fold(event);
        }
        self.advance();
        Ok(())
    }

    pub(crate) fn apply(&mut self, command: RunCommand) -> &mut Self {
        let shown = format!("{command:?}");
        self.try_apply(command).unwrap_or_else(|why| panic!("{shown} was rejected: {why}"));
        self
    }

    pub(crate) fn cancel(&mut self) -> &mut Self {
        self.apply(RunCommand::Cancel { because: "enough".to_owned() })
    }

    fn fold(&mut self, event: Event) {
        let stored = Event::decode(event.kind().0, event.kind().1, &event.encode());
        assert_eq!(stored.ok().as_ref(), Some(&event), "an event is read as it was written");
        self.run.evolve(self.now, &event);
        self.log.push((self.now, event));
        self.check_parallel_limits();
    }

    /// Checks that only tasks run in parallel, each in its own worktree.
    fn check_parallel_limits(&self) {
        let planning = &self.run.spec.planning;
        let most = if self.run.stage == RunStage::Tasks { planning.parallel as usize } else { 1 };
        assert!(
            self.live_sessions().count() <= most,
            "more than {most} sessions of the run are live"
        );
        assert!(self.run.agents_at_work() <= planning.parallel.max(1) as usize, "too many agents");
        let places =
            self.live_sessions().map(|one| self.run.worktree(one.id)).collect::<BTreeSet<_>>();
        assert_eq!(
            places.len(),
            self.live_sessions().count(),
            "two live sessions share a worktree"
        );
    }

    /// Advances the run until it is idle, like the board does.
    pub(crate) fn advance(&mut self) {
        for _ in 0..200 {
            let sessions = &self.sessions;
            match self.run.advance(&RunAdvanceContext {
                now: self.now,
                other_agents: self.agents_of_other_runs,
                session: &|id| sessions.get(&id),
            }) {
                None => return self.check_invariants(),
                Some(RunStep::Event(event)) => self.fold(event),
                Some(RunStep::EventAndOrder(event, SessionOrder::Open(id, spec))) => {
                    self.fold(event);
                    self.open_session(id, *spec);
                }
                Some(RunStep::EventAndOrder(event, SessionOrder::Command(id, command))) => {
                    match self.try_session(id, &command) {
                        Ok(()) => self.fold(event),
                        Err(why) => {
                            let cause = provost_core::run::RunFailureCause::Work;
                            self.fold(RunStopped { cause, detail: why.to_string() }.into());
                        }
                    }
                }
                Some(RunStep::Command(id, command)) => {
                    if self.try_session(id, &command).is_err() {
                        return;
                    }
                }
            }
        }
        panic!("the run does not terminate: {:?}", self.log.last());
    }

    /// Checks the invariants that hold whenever the run is idle.
    fn check_invariants(&self) {
        let keys: BTreeSet<String> = self.run.effects().iter().map(RunEffect::key).collect();
        assert_eq!(keys.len(), self.run.effects().len(), "two effects have one key");
        if self.run.is_sealed() {
            assert_eq!(self.live_sessions().count(), 0, "sealed while a session is live");
        } else {
            let waits = self.run.awaits_approval() || self.agents_of_other_runs > 0;
            let ending = |one: &Session| one.launches.last().is_some_and(|last| !last.is_gone());
            let ends = self.sessions.values().any(ending);
            let works = self.run.is_live() || !self.pending_effects().is_empty() || ends;
            assert!(works || waits, "the run waits for nothing: {:?}", self.run.stage);
        }
        let mut folded = None;
        for (at, event) in &self.log {
            match (&mut folded, event) {
                (None, Event::Run(RunChange::RunOpened(opened))) => {
                    folded = Some(Run::open(self.run.id, *at, opened));
                }
                (Some(run), event) => run.evolve(*at, event),
                (None, _) => panic!("a run begins with its being opened"),
            }
        }
        assert_eq!(folded.as_ref(), Some(&self.run), "the fold of the events is the run");
    }

    fn live_sessions(&self) -> impl Iterator<Item = &Session> {
        let ours = |session: &&Session| !self.user_sessions.contains(&session.id);
        self.sessions.values().filter(|one| !one.attempt().is_sealed()).filter(ours)
    }

    fn open_session(&mut self, id: SessionId, spec: SessionSpec) {
        let opened = SessionOpened { spec: Box::new(spec) };
        let session = Session::open(id, self.now, &opened);
        assert!(self.sessions.insert(id, session).is_none(), "a session is opened once");
        self.advance_session(id);
    }

    fn try_session(
        &mut self,
        id: SessionId,
        command: &session::SessionCommand,
    ) -> Result<(), session::SessionRejection> {
        let now = self.now;
        let session = self.sessions.get_mut(&id).expect("the run knows its sessions");
        for event in session.decide(command, now)? {
            session.evolve(now, &event);
        }
        self.session_commands.push(format!("{command:?}"));
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
    pub(crate) fn apply_to_session(
        &mut self,
        id: SessionId,
        command: session::SessionCommand,
    ) -> &mut Self {
        let shown = format!("{command:?}");
        let result = self.try_session(id, &command);
        result.unwrap_or_else(|why| panic!("{shown} was rejected: {why}"));
        self.advance();
        self
    }

    /// Returns the focused session, or the first live one.
    pub(crate) fn live_session(&self) -> SessionId {
        let focus = self.focus.filter(|focus| self.run.live().any(|one| one.id == *focus));
        focus.unwrap_or_else(|| self.run.live().next().expect("a session works").id)
    }

    pub(crate) fn session(&self, no: u32) -> &Session {
        &self.sessions[&self.run.id.session(no)]
    }

    pub(crate) fn apply_to_live(&mut self, command: session::SessionCommand) -> &mut Self {
        self.apply_to_session(self.live_session(), command)
    }

    pub(crate) fn advance_clock(&mut self, ms: u64) -> &mut Self {
        self.now.mono_ms += ms;
        self.now.wall_ms += ms as i64;
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        ids.into_iter().for_each(|id| self.advance_session(id));
        self.advance();
        self
    }

    /// Prepares the live session's worktree and starts its agent.
    pub(crate) fn start(&mut self) -> &mut Self {
        let id = self.live_session();
        if self.sessions[&id].worktree.state == WorkState::Pending {
            let base = match &self.sessions[&id].spec.work {
                WorkLocation::Worktree { base, .. } => base.clone(),
                WorkLocation::Detached { base, .. } => Some(base.clone()),
                WorkLocation::Plain | WorkLocation::InPlace { .. } => None,
            };
            let base = base.map(|commit| {
                let tree = TreeId(commit.0.trim_start_matches("commit-of-").to_owned());
                Snapshot { commit, tree }
            });
            self.apply_to_live(session::SessionCommand::WorkPrepared {
                cwd: "/w".to_owned(),
                base,
            });
        }
        if self.sessions[&id].worktree.setup == SetupState::Pending {
            let attempt = self.sessions[&id].worktree.setup_attempt;
            self.apply_to_live(session::SessionCommand::SetupFinished { attempt, failure: None });
        }
        let launch = self.sessions[&id].launches.last().expect("a launch is pending");
        if launch.phase == LaunchPhase::Pending {
            let launch = launch.id;
            let child = ProcessIdentity { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
            self.apply_to_live(session::SessionCommand::LaunchStarted {
                launch,
                holder: child.clone(),
                child,
            });
        }
        self
    }

    pub(crate) fn signal(&mut self, signal: StreamSignal) -> &mut Self {
        self.cursor += 10;
        let cursor = Cursor { offset: self.cursor, skip: 0 };
        let launch =
            self.sessions[&self.live_session()].launches.last().expect("a launch is pending").id;
        self.apply_to_live(session::SessionCommand::Observed { launch, signal, cursor })
    }

    /// Runs a successful turn with this claim and result.
    pub(crate) fn turn(&mut self, kind: ClaimKind, result: Option<StructuredResult>) -> &mut Self {
        let turn = Some("turn".to_owned());
        self.signal(StreamSignal::TurnStarted { turn: turn.clone() });
        self.signal(match result {
            Some(result) => {
                StreamSignal::ClaimWithResult { kind, text: Some("so".to_owned()), result }
            }
            None => StreamSignal::Reported(ReportBody::Claim { kind, text: Some("so".to_owned()) }),
        });
        self.signal(StreamSignal::TurnEnded { turn, end: TurnEnd::Ok, usage: None, says: None })
    }

    pub(crate) fn use_tokens(&mut self, tokens: u64) -> &mut Self {
        self.signal(StreamSignal::Usage(Usage { input: tokens, output: 0 }))
    }

    /// Starts `count` turns and ends all but the last.
    pub(crate) fn run_turns(&mut self, count: usize) -> &mut Self {
        for no in 1..=count {
            let turn = Some(no.to_string());
            self.signal(StreamSignal::TurnStarted { turn: turn.clone() });
            if no < count {
                self.signal(StreamSignal::TurnEnded {
                    turn,
                    end: TurnEnd::Ok,
                    usage: None,
                    says: None,
                });
            }
        }
        self
    }

    /// Runs the pending verification of the live session.
    pub(crate) fn verify(&mut self, tree: &str, end: CheckEnd) -> &mut Self {
        let id = self.live_session();
        for _ in 0..10 {
            let session = &self.sessions[&id];
            let attempt = session.attempt().no;
            let no = session.attempt().verifying.taken + 1;
            let pending = session.effects().into_iter().find(|effect| {
                matches!(
                    effect,
                    session::SessionEffect::TakeSnapshot { .. }
                        | session::SessionEffect::RunCheck { .. }
                )
            });
            let caveats = Default::default();
            let snapshot = snapshot(tree);
            match pending {
                Some(session::SessionEffect::TakeSnapshot { .. }) => {
                    self.apply_to_live(session::SessionCommand::SnapshotTaken {
                        attempt,
                        no,
                        snapshot,
                        caveats,
                    });
                }
                Some(session::SessionEffect::RunCheck { index, .. }) => {
                    let command = session.spec.checks[index as usize].clone();
                    let receipt = receipt(tree, &command, end.clone());
                    self.apply_to_live(session::SessionCommand::CheckFinished { attempt, receipt });
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
            let launch = session.launches.last().filter(|launch| launch.may_be_running());
            // The run has resumed the session at once.
            let ends = launch.is_some_and(|launch| launch.stop.is_some());
            if session.attempt().no > attempt && !ends {
                return self;
            }
            match (launch, session.attempt().is_sealed()) {
                (Some(launch), _) if launch.stop.is_some() => {
                    let launch = launch.id;
                    let (end, by) = (ProcessExit::Signal(15), StoppedBy::Provost);
                    self.apply_to_session(
                        id,
                        session::SessionCommand::ProcessEnded { launch, end, by },
                    );
                    self.cursor += 10;
                    let cursor = Cursor { offset: self.cursor, skip: 0 };
                    let signal = StreamSignal::Closed;
                    self.apply_to_session(
                        id,
                        session::SessionCommand::Observed { launch, signal, cursor },
                    );
                    let gone = session::SessionCommand::ProcessTreeGone {
                        launch,
                        leftovers: 0,
                        verified: true,
                    };
                    self.apply_to_session(id, gone);
                }
                (_, false) if session.effects().iter().any(is_preparation) => {
                    let reason = "cancelled".to_owned();
                    self.apply_to_session(id, session::SessionCommand::WorkFailed { reason });
                }
                (_, false) => {
                    let (at, _) = session.deadline().expect("it ends by itself");
                    self.advance_clock(at.saturating_sub(self.now.mono_ms));
                }
                (_, true) => return self,
            }
        }
        panic!("the session does not end")
    }

    /// Finishes the live session: it claims completion, is checked on this tree, and is sealed.
    pub(crate) fn finish_work(&mut self, tree: &str) -> &mut Self {
        self.finish_session(tree, None)
    }

    pub(crate) fn finish_review(&mut self, tree: &str, findings: Vec<Finding>) -> &mut Self {
        self.finish_session(tree, Some(review_result(findings)))
    }

    pub(crate) fn finish_session(
        &mut self,
        tree: &str,
        result: Option<StructuredResult>,
    ) -> &mut Self {
        let id = self.live_session();
        self.start().turn(ClaimKind::Completed, result).verify(tree, CheckEnd::Exit(0));
        self.end_session(id)
    }

    /// Lets the live session report failure.
    pub(crate) fn fail_session(&mut self) -> &mut Self {
        let id = self.live_session();
        self.start().turn(ClaimKind::Failed, None).verify("bad", CheckEnd::Exit(1));
        self.end_session(id)
    }

    /// Builds the result of the pending verification: receipts for this tree, where the last check
    /// that runs ends like this.
    pub(crate) fn verified(&self, tree: &str, end: &CheckEnd) -> RunCommand {
        let pending = self.run.pending_verification().expect("a verification is pending");
        let no = pending.no;
        assert!(self.run.effects().contains(&RunEffect::Verify { no }), "it is an effect");
        let wanted = self.run.verification(no).expect("it was requested").checks;
        let passes = *end == CheckEnd::Exit(0);
        let ran = wanted.iter().take(if passes { wanted.len() } else { 1 });
        let receipts = ran.map(|check| receipt(tree, check, end.clone())).collect();
        RunCommand::Verified { no, receipts }
    }

    /// Finishes the pending verification.
    pub(crate) fn finish_check(&mut self, tree: &str, end: &CheckEnd) -> &mut Self {
        let verified = self.verified(tree, end);
        self.apply(verified)
    }

    /// Answers the pending head.
    pub(crate) fn take_head(&mut self, tree: &str) -> &mut Self {
        let taken = self.head_taken(tree);
        self.apply(taken)
    }

    pub(crate) fn head_taken(&self, tree: &str) -> RunCommand {
        let pending = self.run.effects().into_iter().find_map(|effect| match effect {
            RunEffect::CommitLeftovers(session) => Some(session),
            RunEffect::MoveWorktree { .. }
            | RunEffect::MergeBatch { .. }
            | RunEffect::Verify { .. }
            | RunEffect::Integrate { .. }
            | RunEffect::Land { .. }
            | RunEffect::WatchPullRequest { .. }
            | RunEffect::CheckLanded { .. }
            | RunEffect::RunHook(_)
            | RunEffect::WriteReport { .. } => None,
        });
        let session = pending.expect("a head is pending");
        RunCommand::CommitRecorded { session, head: snapshot(tree), caveats: Default::default() }
    }

    pub(crate) fn land(&mut self, tree: &str) -> &mut Self {
        self.apply(landed(tree))
    }

    pub(crate) fn open_pull_request(&mut self, tree: &str) -> &mut Self {
        self.apply(pull_requested(tree))
    }

    pub(crate) fn pull_seen(
        &self,
        checks: PullRequestChecks,
        comments: &[ReviewComment],
    ) -> RunCommand {
        let state = PullRequestState { status: OPEN_PULL, checks, left_out: 0 };
        RunCommand::PullRequestObserved {
            look: self.run.pull_request_changes,
            state,
            comments: comments.to_vec(),
        }
    }

    pub(crate) fn see_pull(
        &mut self,
        checks: PullRequestChecks,
        comments: &[ReviewComment],
    ) -> &mut Self {
        let seen = self.pull_seen(checks, comments);
        self.apply(seen)
    }

    pub(crate) fn see_pull_status(&mut self, status: PullRequestStatus) -> &mut Self {
        let state = PullRequestState { status, checks: PullRequestChecks::Pending, left_out: 0 };
        self.apply(RunCommand::PullRequestObserved {
            look: self.run.pull_request_changes,
            state,
            comments: Vec::new(),
        })
    }

    pub(crate) fn answer(&mut self, reply: RequestReply) -> &mut Self {
        let id = self.live_session();
        let request = self.sessions[&id].open_requests().next().expect("something is asked");
        let (request, revision) = (request.id, request.revision);
        self.apply_to_live(session::SessionCommand::Answer { request, revision, reply })
    }

    /// Returns the keys of the pending effects, except for hooks and reports.
    pub(crate) fn pending_effects(&self) -> Vec<String> {
        let apart = |effect: &RunEffect| match effect {
            RunEffect::RunHook(_) | RunEffect::WriteReport { .. } => false,
            RunEffect::CommitLeftovers(_)
            | RunEffect::MoveWorktree { .. }
            | RunEffect::MergeBatch { .. }
            | RunEffect::Verify { .. }
            | RunEffect::Integrate { .. }
            | RunEffect::Land { .. }
            | RunEffect::WatchPullRequest { .. }
            | RunEffect::CheckLanded { .. } => true,
        };
        self.run.effects().iter().filter(|effect| apart(effect)).map(RunEffect::key).collect()
    }

    pub(crate) fn outcome(&self) -> &RunAttemptOutcome {
        self.run.attempt().sealed.as_ref().expect("the run is sealed")
    }

    pub(crate) fn ending(&self) -> RunEnding {
        self.outcome().ending
    }

    pub(crate) fn hooks(&self) -> Vec<String> {
        self.run.hooks.iter().map(|hook| hook.key.event.to_string()).collect()
    }

    pub(crate) fn stages(&self) -> Vec<RunStage> {
        let entered = |(_, event): &(Moment, Event)| {
            if let Event::Stage(StageEvent::StageEntered(entered)) = event {
                Some(entered.stage)
            } else {
                None
            }
        };
        self.log.iter().filter_map(entered).collect()
    }

    pub(crate) fn last_session(&self) -> &RunSession {
        self.run.sessions.last().expect("a session was opened")
    }

    pub(crate) fn state(&self, no: u32) -> State {
        self.session(no).judgement().state
    }

    pub(crate) fn instruction(&self) -> &str {
        let session = &self.sessions[&self.live_session()];
        session.attempt().instruction.as_deref().expect("it was instructed")
    }
}

fn is_preparation(effect: &session::SessionEffect) -> bool {
    matches!(effect, session::SessionEffect::PrepareWork { .. })
}

pub(crate) fn landed(tree: &str) -> RunCommand {
    let commit = snapshot(tree).commit;
    RunCommand::Landed { branch: "provost/limit".to_owned(), commit, merged: false }
}

pub(crate) fn pull_requested(tree: &str) -> RunCommand {
    let (number, url) = (12, "https://example.org/12".to_owned());
    RunCommand::PullRequestOpened { number, url, commit: snapshot(tree).commit }
}
