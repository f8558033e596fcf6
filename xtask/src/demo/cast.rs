//! The agents of the demo, and their expected outcomes.

use serde_json::Value;

/// The gate behind which an agent waits before it finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DemoGate {
    First,
    Second,
}

impl DemoGate {
    /// Returns the name of the file for which an agent waits.
    pub(super) fn file(self) -> &'static str {
        match self {
            DemoGate::First => "first-gate",
            DemoGate::Second => "second-gate",
        }
    }
}

/// An agent's behavior and its expected outcome.
pub(super) struct CastMember {
    pub(super) name: &'static str,
    pub(super) story: &'static str,
    pub(super) gate: DemoGate,
    pub(super) script: CastScript,
    state: &'static str,
    cause: Option<&'static str>,
    signal: Option<i32>,
}

/// The source of an agent's scenario.
pub(super) enum CastScript {
    /// A sample of the scripted agent, once the gate is open.
    Sample(&'static str),
    /// A whole turn of the protocol in a worktree, followed by a check.
    Verified,
}

/// The turn of the agent whose work is checked.
pub(super) const VERIFIED: &str = r#"description = "Takes an instruction, edits a file once the gate is open, claims completion."

[[step]]
emit = { type = "ready", thread = "demo-thread" }

[[step]]
wait_input = { type = "instruction" }

[[step]]
emit = { type = "turn_started", turn = "t1" }

[[step]]
emit = { type = "progress", done = 0, total = 1 }

[[step]]
wait_file = "{{gate}}"

[[step]]
write = { path = "GREETING.md", content = "{{input}}\n" }

[[step]]
emit = { type = "progress", done = 1, total = 1 }

[[step]]
emit = { type = "claim", claim = "completed", text = "wrote GREETING.md" }

[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }

[[step]]
exit = 0
"#;

/// The five outcomes of the lifecycle contract, and one that a check verifies. The last one is shown with `--why`.
pub(super) const CAST: &[CastMember] = &[
    CastMember {
        name: "silent",
        story: "will exit with 0 without a report",
        gate: DemoGate::First,
        script: CastScript::Sample("exit0_silent"),
        state: "exited_without_claim",
        cause: None,
        signal: None,
    },
    CastMember {
        name: "crashing",
        story: "will exit with 1 without a report",
        gate: DemoGate::First,
        script: CastScript::Sample("exit1_silent"),
        state: "failed",
        cause: Some("crash"),
        signal: None,
    },
    CastMember {
        name: "finishing",
        story: "will report completed and exit with 0",
        gate: DemoGate::First,
        script: CastScript::Sample("completed_exit0"),
        state: "completed",
        cause: None,
        signal: None,
    },
    CastMember {
        name: "asking",
        story: "will report that it needs input and exit with 0",
        gate: DemoGate::Second,
        script: CastScript::Sample("needs_input_exit0"),
        state: "needs_input",
        cause: None,
        signal: None,
    },
    CastMember {
        name: "proved",
        story: "will edit a file and claim completion, which a check must confirm",
        gate: DemoGate::Second,
        script: CastScript::Verified,
        state: "succeeded",
        cause: None,
        signal: None,
    },
    CastMember {
        name: "killed",
        story: "will report that it is working and be killed by signal 9",
        gate: DemoGate::Second,
        script: CastScript::Sample("working_killed9"),
        state: "failed",
        cause: Some("crash"),
        signal: Some(9),
    },
];

impl CastMember {
    /// Whether a row shows the expected outcome of this part.
    pub(super) fn has_expected_outcome(&self, row: &Value) -> bool {
        let signal = row["exit"]["signal"].as_i64();
        row["state"] == self.state
            && row["cause"].as_str() == self.cause
            && signal == self.signal.map(i64::from)
    }
}

/// Returns a sample scenario whose first step waits for the gate.
pub(super) fn behind_gate(sample: &str) -> String {
    let (head, steps) = sample.split_once("[[step]]").unwrap_or((sample, ""));
    format!("{head}[[step]]\nwait_file = \"{{{{gate}}}}\"\n\n[[step]]{steps}")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use provost_testkit::scenario;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_part_has_a_valid_scenario() {
        let vars = BTreeMap::from([("gate".to_owned(), "g".to_owned())]);
        for part in CAST {
            let text = match part.script {
                CastScript::Sample(name) => behind_gate(scenario::sample(name).unwrap()),
                CastScript::Verified => VERIFIED.to_owned(),
            };
            assert!(text.contains("wait_file"), "{} does not wait", part.name);
            scenario::parse(&text, &vars).unwrap_or_else(|error| panic!("{}: {error}", part.name));
        }
    }

    #[test]
    fn part_matches_state_cause_and_signal() {
        let row = |state: &str, cause: Value, signal: Value| json!({"state": state, "cause": cause, "exit": {"signal": signal}});
        let killed = CAST.last().unwrap();
        assert!(killed.has_expected_outcome(&row("failed", json!("crash"), json!(9))));
        assert!(!killed.has_expected_outcome(&row("failed", json!("crash"), Value::Null)));
        assert!(!killed.has_expected_outcome(&row("failed", json!("timeout"), json!(9))));
        assert!(!killed.has_expected_outcome(&row("disputed", json!("crash"), json!(9))));
    }

    #[test]
    fn six_parts_have_five_states() {
        let states: BTreeSet<&str> = CAST.iter().map(|part| part.state).collect();
        assert_eq!((CAST.len(), states.len()), (6, 5));
    }
}
