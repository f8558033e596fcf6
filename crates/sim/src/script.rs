//! Generates sessions, the behavior of agents and the actions of users from a seed.
//!
//! Everything here depends only on the seed and on names, never on the order of events. The same seed therefore
//! produces the same scenario with and without crashes.

use std::collections::BTreeMap;

use provost_core::{
    ids::SessionId,
    lifecycle::ClaimKind,
    limits::Bounds,
    policy::{Matcher, Policy, PolicyRule, RuleDecision},
    request::{
        AgentRequest, ApprovalSubject, BlockingMode, CommandLookup, ProgramLookup, RequestKind,
    },
    session::{
        AgentInterface, AgentProfile, AgentSpec, Budget, CommandStdin, ExitZeroPolicy, FactKind,
        HookEvent, HookSpec, ManualOutcome, OnFinish, ProcessExit, Progress, ReportBody, SendMode,
        SessionSpec, StreamSignal, TurnEnd, Usage, WorkLocation,
    },
    verdict::EmptyDiff,
};

use crate::interfaces;
use crate::{
    goal::RunAction,
    own_turns, rare,
    rng::Rng,
    run::Faults,
    screen::{self, ScreenEntry},
    team::TeamUserAction,
};

/// One action of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentAction {
    /// A line on the agent's standard output.
    Line(StreamSignal),
    /// A change to the work that the checks accept or reject.
    Edit {
        good: bool,
    },
    /// The work is reverted to its base.
    Revert,
    /// A call of `provost report`, which returns once the report is recorded.
    Report(ReportBody),
    Sleep(u64),
    /// An entry in the agent's transcript or on its screen.
    Show(ScreenEntry),
    /// A turn that the agent begins on its own.
    BeginOwnTurn(String),
    /// The agent's process is suspended, as by Ctrl-Z in a terminal, or continued.
    Suspend(bool),
    /// Waits for an answer.
    AwaitAnswer,
    CloseStream,
    /// Prints more output than the holder keeps, so the holder makes the agent wait.
    Flood,
    Exit(ProcessExit),
}

/// An agent's reaction to being stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgentScript {
    pub(crate) obeys_interrupt: bool,
    pub(crate) obeys_term: bool,
    pub(crate) can_be_killed: bool,
    pub(crate) starts: bool,
    pub(crate) leftovers: u32,
    /// Whether the agent never reads its input.
    pub(crate) ignores_input: bool,
}

/// A user's action.
#[derive(Clone, Debug)]
pub(crate) enum UserAction {
    Cancel,
    Stop,
    Resolve(ManualOutcome),
    Send(SendMode),
    AnswerOpen,
    AnswerForged,
    RaiseLimit,
    RaiseBudget,
    Report(ClaimKind),
    CollectGarbage,
    /// Attaches to the agent's screen, or detaches.
    ToggleAttach,
    OnRun(RunAction),
    OnTeam(TeamUserAction),
}

pub(crate) fn session_id(seed: u64, no: u64) -> SessionId {
    SessionId(uuid::Uuid::from_u64_pair(seed, no + 1))
}

pub(crate) fn spec(seed: u64, no: u64, faults: &Faults) -> SessionSpec {
    screen::on_screen(rare::one_shot(plain_spec(seed, no, faults), seed, no, faults), seed, no)
}

fn plain_spec(seed: u64, no: u64, faults: &Faults) -> SessionSpec {
    let mut rng = Rng::from_names(seed, &[1, no]);
    let (talker, command) = (AgentInterface::json_lines(), AgentInterface::command());
    let interface = rng.pick(&[talker.clone(), talker.clone(), command]);
    let mut modern = Rng::from_names(seed, &[6, no]);
    let interface =
        if interface == talker && modern.percent(35) { interfaces::server() } else { interface };
    let input = rng.pick(&[CommandStdin::Closed, CommandStdin::Open]);
    let checks = rng.pick(&[vec![], vec!["fast"], vec!["fast"], vec!["fast", "slow"]]);
    let name = format!("s{no}");
    let account = interface.takes_instructions().then(|| "everybody's".to_owned());
    SessionSpec {
        role: None,
        task: None,
        adopted: None,
        project: None,
        cwd: "/work".to_owned(),
        agent: AgentSpec {
            name: name.clone(),
            interface,
            argv: vec!["agent".to_owned()],
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            own_env: Vec::new(),
            input,
            settings: Default::default(),
            version: None,
            profile: AgentProfile { account, ..AgentProfile::default() },
        },
        name,
        instruction: rng.percent(90).then(|| "do it".to_owned()),
        work: rng.pick(&[
            WorkLocation::Plain,
            WorkLocation::InPlace { top: "/work".to_owned() },
            WorkLocation::Worktree {
                top: "/work".to_owned(),
                path: "/trees/s".to_owned(),
                branch: "provost/s".to_owned(),
                copy: Vec::new(),
                base: None,
            },
        ]),
        setup: rng.percent(20).then(|| "make".to_owned()),
        checks: checks.into_iter().map(str::to_owned).collect(),
        keep: Vec::new(),
        protected: Vec::new(),
        check_terms: Default::default(),
        empty_diff: rng.pick(&[EmptyDiff::Refused, EmptyDiff::Refused, EmptyDiff::Accepted]),
        exit_zero: rng.pick(&[
            ExitZeroPolicy::NotAClaim,
            ExitZeroPolicy::NotAClaim,
            ExitZeroPolicy::Completes,
        ]),
        on_finish: rng.pick(&[OnFinish::Close, OnFinish::Park]),
        bounds: bounds(&mut rng, faults),
        budget: budget(&mut modern, faults),
        policy: policy(),
        hooks: hooks(&mut rng),
        reactions: Vec::new(),
        warnings: Vec::new(),
        run: None,
    }
}

fn budget(rng: &mut Rng, faults: &Faults) -> Budget {
    let tokens = rng.pick(&[None, None, Some(40)]);
    let turns = rng.pick(&[None, None, Some(2)]);
    // An agent's last model call may be observed before or after its exit. A calm scenario avoids
    // this race.
    if faults.calm { Budget::default() } else { Budget { tokens, turns } }
}

/// Returns rules that allow one command and deny another. All other commands need approval.
fn policy() -> Policy {
    let rule = |decision, word: &str| PolicyRule {
        decision,
        matches: Matcher::Command(vec![word.to_owned()]),
    };
    let rules = vec![rule(RuleDecision::Allow, "ls"), rule(RuleDecision::Deny, "rm")];
    Policy { rules, ..Policy::default() }
}

fn bounds(rng: &mut Rng, faults: &Faults) -> Bounds {
    let limited = rng.pick(&[None, None, Some(1_500), Some(20_000)]);
    Bounds {
        settle_ms: rng.pick(&[50, 2_000, 2_000]),
        drain_ms: rng.pick(&[50, 2_000]),
        stream_settle_ms: 10_000,
        stale_ms: if faults.calm { 10_000_000 } else { rng.pick(&[3_000, 3_000, 300_000]) },
        stop_grace_ms: 1_000,
        kill_grace_ms: 1_000,
        time_limit_ms: if faults.calm { None } else { limited },
        // The spacing is longer than most scenarios last, so that sessions of one account delay each other.
        limit_spacing_ms: 60_000,
        rework: rng.below(3) as u32,
        snapshots: rng.below(3) as u32,
        ..Bounds::default()
    }
}

fn hooks(rng: &mut Rng) -> BTreeMap<HookEvent, HookSpec> {
    let hook = HookSpec { argv: vec!["hook".to_owned()], time_limit_ms: 1, output_limit: 1 };
    let share = rng.pick(&[0, 50, 100]);
    let wanted = rng.sample(HookEvent::all(), share);
    wanted.into_iter().map(|event| (event, hook.clone())).collect()
}

pub(crate) fn agent_script(seed: u64, session: u64, launch: u32, faults: &Faults) -> AgentScript {
    let mut rng = Rng::from_names(seed, &[2, session, u64::from(launch)]);
    let calm = faults.calm;
    AgentScript {
        obeys_interrupt: calm || rng.percent(70),
        obeys_term: calm || rng.percent(80),
        can_be_killed: calm || rng.percent(97),
        starts: rng.percent(97),
        leftovers: rng.below(2) as u32,
        ignores_input: !calm && rng.percent(8),
    }
}

/// Returns the actions of an agent from its start, before it receives a message.
pub(crate) fn opening(
    seed: u64,
    session: u64,
    launch: u32,
    interface: &AgentInterface,
    faults: &Faults,
) -> Vec<AgentAction> {
    let mut rng = Rng::from_names(seed, &[3, session, u64::from(launch)]);
    if interface.has_terminal() {
        return screen::opening(seed, session, launch, faults);
    }
    if interface.is_one_shot() {
        return rare::one_shot_opening(seed, session, launch);
    }
    if !interface.takes_instructions() {
        return command(&mut rng, faults);
    }
    if let Some(acts) = rare::unreachable(seed, session, launch, interface, faults) {
        return acts;
    }
    let thread = rng.percent(70).then(|| format!("thread-{session}"));
    let mut acts = vec![AgentAction::Line(StreamSignal::Ready { thread })];
    if !faults.calm && rng.percent(10) {
        acts.extend(turn(&mut rng, faults));
    }
    if !faults.calm && rng.percent(6) {
        acts.extend(ending(&mut rng, faults));
    }
    acts
}

/// Returns the reaction of an agent to a message.
pub(crate) fn reaction(
    seed: u64,
    session: u64,
    launch: u32,
    key: &str,
    faults: &Faults,
) -> Vec<AgentAction> {
    let digest = key.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
    if let Some(acts) = rare::turn(&[session, u64::from(launch), digest], seed, faults) {
        return acts;
    }
    let mut acts =
        turn(&mut Rng::from_names(seed, &[4, session, u64::from(launch), digest]), faults);
    let mut rng = Rng::from_names(seed, &[7, session, u64::from(launch), digest]);
    // In some scenarios the account's usage limit is reached, which affects all of its sessions.
    let used_up = seed % 8 == 3 && !faults.calm;
    if rng.percent(if used_up { 70 } else { 20 }) {
        let at = rng.index(acts.len().max(1)).min(acts.len());
        let more = if used_up { limited(Some(0)) } else { extra_behaviour(&mut rng, faults) };
        acts.splice(at..at, more);
    }
    let mut own = Rng::from_names(seed, &[60, session, u64::from(launch), digest]);
    if !faults.calm && own.percent(15) {
        own_turns::continued(&mut acts, &mut own);
    }
    acts
}

/// Returns a turn of an agent that follows its instructions and reports success.
pub(crate) fn obedient_turn() -> Vec<AgentAction> {
    vec![
        AgentAction::Line(StreamSignal::TurnStarted { turn: None }),
        AgentAction::Edit { good: true },
        AgentAction::Line(StreamSignal::Reported(claim(ClaimKind::Completed))),
        AgentAction::Line(StreamSignal::TurnEnded {
            turn: None,
            end: TurnEnd::Ok,
            usage: None,
            says: None,
        }),
    ]
}

/// Returns a turn that ends because of the usage limit.
fn limited(until_ms: Option<u64>) -> Vec<AgentAction> {
    let end = TurnEnd::Limited { until_ms, detail: "used up".to_owned() };
    vec![AgentAction::Line(StreamSignal::TurnEnded { turn: None, end, usage: None, says: None })]
}

/// Returns additional behavior of agents of a newer kind.
fn extra_behaviour(rng: &mut Rng, faults: &Faults) -> Vec<AgentAction> {
    match rng.below(8) {
        0 => vec![AgentAction::Line(StreamSignal::Warned {
            text: format!("lacks {}", rng.below(3)),
        })],
        1 if !faults.calm => {
            vec![AgentAction::Line(StreamSignal::Refused { reason: "too old".to_owned() })]
        }
        // A reset time in the past ends the limit for this session at once, but not for the other sessions of the
        // account.
        2 if !faults.calm => limited(Some(0)),
        1 | 3 if !faults.calm => limited(None),
        _ => {
            let command = rng.pick(&["ls", "rm", "cc"]).to_owned();
            let program = ProgramLookup {
                word: command.clone(),
                file: Some(format!("/bin/{command}")),
                refused: None,
            };
            let subject = ApprovalSubject {
                command: Some(command),
                lookup: Some(CommandLookup { in_worktree: true, programs: vec![program] }),
                ..ApprovalSubject::default()
            };
            let approval = AgentRequest {
                native: format!("a{}", rng.below(3)),
                kind: RequestKind::Approval,
                subject: Some(Box::new(subject)),
                ..asked(rng)
            };
            // The first two requests report a result regardless of the answer, so some results contradict it.
            let native = approval.native.clone();
            let done = ["a0", "a1"].iter().position(|name| *name == native).map(|at| at == 0);
            let came =
                done.map(|done| AgentAction::Line(StreamSignal::ItemFinished { native, done }));
            let asks = [
                AgentAction::Line(StreamSignal::RequestOpened(approval)),
                AgentAction::AwaitAnswer,
            ];
            asks.into_iter().chain(came).collect()
        }
    }
}

/// Returns the actions of a plain command, which has no protocol but may run `provost report`.
fn command(rng: &mut Rng, faults: &Faults) -> Vec<AgentAction> {
    let mut acts = Vec::new();
    for _ in 0..rng.below(4) {
        acts.push(match rng.below(6) {
            0 | 1 => AgentAction::Edit { good: rng.percent(75) },
            2 => AgentAction::Sleep(rng.pick(&[10, 700, 5_000])),
            3 => AgentAction::Report(claim(ClaimKind::Working)),
            4 => AgentAction::Line(StreamSignal::Oversized { bytes: 17 << 20 }),
            _ => AgentAction::Report(fact()),
        });
    }
    if rng.percent(50) {
        acts.push(AgentAction::Report(claim(final_claim(rng))));
    }
    if !faults.calm && rng.percent(25) {
        acts.push(AgentAction::Sleep(rng.pick(&[40, 3_000])));
    }
    if !faults.calm && rng.percent(8) {
        acts.push(AgentAction::Flood);
    }
    if rng.percent(90) {
        acts.extend(ending(rng, faults));
    }
    if !faults.calm && rng.percent(15) {
        acts.extend([AgentAction::Sleep(30), AgentAction::Report(claim(final_claim(rng)))]);
    }
    acts
}

/// Returns a turn of an agent with a protocol: honest, sloppy or lying.
fn turn(rng: &mut Rng, faults: &Faults) -> Vec<AgentAction> {
    if !faults.calm && rng.percent(30) {
        return fickle_turns(rng);
    }
    let mut acts = vec![AgentAction::Line(StreamSignal::TurnStarted { turn: None })];
    for _ in 0..rng.below(5) {
        acts.extend(work(rng, faults));
    }
    if rng.percent(12) {
        acts.extend(question(rng, faults));
    }
    let left = acts.iter().any(|act| matches!(act, AgentAction::Exit(_)));
    if faults.calm && left {
        return acts;
    }
    if rng.percent(65) {
        let report = claim(final_claim(rng));
        let by_stream = faults.calm || rng.percent(60);
        acts.push(if by_stream {
            AgentAction::Line(StreamSignal::Reported(report))
        } else {
            AgentAction::Report(report)
        });
    }
    let ends = rng.percent(30);
    // The exit may be observed before or after the checks. A calm agent avoids this race.
    if rng.percent(88) && !(faults.calm && ends) {
        let error = TurnEnd::Error("quota".to_owned());
        let end = rng.pick(&[TurnEnd::Ok, TurnEnd::Ok, TurnEnd::Ok, TurnEnd::Ok, error]);
        acts.push(AgentAction::Line(StreamSignal::TurnEnded {
            turn: None,
            end,
            usage: None,
            says: None,
        }));
    }
    if !faults.calm && rng.percent(15) {
        acts.push(AgentAction::Sleep(rng.pick(&[5, 60, 2_500])));
        acts.push(rng.pick(&[
            AgentAction::Line(StreamSignal::TurnStarted { turn: None }),
            AgentAction::Edit { good: true },
            AgentAction::Edit { good: false },
            AgentAction::Report(claim(ClaimKind::Completed)),
        ]));
    }
    if ends {
        acts.extend(ending(rng, faults));
        if !faults.calm && rng.percent(30) {
            // A grandchild outlives its parent.
            acts.extend(vec![AgentAction::Sleep(rng.pick(&[0, 20, 3_000])), late(rng)]);
        }
    }
    acts
}

/// Returns the turns of an agent that makes a claim, and makes other claims after the first one was
/// checked.
fn fickle_turns(rng: &mut Rng) -> Vec<AgentAction> {
    let first = rng.pick(&[ClaimKind::Completed, ClaimKind::Failed]);
    let mut acts = vec![
        AgentAction::Line(StreamSignal::TurnStarted { turn: None }),
        AgentAction::Edit { good: rng.percent(60) },
        AgentAction::Line(StreamSignal::Reported(claim(first))),
    ];
    acts.extend(match rng.below(10) {
        0..=3 => vec![AgentAction::Line(StreamSignal::TurnEnded {
            turn: None,
            end: TurnEnd::Ok,
            usage: None,
            says: None,
        })],
        4 | 5 => vec![AgentAction::CloseStream, AgentAction::Sleep(10_100)],
        _ => vec![AgentAction::Sleep(3_100)],
    });
    for _ in 0..=rng.below(5) {
        let report = claim(rng.pick(&ClaimKind::ALL));
        acts.extend([AgentAction::Sleep(rng.pick(&[150, 450, 900])), AgentAction::Report(report)]);
    }
    let end = rng.pick(&[ProcessExit::Exit(0), ProcessExit::Exit(1), ProcessExit::Signal(9)]);
    acts.extend([AgentAction::Sleep(rng.pick(&[0, 200])), AgentAction::Exit(end)]);
    acts
}

fn late(rng: &mut Rng) -> AgentAction {
    match rng.below(4) {
        0 => AgentAction::Edit { good: rng.percent(50) },
        1 => AgentAction::Line(StreamSignal::RequestOpened(asked(rng))),
        2 => AgentAction::Line(StreamSignal::Reported(claim(final_claim(rng)))),
        _ => AgentAction::Report(claim(final_claim(rng))),
    }
}

fn work(rng: &mut Rng, faults: &Faults) -> Vec<AgentAction> {
    let act = match rng.below(13) {
        0..=3 => AgentAction::Edit { good: rng.percent(70) },
        4 => AgentAction::Line(StreamSignal::Reported(claim(ClaimKind::Working))),
        5 => AgentAction::Line(StreamSignal::Progress(Progress { done: rng.below(3), total: 3 })),
        6 => AgentAction::Line(StreamSignal::Usage(Usage { input: 10, output: 3 })),
        7 => AgentAction::Line(StreamSignal::Retrying { detail: "503".to_owned() }),
        8 => AgentAction::Line(StreamSignal::Oversized { bytes: 17 << 20 }),
        9 => AgentAction::Line(StreamSignal::Reported(fact())),
        10 => AgentAction::Revert,
        11 => AgentAction::Line(StreamSignal::RequestWithdrawn { native: "forged".to_owned() }),
        _ => AgentAction::Sleep(rng.pick(&[1, 30, 800])),
    };
    let long = !faults.calm && rng.percent(4);
    let flood = !faults.calm && rng.percent(2);
    let pause = long.then_some(AgentAction::Sleep(400_000)).or(flood.then_some(AgentAction::Flood));
    std::iter::once(act).chain(pause).collect()
}

fn question(rng: &mut Rng, faults: &Faults) -> Vec<AgentAction> {
    let asked = asked(rng);
    let native = asked.native.clone();
    let ask = AgentAction::Line(StreamSignal::RequestOpened(asked));
    match rng.below(4) {
        0 => vec![ask, AgentAction::Exit(ProcessExit::Exit(0))],
        1 => vec![
            ask,
            AgentAction::Sleep(900),
            AgentAction::Line(StreamSignal::RequestWithdrawn { native }),
        ],
        2 if !faults.calm => {
            let again = AgentAction::Line(StreamSignal::RequestOpened(AgentRequest {
                native,
                kind: RequestKind::Question,
                waiting: BlockingMode::Blocking,
                title: "once more".to_owned(),
                questions: Vec::new(),
                subject: None,
            }));
            vec![ask, AgentAction::Sleep(100), again, AgentAction::AwaitAnswer]
        }
        _ => vec![ask, AgentAction::AwaitAnswer],
    }
}

fn asked(rng: &mut Rng) -> AgentRequest {
    AgentRequest {
        native: format!("q{}", rng.below(3)),
        kind: rng.pick(&[RequestKind::Question, RequestKind::Dialog]),
        waiting: rng.pick(&[
            BlockingMode::Blocking,
            BlockingMode::Blocking,
            BlockingMode::NonBlocking,
        ]),
        title: "may I".to_owned(),
        questions: Vec::new(),
        subject: None,
    }
}

fn ending(rng: &mut Rng, faults: &Faults) -> Vec<AgentAction> {
    let end = rng.pick(&[
        ProcessExit::Exit(0),
        ProcessExit::Exit(0),
        ProcessExit::Exit(0),
        ProcessExit::Exit(1),
        ProcessExit::Signal(9),
        ProcessExit::Signal(11),
    ]);
    match rng.below(10) {
        _ if faults.calm => vec![AgentAction::Exit(end)],
        0 => vec![AgentAction::CloseStream],
        1 => vec![AgentAction::CloseStream, AgentAction::Exit(end)],
        _ => vec![AgentAction::Exit(end)],
    }
}

fn final_claim(rng: &mut Rng) -> ClaimKind {
    use ClaimKind::{Completed, Failed, NeedsInput};
    rng.pick(&[Completed, Completed, Completed, Completed, Failed, NeedsInput])
}

fn claim(kind: ClaimKind) -> ReportBody {
    ReportBody::Claim { kind, text: None }
}

fn fact() -> ReportBody {
    ReportBody::Fact { kind: FactKind::Branch, value: "provost/s".to_owned() }
}

/// Returns the users' actions, and when they take them.
pub(crate) fn user_actions(
    seed: u64,
    sessions: u64,
    faults: &Faults,
) -> Vec<(u64, u64, UserAction)> {
    if !faults.users {
        return Vec::new();
    }
    let mut rng = Rng::from_names(seed, &[5]);
    let count = if sessions == 0 { 0 } else { rng.below(4 * sessions + 2) };
    let mut actions: Vec<(u64, u64, UserAction)> = (0..count)
        .map(|_| {
            let at = rng.below(rng.clone().pick(&[100, 3_000, 30_000]));
            (1_000 + at, rng.below(sessions), user_action(&mut rng))
        })
        .collect();
    actions.sort_by_key(|(at, ..)| *at);
    actions
}

pub(crate) fn user_action(rng: &mut Rng) -> UserAction {
    match rng.below(20) {
        0 | 1 => UserAction::Cancel,
        2 | 3 => UserAction::Stop,
        4 => UserAction::Resolve(ManualOutcome::Accepted),
        5 => UserAction::Resolve(ManualOutcome::Failed),
        6 => UserAction::Resolve(ManualOutcome::Cancelled),
        7..=10 => UserAction::Send(SendMode::Continue),
        11 => UserAction::Send(SendMode::Supersede),
        12..=15 => UserAction::AnswerOpen,
        16 if rng.clone().percent(50) => UserAction::ToggleAttach,
        16 => UserAction::AnswerForged,
        17 if rng.clone().percent(50) => UserAction::RaiseBudget,
        17 => UserAction::RaiseLimit,
        18 => UserAction::Report(final_claim(rng)),
        _ => UserAction::CollectGarbage,
    }
}
