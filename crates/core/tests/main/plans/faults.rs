//! Every plan fault and its message.

use provost_core::plan::{
    FaultLocation, MAX_ENTRIES, MAX_ENTRY, MAX_INSTRUCTION, MAX_PLANNED, MAX_REPORTED, MAX_TASKS,
    MAX_TITLE, Plan, PlanFault, format_faults,
};
use serde_json::{Value, json};

use super::kit::{describe_faults, faults, id, task, task_json};

fn with(field: &str, value: impl Into<Value>) -> Value {
    let mut task = task_json("a");
    task[field] = value.into();
    task
}

fn without(field: &str) -> Value {
    let mut task = task_json("a");
    task.as_object_mut().expect("it is an object").remove(field);
    task
}

#[test]
fn e1_empty_plan_is_rejected() {
    assert_eq!(faults(&json!({"tasks": []})), [PlanFault::Empty]);
    assert_eq!(Plan::new(Vec::new()), Err(vec![PlanFault::Empty]));
    let stored = serde_json::from_value::<Plan>(json!({"tasks": []})).unwrap_err();
    assert!(stored.to_string().contains("the plan has no tasks: expected at least one"));
    assert_eq!(describe_faults(&[json!({})]).len(), 3, "id, title and instruction are missed");
}

#[test]
fn e2_plan_rejects_status_fields() {
    for field in ["status", "state", "done", "attempts", "started_at", "outcome", "Title"] {
        let task = faults(&json!({"tasks": [with(field, "done")]}));
        let place = FaultLocation::Task(id("a"));
        assert!(
            matches!(&task[..], [PlanFault::ForeignField { place: at, field: name, .. }] if *at == place && name == field),
            "{task:?}"
        );
        let plan = faults(&json!({"tasks": [task_json("a")], field: true}));
        assert!(
            matches!(&plan[..], [PlanFault::ForeignField { place: FaultLocation::Plan, .. }]),
            "{plan:?}"
        );
    }
    insta::assert_snapshot!(describe_faults(&[with("status", "done")])[0], @r#"task "a" has an unknown field "status": expected only id, title, instruction, after, criteria, checks and scope"#);
}

#[test]
fn duplicate_id_is_rejected() {
    assert_eq!(
        faults(&json!({"tasks": [task_json("a"), task_json("b"), task_json("a"), task_json("a")]})),
        [PlanFault::Duplicate { id: id("a"), count: 3 }]
    );
    insta::assert_snapshot!(describe_faults(&[task_json("a"), task_json("a")])[0], @r#"2 tasks have the id "a": expected a unique id for each task"#);
}

#[test]
fn unknown_dependency_is_rejected() {
    insta::assert_snapshot!(describe_faults(&[with("after", json!(["b"]))])[0], @r#"task "a" depends on "b", which is not in the plan: expected ids of tasks in the plan"#);
}

#[test]
fn repeated_dependency_is_rejected() {
    assert_eq!(
        Plan::new(vec![task("a", &[]), task("b", &["a", "a"])]),
        Err(vec![PlanFault::RepeatedDependency { task: id("b"), on: id("a") }])
    );
}

#[test]
fn cycle_is_rejected_with_its_path() {
    let of = |tasks: &[(&str, &[&str])]| {
        let tasks = tasks.iter().map(|(name, after)| task(name, after)).collect();
        format_faults(&Plan::new(tasks).unwrap_err())
    };
    insta::assert_snapshot!(of(&[("a", &["a"])]), @"- these tasks depend on each other in a cycle: a -> a: expected no cycle");
    insta::assert_snapshot!(of(&[("a", &["b"]), ("b", &["a"])]), @"- these tasks depend on each other in a cycle: a -> b -> a: expected no cycle");
    insta::assert_snapshot!(of(&[("z", &["y"]), ("a", &["c"]), ("b", &["a"]), ("c", &["b"]), ("x", &["y"]), ("y", &["x"])]), @r"
    - these tasks depend on each other in a cycle: y -> x -> y: expected no cycle
    - these tasks depend on each other in a cycle: a -> c -> b -> a: expected no cycle
    ");
}

#[test]
fn long_cycle_is_abbreviated() {
    let name = |no: usize| format!("t{no}");
    let tasks = (0..MAX_TASKS).map(|no| task(&name(no), &[&name((no + 1) % MAX_TASKS)])).collect();
    insta::assert_snapshot!(format_faults(&Plan::new(tasks).unwrap_err()), @"- these tasks depend on each other in a cycle: t0 -> t1 -> t2 -> t3 -> t4 -> t5 -> (9989 more) -> t9995 -> t9996 -> t9997 -> t9998 -> t9999 -> t0: expected no cycle");
}

#[test]
fn too_many_tasks_are_rejected() {
    let name = |no: usize| format!("t{no}");
    let tasks = |count: usize| (0..count).map(|no| task(&name(no), &[])).collect::<Vec<_>>();
    assert_eq!(
        Plan::new(tasks(MAX_TASKS + 1)),
        Err(vec![PlanFault::TooMany { count: MAX_TASKS + 1, most: MAX_TASKS }])
    );
    let planned = serde_json::to_value(Plan::new(tasks(MAX_PLANNED + 1)).unwrap()).unwrap();
    let beyond = PlanFault::TooMany { count: MAX_PLANNED + 1, most: MAX_PLANNED };
    assert_eq!(Plan::parse_within(&planned, MAX_PLANNED), Err(vec![beyond.clone()]));
    let read = Plan::parse(&planned).unwrap();
    assert_eq!(read.clone().limit_tasks(MAX_PLANNED), Err(beyond));
    assert_eq!(read.clone().limit_tasks(MAX_PLANNED + 1), Ok(read));
}

#[test]
fn invalid_id_is_rejected() {
    let long = "x".repeat(41);
    for bad in ["", "-a", "A", "a b", "a/b", "a.b", "ä", "a\n", &long] {
        assert!(bad.parse::<provost_core::plan::TaskId>().is_err(), "{bad:?}");
        let described = describe_faults(&[with("id", bad)]);
        assert!(described[0].starts_with("task number 1, in \"id\": "), "{described:?}");
    }
    for good in ["a", "0", "a-", "0-b-1", &long[..40]] {
        assert_eq!(id(good).as_str(), good);
    }
    insta::assert_snapshot!(describe_faults(&[with("after", json!(["Größe\u{1b}"]))])[0], @r#"task "a", in "after": "Größe\u{1b}" is not a valid task id: expected 1 to 40 of a-z, 0-9 and "-", starting with a letter or digit"#);
    let flood = describe_faults(&[with("id", "x".repeat(100_000))]);
    assert!(flood[0].len() < 300, "no more of it is repeated than shows which one it is");
}

#[test]
fn missing_or_mistyped_fields_are_rejected() {
    insta::assert_snapshot!([
        without("id"),
        without("title"),
        without("instruction"),
        with("title", 3),
        with("instruction", Value::Null),
        with("after", "b"),
        with("checks", json!(["a", 1, {}])),
        json!("write a parser"),
    ].map(|task| describe_faults(&[task]).join(" | ")).join("\n"), @r#"
    task number 1 has no "id": expected a text
    task "a" has no "title": expected a text
    task "a" has no "instruction": expected a text
    task "a" has a number for "title": expected a text
    task "a" has null for "instruction": expected a text
    task "a" has a text for "after": expected ids of tasks
    task "a" has a list with a number in it for "checks": expected a list of texts
    task number 1 is a text: expected an object
    "#);
    insta::assert_snapshot!([json!([]), json!({}), json!({"tasks": {}}), Value::Null]
        .map(|value| format_faults(&faults(&value))).join("\n"), @r#"
    - the plan is a list: expected an object
    - the plan has no "tasks": expected a list of tasks
    - the plan has an object for "tasks": expected a list of tasks
    - the plan is null: expected an object
    "#);
}

#[test]
fn empty_or_oversized_texts_are_rejected() {
    let long = |most: usize| "ü".repeat(most + 1);
    insta::assert_snapshot!([
        with("title", " "),
        with("instruction", "\n"),
        with("criteria", json!([""])),
        with("title", long(MAX_TITLE)),
        with("instruction", long(MAX_INSTRUCTION)),
        with("checks", json!([long(MAX_ENTRY)])),
        with("scope", vec!["src"; MAX_ENTRIES + 1]),
        with("title", "two\nlines"),
        with("checks", json!(["a\0b"])),
    ].map(|task| describe_faults(&[task]).join(" | ")).join("\n"), @r#"
    task "a" has an empty text in "title": expected at least one word
    task "a" has an empty text in "instruction": expected at least one word
    task "a" has an empty text in "criteria": expected at least one word
    task "a" has 201 characters in "title": expected at most 200
    task "a" has 32769 characters in "instruction": expected at most 32768
    task "a" has 4097 characters in "checks": expected at most 4096
    task "a" has 101 entries in "scope": expected at most 100
    task "a" has line ends or control characters in "title": expected one line
    task "a" has a NUL character in "checks": expected text
    "#);
    let mut full = with("title", "ü".repeat(MAX_TITLE));
    full["criteria"] = vec!["x"; MAX_ENTRIES].into();
    full["checks"] = json!(["x".repeat(MAX_ENTRY)]);
    full["instruction"] = "x".repeat(MAX_INSTRUCTION).into();
    assert!(Plan::parse(&json!({"tasks": [full]})).is_ok(), "characters count, not bytes");
}

/// `Plan::parse` and `Plan::new` apply the same rules.
#[test]
fn new_and_parse_report_the_same_faults() {
    let spoils: [fn(&mut provost_core::plan::PlanTask); 6] = [
        |task| task.title.clear(),
        |task| task.title = "a\u{7}".to_owned(),
        |task| task.instruction = "x".repeat(MAX_INSTRUCTION + 1),
        |task| task.criteria = vec!["x".to_owned(); MAX_ENTRIES + 1],
        |task| task.checks = vec!["\0".to_owned()],
        |task| task.scope = vec![String::new()],
    ];
    for spoil in spoils {
        let mut bad = task("a", &[]);
        spoil(&mut bad);
        let read = faults(&json!({"tasks": [serde_json::to_value(&bad).unwrap()]}));
        assert!(!read.is_empty());
        assert_eq!(Plan::new(vec![bad]), Err(read));
    }
}

#[test]
fn all_faults_are_reported_at_once() {
    let mut second = with("title", "");
    second["id"] = "b".into();
    second["after"] = json!(["c", "d", "b"]);
    second["done"] = true.into();
    let mut third = without("instruction");
    third["id"] = "c".into();
    insta::assert_snapshot!(format_faults(&faults(&json!({"tasks": [task_json("a"), second, third, task_json("a")], "version": 1}))), @r#"
    - the plan has an unknown field "version": expected only tasks
    - task "b" has an unknown field "done": expected only id, title, instruction, after, criteria, checks and scope
    - task "b" has an empty text in "title": expected at least one word
    - task "c" has no "instruction": expected a text
    - 2 tasks have the id "a": expected a unique id for each task
    - task "b" depends on "d", which is not in the plan: expected ids of tasks in the plan
    - these tasks depend on each other in a cycle: b -> b: expected no cycle
    "#);
}

#[test]
fn reported_faults_are_capped() {
    let faults = faults(&json!({"tasks": vec![json!(1); MAX_REPORTED + 2]}));
    assert_eq!(faults.len(), MAX_REPORTED + 2);
    let report = format_faults(&faults);
    assert_eq!(report.lines().count(), MAX_REPORTED + 1);
    assert!(report.ends_with("- and 2 more"), "{report}");
}

/// The location helps the author of the plan to find the fault.
#[test]
fn fault_names_its_location() {
    let mut second = with("after", json!(["c", "d", "b", "c"]));
    second["id"] = "b".into();
    let place = |value: &Value| -> Vec<FaultLocation> {
        faults(value).iter().map(PlanFault::location).collect()
    };
    let b = || FaultLocation::Task(id("b"));
    assert_eq!(
        place(&json!({"tasks": [task_json("c"), second, task_json("b"), json!(1)]})),
        [FaultLocation::Numbered(4), b(), b(), b(), b()],
        "no object, two of one id, an unknown one, one that is named twice, a cycle"
    );
    assert_eq!(place(&json!({"tasks": []})), [FaultLocation::Plan]);
    let a = || FaultLocation::Task(id("a"));
    for task in [with("done", 1), with("after", json!(["B"])), without("title"), with("scope", 1)] {
        assert_eq!(place(&json!({"tasks": [task]})), [a()]);
    }
    let long = "x".repeat(MAX_TITLE + 1);
    for title in ["", &long, "a\nb"] {
        assert_eq!(place(&json!({"tasks": [with("title", title)]})), [a()]);
    }
    assert_eq!(place(&json!({"tasks": [with("checks", json!(["\0"]))]})), [a()]);
    assert_eq!(place(&json!({"tasks": [with("checks", vec!["x"; MAX_ENTRIES + 1])]})), [a()]);
}
