//! Generates a run from a seed: its spec, the behavior of its agents, and the actions of users.
//!
//! As in `script`, everything depends only on the seed and on names.

use std::collections::BTreeMap;

use provost_core::{
    ids::RunId,
    lifecycle::ClaimKind,
    limits::Bounds,
    policy::{Matcher, Policy, PolicyRule, RuleDecision},
    request::{AgentRequest, BlockingMode, RequestKind, RequestQuestion},
    result::{Finding, ResultForm, Review, Severity, StructuredResult, Triage},
    run::{LandMode, PlanMode, ReviewMode, ReviewModes, RunHookEvent, RunSpec, RunTarget},
    session::{
        AgentInterface, Budget, HookSpec, ReportBody, SessionSpec, StreamSignal, TurnEnd, Usage,
        WorkLocation,
    },
    verdict::EmptyDiff,
};

use crate::interfaces;
use crate::{
    graph,
    rng::Rng,
    run::Faults,
    script::{self, AgentAction, UserAction},
    world::snapshot,
};

/// A user's action on a run, or on the session that works for it.
#[derive(Clone, Debug)]
pub(crate) enum RunAction {
    Cancel,
    Resume,
    RaiseBudget,
    Answer,
    Approve,
    Reject,
    OnSession(Box<UserAction>),
}

/// The purpose of a run's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionPart {
    form: ResultForm,
    edits: bool,
}

impl SessionPart {
    /// Returns the session's purpose in its run, if the session belongs to a run.
    pub(crate) fn from_spec(spec: &SessionSpec) -> Option<SessionPart> {
        spec.run.map(|_| SessionPart {
            form: spec.agent.settings.result,
            edits: matches!(spec.work, WorkLocation::Worktree { .. }),
        })
    }
}

/// Whether the scenario of a seed has a run.
pub fn has_run(seed: u64) -> bool {
    seed.is_multiple_of(4)
}

/// Whether the run of this seed has a plan.
pub fn has_plan(seed: u64) -> bool {
    has_run(seed) && graph::has_plan(scenario_number(seed))
}

/// Returns the number of a scenario among those with a run, or among those without one. The
/// scenarios without a run are therefore the same as if no scenario had a run.
pub(crate) fn scenario_number(seed: u64) -> u64 {
    if has_run(seed) { seed / 4 } else { seed - seed / 4 - 1 }
}

/// Whether the run's agents work without faults and no user interferes. Such a run lands more often
/// than others.
fn is_smooth(seed: u64) -> bool {
    Rng::from_names(seed, &[38]).percent(30)
}

/// Returns the faults that the agents of a run may have.
fn faults_of_agents(seed: u64, faults: &Faults) -> Faults {
    Faults { calm: faults.calm || is_smooth(seed), ..*faults }
}

fn run_id(seed: u64) -> RunId {
    RunId(uuid::Uuid::from_u64_pair(seed, 0x40))
}

/// Returns the runs of a scenario. If the limit on agents covers several runs, there is a second run.
pub(crate) fn runs(seed: u64, faults: &Faults) -> Vec<(RunId, RunSpec)> {
    let first = spec(seed, faults);
    let together = first.planning.machine_parallel < u32::MAX && !faults.calm;
    let second = together.then(|| RunSpec {
        name: "second".to_owned(),
        worktrees: "/trees/second".to_owned(),
        branch: "provost/second".to_owned(),
        land: LandMode::Branch,
        ..first.clone()
    });
    let second = second.map(|spec| (RunId(uuid::Uuid::from_u64_pair(seed, 0xc0)), spec));
    [(run_id(seed), first)].into_iter().chain(second).collect()
}

fn spec(seed: u64, given: &Faults) -> RunSpec {
    let faults = &faults_of_agents(seed, given);
    let mut rng = Rng::from_names(seed, &[30]);
    let lone = script::spec(seed, 0, faults);
    let mut agent = lone.agent;
    agent.interface = rng.pick(&[
        AgentInterface::json_lines(),
        AgentInterface::json_lines(),
        interfaces::server(),
    ]);
    if !faults.calm && rng.percent(5) {
        agent.interface = AgentInterface::command();
    }
    agent.settings.questions = true;
    agent.profile.account = Some("everybody's".to_owned());
    let modes = [ReviewMode::Off, ReviewMode::Report, ReviewMode::Repair];
    let planning = graph::planning(seed, &agent.interface, faults);
    // Only triage decides whether a plan is needed.
    let asked = planning.given.is_none() && planning.mode == PlanMode::Auto;
    let checks: &[&str] = rng.pick(&[&[][..], &["fast"][..], &["fast"][..], &["fast", "slow"][..]]);
    RunSpec {
        name: "goal".to_owned(),
        goal: "do it".to_owned(),
        preset: None,
        spec: None,
        project: "/work".to_owned(),
        cwd: "/work".to_owned(),
        target: RunTarget {
            branch: Some("main".to_owned()),
            base: snapshot("good-0"),
            remote: None,
        },
        worktrees: "/trees/goal".to_owned(),
        branch: "provost/goal".to_owned(),
        triage: agent.interface.takes_instructions() && (rng.percent(30) || asked),
        agent,
        planning,
        reviews: ReviewModes {
            plan: Rng::from_names(seed, &[37]).pick(&modes),
            task: rng.pick(&modes),
            whole: rng.pick(&[ReviewMode::Off, ReviewMode::Off, ReviewMode::Repair]),
            cycles: rng.below(3) as u32,
        },
        land: rng.pick(modes_of_landing(seed)),
        checks: checks.iter().map(|check| (*check).to_owned()).collect(),
        configured_checks: false,
        no_checks: false,
        keep: Vec::new(),
        protected: Vec::new(),
        setup: rng.percent(15).then(|| "make".to_owned()),
        copy: Vec::new(),
        empty_diff: rng.pick(&[EmptyDiff::Refused, EmptyDiff::Accepted]),
        bounds: Bounds { rework: 2, ..lone.bounds },
        budget: budget(&mut rng, faults),
        policy: policy(given),
        questions: true,
        answers: answers(&mut rng),
        templates: BTreeMap::new(),
        hooks: hooks(&mut rng),
        pull_every_ms: 1,
        comments_from: Default::default(),
        pull_checks_ms: 1,
        prices: None,
        origin: None,
        warnings: Vec::new(),
    }
}

/// Returns the landing modes to choose from. Smooth scenarios usually land as a pull request, so
/// that some pull requests are polled repeatedly.
fn modes_of_landing(seed: u64) -> &'static [LandMode] {
    use LandMode::{Branch, Merge, Pr};
    if is_smooth(seed) { &[Branch, Merge, Pr, Pr, Pr] } else { &[Branch, Merge, Pr] }
}

/// Returns the approval rules. In a calm scenario, no user approves the agents' commands, so the
/// rules allow them.
fn policy(faults: &Faults) -> Policy {
    let matches = Matcher::Command(vec!["own".to_owned()]);
    let allow = faults.calm.then_some(PolicyRule { decision: RuleDecision::Allow, matches });
    Policy { rules: allow.into_iter().collect(), ..Policy::default() }
}

fn budget(rng: &mut Rng, faults: &Faults) -> Budget {
    let tokens = rng.pick(&[None, None, Some(30), Some(45), Some(90)]);
    let turns = rng.pick(&[None, None, None, Some(5)]);
    // An agent's last model call may be observed before or after its exit. A calm scenario avoids
    // this race.
    if faults.calm { Budget::default() } else { Budget { tokens, turns } }
}

/// Returns answers that are given in advance to no question, to one question or to all questions.
fn answers(rng: &mut Rng) -> BTreeMap<String, Vec<String>> {
    let given = rng.pick(&[0, 1, 3]);
    (0..given).map(|no| (format!("q{no}"), vec!["beforehand".to_owned()])).collect()
}

fn hooks(rng: &mut Rng) -> BTreeMap<RunHookEvent, HookSpec> {
    let hook = HookSpec { argv: vec!["hook".to_owned()], time_limit_ms: 1, output_limit: 1 };
    let share = rng.pick(&[0, 50, 100]);
    let wanted = rng.sample(RunHookEvent::ALL, share);
    wanted.into_iter().map(|event| (event, hook.clone())).collect()
}

/// Returns what a run's agent does after its start.
pub(crate) fn opening(
    seed: u64,
    session: u64,
    launch: u32,
    interface: &AgentInterface,
    faults: &Faults,
) -> Vec<AgentAction> {
    let faults = &faults_of_agents(seed, faults);
    let mut rng = Rng::from_names(seed, &[31, session, u64::from(launch)]);
    if !interface.takes_instructions() || (!faults.calm && rng.percent(8)) {
        return script::opening(seed, session, launch, interface, faults);
    }
    vec![AgentAction::Line(StreamSignal::Ready { thread: Some(format!("thread-{session}")) })]
}

/// Returns the reaction of a run's agent to a message. Usually, the agent does its work.
pub(crate) fn reaction(
    seed: u64,
    session: u64,
    launch: u32,
    key: &str,
    part: SessionPart,
    faults: &Faults,
) -> Vec<AgentAction> {
    let faults = &faults_of_agents(seed, faults);
    let digest = key.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
    let mut rng = Rng::from_names(seed, &[32, session, u64::from(launch), digest]);
    if !faults.calm && rng.percent(12) {
        return script::reaction(seed, session, launch, key, faults);
    }
    let mut acts = vec![
        AgentAction::Line(StreamSignal::TurnStarted { turn: None }),
        AgentAction::Line(StreamSignal::Usage(Usage { input: 10, output: 3 })),
    ];
    let asks = match part.form {
        ResultForm::Plain | ResultForm::Triage | ResultForm::Plan => true,
        ResultForm::PlanReview | ResultForm::Review => false,
    };
    // An agent that waits for an answer occupies a slot, and timing determines which agent waits.
    let often = match (graph::has_plan(seed), faults.calm) {
        (false, _) => 35,
        (true, false) => 12,
        (true, true) => 0,
    };
    if asks && rng.percent(often) {
        acts.extend([
            AgentAction::Line(StreamSignal::RequestOpened(question(&mut rng))),
            AgentAction::AwaitAnswer,
        ]);
    }
    if !faults.calm && rng.percent(20) {
        acts.push(AgentAction::Sleep(rng.pick(&[10, 800, 4_000])));
    }
    acts.extend(result(seed, &mut rng, part, key.starts_with("faults"), faults));
    acts.push(AgentAction::Line(StreamSignal::TurnEnded {
        turn: None,
        end: TurnEnd::Ok,
        usage: None,
        says: None,
    }));
    acts
}

fn result(
    seed: u64,
    rng: &mut Rng,
    part: SessionPart,
    may_edit: bool,
    faults: &Faults,
) -> Vec<AgentAction> {
    let kind = if rng.percent(92) { ClaimKind::Completed } else { ClaimKind::Failed };
    let result_line =
        |result| AgentAction::Line(StreamSignal::ClaimWithResult { kind, text: None, result });
    let claim_line =
        AgentAction::Line(StreamSignal::Reported(ReportBody::Claim { kind, text: None }));
    match part.form {
        ResultForm::Plain => {
            let good = faults.calm || rng.percent(88);
            let edit = rng.percent(95).then_some(AgentAction::Edit { good });
            edit.into_iter().chain([claim_line]).collect()
        }
        ResultForm::Triage if rng.percent(6) => vec![claim_line],
        ResultForm::Triage => {
            let understanding = "it".to_owned();
            let needs_plan = graph::has_plan(seed) && rng.percent(70);
            vec![result_line(StructuredResult::Triage(Triage { understanding, needs_plan }))]
        }
        ResultForm::Plan => vec![result_line(graph::plan_result(seed, rng, may_edit))],
        ResultForm::PlanReview => vec![result_line(graph::review_result(rng, may_edit))],
        ResultForm::Review => {
            let findings = if rng.percent(50) { vec![finding(part.edits)] } else { Vec::new() };
            let edits = part.edits && !findings.is_empty();
            let edit = edits.then_some(AgentAction::Edit { good: faults.calm || rng.percent(90) });
            edit.into_iter()
                .chain([result_line(StructuredResult::Review(Review { findings }))])
                .collect()
        }
    }
}

fn finding(repaired: bool) -> Finding {
    Finding {
        title: "slow".to_owned(),
        detail: String::new(),
        severity: Severity::Low,
        file: None,
        line: None,
        repaired,
    }
}

/// Returns one of a few questions, so that some repeat; one of them asks for a secret.
fn question(rng: &mut Rng) -> AgentRequest {
    let no = rng.below(3);
    AgentRequest {
        native: format!("n{}", rng.below(3)),
        kind: RequestKind::Question,
        waiting: BlockingMode::Blocking,
        title: String::new(),
        questions: vec![RequestQuestion {
            id: format!("q{no}"),
            header: String::new(),
            question: format!("which {no}?"),
            options: Vec::new(),
            only_options: false,
            secret: no == 2,
        }],
        subject: None,
    }
}

/// Returns the actions that users take on the run, and when they take them.
pub(crate) fn run_actions(seed: u64, faults: &Faults) -> Vec<(u64, u64, UserAction)> {
    if !faults.users {
        return Vec::new();
    }
    let mut rng = Rng::from_names(seed, &[33]);
    let busy = rng.pick(&[4, 10, 16]);
    let action = |rng: &mut Rng| {
        let at = rng.below(rng.clone().pick(&[3_000, 20_000, 60_000]));
        (1_000 + at, 0, UserAction::OnRun(run_action(rng)))
    };
    let disturbs = |action: &UserAction| {
        matches!(
            action,
            UserAction::OnRun(RunAction::Cancel | RunAction::Reject | RunAction::OnSession(_))
        )
    };
    let actions = (0..rng.below(busy) + 4).map(|_| action(&mut rng));
    actions.filter(|(.., action)| !is_smooth(seed) || !disturbs(action)).collect()
}

fn run_action(rng: &mut Rng) -> RunAction {
    match rng.below(16) {
        0 | 1 => RunAction::Cancel,
        2..=4 => RunAction::Resume,
        5 => RunAction::RaiseBudget,
        6..=11 => RunAction::Answer,
        12 => rng.pick(&[
            RunAction::Approve,
            RunAction::Approve,
            RunAction::Reject,
            RunAction::Answer,
        ]),
        _ => RunAction::OnSession(Box::new(script::user_action(rng))),
    }
}
