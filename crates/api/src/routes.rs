//! The routes of the API with their types, and the OpenAPI document that describes them.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    AnswerRequest, ApproveRunRequest, ArchiveReply, ArchiveRequest, AuditReply, CallReply,
    CallRequest, CancelRequest, DaemonInfo, ErrorBody, EventsReply, GcReply, GcRequest, GraphReply,
    HandoffReply, IDEMPOTENCY_KEY, InterruptRequest, LimitRequest, LookupReply, NextReply,
    NextRequest, OkReply, OpenRunRequest, OpenSessionReply, OpenSessionRequest, OpenTeamReply,
    OpenTeamRequest, OverviewReply, PROTOCOL, PairRequest, PastReply, RejectRunRequest,
    RenameRequest, ReplayReply, ReportReply, ReportRequest, ResolveRequest, RunChangeReply,
    RunReply, RunsReply, SearchReply, SendRequest, SessionReply, SessionsReply, StopDaemonReply,
    StopUnknownReply, TeamChangeReply, TeamCommandRequest, TeamMessagesReply, TeamReply,
    TeamWaitReply, TeamsReply, TelemetryReply, VerifyReply, VerifyRequest, WhyReply,
};

/// A route of the API.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// `GET` or `POST`.
    pub method: &'static str,
    pub path: &'static str,
    /// The purpose of the route, as an imperative.
    pub summary: &'static str,
    /// The names and meanings of the query parameters.
    query: &'static [(&'static str, &'static str)],
    body: Option<SchemaFn>,
    reply: SchemaFn,
}

type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

const fn get<R: JsonSchema>(
    path: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
) -> Route {
    let reply = SchemaGenerator::subschema_for::<R>;
    Route { method: "GET", path, summary, query, body: None, reply }
}

const fn post<B: JsonSchema, R: JsonSchema>(path: &'static str, summary: &'static str) -> Route {
    let body: Option<SchemaFn> = Some(SchemaGenerator::subschema_for::<B>);
    let reply = SchemaGenerator::subschema_for::<R>;
    Route { method: "POST", path, summary, query: &[], body, reply }
}

/// A change without a body.
const fn command<R: JsonSchema>(path: &'static str, summary: &'static str) -> Route {
    let reply = SchemaGenerator::subschema_for::<R>;
    Route { method: "POST", path, summary, query: &[], body: None, reply }
}

const FINISHED_LIMIT: (&str, &str) = ("limit", "Maximum number of finished runs or teams.");
const CONTENT: (&str, &str) = ("content", "1 to include the text that users and agents wrote.");
const AS_MEMBER: (&str, &str) = ("as", "The member to act as. Only for the operator.");
const LAUNCH: (&str, &str) = ("launch", "The calling launch, if its process does not identify it.");
const TOKEN: (&str, &str) = ("token", "The token of the calling launch.");

/// All routes, in the order in which the daemon registers them.
pub const ROUTES: &[Route] = &[
    get::<DaemonInfo>("/v1/daemon", "Describe the daemon", &[]),
    get::<OkReply>("/v1/daemon/operator", "Fail unless the caller is the operator", &[]),
    get::<LookupReply>(
        "/v1/lookup",
        "Find what an id, part of an id, or name refers to",
        &[("name", "The id, part of an id, or name.")],
    ),
    command::<StopDaemonReply>("/v1/daemon/stop", "Stop the daemon"),
    get::<SessionsReply>(
        "/v1/sessions",
        "List sessions, and runs that match the same filter",
        &[
            ("role", "Only sessions with this role."),
            ("state", "Only sessions in this state."),
            ("project", "Only sessions of this project."),
            ("limit", "Maximum number of sessions."),
            ("all", "1 to list all sessions."),
        ],
    ),
    post::<OpenSessionRequest, OpenSessionReply>("/v1/sessions", "Open a session"),
    get::<SessionReply>("/v1/sessions/{id}", "Show a session", &[]),
    get::<WhyReply>("/v1/sessions/{id}/why", "Explain the state of a session", &[]),
    post::<SendRequest, SessionReply>("/v1/sessions/{id}/send", "Send a message to an agent"),
    post::<InterruptRequest, SessionReply>(
        "/v1/sessions/{id}/interrupt",
        "Interrupt the turn of an agent",
    ),
    command::<SessionReply>("/v1/sessions/{id}/compact", "Compact the conversation of an agent"),
    command::<SessionReply>("/v1/sessions/{id}/stop", "Stop the process of a session"),
    post::<CancelRequest, SessionReply>("/v1/sessions/{id}/cancel", "Cancel a session"),
    post::<ResolveRequest, SessionReply>(
        "/v1/sessions/{id}/resolve",
        "Choose the outcome of a session",
    ),
    post::<AnswerRequest, SessionReply>("/v1/sessions/{id}/answer", "Answer an agent's request"),
    post::<LimitRequest, SessionReply>("/v1/sessions/{id}/limit", "Raise the limits of a session"),
    post::<RenameRequest, SessionReply>("/v1/sessions/{id}/rename", "Rename a session"),
    command::<SessionReply>("/v1/sessions/{id}/take-over", "Continue an imported session"),
    get::<RunsReply>("/v1/runs", "List runs", &[FINISHED_LIMIT]),
    post::<OpenRunRequest, RunChangeReply>("/v1/runs", "Open a run"),
    get::<RunReply>("/v1/runs/{id}", "Show a run", &[]),
    get::<GraphReply>("/v1/runs/{id}/graph", "Show the plan of a run", &[]),
    post::<ApproveRunRequest, RunChangeReply>(
        "/v1/runs/{id}/approve",
        "Approve the plan or the landing of a run",
    ),
    post::<RejectRunRequest, RunChangeReply>(
        "/v1/runs/{id}/reject",
        "Reject the plan or the landing of a run",
    ),
    post::<CancelRequest, RunChangeReply>("/v1/runs/{id}/cancel", "Cancel a run"),
    command::<RunChangeReply>("/v1/runs/{id}/resume", "Resume a run"),
    command::<RunChangeReply>("/v1/runs/{id}/take-over", "Continue an imported run"),
    post::<LimitRequest, RunChangeReply>("/v1/runs/{id}/limit", "Raise the limits of a run"),
    get::<TeamsReply>("/v1/teams", "List teams", &[FINISHED_LIMIT]),
    post::<OpenTeamRequest, OpenTeamReply>("/v1/teams", "Open a team"),
    get::<TeamReply>("/v1/teams/{id}", "Show a team", &[AS_MEMBER, LAUNCH, TOKEN]),
    get::<TeamMessagesReply>(
        "/v1/teams/{id}/messages",
        "List the messages of a team",
        &[AS_MEMBER, LAUNCH, TOKEN],
    ),
    get::<OverviewReply>(
        "/v1/teams/{id}/cycle",
        "Show everything needed to decide a team's next step",
        &[("since", "Entries after this event are new."), AS_MEMBER, LAUNCH, TOKEN],
    ),
    get::<TeamWaitReply>(
        "/v1/teams/{id}/wait",
        "Show whether a check or audit is over",
        &[
            ("check", "The number of the check."),
            ("audit", "The number of the audit."),
            AS_MEMBER,
            LAUNCH,
            TOKEN,
        ],
    ),
    get::<HandoffReply>(
        "/v1/teams/{id}/handoff",
        "Show the prompts for a team's members",
        &[("member", "The member; all members if missing."), AS_MEMBER, LAUNCH, TOKEN],
    ),
    post::<TeamCommandRequest, TeamChangeReply>("/v1/teams/{id}/do", "Change a team"),
    post::<NextRequest, NextReply>("/v1/teams/{id}/next", "Take the caller's next message"),
    post::<PairRequest, OpenTeamReply>("/v1/pairs", "Open a team with all its members"),
    post::<ReportRequest, ReportReply>("/v1/reports", "Report about a session"),
    post::<CallRequest, CallReply>("/v1/calls", "Call a tool as a member of a team"),
    get::<EventsReply>(
        "/v1/events",
        "List events, or follow them as server-sent events",
        &[
            ("since", "Only events after this sequence number."),
            ("session", "Only events of this session."),
            ("run", "Only events of this run and its sessions."),
            ("team", "Only events of this team."),
            ("limit", "Maximum number of events."),
            ("follow", "1 to stream events as they happen."),
        ],
    ),
    get::<PastReply>(
        "/v1/history/{id}",
        "Show a past state, or the difference between two events",
        &[
            ("at", "The event after which to show the state."),
            ("from", "The first of two events to compare."),
            ("to", "The second of two events to compare."),
        ],
    ),
    get::<ReplayReply>(
        "/v1/teams/{id}/replay",
        "Replay a team",
        &[("as", "compact, timeline or transcript."), CONTENT],
    ),
    get::<AuditReply>("/v1/teams/{id}/audit", "Audit a team", &[CONTENT]),
    get::<SearchReply>(
        "/v1/search",
        "Search sessions, runs, teams, members and events",
        &[
            ("words", "The search terms."),
            ("in", "The kinds to search, separated by commas."),
            ("limit", "Maximum number of results of each kind."),
        ],
    ),
    get::<TelemetryReply>(
        "/v1/telemetry",
        "Measure the work of teams",
        &[("team", "Only this team."), ("window_ms", "The period to cover, in milliseconds.")],
    ),
    post::<VerifyRequest, VerifyReply>("/v1/verify", "Run the command of a verifier"),
    post::<GcRequest, GcReply>("/v1/gc", "Show or remove files of closed sessions, runs and teams"),
    post::<ArchiveRequest, ArchiveReply>("/v1/ledger/archive", "Archive closed streams"),
    command::<StopUnknownReply>(
        "/v1/ledger/stop-unknown",
        "Stop processes that are not in the ledger",
    ),
];

/// Returns the OpenAPI document of all routes.
pub fn open_api() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut generator);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Provost",
            "description": "The API of the daemon, on the Unix socket daemon.sock in its home.",
            "version": PROTOCOL.to_string(),
        },
        "paths": paths,
        "components": { "schemas": generator.take_definitions(true) },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut parameters = Vec::new();
    if route.path.contains("{id}") {
        parameters.push(parameter("id", "path", "An id, part of an id, or name.", true));
    }
    parameters.extend(route.query.iter().map(|(name, what)| parameter(name, "query", what, false)));
    if route.method == "POST" {
        let what = "A request with the same key is applied only once.";
        parameters.push(parameter(IDEMPOTENCY_KEY, "header", what, false));
    }
    let content = |schema: Schema| json!({ "application/json": { "schema": schema } });
    let mut operation = json!({
        "summary": route.summary,
        "responses": {
            "200": { "description": "Success", "content": content((route.reply)(generator)) },
            "default": {
                "description": "Failure",
                "content": content(generator.subschema_for::<ErrorBody>()),
            },
        },
    });
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(body) = route.body {
        operation["requestBody"] = json!({ "required": true, "content": content(body(generator)) });
    }
    operation
}

fn parameter(name: &str, place: &str, what: &str, required: bool) -> Value {
    json!({
        "name": name,
        "in": place,
        "description": what,
        "required": required,
        "schema": { "type": "string" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_the_document_exists() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let document = open_api();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > ROUTES.len(), "{} references", found.len());
        for pointer in found {
            let target = document.pointer(pointer.trim_start_matches('#'));
            assert!(target.is_some(), "{pointer}");
        }
    }
}
