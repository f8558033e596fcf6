//! Requests: what an agent waits for a person to settle. Approvals, questions and dialogs are one object.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{LaunchId, RequestId},
    time::Moment,
};

/// What kind of settlement is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    Approval,
    Question,
    Dialog,
}

impl RequestKind {
    pub fn word(self) -> &'static str {
        match self {
            RequestKind::Approval => "approval",
            RequestKind::Question => "question",
            RequestKind::Dialog => "dialog",
        }
    }
}

/// Whether the agent's work stands still until the request is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    Blocking,
    Beside,
}

/// One thing asked, as the agent put it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub id: String,
    #[serde(default)]
    pub header: String,
    #[serde(default)]
    pub question: String,
    #[serde(default)]
    pub options: Vec<Choice>,
    #[serde(default)]
    pub secret: bool,
}

/// One of the answers that the agent offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub label: String,
    #[serde(default)]
    pub description: String,
}

/// What the agent asked for, before it has an id of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The agent's own name for the request, unique within its launch.
    pub native: String,
    pub kind: RequestKind,
    pub waiting: Waiting,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub questions: Vec<Question>,
}

/// A request with its place in the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub id: RequestId,
    pub launch: LaunchId,
    pub asked: Asked,
    /// Grows when the agent asks again under the same name, so that an answer can never hit a later text.
    pub revision: u32,
    pub at: Moment,
    pub fate: Fate,
}

/// How a request stands. Every request leaves `Open` exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    Open,
    Answered,
    Withdrawn,
    /// The asker ended, or the attempt was sealed, before anyone answered.
    Void,
}

impl Asked {
    /// Says whether the answer is a secret, which is written down nowhere.
    pub fn is_secret(&self) -> bool {
        self.questions.iter().any(|question| question.secret)
    }
}

impl Request {
    pub fn is_open(&self) -> bool {
        self.fate == Fate::Open
    }

    pub fn blocks(&self) -> bool {
        self.is_open() && self.asked.waiting == Waiting::Blocking
    }
}
