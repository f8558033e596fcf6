//! States, causes, flags and rules: the vocabulary of a judgement.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Defines an enum with a name and a meaning per variant, used in code, JSON and documents alike.
/// A meaning is a sentence about the session, which is called "it".
macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal: $meaning:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $(#[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// Describes the session in a sentence without a capital letter and a period.
            pub fn meaning(self) -> &'static str {
                match self { $($name::$variant => $meaning),+ }
            }
        }
    };
}

string_enum!(
    /// The state of an attempt, which is also the state of its session.
    State {
        Working = "working": "its turn is open",
        Idle = "idle": "its turn ended without a claim",
        NeedsInput = "needs_input": "it waits for your answer, approval or input",
        Finishing = "finishing": "it claimed completion or failure, but is still active",
        Rework = "rework": "a check refuted its claim; it receives the check's output and continues",
        Verifying = "verifying": "it made a claim or ended, and a check is pending or running",
        Stalled = "stalled": "its turn is open, but it has been silent for longer than the silence window",
        Lost = "lost": "its process cannot be observed, and it is silent",
        Succeeded = "succeeded": "it claimed completion, and the checks passed",
        Completed = "completed": "it claimed completion, or a plain command exited with code 0; there was no check",
        Accepted = "accepted": "you accepted its work with `provost resolve`",
        Failed = "failed": "its work, its process or its start failed; the cause says which",
        ExitedWithoutClaim = "exited_without_claim": "it exited with code 0, but never reported success",
        Stopped = "stopped": "you stopped it before it claimed an outcome",
        Disputed = "disputed": "its claim, its exit and the checks contradict each other, so you have to decide",
        Cancelled = "cancelled": "you cancelled it, so its work is abandoned",
        Superseded = "superseded": "a newer instruction replaced this one",
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
    /// The reason why an attempt failed.
    Cause {
        SelfReported = "self_reported": "it claimed failure",
        AgentError = "agent_error": "its turn ended with an error",
        Verification = "verification": "a check failed",
        ChecksNotRun = "checks_not_run": "the checks could not run",
        Crash = "crash": "its process exited with an error or was killed",
        Timeout = "timeout": "it reached its time limit",
        Launch = "launch": "its program could not be started",
        Budget = "budget": "it used up its tokens or turns",
    }
);

string_enum!(
    /// Additional information worth showing next to the state.
    Flag {
        LivenessUnknown = "liveness_unknown": "its process cannot be observed",
        SettleFirst = "settle_first": "late output can still change the outcome",
        ProcessStillRunning = "process_still_running": "its output has ended, but its process still runs",
        ExitCodeUnobserved = "exit_code_unobserved": "its exit code is unknown",
        LastSaidWorking = "last_said_working": "its last report was that it is working",
        QuestionSuperseded = "question_superseded": "it continued without waiting for the answer to its question",
        OpenQuestion = "open_question": "its question was not answered",
        AnswerResumes = "answer_resumes": "your answer restarts it",
        ExitMismatch = "exit_mismatch": "its exit status contradicts the other facts",
        Unverified = "unverified": "no check has verified the work",
        ChecksPassed = "checks_passed": "the checks passed",
        ChecksFailed = "checks_failed": "the checks failed",
        ClaimVsVerdict = "claim_vs_verdict": "its claim contradicts the checks",
        CrashVsVerdict = "crash_vs_verdict": "it crashed, although the checks passed",
        Unclaimed = "unclaimed": "it made no claim",
        CloseOrPark = "close_or_park": "its process still runs after the outcome; Provost stops it or keeps it open",
        ChecksUnfinished = "checks_unfinished": "the checks could not be completed",
        EmptyDiff = "empty_diff": "it changed nothing",
        MovingTree = "moving_tree": "its files kept changing during the checks",
        OutputLimit = "output_limit": "it has reached its output limit",
        OutputLost = "output_lost": "a part of its output was lost",
        OversizedOutput = "oversized_output": "it printed a line that is too long to read",
        Leftovers = "leftovers": "it left processes behind, which Provost ended",
        ProcessesMayRemain = "processes_may_remain": "some of its processes may still run",
        Retrying = "retrying": "it is trying again to reach its model",
        LateClaim = "late_claim": "it made a claim after the outcome was sealed",
        Limited = "limited": "it waits for a usage limit to reset",
        Stopping = "stopping": "Provost is ending its process",
        OffBranch = "off_branch": "some of its commits are not on its branch",
        NotCommitted = "not_committed": "its work could not be committed",
        LeftOut = "left_out": "some of its files could not be committed",
        ChecksTouched = "checks_touched": "it changed protected files; the checks used the original ones",
        DiskFull = "disk_full": "it waits for disk space",
        AnswerOverridden = "answer_overridden": "it did not act according to your answer",
        Suspended = "suspended": "a signal suspended its process",
        Adopted = "adopted": "Provost did not start it",
        Interrupted = "interrupted": "its turn was interrupted",
        TurnsUnobservable = "turns_unobservable": "its turns cannot be observed",
        RecordForged = "record_forged": "its directory contains records that Provost did not write",
        ReportsRefused = "reports_refused": "it sent too many reports, so some were refused",
        Starting = "starting": "its process does not run yet",
        Shortage = "shortage": "it waits for a resource",
        ExitUnrecorded = "exit_unrecorded": "its process has exited, but the ledger cannot record that yet",
    }
);

string_enum!(
    /// The rule that produced a judgement.
    Rule {
        Resolved = "O1": "the operator resolved it",
        Cancelled = "O2": "the operator cancelled it",
        Stopped = "O3": "Provost stopped it",
        Request = "O4": "a request of the agent is open and blocks it",
        Superseded = "O5": "a newer instruction came first",
        Limited = "O6": "it exited at a usage limit of its account, and resumes after the reset",
        Ended = "O7": "you stopped it before it claimed an outcome",
        Verifying = "V1": "it claimed completion or ended; its checks are pending or running",
        MovingTree = "V2": "the tree kept changing while it was verified",
        L1 = "L1": "it claimed completion and is still active",
        L2 = "L2": "it claimed completion and the checks passed",
        L3 = "L3": "it claimed completion and still runs, but its work failed verification",
        L4 = "L4": "it claimed completion; no check was configured",
        L5 = "L5": "it claimed failure and is still active",
        L6 = "L6": "it claimed failure, yet the checks passed",
        L7 = "L7": "it claimed failure",
        L8 = "L8": "it asked for input and then continued by itself",
        L9 = "L9": "it claimed to need input",
        L10 = "L10": "its turn is open, and it was active recently",
        L11 = "L11": "its turn ended without a claim",
        L12 = "L12": "its turn is open, but it has been silent for longer than the silence window",
        L13 = "L13": "it cannot be observed, and it is silent",
        X1 = "X1": "it claimed completion, ended, and the checks passed",
        X2 = "X2": "it claimed completion and ended, but its work failed verification",
        X3 = "X3": "it claimed completion and ended; no check was configured",
        X4 = "X4": "it claimed completion but crashed, and no check was configured",
        X5 = "X5": "it claimed failure and ended",
        X6 = "X6": "it claimed failure and ended, yet the checks passed",
        X7 = "X7": "it ended while it needed input; the answer restarts it",
        X8 = "X8": "it crashed while it needed input; the question is kept",
        X9 = "X9": "it crashed while it needed input, yet the checks passed",
        X10 = "X10": "it crashed before it claimed an outcome",
        X11 = "X11": "it crashed before it claimed an outcome, yet the checks passed",
        X12 = "X12": "it ended without a claim, although the checks passed",
        X13 = "X13": "it ended without a claim, and its work failed verification",
        X14 = "X14": "it ended without a failure, but never reported success",
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
