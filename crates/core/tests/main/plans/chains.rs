//! Which task continues which task's conversation.

use provost_core::plan::{Plan, continued_tasks};

use super::kit::{diamond, plan};

fn chains(plan: &Plan) -> Vec<String> {
    continued_tasks(plan).iter().map(|(task, before)| format!("{task} after {before}")).collect()
}

#[test]
fn r18_chain_is_one_conversation() {
    let chain = plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("x", &[])]);
    assert_eq!(chains(&chain), ["b after a", "c after b"]);
}

#[test]
fn fork_continues_once_and_join_starts_new() {
    assert_eq!(chains(&diamond()), ["b after a"]);
    let given = plan(&[("c", &["a"]), ("a", &[]), ("b", &["a"])]);
    assert_eq!(chains(&given), ["c after a"], "the first in order, not in the alphabet");
}

#[test]
fn join_leaves_conversation_to_later_task() {
    let given = plan(&[("a", &[]), ("b", &[]), ("join", &["a", "b"]), ("later", &["a"])]);
    assert_eq!(chains(&given), ["later after a"]);
}
