//! The audit actor of a team's events: the peer that the socket proved, and the member that it
//! acted as.

use provost_core::task::Actor;

/// Separates the peer from the member. No name that a socket proves contains it.
const AS: &str = " as ";

/// Prefix of the actor of an agent's tool calls. It separates them from commands that the agent
/// typed.
pub(crate) const TOOL: &str = "tool/";

/// Encodes the actor for the ledger.
pub(crate) fn recorded(proved: &str, who: &Actor) -> String {
    match who {
        Actor::Member(name) => format!("{proved}{AS}{name}"),
        Actor::Operator | Actor::Policy | Actor::Provost => proved.to_owned(),
    }
}

/// Splits a recorded actor into the peer and the member that it acted as.
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
