//! Tool calls with which a member acts on its team.
//!
//! A call is recorded when it is read, and is answered in the same commit, after the team has
//! decided on it. The answer is delivered to the agent like any other message, so a crash at any
//! point neither loses nor repeats a call.

use serde::{Deserialize, Serialize};

use super::{
    command::SessionRejection,
    event::{Event, ToolAnswered, ToolCalled},
    launch::Cursor,
    state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
};
use crate::{ids::LaunchId, limits::MAX_REPORTS, team, time::Moment};

/// The maximum number of calls to keep in memory in order to recognize repeated ones. The session's
/// events contain all of them.
pub const MAX_CALLS_KEPT: usize = 100;

/// The maximum length of an answer to a call, in bytes.
pub const MAX_ANSWER: usize = 16 << 10;

/// The tool calls of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCalls {
    /// The total number of calls.
    pub made: u32,
    /// The newest calls.
    pub kept: Vec<ToolCall>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's number within the session.
    pub no: u32,
    pub launch: LaunchId,
    /// The agent's id for the call, unique within its launch.
    pub native: String,
    /// The call itself. Cleared once it is answered.
    pub open: Option<team::MemberCall>,
    /// Whether the call arrived on the agent's stream, in which case the answer is written there as
    /// well. Otherwise, the caller waits for the answer.
    pub in_stream: bool,
}

/// The answer to a call, on its way to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallResult {
    pub launch: LaunchId,
    pub native: String,
    pub ok: bool,
}

/// The number of reports from a launch after which calls on its stream are no longer answered. This
/// is twice the number of reports that are recorded.
const MAX_REPORTS_ANSWERED: u32 = 2 * MAX_REPORTS;

/// The maximum length of a call id that is still answered when the budget is used up, in bytes.
const MAX_REFUSED_ID_BYTES: usize = 256;

type CommandResult = Result<Vec<Event>, SessionRejection>;

impl ToolCalls {
    pub fn is_empty(&self) -> bool {
        self.made == 0
    }

    /// Returns the call that has not been answered yet.
    pub fn open(&self) -> Option<&ToolCall> {
        self.kept.iter().find(|call| call.open.is_some())
    }
}

impl Session {
    /// Accepts a call from the current launch, once.
    pub(super) fn decide_call(
        &self,
        launch: LaunchId,
        native: &str,
        call: &team::MemberCall,
        cursor: Option<Cursor>,
    ) -> CommandResult {
        let caller = self.launch(launch).ok_or(SessionRejection::UnknownLaunch(launch))?;
        // An older launch no longer waits for answers to its calls.
        let current = self.current_launch().is_some_and(|current| current.id == launch);
        let known = |one: &ToolCall| one.launch == launch && one.native == native;
        if !current || self.calls.kept.iter().any(known) {
            return Err(SessionRejection::NothingNew);
        }
        let (no, native) = (self.calls.made + 1, native.to_owned());
        if caller.reports.has_room_for(native.len() + encoded_size(call)) {
            let call = Box::new(call.clone());
            return Ok(vec![ToolCalled { no, launch, native, call, cursor }.into()]);
        }
        let refused = SessionRejection::ReportBudget { launch };
        if cursor.is_none() {
            return Err(refused);
        }
        if native.len() > MAX_REFUSED_ID_BYTES || caller.reports.count >= MAX_REPORTS_ANSWERED {
            return Err(SessionRejection::NothingNew);
        }
        // On the stream, the agent waits for an answer, so explain the rejection to it.
        let mark = self.mark_reports_refused(caller).unwrap_or_default();
        let call = Box::new(team::MemberCall::Invalid { why: refused.to_string() });
        let called = ToolCalled { no, launch, native, call, cursor };
        Ok(mark.into_iter().chain([called.into()]).collect())
    }

    pub(super) fn answer_call(&self, no: u32, ok: bool, text: &str) -> CommandResult {
        let open =
            self.calls.open().filter(|call| call.no == no).ok_or(SessionRejection::NothingNew)?;
        Ok(vec![ToolAnswered { no: open.no, ok, text: truncate_answer(text) }.into()])
    }

    pub(super) fn record_call(&mut self, e: &ToolCalled, at: Moment) {
        self.advance_cursor(Some(e.launch), e.cursor, at);
        self.count_report(e.launch, e.native.len() + encoded_size(&e.call));
        self.calls.made = e.no;
        self.calls.kept.push(ToolCall {
            no: e.no,
            launch: e.launch,
            native: e.native.clone(),
            open: Some((*e.call).clone()),
            in_stream: e.cursor.is_some(),
        });
        let surplus = self.calls.kept.len().saturating_sub(MAX_CALLS_KEPT);
        self.calls.kept.drain(..surplus);
    }

    /// Queues the answer to a call that arrived on the stream.
    pub(super) fn queue_call_result(&mut self, e: &ToolAnswered) {
        let Some(call) = self.calls.kept.iter_mut().find(|call| call.no == e.no) else { return };
        call.open = None;
        if !call.in_stream {
            return;
        }
        let (launch, native) = (call.launch, call.native.clone());
        let attempt = self.attempt().no;
        self.input.messages.push(AgentMessage {
            key: format!("call-{}", e.no),
            kind: AgentMessageKind::Returned,
            text: e.text.clone(),
            request: None,
            reply: None,
            returned: Some(ToolCallResult { launch, native, ok: e.ok }),
            attempt,
            status: DeliveryStatus::Queued,
            refusals: 0,
            typed: None,
            unconfirmed_reason: None,
            occasion: None,
        });
    }
}

/// Returns the size of a call in the ledger, in bytes.
fn encoded_size(call: &team::MemberCall) -> usize {
    serde_json::to_string(call).map_or(0, |text| text.len())
}

fn truncate_answer(text: &str) -> String {
    if text.len() <= MAX_ANSWER {
        return text.to_owned();
    }
    let note = format!(" … (truncated; {} bytes in total)", text.len());
    let mut end = MAX_ANSWER - note.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{note}", &text[..end])
}
