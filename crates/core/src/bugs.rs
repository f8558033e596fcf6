//! Seeded bugs, which tests switch on one at a time to show that the simulator detects each of
//! them.
//!
//! Compiled only with the feature `seeded-bugs`; without it, every switch is the constant `false`.

use std::cell::Cell;

/// A rule that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    SealIgnoresPendingCheck,
    LateClaimApplied,
    EvidenceOfAnotherTree,
    FenceRemoved,
    CancelOverwrittenByClaim,
    HookKeyReused,
    OutcomeAnnouncedTwice,
    SettleSkipped,
    WaitingCounted,
    KillSkipped,
    LinesFoldedTwice,
    ConfirmationSkipped,
    LostTreeForgotten,
    SnapshotConfirmsItself,
    SlotIgnored,
    SealedWhileLanding,
    SealedWhilePreparing,
    LateLookTaken,
    ProofOutlivesCommit,
    DecisionLost,
    RunCancelOverwritten,
    RunHookKeyReused,
    BudgetOverdrawn,
    TaskBegunTooEarly,
    ParallelIgnored,
    RefutedMergeTaken,
    ConversationShared,
    LateIntegrationTaken,
    LateVerificationTaken,
    QueueForgotten,
    StoppedMoveCounted,
    WorktreeTakenFromAgent,
    StaleLeaseTaken,
    LeaseNeverEnds,
    PushComesBack,
    WrittenIsBegun,
    KeyStoredTwice,
    GivenNewsChanged,
    LossNotReported,
    GateForgotten,
    WaitSkipsState,
    EndNotNoticed,
    UndeliveredNotReported,
    OutlivedGitIgnored,
    LeftWhileLanding,
    ShortageFailsLaunch,
    ShortageNeverRetried,
    OwnTurnIgnored,
    RefusalFailsAttempt,
}

impl Bug {
    pub const ALL: [Bug; 49] = [
        Bug::SealIgnoresPendingCheck,
        Bug::LateClaimApplied,
        Bug::EvidenceOfAnotherTree,
        Bug::FenceRemoved,
        Bug::CancelOverwrittenByClaim,
        Bug::HookKeyReused,
        Bug::OutcomeAnnouncedTwice,
        Bug::SettleSkipped,
        Bug::WaitingCounted,
        Bug::KillSkipped,
        Bug::LinesFoldedTwice,
        Bug::ConfirmationSkipped,
        Bug::LostTreeForgotten,
        Bug::SnapshotConfirmsItself,
        Bug::SlotIgnored,
        Bug::SealedWhileLanding,
        Bug::SealedWhilePreparing,
        Bug::LateLookTaken,
        Bug::ProofOutlivesCommit,
        Bug::DecisionLost,
        Bug::RunCancelOverwritten,
        Bug::RunHookKeyReused,
        Bug::BudgetOverdrawn,
        Bug::TaskBegunTooEarly,
        Bug::ParallelIgnored,
        Bug::RefutedMergeTaken,
        Bug::ConversationShared,
        Bug::LateIntegrationTaken,
        Bug::LateVerificationTaken,
        Bug::QueueForgotten,
        Bug::StoppedMoveCounted,
        Bug::WorktreeTakenFromAgent,
        Bug::StaleLeaseTaken,
        Bug::LeaseNeverEnds,
        Bug::PushComesBack,
        Bug::WrittenIsBegun,
        Bug::KeyStoredTwice,
        Bug::GivenNewsChanged,
        Bug::LossNotReported,
        Bug::GateForgotten,
        Bug::WaitSkipsState,
        Bug::EndNotNoticed,
        Bug::UndeliveredNotReported,
        Bug::OutlivedGitIgnored,
        Bug::LeftWhileLanding,
        Bug::ShortageFailsLaunch,
        Bug::ShortageNeverRetried,
        Bug::OwnTurnIgnored,
        Bug::RefusalFailsAttempt,
    ];
}

thread_local! {
    static ON: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Enables one seeded bug on this thread, or disables all of them.
pub fn switch(bug: Option<Bug>) {
    ON.set(bug);
}

pub(crate) fn is_on(bug: Bug) -> bool {
    ON.get() == Some(bug)
}
