//! Requests from the server: approvals, questions and tool calls.

use std::hash::{DefaultHasher, Hash, Hasher};

use provost_agent::tools::{ACCEPTED, NOT_THE_MAIN_AGENT, ParsedCall, parse_call};
use provost_core::{request::AgentRequest, session::StreamSignal};
use serde_json::Value;

use super::{
    super::{
        notification::ItemLocation,
        open_requests::{MAX_WAITING, PendingServerRequest},
        request_token::RequestToken,
        requests, tools,
        wire::{self, RpcId, text},
    },
    AppServerProtocol,
};

impl AppServerProtocol {
    pub(super) fn handle_request(
        &mut self,
        id: &RpcId,
        method: &str,
        params: &Value,
    ) -> Option<StreamSignal> {
        if self.requests.is_repeat(id, fingerprint(method, params)) {
            return None;
        }
        if method == "item/tool/call" {
            return self.handle_tool_call(id, params);
        }
        let asked = requests::parse_request(method, id, params, &self.items);
        self.ask(id, method, params, asked).map_err(|why| self.refuse_request(id, &why)).ok()
    }

    fn handle_tool_call(&mut self, id: &RpcId, params: &Value) -> Option<StreamSignal> {
        let tool = text(params, "tool").unwrap_or_default();
        let called = parse_call(tool, &params["arguments"]);
        let from_root = self.is_root(text(params, "threadId"));
        let signal = match called {
            Ok(ParsedCall::Question { question, options }) => {
                let asked = requests::question_from_tool(id, question, options);
                self.ask(id, "item/tool/call", params, asked)
            }
            Ok(_) if !from_root => Err(NOT_THE_MAIN_AGENT.to_owned()),
            Ok(ParsedCall::TeamCall(call)) => {
                let native = RequestToken::Tool(id.clone()).encode();
                let call = Box::new(call);
                self.record_open_request(id, "item/tool/call", params, &native)
                    .map(|()| StreamSignal::ToolCalled { native, call })
            }
            Ok(ParsedCall::Testimony(testimony)) => Ok(StreamSignal::Reported(testimony)),
            Ok(ParsedCall::Progress(progress)) => Ok(StreamSignal::Progress(progress)),
            Err(expected) => Err(expected),
        };
        match signal {
            Ok(signal @ (StreamSignal::RequestOpened(_) | StreamSignal::ToolCalled { .. })) => {
                Some(signal)
            }
            Ok(signal) => {
                self.reply(id, ACCEPTED, true);
                Some(signal)
            }
            Err(why) => {
                self.reply(id, &why, false);
                None
            }
        }
    }

    fn ask(
        &mut self,
        id: &RpcId,
        method: &str,
        params: &Value,
        asked: Result<AgentRequest, String>,
    ) -> Result<StreamSignal, String> {
        let mut asked = asked?;
        self.record_open_request(id, method, params, &asked.native)?;
        if !self.is_root(text(params, "threadId")) {
            asked.title = format!("(sub-agent) {}", asked.title);
        }
        Ok(StreamSignal::RequestOpened(asked))
    }

    /// Records a request from the server that only the session can answer.
    fn record_open_request(
        &mut self,
        id: &RpcId,
        method: &str,
        params: &Value,
        native: &str,
    ) -> Result<(), String> {
        if self.requests.is_full() {
            return Err(format!("{MAX_WAITING} requests are already pending"));
        }
        let item = text(params, "itemId").or(text(params, "callId"));
        self.requests.open(PendingServerRequest {
            id: id.clone(),
            native: native.to_owned(),
            turn: ItemLocation::from_params(params).turn,
            item: item.map(str::to_owned),
            decides: requests::decides_item(method, params),
            asked: fingerprint(method, params),
        });
        Ok(())
    }

    fn reply(&mut self, id: &RpcId, text: &str, success: bool) {
        let line = wire::answer(id, tools::reply(text, success));
        self.outbox.enqueue(id.key("p:reply-"), line);
    }

    fn refuse_request(&mut self, id: &RpcId, why: &str) {
        let line = wire::error_line(id, &format!("provost cannot handle this request: {why}"));
        self.outbox.enqueue(id.key("p:refuse-"), line);
    }
}

fn fingerprint(method: &str, params: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (method, params.to_string()).hash(&mut hasher);
    hasher.finish()
}
