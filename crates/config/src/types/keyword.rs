//! Options with a closed list of keywords.

use serde_json::{Value as Json, json};

use crate::node::ValueNode;
use crate::problem::{ValueFault, quote};
use crate::shape::{ValueShape, one_of};
use crate::suggest::nearest;
use crate::value::{ConfigValue, invalid, text};

macro_rules! words {
    ($($(#[doc = $doc:literal])+ $Type:ident { $($(#[doc = $word_doc:literal])+ $Word:ident = $text:literal,)+ })+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Type { $($(#[doc = $word_doc])+ $Word,)+ }

        impl $Type {
            const ALL: &[Self] = &[$(Self::$Word),+];
            const WORDS: &[&'static str] = &[$($text),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$Word => $text),+ }
            }
        }

        impl ConfigValue for $Type {
            fn shape() -> ValueShape {
                ValueShape::Word(Self::WORDS)
            }

            fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
                let text = text::<Self>(node)?;
                let found = Self::ALL.iter().copied().find(|word| word.as_str() == text);
                found.ok_or_else(|| invalid(node, unknown_keyword(text, Self::WORDS)))
            }

            fn show(&self) -> Json {
                json!(self.as_str())
            }
        }
    )+};
}

words! {
    /// How Provost communicates with a configured agent.
    Adapter {
        /// Runs a command, and only its exit status matters.
        Command = "command",
        /// Exchanges one JSON object per line.
        Jsonl = "jsonl",
    }

    /// The changes that an agent may make to the machine.
    Sandbox {
        /// Nothing.
        ReadOnly = "read-only",
        /// Files in its working directory.
        WorkspaceWrite = "workspace-write",
        /// Everything, because there is no sandbox.
        FullAccess = "full-access",
    }

    /// The condition that triggers a reaction.
    On {
        /// A turn is open, but the agent produces no output.
        Quiet = "quiet",
        /// The agent has been silent for longer than allowed.
        Stalled = "stalled",
        /// The agent is waiting for the user.
        NeedsInput = "needs_input",
        /// The agent's context is nearly full.
        Context = "context",
        /// The agent's account has reached a limit.
        UsageLimit = "usage_limit",
    }

    /// The action of a reaction.
    Act {
        /// Runs only the hook.
        Notify = "notify",
        /// Sends the agent a message.
        Nudge = "nudge",
        /// Interrupts the turn and sends the agent a message.
        Interrupt = "interrupt",
        /// Compacts the conversation.
        Compact = "compact",
        /// Waits until the limit resets, a limited number of times.
        ResumeLater = "resume_later",
        /// Lets another agent take over.
        HandOver = "hand_over",
    }

    /// When an agent asks for approval.
    Approvals {
        /// Before everything that is not known to be harmless.
        Untrusted = "untrusted",
        /// When it needs more than its sandbox allows.
        OnRequest = "on-request",
        /// Never. Actions that the sandbox forbids stay forbidden.
        Never = "never",
    }

    /// What happens to verified work.
    Land {
        /// The work stays on its own branch.
        Branch = "branch",
        /// The work is merged into the branch from which the run started.
        Merge = "merge",
        /// The work is pushed, and a pull request is opened.
        Pr = "pr",
    }

    /// Whose review comments are sent to the agents.
    CommentAuthors {
        /// Users with write access to the repository.
        Write = "write",
        /// Anyone who can comment.
        Everyone = "everyone",
    }

    /// Whether a goal is split into tasks.
    PlanMode {
        /// The goal is split if triage decides that one task is not enough.
        Auto = "auto",
        /// The goal is always split, regardless of triage.
        Always = "always",
        /// The goal is never split, so one task does everything.
        Never = "never",
    }

    /// How a review handles its findings.
    ReviewMode {
        /// Nothing is reviewed.
        Off = "off",
        /// The review only reports its findings.
        Report = "report",
        /// The review fixes its findings, and the result is checked again.
        Repair = "repair",
    }

    /// What happens when a workflow does not complete.
    Escalation {
        /// The user must decide before anything continues.
        Critical = "critical",
        /// The workflow can be deferred while everything else continues.
        Preference = "preference",
    }

    /// What happens to a conversation before the next iteration of a loop.
    CleanUp {
        /// The conversation is kept.
        Keep = "keep",
        /// The conversation is compacted.
        Compact = "compact",
        /// The conversation is replaced by a new one.
        NewThread = "new_thread",
    }

    /// When terminal output is colored.
    Color {
        /// The output is colored if it is a terminal.
        Auto = "auto",
        /// The output is always colored.
        Always = "always",
        /// The output is never colored.
        Never = "never",
    }
}

fn unknown_keyword(text: &str, words: &'static [&'static str]) -> String {
    let expected = format!("expected {}, found {}", one_of(words), quote(text));
    match nearest(text, words.iter().copied()) {
        Some(word) => format!("{expected}; did you mean {word:?}?"),
        None => expected,
    }
}
