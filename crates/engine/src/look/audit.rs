//! The audit of a team: actions, refusals, the evidence of each criterion, and contradicting
//! signals.

use std::collections::BTreeMap;

use provost_api::{
    ApiError, AuditReply, AuditedRow, CriterionRow, DivergenceRow, JudgementRow, ReceiptRow,
};
use provost_core::{
    ids::StandingId,
    task::{Event, Judgement, Purpose},
};
use provost_ledger::ReadLedger;

use super::past::{Member, Past, redact};
use crate::{card, stream::TASK, task_card};

/// Audits a team.
pub fn audit(
    ledger: &dyn ReadLedger,
    id: StandingId,
    content: bool,
) -> Result<AuditReply, ApiError> {
    let past = Past::read(ledger, id)?;
    let own = past.happened.iter().filter(|one| one.row.of == TASK);
    let mut deeds: Vec<_> = own.map(|one| one.row.clone()).collect();
    if !content {
        deeds.iter_mut().for_each(redact);
    }
    let criteria = task_card::row(&past.task).criteria;
    let criteria = criteria.into_iter().map(|row| audited(&past, row, content)).collect();
    let divergences = past.sessions.iter().flat_map(divergences).collect();
    let (task, sessions) = (past.task_row(), past.session_rows());
    let audited = task_card::audited(&past.task);
    Ok(AuditReply { ok: true, task, sessions, content, audited, deeds, criteria, divergences })
}

fn audited(past: &Past, criterion: CriterionRow, content: bool) -> AuditedRow {
    let no = criterion.no;
    let wanted = wanted(past);
    let (mut judgements, mut receipts) = (Vec::new(), Vec::new());
    for (record, event) in &past.events {
        if let Event::CriterionJudged(e) = event
            && e.no == no
        {
            judgements.push(JudgementRow {
                seq: record.seq,
                by: e.by.name().to_owned(),
                judgement: e.judgement.word().to_owned(),
                receipt: match &e.judgement {
                    Judgement::Satisfy { evidence } => Some(evidence.word().to_owned()),
                    Judgement::Accept
                    | Judgement::Defer { .. }
                    | Judgement::Reject { .. }
                    | Judgement::Reopen { .. } => None,
                },
            });
        }
        if let Event::CheckDone(e) = event
            && wanted.get(&e.no) == Some(&no)
        {
            receipts.push(ReceiptRow {
                seq: record.seq,
                command: e.receipt.command.clone(),
                end: e.receipt.end.words(),
                tree: e.receipt.tree.0.clone(),
                output_digest: e.receipt.output_digest.clone(),
            });
        }
    }
    let criterion = if content { criterion } else { without_words(criterion) };
    AuditedRow { criterion, judgements, receipts }
}

/// Removes an assertion's text, which is content. That it was asserted stays.
fn without_words(criterion: CriterionRow) -> CriterionRow {
    let asserted = criterion.receipt.as_deref() == Some("asserted");
    CriterionRow {
        evidence: if asserted { None } else { criterion.evidence },
        rationale: None,
        ..criterion
    }
}

/// Maps each check to the criterion that it was run for.
#[expect(clippy::wildcard_enum_match_arm, reason = "only checks are looked for")]
fn wanted(past: &Past) -> BTreeMap<u32, u32> {
    let wanted = past.events.iter().filter_map(|(_, event)| match event {
        Event::CheckWanted(e) => match e.check.purpose {
            Purpose::Criterion(no) => Some((e.check.no, no)),
            Purpose::Evidence { .. } | Purpose::Audit(_) => None,
        },
        _ => None,
    });
    wanted.collect()
}

/// Lists the signals of a session that contradict each other.
fn divergences(member: &Member) -> Vec<DivergenceRow> {
    let Some(known) = &member.known else { return Vec::new() };
    let row = card::row(&known.session);
    let told = |code: &str, text: String| DivergenceRow {
        session: member.id.to_string(),
        member: member.name.clone(),
        code: code.to_owned(),
        text,
    };
    let mut all: Vec<DivergenceRow> = row
        .flags
        .iter()
        .map(|flag| told(flag, format!("the session is flagged {}", flag.replace('_', " "))))
        .collect();
    let claim = match (row.claim.as_str(), row.verification.as_str()) {
        ("completed", "failed") => Some("claims completed, and the checks failed"),
        ("failed", "passed") => Some("claims failed, and the checks passed"),
        _ => None,
    };
    all.extend(claim.map(|text| told("claim_against_checks", text.to_owned())));
    if row.claim == "completed" && row.process.starts_with("exit") && row.process != "exit0" {
        all.push(told(
            "claim_against_exit",
            format!("claims completed, and ended with {}", row.process),
        ));
    }
    if !row.late_claims.is_empty() {
        let text = format!("{} claims came after its outcome was sealed", row.late_claims.len());
        all.push(told("late_claims", text));
    }
    let newest = known.session.current_launch().map(|launch| launch.stream.heard.mono_ms);
    let contradicted = known.session.current_launch().zip(newest);
    if let Some(found) = contradicted.and_then(|(launch, now)| launch.contradiction(now)) {
        let turn = if found.in_turn { "a turn is open" } else { "no turn is open" };
        let text = format!(
            "{} shows {}, and the transcript says that {turn}",
            found.by.word(),
            found.shows.word()
        );
        all.push(told("terminal_against_record", text));
    }
    all
}
