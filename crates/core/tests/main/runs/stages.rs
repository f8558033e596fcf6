//! The stage table: an agent's permissions in each stage, and that its session gets exactly those.

use provost_core::{
    result::ResultForm,
    run::{ReviewMode, RunSpec, RunStage, StagePermissions},
    session::{Sandbox, WorkLocation},
    verdict::EmptyDiff,
};

use super::kit::{TestRun, reviewed_spec, run_spec, triage_result, triaged_spec};

const MODES: [ReviewMode; 3] = [ReviewMode::Off, ReviewMode::Report, ReviewMode::Repair];

/// May edit, may ask, sandbox, result form, time limit in minutes.
type StageRow = (bool, bool, Sandbox, ResultForm, Option<u64>);

/// The expected table, written out independently.
fn expected_row(stage: RunStage, mode: ReviewMode) -> Option<StageRow> {
    use ResultForm::{Plain, Plan, PlanReview, Review, Triage};
    use Sandbox::{ReadOnly, WorkspaceWrite};
    match (stage, mode) {
        (RunStage::Intake | RunStage::Tasks, _) => None,
        (RunStage::Triage, _) => Some((false, true, ReadOnly, Triage, Some(30))),
        (RunStage::Plan, _) => Some((false, true, ReadOnly, Plan, Some(60))),
        (RunStage::PlanReview, ReviewMode::Off) => None,
        (RunStage::PlanReview, ReviewMode::Report | ReviewMode::Repair) => {
            Some((false, false, ReadOnly, PlanReview, Some(60)))
        }
        (RunStage::Work | RunStage::Land, _) => Some((true, true, WorkspaceWrite, Plain, None)),
        (RunStage::TaskReview | RunStage::FinalReview, ReviewMode::Off) => None,
        (RunStage::TaskReview | RunStage::FinalReview, ReviewMode::Report) => {
            Some((false, false, ReadOnly, Review, Some(60)))
        }
        (RunStage::TaskReview | RunStage::FinalReview, ReviewMode::Repair) => {
            Some((true, false, WorkspaceWrite, Review, Some(60)))
        }
    }
}

#[test]
fn permission_table_matches_every_stage() {
    for stage in RunStage::ALL {
        for mode in MODES {
            let row = stage.permissions(mode).map(|permissions| {
                let StagePermissions { edits, asks, sandbox, effort, .. } = permissions;
                assert_eq!(effort, None, "{stage:?} {mode:?}: the configuration says how hard");
                let minutes = permissions.time_limit_ms.map(|ms| ms / 60_000);
                (edits, asks, sandbox, permissions.result, minutes)
            });
            assert_eq!(row, expected_row(stage, mode), "{stage:?} {mode:?}");
        }
    }
}

#[test]
fn stage_without_edits_is_read_only() {
    for (stage, mode) in RunStage::ALL.into_iter().flat_map(|s| MODES.map(|m| (s, m))) {
        if let Some(permissions) = stage.permissions(mode) {
            let read_only = permissions.sandbox == Sandbox::ReadOnly;
            assert_eq!(permissions.edits, !read_only, "{stage:?} {mode:?}");
        }
    }
}

#[test]
fn stage_and_mode_names_match_stored_form() {
    let stored = |value: serde_json::Value| value.as_str().map(str::to_owned);
    for stage in RunStage::ALL {
        let word = stored(serde_json::to_value(stage).unwrap());
        assert_eq!(word.as_deref(), Some(stage.as_str()));
    }
    for mode in MODES {
        let word = stored(serde_json::to_value(mode).unwrap());
        assert_eq!(word.as_deref(), Some(mode.as_str()));
    }
}

/// A spec that allows everything, so that a stage can only restrict it.
fn permissive(spec: RunSpec) -> RunSpec {
    let mut spec = spec;
    spec.agent.settings.sandbox = Sandbox::FullAccess;
    spec.agent.settings.questions = true;
    spec.agent.settings.network = true;
    spec.setup = Some("make".to_owned());
    spec
}

#[test]
fn triage_may_ask_but_not_edit() {
    let harness = TestRun::open(permissive(triaged_spec()));
    let spec = &harness.session(1).spec;
    let settings = &spec.agent.settings;
    assert_eq!(harness.run.stage, RunStage::Triage);
    assert_eq!((settings.sandbox, settings.network), (Sandbox::ReadOnly, false));
    assert!(settings.questions);
    assert_eq!(settings.result, ResultForm::Triage);
    assert!(matches!(&spec.work, WorkLocation::Detached { base, .. } if base.0 == "commit-of-old"));
    assert_eq!((spec.checks.len(), spec.setup.as_deref()), (0, None));
    assert_eq!(spec.bounds.time_limit_ms, Some(30 * 60_000));
    assert_eq!(spec.name, "limit-triage");
    assert_eq!(spec.run.map(|of| (of.run, of.stage)), Some((harness.run.id, RunStage::Triage)));
}

#[test]
fn work_uses_config_and_its_own_branch() {
    let mut harness = TestRun::open(permissive(triaged_spec()));
    harness.finish_session("old", Some(triage_result("limit it")));
    let spec = &harness.session(2).spec;
    let settings = &spec.agent.settings;
    assert_eq!((settings.sandbox, settings.network), (Sandbox::FullAccess, true));
    assert_eq!((settings.questions, settings.result), (true, ResultForm::Plain));
    let place = ("/trees/limit/2", "provost/limit-2", "commit-of-old");
    assert!(matches!(
        &spec.work,
        WorkLocation::Worktree { path, branch, base: Some(base), top, .. }
            if (path.as_str(), branch.as_str(), base.0.as_str()) == place && top == "/project"
    ));
    assert_eq!(
        harness.run.worktree(harness.live_session()),
        Some((place.0.to_owned(), place.1.to_owned()))
    );
    assert_eq!(
        (spec.checks.as_slice(), spec.setup.as_deref()),
        (&["check".to_owned()][..], Some("make"))
    );
    assert_eq!(spec.empty_diff, EmptyDiff::Refused);
    assert_eq!(spec.cwd, "/project/api");
    assert_eq!(harness.run.worktree(harness.run.id.session(9)), None);
}

#[test]
fn report_may_not_ask_or_edit_repair_may_edit() {
    for (mode, sandbox) in
        [(ReviewMode::Report, Sandbox::ReadOnly), (ReviewMode::Repair, Sandbox::FullAccess)]
    {
        let mut harness = TestRun::open(permissive(reviewed_spec(mode, ReviewMode::Off)));
        harness.finish_work("new");
        let spec = &harness.session(2).spec;
        let settings = &spec.agent.settings;
        assert_eq!(harness.run.stage, RunStage::TaskReview);
        assert_eq!((settings.sandbox, settings.questions), (sandbox, false), "{mode:?}");
        assert_eq!(settings.result, ResultForm::Review);
        assert_eq!(settings.network, mode == ReviewMode::Repair);
        assert_eq!(spec.checks.is_empty(), mode == ReviewMode::Report);
        assert_eq!(spec.empty_diff, EmptyDiff::Accepted, "there may be nothing to fix");
        assert_eq!(spec.bounds.time_limit_ms, Some(60 * 60_000));
        assert_eq!(spec.role.as_deref(), Some("task_review"));
    }
}

#[test]
fn stage_only_shortens_the_time_limit() {
    for (given, has) in [(Some(60_000), 60_000), (Some(7_200_000), 1_800_000), (None, 1_800_000)] {
        let mut spec = triaged_spec();
        spec.bounds.time_limit_ms = given;
        let harness = TestRun::open(spec);
        assert_eq!(harness.session(1).spec.bounds.time_limit_ms, Some(has));
    }
    let mut spec = run_spec();
    spec.bounds.time_limit_ms = Some(5);
    assert_eq!(TestRun::open(spec).session(1).spec.bounds.time_limit_ms, Some(5));
    assert_eq!(TestRun::open(run_spec()).session(1).spec.bounds.time_limit_ms, None);
}

#[test]
fn unattended_run_disables_questions() {
    let spec = RunSpec { questions: false, ..permissive(triaged_spec()) };
    let mut harness = TestRun::open(spec);
    assert!(!harness.session(1).spec.agent.settings.questions);
    harness.finish_session("old", Some(triage_result("limit it")));
    assert!(!harness.session(2).spec.agent.settings.questions);
    let mut spec = triaged_spec();
    spec.agent.settings.questions = false;
    assert!(!TestRun::open(spec).session(1).spec.agent.settings.questions, "nothing is added");
}

#[test]
fn effort_comes_from_config() {
    let mut spec = run_spec();
    spec.agent.settings.effort = Some("high".to_owned());
    let harness = TestRun::open(spec);
    assert_eq!(harness.session(1).spec.agent.settings.effort.as_deref(), Some("high"));
}

#[test]
fn disabled_review_is_not_a_stage() {
    let mut harness = TestRun::open(run_spec());
    harness.finish_work("new").land("new");
    assert_eq!(harness.stages(), [RunStage::Work, RunStage::Land]);
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Off, ReviewMode::Report));
    harness.finish_work("new").finish_review("new", Vec::new()).land("new");
    assert_eq!(harness.stages(), [RunStage::Work, RunStage::FinalReview, RunStage::Land]);
}
