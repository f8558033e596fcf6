//! The interface between Provost and an agent: how they communicate, and what the agent can do.
//!
//! An adapter knows everything about one kind of agent. When a session is opened, the adapter
//! describes the agent as data, which is stored with the session. The rules for sessions, runs and
//! teams read only this data.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The maximum length of an adapter's id.
const MAX_ADAPTER_ID: usize = 32;

/// The id of an adapter: a short lowercase word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AdapterId(Cow<'static, str>);

impl AdapterId {
    /// The adapter for commands without a protocol.
    pub const COMMAND: AdapterId = AdapterId::from_static("command");

    /// The adapter for agents that exchange one JSON object per line.
    pub const JSON_LINES: AdapterId = AdapterId::from_static("jsonl");

    /// Returns the id with this text.
    ///
    /// # Panics
    ///
    /// If the text is not a valid id. In a constant, this fails the build.
    pub const fn from_static(text: &'static str) -> AdapterId {
        assert!(is_adapter_id(text.as_bytes()), "not a valid adapter id");
        AdapterId(Cow::Borrowed(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AdapterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not a valid adapter id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("\"{0}\" is not a valid adapter: expected a short lowercase word")]
pub struct ParseAdapterIdError(String);

impl FromStr for AdapterId {
    type Err = ParseAdapterIdError;

    fn from_str(text: &str) -> Result<Self, ParseAdapterIdError> {
        AdapterId::try_from(text.to_owned())
    }
}

impl TryFrom<String> for AdapterId {
    type Error = ParseAdapterIdError;

    fn try_from(text: String) -> Result<Self, ParseAdapterIdError> {
        if is_adapter_id(text.as_bytes()) {
            Ok(AdapterId(Cow::Owned(text)))
        } else {
            Err(ParseAdapterIdError(text))
        }
    }
}

impl From<AdapterId> for String {
    fn from(id: AdapterId) -> String {
        id.0.into_owned()
    }
}

/// Whether a text starts with a lowercase letter and otherwise contains only lowercase letters,
/// digits and hyphens.
const fn is_adapter_id(text: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() {
        let allowed = match text[at] {
            b'a'..=b'z' => true,
            b'0'..=b'9' | b'-' => at > 0,
            _ => false,
        };
        if !allowed {
            return false;
        }
        at += 1;
    }
    !text.is_empty() && text.len() <= MAX_ADAPTER_ID
}

/// The mode in which an agent's program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMode {
    /// A conversation or a command on pipes or a socket.
    Headless,
    /// One instruction per process.
    Once,
    /// The program's own screen in a terminal. The terminal belongs to the user in front of it, so
    /// the agent is not asked for a result, and messages are typed.
    Terminal,
}

impl AgentMode {
    pub const ALL: [AgentMode; 3] = [AgentMode::Headless, AgentMode::Once, AgentMode::Terminal];

    pub fn as_str(self) -> &'static str {
        match self {
            AgentMode::Headless => "headless",
            AgentMode::Once => "once",
            AgentMode::Terminal => "terminal",
        }
    }
}

/// The adapter of an agent, the mode of its program, and what it can do in that mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInterface {
    pub adapter: AdapterId,
    pub mode: AgentMode,
    pub capabilities: Capabilities,
}

/// The capabilities of an agent, and the meaning of its output and exit status. The default describes a
/// plain command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// The agent's conversation. None for a program whose exit status is its only signal; all of
    /// its work counts as one long turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationCapabilities>,
    pub exit_zero: ExitZeroMeaning,
    pub tools: ToolSupport,
    /// The capabilities of the agent's screen. Only relevant in a terminal.
    #[serde(skip_serializing_if = "ScreenCapabilities::is_unknown")]
    pub screen: ScreenCapabilities,
    /// Whether the agent's program can confine the commands that it runs, so that a member that must
    /// not edit gets a read-only sandbox.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_sandbox: bool,
    /// Whether standard error contains only log messages of the agent's program.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stderr_is_log: bool,
}

/// The capabilities of an agent's conversation, which consists of turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConversationCapabilities {
    /// Whether messages can be sent only after the agent has reported its conversation.
    pub handshake: bool,
    /// Whether a new process can resume the conversation.
    pub resume: bool,
    /// Whether a new process can start a new conversation for the same session.
    pub new_threads: bool,
    /// The way to ask the agent to compact its conversation. None if the agent cannot be asked.
    pub compaction: Option<CompactionRequest>,
    /// Whether every message to the idle agent either starts a turn, which the agent reports, or is
    /// rejected.
    pub confirms_input: bool,
    /// Whether an interrupt must contain the id of the turn.
    pub names_turns: bool,
    /// Whether the turns are read from the agent's transcript. Only the turns then count as
    /// activity.
    pub transcript: bool,
    /// Whether users can attach to the conversation with the agent's own screen.
    pub attach: bool,
}

/// The way to ask an agent to compact its conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionRequest {
    /// A message of the agent's protocol requests the compaction.
    Message,
    /// A command, which is typed at the agent's prompt, requests the compaction.
    Typed(String),
}

/// The meaning of exit code 0 if nothing else was configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitZeroMeaning {
    /// The configuration decides, because exit code 0 may be the only report of success.
    #[default]
    Configured,
    /// Exit code 0 means nothing, because the process serves a conversation.
    NotAClaim,
    /// The work is done, if the agent's stream also reported a successful turn.
    SuccessfulTurn,
}

/// The way in which an agent learns which of Provost's tools it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSupport {
    /// The agent calls no tools.
    #[default]
    None,
    /// The agent's author knows the tools, so the agent can call them at any time.
    Known,
    /// The agent receives its tools when its conversation begins.
    Given,
}

/// The capabilities of an agent's screen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScreenCapabilities {
    pub composer: Composer,
    /// Whether the adapter recognizes prompts, dialogs and requests on the screen.
    pub signals: bool,
}

impl ScreenCapabilities {
    fn is_unknown(&self) -> bool {
        *self == ScreenCapabilities::default()
    }
}

/// The characters to which an agent's composer, where users type, gives a special meaning. Each
/// field is a set of characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Composer {
    /// A text that starts with one of these characters is a command to the composer, unless a space
    /// precedes the character.
    pub command_prefixes: String,
    /// A text that starts with one of these characters is run as a shell command of the user,
    /// outside of the agent's sandbox.
    pub shell_prefixes: String,
    /// If the last word of a text starts with one of these characters, a completion captures Enter,
    /// unless a space follows the word.
    pub completion_prefixes: String,
}

impl AgentInterface {
    /// Returns the interface to a plain command. Its exit status is the only signal.
    pub fn command() -> AgentInterface {
        AgentInterface {
            adapter: AdapterId::COMMAND,
            mode: AgentMode::Headless,
            capabilities: Capabilities::default(),
        }
    }

    /// Returns the interface to a program that needs a terminal. Its exit status is the only signal.
    pub fn terminal_command() -> AgentInterface {
        AgentInterface { mode: AgentMode::Terminal, ..AgentInterface::command() }
    }

    /// Returns the interface to an agent that exchanges one JSON object per line.
    pub fn json_lines() -> AgentInterface {
        let conversation = ConversationCapabilities {
            new_threads: true,
            compaction: Some(CompactionRequest::Message),
            ..ConversationCapabilities::default()
        };
        AgentInterface {
            adapter: AdapterId::JSON_LINES,
            mode: AgentMode::Headless,
            capabilities: Capabilities {
                conversation: Some(conversation),
                tools: ToolSupport::Known,
                ..Capabilities::default()
            },
        }
    }

    fn conversation_has(&self, is_set: impl Fn(&ConversationCapabilities) -> bool) -> bool {
        self.capabilities.conversation.as_ref().is_some_and(is_set)
    }

    /// Whether the agent accepts instructions at any time and can be asked for a result.
    pub fn takes_instructions(&self) -> bool {
        self.has_turns() && !self.is_one_shot()
    }

    /// Whether the agent's turns are reported. Otherwise, everything counts as one long turn.
    pub fn has_turns(&self) -> bool {
        self.capabilities.conversation.is_some()
    }

    /// Whether the agent runs in a terminal.
    pub fn has_terminal(&self) -> bool {
        self.mode == AgentMode::Terminal
    }

    /// Whether each process receives a single instruction when it starts.
    pub fn is_one_shot(&self) -> bool {
        self.mode == AgentMode::Once
    }

    /// Whether messages can be sent only after the agent has reported its conversation.
    pub fn has_handshake(&self) -> bool {
        self.conversation_has(|conversation| conversation.handshake)
    }

    /// Whether a new process can resume the conversation.
    pub fn can_resume(&self) -> bool {
        self.conversation_has(|conversation| conversation.resume)
    }

    /// Whether the conversation is resumed automatically after a crash. One-shot work would repeat
    /// its instruction, and a terminal belongs to its user.
    pub fn resumes_after_crash(&self) -> bool {
        self.can_resume() && self.mode == AgentMode::Headless
    }

    /// Returns how the agent is asked to compact its conversation, if that is possible.
    pub fn compaction(&self) -> Option<&CompactionRequest> {
        self.capabilities.conversation.as_ref()?.compaction.as_ref()
    }

    /// Whether every message to the idle agent either starts a turn, which the agent reports, or is
    /// rejected.
    pub fn confirms_input_by_turn(&self) -> bool {
        self.conversation_has(|conversation| conversation.confirms_input)
    }

    /// Whether an interrupt must contain the id of the turn.
    pub fn names_turns(&self) -> bool {
        self.conversation_has(|conversation| conversation.names_turns)
    }

    /// Whether a new process of the agent can start a new conversation.
    pub fn can_start_threads(&self) -> bool {
        self.conversation_has(|conversation| conversation.new_threads)
    }

    /// Whether the turns are read from the agent's transcript.
    pub fn has_transcript(&self) -> bool {
        self.conversation_has(|conversation| conversation.transcript)
    }

    /// Whether users can see the agent's own screen while it runs.
    pub fn can_attach(&self) -> bool {
        self.has_terminal() || self.conversation_has(|conversation| conversation.attach)
    }

    /// Whether exit code 0 counts only if the agent's stream also reported a successful turn.
    pub fn reports_turn_success(&self) -> bool {
        self.capabilities.exit_zero == ExitZeroMeaning::SuccessfulTurn
    }

    /// Returns how the agent's composer interprets texts.
    pub fn composer(&self) -> &Composer {
        &self.capabilities.screen.composer
    }
}
