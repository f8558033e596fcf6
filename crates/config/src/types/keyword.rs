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
    /// The protocol of an agent.
    Driver {
        /// Runs a command; only its exit status counts.
        Command = "command",
        /// Exchanges one JSON object per line.
        Jsonl = "jsonl",
    }

    /// What an agent may do to the machine.
    Sandbox {
        /// Change nothing.
        ReadOnly = "read-only",
        /// Change files in its working directory.
        WorkspaceWrite = "workspace-write",
        /// Anything: there is no sandbox.
        FullAccess = "full-access",
    }

    /// The occasion of a reaction.
    On {
        /// A turn is open, and there is no output.
        Quiet = "quiet",
        /// It is silent beyond the limit.
        Stalled = "stalled",
        /// It waits for the user.
        NeedsInput = "needs_input",
        /// Its context is nearly full.
        Context = "context",
        /// Its account has reached a limit.
        UsageLimit = "usage_limit",
    }

    /// The action of a reaction.
    Act {
        /// Only the hook runs.
        Notify = "notify",
        /// Sends the agent a message.
        Nudge = "nudge",
        /// Interrupts the turn and sends the agent a message.
        Interrupt = "interrupt",
        /// Compacts the conversation.
        Compact = "compact",
        /// Waits for the limit to reset, a bounded number of times.
        ResumeLater = "resume_later",
        /// Another agent takes over.
        HandOver = "hand_over",
    }

    /// When an agent asks before it acts.
    Approvals {
        /// Before everything that is not known to be harmless.
        Untrusted = "untrusted",
        /// When it needs more than its sandbox allows.
        OnRequest = "on-request",
        /// Never: what the sandbox forbids stays forbidden.
        Never = "never",
    }

    /// What happens to verified work.
    Land {
        /// It stays on its own branch.
        Branch = "branch",
        /// It is merged into the branch from which the run started.
        Merge = "merge",
        /// It is pushed, and a pull request is opened.
        Pr = "pr",
    }

    /// Whose review comments go back to the agents.
    CommentAuthors {
        /// Users with write access to the repository.
        Write = "write",
        /// Anyone who can comment.
        Everyone = "everyone",
    }

    /// Whether a goal is split into tasks.
    PlanMode {
        /// If triage finds one task insufficient.
        Auto = "auto",
        /// Regardless of triage.
        Always = "always",
        /// One task does everything.
        Never = "never",
    }

    /// What a review does about its findings.
    ReviewMode {
        /// No review.
        Off = "off",
        /// It reports them.
        Report = "report",
        /// It fixes them, and the fixes are checked again.
        Repair = "repair",
    }

    /// What happens when a workflow does not complete.
    Escalation {
        /// The user has to decide before anything continues.
        Critical = "critical",
        /// It can be deferred, and the rest continues.
        Preference = "preference",
    }

    /// What happens to a conversation before the next iteration of a loop.
    CleanUp {
        /// Nothing.
        Keep = "keep",
        /// It is compacted.
        Compact = "compact",
        /// A new one is started.
        NewThread = "new_thread",
    }

    /// When terminal output is coloured.
    Color {
        /// When it goes to a terminal.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
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
