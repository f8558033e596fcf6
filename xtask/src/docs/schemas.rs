//! JSON Schemas of the configuration and of all API objects.

use anyhow::Result;
use provost_api as api;
use schemars::schema_for;
use serde_json::Value;

use super::{Document, SCHEMAS};

/// Returns one document for each schema.
pub(super) fn documents() -> Result<Vec<Document>> {
    let schemas = [
        ("answer-request", schema_for!(api::AnswerRequest).to_value()),
        ("audit", schema_for!(api::AuditReply).to_value()),
        ("cancel-request", schema_for!(api::CancelRequest).to_value()),
        ("daemon-info", schema_for!(api::DaemonInfo).to_value()),
        ("diff", schema_for!(api::DiffReply).to_value()),
        ("error", schema_for!(api::ErrorBody).to_value()),
        ("event", schema_for!(api::EventRow).to_value()),
        ("limit-request", schema_for!(api::LimitRequest).to_value()),
        ("rename-request", schema_for!(api::RenameRequest).to_value()),
        ("verify-request", schema_for!(api::VerifyRequest).to_value()),
        ("verify-reply", schema_for!(api::VerifyReply).to_value()),
        ("news", schema_for!(api::RecentEventsRow).to_value()),
        ("open-request", schema_for!(api::OpenSessionRequest).to_value()),
        ("open-run-request", schema_for!(api::OpenRunRequest).to_value()),
        ("replay", schema_for!(api::ReplayReply).to_value()),
        ("report-reply", schema_for!(api::ReportReply).to_value()),
        ("report-request", schema_for!(api::ReportRequest).to_value()),
        ("resolve-request", schema_for!(api::ResolveRequest).to_value()),
        ("run", schema_for!(api::RunRow).to_value()),
        ("handoff", schema_for!(api::HandoffRow).to_value()),
        ("heartbeat", schema_for!(api::HeartbeatRow).to_value()),
        ("inbox-item", schema_for!(api::InboxItemRow).to_value()),
        ("interrupt-request", schema_for!(api::InterruptRequest).to_value()),
        ("search", schema_for!(api::SearchReply).to_value()),
        ("send-request", schema_for!(api::SendRequest).to_value()),
        ("session", schema_for!(api::SessionRow).to_value()),
        ("team", schema_for!(api::TeamRow).to_value()),
        ("team-message", schema_for!(api::TeamMessageRow).to_value()),
        ("telemetry", schema_for!(api::TelemetryReply).to_value()),
        ("as-of", schema_for!(api::AsOfReply).to_value()),
        ("why", schema_for!(api::WhyReply).to_value()),
    ];
    let versioned = schemas.into_iter().map(|(name, mut schema)| {
        schema["$id"] = format!("urn:provost:json:{}:{name}", api::JSON_VERSION).into();
        (name, schema)
    });
    let all = versioned.chain([("config", provost_config::schema())]);
    all.map(|(name, schema)| document(name, &schema)).collect()
}

fn document(name: &str, schema: &Value) -> Result<Document> {
    let text = format!("{}\n", serde_json::to_string_pretty(schema)?);
    Ok(Document { path: format!("{SCHEMAS}/{name}.json"), text })
}
