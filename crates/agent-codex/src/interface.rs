//! The capabilities of Codex in each of its modes.

use provost_core::session::{
    AdapterId, AgentInterface, AgentMode, Capabilities, CompactionRequest, Composer,
    ConversationCapabilities, ExitZeroMeaning, ScreenCapabilities, ToolSupport,
};

/// The id of the adapter.
pub const ADAPTER: AdapterId = AdapterId::from_static("codex");

/// Returns the interface to Codex's app-server, to `codex exec` or to its TUI.
pub fn interface(mode: AgentMode) -> AgentInterface {
    let capabilities = match mode {
        AgentMode::Headless => app_server(),
        AgentMode::Once => exec(),
        AgentMode::Terminal => tui(),
    };
    AgentInterface { adapter: ADAPTER, mode, capabilities }
}

fn app_server() -> Capabilities {
    Capabilities {
        conversation: Some(ConversationCapabilities {
            handshake: true,
            resume: true,
            new_threads: true,
            compaction: Some(CompactionRequest::Message),
            confirms_input: true,
            names_turns: true,
            transcript: false,
            attach: true,
        }),
        exit_zero: ExitZeroMeaning::NotAClaim,
        tools: ToolSupport::Given,
        own_sandbox: true,
        screen: ScreenCapabilities::default(),
        stderr_is_log: true,
    }
}

fn exec() -> Capabilities {
    Capabilities {
        conversation: Some(ConversationCapabilities {
            resume: true,
            ..ConversationCapabilities::default()
        }),
        exit_zero: ExitZeroMeaning::SuccessfulTurn,
        tools: ToolSupport::Given,
        own_sandbox: true,
        ..Capabilities::default()
    }
}

fn tui() -> Capabilities {
    Capabilities {
        conversation: Some(ConversationCapabilities {
            resume: true,
            compaction: Some(CompactionRequest::Typed("/compact".to_owned())),
            transcript: true,
            ..ConversationCapabilities::default()
        }),
        exit_zero: ExitZeroMeaning::NotAClaim,
        tools: ToolSupport::Given,
        own_sandbox: true,
        screen: ScreenCapabilities { composer: composer(), signals: true },
        ..Capabilities::default()
    }
}

/// Returns how Codex's composer interprets texts: `/` is a slash command, `!` is a shell command,
/// and `@` and `$` open completions.
fn composer() -> Composer {
    Composer {
        command_prefixes: "/".to_owned(),
        shell_prefixes: "!".to_owned(),
        completion_prefixes: "@$".to_owned(),
    }
}
