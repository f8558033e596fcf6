//! States, causes, flags and rules: the vocabulary of a judgement.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Defines an enum with one string per variant, used in code, JSON and documents alike.
macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $(#[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }
    };
}

string_enum!(
    /// The state of an attempt, which is also the state of its session.
    State {
        Working = "working",
        Idle = "idle",
        NeedsInput = "needs_input",
        Finishing = "finishing",
        Rework = "rework",
        Verifying = "verifying",
        Stalled = "stalled",
        Lost = "lost",
        Succeeded = "succeeded",
        Completed = "completed",
        Accepted = "accepted",
        Failed = "failed",
        ExitedWithoutClaim = "exited_without_claim",
        Stopped = "stopped",
        Disputed = "disputed",
        Cancelled = "cancelled",
        Superseded = "superseded",
    }
);

impl State {
    /// Whether the state is an outcome, which means that the attempt is over.
    pub fn is_terminal(self) -> bool {
        match self {
            State::Working
            | State::Idle
            | State::NeedsInput
            | State::Finishing
            | State::Rework
            | State::Verifying
            | State::Stalled
            | State::Lost => false,
            State::Succeeded
            | State::Completed
            | State::Accepted
            | State::Failed
            | State::ExitedWithoutClaim
            | State::Stopped
            | State::Disputed
            | State::Cancelled
            | State::Superseded => true,
        }
    }
}

string_enum!(
    /// Why an attempt failed.
    Cause {
        SelfReported = "self_reported",
        AgentError = "agent_error",
        Verification = "verification",
        ChecksNotRun = "checks_not_run",
        Crash = "crash",
        Timeout = "timeout",
        Launch = "launch",
        Budget = "budget",
    }
);

string_enum!(
    /// Additional information worth showing next to the state.
    Flag {
        LivenessUnknown = "liveness_unknown",
        SettleFirst = "settle_first",
        ProcessStillRunning = "process_still_running",
        ExitCodeUnobserved = "exit_code_unobserved",
        LastSaidWorking = "last_said_working",
        QuestionSuperseded = "question_superseded",
        OpenQuestion = "open_question",
        AnswerResumes = "answer_resumes",
        ExitMismatch = "exit_mismatch",
        Unverified = "unverified",
        ChecksPassed = "checks_passed",
        ChecksFailed = "checks_failed",
        ClaimVsVerdict = "claim_vs_verdict",
        CrashVsVerdict = "crash_vs_verdict",
        Unclaimed = "unclaimed",
        CloseOrPark = "close_or_park",
        ChecksUnfinished = "checks_unfinished",
        EmptyDiff = "empty_diff",
        MovingTree = "moving_tree",
        OutputLimit = "output_limit",
        OutputLost = "output_lost",
        OversizedOutput = "oversized_output",
        Leftovers = "leftovers",
        ProcessesMayRemain = "processes_may_remain",
        Retrying = "retrying",
        LateClaim = "late_claim",
        Limited = "limited",
        Stopping = "stopping",
        OffBranch = "off_branch",
        NotCommitted = "not_committed",
        LeftOut = "left_out",
        ChecksTouched = "checks_touched",
        DiskFull = "disk_full",
        AnswerOverridden = "answer_overridden",
        Suspended = "suspended",
        Adopted = "adopted",
        Interrupted = "interrupted",
        TurnsUnobservable = "turns_unobservable",
        RecordForged = "record_forged",
        ReportsRefused = "reports_refused",
        Starting = "starting",
        Shortage = "shortage",
        ExitUnrecorded = "exit_unrecorded",
    }
);

string_enum!(
    /// The rule that produced a judgement.
    Rule {
        Resolved = "O1",
        Cancelled = "O2",
        Stopped = "O3",
        Request = "O4",
        Superseded = "O5",
        Limited = "O6",
        Ended = "O7",
        Verifying = "V1",
        MovingTree = "V2",
        L1 = "L1", L2 = "L2", L3 = "L3", L4 = "L4", L5 = "L5", L6 = "L6", L7 = "L7",
        L8 = "L8", L9 = "L9", L10 = "L10", L11 = "L11", L12 = "L12", L13 = "L13",
        X1 = "X1", X2 = "X2", X3 = "X3", X4 = "X4", X5 = "X5", X6 = "X6", X7 = "X7",
        X8 = "X8", X9 = "X9", X10 = "X10", X11 = "X11", X12 = "X12", X13 = "X13", X14 = "X14",
    }
);

/// The state of an attempt, and the rule that determined it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub state: State,
    pub cause: Option<Cause>,
    pub flags: BTreeSet<Flag>,
    pub rule: Rule,
}

impl Judgement {
    pub fn new(state: State, rule: Rule) -> Self {
        Judgement { state, cause: None, flags: BTreeSet::new(), rule }
    }

    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        self
    }

    #[must_use]
    pub fn with(mut self, flags: impl IntoIterator<Item = Flag>) -> Self {
        self.flags.extend(flags);
        self
    }

    pub fn is_terminal(&self) -> bool {
        self.state.is_terminal()
    }

    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}
