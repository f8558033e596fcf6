//! The stage table: an agent's permissions in each stage, and that its session gets exactly those.

use provost_core::{
    result::ResultForm,
    run::{Permissions, ReviewMode, RunSpec, Stage},
    session::{Sandbox, Work},
    verdict::EmptyDiff,
};

use super::kit::{RunBench, reviewed, run_spec, triaged, understood};

const MODES: [ReviewMode; 3] = [ReviewMode::Off, ReviewMode::Report, ReviewMode::Repair];

/// May edit, may ask, sandbox, result form, time limit in minutes.
type Row = (bool, bool, Sandbox, ResultForm, Option<u64>);

/// The expected table, written out independently.
fn row(stage: Stage, mode: ReviewMode) -> Option<Row> {
    use ResultForm::{Plain, Plan, PlanReview, Review, Triage};
    use Sandbox::{ReadOnly, WorkspaceWrite};
    match (stage, mode) {
        (Stage::Intake, _) => None,
        (Stage::Triage, _) => Some((false, true, ReadOnly, Triage, Some(30))),
        (Stage::Plan, _) => Some((false, true, ReadOnly, Plan, Some(60))),
        (Stage::PlanReview, ReviewMode::Off) => None,
        (Stage::PlanReview, ReviewMode::Report | ReviewMode::Repair) => {
            Some((false, false, ReadOnly, PlanReview, Some(60)))
        }
        (Stage::Work | Stage::Tasks | Stage::Land, _) => {
            Some((true, true, WorkspaceWrite, Plain, None))
        }
        (Stage::TaskReview | Stage::FinalReview, ReviewMode::Off) => None,
        (Stage::TaskReview | Stage::FinalReview, ReviewMode::Report) => {
            Some((false, false, ReadOnly, Review, Some(60)))
        }
        (Stage::TaskReview | Stage::FinalReview, ReviewMode::Repair) => {
            Some((true, false, WorkspaceWrite, Review, Some(60)))
        }
    }
}

#[test]
fn the_table_of_permissions_is_exhaustive() {
    for stage in Stage::ALL {
        for mode in MODES {
            let told = stage.permissions(mode).map(|permissions| {
                let Permissions { edits, asks, sandbox, effort, .. } = permissions;
                assert_eq!(effort, None, "{stage:?} {mode:?}: the configuration says how hard");
                let minutes = permissions.time_limit_ms.map(|ms| ms / 60_000);
                (edits, asks, sandbox, permissions.result, minutes)
            });
            assert_eq!(told, row(stage, mode), "{stage:?} {mode:?}");
        }
    }
}

#[test]
fn who_may_not_edit_is_in_a_sandbox_that_forbids_it() {
    for (stage, mode) in Stage::ALL.into_iter().flat_map(|s| MODES.map(|m| (s, m))) {
        if let Some(permissions) = stage.permissions(mode) {
            let read_only = permissions.sandbox == Sandbox::ReadOnly;
            assert_eq!(permissions.edits, !read_only, "{stage:?} {mode:?}");
        }
    }
}

#[test]
fn words_of_stages_and_modes_are_those_that_are_stored() {
    let stored = |value: serde_json::Value| value.as_str().map(str::to_owned);
    for stage in Stage::ALL {
        let word = stored(serde_json::to_value(stage).unwrap());
        assert_eq!(word.as_deref(), Some(stage.word()));
    }
    for mode in MODES {
        let word = stored(serde_json::to_value(mode).unwrap());
        assert_eq!(word.as_deref(), Some(mode.word()));
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
fn triage_may_ask_and_change_nothing() {
    let bench = RunBench::open(permissive(triaged()));
    let spec = &bench.session(1).spec;
    let settings = &spec.agent.settings;
    assert_eq!(bench.run.stage, Stage::Triage);
    assert_eq!((settings.sandbox, settings.network), (Sandbox::ReadOnly, false));
    assert!(settings.questions);
    assert_eq!(settings.result, ResultForm::Triage);
    assert!(matches!(&spec.work, Work::Detached { base, .. } if base.0 == "commit-of-old"));
    assert_eq!((spec.checks.len(), spec.setup.as_deref()), (0, None));
    assert_eq!(spec.bounds.time_limit_ms, Some(30 * 60_000));
    assert_eq!(spec.name, "limit-triage");
    assert_eq!(spec.run.map(|of| (of.run, of.stage)), Some((bench.run.id, Stage::Triage)));
}

#[test]
fn work_has_what_the_configuration_gives_and_a_branch_of_its_own() {
    let mut bench = RunBench::open(permissive(triaged()));
    bench.does("old", Some(understood("limit it")));
    let spec = &bench.session(2).spec;
    let settings = &spec.agent.settings;
    assert_eq!((settings.sandbox, settings.network), (Sandbox::FullAccess, true));
    assert_eq!((settings.questions, settings.result), (true, ResultForm::Plain));
    let place = ("/trees/limit/2", "provost/limit-2", "commit-of-old");
    assert!(matches!(
        &spec.work,
        Work::Worktree { path, branch, base: Some(base), top, .. }
            if (path.as_str(), branch.as_str(), base.0.as_str()) == place && top == "/project"
    ));
    assert_eq!(bench.run.worktree(bench.live()), Some((place.0.to_owned(), place.1.to_owned())));
    assert_eq!(
        (spec.checks.as_slice(), spec.setup.as_deref()),
        (&["check".to_owned()][..], Some("make"))
    );
    assert_eq!(spec.empty_diff, EmptyDiff::Refused);
    assert_eq!(spec.cwd, "/project/api");
    assert_eq!(bench.run.worktree(bench.run.id.session(9)), None);
}

#[test]
fn a_report_may_neither_ask_nor_edit_and_a_repair_may_edit() {
    for (mode, sandbox) in
        [(ReviewMode::Report, Sandbox::ReadOnly), (ReviewMode::Repair, Sandbox::FullAccess)]
    {
        let mut bench = RunBench::open(permissive(reviewed(mode, ReviewMode::Off)));
        bench.works("new");
        let spec = &bench.session(2).spec;
        let settings = &spec.agent.settings;
        assert_eq!(bench.run.stage, Stage::TaskReview);
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
fn a_stage_shortens_a_time_limit_and_never_lengthens_it() {
    for (given, has) in [(Some(60_000), 60_000), (Some(7_200_000), 1_800_000), (None, 1_800_000)] {
        let mut spec = triaged();
        spec.bounds.time_limit_ms = given;
        let bench = RunBench::open(spec);
        assert_eq!(bench.session(1).spec.bounds.time_limit_ms, Some(has));
    }
    let mut spec = run_spec();
    spec.bounds.time_limit_ms = Some(5);
    assert_eq!(RunBench::open(spec).session(1).spec.bounds.time_limit_ms, Some(5));
    assert_eq!(RunBench::open(run_spec()).session(1).spec.bounds.time_limit_ms, None);
}

#[test]
fn an_unattended_run_gives_no_means_to_ask() {
    let spec = RunSpec { questions: false, ..permissive(triaged()) };
    let mut bench = RunBench::open(spec);
    assert!(!bench.session(1).spec.agent.settings.questions);
    bench.does("old", Some(understood("limit it")));
    assert!(!bench.session(2).spec.agent.settings.questions);
    let mut spec = triaged();
    spec.agent.settings.questions = false;
    assert!(!RunBench::open(spec).session(1).spec.agent.settings.questions, "nothing is added");
}

#[test]
fn the_effort_is_the_configurations() {
    let mut spec = run_spec();
    spec.agent.settings.effort = Some("high".to_owned());
    let bench = RunBench::open(spec);
    assert_eq!(bench.session(1).spec.agent.settings.effort.as_deref(), Some("high"));
}

#[test]
fn a_review_that_is_off_is_no_stage() {
    let mut bench = RunBench::open(run_spec());
    bench.works("new").landed("new");
    assert_eq!(bench.stages(), [Stage::Work, Stage::Land]);
    let mut bench = RunBench::open(reviewed(ReviewMode::Off, ReviewMode::Report));
    bench.works("new").reviews("new", Vec::new()).landed("new");
    assert_eq!(bench.stages(), [Stage::Work, Stage::FinalReview, Stage::Land]);
}
