//! Specs, results and requests for the tests of runs.

use std::collections::BTreeMap;

use provost_core::{
    ids::CommitId,
    limits::Bounds,
    request::{AgentRequest, BlockingMode, RequestKind, RequestQuestion},
    result::{Finding, Review, Severity, StructuredResult, Triage},
    run::{
        LandMode, LandStep, PlanningSpec, PullRequestStatus, ReviewComment, ReviewMode,
        ReviewModes, RunHookEvent, RunSpec, RunTarget,
    },
    session::HookSpec,
    verdict::EmptyDiff,
};

use crate::kit::snapshot;

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
        target: RunTarget { branch: Some("main".to_owned()), base: snapshot("old"), remote: None },
        worktrees: "/trees/limit".to_owned(),
        branch: "provost/limit".to_owned(),
        agent: crate::kit::spec().agent,
        triage: false,
        planning: PlanningSpec::default(),
        reviews: ReviewModes {
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

pub(crate) fn unchecked_spec() -> RunSpec {
    RunSpec { checks: Vec::new(), ..run_spec() }
}

pub(crate) fn triaged_spec() -> RunSpec {
    RunSpec { triage: true, ..run_spec() }
}

pub(crate) fn landing_spec(land: LandMode) -> RunSpec {
    RunSpec { land, ..run_spec() }
}

pub(crate) fn reviewed_spec(task: ReviewMode, whole: ReviewMode) -> RunSpec {
    RunSpec { reviews: ReviewModes { plan: ReviewMode::Off, task, whole, cycles: 2 }, ..run_spec() }
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

pub(crate) fn triage_result(words: &str) -> StructuredResult {
    StructuredResult::Triage(Triage { understanding: words.to_owned(), needs_plan: false })
}

pub(crate) fn review_result(findings: Vec<Finding>) -> StructuredResult {
    StructuredResult::Review(Review { findings })
}

/// A request with one question, using the agent's ids for both.
pub(crate) fn question_request(native: &str, id: &str, words: &str) -> AgentRequest {
    AgentRequest {
        native: native.to_owned(),
        kind: RequestKind::Question,
        waiting: BlockingMode::Blocking,
        title: "A question".to_owned(),
        questions: vec![one_question(id, words)],
        subject: None,
    }
}

pub(crate) fn one_question(id: &str, words: &str) -> RequestQuestion {
    RequestQuestion {
        id: id.to_owned(),
        header: String::new(),
        question: words.to_owned(),
        options: Vec::new(),
        only_options: false,
        secret: false,
    }
}

pub(crate) fn comment(id: &str, text: &str) -> ReviewComment {
    ReviewComment::new(id.to_owned(), "ann", text)
}

pub(crate) fn merge_step(tree: &str, conflicts: &[&str]) -> Box<LandStep> {
    Box::new(LandStep::Merge {
        onto: CommitId("theirs".to_owned()),
        work: CommitId("ours".to_owned()),
        merge: snapshot(tree),
        conflicts: conflicts.iter().map(|file| (*file).to_owned()).collect(),
    })
}

pub(crate) const OPEN_PULL: PullRequestStatus = PullRequestStatus::Open;
