//! The port to one kind of agent, and the adapters that a program knows.

use std::{fmt, io, path::Path, sync::Arc};

use provost_core::{
    request::{AgentRequest, RequestReply},
    session::{AdapterId, AgentInterface, AgentMode, RecordSignal},
};
use provost_sys::process::ProcessInstance;

use crate::{
    AgentInput, ConversationOptions, Protocol, command, jsonl,
    launch::{LaunchPlan, LaunchRequest},
    masks,
    screen::ScreenReader,
    terminal,
    transcript::TranscriptStore,
};

/// Everything that the engine needs to know about one kind of agent. The facts that the core needs
/// are stored with each session, as its [`AgentInterface`].
///
/// The defaults describe a plain command. Functions that do I/O may block.
pub trait Adapter: Send + Sync {
    fn id(&self) -> AdapterId;

    /// Returns the protocol of a new launch.
    fn protocol(
        &self,
        _interface: &AgentInterface,
        _options: ConversationOptions,
    ) -> Box<dyn Protocol> {
        Box::new(command::CommandProtocol)
    }

    /// Encodes a message for the agent. Returns `None` if its protocol cannot express the message.
    fn encode(&self, interface: &AgentInterface, input: &AgentInput<'_>) -> Option<Vec<u8>> {
        match interface.mode {
            AgentMode::Headless => command::encode(input),
            AgentMode::Once => None,
            AgentMode::Terminal => terminal::encode(interface, input),
        }
    }

    /// Returns the terms of the agent's own protocol that must never be masked, because masking them
    /// would break the conversation.
    fn protocol_terms(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Prepares everything that a launch needs besides its command, and returns the additions to
    /// the command. Repeated calls for the same launch yield the same result.
    fn plan_launch(&self, _request: &LaunchRequest<'_>) -> Result<LaunchPlan, String> {
        Ok(LaunchPlan::default())
    }

    /// Removes the files that remain if a process is killed while it listens on this socket.
    fn remove_socket(&self, _socket: &Path) {}

    /// Returns the store of the files in which the agent records its conversations. Returns `None`
    /// if the agent does not record them.
    fn transcripts(&self) -> Option<Arc<dyn TranscriptStore>> {
        None
    }

    /// Returns the interpreter of the agent's screen, if there is one.
    fn screen(&self) -> Option<Arc<dyn ScreenReader>> {
        None
    }

    /// Parses an event that the agent's hooks reported.
    fn parse_hook(&self, _event: &[u8]) -> Result<HookReport, String> {
        Err(format!("agents of the kind \"{}\" have no hooks", self.id()))
    }

    /// Whether this process is still running and runs the agent's own program. A later process with
    /// the same pid does not count.
    fn is_running_agent(&self, _process: &ProcessInstance) -> io::Result<bool> {
        Ok(false)
    }
}

/// An event that an agent's hooks reported.
#[derive(Clone, Debug, PartialEq)]
pub struct HookReport {
    /// The conversation in which the event happened.
    pub thread: String,
    /// Whether the event happened in a sub-agent of the conversation.
    pub from_subagent: bool,
    /// Whether a user submits input in the conversation, and may therefore have switched to it.
    pub takes_input: bool,
    /// The signals of the event, in the order in which they must be recorded.
    pub signals: Vec<RecordSignal>,
}

/// The adapter of commands without a protocol.
#[derive(Debug)]
pub struct CommandAdapter;

impl Adapter for CommandAdapter {
    fn id(&self) -> AdapterId {
        AdapterId::COMMAND
    }
}

/// The adapter of agents that exchange one JSON object per line.
#[derive(Debug)]
pub struct JsonLinesAdapter;

impl Adapter for JsonLinesAdapter {
    fn id(&self) -> AdapterId {
        AdapterId::JSON_LINES
    }

    fn protocol(
        &self,
        interface: &AgentInterface,
        _options: ConversationOptions,
    ) -> Box<dyn Protocol> {
        match interface.mode {
            AgentMode::Headless => Box::new(jsonl::JsonlProtocol),
            AgentMode::Once | AgentMode::Terminal => Box::new(command::CommandProtocol),
        }
    }

    fn encode(&self, interface: &AgentInterface, input: &AgentInput<'_>) -> Option<Vec<u8>> {
        match interface.mode {
            AgentMode::Headless => jsonl::encode(input),
            AgentMode::Once => None,
            AgentMode::Terminal => terminal::encode(interface, input),
        }
    }
}

/// The adapters that a program knows. Cheap to clone.
#[derive(Clone)]
pub struct Adapters(Arc<[Arc<dyn Adapter>]>);

impl Adapters {
    /// Creates a collection of the given adapters and those that every program knows.
    pub fn new(more: impl IntoIterator<Item = Arc<dyn Adapter>>) -> Adapters {
        let built_in: [Arc<dyn Adapter>; 2] =
            [Arc::new(CommandAdapter), Arc::new(JsonLinesAdapter)];
        Adapters(built_in.into_iter().chain(more).collect())
    }

    /// Returns the adapter of an agent.
    pub fn get(&self, interface: &AgentInterface) -> &Arc<dyn Adapter> {
        self.with_id(interface.adapter.as_str())
    }

    /// Returns the adapter with this id. An agent whose adapter is unknown counts as a plain
    /// command.
    pub fn with_id(&self, id: &str) -> &Arc<dyn Adapter> {
        let known = self.0.iter().find(|adapter| adapter.id().as_str() == id);
        known.unwrap_or(&self.0[0])
    }

    /// Returns the patterns that mask the secrets in an answer to an agent.
    pub fn secret_masks(
        &self,
        interface: &AgentInterface,
        asked: &AgentRequest,
        reply: &RequestReply,
    ) -> Vec<Vec<u8>> {
        masks::secret_masks(asked, reply, &self.get(interface).protocol_terms())
    }
}

impl fmt::Debug for Adapters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|adapter| adapter.id())).finish()
    }
}
