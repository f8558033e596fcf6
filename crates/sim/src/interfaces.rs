//! The kinds of agents in scenarios, besides plain commands and agents that exchange JSON lines.

use provost_core::session::{
    AdapterId, AgentInterface, AgentMode, Capabilities, CompactionRequest, Composer,
    ConversationCapabilities, ExitZeroMeaning, ScreenCapabilities, ToolSupport,
};

const ADAPTER: AdapterId = AdapterId::from_static("simulated");

/// An agent that serves a conversation over a protocol with a handshake.
pub(crate) fn server() -> AgentInterface {
    let conversation = ConversationCapabilities {
        handshake: true,
        resume: true,
        new_threads: true,
        compaction: Some(CompactionRequest::Message),
        confirms_input: true,
        names_turns: true,
        attach: true,
        ..ConversationCapabilities::default()
    };
    AgentInterface {
        adapter: ADAPTER,
        mode: AgentMode::Headless,
        capabilities: Capabilities {
            conversation: Some(conversation),
            exit_zero: ExitZeroMeaning::NotAClaim,
            tools: ToolSupport::Given,
            stderr_is_log: true,
            ..Capabilities::default()
        },
    }
}

/// An agent that receives one instruction per process.
pub(crate) fn one_shot() -> AgentInterface {
    let conversation =
        ConversationCapabilities { resume: true, ..ConversationCapabilities::default() };
    AgentInterface {
        adapter: ADAPTER,
        mode: AgentMode::Once,
        capabilities: Capabilities {
            conversation: Some(conversation),
            exit_zero: ExitZeroMeaning::SuccessfulTurn,
            tools: ToolSupport::Given,
            ..Capabilities::default()
        },
    }
}

/// An agent with its own screen, whose composer interprets some texts.
pub(crate) fn screen() -> AgentInterface {
    let conversation = ConversationCapabilities {
        resume: true,
        compaction: Some(CompactionRequest::Typed("/compact".to_owned())),
        transcript: true,
        ..ConversationCapabilities::default()
    };
    let composer = Composer {
        command_prefixes: "/".to_owned(),
        shell_prefixes: "!".to_owned(),
        completion_prefixes: "@$".to_owned(),
    };
    AgentInterface {
        adapter: ADAPTER,
        mode: AgentMode::Terminal,
        capabilities: Capabilities {
            conversation: Some(conversation),
            exit_zero: ExitZeroMeaning::NotAClaim,
            tools: ToolSupport::Given,
            screen: ScreenCapabilities { composer, signals: true },
            ..Capabilities::default()
        },
    }
}
