//! A task that stands alone, as it is shown.

use provost_api::{
    AdvanceRow, BlockerRow, CommunicationRow, ContinuationRow, CriterionRow, ItemRow, LoopRow,
    MemberRow, StandingTaskRow, TaskMessageRow,
};
use provost_core::task::{
    Blocker, Criterion, CriterionState, Evidence, Lease, Loop, LoopEnd, Member, Message, Needs,
    Phase, Proof, Required, Standing, Task, wrapped,
};

use crate::{
    card::{clip, clip_to},
    shell::codex::shell_quoted,
};

/// The longest text of which a row may have many.
const SHORT: usize = 300;

/// Gives the row as the ledger keeps it.
pub(crate) fn text(task: &Task) -> String {
    serde_json::to_string(&row(task)).expect("a row has string keys only")
}

/// Shows a task.
pub fn row(task: &Task) -> StandingTaskRow {
    let spec = &task.spec;
    let counts = task.message_counts().into_iter();
    StandingTaskRow {
        id: task.id.to_string(),
        name: spec.name.clone(),
        goal: clip(&spec.goal),
        summary: spec.summary.as_deref().map(clip),
        project: spec.project.clone(),
        cwd: spec.cwd.clone(),
        state: task.phase.word().to_owned(),
        terminal: task.phase.is_over(),
        because: because(&task.phase).map(clip),
        since: task.since.wall_ms,
        opened_at: task.opened.wall_ms,
        members: task.members.iter().map(|one| member(task, one)).collect(),
        messages: counts.map(|(word, count)| (word.to_owned(), count)).collect(),
        criteria: task.criteria.iter().map(criterion).collect(),
        looped: task.looped.as_ref().map(loop_row),
        mode: task.config.mode.word().to_owned(),
        revision: task.config.revision,
        blockers: blockers(task),
        being_audited: task.audit.is_some(),
    }
}

fn because(phase: &Phase) -> Option<&str> {
    match phase {
        Phase::Open | Phase::Active => None,
        Phase::Paused { because }
        | Phase::Done { because }
        | Phase::Failed { because }
        | Phase::Cancelled { because } => Some(because),
    }
}

/// What the last audit found counts until something else is found.
fn blockers(task: &Task) -> Vec<BlockerRow> {
    if task.phase.is_over() {
        return Vec::new();
    }
    let mut all = task.readiness();
    let checks = task.blockers.iter().filter(|one| matches!(one, Blocker::CheckFailed { .. }));
    all.extend(checks.cloned());
    all.iter().map(blocker).collect()
}

pub fn blocker(blocker: &Blocker) -> BlockerRow {
    BlockerRow { code: blocker.code().to_owned(), text: clip_to(&blocker.to_string(), SHORT) }
}

fn member(task: &Task, member: &Member) -> MemberRow {
    MemberRow {
        name: member.name.clone(),
        role: member.role.word().to_owned(),
        session: member.session.map(|session| session.to_string()),
        thread: member.labels.thread.clone(),
        title: member.labels.title.clone(),
        left: !member.is_bound(),
        acknowledged_revision: member.acknowledged,
        communication: communication(task, member),
    }
}

/// Gives how a member gets its messages. A session that Provost drives is given them and woken by that.
pub fn communication(task: &Task, member: &Member) -> CommunicationRow {
    let pushed = member.session.is_some();
    let way = if pushed { "push" } else { "pull" };
    CommunicationRow {
        kind: if pushed { "session" } else { "pull" }.to_owned(),
        receive: way.to_owned(),
        can_push: pushed,
        needs_wake: !pushed,
        receive_command: format!(
            "provost inbox next --task {} --as {} --wait",
            task.id,
            quoted(&member.name)
        ),
    }
}

/// Gives a name as one word of a shell, plain where it can be.
fn quoted(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    match !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        true => name.to_owned(),
        false => shell_quoted(name),
    }
}

fn criterion(criterion: &Criterion) -> CriterionRow {
    let (needs, check) = match &criterion.needs {
        Needs::Verified { check } => ("verified", Some(check.clone())),
        Needs::Asserted => ("asserted", None),
    };
    let evidence = match &criterion.state {
        CriterionState::Satisfied { evidence } => Some(evidence),
        CriterionState::Proposed
        | CriterionState::Accepted
        | CriterionState::Deferred { .. }
        | CriterionState::Rejected { .. } => None,
    };
    CriterionRow {
        no: criterion.no,
        text: clip_to(&criterion.text, SHORT),
        state: criterion.state.word().to_owned(),
        source: criterion.source.word().to_owned(),
        rationale: criterion.rationale.as_deref().map(|text| clip_to(text, SHORT)),
        needs: needs.to_owned(),
        check,
        receipt: evidence.map(|evidence| evidence.word().to_owned()),
        evidence: evidence.map(told),
    }
}

fn told(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Asserted { text, by } => clip_to(&format!("{by}: {text}"), SHORT),
        Evidence::Verified(receipt) => {
            format!("`{}` passed on tree {}", receipt.command, receipt.tree.0)
        }
    }
}

/// Shows a loop.
pub fn loop_row(looped: &Loop) -> LoopRow {
    let template = &looped.template;
    LoopRow {
        template: template.name.clone(),
        iteration: looped.iteration,
        max: template.max,
        cleanup: template.clean_up.word().to_owned(),
        evidence: names(&template.evidence),
        shown: looped.shown.keys().cloned().collect(),
        missing: looped.missing(),
        asked: looped.asked,
        advances: looped
            .passed
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
        ended: looped.ended.as_ref().map(|end| ended(end).to_owned()),
        recommendation: recommended(looped),
        tools: template.tools.clone(),
    }
}

fn names(evidence: &[Required]) -> Vec<String> {
    evidence.iter().map(|required| required.name.clone()).collect()
}

fn ended(end: &LoopEnd) -> &'static str {
    match end {
        LoopEnd::Finished => "finished",
        LoopEnd::Stopped { .. } => "stopped",
        LoopEnd::Plateau { .. } => "plateau",
        LoopEnd::Budget { .. } => "budget",
    }
}

fn recommended(looped: &Loop) -> String {
    let missing = looped.missing();
    match (&looped.ended, looped.asked) {
        (Some(_), _) => "the loop has ended: finish the task, or begin another".to_owned(),
        (None, Some(message)) => format!("message {message} waits to be accepted"),
        (None, None) if !missing.is_empty() => format!("show {}", missing.join(", ")),
        (None, None) if looped.iteration >= looped.template.max => {
            "this was the last iteration: finish the task".to_owned()
        }
        (None, None) => format!("ask for iteration {}, or finish", looped.iteration + 1),
    }
}

/// Shows a message to whoever was offered it.
pub fn item(
    task: &Task,
    message: &Message,
    lease: &Lease,
    wall_of: impl Fn(u64) -> i64,
) -> ItemRow {
    ItemRow {
        task: task.id.to_string(),
        no: message.no,
        lease: lease.no,
        lease_until: lease.until_ms.map(wall_of),
        kind: message.kind.word().to_owned(),
        key: message.key.clone(),
        correlation: message.correlation.clone(),
        from: message.from.name().to_owned(),
        channel: message.channel.word().to_owned(),
        trust: message.trust.word().to_owned(),
        redelivered: message.redelivered,
        text: message.text.clone(),
        envelope: wrapped(task, message),
        looped: continuation(task, message),
        acknowledge_command: format!(
            "provost inbox ack {} --lease {} --task {} --as {}",
            message.no,
            lease.no,
            task.id,
            quoted(&lease.consumer)
        ),
    }
}

fn continuation(task: &Task, message: &Message) -> Option<ContinuationRow> {
    let (iteration, looped) = message.iteration.zip(task.looped.as_ref())?;
    let template = &looped.template;
    let artifact = |required: &&Required| matches!(required.proof, Proof::Artifact { .. });
    let artifacts = template.evidence.iter().filter(artifact);
    Some(ContinuationRow {
        template: template.name.clone(),
        iteration,
        max: template.max,
        cleanup: template.clean_up.word().to_owned(),
        evidence: names(&template.evidence),
        artifacts: artifacts.map(|required| required.name.clone()).collect(),
        tools: template.tools.clone(),
    })
}

/// Shows a message in a list.
pub fn message(message: &Message) -> TaskMessageRow {
    let reason = match &message.standing {
        Standing::Dead { reason } => Some(reason.as_str()),
        Standing::Cancelled { because } => Some(because.as_str()),
        Standing::Stored
        | Standing::Offered(_)
        | Standing::Accepted(_)
        | Standing::Acknowledged { .. }
        | Standing::Expired => None,
    };
    TaskMessageRow {
        no: message.no,
        key: message.key.clone(),
        correlation: message.correlation.clone(),
        from: message.from.name().to_owned(),
        to: message.to.name().to_owned(),
        kind: message.kind.word().to_owned(),
        standing: message.standing.word().to_owned(),
        reason: reason.map(clip),
        consumer: message.standing.lease().map(|lease| lease.consumer.clone()),
        offers: message.offers,
        stored_at: message.stored.wall_ms,
        text: clip(&message.text),
    }
}
