//! Generates teams from a seed: their members, and the actions of users and members.
//!
//! As in `script`, all of it depends only on the seed and on names. The details of an action, such as its message,
//! are chosen when it is carried out.

use provost_core::{
    ids::{SessionId, StandingId},
    session::{Afterwards, Driver, Spec},
    task::{
        Actor, Awaited, CleanUp, Config, Mode, Policy, Proof, Required, Role, TaskBounds, TaskSpec,
        Template,
    },
    wait::Wait,
};

use crate::{
    rng::Rng,
    run::Faults,
    script::{self, Deed},
};

/// An action on a team by its manager, its members or a user.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskDeed {
    Post,
    /// Sends the newest message of a sender once more, under its key.
    PostAgain,
    /// Asks for the next message of a member.
    Pull,
    CancelMessage,
    Requeue,
    Bury,
    Propose,
    Judge,
    Check,
    /// Starts a loop, shows missing evidence, or requests the next iteration.
    GoRound,
    /// Requests an iteration out of order, or before any evidence was shown.
    GoTooFar,
    StopLoop,
    Bind,
    Retire,
    Rotate,
    Acknowledge,
    Configure,
    RecordMove,
    Pause,
    GoOn,
    Attack,
    Finish,
    Fail,
    Cancel,
}

/// A consumer of a member's messages, which may die with them.
#[derive(Clone, Debug)]
pub(crate) struct Taker {
    pub(crate) task: StandingId,
    pub(crate) consumer: String,
    /// It asks by itself whenever something waits; other consumers ask when they are made to.
    pub(crate) keen: bool,
    /// It never dies, sleeps or gives messages back.
    pub(crate) steady: bool,
    pub(crate) holds: Holds,
    /// The key of its unanswered request.
    pub(crate) asked: Option<String>,
    pub(crate) wake_ms: u64,
}

/// A caller that waits for a later event of a team, as the command line does.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) task: StandingId,
    pub(crate) awaited: Awaited,
    /// When it starts to wait. A caller that repeats a command under its key may do so much later.
    pub(crate) begin_ms: u64,
    /// None until it has started to follow the events.
    pub(crate) wait: Option<Wait>,
    pub(crate) answered: bool,
}

/// The message that a consumer believes it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Nothing,
    Offered(u32, u32),
    Accepted(u32, u32),
}

/// A team with its initial members.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) id: StandingId,
    pub(crate) spec: TaskSpec,
    pub(crate) members: Vec<(String, Role, Option<SessionId>)>,
    pub(crate) takers: Vec<Taker>,
}

/// Whether the scenario of a seed has a team. It changes the number of no scenario.
pub fn has_task(seed: u64) -> bool {
    seed % 8 == 1
}

fn task_id(seed: u64, no: u64) -> StandingId {
    StandingId(uuid::Uuid::from_u64_pair(seed, 0x80 + no))
}

/// Returns the teams of a scenario. In some, a second team shares a worker with the first.
pub(crate) fn pairs(seed: u64, sessions: u64, faults: &Faults) -> Vec<Pair> {
    // The order in which messages are delivered depends on timing, which a calm scenario avoids.
    if faults.calm {
        return Vec::new();
    }
    let first = pair(seed, sessions);
    let shared = first.members.iter().find_map(|(_, role, session)| {
        let shares = *role == Role::Worker && Rng::named(seed, &[51]).percent(20);
        if shares { *session } else { None }
    });
    let second = shared.map(|session| {
        let mut rng = Rng::named(seed, &[52]);
        let id = task_id(seed, 1);
        let members = vec![("w0".to_owned(), Role::Worker, Some(session))];
        let spec = spec(&mut rng, "second");
        let takers = vec![taker(id, "operator", true)];
        Pair { id, spec, members, takers }
    });
    std::iter::once(first).chain(second).collect()
}

fn pair(seed: u64, sessions: u64) -> Pair {
    let mut rng = Rng::named(seed, &[50]);
    let id = task_id(seed, 0);
    let mut spec = spec(&mut rng, "first");
    let mut free: Vec<SessionId> = (0..sessions).map(|no| script::session_id(seed, no)).collect();
    let mut members = Vec::new();
    match rng.below(5) {
        0 | 1 => members.push(("boss".to_owned(), Role::Manager, None)),
        2 | 3 => members.push(("boss".to_owned(), Role::Manager, free.pop())),
        _ => spec.policy = Some(policy(&mut rng)),
    }
    // One member may be bound later, in the middle of its work.
    if rng.percent(20) {
        free.pop();
    }
    let pulls = rng.below(2) + u64::from(free.is_empty());
    let sessions = free.into_iter().map(Some);
    let workers = sessions.chain((0..pulls).map(|_| None));
    members.extend(workers.zip(0..).map(|(session, no)| (format!("w{no}"), Role::Worker, session)));
    if rng.percent(20) {
        members.push(("eye".to_owned(), Role::Reviewer, None));
    }
    let mut takers = vec![taker(id, "operator", true)];
    for (name, _, session) in &members {
        takers.push(taker(id, name, session.is_none()));
        // Two consumers of one member race.
        takers.extend(rng.percent(60).then(|| taker(id, name, session.is_none())));
    }
    Pair { id, spec, members, takers }
}

pub(crate) fn taker(task: StandingId, consumer: &str, keen: bool) -> Taker {
    Taker {
        task,
        consumer: consumer.to_owned(),
        keen,
        steady: false,
        holds: Holds::Nothing,
        asked: None,
        wake_ms: 0,
    }
}

fn spec(rng: &mut Rng, name: &str) -> TaskSpec {
    let mode = rng.pick(&[Mode::Light, Mode::Light, Mode::Guided, Mode::Strict]);
    let checks: &[&str] = rng.pick(&[&[][..], &["fast"][..]]);
    TaskSpec {
        name: name.to_owned(),
        goal: "do it".to_owned(),
        summary: None,
        project: None,
        cwd: "/work".to_owned(),
        checks: checks.iter().map(|check| (*check).to_owned()).collect(),
        consent: Default::default(),
        config: Config { mode, adversarial: rng.percent(15), ..Config::default() },
        policy: None,
        bounds: TaskBounds {
            offer_ms: rng.pick(&[50, 2_000]),
            lease_ms: rng.pick(&[100, 5_000]),
            ..TaskBounds::default()
        },
    }
}

fn policy(rng: &mut Rng) -> Policy {
    Policy {
        acts: rng.pick(&[3, 6, 12]),
        rework: rng.below(3) as u32,
        accept: rng.percent(50),
        nudge_after_ms: rng.pick(&[None, Some(300), Some(4_000)]),
        nudges: rng.below(3) as u32,
        go_on: rng.percent(70),
        finish: rng.percent(70),
        ..Policy::default()
    }
}

/// Returns a loop that a few actions complete.
pub(crate) fn template(rng: &mut Rng) -> Template {
    let named = |name: &str, proof| Required { name: name.to_owned(), proof };
    let word = named("word", Proof::Asserted);
    let fast = named("fast", Proof::Verified { check: "fast".to_owned() });
    let attack = named("attack", Proof::Adversarial);
    let evidence = rng.pick(&[vec![word.clone()], vec![fast], vec![word, attack]]);
    Template {
        name: "round".to_owned(),
        max: 1 + rng.below(4) as u32,
        evidence,
        clean_up: CleanUp::Keep,
        plateau: rng.pick(&[None, Some(1)]),
        tokens: rng.pick(&[None, None, Some(30)]),
        tools: Vec::new(),
    }
}

/// Returns the actions of users and members on the teams, and their times.
pub(crate) fn deeds(seed: u64, faults: &Faults) -> Vec<(u64, u64, Deed)> {
    if !faults.people {
        return Vec::new();
    }
    let mut rng = Rng::named(seed, &[53]);
    let mut deeds = Vec::new();
    let mut add = |at: u64, deed: TaskDeed| deeds.push((1_000 + at, 0, Deed::OfTask(deed)));
    add(rng.below(500), TaskDeed::Acknowledge);
    let many = 6 + rng.below(14);
    for _ in 0..many {
        let at = rng.below(rng.clone().pick(&[500, 3_000, 20_000]));
        add(at, deed(&mut rng));
    }
    // Some teams are about a loop and some about criteria, which take several steps each.
    if rng.percent(50) {
        for _ in 0..4 + rng.below(10) {
            add(rng.below(20_000), TaskDeed::GoRound);
        }
    }
    if rng.percent(40) {
        for _ in 0..2 + rng.below(6) {
            add(rng.below(15_000), rng.pick(&[TaskDeed::Propose, TaskDeed::Judge]));
        }
    }
    for _ in 0..rng.below(3) {
        add(8_000 + rng.below(20_000), TaskDeed::Finish);
    }
    deeds
}

fn deed(rng: &mut Rng) -> TaskDeed {
    match rng.below(50) {
        0..=13 => TaskDeed::Post,
        14..=17 => TaskDeed::PostAgain,
        18..=20 => TaskDeed::Pull,
        21 | 22 => TaskDeed::CancelMessage,
        23..=25 => TaskDeed::Requeue,
        26 => TaskDeed::Bury,
        27 | 28 => TaskDeed::Propose,
        29..=31 => TaskDeed::Judge,
        32 => TaskDeed::Check,
        33 => TaskDeed::GoTooFar,
        34 => TaskDeed::StopLoop,
        35 | 36 => TaskDeed::Bind,
        37 => TaskDeed::Retire,
        38 | 39 => TaskDeed::Rotate,
        40 => TaskDeed::Acknowledge,
        41 => TaskDeed::Configure,
        42 | 43 => TaskDeed::RecordMove,
        44 => TaskDeed::Pause,
        45 | 46 => TaskDeed::GoOn,
        47 => TaskDeed::Attack,
        48 => rng.pick(&[TaskDeed::Fail, TaskDeed::Cancel, TaskDeed::Finish]),
        _ => TaskDeed::GoRound,
    }
}

/// Returns the members with this role, who may do an action besides the operator.
pub(crate) fn actors(pair: &[(String, Role)], role: Role) -> Vec<Actor> {
    let own = pair.iter().filter(|(_, had)| *had == role);
    own.map(|(name, _)| Actor::Member(name.clone())).collect()
}

/// Returns a session whose agent only follows its instructions.
pub(crate) fn plain_worker(seed: u64, no: u64, faults: &Faults) -> Spec {
    let mut spec = script::spec(seed, 0, faults);
    spec.name = format!("w{no}");
    spec.agent.driver = Driver::Jsonl;
    spec.agent.carried = Default::default();
    spec.afterwards = Afterwards::Park;
    // An agent without an instruction is not known to be idle.
    spec.instruction = Some("do it".to_owned());
    (spec.adopted, spec.setup) = (None, None);
    (spec.checks, spec.hooks) = (Vec::new(), Default::default());
    spec
}
