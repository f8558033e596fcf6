//! Routes for what agents send: reports, hook events and tool calls.

use axum::{Json, response::IntoResponse};
use provost_api::{ApiError, CallRequest, ErrorCode, ReportReply, ReportRequest, SessionRow};
use provost_core::{ids::LaunchId, session::Reporter, team::MemberCall};
use provost_engine::{
    report::{self, check_text},
    shell::{EngineRequest, watch},
};
use serde_json::Value;

use super::request::{Call, JsonBody, RouteResult, Sender, bad_request};

pub(super) async fn take_report(
    Call { sender, body: JsonBody(request) }: Call<JsonBody<ReportRequest>>,
) -> RouteResult {
    let launch = sender.reporter(request.launch.as_deref(), request.token.as_deref())?;
    let from = launch.map_or(Reporter::Operator, Reporter::Launch);
    // A caller that has the token of a launch acts as that launch, regardless of where its process comes from.
    let sender = sender.speaking_as(launch);
    if let (Some(hook), Some(launch)) = (&request.hook, launch) {
        return take_hook(&sender, launch, hook).await;
    }
    let testimony = report::parse_testimony(&request)?;
    let ask = EngineRequest::Report { session: request.session, from, testimony };
    sender.submit("report", ask).await
}

/// Handles a tool call. The daemon has verified which launch the caller belongs to, so the caller
/// can act only as the member of its own session.
pub(super) async fn take_call(
    Call { sender, body: JsonBody(request) }: Call<JsonBody<CallRequest>>,
) -> RouteResult {
    let (launch, token) = (request.launch.as_deref(), request.token.as_deref());
    let launch = sender.reporter(launch, token)?.ok_or_else(|| {
        let message = "only agents call tools; use the `provost team` commands";
        ApiError::new(ErrorCode::Forbidden, message).next("provost team --help")
    })?;
    check_text(&request.id, "id")?;
    let call: MemberCall = serde_json::from_value(request.call)
        .map_err(|why| bad_request(format!("the call cannot be read: {why}")))?;
    let ask = EngineRequest::ToolCall { launch, native: request.id, call: Box::new(call) };
    sender.speaking_as(Some(launch)).submit("call", ask).await
}

/// Handles an event from an agent's hook. The daemon has verified which launch the caller belongs
/// to, so the caller can report only for itself.
async fn take_hook(sender: &Sender, launch: LaunchId, hook: &Value) -> RouteResult {
    let daemon = &sender.daemon;
    let given = sender.key().unwrap_or_default();
    let actor = format!("hook/{launch}");
    let key = format!("launch/{launch}/report/{given}");
    watch::take_hook_event(&daemon.world, &daemon.handle, launch, hook, &actor, &key).await?;
    let SessionRow { id, state, sealed, .. } =
        daemon.handle.session(launch.session.to_string()).await?.session;
    let status = "recorded".to_owned();
    let reply = ReportReply { ok: true, status, id, state, sealed, next: Vec::new() };
    Ok(Json(reply).into_response())
}
