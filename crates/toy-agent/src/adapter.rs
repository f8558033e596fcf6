//! The toy agent as an adapter.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use provost_agent::{
    Adapter, AgentInput, ConversationOptions, MessageRenderer, Protocol,
    command::CommandProtocol,
    front_end::AgentFrontEnd,
    launch::{LaunchInput, LaunchPlan, LaunchRequest},
    screen::ScreenReader,
    terminal,
    transcript::TranscriptStore,
};
use provost_core::session::{
    AdapterId, AgentInterface, AgentMode, Capabilities, ConversationCapabilities, ExitZeroMeaning,
    ScreenCapabilities,
};

use crate::{
    HOME_VARIABLE,
    front_end::ToyFrontEnd,
    protocol::{ToyProtocol, encode, render},
    screen::ToyScreen,
    transcript::Talks,
};

/// The adapter of the toy agent. It runs on pipes or in a terminal.
#[derive(Debug)]
pub struct ToyAdapter;

impl Adapter for ToyAdapter {
    fn id(&self) -> AdapterId {
        AdapterId::from_static("toy")
    }

    fn interface(&self, mode: AgentMode) -> Option<AgentInterface> {
        let (transcript, signals) = match mode {
            AgentMode::Headless => (false, false),
            AgentMode::Terminal => (true, true),
            AgentMode::Once => return None,
        };
        let conversation = ConversationCapabilities { transcript, ..Default::default() };
        let capabilities = Capabilities {
            conversation: Some(conversation),
            exit_zero: ExitZeroMeaning::NotAClaim,
            screen: ScreenCapabilities { signals, ..Default::default() },
            ..Default::default()
        };
        Some(AgentInterface { adapter: self.id(), mode, capabilities })
    }

    fn front_end(&self) -> Option<&dyn AgentFrontEnd> {
        Some(&ToyFrontEnd)
    }

    fn protocol(
        &self,
        interface: &AgentInterface,
        _options: ConversationOptions,
    ) -> Box<dyn Protocol> {
        match interface.mode {
            AgentMode::Headless => Box::new(ToyProtocol),
            AgentMode::Once | AgentMode::Terminal => Box::new(CommandProtocol),
        }
    }

    fn encode(&self, interface: &AgentInterface, input: &AgentInput<'_>) -> Option<Vec<u8>> {
        match interface.mode {
            AgentMode::Headless => encode(input),
            AgentMode::Once => None,
            AgentMode::Terminal => terminal::encode(interface, input),
        }
    }

    fn plan_launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, String> {
        let home = home(request.dir);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&home)
            .map_err(|why| format!("cannot create {}: {why}", home.display()))?;
        let mode = match request.session.spec.agent.interface.mode {
            AgentMode::Terminal => "screen",
            AgentMode::Headless | AgentMode::Once => "serve",
        };
        Ok(LaunchPlan {
            arguments: vec![mode.to_owned()],
            removed_variables: Vec::new(),
            variables: vec![(HOME_VARIABLE.to_owned(), home)],
            input: LaunchInput::Usual,
        })
    }

    fn transcripts(&self) -> Option<Arc<dyn TranscriptStore>> {
        Some(Arc::new(Talks))
    }

    fn screen(&self) -> Option<Arc<dyn ScreenReader>> {
        Some(Arc::new(ToyScreen))
    }

    fn renderer(&self, mode: AgentMode) -> Option<MessageRenderer> {
        (mode == AgentMode::Headless).then_some(render)
    }
}

/// Returns the agent's home inside the directory that belongs to a session's agent.
pub(crate) fn home(dir: &Path) -> PathBuf {
    dir.join("toy")
}
