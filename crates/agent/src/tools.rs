//! The tools that Provost offers to an agent for reporting the status of its work and asking the
//! user.
//!
//! They are defined once for both transports: the tools of an agent's own protocol and the MCP server.

use provost_core::{
    lifecycle::ClaimKind,
    request::AnswerOption,
    result::ResultForm,
    session::{AgentSettings, FactKind, Progress, ReportBody},
    team::{self, MemberRole},
};
use serde_json::{Value, json};

use crate::{
    fields::{bounded, list, text},
    team_tools,
};

/// The maximum number of bytes to keep from a summary.
pub const MAX_SUMMARY: usize = 16 << 10;

/// The status values that an agent can report.
pub const STATUSES: [(&str, ClaimKind); 3] = [
    ("completed", ClaimKind::Completed),
    ("failed", ClaimKind::Failed),
    ("needs_input", ClaimKind::NeedsInput),
];

/// The maximum length of a branch, URL or path that is reported as a fact.
const MAX_FACT: usize = 4 << 10;

const REPORT: &str = "provost_report";
const PROGRESS: &str = "provost_progress";
const FACT: &str = "provost_fact";
const ASK: &str = "provost_ask";

/// The general instructions about the supervisor.
const INSTRUCTIONS: &str = "You work under Provost, a supervisor, on one task in this directory. Provost runs its own checks on \
     your work, so report truthfully. Before you end your work, call provost_report: `completed` if \
     everything that was asked for is done, `failed` if it cannot be done, `needs_input` if the user has to \
     decide something first. During longer work, call provost_progress now and then. If you created a branch, a \
     pull request or an artifact, report it with provost_fact.";

/// The general instructions for an agent whose result has a schema.
const STRUCTURED_INSTRUCTIONS: &str = "You work under Provost, a supervisor, on one task in this directory. A program reads your last \
     message: respond with only the result, in the schema of the turn. Its status is `completed` if you did \
     what was asked, `failed` if it cannot be done, `needs_input` if the user has to decide something \
     first. During longer work, call provost_progress now and then.";

/// Additional instructions for agents that may ask questions.
const ASK_INSTRUCTIONS: &str = " If you cannot continue without a decision from the user, ask with provost_ask and wait for the answer.";

/// The response to an accepted call.
pub const ACCEPTED: &str = "Noted.";

/// The response to a call from a sub-agent.
pub const NOT_THE_MAIN_AGENT: &str = "only the main agent reports to the supervisor";

/// The definition of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    pub name: &'static str,
    pub description: &'static str,
    /// The JSON Schema of the arguments.
    pub schema: Value,
}

/// A parsed tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedCall {
    Testimony(ReportBody),
    Progress(Progress),
    Question {
        question: String,
        options: Vec<AnswerOption>,
    },
    /// A call about the agent's team.
    TeamCall(team::MemberCall),
}

/// Returns the instructions that accompany the tools.
pub fn instructions(settings: &AgentSettings) -> String {
    let asks = if settings.questions { ASK_INSTRUCTIONS } else { "" };
    let common =
        if settings.result == ResultForm::Plain { INSTRUCTIONS } else { STRUCTURED_INSTRUCTIONS };
    match settings.member {
        Some(member) => format!("{}{asks}", team_tools::instructions(member, common)),
        None => format!("{common}{asks}"),
    }
}

/// Returns the tools for an agent with these settings.
pub fn available_tools(settings: &AgentSettings) -> Vec<ToolDefinition> {
    let manages = settings.member.is_some_and(|member| member.role == MemberRole::Manager);
    let mut tools = match settings.result {
        // A manager does no work of its own, so it has nothing to report.
        _ if manages => Vec::new(),
        ResultForm::Plain => vec![report(), progress(), fact()],
        // A result of one of these forms contains the status of the work, so no tool reports it.
        ResultForm::Triage | ResultForm::Plan | ResultForm::PlanReview | ResultForm::Review => {
            vec![progress()]
        }
    };
    tools.extend(settings.questions.then(ask));
    tools.extend(settings.member.into_iter().flat_map(team_tools::tools_for_role));
    tools
}

/// Parses a call. The error lists the expected arguments.
pub fn parse_call(tool: &str, arguments: &Value) -> Result<ParsedCall, String> {
    if let Some(read) = team_tools::parse_call(tool, arguments) {
        return read.map(ParsedCall::TeamCall);
    }
    match tool {
        REPORT => parse_report(arguments).ok_or(
            "provost_report expects {status: working|completed|failed|needs_input, summary: text}",
        ),
        PROGRESS => parse_progress(arguments)
            .ok_or("provost_progress expects {done, total}: integers, done at most total"),
        FACT => parse_fact(arguments).ok_or(
            "provost_fact expects {kind: branch|pr|artifact, value: text of at most 4096 bytes}",
        ),
        ASK => parse_question(arguments)
            .ok_or("provost_ask expects {question: text, options?: [text]}"),
        _ => Err("there is no such tool"),
    }
    .map_err(str::to_owned)
}

fn parse_report(arguments: &Value) -> Option<ParsedCall> {
    let working = ("working", ClaimKind::Working);
    let status = text(arguments, "status")?;
    let mut known = STATUSES.into_iter().chain([working]);
    let (_, kind) = known.find(|(word, _)| *word == status)?;
    let text = Some(bounded(text(arguments, "summary")?, MAX_SUMMARY));
    Some(ParsedCall::Testimony(ReportBody::Claim { kind, text }))
}

fn parse_progress(arguments: &Value) -> Option<ParsedCall> {
    let (done, total) = (arguments["done"].as_u64()?, arguments["total"].as_u64()?);
    (done <= total).then_some(ParsedCall::Progress(Progress { done, total }))
}

fn parse_fact(arguments: &Value) -> Option<ParsedCall> {
    let kind = match text(arguments, "kind")? {
        "branch" => FactKind::Branch,
        "pr" => FactKind::Pr,
        "artifact" => FactKind::Artifact,
        _ => return None,
    };
    let value = text(arguments, "value").filter(|v| !v.is_empty() && v.len() <= MAX_FACT)?;
    Some(ParsedCall::Testimony(ReportBody::Fact { kind, value: value.to_owned() }))
}

fn parse_question(arguments: &Value) -> Option<ParsedCall> {
    let question = text(arguments, "question").filter(|text| !text.trim().is_empty())?.to_owned();
    let choice = |option: &Value| {
        let label = option.as_str()?.to_owned();
        Some(AnswerOption { label, description: String::new() })
    };
    let options = list(arguments, "options").iter().map(choice).collect::<Option<Vec<_>>>()?;
    Some(ParsedCall::Question { question, options })
}

fn report() -> ToolDefinition {
    tool(
        REPORT,
        "Report the status of the whole task to the supervisor. Call it when the work is completed or has failed, \
         or when the user has to decide something.",
        json!({
            "status": {"type": "string", "enum": ["working", "completed", "failed", "needs_input"]},
            "summary": {"type": "string", "description": "The work that is done, and the work that is not."},
        }),
        &["status", "summary"],
    )
}

fn progress() -> ToolDefinition {
    tool(
        PROGRESS,
        "Report progress to the supervisor, in steps of your choice.",
        json!({"done": {"type": "integer", "minimum": 0}, "total": {"type": "integer", "minimum": 1}}),
        &["done", "total"],
    )
}

fn fact() -> ToolDefinition {
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

fn ask() -> ToolDefinition {
    tool(
        ASK,
        "Ask the user one question and wait for the answer, which is free text. Use it only for things that you \
         cannot find out or decide yourself.",
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
) -> ToolDefinition {
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    ToolDefinition { name, description, schema }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_calls_are_parsed() {
        let claim = parse_call(REPORT, &json!({"status": "failed", "summary": "no"}));
        let text = Some("no".to_owned());
        let kind = ClaimKind::Failed;
        assert_eq!(claim, Ok(ParsedCall::Testimony(ReportBody::Claim { kind, text })));
        let progress = parse_call(PROGRESS, &json!({"done": 1, "total": 3}));
        assert_eq!(progress, Ok(ParsedCall::Progress(Progress { done: 1, total: 3 })));
        assert!(matches!(
            parse_call(ASK, &json!({"question": "which?", "options": ["a", "b"]})),
            Ok(ParsedCall::Question { options, .. }) if options.len() == 2
        ));
    }

    #[test]
    fn malformed_tool_call_names_expected_fields() {
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
            let message = parse_call(tool, &arguments).unwrap_err();
            assert!(message.starts_with(tool), "{message}");
        }
        assert!(parse_call("lookup_ticket", &json!({})).is_err());
    }

    #[test]
    fn ask_tool_requires_questions_setting() {
        let count = |questions| {
            let settings = AgentSettings { questions, ..AgentSettings::default() };
            (available_tools(&settings).len(), instructions(&settings).contains(ASK))
        };
        assert_eq!((count(true), count(false)), ((4, true), (3, false)));
    }
}
