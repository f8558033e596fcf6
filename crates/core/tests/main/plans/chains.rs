//! Which task continues which task's conversation.

use provost_core::plan::{Plan, chained};

use super::kit::{diamond, plan};

fn chains(plan: &Plan) -> Vec<String> {
    chained(plan).iter().map(|(task, before)| format!("{task} after {before}")).collect()
}

#[test]
fn r18_a_chain_is_one_conversation() {
    let chain = plan(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("x", &[])]);
    assert_eq!(chains(&chain), ["b after a", "c after b"]);
}

#[test]
fn a_conversation_goes_on_in_one_task_and_a_join_begins_its_own() {
    assert_eq!(chains(&diamond()), ["b after a"]);
    let given = plan(&[("c", &["a"]), ("a", &[]), ("b", &["a"])]);
    assert_eq!(chains(&given), ["c after a"], "the first in order, not in the alphabet");
}

#[test]
fn a_join_takes_no_conversation_from_those_behind_it() {
    let given = plan(&[("a", &[]), ("b", &[]), ("join", &["a", "b"]), ("later", &["a"])]);
    assert_eq!(chains(&given), ["later after a"]);
}
