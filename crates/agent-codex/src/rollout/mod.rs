//! Rollouts, the files in which Codex records threads: finding, reading and interpreting them.

mod event;
mod file_watch;
mod fold;
mod head;
mod locate;
mod record;
mod tail;

pub use event::{
    AccountLimits, AgentPlan, AgentPlanStep, LimitReset, LimitUsage, RecordedTurnEnd, RolloutEvent,
    SessionMeta, StepStatus, TokenReport, TokenUsage,
};
pub use file_watch::RolloutFileWatch;
pub use fold::{RolloutFold, TurnRecording, read_meta};
pub use locate::{CodexHomes, Rollout, RolloutSearch};
pub use tail::{FileId, FileStatus, MAX_LINE, NextLine, RolloutLine, RolloutTail};
