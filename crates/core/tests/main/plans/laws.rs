//! Property tests of plans over random graphs.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use provost_core::plan::{Plan, PlanEdit, PlanFault, PlanTask, TaskId, continued_tasks};

use super::kit::{id, task};

fn name(no: usize) -> String {
    format!("t{no}")
}

/// Tasks that depend on some lower-numbered ones, in random order.
fn tasks() -> impl Strategy<Value = Vec<PlanTask>> {
    let before = |no: usize| proptest::collection::btree_set(0..no.max(1), 0..=no.min(4));
    let graph = (1usize..30).prop_flat_map(move |count| (0..count).map(before).collect::<Vec<_>>());
    let tasks = graph.prop_map(|graph| {
        let tasks = graph.iter().enumerate().map(|(no, before)| {
            let after: Vec<String> =
                before.iter().filter(|on| **on < no).map(|on| name(*on)).collect();
            task(&name(no), &after.iter().map(String::as_str).collect::<Vec<_>>())
        });
        tasks.collect::<Vec<_>>()
    });
    tasks.prop_shuffle()
}

fn texts() -> impl Strategy<Value = String> {
    "[^\\pC]{0,20}[a-z][^\\pC]{0,20}"
}

/// Edits of tasks that may or may not exist.
fn edits() -> impl Strategy<Value = Vec<PlanEdit>> {
    let ids = || (0usize..35).prop_map(|no| id(&name(no)));
    let links = || (ids(), ids());
    let edit = prop_oneof![
        (links(), ids()).prop_map(|((new, on), other)| {
            PlanEdit::Add { task: task(new.as_str(), &[on.as_str(), other.as_str()]) }
        }),
        ids().prop_map(|id| PlanEdit::Remove { id }),
        (ids(), ".{0,3}").prop_map(|(id, title)| PlanEdit::Change {
            id,
            title: Some(title),
            instruction: None,
            criteria: None,
            checks: None,
            scope: None,
        }),
        links().prop_map(|(id, on)| PlanEdit::Depend { id, on }),
        links().prop_map(|(id, on)| PlanEdit::Release { id, on }),
    ];
    proptest::collection::vec(edit, 0..40)
}

/// Returns the direct and indirect dependencies of a task.
fn transitive_dependencies(plan: &Plan, start: &TaskId) -> BTreeSet<TaskId> {
    let (mut found, mut open) = (BTreeSet::new(), vec![start.clone()]);
    while let Some(id) = open.pop() {
        let fresh = plan
            .get(&id)
            .expect("it is there")
            .after
            .iter()
            .filter(|on| found.insert((*on).clone()));
        open.extend(fresh.cloned());
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plan_round_trips_through_json(mut tasks in tasks(), text in texts()) {
        let text_of = |task: &mut PlanTask| {
            task.title.clone_from(&text);
            task.checks.push(text.clone());
        };
        tasks.iter_mut().for_each(text_of);
        let plan = Plan::new(tasks).unwrap();
        let written = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Plan>(&written).unwrap(), &plan);
        prop_assert_eq!(Plan::parse(&serde_json::from_str(&written).unwrap()).unwrap(), plan);
    }

    #[test]
    fn tasks_are_in_stable_topological_order(tasks in tasks()) {
        let given: BTreeMap<TaskId, usize> =
            tasks.iter().enumerate().map(|(at, task)| (task.id.clone(), at)).collect();
        let plan = Plan::new(tasks).unwrap();
        prop_assert_eq!(plan.tasks().len(), given.len());
        let mut seen = BTreeSet::new();
        for task in plan.tasks() {
            prop_assert!(task.after.iter().all(|on| seen.contains(on)), "{} is too early", task.id);
            // No ready task that was given earlier comes after it.
            let free = plan.tasks().iter().filter(|other| {
                !seen.contains(&other.id) && other.after.iter().all(|on| seen.contains(on))
            });
            let first = free.min_by_key(|other| given[&other.id]).unwrap();
            prop_assert_eq!(&first.id, &task.id);
            seen.insert(task.id.clone());
        }
    }

    #[test]
    fn back_edge_is_reported_as_cycle(
        tasks in tasks(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(),
    ) {
        let plan = Plan::new(tasks).unwrap();
        let last = from.get(plan.tasks()).id.clone();
        let mut reached: Vec<TaskId> = transitive_dependencies(&plan, &last).into_iter().collect();
        reached.push(last.clone());
        let first = to.get(&reached).clone();
        let mut tasks = plan.tasks().to_vec();
        let spoilt = tasks.iter_mut().find(|task| task.id == first).unwrap();
        spoilt.after.push(last.clone());
        let afters: BTreeMap<TaskId, Vec<TaskId>> =
            tasks.iter().map(|task| (task.id.clone(), task.after.clone())).collect();
        let faults = Plan::new(tasks).unwrap_err();
        let [PlanFault::Cycle { path }] = &faults[..] else { panic!("{faults:?}") };
        prop_assert_eq!(path.first(), path.last());
        prop_assert!(path.windows(2).all(|pair| afters[&pair[0]].contains(&pair[1])));
        let edge = [first.clone(), last.clone()];
        prop_assert!(path.windows(2).any(|pair| pair == edge), "the edge back is in it");
        let edit = PlanEdit::Depend { id: first, on: last };
        prop_assert!(plan.apply_edits(&[edit]).is_err());
    }

    #[test]
    fn edits_keep_the_plan_valid_or_fail(tasks in tasks(), edits in edits()) {
        let mut plan = Plan::new(tasks).unwrap();
        let whole = plan.apply_edits(&edits);
        let mut refused = None;
        for (at, edit) in edits.iter().enumerate() {
            match plan.apply_edits(std::slice::from_ref(edit)) {
                Ok(edited) => {
                    let again = Plan::new(edited.tasks().to_vec());
                    prop_assert_eq!(again.as_ref(), Ok(&edited));
                    prop_assert_ne!(&edited, &plan);
                    plan = edited;
                }
                Err(_) if refused.is_none() => refused = Some(at + 1),
                Err(_) => {}
            }
        }
        prop_assert_eq!(whole.err().map(|fault| fault.no), refused);
    }

    #[test]
    fn each_conversation_continues_in_one_task(tasks in tasks()) {
        let plan = Plan::new(tasks).unwrap();
        let chains = continued_tasks(&plan);
        let before: BTreeSet<&TaskId> = chains.values().collect();
        prop_assert_eq!(before.len(), chains.len());
        for task in plan.tasks() {
            let [only] = &task.after[..] else {
                prop_assert!(!chains.contains_key(&task.id));
                continue;
            };
            // If a task does not continue its only dependency's conversation, another task does.
            prop_assert!(before.contains(only));
            prop_assert!(chains.get(&task.id).is_none_or(|before| before == only));
        }
    }
}
