//! The rows of a team's loop.

use provost_api::{AdvanceRow, AssertedRow, LoopRow};
use provost_core::team::{
    CheckPurpose, CriterionEvidence, Loop, LoopEnd, LoopRequirement, MessageStatus, ShownEvidence,
    Team, WorkChallenge,
};

use super::{MAX_SHORT_BYTES, describe_evidence, failed_check_row};
use crate::projection::session::clip_to;

/// Builds the row of a loop.
pub fn loop_row(task: &Team, looped: &Loop) -> LoopRow {
    let template = &looped.template;
    let iteration = looped.iteration;
    let of = |name: &String| CheckPurpose::Evidence { iteration, name: name.clone() };
    let names = evidence_names(&template.evidence);
    let not_passed =
        |name: &String| Some((name.clone(), failed_check_row(task.failed_check(&of(name))?)));
    LoopRow {
        template: template.name.clone(),
        iteration,
        max: template.max,
        cleanup: template.clean_up.as_str().to_owned(),
        being_checked: names
            .iter()
            .filter(|name| task.is_being_checked(&of(name)))
            .cloned()
            .collect(),
        failed: names.iter().filter_map(not_passed).collect(),
        evidence: names,
        shown: looped.evidence_shown.keys().cloned().collect(),
        verified: looped
            .evidence_shown
            .iter()
            .filter_map(|(name, shown)| verified_evidence(name, shown))
            .collect(),
        asserted: looped
            .evidence_shown
            .iter()
            .filter_map(|(name, shown)| asserted_evidence(looped, name, shown))
            .collect(),
        missing: looped.missing_evidence(),
        plateau: template.plateau,
        tokens: template.tokens,
        tokens_used: None,
        backlog: task.messages.iter().filter(|one| one.status == MessageStatus::Stored).count(),
        continuation: looped.continuation,
        advances: looped
            .completed
            .iter()
            .map(|passed| AdvanceRow {
                to: passed.iteration + 1,
                message: passed.message,
                consumer: passed.consumer.clone(),
                at: passed.at.wall_ms,
            })
            .collect(),
        refusals: looped.refusals,
        last_refusal: looped.last_refusal.clone(),
        ended: looped.ended.as_ref().map(|end| loop_end_name(end).to_owned()),
        recommendation: recommendation(task, looped),
        tools: template.tools.clone(),
    }
}

/// Describes evidence that Provost verified itself.
fn verified_evidence(name: &str, shown: &ShownEvidence) -> Option<(String, String)> {
    let text = match shown {
        ShownEvidence::Evidence(evidence @ CriterionEvidence::Verified(_)) => {
            describe_evidence(evidence)
        }
        ShownEvidence::Pictures(compared) => compared.describe(),
        ShownEvidence::Evidence(CriterionEvidence::Asserted { .. })
        | ShownEvidence::Challenge(_)
        | ShownEvidence::Artifact(_) => {
            return None;
        }
    };
    Some((name.to_owned(), text))
}

/// Describes evidence that was only asserted, and by whom. This includes challenges and artifacts.
fn asserted_evidence(
    looped: &Loop,
    name: &str,
    shown: &ShownEvidence,
) -> Option<(String, AssertedRow)> {
    let by = || Some(looped.shown_by.get(name)?.name().to_owned());
    let (by, text) = match shown {
        ShownEvidence::Evidence(CriterionEvidence::Asserted { text, by }) => {
            (by.clone(), text.clone())
        }
        ShownEvidence::Challenge(WorkChallenge { failure_mode, check, result }) => {
            (by()?, format!("{failure_mode}; {check}; {result}"))
        }
        ShownEvidence::Artifact(fields) => {
            let fields = fields.iter().map(|(field, value)| format!("{field}: {value}"));
            (by()?, fields.collect::<Vec<_>>().join("; "))
        }
        ShownEvidence::Evidence(CriterionEvidence::Verified(_)) | ShownEvidence::Pictures(_) => {
            return None;
        }
    };
    Some((name.to_owned(), AssertedRow { by, text: clip_to(&text, MAX_SHORT_BYTES) }))
}

pub(super) fn evidence_names(evidence: &[LoopRequirement]) -> Vec<String> {
    evidence.iter().map(|required| required.name.clone()).collect()
}

fn loop_end_name(end: &LoopEnd) -> &'static str {
    match end {
        LoopEnd::Finished => "finished",
        LoopEnd::Stopped { .. } => "stopped",
        LoopEnd::Plateau { .. } => "plateau",
        LoopEnd::Budget { .. } => "budget",
    }
}

fn recommendation(task: &Team, looped: &Loop) -> String {
    let missing = looped.missing_evidence();
    match (&looped.ended, looped.continuation) {
        _ if task.phase.is_over() => format!("the team is {}", task.phase.as_str()),
        (Some(LoopEnd::Plateau { .. } | LoopEnd::Budget { .. }), _) => {
            "the loop gave up: stop it with a reason, or start another".to_owned()
        }
        (Some(_), _) if looped.is_dropped() => {
            "the operator's loop was stopped: the operator finishes the team, or starts another loop"
                .to_owned()
        }
        (Some(LoopEnd::Finished | LoopEnd::Stopped { .. }), _) => {
            "the loop has ended: finish the team, or start another loop".to_owned()
        }
        (None, Some(message)) => match worker_being_compacted(task, looped, message) {
            Some(worker) => {
                format!("message {message} waits until the conversation of {worker} is compacted")
            }
            None => format!("message {message} waits to be accepted"),
        },
        (None, None) if !missing.is_empty() => format!("show {}", missing.join(", ")),
        (None, None) if looped.iteration >= looped.template.max => {
            "this was the last iteration: finish the team".to_owned()
        }
        (None, None) => format!("ask for iteration {}, or finish", looped.iteration + 1),
    }
}

/// Returns the worker whose conversation is being compacted before it receives a message.
fn worker_being_compacted<'t>(task: &'t Team, looped: &Loop, message: u32) -> Option<&'t str> {
    let under_way = looped.compactions.is_some() && looped.cleaned_for == Some(message);
    let waits =
        task.message(message).filter(|one| under_way && one.status == MessageStatus::Stored)?;
    Some(waits.to.name())
}
