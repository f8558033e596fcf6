//! What may be asked of a task, and why nothing comes of it.

use super::{
    criterion::{Insufficient, Judgement, Needs, SaysNothing},
    draft::DraftFrom,
    finish::{Allowance, Blocker},
    gate::{Attack, BadTemplate, Blocked, Compared, Shown, Template, Unfit},
    manager::{Action, Config, Epilogue, MoveKind},
    member::{Labels, MAX_MEMBER_NAME, Role},
    message::{Address, Channel, Kind, MAX_TEXT, MAX_WAITING, Priority},
    pictures::{BadFiles, Files},
    proposing::Choice,
    state::Purpose,
};
use crate::{ids::SessionId, text::named, verdict::Receipt};
use serde::{Deserialize, Serialize};

/// A message to be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    pub key: String,
    pub correlation: Option<String>,
    /// How it came. Never read from a request: whoever posts through the socket uses the command line.
    #[serde(skip_deserializing)]
    pub channel: Channel,
    pub to: Address,
    pub kind: Kind,
    pub text: String,
    pub priority: Priority,
    /// How long it is of use.
    pub expires_in_ms: Option<u64>,
    /// Whether it may reach a session in the middle of its turn, where its agent can be steered.
    #[serde(default)]
    pub steer: bool,
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
        /// The member that is given its open messages.
        #[serde(default)]
        to: Option<String>,
        /// Dead-letters its open messages.
        #[serde(default)]
        dead_letter: bool,
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
    /// Gives the task another name. Whether that is free is known where all tasks are.
    Rename {
        name: String,
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
        /// The member that it is for from now on, if another.
        #[serde(default)]
        to: Option<String>,
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
    /// Proposes a criterion and accepts it, or does neither.
    Demand {
        text: String,
        rationale: Option<String>,
        needs: Needs,
    },
    /// Proposes what is listed in a text, or only says what that would be.
    Draft {
        from: DraftFrom,
        #[serde(default)]
        dry_run: bool,
    },
    Judge {
        no: u32,
        judgement: Judgement,
    },
    /// Agrees that Provost runs these commands, which members wrote. Only the operator can.
    ApproveCommands {
        commands: Vec<String>,
    },
    /// Has the check of a criterion run, or that of a piece of evidence.
    Check {
        what: Checked,
    },
    CheckDone {
        no: u32,
        receipt: Box<Receipt>,
        /// What was measured, if pictures were compared.
        #[serde(default)]
        compared: Option<Box<Compared>>,
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
        /// Never read from a request, as that of a [`Post`].
        #[serde(skip_deserializing)]
        channel: Channel,
    },
    StopLoop {
        because: String,
    },
    /// Has a member's agent leave its turn, and told this next if anything.
    Interrupt {
        member: String,
        key: String,
        text: Option<String>,
    },
    /// Has a member's agent make its conversation shorter.
    Compact {
        member: String,
        key: String,
    },
    Configure {
        config: Box<Config>,
        expected: u32,
    },
    RecordMove {
        kind: MoveKind,
        because: String,
    },
    /// Proposes what comes next: the worker first, then the manager.
    ProposeNext {
        text: String,
    },
    /// Chooses between the two.
    ChooseNext {
        choice: Choice,
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
        /// What the operator lets pass, by the blockers' names.
        #[serde(default)]
        allow: Vec<Allowance>,
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
    /// A piece of evidence that is two pictures: these.
    Pictures {
        evidence: String,
        files: Files,
    },
}

impl Checked {
    /// Gives what is checked for a piece of evidence, with the pictures if they are named.
    pub fn of_evidence(evidence: String, files: Option<Files>) -> Checked {
        match files {
            Some(files) => Checked::Pictures { evidence, files },
            None => Checked::Evidence(evidence),
        }
    }
}

impl Checked {
    /// Whether a check is run for this.
    pub(super) fn is_for(&self, purpose: &Purpose) -> bool {
        match (self, purpose) {
            (Checked::Criterion(wanted), Purpose::Criterion(no)) => wanted == no,
            (
                Checked::Evidence(wanted) | Checked::Pictures { evidence: wanted, .. },
                Purpose::Evidence { name, .. },
            ) => wanted == name,
            (Checked::Criterion(_) | Checked::Evidence(_) | Checked::Pictures { .. }, _) => false,
        }
    }
}

impl Command {
    /// Gives the key under which it stores a message.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else stores one")]
    pub fn message_key(&self) -> Option<&str> {
        match self {
            Command::Post(post) => Some(&post.key),
            Command::Continue { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Gives the session that it binds.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else binds one")]
    pub fn bound_session(&self) -> Option<SessionId> {
        match self {
            Command::Bind { session, .. } | Command::Rotate { session, .. } => *session,
            _ => None,
        }
    }

    /// Gives the moves of which one has to be recorded before this is asked for, where moves are demanded.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all else is by what it does")]
    pub(super) fn moves(&self) -> &'static [MoveKind] {
        match self {
            // To begin a loop is no end of anything.
            Command::BeginLoop { .. } => &[],
            _ => self.action().map_or(&[], Action::moves),
        }
    }

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
            Command::Propose { .. } | Command::Draft { .. } | Command::ProposeNext { .. } => {
                Action::Propose
            }
            Command::ChooseNext { .. } => Action::Choose,
            // Whoever may not judge may not demand; whether it may propose is looked at besides.
            Command::Judge { .. } | Command::Demand { .. } | Command::ApproveCommands { .. } => {
                Action::Judge
            }
            Command::Check { .. }
            | Command::Show { .. }
            | Command::DoEpilogue { .. }
            | Command::AttackWork { .. } => Action::Show,
            Command::Continue { .. } => Action::Continue,
            Command::Interrupt { .. } => Action::Interrupt,
            Command::Compact { .. } => Action::Compact,
            Command::BeginLoop { .. } | Command::StopLoop { .. } => Action::Loop,
            Command::Configure { .. } | Command::Rename { .. } => Action::Configure,
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
    #[error("a {} may not {}", .role.word(), .action.words())]
    NotForRole { role: Role, action: Action },
    #[error("that \"{what}\" is done is not for you to say: {whose} does")]
    NotToRecord { what: &'static str, whose: &'static str },
    #[error(
        "a reviewer does not propose what comes next: a worker and a manager do, and it chooses"
    )]
    ReviewerChooses,
    #[error("members post instructions, notes and reports; a message of kind {} is Provost's own", .0.word())]
    NotToPost(Kind),
    #[error("only the operator agrees to commands that members wrote")]
    OperatorConsents,
    #[error("no command waits for consent: {0}")]
    NoSuchCommand(String),
    #[error("the operator has not agreed to run `{0}`, which a member wrote")]
    NeedsConsent(String),
    #[error("the command `{command}` is denied by the approval rule \"{rule}\"")]
    DeniedCommand { command: String, rule: String },
    #[error("the configuration does not let the manager {}", .0.words())]
    NotGranted(Action),
    #[error("revision {0} of the contract is not acknowledged yet")]
    NotAcknowledged(u32),
    #[error("in strict mode a move is recorded first, one of: {}", words(.0))]
    NoMove(&'static [MoveKind]),
    #[error(
        "{0:?} is no name of a member: expected 1 to {MAX_MEMBER_NAME} characters that can be seen, with no blank first or last"
    )]
    BadName(String),
    #[error("\"{0}\" is taken: every name is used once in a task")]
    NameTaken(String),
    #[error("\"{0}\" is no member's name: Provost itself uses it; choose another")]
    NameReserved(String),
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
    #[error("lease {lease} of message {no} was never given to anybody")]
    NoLease { no: u32, lease: u32 },
    #[error(
        "the key \"{0}\" was used for another message of yours, which stays as it is: use another key"
    )]
    KeyTaken(String),
    #[error("{0} is no worker: an iteration begins when a worker accepts it")]
    NoWorker(String),
    #[error("messages of {0} are for {0} alone")]
    NotYours(String),
    #[error("criterion {0} is not of this task")]
    NoCriterion(u32),
    #[error("a criterion that is {state} cannot be changed by \"{judgement}\"")]
    IllegalJudgement { state: &'static str, judgement: &'static str },
    #[error("the receipt satisfies nothing: {0}")]
    Insufficient(#[from] Insufficient),
    #[error(transparent)]
    SaysNothing(#[from] SaysNothing),
    #[error("a task has at most {0} criteria")]
    TooManyCriteria(usize),
    #[error("there is nothing to check there: it needs somebody's word, not a command")]
    NothingToCheck,
    #[error("name the pictures that are to be compared: the loop does not say which")]
    NoPictures,
    #[error("the loop says which pictures are compared, and these are others")]
    OtherPictures,
    #[error(transparent)]
    BadFiles(#[from] BadFiles),
    #[error("there is nobody whose work could be checked: bind a worker first")]
    NoWork,
    #[error("no loop runs")]
    NoLoop,
    #[error("the loop \"{0}\" runs already: stop it first")]
    LoopRuns(String),
    #[error(
        "the operator began the loop \"{0}\", and it is unfinished: only the operator begins another in its place"
    )]
    OperatorsLoop(String),
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
    #[error("the worker proposes first, without knowing what the manager thinks")]
    WorkerFirst,
    #[error("round {0} has that proposal already: it is the other's turn, or that of who chooses")]
    Proposed(u32),
    #[error("there are no two proposals to choose from")]
    NotBoth,
    #[error("who proposed does not choose")]
    OwnProposal,
    #[error("only the operator lets {} pass", names(.0))]
    OperatorAllows(Vec<Allowance>),
    #[error(
        "{} has {count} open message{}: hand them over with --to MEMBER, or give them up with --dead-letter", named(.member), if *.count == 1 { "" } else { "s" }
    )]
    MessagesOpen { member: String, count: usize },
    #[error("{0} cannot be given its own messages")]
    OwnSuccessor(String),
    #[error("the task's audit runs already")]
    BeingAudited,
    #[error("the task is not paused")]
    NotPaused,
    #[error("{0} has no session that Provost drives: say it with a message")]
    NoSession(String),
    #[error("the session of {member} does not take that: {why}")]
    NotTaken { member: String, why: String },
}

impl Rejected {
    /// Gives the name by which programs know it.
    pub fn code(&self) -> &'static str {
        match self {
            Rejected::Nothing => "nothing_new",
            Rejected::Over(_) => "task_over",
            Rejected::NoMember { .. } => "no_member",
            Rejected::NotForRole { .. }
            | Rejected::NotToRecord { .. }
            | Rejected::ReviewerChooses => "not_for_role",
            Rejected::NotToPost(_) => "not_to_post",
            Rejected::OperatorConsents => "operator_consents",
            Rejected::NoSuchCommand(_) => "no_such_command",
            Rejected::NeedsConsent(_) => "needs_consent",
            Rejected::DeniedCommand { .. } => "denied_command",
            Rejected::NotGranted(_) => "not_granted",
            Rejected::NotAcknowledged(_) => "not_acknowledged",
            Rejected::NoMove(_) => "no_move",
            Rejected::NameTaken(_) => "name_taken",
            Rejected::NameReserved(_) => "name_reserved",
            Rejected::BadName(_) => "bad_name",
            Rejected::SessionTaken => "session_taken",
            Rejected::Full(..) => "inbox_full",
            Rejected::TooLong(_) => "too_long",
            Rejected::NoMessage(_) => "no_message",
            Rejected::MessageIs { .. } => "message_is_otherwise",
            Rejected::StaleLease(_) => "stale_lease",
            Rejected::NoLease { .. } => "no_lease",
            Rejected::KeyTaken(_) => "key_taken",
            Rejected::NoWorker(_) => "not_a_worker",
            Rejected::NotYours(_) => "not_yours",
            Rejected::NoCriterion(_) => "no_criterion",
            Rejected::IllegalJudgement { .. } => "illegal_judgement",
            Rejected::Insufficient(_) => "insufficient",
            Rejected::SaysNothing(_) => "says_nothing",
            Rejected::TooManyCriteria(_) => "too_many_criteria",
            Rejected::NothingToCheck => "nothing_to_check",
            Rejected::NoPictures => "no_pictures",
            Rejected::OtherPictures => "other_pictures",
            Rejected::BadFiles(_) => "bad_pictures",
            Rejected::NoWork => "no_worker",
            Rejected::NoLoop => "no_loop",
            Rejected::LoopRuns(_) => "loop_runs",
            Rejected::OperatorsLoop(_) => "operators_loop",
            Rejected::BadTemplate(_) => "bad_template",
            Rejected::NoSuchEvidence(_) => "no_such_evidence",
            Rejected::OtherIteration { .. } => "other_iteration",
            Rejected::Unfit(_) => "unfit",
            Rejected::Blocked(why) => why.code(),
            Rejected::Revision { .. } => "other_revision",
            Rejected::NotReady(_) => "not_ready",
            Rejected::WorkerFirst => "worker_first",
            Rejected::Proposed(_) => "proposed_already",
            Rejected::NotBoth => "not_both",
            Rejected::OwnProposal => "own_proposal",
            Rejected::OperatorAllows(_) => "operator_allows",
            Rejected::MessagesOpen { .. } => "messages_open",
            Rejected::OwnSuccessor(_) => "own_successor",
            Rejected::BeingAudited => "being_audited",
            Rejected::NotPaused => "not_paused",
            Rejected::NoSession(_) => "no_session",
            Rejected::NotTaken { .. } => "not_taken",
        }
    }
}

fn names(allow: &[Allowance]) -> String {
    allow.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ")
}

fn words(moves: &[MoveKind]) -> String {
    moves.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
}
