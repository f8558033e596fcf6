//! A model check of one run: a cancel in every order with session outcomes, a merge check, the landing, crashes, and
//! late or repeated answers. It is exhaustive up to a stated depth.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
};

use provost_core::{
    ids::{CommitId, RunId, SessionId},
    run::{
        Event, Run, RunAdvanceContext, RunCommand, RunEffect, RunEnding, RunOpened, RunSpec,
        RunStep, SessionOrder,
    },
    session::{self, ManualOutcome, Session, SessionOpened},
    time::Moment,
    verdict::CheckEnd,
};
use provost_sim::run_laws::RunWatch;
use stateright::{Checker, Model, Property};

use crate::run_model_values::{landed, merge, receipt, snapshot, spec};

/// The number of actions up to which every order is tried.
const DEPTH: usize = if cfg!(debug_assertions) { 6 } else { 11 };

/// From any state, a run ends within this number of honest answers.
const MAX_HONEST_ANSWERS: usize = 60;

struct OneRun;

/// A run with its sessions, and the actual state outside.
#[derive(Clone, Debug)]
struct RunNode {
    run: Run,
    sessions: BTreeMap<SessionId, Session>,
    now: Moment,
    watch: RunWatch,
    outside: OutsideState,
    broken: Option<String>,
    text: String,
}

/// State that outlives a daemon, and state that is lost with it.
#[derive(Clone, Debug, Default, PartialEq)]
struct OutsideState {
    landed: BTreeSet<String>,
    /// Effects that this daemon has started.
    begun: BTreeSet<String>,
    /// The run as it was at the start of the landing in progress.
    landing: Option<Box<Run>>,
    /// Answers in flight, in any order, and those that arrived and may arrive again.
    answers: Vec<RunCommand>,
    arrived: Vec<RunCommand>,
    crashes: u32,
    cancels: u32,
}

/// The next action.
#[derive(Clone, Debug, PartialEq)]
enum RunModelAction {
    End(ManualOutcome),
    Tick,
    Answer(RunEffect, EffectAnswer),
    FinishLanding(EffectAnswer),
    Arrive(usize),
    ArriveAgain(usize),
    Crash { landed: bool },
    Cancel,
    Resume,
}

/// How the world answers an effect.
#[derive(Clone, Copy, Debug, PartialEq)]
enum EffectAnswer {
    Success,
    Failure,
    /// The target has moved.
    Moved,
}

impl PartialEq for RunNode {
    fn eq(&self, other: &RunNode) -> bool {
        self.text == other.text
    }
}

impl Hash for RunNode {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text.hash(hasher);
    }
}

macro_rules! reaches {
    ($name:literal, $ending:ident) => {
        Property::sometimes($name, |_: &OneRun, node: &RunNode| {
            let ended = node.run.attempts.iter().filter_map(|attempt| attempt.sealed.as_ref());
            ended.map(|outcome| outcome.ending).any(|ending| ending == RunEnding::$ending)
        })
    };
}

impl Model for OneRun {
    type State = RunNode;
    type Action = RunModelAction;

    fn init_states(&self) -> Vec<RunNode> {
        let opened = begin(spec());
        let mut worked = opened.clone();
        worked.apply(&RunModelAction::End(ManualOutcome::Accepted));
        worked.answer_all();
        let mut merging = worked.clone();
        merging.move_target();
        // With checks, a merge without conflicts is verified.
        let mut verifying = begin(RunSpec { checks: vec!["check".to_owned()], ..spec() });
        verifying.apply(&RunModelAction::End(ManualOutcome::Accepted));
        verifying.answer_all();
        verifying.move_target();
        vec![opened, worked, merging, verifying]
    }

    fn actions(&self, node: &RunNode, actions: &mut Vec<RunModelAction>) {
        actions.extend(node.possible());
    }

    fn next_state(&self, node: &RunNode, act: RunModelAction) -> Option<RunNode> {
        let mut next = node.clone();
        next.apply(&act);
        next.check_ends();
        next.text = next.state_text();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every law holds, and every run ends", |_, node: &RunNode| {
                node.broken.is_none()
            }),
            reaches!("completed", Completed),
            reaches!("failed", Failed),
            reaches!("cancelled", Cancelled),
            Property::sometimes("landed, and cancelled all the same", |_, node: &RunNode| {
                let outcome = node.run.attempt().sealed.as_ref();
                let cancelled = outcome.is_some_and(|one| one.ending == RunEnding::Cancelled);
                cancelled && !node.outside.landed.is_empty()
            }),
        ]
    }
}

#[test]
fn all_event_orders_around_cancel_keep_the_laws() {
    let checker = OneRun.checker().threads(2).target_max_depth(DEPTH).spawn_bfs().join();
    println!(
        "{} states, {} of them different, depth {}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth()
    );
    if cfg!(debug_assertions) {
        // A debug build is slow and does not reach every ending.
        checker.assert_no_discovery("every law holds, and every run ends");
    } else {
        checker.assert_properties();
    }
}

impl RunNode {
    fn possible(&self) -> Vec<RunModelAction> {
        let mut acts = Vec::new();
        if let Some(live) = self.live() {
            if !live.attempt().is_decided() {
                acts.extend([
                    RunModelAction::End(ManualOutcome::Accepted),
                    RunModelAction::End(ManualOutcome::Failed),
                ]);
            }
            acts.extend(live.deadline().is_some().then_some(RunModelAction::Tick));
        }
        for effect in self.fresh_effects() {
            acts.push(RunModelAction::Answer(effect.clone(), EffectAnswer::Success));
            if matches!(effect, RunEffect::CommitLeftovers(_) | RunEffect::Verify { .. }) {
                acts.push(RunModelAction::Answer(effect, EffectAnswer::Failure));
            }
        }
        if let Some(run) = &self.outside.landing {
            acts.extend([
                RunModelAction::FinishLanding(EffectAnswer::Success),
                RunModelAction::FinishLanding(EffectAnswer::Failure),
            ]);
            acts.extend(
                run.steps.is_empty().then_some(RunModelAction::FinishLanding(EffectAnswer::Moved)),
            );
        }
        acts.extend((0..self.outside.answers.len()).map(RunModelAction::Arrive));
        let again = (0..self.outside.arrived.len()).map(RunModelAction::ArriveAgain);
        acts.extend(again.filter(|act| self.is_new(act)));
        if self.outside.crashes == 0 {
            acts.push(RunModelAction::Crash { landed: false });
            acts.extend(
                self.outside.landing.is_some().then_some(RunModelAction::Crash { landed: true }),
            );
        }
        let open = self.run.decide(&RunCommand::Cancel { because: String::new() }).is_ok();
        acts.extend((open && self.outside.cancels < 2).then_some(RunModelAction::Cancel));
        let again = self.run.attempts.len() == 1 && self.run.decide(&RunCommand::Resume).is_ok();
        acts.extend(again.then_some(RunModelAction::Resume));
        acts
    }

    /// Whether an action changes anything. A rejected one does not.
    fn is_new(&self, act: &RunModelAction) -> bool {
        let RunModelAction::ArriveAgain(no) = act else { return true };
        self.run.decide(&self.outside.arrived[*no]).is_ok()
    }

    fn apply(&mut self, act: &RunModelAction) {
        match act {
            RunModelAction::End(to) => {
                let resolve = session::SessionCommand::Resolve { to: *to, because: String::new() };
                if let Some(id) = self.live().map(|live| live.id) {
                    self.apply_to_session(id, &resolve);
                }
            }
            RunModelAction::Tick => {
                self.now.mono_ms += 1;
                if let Some(id) = self.live().map(|live| live.id) {
                    self.apply_to_session(id, &session::SessionCommand::Tick);
                }
            }
            RunModelAction::Answer(effect, answer) => self.answer(effect, *answer),
            RunModelAction::FinishLanding(answer) => self.finish_landing(*answer),
            RunModelAction::Arrive(no) => {
                let command = self.outside.answers.remove(*no);
                self.outside.arrived.push(command.clone());
                self.apply_command(&command);
            }
            RunModelAction::ArriveAgain(no) => {
                let command = self.outside.arrived[*no].clone();
                self.apply_command(&command);
            }
            RunModelAction::Crash { landed } => self.crash(*landed),
            RunModelAction::Cancel => {
                self.outside.cancels += 1;
                self.apply_command(&RunCommand::Cancel { because: String::new() });
            }
            RunModelAction::Resume => self.apply_command(&RunCommand::Resume),
        }
        self.end_preparations();
        let pending: BTreeSet<String> = self.run.effects().iter().map(RunEffect::key).collect();
        self.outside.begun.retain(|key| pending.contains(key));
    }

    /// Ends git for sessions that are over before their worktree was made, because only then they are sealed.
    fn end_preparations(&mut self) {
        let is_preparation =
            |effect: &_| matches!(effect, session::SessionEffect::PrepareWork { .. });
        let over = self.sessions.values().filter(|session| {
            session.attempt().shown.is_terminal() && session.effects().iter().any(is_preparation)
        });
        for id in over.map(|session| session.id).collect::<Vec<_>>() {
            let failed = session::SessionCommand::WorkFailed { reason: String::new() };
            self.apply_to_session(id, &failed);
        }
    }

    fn answer(&mut self, effect: &RunEffect, answer: EffectAnswer) {
        self.outside.begun.insert(effect.key());
        let command = match (effect, answer) {
            (RunEffect::CommitLeftovers(session), EffectAnswer::Failure) => {
                RunCommand::CommitFailed { session: *session, reason: String::new() }
            }
            (RunEffect::CommitLeftovers(session), EffectAnswer::Success | EffectAnswer::Moved) => {
                let head = snapshot(&format!("t{}", self.run.sessions.len()));
                RunCommand::CommitRecorded { session: *session, head, caveats: Default::default() }
            }
            (RunEffect::Land { .. }, _) => {
                self.outside.landing = Some(Box::new(self.run.clone()));
                return;
            }
            (RunEffect::CheckLanded { attempt }, _) => {
                let head = self.run.head.as_ref().map(|head| head.commit.clone());
                let found = head.filter(|commit| self.outside.landed.contains(&commit.0));
                found.map_or(RunCommand::LandingAborted { attempt: *attempt, pull: None }, landed)
            }
            (RunEffect::Verify { no }, _) => {
                let end = CheckEnd::Exit(i32::from(answer == EffectAnswer::Failure));
                RunCommand::Verified { no: *no, receipts: vec![receipt("merged", end)] }
            }
            (RunEffect::WriteReport { attempt }, _) => {
                RunCommand::ReportWritten { attempt: *attempt, failure: None, changed: None }
            }
            (
                RunEffect::WatchPullRequest { .. }
                | RunEffect::RunHook(_)
                | RunEffect::MoveWorktree { .. }
                | RunEffect::MergeBatch { .. }
                | RunEffect::Integrate { .. },
                _,
            ) => return self.broke("unexpected effect: a plan, a pull request or a hook"),
        };
        self.outside.answers.push(command);
    }

    fn finish_landing(&mut self, answer: EffectAnswer) {
        let Some(run) = self.outside.landing.take() else { return };
        let attempt = run.attempt().no;
        let command = match answer {
            EffectAnswer::Failure => RunCommand::LandingFailed { attempt, reason: String::new() },
            EffectAnswer::Moved => {
                RunCommand::TargetMoved { step: run.steps.len(), merge: merge(&run) }
            }
            EffectAnswer::Success => match self.land(&run) {
                Some(commit) => landed(commit),
                None => return,
            },
        };
        self.outside.answers.push(command);
    }

    /// Lands in the world. Never happens for a sealed run attempt.
    fn land(&mut self, run: &Run) -> Option<CommitId> {
        let commit = run.head.as_ref()?.commit.clone();
        let attempt = self.run.attempts.iter().find(|attempt| attempt.no == run.attempt().no)?;
        if let Some(outcome) = &attempt.sealed {
            let word = outcome.ending.as_str();
            self.broke(&format!("work lands after its run was sealed as {word}"));
        }
        self.outside.landed.insert(commit.0.clone());
        Some(commit)
    }

    /// Crashes the daemon: the next one restarts its effects, and answers in flight are lost.
    fn crash(&mut self, landed: bool) {
        self.outside.crashes += 1;
        let landing = self.outside.landing.take();
        if landed && let Some(run) = landing {
            self.land(&run);
        }
        self.outside.begun.clear();
        self.outside.answers.clear();
    }

    fn broke(&mut self, law: &str) {
        self.broken.get_or_insert(law.to_owned());
    }

    fn live(&self) -> Option<&Session> {
        self.run.live().next().and_then(|live| self.sessions.get(&live.id))
    }

    /// Returns the pending effects that were not started. Nothing is polled while a landing is in progress.
    fn fresh_effects(&self) -> Vec<RunEffect> {
        let free = |effect: &RunEffect| match effect {
            RunEffect::Land { .. } | RunEffect::CheckLanded { .. } => {
                self.outside.landing.is_none()
            }
            RunEffect::CommitLeftovers(_)
            | RunEffect::MoveWorktree { .. }
            | RunEffect::MergeBatch { .. }
            | RunEffect::Verify { .. }
            | RunEffect::Integrate { .. }
            | RunEffect::WatchPullRequest { .. }
            | RunEffect::RunHook(_)
            | RunEffect::WriteReport { .. } => true,
        };
        let begun = |effect: &RunEffect| self.outside.begun.contains(&effect.key());
        self.run.effects().into_iter().filter(|one| free(one) && !begun(one)).collect()
    }

    fn landing_effect(&self) -> Option<RunEffect> {
        self.fresh_effects().into_iter().find(|effect| matches!(effect, RunEffect::Land { .. }))
    }

    /// Moves the target while the work lands, so that the work is merged with it.
    fn move_target(&mut self) {
        let landing = self.landing_effect().expect("work that was committed is landed");
        self.apply(&RunModelAction::Answer(landing, EffectAnswer::Success));
        self.apply(&RunModelAction::FinishLanding(EffectAnswer::Moved));
        self.apply(&RunModelAction::Arrive(0));
    }

    fn apply_command(&mut self, command: &RunCommand) {
        for event in self.run.decide(command).unwrap_or_default() {
            self.fold(&event);
        }
        self.follow();
    }

    fn fold(&mut self, event: &Event) {
        let before = self.run.clone();
        self.run.evolve(self.now, event);
        let judged = self.watch.check_event(&before, event, &self.run);
        if let Err(law) = judged {
            self.broke(&law);
        }
    }

    fn apply_to_session(&mut self, id: SessionId, command: &session::SessionCommand) {
        self.try_session(id, command);
        self.follow();
    }

    fn try_session(&mut self, id: SessionId, command: &session::SessionCommand) -> bool {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let Ok(events) = session.decide(command, now) else { return false };
        for event in events {
            session.evolve(now, &event);
        }
        while let Some(event) = session.advance(now) {
            session.evolve(now, &event);
        }
        true
    }

    /// Applies follow-up events, as the board does.
    fn follow(&mut self) {
        for _ in 0..50 {
            let sessions = &self.sessions;
            match self.run.advance(&RunAdvanceContext {
                now: self.now,
                other_agents: 0,
                session: &|id| sessions.get(&id),
            }) {
                None => return self.check_settled(),
                Some(RunStep::Event(event)) => self.fold(&event),
                Some(RunStep::EventAndOrder(event, SessionOrder::Open(id, spec))) => {
                    let session = Session::open(id, self.now, &SessionOpened { spec });
                    self.sessions.insert(id, session);
                    self.fold(&event);
                }
                Some(RunStep::EventAndOrder(event, SessionOrder::Command(id, command))) => {
                    if !self.try_session(id, &command) {
                        return self.broke("a session rejects a command it was expected to accept");
                    }
                    self.fold(&event);
                }
                Some(RunStep::Command(id, command)) => {
                    if !self.try_session(id, &command) {
                        return;
                    }
                }
            }
        }
        self.broke("the run does not settle");
    }

    fn check_settled(&mut self) {
        let sessions = &self.sessions;
        if let Err(law) = self.watch.check_settled(&self.run, self.now, 0, |id| sessions.get(&id)) {
            self.broke(&law);
        }
    }

    /// From any state, honest answers bring the run to its end.
    fn check_ends(&mut self) {
        let mut ahead = self.clone();
        for _ in 0..MAX_HONEST_ANSWERS {
            if ahead.run.is_closed() || ahead.broken.is_some() {
                break;
            }
            ahead.answer_honestly();
        }
        match (&ahead.broken, ahead.run.is_closed()) {
            (Some(law), _) => self.broke(&format!("ahead: {law}")),
            (None, false) => self.broke(&format!("it never ends: {:?}", ahead.run.effects())),
            (None, true) => {}
        }
    }

    fn answer_honestly(&mut self) {
        let undecided = self.live().map(|live| !live.attempt().is_decided());
        let act = match (self.fresh_effects().into_iter().next(), undecided) {
            _ if !self.outside.answers.is_empty() => RunModelAction::Arrive(0),
            _ if self.outside.landing.is_some() => {
                RunModelAction::FinishLanding(EffectAnswer::Success)
            }
            (Some(effect), _) => RunModelAction::Answer(effect, EffectAnswer::Success),
            (None, Some(true)) => RunModelAction::End(ManualOutcome::Accepted),
            (None, Some(false) | None) => RunModelAction::Tick,
        };
        self.apply(&act);
    }

    /// Delivers every pending answer, except that of a landing.
    fn answer_all(&mut self) {
        for effect in self.fresh_effects() {
            if !matches!(effect, RunEffect::Land { .. }) {
                self.apply(&RunModelAction::Answer(effect, EffectAnswer::Success));
                self.apply(&RunModelAction::Arrive(0));
            }
        }
    }

    fn state_text(&self) -> String {
        let run = serde_json::to_string(&self.run).expect("a run has string keys only");
        let sessions: Vec<String> = self.sessions.values().map(whole).collect();
        let landing = self.outside.landing.as_ref().map(|run| (run.attempt().no, run.steps.len()));
        let OutsideState { landed, begun, answers, arrived, crashes, cancels, .. } = &self.outside;
        let outside = (landed, begun, landing, answers, arrived, crashes, cancels);
        format!("{run}{sessions:?}{outside:?}{:?}", self.broken)
    }
}

fn whole(session: &Session) -> String {
    serde_json::to_string(session).expect("a session has string keys only")
}

fn begin(spec: RunSpec) -> RunNode {
    let now = Moment { wall_ms: 0, mono_ms: 0 };
    let run =
        Run::open(RunId(uuid::Uuid::from_u128(0x100)), now, &RunOpened { spec: Box::new(spec) });
    let watch = RunWatch::start(&run).expect("it was just opened");
    let mut node = RunNode {
        run,
        sessions: BTreeMap::new(),
        now,
        watch,
        outside: OutsideState::default(),
        broken: None,
        text: String::new(),
    };
    node.follow();
    node.text = node.state_text();
    node
}
