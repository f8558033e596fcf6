//! The tools that a member uses to act on its team: the set for each role, and the parser for
//! calls.
//!
//! A member may still call a tool outside its set through another channel, where the team's rules
//! reject the call.

use provost_core::{
    session::TeamMembership,
    team::{JudgementKind, MemberCall, MemberRole, SendableKind},
};
use serde_json::{Value, json};

use crate::tools::{ToolDefinition, tool};

/// The prefix of all team tools' names.
const PREFIX: &str = "provost_team_";

/// The maximum size of a call's arguments, in bytes.
const MAX_ARGUMENTS: usize = 96 << 10;

const MANAGER_INSTRUCTIONS: &str = "You manage a team that Provost, a supervisor, runs. Its members do the work, and you receive their events as \
     messages. Call provost_team_status before you act, and act with the provost_team_ tools. The team's rules apply to each \
     call, and a refusal states the reason. Between messages, end your turn and wait.";

const MEMBER_INSTRUCTIONS: &str = " You work in a team with a manager. provost_team_status shows the status of the team, and messages from the team are \
     delivered to you one at a time.";

/// Returns a member's instructions. They follow the general instructions or, for a manager, replace
/// them.
pub(crate) fn instructions(member: TeamMembership, common: &str) -> String {
    match member.role {
        MemberRole::Manager => MANAGER_INSTRUCTIONS.to_owned(),
        MemberRole::Worker | MemberRole::Reviewer => format!("{common}{MEMBER_INSTRUCTIONS}"),
    }
}

/// Returns the tools that a member has.
pub(crate) fn tools_for_role(member: TeamMembership) -> Vec<ToolDefinition> {
    let manager =
        [judge, continue_loop, stop_loop, interrupt, compact, record_move, epilogue, finish];
    let everybody = [show_team, send, ask_user, propose, check, show, acknowledge];
    let mut tools: Vec<ToolDefinition> = everybody.iter().map(|tool| tool()).collect();
    match member.role {
        MemberRole::Manager => tools.extend(manager.iter().map(|tool| tool())),
        MemberRole::Worker => {}
        // In a team with reviewers, only a reviewer can attest that the review was done.
        MemberRole::Reviewer => {
            tools.retain(|tool| tool.name != ask_user().name);
            tools.push(epilogue());
        }
    }
    tools
}

/// Parses a call. Returns `None` if the tool is not a team tool. The error lists the expected
/// arguments.
pub(crate) fn parse_call(tool: &str, arguments: &Value) -> Option<Result<MemberCall, String>> {
    let known = ALL_TOOLS.iter().map(|tool| tool()).find(|known| known.name == tool)?;
    let name = tool.strip_prefix(PREFIX)?;
    let size = arguments.to_string().len();
    if size > MAX_ARGUMENTS {
        return Some(Err(format!(
            "{tool} takes at most {MAX_ARGUMENTS} bytes of arguments, got {size}"
        )));
    }
    // A call without arguments may omit them entirely.
    let given = if arguments.is_null() { json!({}) } else { arguments.clone() };
    let read = serde_json::from_value::<MemberCall>(json!({ name: given }));
    let checked = read.map_err(|why| why.to_string()).and_then(|call| {
        // The validation does not depend on the member or the key, so both may be empty.
        call.to_command("", "").map_err(|why| why.to_string())?;
        Ok(call)
    });
    Some(checked.map_err(|why| format!("{tool} expects {}: {why}", expected_fields(&known.schema))))
}

const ALL_TOOLS: [fn() -> ToolDefinition; 15] = [
    show_team,
    send,
    ask_user,
    propose,
    check,
    show,
    acknowledge,
    judge,
    continue_loop,
    stop_loop,
    interrupt,
    compact,
    record_move,
    epilogue,
    finish,
];

/// Lists the names of a schema's fields. Optional fields are marked with a question mark.
fn expected_fields(schema: &Value) -> String {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().into_iter().flatten();
    let mark = |name: &String| {
        if required.contains(&json!(name)) { name.clone() } else { format!("{name}?") }
    };
    let named = fields.map(|(name, _)| mark(name));
    format!("{{{}}}", named.collect::<Vec<_>>().join(", "))
}

fn text_schema(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn number_schema(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

fn show_team() -> ToolDefinition {
    tool(
        "provost_team_status",
        "Show the status of the team: its goal and contract, the members and their activity, open criteria, the loop, your \
         messages, what blocks the finish, and what to do next.",
        json!({}),
        &[],
    )
}

fn send() -> ToolDefinition {
    tool(
        "provost_team_send",
        "Send a message to a member of the team. It is delivered when the member is idle.",
        json!({
            "to": text_schema("The member's name."),
            "text": text_schema("The message."),
            "kind": {"type": "string", "enum": SendableKind::NAMES, "description": "Only a manager can send instructions."},
            "key": text_schema("Idempotency key: a repeated send with the same key has no effect."),
            "correlation": text_schema("Correlation id that groups related messages."),
            "steer": {"type": "boolean", "description": "Deliver the message even in the middle of a turn."},
        }),
        &["to", "text"],
    )
}

fn ask_user() -> ToolDefinition {
    tool(
        "provost_team_ask_user",
        "Ask the user who started the team. The call does not wait: the answer is delivered as a message.",
        json!({"text": text_schema("The question."), "key": text_schema("Idempotency key: a repeated question with the same key is asked once.")}),
        &["text"],
    )
}

fn propose() -> ToolDefinition {
    tool(
        "provost_team_propose_criterion",
        "Propose a condition that must be met before the team's goal is done.",
        json!({
            "text": text_schema("The condition."),
            "rationale": text_schema("Why."),
            "check": text_schema("A command with which Provost checks the condition. Without one, a member has to attest to it."),
        }),
        &["text"],
    )
}

fn judge() -> ToolDefinition {
    tool(
        "provost_team_judge_criterion",
        "Accept a criterion, satisfy it with evidence, defer, reject or reopen it. A criterion with a command can only be \
         satisfied with provost_team_check.",
        json!({
            "criterion": number_schema("The number of the criterion."),
            "judgement": {"type": "string", "enum": JudgementKind::NAMES},
            "because": text_schema("The reason, or the evidence that satisfies the criterion."),
        }),
        &["criterion", "judgement"],
    )
}

fn check() -> ToolDefinition {
    tool(
        "provost_team_check",
        "Have Provost run the command of a criterion, or of a piece of evidence of this iteration, on the worker's tree. \
         If the evidence is a comparison of two pictures, specify them unless the loop does. The result is delivered as a message.",
        json!({
            "criterion": number_schema("The number of the criterion."),
            "evidence": text_schema("The name of the evidence."),
            "pictures": {
                "type": "object",
                "description": "PNG files inside the worktree.",
                "properties": {
                    "expected": text_schema("The expected picture."),
                    "actual": text_schema("The actual picture."),
                },
                "required": ["expected", "actual"],
                "additionalProperties": false,
            },
        }),
        &[],
    )
}

fn show() -> ToolDefinition {
    tool(
        "provost_team_show_evidence",
        "Submit a piece of evidence for the loop's iteration: a text, a challenge to the work, or the fields of an artifact. \
         A challenge without an iteration and a name applies to the work as a whole.",
        json!({
            "iteration": number_schema("The current iteration."),
            "name": text_schema("The name of the evidence."),
            "text": text_schema("The evidence as text."),
            "challenge": {
                "type": "object",
                "properties": {"failure_mode": text_schema("What could fail."), "check": text_schema("How it was tested."), "result": text_schema("The result.")},
                "required": ["failure_mode", "check", "result"],
                "additionalProperties": false,
            },
            "fields": {"type": "object", "additionalProperties": {"type": "string"}},
        }),
        &[],
    )
}

fn acknowledge() -> ToolDefinition {
    tool(
        "provost_team_acknowledge",
        "Confirm that you have read this revision of the team's contract.",
        json!({"revision": number_schema("The revision that provost_team_status shows.")}),
        &["revision"],
    )
}

fn continue_loop() -> ToolDefinition {
    tool(
        "provost_team_continue",
        "Start the next iteration of the loop. The call is refused while evidence for the current one is missing.",
        json!({
            "iteration": number_schema("The next iteration."),
            "to": text_schema("The worker."),
            "text": text_schema("The instruction for the iteration."),
            "key": text_schema("Idempotency key: a repeated call with the same key has no effect."),
        }),
        &["iteration", "to", "text"],
    )
}

fn stop_loop() -> ToolDefinition {
    tool(
        "provost_team_stop_loop",
        "End the loop. The team continues. If the operator started the loop, only the operator can finish the team.",
        json!({"because": text_schema("Why.")}),
        &["because"],
    )
}

fn interrupt() -> ToolDefinition {
    tool(
        "provost_team_interrupt",
        "Interrupt a member's current turn.",
        json!({"member": text_schema("The member's name."), "text": text_schema("The next message to the member.")}),
        &["member"],
    )
}

fn compact() -> ToolDefinition {
    tool(
        "provost_team_compact",
        "Compact a member's conversation when its turn is over.",
        json!({"member": text_schema("The member's name.")}),
        &["member"],
    )
}

fn record_move() -> ToolDefinition {
    tool(
        "provost_team_move",
        "Record your decision. In strict mode, record it before you act, and act accordingly.",
        json!({
            "kind": {"type": "string", "enum": ["wait", "nudge", "interrupt", "escalate", "stop", "inspect"]},
            "because": text_schema("Why."),
        }),
        &["kind", "because"],
    )
}

fn epilogue() -> ToolDefinition {
    tool(
        "provost_team_epilogue",
        "Report that a step of the contract's epilogue is done. A manager reports the steps. In a team with a \
         reviewer, the reviewer reports the separate review.",
        json!({
            "step": {"type": "string", "enum": ["draft_pull_request", "separate_review", "handover"]},
            "evidence": text_schema("The result of the step, or where to find it."),
        }),
        &["step", "evidence"],
    )
}

fn finish() -> ToolDefinition {
    tool(
        "provost_team_finish",
        "Finish the team. Provost first audits criteria, evidence and checks; if checks have to run, the result is \
         delivered as a message.",
        json!({"because": text_schema("Why the goal is reached.")}),
        &["because"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(role: MemberRole) -> Vec<&'static str> {
        tools_for_role(TeamMembership { role }).into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn worker_has_no_manager_tools() {
        for role in [MemberRole::Worker, MemberRole::Reviewer] {
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
        assert_eq!(
            (names(MemberRole::Worker).len(), names(MemberRole::Manager).len()),
            (7, ALL_TOOLS.len())
        );
        assert!(names(MemberRole::Reviewer).contains(&epilogue().name), "a reviewer may report it");
        assert!(!names(MemberRole::Worker).contains(&epilogue().name));
    }

    #[test]
    fn every_tool_call_parses_by_its_schema() {
        for tool in ALL_TOOLS {
            let ToolDefinition { name, schema, .. } = tool();
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
            // Keep only one of several mutually exclusive fields.
            if name == "provost_team_check" {
                given.remove("criterion");
            }
            if name == "provost_team_show_evidence" {
                given.remove("text");
                given.remove("fields");
            }
            let all = parse_call(name, &Value::Object(given.clone())).unwrap();
            assert!(all.is_ok(), "{name}: {all:?}");
            let (field, words) = match name {
                "provost_team_send" => ("kind", SendableKind::NAMES.to_vec()),
                "provost_team_judge_criterion" => ("judgement", JudgementKind::NAMES.to_vec()),
                _ => continue,
            };
            for word in words {
                given.insert(field.to_owned(), json!(word));
                assert!(parse_call(name, &Value::Object(given.clone())).unwrap().is_ok());
            }
        }
    }

    #[test]
    fn malformed_team_call_names_expected_fields() {
        for (tool, arguments, part) in [
            ("send", json!({"to": "hand"}), "missing field `text`"),
            ("send", json!({"to": "hand", "text": "x", "kind": "news"}), "unknown variant"),
            ("send", json!({"to": "hand", "text": "x", "from": "operator"}), "unknown field"),
            ("check", json!({}), "needs either"),
            ("check", json!({"criterion": 1, "evidence": "tests"}), "needs either"),
            (
                "show_evidence",
                json!({"iteration": 1, "name": "tests"}),
                "exactly one of text, challenge and fields",
            ),
            (
                "show_evidence",
                json!({"text": "all of it holds"}),
                "exactly one of text, challenge and fields",
            ),
            ("judge_criterion", json!({"criterion": 1, "judgement": "satisfy"}), "because"),
            ("finish", json!("done"), "invalid type"),
            ("finish", json!({"because": "x".repeat(MAX_ARGUMENTS)}), "at most"),
        ] {
            let tool = format!("{PREFIX}{tool}");
            let message = parse_call(&tool, &arguments).unwrap().unwrap_err();
            assert!(message.starts_with(&tool) && message.contains(part), "{message}");
        }
        assert!(parse_call("provost_report", &json!({})).is_none());
        assert!(parse_call("provost_team_own", &json!({})).is_none());
        assert!(matches!(
            parse_call("provost_team_status", &Value::Null),
            Some(Ok(MemberCall::Status {}))
        ));
    }
}
