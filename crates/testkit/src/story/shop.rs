//! A complete run that the demo and a test play with real Codex: a spec becomes a plan of seven
//! tasks, and five of them run in parallel. The planner asks one question, one task fails its check
//! at first, two change the same line, and one passes alone but breaks another.

use super::toml_text;

/// The goal of the run.
pub const GOAL: &str = "Build the shop described in the specification.";

/// The file of the specification, and its text.
pub const SPEC: (&str, &str) = (
    "SHOP.md",
    "# A shop\n\nEach part of the shop has a file in `parts/` with its number and its currency. No two parts have the same \
     number. The README lists the parts.\n",
);

/// The initial files of the repository.
pub const FILES: [(&str, &str); 2] = [("README.md", "# Shop\n\nParts:\n"), ("check.sh", CHECK_SH)];

/// The check of every tree. If the tree has the third part and the first, the check waits at a
/// gate, so that other tasks finish in the meantime.
const CHECK_SH: &str = r#"#!/bin/sh
# Each part has a number of its own, and nothing was left in conflict.
gate=$1
if [ -f parts/cart ] && [ -f parts/stock ]; then
  while [ -e "$gate" ]; do sleep 0.05; done
fi
[ -d parts ] || { echo "there are no parts"; exit 1; }
same=$(cat parts/* | grep '^number ' | sort | uniq -d)
[ -z "$same" ] || { echo "two parts have the same: $same"; exit 1; }
if grep -q '^<<<<<<<' README.md; then echo "README.md is in conflict"; exit 1; fi
echo "$(ls parts | wc -l) parts"
"#;

/// The question of the planner, and the answer that every task must receive.
pub const QUESTION: &str = "Which currency does the shop have?";
pub const ANSWER: &str = "EUR";

/// The tasks that run in parallel, each waiting at a hold with its own name.
pub const PARALLEL: [&str; 5] = ["cart", "tax", "stock", "labels", "help"];

/// Returns the check command, with the path of its gate.
pub fn check(gate: &std::path::Path) -> String {
    format!("sh check.sh {}", gate.display())
}

/// Returns the model's scenario. All other parts are real.
pub fn scenario() -> String {
    let tasks = [
        // The cart continues the conversation of the money task, because it is the first of its
        // dependents.
        conversation(
            "money: Money",
            &[
                &work(
                    "mkdir -p parts && printf 'number 1\\ncurrency EUR\\n' > parts/money && echo '- money' >> README.md",
                ),
                &held_work(
                    "cart",
                    "printf 'number 2\\ncurrency USD\\n' > parts/cart && echo '- cart' >> README.md",
                ),
                &work("printf 'number 2\\ncurrency EUR\\n' > parts/cart"),
            ],
        ),
        conversation(
            "tax: Taxes",
            &[
                &held_work(
                    "tax",
                    "printf 'number 3\\ncurrency EUR\\n' > parts/tax && echo '- tax' >> README.md",
                ),
                &work("printf '# Shop\\n\\nParts:\\n- money\\n- cart\\n- tax\\n' > README.md"),
            ],
        ),
        conversation(
            "stock: Stock",
            &[&held_work("stock", "printf 'number 4\\ncurrency EUR\\n' > parts/stock")],
        ),
        conversation(
            "labels: Labels",
            &[
                &held_work("labels", "printf 'number 4\\ncurrency EUR\\n' > parts/labels"),
                &work("printf 'number 5\\ncurrency EUR\\n' > parts/labels"),
            ],
        ),
        conversation(
            "help: Help",
            &[&held_work("help", "printf 'number 6\\ncurrency EUR\\n' > parts/help")],
        ),
        conversation(
            "receipt: Receipt",
            &[&work(
                "printf 'number 7\\ncurrency EUR\\n' > parts/receipt && echo '- receipt' >> README.md",
            )],
        ),
    ];
    [TRIAGE.to_owned(), planner(), REVIEW.to_owned()].into_iter().chain(tasks).collect()
}

const TRIAGE: &str = r#"
[[thread]]
name = "triage"
when = { prompt = "whether it is too large for one task" }
turn = [{ response = [{ items = [{ json = { status = "completed", summary = "read", understanding = "A shop of parts is to be built.", needs_plan = true } }] }] }]
"#;

/// The check that the planner adds itself.
pub const PLANNED_CHECK: &str = "grep -q EUR parts/cart";

const REVIEW: &str = r#"
[[thread]]
name = "plan review"
when = { prompt = "Review the plan below" }
turn = [{ response = [{ items = [{ json = { status = "completed", summary = "looked", verdict = "accept", reason = "The receipt needs the help too.", edits = [{ op = "depend", id = "receipt", on = "help" }] } }] }] }]
"#;

fn planner() -> String {
    let task = |id: &str, title: &str, what: &str, after: &[&str], checks: &[&str]| {
        serde_json::json!({
            "id": id, "title": title, "instruction": what, "after": after,
            "criteria": ["its part has a number of its own"], "checks": checks, "scope": [format!("parts/{id}")],
        })
    };
    let tasks = [
        task("money", "Money", "Write the part for money.", &[], &[]),
        task("cart", "Shopping cart", "Write the cart.", &["money"], &[PLANNED_CHECK]),
        task("tax", "Taxes", "Write the part for taxes.", &["money"], &[]),
        task("stock", "Stock", "Write the part for the stock.", &["money"], &[]),
        task("labels", "Labels", "Write the part for labels.", &["money"], &[]),
        task("help", "Help", "Write the part for help.", &["money"], &[]),
        task("receipt", "Receipt", "Write the receipt.", &["cart", "tax", "stock", "labels"], &[]),
    ];
    let result = serde_json::json!({"status": "completed", "summary": "planned", "tasks": tasks});
    format!(
        r#"
[[thread]]
name = "planner"
when = {{ prompt = "Divide it into tasks" }}
turn = [{{ response = [
  {{ items = [{{ ask = [{{ id = "currency", header = "Currency", question = "{QUESTION}", options = [{{ label = "{ANSWER}", description = "euro" }}, {{ label = "USD", description = "dollar" }}] }}] }}] }},
  {{ items = [{{ message = '{result}' }}] }},
] }}]
"#
    )
}

/// Returns a conversation that starts with this task and has these turns. Provost asks for the
/// result after each turn.
fn conversation(begins: &str, turns: &[&str]) -> String {
    let turn_end = r#"  { response = [{ items = [{ json = { status = "completed", summary = "done" } }] }] },"#;
    let turns: String = turns.iter().map(|turn| format!("{turn}{turn_end}\n")).collect();
    format!("\n[[thread]]\nwhen = {{ prompt = \"{begins}\" }}\nturn = [\n{turns}]\n")
}

fn work(command: &str) -> String {
    let command = toml_text(command);
    format!(
        "  {{ response = [{{ items = [{{ shell = {command} }}] }}, {{ items = [{{ message = \"Done.\" }}] }}] }},\n"
    )
}

/// Returns a turn that writes its files and then blocks at a hold.
fn held_work(door: &str, command: &str) -> String {
    let command = toml_text(command);
    format!(
        "  {{ response = [{{ items = [{{ shell = {command} }}] }}, {{ items = [{{ hold = \"{door}\" }}, {{ message = \"Done.\" }}] }}] }},\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelScenario;

    #[test]
    fn scenario_is_valid_with_a_hold_per_parallel_task() {
        let scenario = scenario();
        ModelScenario::parse(&scenario).unwrap();
        for door in PARALLEL {
            assert!(scenario.contains(&format!("hold = \"{door}\"")), "{door}");
        }
    }
}
