//! Who changed a task, as the ledger has it: who asked, as the socket proved it, and the member that this one was then.

use provost_core::task::Actor;

/// What stands between the two. Nothing that a socket proves has it in its name.
const AS: &str = " as ";

/// What the calls of an agent's tools are recorded by, so that they are told from commands that it typed.
pub(crate) const TOOL: &str = "tool/";

/// Gives what is recorded of who changes a task.
pub(crate) fn recorded(proved: &str, who: &Actor) -> String {
    match who {
        Actor::Member(name) => format!("{proved}{AS}{name}"),
        Actor::Operator | Actor::Policy | Actor::Provost => proved.to_owned(),
    }
}

/// Takes apart what was recorded: who asked, and the member that this one acted as.
pub(crate) fn parts(recorded: &str) -> (&str, Option<&str>) {
    match recorded.split_once(AS) {
        Some((proved, member)) => (proved, Some(member)),
        None => (recorded, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_and_whom_for_are_both_kept() {
        let member = |name: &str| Actor::Member(name.to_owned());
        for (proved, who, text) in [
            ("operator", Actor::Operator, "operator"),
            ("operator", member("boss"), "operator as boss"),
            ("launch/7#1", member("as as as"), "launch/7#1 as as as as"),
        ] {
            assert_eq!(recorded(proved, &who), text);
            let name = matches!(who, Actor::Member(_)).then(|| who.name());
            assert_eq!(parts(text), (proved, name));
        }
    }
}
