//! The specification of the run in the model check, and the values of its answers.

use provost_core::{
    ids::{CommitId, TreeId},
    limits::Bounds,
    run::{
        LandMode, LandStep, PlanningSpec, ReviewMode, ReviewModes, Run, RunCommand, RunSpec,
        RunTarget,
    },
    session::{AgentInterface, AgentSpec, CommandStdin},
    verdict::{CheckEnd, EmptyDiff, Receipt, Snapshot},
};

pub(crate) fn landed(commit: CommitId) -> RunCommand {
    RunCommand::Landed { branch: "main".to_owned(), commit, merged: true }
}

/// A merge with conflicts, except in a run with checks.
pub(crate) fn merge(run: &Run) -> Box<LandStep> {
    let conflicts = if run.spec.checks.is_empty() { vec!["a.rs".to_owned()] } else { Vec::new() };
    Box::new(LandStep::Merge {
        onto: CommitId("theirs".to_owned()),
        work: CommitId("ours".to_owned()),
        merge: snapshot("merged"),
        conflicts,
    })
}

pub(crate) fn receipt(tree: &str, end: CheckEnd) -> Receipt {
    Receipt {
        command: "check".to_owned(),
        tree: TreeId(tree.to_owned()),
        end,
        duration_ms: 0,
        output_digest: String::new(),
        output: String::new(),
        tail: String::new(),
        warm: false,
        environment: None,
        overlay: None,
    }
}

pub(crate) fn snapshot(tree: &str) -> Snapshot {
    Snapshot { commit: CommitId(format!("c-{tree}")), tree: TreeId(tree.to_owned()) }
}

pub(crate) fn spec() -> RunSpec {
    RunSpec {
        name: "m".to_owned(),
        goal: "m".to_owned(),
        preset: None,
        spec: None,
        project: "/p".to_owned(),
        cwd: "/p".to_owned(),
        target: RunTarget { branch: Some("main".to_owned()), base: snapshot("t0"), remote: None },
        worktrees: "/w".to_owned(),
        branch: "provost/m".to_owned(),
        agent: AgentSpec {
            name: "m".to_owned(),
            interface: AgentInterface::json_lines(),
            argv: vec!["a".to_owned()],
            env: Default::default(),
            pass_env: Vec::new(),
            own_env: Vec::new(),
            input: CommandStdin::Closed,
            settings: Default::default(),
            version: None,
            profile: Default::default(),
        },
        triage: false,
        planning: PlanningSpec::default(),
        reviews: ReviewModes {
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
