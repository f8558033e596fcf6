//! Requests: what an agent waits for a person to settle. Approvals, questions and dialogs are one object.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    ids::{LaunchId, RequestId},
    session::Glimpse,
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
    /// Whether nothing but the options is taken. Who does not say so takes any text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_options: bool,
    #[serde(default)]
    pub secret: bool,
}

/// What an approval is about, as far as the agent told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subject {
    pub command: Option<String>,
    pub cwd: Option<String>,
    pub reason: Option<String>,
    /// The files that would be changed.
    pub paths: Vec<String>,
    /// Where each of them leads, links followed; empty where nobody could say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub real_paths: Vec<String>,
    pub diff: Option<String>,
    /// The host that would be spoken with.
    pub network: Option<String>,
    /// What of the agent's terminal lets guess all this, where the agent itself did not tell it. No rule acts on a guess.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guessed_by: Option<Glimpse>,
    /// What Provost found on disk about the command. Never taken from the agent; without it no rule allows a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookup: Option<CommandLookup>,
}

/// Where a command would run, and which files its programs are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandLookup {
    /// Whether the command's directory is the session's working directory, links followed.
    pub in_worktree: bool,
    /// One entry for each word of [`crate::policy::programs`], in its order.
    pub programs: Vec<ProgramLookup>,
}

/// A word that names a program, and the file that would run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramLookup {
    pub word: String,
    /// The file, links followed; none if there is none or the agent could have written it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Why there is no file that a rule may allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Box<Subject>>,
}

/// For how long an approval holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Once,
    Session,
}

/// What is given for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// For the one thing asked, verbatim.
    Text(String),
    /// For several things asked, by their ids.
    Answers(BTreeMap<String, Vec<String>>),
    Approve(Scope),
    Deny,
}

impl Reply {
    /// Says whether it allows what was asked for; an answer to a question decides nothing.
    pub fn allows(&self) -> Option<bool> {
        match self {
            Reply::Approve(_) => Some(true),
            Reply::Deny => Some(false),
            Reply::Text(_) | Reply::Answers(_) => None,
        }
    }
}

/// Why a reply does not fit what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    #[error("it asks for an approval: approve or deny it")]
    WantsDecision,
    #[error("it is a question, which cannot be approved or denied: answer it")]
    WantsAnswer,
    #[error("it asks {} things, so each needs its own answer: {}", .0.len(), .0.join(", "))]
    WantsAnswers(Vec<String>),
    #[error("the answers must be for exactly these ids: {}{}", .expected.join(", "), told(.missing, .unknown))]
    Ids { expected: Vec<String>, missing: Vec<String>, unknown: Vec<String> },
    #[error("the answer for {0} is empty")]
    Empty(String),
    #[error("the answer for {id} must be one of these: {}", .options.join(" | "))]
    NotOffered { id: String, options: Vec<String> },
}

fn told(missing: &[String], unknown: &[String]) -> String {
    let part = |word: &str, ids: &[String]| match ids {
        [] => String::new(),
        ids => format!("; {word}: {}", ids.join(", ")),
    };
    part("missing", missing) + &part("unknown", unknown)
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
    /// Whether an approval was given, once it was answered here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
    /// Whether what it is about was done, where that is not what was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<bool>,
}

/// How a request stands. Every request leaves `Open` exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    Open,
    Answered,
    Withdrawn,
    /// It was settled on the agent's own screen, by a person there.
    AnsweredElsewhere,
    /// The asker ended, or the attempt was sealed, before anyone answered.
    Void,
}

impl Asked {
    /// Says whether the answer is a secret, which is written down nowhere.
    pub fn is_secret(&self) -> bool {
        self.questions.iter().any(|question| question.secret)
    }

    /// Says whether a reply fits: ids answered are ids asked, and what is not offered is not given to who
    /// takes nothing else. A dialog can be declined; a question cannot.
    pub fn check(&self, reply: &Reply) -> Result<(), Misfit> {
        match (self.kind, reply) {
            (RequestKind::Approval, Reply::Approve(_) | Reply::Deny) => Ok(()),
            (RequestKind::Approval, Reply::Text(_) | Reply::Answers(_)) => {
                Err(Misfit::WantsDecision)
            }
            (RequestKind::Dialog, Reply::Deny) => Ok(()),
            (RequestKind::Question | RequestKind::Dialog, Reply::Approve(_) | Reply::Deny) => {
                Err(Misfit::WantsAnswer)
            }
            (RequestKind::Question | RequestKind::Dialog, Reply::Text(text)) => {
                match self.questions.as_slice() {
                    [] => Ok(()),
                    [only] => only.takes(std::slice::from_ref(text)),
                    _ => Err(Misfit::WantsAnswers(self.ids())),
                }
            }
            (RequestKind::Question | RequestKind::Dialog, Reply::Answers(answers)) => {
                self.check_ids(answers)?;
                let given = |question: &Question| answers.get(&question.id).map_or(&[][..], |a| a);
                self.questions.iter().try_for_each(|question| question.takes(given(question)))
            }
        }
    }

    fn check_ids(&self, answers: &BTreeMap<String, Vec<String>>) -> Result<(), Misfit> {
        let expected = self.ids();
        let asked: BTreeSet<&String> = expected.iter().collect();
        let missing: Vec<String> =
            expected.iter().filter(|id| !answers.contains_key(*id)).cloned().collect();
        let unknown: Vec<String> =
            answers.keys().filter(|id| !asked.contains(id)).cloned().collect();
        if !missing.is_empty() || !unknown.is_empty() {
            return Err(Misfit::Ids { expected, missing, unknown });
        }
        match answers.iter().find(|(_, given)| given.is_empty()) {
            Some((id, _)) => Err(Misfit::Empty(id.clone())),
            None => Ok(()),
        }
    }

    fn ids(&self) -> Vec<String> {
        self.questions.iter().map(|question| question.id.clone()).collect()
    }
}

impl Question {
    fn takes(&self, given: &[String]) -> Result<(), Misfit> {
        let offered = |text: &String| self.options.iter().any(|option| option.label == *text);
        match !self.only_options || given.iter().all(offered) {
            true => Ok(()),
            false => {
                let options = self.options.iter().map(|option| option.label.clone()).collect();
                Err(Misfit::NotOffered { id: self.id.clone(), options })
            }
        }
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
