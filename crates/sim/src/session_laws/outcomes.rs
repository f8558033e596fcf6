//! The laws of a session's outcome.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    limits::RUN_SETTLE_MS,
    session::{
        Attempt, AttemptEvent, Event, EvidenceEvent, Session, SessionEffect, StopReason, TurnEnd,
        TurnEvent, WorkLocation,
    },
    time::Moment,
    verdict::{CheckEnd, EmptyDiff, Verdict},
};

use super::{BrokenLaw, law};

/// Only `resolve` changes a sealed outcome, and nothing changes its record.
pub(super) fn sealed_is_final(
    before: &Session,
    event: &Event,
    after: &Session,
) -> Result<(), BrokenLaw> {
    for (was, is) in before.attempts.iter().zip(&after.attempts) {
        if was.sealed.is_none() {
            continue;
        }
        law!(was.sealed == is.sealed, "the sealed record of attempt {} changed", was.no);
        law!(was.claim == is.claim, "a claim was applied to the sealed attempt {}", was.no);
        let resolved = matches!(event, Event::Attempt(AttemptEvent::AttemptResolved(_)));
        law!(
            was.resolutions == is.resolutions || (resolved && is.no == before.attempt().no),
            "the sealed attempt {} was resolved by something else",
            was.no
        );
    }
    let same = before.attempt().no == after.attempt().no && before.attempt().is_sealed();
    let (was, is) = (before.judgement(), after.judgement());
    law!(
        !same
            || matches!(event, Event::Attempt(AttemptEvent::AttemptResolved(_)))
            || (was.state, was.cause, was.rule) == (is.state, is.cause, is.rule),
        "a sealed {} became {}",
        was.state.as_str(),
        is.state.as_str()
    );
    Ok(())
}

/// An attempt is sealed only after a terminal state has lasted for its settle window, and only if no check is pending.
pub(super) fn seal_is_due(before: &Session, at: Moment, event: &Event) -> Result<(), BrokenLaw> {
    let Event::Attempt(AttemptEvent::AttemptSealed(sealed)) = event else { return Ok(()) };
    let (attempt, judged) = (before.attempt(), before.judgement());
    law!(!attempt.is_sealed(), "attempt {} is sealed twice", attempt.no);
    law!(sealed.attempt == attempt.no, "an attempt other than the current one is sealed");
    law!(sealed.sealed.judgement.is_terminal(), "a live state is sealed");
    law!(
        sealed.sealed.judgement.state == judged.state,
        "a {} session is sealed as {}",
        judged.state.as_str(),
        sealed.sealed.judgement.state.as_str()
    );
    // If an attempt is superseded, the next attempt continues the preparation of the worktree.
    let is_preparation = |effect: &_| matches!(effect, SessionEffect::PrepareWork { .. });
    let prepares =
        before.spec.work != WorkLocation::Plain && before.effects().iter().any(is_preparation);
    law!(attempt.superseded || !prepares, "sealed while its worktree is being made");
    if attempt.superseded || !attempt.resolutions.is_empty() {
        return Ok(());
    }
    let proof = before
        .effects()
        .into_iter()
        .find(|e| matches!(e, SessionEffect::TakeSnapshot { .. } | SessionEffect::RunCheck { .. }));
    law!(proof.is_none(), "sealed while {proof:?} is pending");
    let decided = attempt.cancelled.is_some() || attempt.stopped.is_some();
    // A check that only agents wrote proves nothing.
    let named_by_agents = &before.spec.check_terms.agent_checks;
    let unproved = before.spec.checks.iter().any(|check| !named_by_agents.contains(check))
        && judged.has(Flag::Unverified)
        && attempt.verifying.failed.is_none();
    law!(decided || !unproved, "sealed as unverified though checks are configured");
    let bounds = &before.spec.bounds;
    let good =
        before.spec.run.is_some() && matches!(judged.state, State::Succeeded | State::Completed);
    let window = match (judged.has(Flag::SettleFirst), good) {
        (true, _) => bounds.settle_ms.max(bounds.drain_ms),
        (false, true) => bounds.settle_ms.min(RUN_SETTLE_MS),
        (false, false) => bounds.settle_ms,
    };
    // A result that a run's checks verified also held while the checks were running.
    let claimed =
        if good && judged.state == State::Succeeded { attempt.claim.as_ref() } else { None };
    let since = claimed.map_or(attempt.since, |claim| claim.at);
    let waited = at.mono_ms.saturating_sub(since.mono_ms);
    law!(waited >= window, "sealed after {waited} ms, before the window of {window} ms was over");
    Ok(())
}

/// An attempt succeeds only with a claim and a passed verdict on the snapshot's tree. Only users can accept an attempt.
pub(super) fn outcome_is_justified(event: &Event, before: &Session) -> Result<(), BrokenLaw> {
    let Event::Attempt(AttemptEvent::AttemptSealed(sealed)) = event else { return Ok(()) };
    let attempt = before.attempt();
    match sealed.sealed.judgement.state {
        State::Succeeded => success_is_verified(before, attempt, sealed.sealed.tree.as_ref()),
        State::Completed => {
            law!(attempt.claim_kind() == ClaimKind::Completed, "completed without a claim");
            Ok(())
        }
        State::Accepted => {
            law!(!attempt.resolutions.is_empty(), "accepted without a resolution");
            Ok(())
        }
        State::Cancelled => {
            let resolved = !attempt.resolutions.is_empty();
            law!(attempt.cancelled.is_some() || resolved, "cancelled without a request");
            Ok(())
        }
        State::Stopped => {
            let why = before.stop_reason();
            let ended = matches!(why, Some(StopReason::Operator | StopReason::TeamEnded));
            law!(ended, "stopped without a request");
            let claimed = matches!(attempt.claim_kind(), ClaimKind::Completed | ClaimKind::Failed);
            law!(!claimed, "stopped despite a claim");
            Ok(())
        }
        State::Superseded => {
            law!(attempt.superseded, "superseded without a newer attempt");
            Ok(())
        }
        State::Failed
        | State::ExitedWithoutClaim
        | State::Disputed
        | State::Working
        | State::Idle
        | State::NeedsInput
        | State::Finishing
        | State::Rework
        | State::Verifying
        | State::Stalled
        | State::Lost => Ok(()),
    }
}

fn success_is_verified(
    session: &Session,
    attempt: &Attempt,
    tree: Option<&provost_core::ids::TreeId>,
) -> Result<(), BrokenLaw> {
    law!(attempt.claim_kind() == ClaimKind::Completed, "succeeded without a claim");
    law!(attempt.verifying.confirmed, "succeeded without a second snapshot");
    let Some(tree) = tree else { return Err("succeeded without a tree".to_owned()) };
    let snapshot = attempt.verifying.snapshot.as_ref().map(|snapshot| &snapshot.tree);
    law!(snapshot == Some(tree), "succeeded for a tree other than the snapshot's");
    let changed = session.base_tree() != Some(tree);
    law!(changed || session.spec.empty_diff == EmptyDiff::Accepted, "succeeded without changes");
    law!(!session.spec.checks.is_empty(), "succeeded without any check");
    for check in &session.spec.checks {
        let green = attempt
            .verifying
            .receipts
            .iter()
            .any(|r| r.command == *check && r.tree == *tree && r.end == CheckEnd::Exit(0));
        law!(green, "succeeded although `{check}` did not pass on the tree");
    }
    Ok(())
}

/// Only a later `resolve` overrides a decision of the operator.
pub(super) fn decisions_persist(before: &Session, after: &Session) -> Result<(), BrokenLaw> {
    let attempt = after.attempt();
    let same = before.attempt().no == attempt.no;
    law!(
        !same || before.attempt().cancelled.is_none() || attempt.cancelled.is_some(),
        "a cancel was undone"
    );
    let state = after.judgement().state;
    let open = attempt.resolutions.is_empty();
    law!(
        attempt.cancelled.is_none()
            || !open
            || attempt.sealed.is_some()
            || state == State::Cancelled,
        "a cancelled attempt is {}",
        state.as_str()
    );
    law!(state != State::Accepted || !open, "accepted without a resolution");
    Ok(())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
pub(super) fn evidence_is_about_the_tree(before: &Session, event: &Event) -> Result<(), BrokenLaw> {
    match event {
        Event::Evidence(EvidenceEvent::CheckFinished(e)) => {
            let snapshot = before.attempt().verifying.snapshot.as_ref();
            let tree = snapshot.map(|snapshot| &snapshot.tree);
            law!(tree == Some(&e.receipt.tree), "evidence about another tree was accepted");
        }
        Event::Evidence(EvidenceEvent::SnapshotTaken(_)) => {
            let unchecked =
                before.attempt().verifying.snapshot.is_some() && before.verdict() == Verdict::Open;
            law!(!unchecked, "a snapshot confirmed itself before any check");
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn turn_errors_are_claims(
    before: &Session,
    event: &Event,
    after: &Session,
) -> Result<(), BrokenLaw> {
    let Event::Turn(TurnEvent::TurnEnded(turn)) = event else { return Ok(()) };
    let current = before.current_launch().is_some_and(|launch| launch.id == turn.launch);
    let error = matches!(turn.end, TurnEnd::Error(_));
    // The end of the agent's own compaction is not a result of the work.
    let compacts = before.compacting().is_some_and(|asked| asked.turn);
    law!(
        !(error && current && !compacts)
            || before.attempt().is_sealed()
            || after.attempt().claim_kind() == ClaimKind::Failed,
        "a turn ended with an error that was ignored"
    );
    Ok(())
}
