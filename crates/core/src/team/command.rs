//! The commands a team accepts, and the reasons for rejecting them.

use super::{
    blind_proposals::ProposalChoice,
    criteria_draft::DraftSource,
    criterion::{CriterionJudgement, EvidenceRequirement, InsufficientEvidence, TextTooShort},
    finish::{BlockerWaiver, FinishBlocker},
    loop_evidence::{EvidenceMismatch, PictureComparison, ShownEvidence, WorkChallenge},
    loop_state::{ContinuationBlocked, LoopTemplate, LoopTemplateError},
    manager::{EpilogueStep, ManagerConfig, MoveKind, TeamAction},
    member::{MAX_MEMBER_NAME, MemberLabels, MemberRole},
    message::{MAX_TEXT, MAX_WAITING, MessageChannel, Priority, Recipient, TeamMessageKind},
    pictures::{PictureFiles, PictureFilesError},
    state::CheckPurpose,
};
use crate::{ids::SessionId, text::quote_name, verdict::Receipt};
use serde::{Deserialize, Serialize};

/// A message to store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMessage {
    pub key: String,
    pub correlation: Option<String>,
    /// The channel on which the message arrived. The channel is never read from the request. Messages that arrive on
    /// the socket count as sent from the command line.
    #[serde(skip_deserializing)]
    pub channel: MessageChannel,
    pub to: Recipient,
    pub kind: TeamMessageKind,
    pub text: String,
    pub priority: Priority,
    /// The time until the message expires.
    pub expires_in_ms: Option<u64>,
    /// Whether the message may be delivered in the middle of a turn, if the agent can be steered.
    #[serde(default)]
    pub steer: bool,
}

/// A request to a team, or an observation about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamCommand {
    Bind {
        name: String,
        role: MemberRole,
        session: Option<SessionId>,
        labels: MemberLabels,
    },
    Retire {
        name: String,
        because: String,
        /// The member that takes over the retired member's open messages.
        #[serde(default)]
        to: Option<String>,
        /// Whether to dead-letter the retired member's open messages.
        #[serde(default)]
        dead_letter: bool,
    },
    /// Replaces the member `from`, if that member is still bound.
    Rotate {
        from: String,
        to: String,
        session: Option<SessionId>,
        handover: String,
    },
    Label {
        name: String,
        labels: MemberLabels,
    },
    /// Renames the team. The caller, who knows all teams, checks that the name is unique.
    Rename {
        name: String,
    },
    AcknowledgeContract {
        revision: u32,
    },
    Post(Box<NewMessage>),
    /// Takes the next message on behalf of a member that polls.
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
    DeadLetter {
        no: u32,
        reason: String,
    },
    Propose {
        text: String,
        rationale: Option<String>,
        needs: EvidenceRequirement,
    },
    /// Proposes and accepts a criterion in one step. If one of the two fails, neither happens.
    ProposeAccepted {
        text: String,
        rationale: Option<String>,
        needs: EvidenceRequirement,
    },
    /// Proposes the criteria that a text lists, or only returns them if `dry_run` is set.
    Draft {
        from: DraftSource,
        #[serde(default)]
        dry_run: bool,
    },
    Judge {
        no: u32,
        judgement: CriterionJudgement,
    },
    /// Allows Provost to run the given commands, which members wrote. Only the operator may allow
    /// commands.
    ApproveCommands {
        commands: Vec<String>,
    },
    /// Runs the check for a criterion or a piece of evidence.
    Check {
        what: CheckSubject,
    },
    CheckDone {
        no: u32,
        receipt: Box<Receipt>,
        /// The measured difference, if pictures were compared.
        #[serde(default)]
        compared: Option<Box<PictureComparison>>,
    },
    BeginLoop {
        template: Box<LoopTemplate>,
    },
    Show {
        iteration: u32,
        name: String,
        shown: ShownEvidence,
    },
    /// Requests the next iteration.
    Continue {
        iteration: u32,
        to: String,
        key: String,
        text: String,
        /// The channel on which the request arrived. As in a [`NewMessage`], the channel is never read from the
        /// request.
        #[serde(skip_deserializing)]
        channel: MessageChannel,
    },
    StopLoop {
        because: String,
    },
    /// Interrupts a member's agent. If a text is given, the agent receives it next.
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
        config: Box<ManagerConfig>,
        expected: u32,
    },
    RecordMove {
        kind: MoveKind,
        because: String,
    },
    /// Proposes the next step. The worker proposes first, then the manager.
    ProposeNext {
        text: String,
    },
    /// Chooses between the two proposals.
    ChooseNext {
        choice: ProposalChoice,
        because: String,
    },
    DoEpilogue {
        step: EpilogueStep,
        evidence: String,
    },
    ChallengeWork {
        challenge: WorkChallenge,
    },
    Pause {
        because: String,
    },
    Resume,
    Finish {
        because: String,
        /// The names of the blockers that the operator waives.
        #[serde(default)]
        allow: Vec<BlockerWaiver>,
    },
    Fail {
        because: String,
    },
    Cancel {
        because: String,
    },
    /// Time has passed, or a session has changed.
    Tick,
}

/// The subject of a requested check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckSubject {
    Criterion(u32),
    Evidence(String),
    /// A piece of evidence that compares two given pictures.
    Pictures {
        evidence: String,
        files: PictureFiles,
    },
}

impl CheckSubject {
    /// Builds the subject for a piece of evidence, including the pictures if the caller specifies them.
    pub fn for_evidence(evidence: String, files: Option<PictureFiles>) -> CheckSubject {
        match files {
            Some(files) => CheckSubject::Pictures { evidence, files },
            None => CheckSubject::Evidence(evidence),
        }
    }
}

impl CheckSubject {
    /// Whether a check with this purpose is for this subject.
    pub(super) fn matches_purpose(&self, purpose: &CheckPurpose) -> bool {
        match (self, purpose) {
            (CheckSubject::Criterion(wanted), CheckPurpose::Criterion(no)) => wanted == no,
            (
                CheckSubject::Evidence(wanted) | CheckSubject::Pictures { evidence: wanted, .. },
                CheckPurpose::Evidence { name, .. },
            ) => wanted == name,
            (
                CheckSubject::Criterion(_)
                | CheckSubject::Evidence(_)
                | CheckSubject::Pictures { .. },
                _,
            ) => false,
        }
    }
}

impl TeamCommand {
    /// Returns the idempotency key under which the command stores a message.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else stores one")]
    pub fn message_key(&self) -> Option<&str> {
        match self {
            TeamCommand::Post(post) => Some(&post.key),
            TeamCommand::Continue { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Returns the session that the command binds, if any.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else binds one")]
    pub fn bound_session(&self) -> Option<SessionId> {
        match self {
            TeamCommand::Bind { session, .. } | TeamCommand::Rotate { session, .. } => *session,
            _ => None,
        }
    }

    /// Returns the kinds of moves that permit this command. If moves are required, a move of one of these kinds must be
    /// recorded first.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others depend on the action")]
    pub(super) fn required_moves(&self) -> &'static [MoveKind] {
        match self {
            // Beginning a loop does not end anything, so it needs no move.
            TeamCommand::BeginLoop { .. } => &[],
            _ => self.action().map_or(&[], TeamAction::required_moves),
        }
    }

    /// Returns the action for which permissions are checked. None for observations that only
    /// Provost itself reports.
    pub fn action(&self) -> Option<TeamAction> {
        Some(match self {
            TeamCommand::Bind { .. }
            | TeamCommand::Retire { .. }
            | TeamCommand::Rotate { .. }
            | TeamCommand::Label { .. } => TeamAction::Bind,
            TeamCommand::AcknowledgeContract { .. }
            | TeamCommand::Next { .. }
            | TeamCommand::Accept { .. }
            | TeamCommand::Acknowledge { .. }
            | TeamCommand::Release { .. } => TeamAction::Receive,
            TeamCommand::Post(post) => match post.to {
                Recipient::Operator => TeamAction::AskUser,
                Recipient::Member(_) => TeamAction::Message,
            },
            TeamCommand::CancelMessage { .. }
            | TeamCommand::Requeue { .. }
            | TeamCommand::DeadLetter { .. } => TeamAction::ManageMessages,
            TeamCommand::Propose { .. }
            | TeamCommand::Draft { .. }
            | TeamCommand::ProposeNext { .. } => TeamAction::Propose,
            TeamCommand::ChooseNext { .. } => TeamAction::Choose,
            // `ProposeAccepted` requires permission to judge. Permission to propose is checked separately.
            TeamCommand::Judge { .. }
            | TeamCommand::ProposeAccepted { .. }
            | TeamCommand::ApproveCommands { .. } => TeamAction::Judge,
            TeamCommand::Check { .. }
            | TeamCommand::Show { .. }
            | TeamCommand::DoEpilogue { .. }
            | TeamCommand::ChallengeWork { .. } => TeamAction::Show,
            TeamCommand::Continue { .. } => TeamAction::Continue,
            TeamCommand::Interrupt { .. } => TeamAction::Interrupt,
            TeamCommand::Compact { .. } => TeamAction::Compact,
            TeamCommand::BeginLoop { .. } | TeamCommand::StopLoop { .. } => TeamAction::Loop,
            TeamCommand::Configure { .. } | TeamCommand::Rename { .. } => TeamAction::Configure,
            TeamCommand::RecordMove { .. } => TeamAction::RecordMove,
            TeamCommand::Pause { .. }
            | TeamCommand::Resume
            | TeamCommand::Finish { .. }
            | TeamCommand::Fail { .. }
            | TeamCommand::Cancel { .. } => TeamAction::End,
            TeamCommand::CheckDone { .. } | TeamCommand::Tick => return None,
        })
    }
}

/// The reason why a command was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeamRejection {
    /// The command is a duplicate, or refers to something that is already settled.
    #[error("nothing new")]
    NothingNew,
    #[error("the team is {0}")]
    TeamOver(&'static str),
    #[error("{who} is not a member of this team")]
    NoMember { who: String },
    #[error("a {} cannot {}", .role.as_str(), .action.describe())]
    NotForRole { role: MemberRole, action: TeamAction },
    #[error("only {whose} can record \"{what}\"")]
    RecordNotAllowed { what: &'static str, whose: &'static str },
    #[error(
        "a reviewer cannot propose the next step: the worker and the manager propose, and the reviewer chooses"
    )]
    ReviewerChooses,
    #[error("members can send instructions, notes and reports; only Provost sends messages of kind {}", .0.as_str())]
    KindNotAllowed(TeamMessageKind),
    #[error("only the operator can approve commands that members wrote")]
    OperatorConsents,
    #[error("the command `{0}` is not waiting for approval")]
    NoSuchCommand(String),
    #[error("the operator has not approved `{0}`, which a member wrote")]
    NeedsConsent(String),
    #[error("the command `{command}` is denied by the approval rule \"{rule}\"")]
    DeniedCommand { command: String, rule: String },
    #[error("the configuration does not allow the manager to {}", .0.describe())]
    NotGranted(TeamAction),
    #[error("revision {0} of the contract is not accepted yet")]
    ContractNotAccepted(u32),
    #[error("strict mode requires a recorded move first, one of: {}", join_moves(.0))]
    NoMove(&'static [MoveKind]),
    #[error(
        "{0:?} is not a valid member name: expected 1 to {MAX_MEMBER_NAME} visible characters without leading or trailing blanks"
    )]
    BadName(String),
    #[error("the name \"{0}\" is taken: a team never reuses a name")]
    NameTaken(String),
    #[error("the name \"{0}\" is reserved for Provost: choose another")]
    NameReserved(String),
    #[error("the session already belongs to a member of this team")]
    SessionTaken,
    #[error("{0} messages are already waiting for {1} (at most {MAX_WAITING})")]
    InboxFull(usize, String),
    #[error("the message text has {0} bytes (at most {MAX_TEXT})")]
    TooLong(usize),
    #[error(
        "this team has no message {0}, or no longer keeps that message because it was settled long ago"
    )]
    NoMessage(u32),
    #[error("message {no} is {status}")]
    MessageIs { no: u32, status: &'static str },
    #[error("your lease on message {0} has expired, and it was offered again")]
    StaleLease(u32),
    #[error("message {no} was never offered under lease {lease}")]
    NoLease { no: u32, lease: u32 },
    #[error(
        "you already used the key \"{0}\" for another message, which was not changed: use another key"
    )]
    KeyTaken(String),
    #[error("{0} is not a worker: an iteration begins when a worker accepts it")]
    NoWorker(String),
    #[error("only {0} can receive messages for {0}")]
    NotRecipient(String),
    #[error("this team has no criterion {0}")]
    NoCriterion(u32),
    #[error("a criterion that is {state} cannot be changed by \"{judgement}\"")]
    IllegalJudgement { state: &'static str, judgement: &'static str },
    #[error("the evidence is insufficient: {0}")]
    Insufficient(#[from] InsufficientEvidence),
    #[error(transparent)]
    TextTooShort(#[from] TextTooShort),
    #[error("a team has at most {0} criteria")]
    TooManyCriteria(usize),
    #[error("there is no command to run: this criterion or evidence needs an assertion")]
    NothingToCheck,
    #[error("the loop does not specify which pictures to compare: specify them in the request")]
    NoPictures,
    #[error("the specified pictures are not the ones that this loop compares")]
    OtherPictures,
    #[error(transparent)]
    BadFiles(#[from] PictureFilesError),
    #[error("there is no work to check: bind a worker first")]
    NoWorkToCheck,
    #[error("no loop is running")]
    NoLoop,
    #[error("the loop \"{0}\" is already running: stop it first")]
    LoopRuns(String),
    #[error("the operator's loop \"{0}\" is unfinished: only the operator can replace it")]
    OperatorsLoop(String),
    #[error(transparent)]
    BadTemplate(#[from] LoopTemplateError),
    #[error("the loop requires no evidence with the given name: expected one of {}", .0.join(", "))]
    NoSuchEvidence(Vec<String>),
    #[error("the current iteration is {now}, not {given}")]
    OtherIteration { now: u32, given: u32 },
    #[error("the evidence does not fit: {0}")]
    EvidenceMismatch(#[from] EvidenceMismatch),
    #[error("the next iteration cannot begin: {0}")]
    Blocked(ContinuationBlocked),
    #[error(
        "the contract is at revision {now}, not {given}: read it again, then {}",
        if *.accepts { format!("accept revision {now}") } else { format!("change revision {now}") }
    )]
    StaleRevision {
        now: u32,
        given: u32,
        /// Whether the command accepts the contract, as opposed to changing it.
        accepts: bool,
    },
    #[error("{} blockers keep the team from finishing", .0.len())]
    NotReady(Vec<FinishBlocker>),
    #[error("the worker must propose first, before it sees the manager's proposal")]
    WorkerFirst,
    #[error(
        "round {0} already has a proposal from this role: wait for the other proposal, or for the choice"
    )]
    AlreadyProposed(u32),
    #[error("a choice needs two proposals, but at least one is still missing")]
    ProposalsMissing,
    #[error("the author of a proposal cannot choose")]
    OwnProposal,
    #[error("only the operator can waive {}", join_waivers(.0))]
    OperatorAllows(Vec<BlockerWaiver>),
    #[error(
        "{} has {count} open message{}: hand them over with --to MEMBER, or drop them with --dead-letter", quote_name(.member), if *.count == 1 { "" } else { "s" }
    )]
    MessagesOpen { member: String, count: usize },
    #[error("{0} cannot hand its messages over to itself")]
    HandoverToSelf(String),
    #[error("the team's audit is already running")]
    BeingAudited,
    #[error("the team is not paused")]
    NotPaused,
    #[error("{0} has no session that Provost controls: send a message instead")]
    NoSession(String),
    #[error("the session of {member} rejected the command: {why}")]
    SessionRejected { member: String, why: String },
}

impl TeamRejection {
    /// Returns the machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            TeamRejection::NothingNew => "nothing_new",
            TeamRejection::TeamOver(_) => "team_over",
            TeamRejection::NoMember { .. } => "no_member",
            TeamRejection::NotForRole { .. }
            | TeamRejection::RecordNotAllowed { .. }
            | TeamRejection::ReviewerChooses => "not_for_role",
            TeamRejection::KindNotAllowed(_) => "not_to_post",
            TeamRejection::OperatorConsents => "operator_consents",
            TeamRejection::NoSuchCommand(_) => "no_such_command",
            TeamRejection::NeedsConsent(_) => "needs_consent",
            TeamRejection::DeniedCommand { .. } => "denied_command",
            TeamRejection::NotGranted(_) => "not_granted",
            TeamRejection::ContractNotAccepted(_) => "contract_not_accepted",
            TeamRejection::NoMove(_) => "no_move",
            TeamRejection::NameTaken(_) => "name_taken",
            TeamRejection::NameReserved(_) => "name_reserved",
            TeamRejection::BadName(_) => "bad_name",
            TeamRejection::SessionTaken => "session_taken",
            TeamRejection::InboxFull(..) => "inbox_full",
            TeamRejection::TooLong(_) => "too_long",
            TeamRejection::NoMessage(_) => "no_message",
            TeamRejection::MessageIs { .. } => "wrong_message_status",
            TeamRejection::StaleLease(_) => "stale_lease",
            TeamRejection::NoLease { .. } => "no_lease",
            TeamRejection::KeyTaken(_) => "key_taken",
            TeamRejection::NoWorker(_) => "not_a_worker",
            TeamRejection::NotRecipient(_) => "not_yours",
            TeamRejection::NoCriterion(_) => "no_criterion",
            TeamRejection::IllegalJudgement { .. } => "illegal_judgement",
            TeamRejection::Insufficient(_) => "insufficient",
            TeamRejection::TextTooShort(_) => "text_too_short",
            TeamRejection::TooManyCriteria(_) => "too_many_criteria",
            TeamRejection::NothingToCheck => "nothing_to_check",
            TeamRejection::NoPictures => "no_pictures",
            TeamRejection::OtherPictures => "other_pictures",
            TeamRejection::BadFiles(_) => "bad_pictures",
            TeamRejection::NoWorkToCheck => "no_worker",
            TeamRejection::NoLoop => "no_loop",
            TeamRejection::LoopRuns(_) => "loop_runs",
            TeamRejection::OperatorsLoop(_) => "operators_loop",
            TeamRejection::BadTemplate(_) => "bad_template",
            TeamRejection::NoSuchEvidence(_) => "no_such_evidence",
            TeamRejection::OtherIteration { .. } => "other_iteration",
            TeamRejection::EvidenceMismatch(_) => "evidence_mismatch",
            TeamRejection::Blocked(why) => why.code(),
            TeamRejection::StaleRevision { .. } => "other_revision",
            TeamRejection::NotReady(_) => "not_ready",
            TeamRejection::WorkerFirst => "worker_first",
            TeamRejection::AlreadyProposed(_) => "proposed_already",
            TeamRejection::ProposalsMissing => "proposals_missing",
            TeamRejection::OwnProposal => "own_proposal",
            TeamRejection::OperatorAllows(_) => "operator_allows",
            TeamRejection::MessagesOpen { .. } => "messages_open",
            TeamRejection::HandoverToSelf(_) => "own_successor",
            TeamRejection::BeingAudited => "being_audited",
            TeamRejection::NotPaused => "not_paused",
            TeamRejection::NoSession(_) => "no_session",
            TeamRejection::SessionRejected { .. } => "session_rejected",
        }
    }
}

fn join_waivers(allow: &[BlockerWaiver]) -> String {
    allow.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ")
}

fn join_moves(moves: &[MoveKind]) -> String {
    moves.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}
