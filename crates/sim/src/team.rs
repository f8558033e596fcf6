//! Generates teams from a seed: their members, and the actions of users and members.
//!
//! As in `script`, everything depends only on the seed and on names. The details of an action, such as its message, are
//! chosen when it is carried out.

use provost_core::{
    ids::{SessionId, TeamId},
    session::{AgentInterface, OnFinish, SessionSpec},
    team::{
        CleanUp, LoopProof, LoopRequirement, LoopTemplate, ManagerConfig, ManagerMode,
        ManagingPolicy, MemberRole, TeamActor, TeamLimits, TeamSpec, TeamWaitTarget,
    },
    wait::Wait,
};

use crate::{
    rng::Rng,
    run::Faults,
    script::{self, UserAction},
};

/// An action on a team by its manager, its members or a user.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TeamUserAction {
    Post,
    /// Sends a sender's newest message again, under its original key.
    Repost,
    /// Requests a member's next message.
    Pull,
    CancelMessage,
    Requeue,
    DeadLetter,
    Propose,
    Judge,
    Check,
    /// Starts a loop, shows missing evidence, or requests the next iteration.
    AdvanceLoop,
    /// Requests an iteration out of order, or before any evidence was shown.
    SkipIteration,
    StopLoop,
    Bind,
    Retire,
    Rotate,
    Acknowledge,
    Configure,
    RecordMove,
    Pause,
    Resume,
    Challenge,
    Finish,
    Fail,
    Cancel,
}

/// A consumer of a member's messages. A consumer may die while it holds a message.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) task: TeamId,
    pub(crate) consumer: String,
    /// Whether the consumer polls whenever a message is waiting. Other consumers poll only when the scheduler selects
    /// them.
    pub(crate) pulls_eagerly: bool,
    /// Whether the consumer never dies, sleeps or returns messages.
    pub(crate) never_fails: bool,
    pub(crate) held: HeldMessage,
    /// The key of the consumer's unanswered request.
    pub(crate) pending_key: Option<String>,
    pub(crate) wake_ms: u64,
}

/// A caller that waits for a later event of a team, as the command line does.
#[derive(Clone, Debug)]
pub(crate) struct TeamWaiter {
    pub(crate) task: TeamId,
    pub(crate) awaited: TeamWaitTarget,
    /// The time at which the caller starts to wait. A caller that repeats a command under its key
    /// may start much later.
    pub(crate) begin_ms: u64,
    /// The state of the wait, or None until the caller has started to follow the events.
    pub(crate) wait: Option<Wait>,
    pub(crate) answered: bool,
}

/// The message that a consumer believes it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldMessage {
    Nothing,
    Offered(u32, u32),
    Accepted(u32, u32),
}

/// A team with its initial members.
#[derive(Clone, Debug)]
pub(crate) struct SimTeam {
    pub(crate) id: TeamId,
    pub(crate) spec: TeamSpec,
    pub(crate) members: Vec<(String, MemberRole, Option<SessionId>)>,
    pub(crate) consumers: Vec<Consumer>,
}

/// Whether the scenario of a seed has a team. Teams do not change the number of any scenario.
pub fn has_team(seed: u64) -> bool {
    seed % 8 == 1
}

fn team_id(seed: u64, no: u64) -> TeamId {
    TeamId(uuid::Uuid::from_u64_pair(seed, 0x80 + no))
}

/// Returns the teams of a scenario. In some scenarios, a second team shares a worker with the first team.
pub(crate) fn teams(seed: u64, sessions: u64, faults: &Faults) -> Vec<SimTeam> {
    // The order in which messages are delivered depends on timing, so a calm scenario has no teams.
    if faults.calm {
        return Vec::new();
    }
    let first = team(seed, sessions);
    let shared = first.members.iter().find_map(|(_, role, session)| {
        let shares = *role == MemberRole::Worker && Rng::from_names(seed, &[51]).percent(20);
        if shares { *session } else { None }
    });
    let second = shared.map(|session| {
        let mut rng = Rng::from_names(seed, &[52]);
        let id = team_id(seed, 1);
        let members = vec![("w0".to_owned(), MemberRole::Worker, Some(session))];
        let spec = spec(&mut rng, "second");
        let takers = vec![consumer(id, "operator", true)];
        SimTeam { id, spec, members, consumers: takers }
    });
    std::iter::once(first).chain(second).collect()
}

fn team(seed: u64, sessions: u64) -> SimTeam {
    let mut rng = Rng::from_names(seed, &[50]);
    let id = team_id(seed, 0);
    let mut spec = spec(&mut rng, "first");
    let mut free: Vec<SessionId> = (0..sessions).map(|no| script::session_id(seed, no)).collect();
    let mut members = Vec::new();
    match rng.below(5) {
        0 | 1 => members.push(("boss".to_owned(), MemberRole::Manager, None)),
        2 | 3 => members.push(("boss".to_owned(), MemberRole::Manager, free.pop())),
        _ => spec.policy = Some(policy(&mut rng)),
    }
    // One member may be bound later, in the middle of its work.
    if rng.percent(20) {
        free.pop();
    }
    let pulls = rng.below(2) + u64::from(free.is_empty());
    let sessions = free.into_iter().map(Some);
    let workers = sessions.chain((0..pulls).map(|_| None));
    members.extend(
        workers.zip(0..).map(|(session, no)| (format!("w{no}"), MemberRole::Worker, session)),
    );
    if rng.percent(20) {
        members.push(("eye".to_owned(), MemberRole::Reviewer, None));
    }
    let mut takers = vec![consumer(id, "operator", true)];
    for (name, _, session) in &members {
        takers.push(consumer(id, name, session.is_none()));
        // Some members have two consumers, which race.
        takers.extend(rng.percent(60).then(|| consumer(id, name, session.is_none())));
    }
    SimTeam { id, spec, members, consumers: takers }
}

pub(crate) fn consumer(task: TeamId, consumer: &str, keen: bool) -> Consumer {
    Consumer {
        task,
        consumer: consumer.to_owned(),
        pulls_eagerly: keen,
        never_fails: false,
        held: HeldMessage::Nothing,
        pending_key: None,
        wake_ms: 0,
    }
}

fn spec(rng: &mut Rng, name: &str) -> TeamSpec {
    let mode = rng.pick(&[
        ManagerMode::Light,
        ManagerMode::Light,
        ManagerMode::Guided,
        ManagerMode::Strict,
    ]);
    let checks: &[&str] = rng.pick(&[&[][..], &["fast"][..]]);
    TeamSpec {
        name: name.to_owned(),
        goal: "do it".to_owned(),
        summary: None,
        project: None,
        cwd: "/work".to_owned(),
        checks: checks.iter().map(|check| (*check).to_owned()).collect(),
        consent: Default::default(),
        config: ManagerConfig { mode, adversarial: rng.percent(15), ..ManagerConfig::default() },
        policy: None,
        bounds: TeamLimits {
            offer_ms: rng.pick(&[50, 2_000]),
            lease_ms: rng.pick(&[100, 5_000]),
            ..TeamLimits::default()
        },
    }
}

fn policy(rng: &mut Rng) -> ManagingPolicy {
    ManagingPolicy {
        actions: rng.pick(&[3, 6, 12]),
        rework: rng.below(3) as u32,
        accept: rng.percent(50),
        nudge_after_ms: rng.pick(&[None, Some(300), Some(4_000)]),
        nudges: rng.below(3) as u32,
        continue_loop: rng.percent(70),
        finish: rng.percent(70),
        ..ManagingPolicy::default()
    }
}

/// Returns a loop that can be completed with a few actions.
pub(crate) fn template(rng: &mut Rng) -> LoopTemplate {
    let named = |name: &str, proof| LoopRequirement { name: name.to_owned(), proof };
    let word = named("word", LoopProof::Asserted);
    let fast = named("fast", LoopProof::Verified { check: "fast".to_owned() });
    let challenge = named("challenge", LoopProof::Adversarial);
    let evidence = rng.pick(&[vec![word.clone()], vec![fast], vec![word, challenge]]);
    LoopTemplate {
        name: "round".to_owned(),
        max: 1 + rng.below(4) as u32,
        evidence,
        clean_up: CleanUp::Keep,
        plateau: rng.pick(&[None, Some(1)]),
        tokens: rng.pick(&[None, None, Some(30)]),
        tools: Vec::new(),
    }
}

/// Returns the actions that users and members take on the teams, and when they take them.
pub(crate) fn team_actions(seed: u64, faults: &Faults) -> Vec<(u64, u64, UserAction)> {
    if !faults.users {
        return Vec::new();
    }
    let mut rng = Rng::from_names(seed, &[53]);
    let mut actions = Vec::new();
    let mut add =
        |at: u64, action: TeamUserAction| actions.push((1_000 + at, 0, UserAction::OnTeam(action)));
    add(rng.below(500), TeamUserAction::Acknowledge);
    let many = 6 + rng.below(14);
    for _ in 0..many {
        let at = rng.below(rng.clone().pick(&[500, 3_000, 20_000]));
        add(at, team_action(&mut rng));
    }
    // Loops and criteria take several steps each, so some teams get additional actions for them.
    if rng.percent(50) {
        for _ in 0..4 + rng.below(10) {
            add(rng.below(20_000), TeamUserAction::AdvanceLoop);
        }
    }
    if rng.percent(40) {
        for _ in 0..2 + rng.below(6) {
            add(rng.below(15_000), rng.pick(&[TeamUserAction::Propose, TeamUserAction::Judge]));
        }
    }
    for _ in 0..rng.below(3) {
        add(8_000 + rng.below(20_000), TeamUserAction::Finish);
    }
    actions
}

fn team_action(rng: &mut Rng) -> TeamUserAction {
    match rng.below(50) {
        0..=13 => TeamUserAction::Post,
        14..=17 => TeamUserAction::Repost,
        18..=20 => TeamUserAction::Pull,
        21 | 22 => TeamUserAction::CancelMessage,
        23..=25 => TeamUserAction::Requeue,
        26 => TeamUserAction::DeadLetter,
        27 | 28 => TeamUserAction::Propose,
        29..=31 => TeamUserAction::Judge,
        32 => TeamUserAction::Check,
        33 => TeamUserAction::SkipIteration,
        34 => TeamUserAction::StopLoop,
        35 | 36 => TeamUserAction::Bind,
        37 => TeamUserAction::Retire,
        38 | 39 => TeamUserAction::Rotate,
        40 => TeamUserAction::Acknowledge,
        41 => TeamUserAction::Configure,
        42 | 43 => TeamUserAction::RecordMove,
        44 => TeamUserAction::Pause,
        45 | 46 => TeamUserAction::Resume,
        47 => TeamUserAction::Challenge,
        48 => rng.pick(&[TeamUserAction::Fail, TeamUserAction::Cancel, TeamUserAction::Finish]),
        _ => TeamUserAction::AdvanceLoop,
    }
}

/// Returns the members with this role, for actions that only they and the operator may perform.
pub(crate) fn actors(pair: &[(String, MemberRole)], role: MemberRole) -> Vec<TeamActor> {
    let own = pair.iter().filter(|(_, had)| *had == role);
    own.map(|(name, _)| TeamActor::Member(name.clone())).collect()
}

/// Returns a session whose agent only follows its instructions.
pub(crate) fn plain_worker(seed: u64, no: u64, faults: &Faults) -> SessionSpec {
    let mut spec = script::spec(seed, 0, faults);
    spec.name = format!("w{no}");
    spec.agent.interface = AgentInterface::json_lines();
    spec.agent.profile = Default::default();
    spec.on_finish = OnFinish::Park;
    // An agent without an instruction is not known to be idle.
    spec.instruction = Some("do it".to_owned());
    (spec.adopted, spec.setup) = (None, None);
    (spec.checks, spec.hooks) = (Vec::new(), Default::default());
    spec
}
