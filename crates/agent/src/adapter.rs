//! The port to one kind of agent, and the adapters that a program knows.

use std::{fmt, io, path::Path, sync::Arc};

use provost_core::{
    request::{AgentRequest, RequestReply},
    session::{AdapterId, AgentInterface, AgentMode, RecordSignal},
};
use provost_sys::process::ProcessInstance;

use crate::{
    AgentInput, ConversationOptions, Protocol, command,
    front_end::AgentFrontEnd,
    jsonl,
    launch::{LaunchPlan, LaunchRequest},
    masks,
    processes::{AgentSignature, OpenTranscript, WELL_KNOWN_AGENTS},
    screen::ScreenReader,
    terminal,
    transcript::{TranscriptFile, TranscriptStore},
};

/// Everything that the engine needs to know about one kind of agent. The facts that the core needs
/// are stored with each session, as its [`AgentInterface`].
///
/// The defaults describe a plain command. Functions that do I/O may block.
pub trait Adapter: Send + Sync {
    fn id(&self) -> AdapterId;

    /// Describes the agent in a mode. Returns `None` if its program cannot run in that mode.
    fn interface(&self, mode: AgentMode) -> Option<AgentInterface>;

    /// Returns the command line's view of the agent, if users start it by name. Agents of other kinds
    /// are defined in the configuration.
    fn front_end(&self) -> Option<&dyn AgentFrontEnd> {
        None
    }

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

    /// Returns how the processes of the agent are recognized, if they can be.
    fn signature(&self) -> Option<AgentSignature> {
        None
    }

    /// Removes everything that must not outlive the directory that belongs to a session's agent,
    /// before the directory itself is removed.
    fn clean_home(&self, _dir: &Path) -> Result<(), String> {
        Ok(())
    }

    /// Returns what renders the agent's messages as readable text, if its output in this mode
    /// consists of messages.
    fn renderer(&self, _mode: AgentMode) -> Option<MessageRenderer> {
        None
    }

    /// Whether exactly this process is still running and runs the agent's own program.
    fn is_running_agent(&self, _process: &ProcessInstance) -> io::Result<bool> {
        Ok(false)
    }
}

/// Renders one line of an agent's output as readable text. Returns `None` if the line should not be
/// shown. The text may contain any characters, so the caller must escape it.
pub type MessageRenderer = fn(&[u8]) -> Option<String>;

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

    fn interface(&self, mode: AgentMode) -> Option<AgentInterface> {
        match mode {
            AgentMode::Headless => Some(AgentInterface::command()),
            AgentMode::Terminal => Some(AgentInterface::terminal_command()),
            AgentMode::Once => None,
        }
    }
}

/// The adapter of agents that exchange one JSON object per line.
#[derive(Debug)]
pub struct JsonLinesAdapter;

impl Adapter for JsonLinesAdapter {
    fn id(&self) -> AdapterId {
        AdapterId::JSON_LINES
    }

    fn interface(&self, mode: AgentMode) -> Option<AgentInterface> {
        (mode == AgentMode::Headless).then(AgentInterface::json_lines)
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
    pub fn get(&self, interface: &AgentInterface) -> Result<&Arc<dyn Adapter>, UnknownAdapter> {
        self.with_id(interface.adapter.as_str())
    }

    /// Returns the adapter with this id.
    pub fn with_id(&self, id: &str) -> Result<&Arc<dyn Adapter>, UnknownAdapter> {
        self.0.iter().find(|adapter| adapter.id().as_str() == id).ok_or_else(|| UnknownAdapter {
            adapter: id.to_owned(),
            known: self.0.iter().map(|adapter| adapter.id()).collect(),
        })
    }

    /// Returns every adapter.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Adapter>> {
        self.0.iter()
    }

    /// Returns the adapter of the agent that users start by this name, and its front end.
    pub fn named(&self, name: &str) -> Option<(&Arc<dyn Adapter>, &dyn AgentFrontEnd)> {
        self.front_ends().find(|(_, front_end)| front_end.name() == name)
    }

    /// Returns the agents that users start by name.
    pub fn front_ends(&self) -> impl Iterator<Item = (&Arc<dyn Adapter>, &dyn AgentFrontEnd)> {
        self.0.iter().filter_map(|adapter| Some((adapter, adapter.front_end()?)))
    }

    /// Returns how the processes of all known agents are recognized.
    pub fn signatures(&self) -> Vec<AgentSignature> {
        let own = self.0.iter().filter_map(|adapter| adapter.signature());
        own.chain(WELL_KNOWN_AGENTS.iter().copied()).collect()
    }

    /// Recognizes the transcript of any known agent by the name of its file.
    pub fn recognize_transcript(&self, path: &Path) -> Option<OpenTranscript> {
        self.0.iter().find_map(|adapter| {
            let thread = adapter.transcripts()?.thread_of_file(path)?;
            let file = TranscriptFile { thread, path: path.to_owned() };
            Some(OpenTranscript { adapter: adapter.id(), file })
        })
    }

    /// Returns the patterns that mask the secrets in an answer to an agent. An agent whose adapter
    /// is unknown has no terms that must stay visible, because nothing is written to it.
    pub fn secret_masks(
        &self,
        interface: &AgentInterface,
        asked: &AgentRequest,
        reply: &RequestReply,
    ) -> Vec<Vec<u8>> {
        let terms = self.get(interface).map(|adapter| adapter.protocol_terms());
        masks::secret_masks(asked, reply, &terms.unwrap_or_default())
    }
}

/// An agent whose adapter this program does not know, because another version or build of Provost
/// started it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no adapter {adapter:?} in this build of Provost; known adapters: {}",
    list(known)
)]
pub struct UnknownAdapter {
    adapter: String,
    known: Vec<AdapterId>,
}

fn list(known: &[AdapterId]) -> String {
    known.iter().map(AdapterId::as_str).collect::<Vec<_>>().join(", ")
}

impl fmt::Debug for Adapters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|adapter| adapter.id())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_adapter_lists_known_ones() {
        let adapters = Adapters::new([]);
        assert_eq!(adapters.get(&AgentInterface::command()).unwrap().id(), AdapterId::COMMAND);
        let other = AdapterId::from_static("other");
        let interface = AgentInterface { adapter: other, ..AgentInterface::command() };
        let why = adapters.get(&interface).err().map(|why| why.to_string());
        let expected = "there is no adapter \"other\" in this build of Provost; known adapters: command, jsonl";
        assert_eq!(why.as_deref(), Some(expected));
    }
}
