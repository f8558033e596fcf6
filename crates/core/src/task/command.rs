//! The commands a team accepts, and the reasons for rejecting them.

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

/// A message to store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    pub key: String,
    pub correlation: Option<String>,
    /// The channel it arrived on. Never read from a request: posts through the socket use the
    /// command line.
    #[serde(skip_deserializing)]
    pub channel: Channel,
    pub to: Address,
    pub kind: Kind,
    pub text: String,
    pub priority: Priority,
    /// How long the message is useful.
    pub expires_in_ms: Option<u64>,
    /// Whether it may be delivered in the middle of a turn, if the agent can be steered.
    #[serde(default)]
    pub steer: bool,
}

/// A request to a team, or an observation about it.
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
        /// The member that receives its open messages.
        #[serde(default)]
        to: Option<String>,
        /// Whether to dead-letter its open messages.
        #[serde(default)]
        dead_letter: bool,
    },
    /// Replaces a member, if it is still the one named.
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
    /// Renames the team. Uniqueness is checked by the caller, who knows all teams.
    Rename {
        name: String,
    },
    AcknowledgeContract {
        revision: u32,
    },
    Post(Box<Post>),
    /// Takes the next message for a member that polls.
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
        /// The new recipient, if it changes.
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
    /// Proposes and accepts a criterion in one step, or does neither.
    Demand {
        text: String,
        rationale: Option<String>,
        needs: Needs,
    },
    /// Proposes the criteria listed in a text, or only returns them.
    Draft {
        from: DraftFrom,
        #[serde(default)]
        dry_run: bool,
    },
    Judge {
        no: u32,
        judgement: Judgement,
    },
    /// Approves that Provost runs these member-written commands. Operator only.
    ApproveCommands {
        commands: Vec<String>,
    },
    /// Runs the check of a criterion or of a piece of evidence.
    Check {
        what: Checked,
    },
    CheckDone {
        no: u32,
        receipt: Box<Receipt>,
        /// The measured difference, if pictures were compared.
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
    /// Requests the next iteration.
    Continue {
        iteration: u32,
        to: String,
        key: String,
        text: String,
        /// Never read from a request, like that of a [`Post`].
        #[serde(skip_deserializing)]
        channel: Channel,
    },
    StopLoop {
        because: String,
    },
    /// Interrupts a member's agent, and optionally sends it a text next.
    Interrupt {
        member: String,
        key: String,
        text: Option<String>,
    },
    /// Compacts a member's conversation.
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
    /// Proposes the next step: the worker first, then the manager.
    ProposeNext {
        text: String,
    },
    /// Chooses between the two proposals.
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
        /// The names of the blockers that the operator waives.
        #[serde(default)]
        allow: Vec<Allowance>,
    },
    Fail {
        because: String,
    },
    Cancel {
        because: String,
    },
    /// Time passed, or a session changed.
    Look,
}

/// The target of a requested check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    Criterion(u32),
    Evidence(String),
    /// A piece of evidence that compares these two pictures.
    Pictures {
        evidence: String,
        files: Files,
    },
}

impl Checked {
    /// Builds the target for a piece of evidence, with the pictures if they are given.
    pub fn of_evidence(evidence: String, files: Option<Files>) -> Checked {
        match files {
            Some(files) => Checked::Pictures { evidence, files },
            None => Checked::Evidence(evidence),
        }
    }
}

impl Checked {
    /// Whether a check with this purpose is for this target.
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
    /// Returns the idempotency key under which the command stores a message.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else stores one")]
    pub fn message_key(&self) -> Option<&str> {
        match self {
            Command::Post(post) => Some(&post.key),
            Command::Continue { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Returns the session that the command binds.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else binds one")]
    pub fn bound_session(&self) -> Option<SessionId> {
        match self {
            Command::Bind { session, .. } | Command::Rotate { session, .. } => *session,
            _ => None,
        }
    }

    /// Returns the moves of which one must be recorded before this command, if moves are required.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all else is by what it does")]
    pub(super) fn moves(&self) -> &'static [MoveKind] {
        match self {
            // Beginning a loop ends nothing.
            Command::BeginLoop { .. } => &[],
            _ => self.action().map_or(&[], Action::moves),
        }
    }

    /// Returns the action that permissions are checked for. None for observations that only Provost
    /// itself reports.
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
            // `Demand` needs the right to judge. The right to propose is checked separately.
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

/// Why a command was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// It is a duplicate, or about something that no longer matters.
    #[error("nothing new")]
    Nothing,
    #[error("the team is {0}")]
    Over(&'static str),
    #[error("{who} is not a member of this team")]
    NoMember { who: String },
    #[error("a {} may not {}", .role.word(), .action.words())]
    NotForRole { role: Role, action: Action },
    #[error("only {whose} can record \"{what}\"")]
    NotToRecord { what: &'static str, whose: &'static str },
    #[error(
        "a reviewer does not propose the next step: the worker and the manager do, and it chooses"
    )]
    ReviewerChooses,
    #[error("members can send instructions, notes and reports; only Provost sends messages of kind {}", .0.word())]
    NotToPost(Kind),
    #[error("only the operator can approve commands that members wrote")]
    OperatorConsents,
    #[error("no such command waits for approval: `{0}`")]
    NoSuchCommand(String),
    #[error("the operator has not approved `{0}`, which a member wrote")]
    NeedsConsent(String),
    #[error("the command `{command}` is denied by the approval rule \"{rule}\"")]
    DeniedCommand { command: String, rule: String },
    #[error("the configuration does not allow the manager to {}", .0.words())]
    NotGranted(Action),
    #[error("revision {0} of the contract is not acknowledged yet")]
    NotAcknowledged(u32),
    #[error("strict mode requires a recorded move first, one of: {}", words(.0))]
    NoMove(&'static [MoveKind]),
    #[error(
        "{0:?} is not a valid member name: expected 1 to {MAX_MEMBER_NAME} visible characters without leading or trailing blanks"
    )]
    BadName(String),
    #[error("the name \"{0}\" is taken: a team never reuses a name")]
    NameTaken(String),
    #[error("the name \"{0}\" is reserved for Provost: choose another")]
    NameReserved(String),
    #[error("that session already belongs to a member of this team")]
    SessionTaken,
    #[error("{0} messages are already waiting for {1} (at most {MAX_WAITING})")]
    Full(usize, String),
    #[error("the text has {0} bytes (at most {MAX_TEXT})")]
    TooLong(usize),
    #[error("this team has no message {0}, or it was settled long ago")]
    NoMessage(u32),
    #[error("message {no} is {standing}")]
    MessageIs { no: u32, standing: &'static str },
    #[error("your lease on message {0} has expired, and it was offered again")]
    StaleLease(u32),
    #[error("message {no} never had a lease {lease}")]
    NoLease { no: u32, lease: u32 },
    #[error(
        "the key \"{0}\" belongs to another message of yours, which is unchanged: use another key"
    )]
    KeyTaken(String),
    #[error("{0} is not a worker: an iteration begins when a worker accepts it")]
    NoWorker(String),
    #[error("only {0} can receive messages for {0}")]
    NotYours(String),
    #[error("this team has no criterion {0}")]
    NoCriterion(u32),
    #[error("a criterion that is {state} cannot be changed by \"{judgement}\"")]
    IllegalJudgement { state: &'static str, judgement: &'static str },
    #[error("the evidence is insufficient: {0}")]
    Insufficient(#[from] Insufficient),
    #[error(transparent)]
    SaysNothing(#[from] SaysNothing),
    #[error("a team has at most {0} criteria")]
    TooManyCriteria(usize),
    #[error("there is nothing to run: this needs an assertion, not a command")]
    NothingToCheck,
    #[error("name the pictures to compare: the loop does not name them")]
    NoPictures,
    #[error("these are not the pictures that the loop compares")]
    OtherPictures,
    #[error(transparent)]
    BadFiles(#[from] BadFiles),
    #[error("there is no work to check: bind a worker first")]
    NoWork,
    #[error("no loop is running")]
    NoLoop,
    #[error("the loop \"{0}\" is already running: stop it first")]
    LoopRuns(String),
    #[error("the operator's loop \"{0}\" is unfinished: only the operator can replace it")]
    OperatorsLoop(String),
    #[error(transparent)]
    BadTemplate(#[from] BadTemplate),
    #[error("the loop requires no evidence of that name; it requires: {}", .0.join(", "))]
    NoSuchEvidence(Vec<String>),
    #[error("the current iteration is {now}, not {given}")]
    OtherIteration { now: u32, given: u32 },
    #[error("the evidence does not fit: {0}")]
    Unfit(#[from] Unfit),
    #[error("the next iteration cannot begin: {0}")]
    Blocked(Blocked),
    #[error("the configuration is at revision {now}; the change was for revision {given}")]
    Revision { now: u32, given: u32 },
    #[error("{} blockers keep the team from finishing", .0.len())]
    NotReady(Vec<Blocker>),
    #[error("the worker must propose first, without knowing the proposal of the manager")]
    WorkerFirst,
    #[error("round {0} already has that proposal: wait for the other one, or for the choice")]
    Proposed(u32),
    #[error("there are not two proposals to choose from yet")]
    NotBoth,
    #[error("the author of a proposal cannot choose")]
    OwnProposal,
    #[error("only the operator can waive {}", names(.0))]
    OperatorAllows(Vec<Allowance>),
    #[error(
        "{} has {count} open message{}: hand them over with --to MEMBER, or drop them with --dead-letter", named(.member), if *.count == 1 { "" } else { "s" }
    )]
    MessagesOpen { member: String, count: usize },
    #[error("{0} cannot hand its messages over to itself")]
    OwnSuccessor(String),
    #[error("the team's audit is already running")]
    BeingAudited,
    #[error("the team is not paused")]
    NotPaused,
    #[error("{0} has no session that Provost controls: send a message instead")]
    NoSession(String),
    #[error("the session of {member} rejected it: {why}")]
    NotTaken { member: String, why: String },
}

impl Rejected {
    /// Returns the machine-readable code.
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
