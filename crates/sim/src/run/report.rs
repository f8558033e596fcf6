//! The report of a simulation.

use provost_core::{
    run::{LandingState, Run, RunAttempt, TaskGraph, TaskPhase},
    session::Session,
};

use crate::coverage::Coverage;

/// The outcome of a session, without anything that depends on timing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimSessionOutcome {
    pub state: &'static str,
    pub cause: Option<&'static str>,
    pub claim: &'static str,
    pub tree: Option<String>,
    pub reworks: u32,
}

/// The outcome of a run, without anything that depends on timing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimRunOutcome {
    pub stage: &'static str,
    /// The outcome and cause of each run attempt.
    pub attempts: Vec<(Option<&'static str>, Option<&'static str>)>,
    pub tree: Option<String>,
    pub landed: bool,
    pub sessions: usize,
    pub decisions: usize,
    pub steps: usize,
    pub hooks: Vec<(String, u32)>,
    /// The merged tasks of the plan.
    pub merged: Vec<String>,
}

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct SimReport {
    pub seed: u64,
    pub outcomes: Vec<SimSessionOutcome>,
    pub runs: Vec<SimRunOutcome>,
    pub coverage: Coverage,
    pub events: u64,
    pub steps: u64,
    pub crashes: u64,
    /// The number of commits of the owner.
    pub commits: u64,
    /// The broken law, with the seed.
    pub broken: Option<String>,
    pub trace: Vec<String>,
}

pub(super) fn run_outcome(run: &Run) -> SimRunOutcome {
    let ended = |attempt: &RunAttempt| {
        let sealed = attempt.sealed.as_ref();
        let cause = sealed.and_then(|outcome| outcome.cause);
        (sealed.map(|outcome| outcome.ending.as_str()), cause.map(|cause| cause.as_str()))
    };
    // With a plan, the order of merges depends on timing, and so do the conflicts.
    let certain = run.graph.is_none();
    let hooks = run.hooks_fired.iter().map(|(event, no)| (event.to_string(), *no));
    let tasks = run.graph.iter().flat_map(TaskGraph::tasks);
    let merged = tasks.filter(|(_, task)| task.phase == TaskPhase::Merged);
    SimRunOutcome {
        stage: run.stage.as_str(),
        attempts: run.attempts.iter().map(ended).collect(),
        tree: if certain { run.head.as_ref().map(|head| head.tree.0.clone()) } else { None },
        landed: matches!(run.landing, LandingState::Done(_)),
        sessions: if certain { run.sessions.len() } else { 0 },
        decisions: run.decisions.len(),
        steps: if certain { run.steps.len() } else { 0 },
        hooks: if certain { hooks.collect() } else { Vec::new() },
        merged: merged.map(|(plan, _)| plan.id.to_string()).collect(),
    }
}

pub(super) fn outcome(session: &Session) -> SimSessionOutcome {
    let (attempt, judged) = (session.attempt(), session.judgement());
    let sealed = attempt.sealed.as_ref();
    SimSessionOutcome {
        state: judged.state.as_str(),
        cause: judged.cause.map(|cause| cause.as_str()),
        claim: attempt.claim_kind().as_str(),
        tree: sealed.and_then(|sealed| sealed.tree.as_ref()).map(|tree| tree.0.clone()),
        reworks: attempt.reworks,
    }
}
