//! The scripted model: a loopback server that implements the Responses API for Codex.
//!
//! A [`ModelScenario`] scripts the model's answers, [`ModelServer`] sends them and records the requests, and
//! [`CodexHome`] is a `CODEX_HOME` that uses the server. A request that is not scripted is refused, recorded, and
//! fails [`ModelServer::assert_all_as_scripted`].

mod cli;
mod codex_home;
mod events;
mod http;
mod parse;
mod play;
mod request;
mod scenario;
mod script;
mod server;
mod tools;

pub use cli::main;
pub use codex_home::{
    CODE_MODE_MODEL, CodexHome, MODEL, OLD_MODEL, codex, codex_config, old_codex,
};
pub use parse::Error;
pub use request::{ModelRequest, RequestPurpose};
pub use scenario::{
    Deltas, HiddenAnswers, Http, Limit, ModelScenario, Reasoning, RepeatCount, ResetLocation,
    ResetTime, Response, ResponseEnd, ScriptedItem, ScriptedMessage, ScriptedThread, ScriptedTurn,
    ScriptedUsage, Shell, SpawnAgentItem, ThreadSelector, ToolCallItem, UsageLimit,
};
pub use script::{ScriptPlace, ServedAnswer};
pub use server::{AnswerOutcome, ModelServer, RecordedRequest};
