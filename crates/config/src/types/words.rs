//! Options that are one word of a closed list.

use serde_json::{Value as Json, json};

use crate::node::Node;
use crate::problem::{Fault, quote};
use crate::shape::{Shape, one_of};
use crate::suggest::nearest;
use crate::value::{Value, invalid, text};

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

        impl Value for $Type {
            fn shape() -> Shape {
                Shape::Word(Self::WORDS)
            }

            fn read(node: &Node) -> Result<Self, Vec<Fault>> {
                let text = text::<Self>(node)?;
                let found = Self::ALL.iter().copied().find(|word| word.as_str() == text);
                found.ok_or_else(|| invalid(node, unknown_word(text, Self::WORDS)))
            }

            fn show(&self) -> Json {
                json!(self.as_str())
            }
        }
    )+};
}

words! {
    /// How Provost talks to an agent.
    Driver {
        /// Runs a command; its exit status is all it says.
        Command = "command",
        /// Exchanges one JSON object per line.
        Jsonl = "jsonl",
    }

    /// What an agent may do to the machine.
    Sandbox {
        /// Change nothing.
        ReadOnly = "read-only",
        /// Change what lies where it works.
        WorkspaceWrite = "workspace-write",
        /// Anything: there is no sandbox.
        FullAccess = "full-access",
    }

    /// What is reacted to.
    On {
        /// A turn is open, and nothing is heard.
        Quiet = "quiet",
        /// It is silent past the window.
        Stalled = "stalled",
        /// It waits for a person.
        NeedsInput = "needs_input",
        /// Its context is nearly full.
        Context = "context",
        /// Its account may not go on.
        UsageLimit = "usage_limit",
    }

    /// What is done about it.
    Act {
        /// Only the hook runs.
        Notify = "notify",
        /// The agent is told something.
        Nudge = "nudge",
        /// The agent leaves its turn and is told something.
        Interrupt = "interrupt",
        /// The agent makes its conversation shorter.
        Compact = "compact",
        /// The limit is waited for, so often and no more.
        ResumeLater = "resume_later",
        /// Another agent goes on.
        HandOver = "hand_over",
    }

    /// When an agent asks before it acts.
    Approvals {
        /// Before everything that is not known to be harmless.
        Untrusted = "untrusted",
        /// When it wants more than its sandbox allows.
        OnRequest = "on-request",
        /// Never: what the sandbox forbids stays forbidden.
        Never = "never",
    }

    /// What becomes of work that was proved.
    Land {
        /// It stands on a branch of its own.
        Branch = "branch",
        /// It is merged into the branch that the run began on.
        Merge = "merge",
        /// It is pushed, and a pull request asks for it to be merged.
        Pr = "pr",
    }

    /// Whose review comments go back to the agents.
    CommentAuthors {
        /// Of people who may push to the repository.
        Write = "write",
        /// Of anyone who can comment.
        Everyone = "everyone",
    }

    /// Whether a goal is divided into tasks.
    PlanMode {
        /// If triage says that one task is too little.
        Auto = "auto",
        /// Whatever triage says.
        Always = "always",
        /// One task does all of it.
        Never = "never",
    }

    /// What a review does about what it finds.
    ReviewMode {
        /// There is none.
        Off = "off",
        /// It tells.
        Report = "report",
        /// It mends, and what it mended is checked again.
        Repair = "repair",
    }

    /// What it means that a workflow does not come to its end.
    Escalation {
        /// A person has to decide before anything goes on.
        Critical = "critical",
        /// It can be put aside, and the rest goes on.
        Preference = "preference",
    }

    /// What is done to a conversation before the next iteration of a loop.
    CleanUp {
        /// Nothing.
        Keep = "keep",
        /// It is made shorter.
        Compact = "compact",
        /// Another one is begun.
        NewThread = "new_thread",
    }

    /// When output for people is coloured.
    Color {
        /// When it goes to a terminal.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
    }
}

fn unknown_word(text: &str, words: &'static [&'static str]) -> String {
    let expected = format!("expected {}, found {}", one_of(words), quote(text));
    match nearest(text, words.iter().copied()) {
        Some(word) => format!("{expected}; did you mean {word:?}?"),
        None => expected,
    }
}
