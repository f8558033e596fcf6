//! The tools that Provost gives an agent: its way to say how the work stands, and to ask.
//!
//! They are defined here once, whatever brings them to the agent: Codex's dynamic tools or the MCP server.

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

/// So long may a branch, an address or a path be that is told as a fact.
const MAX_FACT: usize = 4 << 10;

const REPORT: &str = "provost_report";
const PROGRESS: &str = "provost_progress";
const FACT: &str = "provost_fact";
const ASK: &str = "provost_ask";

/// What the agent is told about whom it works for.
const INSTRUCTIONS: &str = "You work under Provost, a supervisor, on one task in this directory. Provost runs checks of its own \
     over your work, so report what is true. Before you end your work, call provost_report: `completed` \
     if all that was asked for is done, `failed` if it cannot be done, `needs_input` if a person has to \
     decide something first. In longer work call provost_progress now and then. If you made a branch, a \
     pull request or an artifact, name it with provost_fact.";

/// The same to one whose result has a form of its own.
const TOLD_AT_THE_END: &str = "You work under Provost, a supervisor, on one task in this directory. Your last message is read by a \
     program: answer with the result alone, as the schema of the turn demands, with `completed` as its \
     status if you did what was asked, `failed` if it cannot be done, `needs_input` if a person has to \
     decide something first. In longer work call provost_progress now and then.";

/// Besides, to one that may ask.
const MAY_ASK: &str = " If you cannot go on without a person's decision, ask with provost_ask and wait for the answer.";

/// What a call is answered that was taken.
pub(crate) const NOTED: &str = "Noted.";

/// What a call of a sub-agent is answered.
pub(crate) const NOT_THE_MAIN_AGENT: &str = "only the main agent reports to the supervisor";

/// A tool as it is told to the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// The JSON Schema of its arguments.
    pub(crate) schema: Value,
}

/// What a call of a tool says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    Said(Testimony),
    Progress(Progress),
    Asked {
        question: String,
        options: Vec<Choice>,
    },
    /// Something about the task that the agent is a member of.
    OfTask(task::Call),
}

/// Gives the instructions that come with the tools.
pub(crate) fn instructions(settings: &Settings) -> String {
    let asks = if settings.questions { MAY_ASK } else { "" };
    let told = if settings.result == ResultForm::Plain { INSTRUCTIONS } else { TOLD_AT_THE_END };
    match settings.member {
        Some(member) => format!("{}{asks}", task_tools::instructions(member, told)),
        None => format!("{told}{asks}"),
    }
}

/// Gives the tools of an agent with these settings.
pub(crate) fn offered(settings: &Settings) -> Vec<Tool> {
    let manages = settings.member.is_some_and(|member| member.role == Role::Manager);
    let mut tools = match settings.result {
        // Who manages has no work of its own to report.
        _ if manages => Vec::new(),
        ResultForm::Plain => vec![report(), progress(), fact()],
        // How the work stands is told with the result, and only there.
        ResultForm::Triage | ResultForm::Plan | ResultForm::PlanReview | ResultForm::Review => {
            vec![progress()]
        }
    };
    tools.extend(settings.questions.then(ask));
    tools.extend(settings.member.into_iter().flat_map(task_tools::offered));
    tools
}

/// Reads a call; otherwise says what was expected.
pub(crate) fn call(tool: &str, arguments: &Value) -> Result<Called, String> {
    if let Some(read) = task_tools::call(tool, arguments) {
        return read.map(Called::OfTask);
    }
    match tool {
        REPORT => said(arguments).ok_or(
            "provost_report expects {status: working|completed|failed|needs_input, summary: text}",
        ),
        PROGRESS => told(arguments)
            .ok_or("provost_progress expects {done, total}: whole numbers, done not above total"),
        FACT => named(arguments).ok_or(
            "provost_fact expects {kind: branch|pr|artifact, value: text}, the text not long",
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
        "Tell the supervisor how the whole task stands. Call it when the work is completed or failed, \
         or when a person has to decide something.",
        json!({
            "status": {"type": "string", "enum": ["working", "completed", "failed", "needs_input"]},
            "summary": {"type": "string", "description": "What was done and what was not."},
        }),
        &["status", "summary"],
    )
}

fn progress() -> Tool {
    tool(
        PROGRESS,
        "Tell the supervisor how far the work is, in steps of your own choice.",
        json!({"done": {"type": "integer", "minimum": 0}, "total": {"type": "integer", "minimum": 1}}),
        &["done", "total"],
    )
}

fn fact() -> Tool {
    tool(
        FACT,
        "Tell the supervisor the branch, pull request or artifact that the work is to be found at.",
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
        "Ask a person one question and wait for the answer, which is any text. Only for what you cannot \
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
