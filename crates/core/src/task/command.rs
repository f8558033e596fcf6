//! What may be asked of a task, and why nothing comes of it.

use super::{
    criterion::{Insufficient, Judgement, Needs},
    finish::Blocker,
    gate::{Attack, BadTemplate, Blocked, Shown, Template, Unfit},
    manager::{Action, Config, Epilogue, MoveKind},
    member::{Labels, Role},
    message::{Address, Channel, Kind, MAX_TEXT, MAX_WAITING, Priority},
};
use crate::{ids::SessionId, verdict::Receipt};
use serde::{Deserialize, Serialize};

/// A message to be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    pub key: String,
    pub correlation: Option<String>,
    pub channel: Channel,
    pub to: Address,
    pub kind: Kind,
    pub text: String,
    pub priority: Priority,
    /// How long it is of use.
    pub expires_in_ms: Option<u64>,
}

/// What is asked of a task or observed about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Bind {
        name: String,
        role: Role,
        session: Option<SessionId>,
        labels: Labels,
    },
    Retire {
        name: String,
        because: String,
    },
    /// Lets another take a member's place, if it is still who is meant.
    Rotate {
        from: String,
        to: String,
        session: Option<SessionId>,
        handover: String,
    },
    Label {
        name: String,
        labels: Labels,
    },
    AcknowledgeContract {
        revision: u32,
    },
    Post(Box<Post>),
    /// Takes the next message of a member who asks for its messages.
    Next {
        consumer: String,
    },
    Accept {
        no: u32,
        lease: u32,
        polls: u32,
    },
    Acknowledge {
        no: u32,
        lease: u32,
        note: Option<String>,
    },
    Release {
        no: u32,
        lease: u32,
        reason: String,
    },
    CancelMessage {
        no: u32,
        because: String,
    },
    Requeue {
        no: u32,
        because: String,
    },
    Bury {
        no: u32,
        reason: String,
    },
    Propose {
        text: String,
        rationale: Option<String>,
        needs: Needs,
    },
    Judge {
        no: u32,
        judgement: Judgement,
    },
    /// Has the check of a criterion run, or that of a piece of evidence.
    Check {
        what: Checked,
    },
    CheckDone {
        no: u32,
        receipt: Box<Receipt>,
    },
    BeginLoop {
        template: Box<Template>,
    },
    Show {
        iteration: u32,
        name: String,
        shown: Shown,
    },
    /// Asks for the next iteration.
    Continue {
        iteration: u32,
        to: String,
        key: String,
        text: String,
        channel: Channel,
    },
    StopLoop {
        because: String,
    },
    Configure {
        config: Box<Config>,
        expected: u32,
    },
    RecordMove {
        kind: MoveKind,
        because: String,
    },
    DoEpilogue {
        step: Epilogue,
        evidence: String,
    },
    AttackWork {
        attack: Attack,
    },
    Pause {
        because: String,
    },
    GoOn,
    Finish {
        because: String,
    },
    Fail {
        because: String,
    },
    Cancel {
        because: String,
    },
    /// Time passed, or something about a session did.
    Look,
}

/// What is to be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    Criterion(u32),
    Evidence(String),
}

impl Command {
    /// Gives what is done to the task by this, which is what permissions are about. None for what only Provost
    /// itself tells.
    pub fn action(&self) -> Option<Action> {
        Some(match self {
            Command::Bind { .. }
            | Command::Retire { .. }
            | Command::Rotate { .. }
            | Command::Label { .. } => Action::Bind,
            Command::AcknowledgeContract { .. }
            | Command::Next { .. }
            | Command::Accept { .. }
            | Command::Acknowledge { .. }
            | Command::Release { .. } => Action::Receive,
            Command::Post(post) => match post.to {
                Address::Operator => Action::AskUser,
                Address::Member(_) => Action::Message,
            },
            Command::CancelMessage { .. } | Command::Requeue { .. } | Command::Bury { .. } => {
                Action::Sort
            }
            Command::Propose { .. } => Action::Propose,
            Command::Judge { .. } => Action::Judge,
            Command::Check { .. }
            | Command::Show { .. }
            | Command::DoEpilogue { .. }
            | Command::AttackWork { .. } => Action::Show,
            Command::Continue { .. } => Action::Continue,
            Command::BeginLoop { .. } | Command::StopLoop { .. } => Action::Loop,
            Command::Configure { .. } => Action::Configure,
            Command::RecordMove { .. } => Action::RecordMove,
            Command::Pause { .. }
            | Command::GoOn
            | Command::Finish { .. }
            | Command::Fail { .. }
            | Command::Cancel { .. } => Action::End,
            Command::CheckDone { .. } | Command::Look => return None,
        })
    }
}

/// Why nothing came of a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// It was told before, or is about something that no longer matters.
    #[error("nothing new")]
    Nothing,
    #[error("the task is {0}")]
    Over(&'static str),
    #[error("{who} is not bound to this task")]
    NoMember { who: String },
    #[error("a {} may not {}", .role.word(), .action.word())]
    NotForRole { role: Role, action: Action },
    #[error("the configuration does not let the manager {}", .0.word())]
    NotGranted(Action),
    #[error("revision {0} of the contract is not acknowledged yet")]
    NotAcknowledged(u32),
    #[error("in strict mode a move is recorded first, one of: {}", words(.0))]
    NoMove(&'static [MoveKind]),
    #[error("\"{0}\" is taken: every name is used once in a task")]
    NameTaken(String),
    #[error("that session works for this task already")]
    SessionTaken,
    #[error("{0} messages wait for {1}, which is all that are kept (at most {MAX_WAITING})")]
    Full(usize, String),
    #[error("the text has {0} bytes; at most {MAX_TEXT} are taken")]
    TooLong(usize),
    #[error("message {0} is not of this task, or long over")]
    NoMessage(u32),
    #[error("message {no} is {standing}")]
    MessageIs { no: u32, standing: &'static str },
    #[error("message {0} was offered to somebody else meanwhile; it is theirs now")]
    StaleLease(u32),
    #[error("messages of {0} are for {0} alone")]
    NotYours(String),
    #[error("criterion {0} is not of this task")]
    NoCriterion(u32),
    #[error("a criterion that is {state} cannot be changed by \"{judgement}\"")]
    IllegalJudgement { state: &'static str, judgement: &'static str },
    #[error("the receipt satisfies nothing: {0}")]
    Insufficient(#[from] Insufficient),
    #[error("a task has at most {0} criteria")]
    TooManyCriteria(usize),
    #[error("there is nothing to check there: it needs somebody's word, not a command")]
    NothingToCheck,
    #[error("there is nobody whose work could be checked: bind a worker first")]
    NoWork,
    #[error("no loop runs")]
    NoLoop,
    #[error("the loop \"{0}\" runs already: stop it first")]
    LoopRuns(String),
    #[error(transparent)]
    BadTemplate(#[from] BadTemplate),
    #[error("the loop asks for no evidence of that name; it asks for: {}", .0.join(", "))]
    NoSuchEvidence(Vec<String>),
    #[error("that is iteration {now}, not {given}")]
    OtherIteration { now: u32, given: u32 },
    #[error("it is not what was asked for: {0}")]
    Unfit(#[from] Unfit),
    #[error("the next iteration does not begin: {0}")]
    Blocked(Blocked),
    #[error("the configuration is at revision {now}; the change was for revision {given}")]
    Revision { now: u32, given: u32 },
    #[error("{} things keep the task from being finished", .0.len())]
    NotReady(Vec<Blocker>),
    #[error("the task's audit runs already")]
    BeingAudited,
    #[error("the task is not paused")]
    NotPaused,
}

fn words(moves: &[MoveKind]) -> String {
    moves.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
}
