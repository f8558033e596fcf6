//! The audit of a team: its actions, refusals, the evidence for each criterion, and signals that
//! contradict each other.

use std::collections::BTreeMap;

use provost_api::{
    ApiError, AuditReply, CriterionAuditRow, CriterionRow, DivergenceRow, JudgementRow,
    ProcessName, ReceiptRow, VerificationName,
};
use provost_core::{
    ids::TeamId,
    lifecycle::ClaimKind,
    team::{CheckEvent, CheckPurpose, CriterionEvent, CriterionJudgement, Event},
};
use provost_ledger::ReadLedger;

use super::replay::{MemberSession, TeamHistory, redact};
use crate::{projection, stream::TEAM};

/// Audits a team.
pub fn audit(ledger: &dyn ReadLedger, id: TeamId, content: bool) -> Result<AuditReply, ApiError> {
    let past = TeamHistory::read(ledger, id)?;
    let own = past.entries.iter().filter(|one| one.row.stream == TEAM);
    let mut actions: Vec<_> = own.map(|one| one.row.clone()).collect();
    if !content {
        actions.iter_mut().for_each(redact);
    }
    let criteria = projection::team::row(&past.task).criteria;
    let criteria = criteria.into_iter().map(|row| audited_row(&past, row, content)).collect();
    let divergences = past.sessions.iter().flat_map(divergences).collect();
    let (task, sessions) = (past.task_row(), past.session_rows());
    let audited = projection::team::audited_row(&past.task);
    Ok(AuditReply {
        ok: true,
        team: task,
        sessions,
        content,
        audited,
        actions,
        criteria,
        divergences,
    })
}

fn audited_row(past: &TeamHistory, criterion: CriterionRow, content: bool) -> CriterionAuditRow {
    let no = criterion.no;
    let wanted = criteria_by_check(past);
    let (mut judgements, mut receipts) = (Vec::new(), Vec::new());
    for (record, event) in &past.events {
        if let Event::Criterion(CriterionEvent::CriterionJudged(e)) = event
            && e.no == no
        {
            judgements.push(JudgementRow {
                seq: record.seq,
                by: e.by.name().to_owned(),
                judgement: e.judgement.as_str().to_owned(),
                receipt: match &e.judgement {
                    CriterionJudgement::Satisfy { evidence } => Some(evidence.as_str().to_owned()),
                    CriterionJudgement::Accept
                    | CriterionJudgement::Defer { .. }
                    | CriterionJudgement::Reject { .. }
                    | CriterionJudgement::Reopen { .. } => None,
                },
            });
        }
        if let Event::Check(CheckEvent::CheckDone(e)) = event
            && wanted.get(&e.no) == Some(&no)
        {
            receipts.push(ReceiptRow {
                seq: record.seq,
                command: e.receipt.command.clone(),
                end: e.receipt.end.summary(),
                tree: e.receipt.tree.0.clone(),
                output_digest: e.receipt.output_digest.clone(),
            });
        }
    }
    let criterion = if content { criterion } else { redact_criterion(criterion) };
    CriterionAuditRow { criterion, judgements, receipts }
}

/// Removes the text of an assertion, but keeps the fact that something was asserted.
fn redact_criterion(criterion: CriterionRow) -> CriterionRow {
    let asserted = criterion.receipt.as_deref() == Some("asserted");
    CriterionRow {
        evidence: if asserted { None } else { criterion.evidence },
        rationale: None,
        ..criterion
    }
}

/// Maps each check to the criterion that it was run for.
#[expect(clippy::wildcard_enum_match_arm, reason = "only checks are looked for")]
fn criteria_by_check(past: &TeamHistory) -> BTreeMap<u32, u32> {
    let wanted = past.events.iter().filter_map(|(_, event)| match event {
        Event::Check(CheckEvent::CheckRequested(e)) => match e.check.purpose {
            CheckPurpose::Criterion(no) => Some((e.check.no, no)),
            CheckPurpose::Evidence { .. } | CheckPurpose::Audit(_) => None,
        },
        _ => None,
    });
    wanted.collect()
}

/// Lists the signals of a session that contradict each other.
fn divergences(member: &MemberSession) -> Vec<DivergenceRow> {
    let Some(known) = &member.known else { return Vec::new() };
    let row = projection::session::row(&known.session);
    let row_for = |code: &str, text: String| DivergenceRow {
        session: member.id.to_string(),
        member: member.name.clone(),
        code: code.to_owned(),
        text,
    };
    let mut all: Vec<DivergenceRow> = row
        .flags
        .iter()
        .map(|flag| row_for(flag, format!("the session is flagged {}", flag.replace('_', " "))))
        .collect();
    let claim = match (row.claim.known(), row.verification.known()) {
        (Some(ClaimKind::Completed), Some(VerificationName::Failed)) => {
            Some("claims completion, but the checks failed")
        }
        (Some(ClaimKind::Failed), Some(VerificationName::Passed)) => {
            Some("claims failure, but the checks passed")
        }
        _ => None,
    };
    all.extend(claim.map(|text| row_for("claim_contradicts_checks", text.to_owned())));
    if row.claim == ClaimKind::Completed && row.process == ProcessName::ExitN {
        all.push(row_for(
            "claim_contradicts_exit",
            format!("claims completion, but ended with {}", row.process),
        ));
    }
    if !row.late_claims.is_empty() {
        let text = format!(
            "{} claims were made after the outcome of the session was sealed",
            row.late_claims.len()
        );
        all.push(row_for("late_claims", text));
    }
    let newest = known.session.current_launch().map(|launch| launch.stream.last_heard.mono_ms);
    let contradicted = known.session.current_launch().zip(newest);
    if let Some(found) = contradicted.and_then(|(launch, now)| launch.contradiction(now)) {
        let turn = if found.in_turn { "a turn is open" } else { "no turn is open" };
        let text = format!(
            "{} shows {}, and the transcript says that {turn}",
            found.by.as_str(),
            found.shows.describe()
        );
        all.push(row_for("screen_contradicts_transcript", text));
    }
    all
}
