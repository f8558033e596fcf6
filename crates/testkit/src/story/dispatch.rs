//! A complete team that the demo and a test play with real Codex: a manager, two workers and a loop
//! of three iterations. One worker proposes a criterion. The other is killed in the middle of the
//! second iteration and resumes. The manager requests the third iteration without evidence, and is
//! refused. An assertion in place of a receipt is refused as well. The team cannot finish while a
//! criterion is open, and finishes when it is verified.
//!
//! The manager reacts to messages of members and of Provost's checks in any order: each of its
//! turns matches one of these messages, and it answers any other message by waiting.

/// The goal and the name of the team.
pub const GOAL: &str = "Write down in limits.txt how often each caller may call.";
pub const NAME: &str = "limits";

/// The members: the worker that does the work, the other worker, and the manager.
pub const HAND: &str = "hand";
pub const MATE: &str = "mate";
pub const BOSS: &str = "boss";

/// The initial files of the repository.
pub const FILES: [(&str, &str); 1] = [("check.sh", CHECK_SH)];

const CHECK_SH: &str = r#"#!/bin/sh
# Each line names a caller and its limit.
[ -s limits.txt ] || { echo "there are no limits"; exit 1; }
if grep -v -E '^[a-z]+ [0-9]+$' limits.txt; then echo "that is not a limit"; exit 1; fi
echo "$(wc -l < limits.txt) limits"
"#;

/// The command that verifies each iteration.
pub const CHECK: &str = "sh check.sh";

/// The criterion that the second worker proposes, and the command that verifies it.
pub const CRITERION: &str = "Callers that are not named have a limit too.";
pub const PROOF: &str = "grep -q '^anyone ' limits.txt";

/// The hold of the first worker in the middle of the second iteration, with half of a line written.
pub const HALF_WAY: &str = "half-way";

/// The hold of the manager after the third iteration was refused.
pub const AT_THE_GATE: &str = "at the gate";

/// The number of refused tool calls of each member. The manager's are an assertion for a criterion
/// with a command, the third iteration without evidence, and the first finish. The first worker's
/// is an assertion about the tests.
pub const REFUSED: [(&str, usize); 3] = [(BOSS, 3), (HAND, 1), (MATE, 0)];

/// Returns the arguments of the command that opens the team.
pub fn start_args() -> Vec<String> {
    let agent = |name: &str| format!("{name}=codex");
    let mut words = vec!["team".to_owned(), "start".to_owned(), GOAL.to_owned()];
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    flag("--name", NAME.to_owned());
    flag("--worker", agent(HAND));
    flag("--worker", agent(MATE));
    flag("--manager", agent(BOSS));
    flag("--require", format!("tests=verified:{CHECK}"));
    flag("--require", "report=artifact:changed_files,next_task".to_owned());
    flag("--max-iterations", "3".to_owned());
    words
}

/// Returns the model's scenario. All other parts are real.
pub fn scenario() -> String {
    let proposed = format!(
        r#"{{ text = {}, rationale = "otherwise, other callers would have no limit", check = {} }}"#,
        super::toml_text(CRITERION),
        super::toml_text(PROOF)
    );
    [MANAGER, WORKER, &OTHER.replace("PROPOSED", &proposed)].concat()
}

const MANAGER: &str = r#"
[[thread]]
name = "manager"
when = { prompt = "You are boss, the manager of" }
turn = [
  { when = "You are boss", response = [
    { items = [{ tool = "provost_team_status", args = {} }] },
    { items = [{ tool = "provost_team_acknowledge", args = { revision = 0 } }] },
    { items = [{ tool = "provost_team_send", args = { to = "mate", kind = "instruction", text = "Propose what else has to hold." } }] },
    { items = [{ tool = "provost_team_send", args = { to = "hand", kind = "instruction", text = "Begin with alice." } }] },
    { items = [{ message = "I wait for both." }] },
  ] },
  { when = "mate has a proposal", response = [
    { items = [{ tool = "provost_team_judge_criterion", args = { criterion = 1, judgement = "accept" } }] },
    { items = [{ tool = "provost_team_judge_criterion", args = { criterion = 1, judgement = "satisfy", because = "mate says that it will hold" } }] },
    { items = [{ message = "A claim is not enough, because the criterion has a command." }] },
  ] },
  { when = "alice has a limit", response = [
    { items = [{ tool = "provost_team_check", args = { evidence = "tests" } }] },
    { items = [{ message = "I wait for the receipt." }] },
  ] },
  { when = "for tests of iteration 1", response = [
    { items = [{ tool = "provost_team_continue", args = { iteration = 2, to = "hand", text = "Now bob." } }] },
    { items = [{ message = "I wait for bob." }] },
  ] },
  { when = "bob has a limit", response = [
    { items = [{ tool = "provost_team_continue", args = { iteration = 3, to = "hand", text = "Without proof." } }] },
    { items = [{ hold = "at the gate" }, { tool = "provost_team_check", args = { evidence = "tests" } }] },
    { items = [{ message = "It was refused, so I request the tests." }] },
  ] },
  { when = "for tests of iteration 2", response = [
    { items = [{ tool = "provost_team_continue", args = { iteration = 3, to = "hand", text = "Now the others." } }] },
    { items = [{ message = "I wait for the others." }] },
  ] },
  { when = "everybody has a limit", response = [
    { items = [{ tool = "provost_team_check", args = { evidence = "tests" } }] },
    { items = [{ message = "I wait for the last receipt." }] },
  ] },
  { when = "for tests of iteration 3", response = [
    { items = [{ tool = "provost_team_finish", args = { because = "three iterations are proved" } }] },
    { items = [{ tool = "provost_team_check", args = { criterion = 1 } }] },
    { items = [{ message = "The criterion is still open, so I request its check." }] },
  ] },
  { when = "for criterion 1", response = [
    { items = [{ tool = "provost_team_move", args = { kind = "stop", because = "nothing is open anymore" } }] },
    { items = [{ tool = "provost_team_finish", args = { because = "all of it is proved" } }] },
    { items = [{ message = "It is being audited." }] },
  ] },
  { repeat = "forever", response = [{ items = [{ message = "I wait." }] }] },
]
"#;

const WORKER: &str = r#"
[[thread]]
name = "worker"
when = { prompt = "You are hand, a worker of" }
turn = [
  { response = [{ items = [{ message = "Ready." }] }] },
  { when = "Begin with alice.", response = [
    { items = [{ shell = "echo 'alice 10' > limits.txt" }] },
    { items = [{ tool = "provost_team_show_evidence", args = { iteration = 1, name = "report", fields = { changed_files = "limits.txt", next_task = "bob" } } }] },
    { items = [{ tool = "provost_team_send", args = { to = "boss", kind = "report", text = "alice has a limit" } }] },
    { items = [{ message = "Done." }] },
  ] },
  { when = "Now bob.", response = [
    { items = [{ shell = "echo bob >> limits.txt" }] },
    { items = [{ hold = "half-way" }, { message = "never said" }] },
  ] },
  { when = "Your process ended in the middle of your work", response = [
    { items = [{ shell = "printf 'alice 10\\nbob 20\\n' > limits.txt" }] },
    { items = [{ tool = "provost_team_show_evidence", args = { iteration = 2, name = "tests", text = "they pass: I have run them twice" } }] },
    { items = [{ tool = "provost_team_show_evidence", args = { iteration = 2, name = "report", fields = { changed_files = "limits.txt", next_task = "the others" } } }] },
    { items = [{ tool = "provost_team_send", args = { to = "boss", kind = "report", text = "bob has a limit" } }] },
    { items = [{ message = "Done, though I was killed." }] },
  ] },
  { when = "Now the others.", response = [
    { items = [{ shell = "echo 'anyone 5' >> limits.txt" }] },
    { items = [{ tool = "provost_team_show_evidence", args = { iteration = 3, name = "report", fields = { changed_files = "limits.txt", next_task = "none" } } }] },
    { items = [{ tool = "provost_team_send", args = { to = "boss", kind = "report", text = "everybody has a limit" } }] },
    { items = [{ message = "Done." }] },
  ] },
]
"#;

const OTHER: &str = r#"
[[thread]]
name = "other worker"
when = { prompt = "You are mate, a worker of" }
turn = [
  { response = [{ items = [{ message = "Ready." }] }] },
  { when = "Propose what else", response = [
    { items = [{ tool = "provost_team_propose_criterion", args = PROPOSED }] },
    { items = [{ tool = "provost_team_send", args = { to = "boss", kind = "report", text = "mate has a proposal" } }] },
    { items = [{ message = "Proposed." }] },
  ] },
]
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelScenario;

    #[test]
    fn scenario_is_valid_with_holds_and_criterion() {
        let scenario = scenario();
        ModelScenario::parse(&scenario).unwrap();
        for part in [HALF_WAY, AT_THE_GATE, CRITERION, PROOF] {
            assert!(scenario.contains(part), "{part}");
        }
    }
}
