//! Codex as an adapter.

use std::{io, path::Path, sync::Arc};

use provost_agent::{
    Adapter, AgentInput, ConversationOptions, HookReport, MessageRenderer, Protocol,
    command::CommandProtocol,
    front_end::AgentFrontEnd,
    launch::{LaunchPlan, LaunchRequest},
    processes::{self, AgentSignature, OpenTranscript},
    screen::ScreenReader,
    terminal,
    transcript::TranscriptStore,
};
use provost_core::session::{AdapterId, AgentInterface, AgentMode};
use provost_sys::process::ProcessInstance;

use crate::{
    ADAPTER,
    front_end::CodexFrontEnd,
    home::clean,
    hooks, interface, launch,
    protocol::{AppServerProtocol, ExecProtocol, SCHEMA_EXPECTATIONS, encode as encode_app_server},
    record_signals, render,
    rollout::Rollout,
    screen::CodexScreen,
    transcripts::Rollouts,
};

/// Terms of Codex's protocols that must never be masked, in addition to those in
/// [`SCHEMA_EXPECTATIONS`].
const PROTOCOL_TERMS: &[&str] = &[
    "agent_message",
    "command_execution",
    "commentary",
    "codexErrorInfo",
    "dynamicToolCall",
    "emittedAtMs",
    "file_change",
    "httpStatusCode",
    "inProgress",
    "initialized",
    "input_tokens",
    "item.completed",
    "item.started",
    "mcp_tool_call",
    "output_tokens",
    "protocolVersion",
    "provost/probe",
    "rateLimitExceeded",
    "requestedSchema",
    "thread.started",
    "thread_id",
    "turn.completed",
    "turn.failed",
    "turn.started",
    "usageLimitExceeded",
    "userAgent",
];

/// How Codex's processes are recognized.
const SIGNATURE: AgentSignature = AgentSignature {
    name: "codex",
    marks: &["codex", "codex-cli", "codex_cli"],
    programs: &["codex", "codex-x86_64-unknown-linux-musl", "codex-aarch64-unknown-linux-musl"],
    packages: &[("@openai", "codex*")],
};

/// The adapter for all modes of Codex.
#[derive(Debug)]
pub struct CodexAdapter;

impl Adapter for CodexAdapter {
    fn id(&self) -> AdapterId {
        ADAPTER
    }

    fn interface(&self, mode: AgentMode) -> Option<AgentInterface> {
        Some(interface(mode))
    }

    fn front_end(&self) -> Option<&dyn AgentFrontEnd> {
        Some(&CodexFrontEnd)
    }

    fn protocol(
        &self,
        interface: &AgentInterface,
        options: ConversationOptions,
    ) -> Box<dyn Protocol> {
        match interface.mode {
            AgentMode::Headless => Box::new(AppServerProtocol::new(options)),
            AgentMode::Once => Box::new(ExecProtocol::new(options)),
            AgentMode::Terminal => Box::new(CommandProtocol),
        }
    }

    fn encode(&self, interface: &AgentInterface, input: &AgentInput<'_>) -> Option<Vec<u8>> {
        match interface.mode {
            AgentMode::Headless => encode_app_server(input),
            AgentMode::Once => None,
            AgentMode::Terminal => terminal::encode(interface, input),
        }
    }

    fn protocol_terms(&self) -> Vec<&'static str> {
        let expected = SCHEMA_EXPECTATIONS.iter();
        let expected = expected.flat_map(|need| need.fields.iter().copied().chain([need.name]));
        PROTOCOL_TERMS.iter().copied().chain(expected).collect()
    }

    fn plan_launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, String> {
        launch::plan(request)
    }

    fn remove_socket(&self, socket: &Path) {
        launch::remove_socket(socket);
    }

    fn transcripts(&self) -> Option<Arc<dyn TranscriptStore>> {
        Some(Arc::new(Rollouts))
    }

    fn screen(&self) -> Option<Arc<dyn ScreenReader>> {
        Some(Arc::new(CodexScreen))
    }

    fn parse_hook(&self, event: &[u8]) -> Result<HookReport, String> {
        let call = hooks::parse_hook(event)
            .map_err(|why| format!("this is not a Codex hook event: {why}"))?;
        Ok(record_signals::hook_report(call))
    }

    fn signature(&self) -> Option<AgentSignature> {
        Some(SIGNATURE)
    }

    fn clean_home(&self, dir: &Path) -> Result<(), String> {
        clean(&launch::codex_home(dir)).map(drop).map_err(|why| provost_sys::error_chain(&why))
    }

    fn renderer(&self, mode: AgentMode) -> Option<MessageRenderer> {
        render::renderer(mode)
    }

    fn is_running_agent(&self, process: &ProcessInstance) -> io::Result<bool> {
        processes::is_running(process, &SIGNATURE, &|path| {
            let file = Rollout::from_path(path, false)?.into();
            Some(OpenTranscript { adapter: ADAPTER, file })
        })
    }
}
