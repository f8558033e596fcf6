//! The table: claim × process × activity × verification → state, cause, flags, rule.
//!
//! A test compares all 240 cells with the golden contract file, which this module never reads.

use super::{
    facts::{Activity, ClaimKind, ProcessFact, VerificationFact},
    state::{Cause, Flag, Judgement, Rule, State},
};

/// Judges an attempt from its facts alone, ignoring the overlay.
pub fn judge_facts_by_table(
    claim: ClaimKind,
    process: ProcessFact,
    activity: Activity,
    verification: &VerificationFact,
) -> Judgement {
    let ended = match (process, activity) {
        (ProcessFact::Exit0, _) => Some(ExitKind::Cleanly),
        (ProcessFact::ExitN, _) => Some(ExitKind::Crashed),
        (ProcessFact::Alive | ProcessFact::Unknown, Activity::Exited) => Some(ExitKind::Cleanly),
        (
            ProcessFact::Alive | ProcessFact::Unknown,
            Activity::Active | Activity::Idle | Activity::Stale,
        ) => None,
    };
    match ended {
        Some(ended) => {
            judge_ended(claim, ended, verification).with(ending_flags(process, activity))
        }
        None => judge_running(claim, process, activity, verification).with(liveness_flags(process)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ExitKind {
    /// The process exited with code 0 or with an unknown code, or Provost's own signal stopped it.
    Cleanly,
    Crashed,
}

fn judge_running(
    claim: ClaimKind,
    process: ProcessFact,
    activity: Activity,
    verification: &VerificationFact,
) -> Judgement {
    use VerificationFact as V;
    let moving = activity == Activity::Active;
    match (claim, verification) {
        (ClaimKind::Completed, _) if moving => Judgement::new(State::Finishing, Rule::L1),
        (ClaimKind::Completed, V::Passed(_)) => {
            Judgement::new(State::Succeeded, Rule::L2).with([Flag::CloseOrPark])
        }
        (ClaimKind::Completed, V::Failed(_)) => Judgement::new(State::Rework, Rule::L3),
        (ClaimKind::Completed, V::None) => {
            Judgement::new(State::Completed, Rule::L4).with([Flag::Unverified, Flag::CloseOrPark])
        }
        (ClaimKind::Failed, _) if moving => Judgement::new(State::Finishing, Rule::L5),
        (ClaimKind::Failed, V::Passed(_)) => {
            Judgement::new(State::Disputed, Rule::L6).with([Flag::ClaimVsVerdict])
        }
        (ClaimKind::Failed, V::Failed(_) | V::None) => Judgement::new(State::Failed, Rule::L7)
            .because(Cause::SelfReported)
            .with([Flag::CloseOrPark]),
        (ClaimKind::NeedsInput, _) if moving => {
            Judgement::new(State::Working, Rule::L8).with([Flag::QuestionSuperseded])
        }
        (ClaimKind::NeedsInput, _) => {
            Judgement::new(State::NeedsInput, Rule::L9).with(check_flag(verification))
        }
        (ClaimKind::None | ClaimKind::Working, _) => {
            judge_running_unclaimed(process, activity).with(check_flag(verification))
        }
    }
}

fn judge_running_unclaimed(process: ProcessFact, activity: Activity) -> Judgement {
    match (activity, process) {
        (Activity::Active, _) => Judgement::new(State::Working, Rule::L10),
        (Activity::Idle, _) => Judgement::new(State::Idle, Rule::L11),
        (Activity::Stale | Activity::Exited, ProcessFact::Unknown) => {
            Judgement::new(State::Lost, Rule::L13)
        }
        (
            Activity::Stale | Activity::Exited,
            ProcessFact::Alive | ProcessFact::Exit0 | ProcessFact::ExitN,
        ) => Judgement::new(State::Stalled, Rule::L12),
    }
}

fn judge_ended(claim: ClaimKind, ended: ExitKind, verification: &VerificationFact) -> Judgement {
    use VerificationFact as V;
    let mismatch = (ended == ExitKind::Crashed).then_some(Flag::ExitMismatch);
    match (claim, ended, verification) {
        (ClaimKind::Completed, _, V::Passed(_)) => {
            Judgement::new(State::Succeeded, Rule::X1).with(mismatch)
        }
        (ClaimKind::Completed, _, V::Failed(_)) => {
            Judgement::new(State::Failed, Rule::X2).because(Cause::Verification)
        }
        (ClaimKind::Completed, ExitKind::Cleanly, V::None) => {
            Judgement::new(State::Completed, Rule::X3).with([Flag::Unverified])
        }
        (ClaimKind::Completed, ExitKind::Crashed, V::None) => {
            Judgement::new(State::Disputed, Rule::X4).with(mismatch)
        }
        (ClaimKind::Failed, _, V::Failed(_) | V::None) => {
            Judgement::new(State::Failed, Rule::X5).because(Cause::SelfReported)
        }
        (ClaimKind::Failed, _, V::Passed(_)) => {
            Judgement::new(State::Disputed, Rule::X6).with([Flag::ClaimVsVerdict])
        }
        (ClaimKind::NeedsInput, ExitKind::Cleanly, _) => {
            Judgement::new(State::NeedsInput, Rule::X7)
                .with([Flag::AnswerResumes])
                .with(check_flag(verification))
        }
        (ClaimKind::NeedsInput, ExitKind::Crashed, V::Failed(_) | V::None) => {
            Judgement::new(State::Failed, Rule::X8).because(Cause::Crash).with([Flag::OpenQuestion])
        }
        (ClaimKind::NeedsInput, ExitKind::Crashed, V::Passed(_)) => {
            Judgement::new(State::Disputed, Rule::X9).with([Flag::OpenQuestion, Flag::ExitMismatch])
        }
        (ClaimKind::None | ClaimKind::Working, _, _) => {
            judge_ended_unclaimed(claim, ended, verification)
        }
    }
}

fn judge_ended_unclaimed(
    claim: ClaimKind,
    ended: ExitKind,
    verification: &VerificationFact,
) -> Judgement {
    use VerificationFact as V;
    match (ended, verification) {
        (ExitKind::Crashed, V::Failed(_) | V::None) => {
            Judgement::new(State::Failed, Rule::X10).because(Cause::Crash)
        }
        (ExitKind::Crashed, V::Passed(_)) => {
            Judgement::new(State::Disputed, Rule::X11).with([Flag::CrashVsVerdict])
        }
        (ExitKind::Cleanly, V::Passed(_)) => {
            Judgement::new(State::ExitedWithoutClaim, Rule::X12).with([Flag::ChecksPassed])
        }
        (ExitKind::Cleanly, V::Failed(_)) => Judgement::new(State::Failed, Rule::X13)
            .because(Cause::Verification)
            .with([Flag::Unclaimed]),
        (ExitKind::Cleanly, V::None) => Judgement::new(State::ExitedWithoutClaim, Rule::X14)
            .with((claim == ClaimKind::Working).then_some(Flag::LastSaidWorking)),
    }
}

fn check_flag(verification: &VerificationFact) -> Option<Flag> {
    match verification {
        VerificationFact::None => None,
        VerificationFact::Passed(_) => Some(Flag::ChecksPassed),
        VerificationFact::Failed(_) => Some(Flag::ChecksFailed),
    }
}

fn liveness_flags(process: ProcessFact) -> Option<Flag> {
    (process == ProcessFact::Unknown).then_some(Flag::LivenessUnknown)
}

fn ending_flags(process: ProcessFact, activity: Activity) -> Vec<Flag> {
    match (process, activity) {
        (ProcessFact::Alive, _) => {
            vec![Flag::SettleFirst, Flag::ProcessStillRunning, Flag::ExitCodeUnobserved]
        }
        (ProcessFact::Unknown, _) => vec![Flag::SettleFirst, Flag::ExitCodeUnobserved],
        (ProcessFact::Exit0 | ProcessFact::ExitN, Activity::Active) => vec![Flag::SettleFirst],
        (
            ProcessFact::Exit0 | ProcessFact::ExitN,
            Activity::Idle | Activity::Stale | Activity::Exited,
        ) => {
            vec![]
        }
    }
}
