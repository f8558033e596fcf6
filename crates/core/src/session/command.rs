//! What may be asked of a session, and what may be observed about it.

use serde::{Deserialize, Serialize};

use super::{
    attempt::Standing,
    effect::EffectKey,
    hook::{HookEnd, HookKey},
    launch::{Cursor, End, EndedBy, Identity, TurnEnd},
    pane::PaneSight,
    spec::Assignment,
    state::{Context, Progress, Usage},
    watch::{Glimpse, Hinted, Record, Recorded, Way},
};
use crate::{
    ids::{LaunchId, RequestId, RunId},
    lifecycle::ClaimKind,
    limits::{MAX_REPORT_BYTES, MAX_REPORTS},
    request::{Asked, Misfit, Reply},
    result::Structured,
    shortage::Shortage,
    task,
    verdict::{Caveats, Receipt, Snapshot},
};

/// What a fact is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    Branch,
    Pr,
    Artifact,
}

/// Something that an agent's stream shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    Ready {
        thread: Option<String>,
    },
    TurnStarted {
        turn: Option<String>,
    },
    TurnEnded {
        turn: Option<String>,
        end: TurnEnd,
        /// What the turn took, if its end tells that.
        usage: Option<Usage>,
        /// What the agent said last in it, for whoever waits for an answer.
        says: Option<String>,
    },
    /// The agent will not work as it was asked to.
    Refused {
        reason: String,
    },
    /// The agent runs, and its server could not be connected to.
    Unreachable {
        reason: String,
    },
    /// Whether the agent pursues a goal, and so begins its next turn by itself.
    Goal {
        active: bool,
    },
    /// The agent's program did not take a message, by the key under which it was written.
    MessageRefused {
        key: String,
        reason: String,
        /// Whether another turn is in its way.
        busy: bool,
    },
    /// The agent works, with less than could be expected.
    Warned {
        text: String,
    },
    Said(Testimony),
    /// How the work stands, together with a result in the form that was asked for.
    Told {
        kind: ClaimKind,
        text: Option<String>,
        result: Structured,
    },
    Asked(Asked),
    Withdrawn {
        native: String,
    },
    /// What became of something that the agent had asked approval for: whether it was done.
    CameOut {
        native: String,
        done: bool,
    },
    /// The agent called a tool by which a member of a task acts on it.
    Called {
        native: String,
        call: Box<task::Call>,
    },
    Progress(Progress),
    Usage(Usage),
    /// How full the context of the agent's model is now.
    Context(Context),
    /// The agent made its conversation shorter.
    Compacted,
    /// The agent did not, though it was asked.
    NotCompacted {
        reason: String,
    },
    Retrying {
        detail: String,
    },
    Oversized {
        bytes: u64,
    },
    /// The journal shows that this message reached the agent.
    InputSeen {
        key: String,
    },
    Closed,
}

/// Who speaks in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporter {
    Launch(LaunchId),
    /// Whoever wrote it down for the launch; nobody saw who that was.
    Dropped(LaunchId),
    Operator,
}

/// What is said about the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Testimony {
    Claim {
        kind: ClaimKind,
        text: Option<String>,
    },
    Fact {
        kind: FactKind,
        value: String,
    },
    /// How far the work is, said beside the stream.
    Progress(Progress),
}

impl Testimony {
    /// How many bytes of text it has.
    pub fn len(&self) -> usize {
        match self {
            Testimony::Claim { text, .. } => text.as_deref().map_or(0, str::len),
            Testimony::Fact { value, .. } => value.len(),
            Testimony::Progress(_) => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How a text is meant for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Steers the open attempt, or opens the next one if the last is sealed.
    Continue,
    /// Ends the open attempt as superseded and opens the next.
    Supersede,
    /// The same, in a new process with a conversation of its own.
    NewThread,
}

/// What an operator may make of an attempt. There is no way to `succeeded` here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolve {
    Accepted,
    Failed,
    Cancelled,
}

/// What is asked of a session or observed about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    WorkPrepared {
        cwd: String,
        base: Option<Snapshot>,
    },
    WorkFailed {
        reason: String,
    },
    WorkRemoved,
    /// What the agent's own program kept is about to be removed.
    StoreRemoved,
    SetupFinished {
        attempt: u32,
        failure: Option<String>,
    },
    LaunchStarted {
        launch: LaunchId,
        holder: Identity,
        child: Identity,
    },
    /// The agent of somebody else is there, as far as that can be seen.
    LaunchAdopted {
        launch: LaunchId,
        child: Option<Identity>,
    },
    LaunchFailed {
        launch: LaunchId,
        reason: String,
    },
    /// A daemon that has just started follows a launch that ran before it.
    LaunchFollowed {
        launch: LaunchId,
    },
    Observed {
        launch: LaunchId,
        signal: Signal,
        cursor: Cursor,
    },
    /// The agent's own record says this at this place in it.
    Recorded {
        launch: LaunchId,
        by: Record,
        place: u64,
        what: Recorded,
    },
    /// The agent's terminal lets guess this; the place is that in its journal.
    Hinted {
        launch: LaunchId,
        by: Glimpse,
        place: u64,
        what: Hinted,
    },
    /// The pane of an agent that somebody else started looks like this.
    PaneSeen {
        launch: LaunchId,
        sight: PaneSight,
    },
    /// A message is about to be typed into a pane, or was.
    Keyed {
        launch: LaunchId,
        key: String,
        way: Way,
    },
    OutputAtLimit {
        launch: LaunchId,
    },
    /// The disk of this directory takes no more.
    OutputNoRoom {
        launch: LaunchId,
        dir: String,
    },
    OutputFlows {
        launch: LaunchId,
    },
    OutputLost {
        launch: LaunchId,
        cursor: Cursor,
    },
    /// A record of an effect that Provost had not started was moved aside.
    RecordForged {
        effect: String,
        moved_to: String,
    },
    /// A report of a launch was refused, because its budget is used up.
    ReportRefused {
        launch: LaunchId,
    },
    ProcessEnded {
        launch: LaunchId,
        end: End,
        by: EndedBy,
    },
    ProcessUnknown {
        launch: LaunchId,
        why: String,
    },
    ProcessSeen {
        launch: LaunchId,
    },
    ProcessSuspended {
        launch: LaunchId,
        suspended: bool,
    },
    /// So many people are at the agent's own screen now.
    PeopleAttached {
        launch: LaunchId,
        people: u32,
    },
    ProcessUnobserved {
        launch: LaunchId,
        why: String,
    },
    TreeGone {
        launch: LaunchId,
        leftovers: u32,
        verified: bool,
    },
    /// `no` is the number of the snapshot that was owed, so that a late answer is known as one.
    SnapshotTaken {
        attempt: u32,
        no: u32,
        snapshot: Snapshot,
        caveats: Caveats,
    },
    SnapshotFailed {
        attempt: u32,
        no: u32,
        reason: String,
    },
    CheckFinished {
        attempt: u32,
        receipt: Receipt,
    },
    HookFinished {
        key: HookKey,
        end: HookEnd,
    },
    /// Nothing was done of an effect, for lack of a resource. `tries` counts the tries before this one that met a
    /// shortage, so that a late answer is known as one.
    EffectShort {
        effect: EffectKey,
        tries: u32,
        shortage: Shortage,
    },
    MessageLost {
        key: String,
        reason: String,
    },
    /// The silence window ran out; this is when something was heard last.
    Silence {
        launch: LaunchId,
        heard_ms: u64,
    },
    /// Time passed.
    Tick,

    Report {
        from: Reporter,
        testimony: Testimony,
    },
    /// Goes on with a conversation that ended, for a task of its run.
    Assign {
        key: String,
        text: String,
        assignment: Assignment,
    },
    Send {
        key: String,
        text: String,
        mode: SendMode,
    },
    Answer {
        request: RequestId,
        revision: u32,
        reply: Reply,
    },
    /// The agent called a tool beside its stream.
    Called {
        launch: LaunchId,
        native: String,
        call: Box<task::Call>,
    },
    /// What came of a call.
    AnswerCall {
        no: u32,
        ok: bool,
        text: String,
    },
    /// Has the agent leave its turn, and told this next if anything.
    Interrupt {
        key: String,
        text: Option<String>,
    },
    /// Has the agent make its conversation shorter.
    Compact {
        key: String,
    },
    Stop,
    /// The team that the session was opened for is over.
    Dismiss {
        because: String,
        /// Whether its turn is interrupted for that.
        at_once: bool,
    },
    Cancel {
        because: String,
    },
    Resolve {
        to: Resolve,
        because: String,
    },
    Rename {
        name: String,
    },
    /// Lets a session that was imported from another home continue here.
    TakeOver,
    RaiseLimit {
        bytes: u64,
    },
    RaiseBudget {
        tokens: Option<u64>,
        turns: Option<u32>,
    },
}

/// What of a session's budget is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedUp {
    pub detail: String,
    /// The flags of `provost limit` that raise it.
    pub raise: &'static str,
}

/// Why nothing came of a command. Late and repeated observations are normal traffic, not failures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// It was observed before, or is about something that no longer matters.
    #[error("nothing new")]
    Nothing,
    #[error("the session is at work: it takes another task when it has ended")]
    AtWork,
    #[error("launch {0} is not of this session")]
    UnknownLaunch(LaunchId),
    #[error("request {0} is not of this session")]
    UnknownRequest(RequestId),
    #[error("request {0} is no longer open: {1}")]
    RequestSettled(RequestId, &'static str),
    #[error("request {id} is at revision {now}; the answer was for revision {given}")]
    RequestRevision { id: RequestId, now: u32, given: u32 },
    #[error("request {0} can be answered in a moment: the session is being stopped")]
    BeingStopped(RequestId),
    #[error("request {0} stands on the agent's own screen, and can be answered there only")]
    AtItsScreen(RequestId),
    #[error("request {0} was given something else than it asked for: {1}")]
    Misfit(RequestId, Misfit),
    #[error("the session has ended as {0}")]
    Sealed(&'static str),
    #[error("the session was cancelled")]
    Cancelled,
    #[error(
        "the session was imported from another home, and nothing of it runs here until it is taken over; that lets this command run again: {0}"
    )]
    Imported(String),
    #[error("its place of work was removed{}", kept_on(.0))]
    PlaceGone(Option<String>),
    #[error("no process of this session is running")]
    NotRunning,
    #[error("it was started by somebody else: end it where it runs")]
    NotOurs,
    #[error("it was started by somebody else: do that where it runs")]
    NotTouched,
    #[error("the session is being stopped")]
    Stopping,
    #[error("the session is being stopped: say it again in a moment, when it has ended")]
    EndsUnheard,
    #[error("no turn is open")]
    NoTurn,
    #[error("{0} has no turns that could be interrupted")]
    HasNoTurns(String),
    #[error("{0} has no conversation that could be compacted")]
    CannotCompact(String),
    #[error("{0} cannot begin another conversation")]
    OneThread(String),
    #[error("it was started by somebody else, and there is no way to say anything to it")]
    NoWayIn,
    #[error(
        "it was started by somebody else and keeps no record that can be read, so that nothing is typed there: say it where it runs"
    )]
    Unrecorded,
    #[error(
        "it was started by somebody else and has ended: start it again where it ran, and adopt it anew"
    )]
    EndedElsewhere,
    #[error("request {0} is no longer open: it was answered, and the answer was lost: {1}")]
    AnswerLost(RequestId, String),
    #[error(
        "Codex's screen runs what begins with `!` as a command of yours and does not take it as a text: begin it with a word, as in `Run this: !…`"
    )]
    RunAsCommand,
    #[error(
        "nothing of the text can be typed into a terminal: it is empty, or of control characters"
    )]
    NothingToType,
    #[error("nothing was typed: {0}")]
    NothingTyped(&'static str),
    #[error("the session worked for run {}, which has done with it", .0.short())]
    OfRun(RunId),
    #[error("it can no longer be resumed: its conversation was removed by gc")]
    ConversationGone,
    #[error("{0} takes no further instructions: it is a plain command")]
    TakesNoInstruction(String),
    #[error(
        "{0} was started with --once and takes nothing while it works: send it when it has ended"
    )]
    WorksOnce(String),
    #[error("{0} was started with --once and named no conversation to go on with")]
    WorkedOnce(String),
    #[error("{0} messages wait for the agent already; it has to take some first")]
    QueueFull(usize),
    #[error("the limit is {now} bytes already; give more")]
    LimitNotRaised { now: u64 },
    #[error("the budget is {0} already; give more")]
    BudgetNotRaised(String),
    #[error(
        "launch {launch} has made as many reports as are recorded: at most {MAX_REPORTS} reports and {} MiB for each launch",
        MAX_REPORT_BYTES >> 20
    )]
    ReportBudget { launch: LaunchId },
    #[error("the session's budget is used up: {}", .0.detail)]
    BudgetUsedUp(UsedUp),
}

fn kept_on(branch: &Option<String>) -> String {
    branch
        .as_ref()
        .map(|branch| format!("; its work is on the branch {branch}"))
        .unwrap_or_default()
}

/// Gives how a recorded report stands, for the reporter.
#[expect(clippy::wildcard_enum_match_arm, reason = "only reports have a standing")]
pub fn standing_of(events: &[super::Event]) -> Option<Standing> {
    events.iter().find_map(|event| match event {
        super::Event::ClaimMade(claim) => Some(claim.standing),
        super::Event::FactTold(fact) => Some(fact.standing),
        super::Event::ProgressTold(_) => Some(Standing::Applied),
        _ => None,
    })
}
