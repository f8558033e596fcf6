//! A model check of one run: a cancel in every order with session outcomes, the landing, crashes, and late or
//! repeated answers. It is exhaustive up to a stated depth.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
};

use provost_core::{
    ids::{CommitId, RunId, SessionId, TreeId},
    limits::Bounds,
    run::{
        Around, Command, Effect, Ending, Event, LandMode, LandStep, Order, Planning, ReviewMode,
        Reviews, Run, RunOpened, RunSpec, Step, Target,
    },
    session::{self, Agent, Driver, Input, Resolve, Session, SessionOpened},
    time::Moment,
    verdict::{EmptyDiff, Snapshot},
};
use provost_sim::run_laws::RunWatch;
use stateright::{Checker, Model, Property};

/// The number of actions up to which every order is tried.
const DEPTH: usize = if cfg!(debug_assertions) { 6 } else { 11 };

/// From any state, a run ends within this number of honest answers.
const PATIENCE: usize = 60;

struct OneRun;

/// A run with its sessions, and the actual state outside.
#[derive(Clone, Debug)]
struct Node {
    run: Run,
    sessions: BTreeMap<SessionId, Session>,
    now: Moment,
    watch: RunWatch,
    outside: Outside,
    broken: Option<String>,
    text: String,
}

/// State that outlives a daemon, and state that is lost with it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outside {
    landed: BTreeSet<String>,
    /// Effects that this daemon has started.
    begun: BTreeSet<String>,
    /// The run as it was at the start of the landing in progress.
    landing: Option<Box<Run>>,
    /// Answers in flight, in any order, and those that arrived and may arrive again.
    answers: Vec<Command>,
    arrived: Vec<Command>,
    crashes: u32,
    cancels: u32,
}

/// The next action.
#[derive(Clone, Debug, PartialEq)]
enum Act {
    End(Resolve),
    Tick,
    Answer(Effect, Answer),
    FinishLanding(Answer),
    Arrive(usize),
    ArriveAgain(usize),
    Crash { landed: bool },
    Cancel,
    Resume,
}

/// How the world answers an effect.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Well,
    Badly,
    /// The target has moved.
    Moved,
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.text == other.text
    }
}

impl Hash for Node {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text.hash(hasher);
    }
}

macro_rules! reaches {
    ($name:literal, $ending:ident) => {
        Property::sometimes($name, |_: &OneRun, node: &Node| {
            let ended = node.run.legs.iter().filter_map(|leg| leg.sealed.as_ref());
            ended.map(|outcome| outcome.ending).any(|ending| ending == Ending::$ending)
        })
    };
}

impl Model for OneRun {
    type State = Node;
    type Action = Act;

    fn init_states(&self) -> Vec<Node> {
        let opened = begin();
        let mut worked = opened.clone();
        worked.apply(&Act::End(Resolve::Accepted));
        worked.answer_all();
        let mut merging = worked.clone();
        let landing = merging.landing_effect().expect("work that was committed is landed");
        merging.apply(&Act::Answer(landing, Answer::Well));
        merging.apply(&Act::FinishLanding(Answer::Moved));
        merging.apply(&Act::Arrive(0));
        vec![opened, worked, merging]
    }

    fn actions(&self, node: &Node, actions: &mut Vec<Act>) {
        actions.extend(node.possible());
    }

    fn next_state(&self, node: &Node, act: Act) -> Option<Node> {
        let mut next = node.clone();
        next.apply(&act);
        next.ends();
        next.text = next.told();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every law holds, and every run ends", |_, node: &Node| {
                node.broken.is_none()
            }),
            reaches!("completed", Completed),
            reaches!("failed", Failed),
            reaches!("cancelled", Cancelled),
            Property::sometimes("landed, and cancelled all the same", |_, node: &Node| {
                let outcome = node.run.leg().sealed.as_ref();
                let cancelled = outcome.is_some_and(|one| one.ending == Ending::Cancelled);
                cancelled && !node.outside.landed.is_empty()
            }),
        ]
    }
}

#[test]
fn every_order_of_events_around_a_cancel_keeps_the_laws() {
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

impl Node {
    fn possible(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        if let Some(live) = self.live() {
            if !live.attempt().is_decided() {
                acts.extend([Act::End(Resolve::Accepted), Act::End(Resolve::Failed)]);
            }
            acts.extend(live.deadline().is_some().then_some(Act::Tick));
        }
        for effect in self.fresh_effects() {
            acts.push(Act::Answer(effect.clone(), Answer::Well));
            if matches!(effect, Effect::TakeHead(_)) {
                acts.push(Act::Answer(effect, Answer::Badly));
            }
        }
        if let Some(run) = &self.outside.landing {
            acts.extend([Act::FinishLanding(Answer::Well), Act::FinishLanding(Answer::Badly)]);
            acts.extend(run.steps.is_empty().then_some(Act::FinishLanding(Answer::Moved)));
        }
        acts.extend((0..self.outside.answers.len()).map(Act::Arrive));
        let again = (0..self.outside.arrived.len()).map(Act::ArriveAgain);
        acts.extend(again.filter(|act| self.is_new(act)));
        if self.outside.crashes == 0 {
            acts.push(Act::Crash { landed: false });
            acts.extend(self.outside.landing.is_some().then_some(Act::Crash { landed: true }));
        }
        let open = self.run.decide(&Command::Cancel { because: String::new() }).is_ok();
        acts.extend((open && self.outside.cancels < 2).then_some(Act::Cancel));
        let again = self.run.legs.len() == 1 && self.run.decide(&Command::Resume).is_ok();
        acts.extend(again.then_some(Act::Resume));
        acts
    }

    /// Whether an action changes anything. A rejected one does not.
    fn is_new(&self, act: &Act) -> bool {
        let Act::ArriveAgain(no) = act else { return true };
        self.run.decide(&self.outside.arrived[*no]).is_ok()
    }

    fn apply(&mut self, act: &Act) {
        match act {
            Act::End(to) => {
                let resolve = session::Command::Resolve { to: *to, because: String::new() };
                if let Some(id) = self.live().map(|live| live.id) {
                    self.tell_session(id, &resolve);
                }
            }
            Act::Tick => {
                self.now.mono_ms += 1;
                if let Some(id) = self.live().map(|live| live.id) {
                    self.tell_session(id, &session::Command::Tick);
                }
            }
            Act::Answer(effect, answer) => self.answer(effect, *answer),
            Act::FinishLanding(answer) => self.finish_landing(*answer),
            Act::Arrive(no) => {
                let command = self.outside.answers.remove(*no);
                self.outside.arrived.push(command.clone());
                self.tell(&command);
            }
            Act::ArriveAgain(no) => {
                let command = self.outside.arrived[*no].clone();
                self.tell(&command);
            }
            Act::Crash { landed } => self.crash(*landed),
            Act::Cancel => {
                self.outside.cancels += 1;
                self.tell(&Command::Cancel { because: String::new() });
            }
            Act::Resume => self.tell(&Command::Resume),
        }
        let owed: BTreeSet<String> = self.run.effects().iter().map(Effect::key).collect();
        self.outside.begun.retain(|key| owed.contains(key));
    }

    fn answer(&mut self, effect: &Effect, answer: Answer) {
        self.outside.begun.insert(effect.key());
        let command = match (effect, answer) {
            (Effect::TakeHead(session), Answer::Badly) => {
                Command::HeadFailed { session: *session, reason: String::new() }
            }
            (Effect::TakeHead(session), Answer::Well | Answer::Moved) => {
                let head = snapshot(&format!("t{}", self.run.sessions.len()));
                Command::HeadTaken { session: *session, head, caveats: Default::default() }
            }
            (Effect::Land { .. }, _) => {
                self.outside.landing = Some(Box::new(self.run.clone()));
                return;
            }
            (Effect::LookLanded { leg }, _) => {
                let head = self.run.head.as_ref().map(|head| head.commit.clone());
                let found = head.filter(|commit| self.outside.landed.contains(&commit.0));
                found.map_or(Command::LandOver { leg: *leg, pull: None }, landed)
            }
            (Effect::WriteCard { leg }, _) => {
                Command::CardWritten { leg: *leg, failure: None, changed: None }
            }
            (
                Effect::WatchPull { .. }
                | Effect::RunHook(_)
                | Effect::Bring { .. }
                | Effect::MergeBatch { .. }
                | Effect::Integrate { .. },
                _,
            ) => return self.broke("unexpected effect: a plan, a pull request or a hook"),
        };
        self.outside.answers.push(command);
    }

    fn finish_landing(&mut self, answer: Answer) {
        let Some(run) = self.outside.landing.take() else { return };
        let leg = run.leg().no;
        let command = match answer {
            Answer::Badly => Command::LandFailed { leg, reason: String::new() },
            Answer::Moved => Command::TargetMoved { step: run.steps.len(), merge: merge() },
            Answer::Well => match self.land(&run) {
                Some(commit) => landed(commit),
                None => return,
            },
        };
        self.outside.answers.push(command);
    }

    /// Lands in the world. Never happens for a sealed run attempt.
    fn land(&mut self, run: &Run) -> Option<CommitId> {
        let commit = run.head.as_ref()?.commit.clone();
        let leg = self.run.legs.iter().find(|leg| leg.no == run.leg().no)?;
        if let Some(outcome) = &leg.sealed {
            let word = outcome.ending.word();
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
    fn fresh_effects(&self) -> Vec<Effect> {
        let free = |effect: &Effect| match effect {
            Effect::Land { .. } | Effect::LookLanded { .. } => self.outside.landing.is_none(),
            Effect::TakeHead(_)
            | Effect::Bring { .. }
            | Effect::MergeBatch { .. }
            | Effect::Integrate { .. }
            | Effect::WatchPull { .. }
            | Effect::RunHook(_)
            | Effect::WriteCard { .. } => true,
        };
        let begun = |effect: &Effect| self.outside.begun.contains(&effect.key());
        self.run.effects().into_iter().filter(|one| free(one) && !begun(one)).collect()
    }

    fn landing_effect(&self) -> Option<Effect> {
        self.fresh_effects().into_iter().find(|effect| matches!(effect, Effect::Land { .. }))
    }

    fn tell(&mut self, command: &Command) {
        for event in self.run.decide(command).unwrap_or_default() {
            self.fold(&event);
        }
        self.follow();
    }

    fn fold(&mut self, event: &Event) {
        let before = self.run.clone();
        self.run.evolve(self.now, event);
        let judged = self.watch.event(&before, event, &self.run);
        if let Err(law) = judged {
            self.broke(&law);
        }
    }

    fn tell_session(&mut self, id: SessionId, command: &session::Command) {
        self.try_session(id, command);
        self.follow();
    }

    fn try_session(&mut self, id: SessionId, command: &session::Command) -> bool {
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
            match self.run.advance(&Around {
                now: self.now,
                elsewhere: 0,
                look: &|id| sessions.get(&id),
            }) {
                None => return self.rest(),
                Some(Step::Event(event)) => self.fold(&event),
                Some(Step::With(event, Order::Open(id, spec))) => {
                    let session = Session::open(id, self.now, &SessionOpened { spec });
                    self.sessions.insert(id, session);
                    self.fold(&event);
                }
                Some(Step::With(event, Order::Tell(id, command))) => {
                    if !self.try_session(id, &command) {
                        return self.broke("a session rejects a command it was expected to accept");
                    }
                    self.fold(&event);
                }
                Some(Step::Tell(id, command)) => {
                    if !self.try_session(id, &command) {
                        return;
                    }
                }
            }
        }
        self.broke("the run does not settle");
    }

    fn rest(&mut self) {
        let sessions = &self.sessions;
        if let Err(law) = self.watch.rest(&self.run, self.now, 0, |id| sessions.get(&id)) {
            self.broke(&law);
        }
    }

    /// From any state, honest answers bring the run to its end.
    fn ends(&mut self) {
        let mut ahead = self.clone();
        for _ in 0..PATIENCE {
            if ahead.run.is_closed() || ahead.broken.is_some() {
                break;
            }
            ahead.go_on_honestly();
        }
        match (&ahead.broken, ahead.run.is_closed()) {
            (Some(law), _) => self.broke(&format!("ahead: {law}")),
            (None, false) => self.broke(&format!("it never ends: {:?}", ahead.run.effects())),
            (None, true) => {}
        }
    }

    fn go_on_honestly(&mut self) {
        let undecided = self.live().map(|live| !live.attempt().is_decided());
        let act = match (self.fresh_effects().into_iter().next(), undecided) {
            _ if !self.outside.answers.is_empty() => Act::Arrive(0),
            _ if self.outside.landing.is_some() => Act::FinishLanding(Answer::Well),
            (Some(effect), _) => Act::Answer(effect, Answer::Well),
            (None, Some(true)) => Act::End(Resolve::Accepted),
            (None, Some(false) | None) => Act::Tick,
        };
        self.apply(&act);
    }

    /// Delivers every pending answer, except that of a landing.
    fn answer_all(&mut self) {
        for effect in self.fresh_effects() {
            if !matches!(effect, Effect::Land { .. }) {
                self.apply(&Act::Answer(effect, Answer::Well));
                self.apply(&Act::Arrive(0));
            }
        }
    }

    fn told(&self) -> String {
        let run = serde_json::to_string(&self.run).expect("a run has string keys only");
        let sessions: Vec<String> = self.sessions.values().map(whole).collect();
        let landing = self.outside.landing.as_ref().map(|run| (run.leg().no, run.steps.len()));
        let Outside { landed, begun, answers, arrived, crashes, cancels, .. } = &self.outside;
        let outside = (landed, begun, landing, answers, arrived, crashes, cancels);
        format!("{run}{sessions:?}{outside:?}{:?}", self.broken)
    }
}

fn whole(session: &Session) -> String {
    serde_json::to_string(session).expect("a session has string keys only")
}

fn begin() -> Node {
    let now = Moment { wall_ms: 0, mono_ms: 0 };
    let run =
        Run::open(RunId(uuid::Uuid::from_u128(0x100)), now, &RunOpened { spec: Box::new(spec()) });
    let watch = RunWatch::of(&run).expect("it was just opened");
    let mut node = Node {
        run,
        sessions: BTreeMap::new(),
        now,
        watch,
        outside: Outside::default(),
        broken: None,
        text: String::new(),
    };
    node.follow();
    node.text = node.told();
    node
}

fn landed(commit: CommitId) -> Command {
    Command::Landed { branch: "main".to_owned(), commit, merged: true }
}

fn merge() -> Box<LandStep> {
    Box::new(LandStep::Merge {
        onto: CommitId("theirs".to_owned()),
        work: CommitId("ours".to_owned()),
        merge: snapshot("merged"),
        conflicts: vec!["a.rs".to_owned()],
    })
}

fn snapshot(tree: &str) -> Snapshot {
    Snapshot { commit: CommitId(format!("c-{tree}")), tree: TreeId(tree.to_owned()) }
}

fn spec() -> RunSpec {
    RunSpec {
        name: "m".to_owned(),
        goal: "m".to_owned(),
        preset: None,
        spec: None,
        project: "/p".to_owned(),
        cwd: "/p".to_owned(),
        target: Target { branch: Some("main".to_owned()), base: snapshot("t0"), remote: None },
        worktrees: "/w".to_owned(),
        branch: "provost/m".to_owned(),
        agent: Agent {
            name: "m".to_owned(),
            driver: Driver::Jsonl,
            argv: vec!["a".to_owned()],
            env: Default::default(),
            pass_env: Vec::new(),
            own_env: Vec::new(),
            input: Input::Closed,
            settings: Default::default(),
            version: None,
            carried: Default::default(),
        },
        triage: false,
        planning: Planning::default(),
        reviews: Reviews {
            plan: ReviewMode::Off,
            task: ReviewMode::Off,
            whole: ReviewMode::Off,
            cycles: 0,
        },
        land: LandMode::Merge,
        checks: Vec::new(),
        configured_checks: false,
        no_checks: false,
        keep: Vec::new(),
        protected: Vec::new(),
        setup: None,
        copy: Vec::new(),
        empty_diff: EmptyDiff::Refused,
        bounds: Bounds { settle_ms: 1, ..Bounds::default() },
        budget: Default::default(),
        policy: Default::default(),
        questions: false,
        answers: Default::default(),
        templates: Default::default(),
        hooks: Default::default(),
        pull_every_ms: 1,
        comments_from: Default::default(),
        pull_checks_ms: 1,
        prices: None,
        origin: None,
        warnings: Vec::new(),
    }
}
