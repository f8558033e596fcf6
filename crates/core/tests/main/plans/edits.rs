//! Plan edits, and why they are rejected.

use provost_core::plan::{EditFault, EditRefusal, MAX_EDITS, MAX_TASKS, Plan, PlanEdit, PlanFault};
use serde_json::json;

use super::kit::{diamond, id, ids, plan, task};

fn add(name: &str, after: &[&str]) -> PlanEdit {
    PlanEdit::Add { task: task(name, after) }
}

fn remove(name: &str) -> PlanEdit {
    PlanEdit::Remove { id: id(name) }
}

fn depend(name: &str, on: &str) -> PlanEdit {
    PlanEdit::Depend { id: id(name), on: id(on) }
}

fn release(name: &str, on: &str) -> PlanEdit {
    PlanEdit::Release { id: id(name), on: id(on) }
}

fn title(name: &str, title: &str) -> PlanEdit {
    PlanEdit::Change {
        id: id(name),
        title: Some(title.to_owned()),
        instruction: None,
        criteria: None,
        checks: None,
        scope: None,
    }
}

fn refused(edits: &[PlanEdit]) -> EditFault {
    diamond().apply_edits(edits).expect_err("the edits are refused")
}

#[test]
fn edits_apply_in_order() {
    let edits = [
        add("e", &["d"]),
        release("d", "c"),
        remove("c"),
        depend("e", "a"),
        title("b", "Another title"),
        add("c", &["e"]),
    ];
    let edited = diamond().apply_edits(&edits).unwrap();
    assert_eq!(ids(&edited), ["a", "b", "d", "e", "c"]);
    assert_eq!(edited.get(&id("e")).unwrap().after, [id("d"), id("a")]);
    assert_eq!(edited.get(&id("d")).unwrap().after, [id("b")]);
    let changed = edited.get(&id("b")).unwrap();
    assert_eq!((changed.title.as_str(), changed.instruction.as_str()), ("Another title", "Do b."));
    assert_eq!(diamond().apply_edits(&[]), Ok(diamond()));
}

#[test]
fn change_edits_texts_and_keeps_dependencies() {
    let mut other = task("d", &["b", "c"]);
    other.title = "2".to_owned();
    other.instruction = "3".to_owned();
    other.criteria = Vec::new();
    other.checks = vec!["4".to_owned()];
    other.scope = vec!["5".to_owned()];
    let change = PlanEdit::Change {
        id: id("d"),
        title: Some(other.title.clone()),
        instruction: Some(other.instruction.clone()),
        criteria: Some(other.criteria.clone()),
        checks: Some(other.checks.clone()),
        scope: Some(other.scope.clone()),
    };
    assert_eq!(diamond().apply_edits(&[change]).unwrap().get(&id("d")), Some(&other));
}

#[test]
fn edit_fault_names_edit_and_reason() {
    let cases = [
        vec![remove("x")],
        vec![title("a", "New"), depend("a", "x")],
        vec![depend("x", "a")],
        vec![release("x", "a")],
        vec![add("a", &[])],
        vec![remove("a")],
        vec![depend("d", "b")],
        vec![release("d", "a")],
        vec![title("a", "Title of a")],
        vec![title("a", "")],
        vec![depend("a", "d")],
        vec![depend("a", "a")],
        vec![add("e", &["f"]), add("f", &[])],
        vec![add("e", &["e"])],
    ];
    insta::assert_snapshot!(cases.map(|edits| refused(&edits).to_string()).join("\n"), @r#"
    edit number 1 cannot be applied: there is no task "x": expected the id of a task in the plan
    edit number 2 cannot be applied: there is no task "x": expected the id of a task in the plan
    edit number 1 cannot be applied: there is no task "x": expected the id of a task in the plan
    edit number 1 cannot be applied: there is no task "x": expected the id of a task in the plan
    edit number 1 cannot be applied: task "a" already exists: expected a unique id
    edit number 1 cannot be applied: task "b" depends on "a": release that dependency first
    edit number 1 cannot be applied: task "d" already depends on "b"
    edit number 1 cannot be applied: task "d" does not depend on "a": expected one of its dependencies
    edit number 1 cannot be applied: the edit of task "a" must change at least one field
    edit number 1 cannot be applied: the plan would not be valid:
    - task "a" has an empty text in "title": expected at least one word
    edit number 1 cannot be applied: the plan would not be valid:
    - these tasks depend on each other in a cycle: a -> d -> b -> a: expected no cycle
    edit number 1 cannot be applied: the plan would not be valid:
    - these tasks depend on each other in a cycle: a -> a: expected no cycle
    edit number 1 cannot be applied: the plan would not be valid:
    - task "e" depends on "f", which is not in the plan: expected ids of tasks in the plan
    edit number 1 cannot be applied: the plan would not be valid:
    - these tasks depend on each other in a cycle: e -> e: expected no cycle
    "#);
}

#[test]
fn e1_last_task_cannot_be_removed() {
    let one = plan(&[("a", &[])]);
    let why = EditRefusal::Last { id: id("a") };
    assert_eq!(one.apply_edits(&[remove("a")]), Err(EditFault { no: 1, why }));
    assert_eq!(ids(&one.apply_edits(&[add("b", &[]), remove("a")]).unwrap()), ["b"]);
}

#[test]
fn added_task_is_validated() {
    let mut bad = task("e", &["a", "a"]);
    bad.title = "two\nlines".to_owned();
    let EditRefusal::Faults(faults) = refused(&[PlanEdit::Add { task: bad }]).why else {
        panic!("the faults are listed");
    };
    assert!(matches!(
        &faults[..],
        [PlanFault::NotOneLine { .. }, PlanFault::RepeatedDependency { .. }]
    ));
}

#[test]
fn edits_respect_the_task_limit() {
    let tasks = (0..MAX_TASKS).map(|no| task(&format!("t{no}"), &[])).collect();
    let full = Plan::new(tasks).unwrap();
    let beyond = PlanFault::TooMany { count: MAX_TASKS + 1, most: MAX_TASKS };
    let why = EditRefusal::Faults(vec![beyond]);
    assert_eq!(full.apply_edits(&[add("one-more", &[])]), Err(EditFault { no: 1, why }));
    assert!(full.apply_edits(&[remove("t0"), add("one-more", &[])]).is_ok());
}

#[test]
fn number_of_edits_is_limited() {
    let edits: Vec<_> = (0..=MAX_EDITS).map(|no| add(&format!("t{no}"), &[])).collect();
    assert_eq!(refused(&edits).why, EditRefusal::TooMany { count: MAX_EDITS + 1 });
    assert!(diamond().apply_edits(&edits[..MAX_EDITS]).is_ok());
}

#[test]
fn e2_edit_json_rejects_unknown_fields() {
    let edits = [
        (
            add("e", &[]),
            json!({"op": "add", "task": serde_json::to_value(task("e", &[])).unwrap()}),
        ),
        (remove("a"), json!({"op": "remove", "id": "a"})),
        (title("a", "t"), json!({"op": "change", "id": "a", "title": "t"})),
        (depend("a", "b"), json!({"op": "depend", "id": "a", "on": "b"})),
        (release("a", "b"), json!({"op": "release", "id": "a", "on": "b"})),
    ];
    for (edit, mut stored) in edits {
        assert_eq!(serde_json::to_value(&edit).unwrap(), stored);
        assert_eq!(serde_json::from_value::<PlanEdit>(stored.clone()).unwrap(), edit);
        stored["status"] = "done".into();
        assert!(serde_json::from_value::<PlanEdit>(stored).is_err());
    }
    let inside =
        json!({"op": "add", "task": {"id": "a", "title": "t", "instruction": "i", "done": true}});
    assert!(serde_json::from_value::<PlanEdit>(inside).is_err());
}
