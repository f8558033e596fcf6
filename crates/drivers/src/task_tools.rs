//! The tools by which a member of a task acts on it: what each role is offered, and how a call is read.
//!
//! What a role is not offered it may still call by another way; the task's rules refuse it there.

use provost_core::{
    session::Membership,
    task::{Call, JudgementKind, Role, SentKind},
};
use serde_json::{Value, json};

use crate::tools::{Tool, tool};

/// Under this the names of all of them begin.
const PREFIX: &str = "provost_task_";

/// So many bytes may the arguments of a call have.
const MAX_ARGUMENTS: usize = 96 << 10;

const MANAGES: &str = "You manage a task that Provost, a supervisor, keeps: others work on it, and what happens to them comes to you by \
     itself. Call provost_task_look before you act, and act by the provost_task_ tools; each is decided by the task's \
     rules, and a refusal says why. Between messages end your turn and wait.";

const WORKS: &str = " You work for a task with a manager: provost_task_look shows how it stands, and messages of the task come to you by \
     themselves, one after the other.";

/// Gives what a member is told besides the rest, or instead of it.
pub(crate) fn instructions(member: Membership, told: &str) -> String {
    match member.role {
        Role::Manager => MANAGES.to_owned(),
        Role::Worker | Role::Reviewer => format!("{told}{WORKS}"),
    }
}

/// Gives the tools of a member.
pub(crate) fn offered(member: Membership) -> Vec<Tool> {
    let manager = [judge, carry_on, stop_loop, interrupt, compact, record_move, epilogue, finish];
    let everybody = [look, send, ask_user, propose, check, show, acknowledge];
    let mut tools: Vec<Tool> = everybody.iter().map(|tool| tool()).collect();
    match member.role {
        Role::Manager => tools.extend(manager.iter().map(|tool| tool())),
        Role::Worker => {}
        // Where somebody reviews, only that one says that the work was reviewed.
        Role::Reviewer => {
            tools.retain(|tool| tool.name != ask_user().name);
            tools.push(epilogue());
        }
    }
    tools
}

/// Reads a call; none if it is of no tool of a task. Otherwise says what was expected.
pub(crate) fn call(tool: &str, arguments: &Value) -> Option<Result<Call, String>> {
    let known = ALL.iter().map(|tool| tool()).find(|known| known.name == tool)?;
    let name = tool.strip_prefix(PREFIX)?;
    let size = arguments.to_string().len();
    if size > MAX_ARGUMENTS {
        return Some(Err(format!(
            "{tool} was given {size} bytes; at most {MAX_ARGUMENTS} are taken"
        )));
    }
    // A call without arguments may come with none at all.
    let given = if arguments.is_null() { json!({}) } else { arguments.clone() };
    let read = serde_json::from_value::<Call>(json!({ name: given }));
    let checked = read.map_err(|why| why.to_string()).and_then(|call| {
        // Which member calls, and under which key, changes nothing about what is said.
        call.command("", "").map_err(|why| why.to_string())?;
        Ok(call)
    });
    Some(checked.map_err(|why| format!("{tool} expects {}: {why}", expected(&known.schema))))
}

const ALL: [fn() -> Tool; 15] = [
    look,
    send,
    ask_user,
    propose,
    check,
    show,
    acknowledge,
    judge,
    carry_on,
    stop_loop,
    interrupt,
    compact,
    record_move,
    epilogue,
    finish,
];

/// Gives the names of a schema's fields; those that may be left out have a question mark.
fn expected(schema: &Value) -> String {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().into_iter().flatten();
    let named = fields.map(|(name, _)| match required.contains(&json!(name)) {
        true => name.clone(),
        false => format!("{name}?"),
    });
    format!("{{{}}}", named.collect::<Vec<_>>().join(", "))
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn number(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

fn look() -> Tool {
    tool(
        "provost_task_look",
        "See how the task stands: its goal and contract, the members and what they do, open criteria, the loop, your \
         messages, what keeps it from being finished, and what to do next.",
        json!({}),
        &[],
    )
}

fn send() -> Tool {
    tool(
        "provost_task_send",
        "Send a message to a member of the task. It is delivered when they are at rest.",
        json!({
            "to": text("The member's name."),
            "text": text("What they are told."),
            "kind": {"type": "string", "enum": SentKind::WORDS, "description": "Only a manager instructs."},
            "key": text("Sent twice under one key it is one message."),
            "correlation": text("What belongs together."),
            "steer": {"type": "boolean", "description": "Deliver it also in the middle of a turn."},
        }),
        &["to", "text"],
    )
}

fn ask_user() -> Tool {
    tool(
        "provost_task_ask_user",
        "Ask the person who started the task. Nothing waits for it: the answer comes as a message.",
        json!({"text": text("The question."), "key": text("Asked twice under one key it is asked once.")}),
        &["text"],
    )
}

fn propose() -> Tool {
    tool(
        "provost_task_propose_criterion",
        "Propose something that has to hold before the task is done.",
        json!({
            "text": text("What has to hold."),
            "rationale": text("Why."),
            "check": text("The command that proves it, which Provost runs; without one somebody's word is needed."),
        }),
        &["text"],
    )
}

fn judge() -> Tool {
    tool(
        "provost_task_judge_criterion",
        "Accept a criterion, satisfy it with evidence, defer, reject or reopen it. One with a command is satisfied by \
         provost_task_check alone.",
        json!({
            "criterion": number("Its number."),
            "judgement": {"type": "string", "enum": JudgementKind::WORDS},
            "because": text("Why; to satisfy it, the evidence."),
        }),
        &["criterion", "judgement"],
    )
}

fn check() -> Tool {
    tool(
        "provost_task_check",
        "Have Provost run the command of a criterion, or of a piece of evidence of this iteration, on the worker's tree. \
         Two pictures are compared by Provost: name them if the loop does not. What came of it comes as a message.",
        json!({
            "criterion": number("Its number."),
            "evidence": text("Its name."),
            "pictures": {
                "type": "object",
                "description": "PNG files below the directory of the work.",
                "properties": {
                    "expected": text("The picture that it is to look like."),
                    "actual": text("The picture of how it looks."),
                },
                "required": ["expected", "actual"],
                "additionalProperties": false,
            },
        }),
        &[],
    )
}

fn show() -> Tool {
    tool(
        "provost_task_show",
        "Show a piece of evidence of the loop's iteration: a text, an attack on the work or the fields of an artifact. An \
         attack without iteration and name is on the work as a whole.",
        json!({
            "iteration": number("The current iteration."),
            "name": text("The evidence that it is."),
            "text": text("What holds, in words."),
            "attack": {
                "type": "object",
                "properties": {"failure_mode": text("What could fail."), "check": text("How it was tried."), "result": text("What came of it.")},
                "required": ["failure_mode", "check", "result"],
                "additionalProperties": false,
            },
            "fields": {"type": "object", "additionalProperties": {"type": "string"}},
        }),
        &[],
    )
}

fn acknowledge() -> Tool {
    tool(
        "provost_task_acknowledge",
        "Say that you have read this revision of the task's contract.",
        json!({"revision": number("As provost_task_look shows it.")}),
        &["revision"],
    )
}

fn carry_on() -> Tool {
    tool(
        "provost_task_continue",
        "Ask for the next iteration of the loop. It is refused while evidence of this one is missing.",
        json!({
            "iteration": number("The next one."),
            "to": text("The worker."),
            "text": text("What it is to do in it."),
            "key": text("Asked twice under one key it is asked once."),
        }),
        &["iteration", "to", "text"],
    )
}

fn stop_loop() -> Tool {
    tool(
        "provost_task_stop_loop",
        "End the loop; the task goes on. After a loop that the operator began only the operator finishes it.",
        json!({"because": text("Why.")}),
        &["because"],
    )
}

fn interrupt() -> Tool {
    tool(
        "provost_task_interrupt",
        "Have a member leave its turn.",
        json!({"member": text("Its name."), "text": text("What it is told next.")}),
        &["member"],
    )
}

fn compact() -> Tool {
    tool(
        "provost_task_compact",
        "Have a member's conversation made shorter when its turn is over.",
        json!({"member": text("Its name.")}),
        &["member"],
    )
}

fn record_move() -> Tool {
    tool(
        "provost_task_move",
        "Record what you decided to do. In strict mode it comes before what you do, and matches it.",
        json!({
            "kind": {"type": "string", "enum": ["wait", "nudge", "interrupt", "escalate", "stop", "inspect"]},
            "because": text("Why."),
        }),
        &["kind", "because"],
    )
}

fn epilogue() -> Tool {
    tool(
        "provost_task_epilogue",
        "Say that a step after the work is done that the contract asks for. A separate review is said by a reviewer, where \
         there is one; the rest by a manager.",
        json!({
            "step": {"type": "string", "enum": ["draft_pull_request", "separate_review", "handover"]},
            "evidence": text("Where it is, or what came of it."),
        }),
        &["step", "evidence"],
    )
}

fn finish() -> Tool {
    tool(
        "provost_task_finish",
        "Finish the task. Criteria, evidence and checks are audited first; if checks run, what came of it comes as a \
         message.",
        json!({"because": text("Why it is done.")}),
        &["because"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(role: Role) -> Vec<&'static str> {
        offered(Membership { role }).into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn a_worker_has_no_tool_to_judge_continue_interrupt_or_end_anything() {
        for role in [Role::Worker, Role::Reviewer] {
            for ending in [
                "judge_criterion",
                "continue",
                "stop_loop",
                "interrupt",
                "compact",
                "move",
                "finish",
            ] {
                assert!(!names(role).contains(&format!("{PREFIX}{ending}").as_str()), "{ending}");
            }
        }
        assert_eq!((names(Role::Worker).len(), names(Role::Manager).len()), (7, ALL.len()));
        assert!(names(Role::Reviewer).contains(&epilogue().name), "who reviews says so");
        assert!(!names(Role::Worker).contains(&epilogue().name));
    }

    #[test]
    fn every_tool_is_read_as_its_schema_says() {
        for tool in ALL {
            let Tool { name, schema, .. } = tool();
            let mut given = serde_json::Map::new();
            for (field, about) in schema["properties"].as_object().unwrap() {
                let value = match about["type"].as_str().unwrap() {
                    "integer" => json!(2),
                    "boolean" => json!(true),
                    "object" if about["required"].is_array() => {
                        let names = about["required"].as_array().unwrap().iter();
                        names.map(|name| (name.as_str().unwrap().to_owned(), json!("t"))).collect()
                    }
                    "object" => json!({"url": "u"}),
                    _ => about["enum"][0].as_str().map_or(json!("some text"), |word| json!(word)),
                };
                given.insert(field.clone(), value);
            }
            // Of those that exclude each other one is kept.
            if name == "provost_task_check" {
                given.remove("criterion");
            }
            if name == "provost_task_show" {
                given.remove("text");
                given.remove("fields");
            }
            let all = call(name, &Value::Object(given.clone())).unwrap();
            assert!(all.is_ok(), "{name}: {all:?}");
            for word in SentKind::WORDS.iter().filter(|_| name == "provost_task_send") {
                given.insert("kind".to_owned(), json!(word));
                assert!(call(name, &Value::Object(given.clone())).unwrap().is_ok());
            }
            for word in
                JudgementKind::WORDS.iter().filter(|_| name == "provost_task_judge_criterion")
            {
                given.insert("judgement".to_owned(), json!(word));
                assert!(call(name, &Value::Object(given.clone())).unwrap().is_ok());
            }
        }
    }

    #[test]
    fn a_malformed_call_is_told_what_was_expected() {
        for (tool, arguments, part) in [
            ("send", json!({"to": "hand"}), "missing field `text`"),
            ("send", json!({"to": "hand", "text": "x", "kind": "news"}), "unknown variant"),
            ("send", json!({"to": "hand", "text": "x", "from": "operator"}), "unknown field"),
            ("check", json!({}), "one of them"),
            ("check", json!({"criterion": 1, "evidence": "tests"}), "one of them"),
            ("show", json!({"iteration": 1, "name": "tests"}), "show one thing"),
            ("show", json!({"text": "all of it holds"}), "show one thing"),
            ("judge_criterion", json!({"criterion": 1, "judgement": "satisfy"}), "because"),
            ("finish", json!("done"), "invalid type"),
            ("finish", json!({"because": "x".repeat(MAX_ARGUMENTS)}), "at most"),
        ] {
            let tool = format!("{PREFIX}{tool}");
            let told = call(&tool, &arguments).unwrap().unwrap_err();
            assert!(told.starts_with(&tool) && told.contains(part), "{told}");
        }
        assert!(call("provost_report", &json!({})).is_none());
        assert!(call("provost_task_own", &json!({})).is_none());
        assert!(matches!(call("provost_task_look", &Value::Null), Some(Ok(Call::Look {}))));
    }
}
