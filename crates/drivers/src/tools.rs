//! The tools that Provost offers an agent: to report the status of its work, and to ask the user.
//!
//! They are defined once, for both transports: Codex's dynamic tools and the MCP server.

use provost_core::{
    lifecycle::ClaimKind,
    request::Choice,
    result::ResultForm,
    session::{FactKind, Progress, Settings, Testimony},
    task::{self, Role},
};
use serde_json::{Value, json};

use crate::{
    codex::{
        result::{MAX_SUMMARY, STATUSES},
        wire::{bounded, list, text},
    },
    task_tools,
};

/// Maximum length of a branch, URL or path that is reported as a fact.
const MAX_FACT: usize = 4 << 10;

const REPORT: &str = "provost_report";
const PROGRESS: &str = "provost_progress";
const FACT: &str = "provost_fact";
const ASK: &str = "provost_ask";

/// The general instructions about the supervisor.
const INSTRUCTIONS: &str = "You work under Provost, a supervisor, on one task in this directory. Provost runs its own checks on \
     your work, so report truthfully. Before you end your work, call provost_report: `completed` if \
     everything that was asked for is done, `failed` if it cannot be done, `needs_input` if the user has to \
     decide something first. In longer work, call provost_progress now and then. If you created a branch, a \
     pull request or an artifact, name it with provost_fact.";

/// The same for an agent whose result has a schema.
const TOLD_AT_THE_END: &str = "You work under Provost, a supervisor, on one task in this directory. A program reads your last \
     message: answer with the result alone, in the schema of the turn. Its status is `completed` if you did \
     what was asked, `failed` if it cannot be done, `needs_input` if the user has to decide something \
     first. In longer work, call provost_progress now and then.";

/// An addition for agents that may ask questions.
const MAY_ASK: &str = " If you cannot continue without a decision of the user, ask with provost_ask and wait for the answer.";

/// The answer to an accepted call.
pub(crate) const NOTED: &str = "Noted.";

/// The answer to a call of a sub-agent.
pub(crate) const NOT_THE_MAIN_AGENT: &str = "only the main agent reports to the supervisor";

/// The definition of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// The JSON Schema of its arguments.
    pub(crate) schema: Value,
}

/// A parsed call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    Said(Testimony),
    Progress(Progress),
    Asked {
        question: String,
        options: Vec<Choice>,
    },
    /// A call about the agent's team.
    OfTask(task::Call),
}

/// Returns the instructions that accompany the tools.
pub(crate) fn instructions(settings: &Settings) -> String {
    let asks = if settings.questions { MAY_ASK } else { "" };
    let told = if settings.result == ResultForm::Plain { INSTRUCTIONS } else { TOLD_AT_THE_END };
    match settings.member {
        Some(member) => format!("{}{asks}", task_tools::instructions(member, told)),
        None => format!("{told}{asks}"),
    }
}

/// Returns the tools of an agent with these settings.
pub(crate) fn offered(settings: &Settings) -> Vec<Tool> {
    let manages = settings.member.is_some_and(|member| member.role == Role::Manager);
    let mut tools = match settings.result {
        // A manager has no work of its own to report.
        _ if manages => Vec::new(),
        ResultForm::Plain => vec![report(), progress(), fact()],
        // The status of the work is part of the result, and reported only there.
        ResultForm::Triage | ResultForm::Plan | ResultForm::PlanReview | ResultForm::Review => {
            vec![progress()]
        }
    };
    tools.extend(settings.questions.then(ask));
    tools.extend(settings.member.into_iter().flat_map(task_tools::offered));
    tools
}

/// Parses a call. The error states the expected arguments.
pub(crate) fn call(tool: &str, arguments: &Value) -> Result<Called, String> {
    if let Some(read) = task_tools::call(tool, arguments) {
        return read.map(Called::OfTask);
    }
    match tool {
        REPORT => said(arguments).ok_or(
            "provost_report expects {status: working|completed|failed|needs_input, summary: text}",
        ),
        PROGRESS => told(arguments)
            .ok_or("provost_progress expects {done, total}: integers, done at most total"),
        FACT => named(arguments).ok_or(
            "provost_fact expects {kind: branch|pr|artifact, value: text of at most 4096 bytes}",
        ),
        ASK => asked(arguments).ok_or("provost_ask expects {question: text, options?: [text]}"),
        _ => Err("there is no such tool"),
    }
    .map_err(str::to_owned)
}

fn said(arguments: &Value) -> Option<Called> {
    let working = ("working", ClaimKind::Working);
    let status = text(arguments, "status")?;
    let mut known = STATUSES.into_iter().chain([working]);
    let (_, kind) = known.find(|(word, _)| *word == status)?;
    let text = Some(bounded(text(arguments, "summary")?, MAX_SUMMARY));
    Some(Called::Said(Testimony::Claim { kind, text }))
}

fn told(arguments: &Value) -> Option<Called> {
    let (done, total) = (arguments["done"].as_u64()?, arguments["total"].as_u64()?);
    (done <= total).then_some(Called::Progress(Progress { done, total }))
}

fn named(arguments: &Value) -> Option<Called> {
    let kind = match text(arguments, "kind")? {
        "branch" => FactKind::Branch,
        "pr" => FactKind::Pr,
        "artifact" => FactKind::Artifact,
        _ => return None,
    };
    let value = text(arguments, "value").filter(|v| !v.is_empty() && v.len() <= MAX_FACT)?;
    Some(Called::Said(Testimony::Fact { kind, value: value.to_owned() }))
}

fn asked(arguments: &Value) -> Option<Called> {
    let question = text(arguments, "question").filter(|text| !text.trim().is_empty())?.to_owned();
    let choice = |option: &Value| {
        let label = option.as_str()?.to_owned();
        Some(Choice { label, description: String::new() })
    };
    let options = list(arguments, "options").iter().map(choice).collect::<Option<Vec<_>>>()?;
    Some(Called::Asked { question, options })
}

fn report() -> Tool {
    tool(
        REPORT,
        "Report the status of the whole task to the supervisor. Call it when the work is completed or failed, \
         or when the user has to decide something.",
        json!({
            "status": {"type": "string", "enum": ["working", "completed", "failed", "needs_input"]},
            "summary": {"type": "string", "description": "What is done and what is not."},
        }),
        &["status", "summary"],
    )
}

fn progress() -> Tool {
    tool(
        PROGRESS,
        "Report progress to the supervisor, in steps of your choice.",
        json!({"done": {"type": "integer", "minimum": 0}, "total": {"type": "integer", "minimum": 1}}),
        &["done", "total"],
    )
}

fn fact() -> Tool {
    tool(
        FACT,
        "Report the branch, pull request or artifact that contains the work.",
        json!({
            "kind": {"type": "string", "enum": ["branch", "pr", "artifact"]},
            "value": {"type": "string"},
        }),
        &["kind", "value"],
    )
}

fn ask() -> Tool {
    tool(
        ASK,
        "Ask the user one question and wait for the answer, which is free text. Use it only for what you cannot \
         find out or decide yourself.",
        json!({
            "question": {"type": "string"},
            "options": {"type": "array", "items": {"type": "string"}, "description": "Likely answers."},
        }),
        &["question"],
    )
}

pub(crate) fn tool(
    name: &'static str,
    description: &'static str,
    properties: Value,
    required: &[&str],
) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    Tool { name, description, schema }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_says_what_it_says() {
        let claim = call(REPORT, &json!({"status": "failed", "summary": "no"}));
        let text = Some("no".to_owned());
        let kind = ClaimKind::Failed;
        assert_eq!(claim, Ok(Called::Said(Testimony::Claim { kind, text })));
        let progress = call(PROGRESS, &json!({"done": 1, "total": 3}));
        assert_eq!(progress, Ok(Called::Progress(Progress { done: 1, total: 3 })));
        assert!(matches!(
            call(ASK, &json!({"question": "which?", "options": ["a", "b"]})),
            Ok(Called::Asked { options, .. }) if options.len() == 2
        ));
    }

    #[test]
    fn a_malformed_call_is_told_what_was_expected() {
        for (tool, arguments) in [
            (REPORT, json!({"status": "done", "summary": "x"})),
            (REPORT, json!({"status": "completed"})),
            (REPORT, json!("completed")),
            (PROGRESS, json!({"done": 4, "total": 3})),
            (PROGRESS, json!({"done": -1, "total": 3})),
            (FACT, json!({"kind": "state", "value": "succeeded"})),
            (FACT, json!({"kind": "pr", "value": ""})),
            (ASK, json!({"question": " "})),
            (ASK, json!({"question": "q", "options": [1]})),
        ] {
            let told = call(tool, &arguments).unwrap_err();
            assert!(told.starts_with(tool), "{told}");
        }
        assert!(call("lookup_ticket", &json!({})).is_err());
    }

    #[test]
    fn an_agent_that_may_not_ask_has_no_tool_for_it() {
        let count = |questions| {
            let settings = Settings { questions, ..Settings::default() };
            (offered(&settings).len(), instructions(&settings).contains(ASK))
        };
        assert_eq!((count(true), count(false)), ((4, true), (3, false)));
    }
}
