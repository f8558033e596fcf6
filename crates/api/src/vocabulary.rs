//! Values from fixed lists, which newer versions may extend.

use std::{borrow::Cow, fmt, ops::Deref};

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::RequestKind,
    session::AgentMode,
    team::MessageStatusKind,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A fixed list of values, each with a name.
pub trait Vocabulary: Copy + PartialEq + 'static {
    const ALL: &'static [Self];

    fn as_str(self) -> &'static str;
}

/// A value of a vocabulary, or the name of one that only newer versions know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extensible<T> {
    Known(T),
    Unknown(String),
}

impl<T: Vocabulary> Extensible<T> {
    pub fn from_name(name: &str) -> Self {
        let known = T::ALL.iter().find(|value| value.as_str() == name);
        known.map_or_else(|| Extensible::Unknown(name.to_owned()), |value| (*value).into())
    }

    /// Returns the value, if this version knows it.
    pub fn known(&self) -> Option<T> {
        match self {
            Extensible::Known(value) => Some(*value),
            Extensible::Unknown(_) => None,
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Extensible::Known(value) => value.as_str(),
            Extensible::Unknown(name) => name,
        }
    }
}

impl<T: Vocabulary> From<T> for Extensible<T> {
    fn from(value: T) -> Self {
        Extensible::Known(value)
    }
}

impl<T: Vocabulary> PartialEq<T> for Extensible<T> {
    fn eq(&self, value: &T) -> bool {
        self.known() == Some(*value)
    }
}

/// Dereferences to the name.
impl<T: Vocabulary> Deref for Extensible<T> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<T: Vocabulary> fmt::Display for Extensible<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<T: Vocabulary> Serialize for Extensible<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, T: Vocabulary> Deserialize<'de> for Extensible<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_name(&Cow::<str>::deserialize(deserializer)?))
    }
}

/// The schema lists the values of this version.
impl<T: Vocabulary> JsonSchema for Extensible<T> {
    fn schema_name() -> Cow<'static, str> {
        "Extensible".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = T::ALL.iter().map(|value| value.as_str()).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

/// Implements [`Vocabulary`] for enums of the domain, which have a list and names of their own.
macro_rules! domain_vocabulary {
    ($($name:ty),+ $(,)?) => {
        $(
            impl Vocabulary for $name {
                const ALL: &'static [Self] = &<$name>::ALL;

                fn as_str(self) -> &'static str {
                    self.as_str()
                }
            }
        )+
    };
}

domain_vocabulary!(AgentMode, ClaimKind, MessageStatusKind, RequestKind);

/// Like [`domain_vocabulary`], for enums whose list is a slice.
macro_rules! judgement_vocabulary {
    ($($name:ty),+ $(,)?) => {
        $(
            impl Vocabulary for $name {
                const ALL: &'static [Self] = <$name>::ALL;

                fn as_str(self) -> &'static str {
                    self.as_str()
                }
            }
        )+
    };
}

judgement_vocabulary!(Cause, Flag, State);

/// Defines a vocabulary that only rows have.
macro_rules! vocabulary {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$value_doc:meta])* $variant:ident = $word:literal),+ $(,)?
    })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $name { $($(#[$value_doc])* $variant),+ }

            impl Vocabulary for $name {
                const ALL: &'static [Self] = &[$($name::$variant),+];

                fn as_str(self) -> &'static str {
                    match self { $($name::$variant => $word),+ }
                }
            }
        )+
    };
}

vocabulary! {
    /// The state of a process, as shown.
    ProcessName {
        Alive = "alive",
        Exit0 = "exit0",
        /// It exited with another code, or was killed by a signal that Provost did not send.
        ExitN = "exitN",
        /// It cannot be observed.
        Unknown = "unknown",
        /// Provost ended it with a signal.
        Stopped = "stopped",
        NotStarted = "not_started",
    }

    /// The activity of an agent, as shown.
    ActivityName {
        Active = "active",
        Idle = "idle",
        Stale = "stale",
        Exited = "exited",
        /// No process has run.
        None = "none",
        /// The agent's turns cannot be observed.
        Unknown = "unknown",
    }

    /// The verdict of the checks.
    VerificationName {
        None = "none",
        Passed = "passed",
        Failed = "failed",
    }

    /// The result of a check.
    CheckResultName {
        Passed = "passed",
        Failed = "failed",
        Unfinished = "unfinished",
        Pending = "pending",
        /// It will never run.
        NotRun = "not_run",
    }

    /// The result of a setup command.
    SetupResultName {
        Pending = "pending",
        Ok = "ok",
        Failed = "failed",
        /// It will never run.
        NotRun = "not_run",
    }

    /// The result of a hook.
    HookResultName {
        Pending = "pending",
        Ok = "ok",
        Failed = "failed",
        /// Its exit was not observed.
        Uncertain = "uncertain",
    }

    /// The phase of a launch.
    LaunchPhaseName {
        Pending = "pending",
        Running = "running",
        Ended = "ended",
        Unobserved = "unobserved",
        Failed = "failed",
    }

    /// The state of a run.
    RunStateName {
        Running = "running",
        Stopping = "stopping",
        Succeeded = "succeeded",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }

    /// The merged work that a merge check is about.
    MergeCheckKindName {
        /// A batch of the merge queue.
        Batch = "batch",
        /// A merge with the target.
        Landing = "landing",
    }

    /// The state of a merge check.
    MergeCheckStateName {
        Running = "running",
        /// Its run ended first.
        Stopped = "stopped",
        Passed = "passed",
        Failed = "failed",
        /// Some check did not run to completion.
        Inconclusive = "inconclusive",
    }

    /// The state of a team.
    TeamStateName {
        Open = "open",
        Active = "active",
        Paused = "paused",
        Done = "done",
        Failed = "failed",
        Cancelled = "cancelled",
    }

    /// The state of a criterion.
    CriterionStateName {
        Proposed = "proposed",
        Accepted = "accepted",
        Satisfied = "satisfied",
        Deferred = "deferred",
        Rejected = "rejected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_value_survives_a_round_trip() {
        let known: Extensible<State> = serde_json::from_str("\"needs_input\"").unwrap();
        assert!(known == State::NeedsInput && known.known() == Some(State::NeedsInput));
        let newer: Extensible<State> = serde_json::from_str("\"hibernating\"").unwrap();
        assert_eq!(newer, Extensible::Unknown("hibernating".to_owned()));
        assert_eq!(serde_json::to_string(&newer).unwrap(), "\"hibernating\"");
        assert!(newer != State::Working && newer.known().is_none());
    }
}
