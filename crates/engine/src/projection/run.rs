//! The projection of a run.

use std::collections::BTreeSet;

use provost_api::{
    ApprovalRow, BudgetRow, CheckResultName, CostRow, DecisionRow, FindingRow, LandingRow,
    MergeCheckKindName, MergeCheckStateName, OriginRow, PullRow, RunRow, RunSessionRow,
    RunStateName, RunVerificationRow, UsageRow,
};
use provost_core::{
    ids::SessionId,
    limits::MAX_LEFT_OUT,
    result::Finding,
    run::{
        LandingState, PendingRunApproval, PullRequest, Run, RunDecision, RunEnding, RunOrigin,
        RunSession, RunState, RunStop, RunVerification, StageReview, TokenPrices,
        VerificationResult, VerificationSubject,
    },
    session::{Session, Usage},
    verdict::{Caveats, Receipt},
};

use crate::{
    projection,
    projection::session::{check_row, clip, clip_to, missing_result, newest},
};

/// The maximum length of a text in fields that may occur many times. The events and the summary
/// contain the rest.
const MAX_SHORT_BYTES: usize = 1 << 10;

/// The maximum number of findings in a row. A review may report many more, and there may be many reviews.
const MAX_FINDINGS: usize = 50;

/// The maximum number of verifications in a row. The events contain the others.
const MAX_VERIFICATIONS: usize = 10;

/// Serializes the row for the ledger.
pub(crate) fn to_json(run: &Run) -> String {
    serde_json::to_string(&row(run)).expect("a row has string keys only")
}

/// Builds the row of a run, including the requests and the current usage of its running sessions.
pub(crate) fn live_row<'s>(run: &Run, look: impl Fn(SessionId) -> Option<&'s Session>) -> RunRow {
    let mut row = row(run);
    let why = run.reason(&look);
    (row.why, row.why_session) = (clip(&why.text), why.session.map(|id| id.to_string()));
    let interrupted = |id: &str| id.parse().ok().and_then(&look).is_some_and(Session::awaits_user);
    row.sessions.iter_mut().for_each(|one| {
        one.interrupted = one.state.is_none() && interrupted(&one.id);
    });
    let mut usage = run.usage;
    for (one, session) in run.live().filter_map(|one| Some((one, look(one.id)?))) {
        usage.add(session.spending.usage.since(one.counted.usage));
        // Once the run is stopped, answers no longer reach an agent.
        if run.attempt().stopped.is_none() {
            row.requests.extend(projection::session::request_rows(session));
        }
        row.turns += session.spending.turns.saturating_sub(one.counted.turns);
    }
    row.cost = run.spec.prices.as_ref().map(|prices| cost_row(prices, usage));
    row.usage = UsageRow { input: usage.input, output: usage.output };
    row
}

/// Builds the row of a run.
pub fn row(run: &Run) -> RunRow {
    let (spec, attempt) = (&run.spec, run.attempt());
    let outcome = attempt.sealed.as_ref();
    let why = run.reason(|_| None);
    let proved = run.proof.as_ref().zip(run.head.as_ref()).is_some_and(|(p, head)| p.is_for(head));
    RunRow {
        id: run.id.to_string(),
        name: spec.name.clone(),
        goal: clip(&spec.goal),
        project: spec.project.clone(),
        agent: spec.agent.name.clone(),
        preset: spec.preset.clone(),
        target: spec.target.branch.clone(),
        base: spec.target.base.commit.0.clone(),
        state: state_name(run).into(),
        why: clip(&why.text),
        why_session: why.session.map(|id| id.to_string()),
        terminal: outcome.is_some(),
        sealed: outcome.is_some(),
        cause: cause_name(run),
        detail: stop_detail(run),
        shortage: None,
        stage: run.stage.as_str().to_owned(),
        attempt: attempt.no,
        sessions: newest(&run.sessions).map(session_row).collect(),
        verifications: newest_verification_rows(run),
        requests: Vec::new(),
        decisions: newest(&run.decisions).map(decision_row).collect(),
        findings: newest_finding_rows(run),
        understanding: run.triage.as_ref().map(|triage| clip(&triage.understanding)),
        tasks: projection::graph::counts(run),
        awaits_approval: run.awaits_approval(),
        approval: run.approval().map(|approval| approval_row(&approval)),
        checks: check_rows(run),
        tree: run.head.as_ref().map(|head| head.tree.0.clone()),
        commit: run.head.as_ref().map(|head| head.commit.0.clone()),
        verified: proved,
        landing: landing_row(run),
        usage: UsageRow { input: run.usage.input, output: run.usage.output },
        cost: spec.prices.as_ref().map(|prices| cost_row(prices, run.usage)),
        turns: run.turns,
        budget: BudgetRow { tokens: run.budget.tokens, turns: run.budget.turns },
        origin: spec.origin.as_ref().map(origin_row),
        warnings: spec
            .warnings
            .iter()
            .map(|warning| clip(warning))
            .chain(describe_caveats(run))
            .collect(),
        opened_at: run.opened.wall_ms,
        since: run.since.wall_ms,
        sealed_at: outcome.map(|outcome| outcome.at.wall_ms),
    }
}

fn approval_row(approval: &PendingRunApproval<'_>) -> ApprovalRow {
    match approval {
        PendingRunApproval::Plan(commands) => ApprovalRow {
            kind: "plan".to_owned(),
            commands: commands.iter().map(|command| (*command).to_owned()).collect(),
            ..ApprovalRow::default()
        },
        PendingRunApproval::Landing(held) => ApprovalRow {
            kind: "landing".to_owned(),
            files: held.files.clone(),
            onto: Some(held.onto.0.clone()),
            commit: Some(held.landing.commit.0.clone()),
            tree: Some(held.landing.tree.0.clone()),
            diff: Some(held.diff.clone()),
            truncated: held.truncated,
            ..ApprovalRow::default()
        },
    }
}

fn origin_row(origin: &RunOrigin) -> OriginRow {
    OriginRow {
        workflow: origin.workflow.clone(),
        issue: origin.issue.clone(),
        identifier: origin.identifier.clone(),
        attempt: origin.attempt,
    }
}

/// Computes the cost. Prices are in millionths of the currency unit per million tokens, so the sum
/// is divided by a million.
fn cost_row(prices: &TokenPrices, usage: Usage) -> CostRow {
    let part = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
    let millionths =
        (part(usage.input, prices.input) + part(usage.output, prices.output)) / 1_000_000;
    let (whole, rest) = (millionths / 1_000_000, millionths % 1_000_000);
    CostRow { currency: prices.currency.clone(), amount: format!("{whole}.{rest:06}") }
}

pub(crate) fn state_name(run: &Run) -> RunStateName {
    match run.state() {
        RunState::Running => RunStateName::Running,
        RunState::Stopping => RunStateName::Stopping,
        RunState::Ended(RunEnding::Succeeded) => RunStateName::Succeeded,
        RunState::Ended(RunEnding::Completed) => RunStateName::Completed,
        RunState::Ended(RunEnding::Failed) => RunStateName::Failed,
        RunState::Ended(RunEnding::Cancelled) => RunStateName::Cancelled,
    }
}

fn cause_name(run: &Run) -> Option<String> {
    match &run.attempt().stopped {
        Some(RunStop::Failed { cause, .. }) => Some(cause.as_str().to_owned()),
        Some(RunStop::Cancelled { .. }) | None => None,
    }
}

fn stop_detail(run: &Run) -> Option<String> {
    match &run.attempt().stopped {
        Some(RunStop::Failed { detail, .. }) => Some(clip(detail)),
        Some(RunStop::Cancelled { because }) => Some(clip(because)),
        None => None,
    }
}

/// Returns the paths that were omitted from the trees of the run's work.
pub(crate) fn left_out_paths(run: &Run) -> Vec<String> {
    let paths = run.contributing_ends().flat_map(|end| &end.caveats.left_out);
    let paths: BTreeSet<&String> = paths.collect();
    paths.into_iter().take(MAX_LEFT_OUT).cloned().collect()
}

/// Describes the caveats of the run's work. The list of changed protected files is exact once the
/// result has been compared with the base. Before that, it is based on the sessions' reports.
fn describe_caveats(run: &Run) -> impl Iterator<Item = String> {
    let ends = || run.contributing_ends().map(|end| &end.caveats);
    let seen = || {
        let files: BTreeSet<&String> = ends().flat_map(|caveats| &caveats.protected).collect();
        files.into_iter().take(MAX_LEFT_OUT).cloned().collect()
    };
    let protected = run.attempt().changed.clone().unwrap_or_else(seen);
    let whole = Caveats { left_out: left_out_paths(run), protected, ..Caveats::default() };
    let strayed = ends().flat_map(|caveats| {
        let kept_at = caveats.kept_at.clone();
        projection::session::describe_caveats(&Caveats { kept_at, ..Caveats::default() })
    });
    let forged = (run.forged_records > 0).then(|| {
        format!(
            "{} forged records were set aside; they are in the directory forged in Provost's home",
            run.forged_records
        )
    });
    strayed.chain(projection::session::describe_caveats(&whole)).chain(forged)
}

fn clip_short(text: &str) -> String {
    clip_to(text, MAX_SHORT_BYTES)
}

fn session_row(session: &RunSession) -> RunSessionRow {
    RunSessionRow {
        id: session.id.to_string(),
        stage: session.stage.as_str().to_owned(),
        task: session.task.as_ref().map(ToString::to_string),
        cycle: session.cycle,
        state: session.end.as_ref().map(|end| end.state.into()),
        interrupted: false,
    }
}

fn newest_verification_rows(run: &Run) -> Vec<RunVerificationRow> {
    let skipped = run.verifications.len().saturating_sub(MAX_VERIFICATIONS);
    run.verifications.iter().skip(skipped).map(|one| verification_row(run, one)).collect()
}

fn verification_row(run: &Run, one: &RunVerification) -> RunVerificationRow {
    let (kind, batch, step) = match one.subject {
        VerificationSubject::Batch { batch, .. } => (MergeCheckKindName::Batch, Some(batch), None),
        VerificationSubject::Landing { step } => (MergeCheckKindName::Landing, None, Some(step)),
    };
    let is_pending = !run.is_sealed() && one.attempt == run.attempt().no;
    let state = match one.result() {
        None if is_pending => MergeCheckStateName::Running,
        None => MergeCheckStateName::Stopped,
        Some(VerificationResult::Passed) => MergeCheckStateName::Passed,
        Some(VerificationResult::Failed) => MergeCheckStateName::Failed,
        Some(VerificationResult::Inconclusive) => MergeCheckStateName::Inconclusive,
    };
    let missing = if state == MergeCheckStateName::Running {
        CheckResultName::Pending
    } else {
        CheckResultName::NotRun
    };
    let receipts = one.receipts.as_deref().unwrap_or_default();
    let row = |check: &String| {
        let receipt = receipts.iter().find(|receipt| receipt.command == *check);
        check_row(check, run.check_origin(check), receipt, missing)
    };
    RunVerificationRow {
        no: one.no,
        kind: kind.into(),
        batch,
        step,
        state: state.into(),
        commit: one.snapshot.commit.0.clone(),
        tree: one.snapshot.tree.0.clone(),
        checks: one.checks.iter().map(row).collect(),
    }
}

fn decision_row(decision: &RunDecision) -> DecisionRow {
    DecisionRow {
        id: decision.id.clone(),
        question: clip_short(&decision.question),
        answer: decision.answer.as_ref().map(|all| all.iter().map(|one| clip_short(one)).collect()),
    }
}

/// Returns the newest findings, in their original order.
fn newest_finding_rows(run: &Run) -> Vec<FindingRow> {
    let open: Vec<&Finding> = run.open_findings().collect();
    let counts = run.reviews.iter().map(|one| one.review.findings.len());
    let skipped = counts.sum::<usize>().saturating_sub(MAX_FINDINGS);
    run.reviews.iter().flat_map(|one| finding_rows(&open, one)).skip(skipped).collect()
}

fn finding_rows<'a>(
    open: &'a [&Finding],
    reviewed: &'a StageReview,
) -> impl Iterator<Item = FindingRow> + 'a {
    let open = |finding: &Finding| open.iter().any(|one| std::ptr::eq(*one, finding));
    reviewed.review.findings.iter().map(move |finding| FindingRow {
        stage: reviewed.stage.as_str().to_owned(),
        task: reviewed.task.as_ref().map(ToString::to_string),
        cycle: reviewed.cycle,
        title: clip_short(&finding.title),
        detail: clip_short(&finding.detail),
        severity: finding.severity.as_str().to_owned(),
        file: finding.file.clone(),
        line: finding.line,
        open: open(finding),
    })
}

/// Returns the newest receipts of the run: those of a session or of a verification.
fn newest_receipts(run: &Run) -> Option<&[Receipt]> {
    let of_session = run.sessions.iter().enumerate().rev().find_map(|(at, session)| {
        let receipts = &session.end.as_ref()?.receipts;
        (!receipts.is_empty()).then_some((at, receipts.as_slice()))
    });
    let verified = run.verifications.iter().rev().find_map(|one| {
        let receipts = one.receipts.as_deref().filter(|receipts| !receipts.is_empty())?;
        Some((one.sessions_before, receipts))
    });
    match (of_session, verified) {
        (Some((at, receipts)), Some((before, _))) if at >= before => Some(receipts),
        (_, Some((_, receipts))) | (Some((_, receipts)), None) => Some(receipts),
        (None, None) => None,
    }
}

/// Returns the checks of the newest session or merge that was checked.
fn check_rows(run: &Run) -> Vec<provost_api::CheckRow> {
    let receipts = newest_receipts(run);
    // A resumed conversation has no receipts, but checks that were already proved still count.
    let proved = |check: &str| run.proves(check).then_some(CheckResultName::Passed);
    let missing = missing_result(run.is_sealed());
    let receipt = |check: &str| -> Option<&Receipt> {
        receipts.and_then(|all| all.iter().find(|receipt| receipt.command == check))
    };
    let row = |check: &String| {
        let (by, missing) = (run.check_origin(check), proved(check).unwrap_or(missing));
        check_row(check, by, receipt(check), missing)
    };
    run.all_checks().iter().map(row).collect()
}

fn landing_row(run: &Run) -> LandingRow {
    let (landed, pull) = match &run.landing {
        LandingState::Open => (None, None),
        LandingState::Requested(pull) => (None, Some(pull)),
        LandingState::Done(landed) => (Some(landed), landed.pull_request.as_ref()),
    };
    LandingRow {
        mode: run.spec.land.as_str().to_owned(),
        done: landed.is_some(),
        branch: landed.map(|landed| landed.branch.clone()),
        commit: landed.map(|landed| landed.commit.0.clone()),
        merged: landed.is_some_and(|landed| landed.merged),
        pull_request: pull.map(pull_row),
        unaddressed_comments: run
            .comments_dropped
            .iter()
            .map(|one| format!("{}: {}", one.by, clip(&one.text)))
            .collect(),
    }
}

fn pull_row(pull: &PullRequest) -> PullRow {
    let seen = pull.seen.as_ref();
    PullRow {
        number: pull.number,
        url: pull.url.clone(),
        checks: seen.map(|seen| seen.checks.as_str().to_owned()),
        left_out: seen.map_or(0, |seen| seen.left_out),
    }
}
