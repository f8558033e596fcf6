//! Requests that an agent wants a user to settle. Approvals, questions and dialogs share one type.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    ids::{LaunchId, RequestId},
    session::ScreenSource,
    time::Moment,
};

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    Approval,
    Question,
    Dialog,
}

impl RequestKind {
    pub const ALL: [RequestKind; 3] =
        [RequestKind::Approval, RequestKind::Question, RequestKind::Dialog];

    pub fn as_str(self) -> &'static str {
        match self {
            RequestKind::Approval => "approval",
            RequestKind::Question => "question",
            RequestKind::Dialog => "dialog",
        }
    }
}

/// Whether the agent's work is blocked until the request is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockingMode {
    Blocking,
    NonBlocking,
}

/// One question, in the agent's own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestQuestion {
    pub id: String,
    #[serde(default)]
    pub header: String,
    #[serde(default)]
    pub question: String,
    #[serde(default)]
    pub options: Vec<AnswerOption>,
    /// Whether the answer must be one of the options. By default, any text is accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_options: bool,
    #[serde(default)]
    pub secret: bool,
}

/// The subject of an approval request, as far as the agent reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalSubject {
    pub command: Option<String>,
    pub cwd: Option<String>,
    pub reason: Option<String>,
    /// The files that would be changed.
    pub paths: Vec<String>,
    /// The target of each path with symlinks resolved; empty if it is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub real_paths: Vec<String>,
    pub diff: Option<String>,
    /// The host that would be contacted.
    pub network: Option<String>,
    /// The part of the agent's terminal from which the request was inferred. None if the agent
    /// reported the request itself. Rules never act on an inference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inferred_from: Option<ScreenSource>,
    /// The facts that Provost itself found on disk about the command. The agent never supplies
    /// these facts, and no rule allows a command without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookup: Option<CommandLookup>,
}

/// The directory in which a command would run, and the files to which its programs resolve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandLookup {
    /// Whether the command's directory is the session's working directory, with symlinks resolved.
    pub in_worktree: bool,
    /// One entry for each word that [`crate::policy::programs`] returns, in the same order.
    pub programs: Vec<ProgramLookup>,
}

/// A word that names a program, and the file to which the word resolves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramLookup {
    pub word: String,
    /// The file with symlinks resolved. None if the file is missing or writable by the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The reason why no rule can allow the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// An answer that the agent offers for a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerOption {
    pub label: String,
    #[serde(default)]
    pub description: String,
}

/// A request as the agent made it, before Provost assigned an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRequest {
    /// The agent's id for the request, unique within its launch.
    pub native: String,
    pub kind: RequestKind,
    pub waiting: BlockingMode,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub questions: Vec<RequestQuestion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Box<ApprovalSubject>>,
}

/// The scope for which an approval is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    Once,
    Session,
}

/// A reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestReply {
    /// The answer to a single question, verbatim.
    Text(String),
    /// The answers to several questions, by question id.
    Answers(BTreeMap<String, Vec<String>>),
    Approve(ApprovalScope),
    Deny,
}

impl RequestReply {
    /// Whether the reply grants the request. None if the reply answers a question.
    pub fn allows(&self) -> Option<bool> {
        match self {
            RequestReply::Approve(_) => Some(true),
            RequestReply::Deny => Some(false),
            RequestReply::Text(_) | RequestReply::Answers(_) => None,
        }
    }
}

/// The reason why a reply does not fit its request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    #[error("the request needs approval, not an answer: approve or deny it")]
    WantsDecision,
    #[error("the request is a question, which cannot be approved or denied: answer it")]
    WantsAnswer,
    #[error("the request has {} questions, and each needs its own answer: {}", .0.len(), .0.join(", "))]
    WantsAnswers(Vec<String>),
    #[error("the answers must be for exactly these ids: {}{}", .expected.join(", "), describe_ids(.missing, .unknown))]
    WrongIds { expected: Vec<String>, missing: Vec<String>, unknown: Vec<String> },
    #[error("the answer for {0} is empty")]
    Empty(String),
    #[error("the answer for {id} must be one of these: {}", .options.join(" | "))]
    NotOffered { id: String, options: Vec<String> },
}

fn describe_ids(missing: &[String], unknown: &[String]) -> String {
    let part = |word: &str, ids: &[String]| match ids {
        [] => String::new(),
        ids => format!("; {word}: {}", ids.join(", ")),
    };
    part("missing", missing) + &part("unknown", unknown)
}

/// A request and its status within a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub id: RequestId,
    pub launch: LaunchId,
    pub asked: AgentRequest,
    /// The revision of the request. It is incremented when the agent repeats the request under the
    /// same id, so that an answer never applies to a text that has changed.
    pub revision: u32,
    pub at: Moment,
    pub status: RequestStatus,
    /// Whether the approval was granted. None until it is answered through Provost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
    /// Whether the agent performed the action. Set only if this contradicts the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicted_by_outcome: Option<bool>,
}

/// The status of a request. Every request leaves `Open` exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStatus {
    Open,
    Answered,
    Withdrawn,
    /// A user settled the request on the agent's own screen, not through Provost.
    AnsweredElsewhere,
    /// The process that made the request exited, or the attempt was sealed, before the request was
    /// answered.
    Void,
}

impl AgentRequest {
    /// Whether the answer is a secret, which is never stored.
    pub fn is_secret(&self) -> bool {
        self.questions.iter().any(|question| question.secret)
    }

    /// Checks that a reply fits the request. It must answer exactly the questions that were asked,
    /// and a question with `only_options` must be answered with one of its options. A dialog can be
    /// declined, but a question cannot.
    pub fn check_reply(&self, reply: &RequestReply) -> Result<(), ReplyError> {
        match (self.kind, reply) {
            (RequestKind::Approval, RequestReply::Approve(_) | RequestReply::Deny) => Ok(()),
            (RequestKind::Approval, RequestReply::Text(_) | RequestReply::Answers(_)) => {
                Err(ReplyError::WantsDecision)
            }
            (RequestKind::Dialog, RequestReply::Deny) => Ok(()),
            (
                RequestKind::Question | RequestKind::Dialog,
                RequestReply::Approve(_) | RequestReply::Deny,
            ) => Err(ReplyError::WantsAnswer),
            (RequestKind::Question | RequestKind::Dialog, RequestReply::Text(text)) => {
                match self.questions.as_slice() {
                    [] => Ok(()),
                    [only] => only.check_answer(std::slice::from_ref(text)),
                    _ => Err(ReplyError::WantsAnswers(self.ids())),
                }
            }
            (RequestKind::Question | RequestKind::Dialog, RequestReply::Answers(answers)) => {
                self.check_ids(answers)?;
                let given =
                    |question: &RequestQuestion| answers.get(&question.id).map_or(&[][..], |a| a);
                self.questions
                    .iter()
                    .try_for_each(|question| question.check_answer(given(question)))
            }
        }
    }

    fn check_ids(&self, answers: &BTreeMap<String, Vec<String>>) -> Result<(), ReplyError> {
        let expected = self.ids();
        let asked: BTreeSet<&String> = expected.iter().collect();
        let missing: Vec<String> =
            expected.iter().filter(|id| !answers.contains_key(*id)).cloned().collect();
        let unknown: Vec<String> =
            answers.keys().filter(|id| !asked.contains(id)).cloned().collect();
        if !missing.is_empty() || !unknown.is_empty() {
            return Err(ReplyError::WrongIds { expected, missing, unknown });
        }
        match answers.iter().find(|(_, given)| given.is_empty()) {
            Some((id, _)) => Err(ReplyError::Empty(id.clone())),
            None => Ok(()),
        }
    }

    fn ids(&self) -> Vec<String> {
        self.questions.iter().map(|question| question.id.clone()).collect()
    }
}

impl RequestQuestion {
    fn check_answer(&self, given: &[String]) -> Result<(), ReplyError> {
        let offered = |text: &String| self.options.iter().any(|option| option.label == *text);
        if !self.only_options || given.iter().all(offered) {
            return Ok(());
        }
        let options = self.options.iter().map(|option| option.label.clone()).collect();
        Err(ReplyError::NotOffered { id: self.id.clone(), options })
    }
}

impl Request {
    pub fn is_open(&self) -> bool {
        self.status == RequestStatus::Open
    }

    pub fn blocks(&self) -> bool {
        self.is_open() && self.asked.waiting == BlockingMode::Blocking
    }
}
