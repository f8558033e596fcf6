//! The projection of a team.

mod loops;

use provost_api::{
    AuditedWorkRow, BlockerRow, ChangedRows, CommunicationRow, ContinuationRow, CriterionRow,
    CriterionStateName, DraftRow, DraftedRow, FailedCheckRow, Hint, InboxItemRow, MemberRow,
    MoveRow, OrderedRow, RejectedItemRow, TeamHeadRow, TeamMessageRow, TeamRow, TeamStateName,
};
use provost_core::{
    ids::SessionId,
    session::Session,
    team::{
        AuditedWork, CheckEvent, CheckPurpose, CheckRequested, Communication, CriteriaDraft,
        Criterion, CriterionEvent, CriterionEvidence, CriterionJudged, CriterionProposed,
        CriterionState, Event, FailedCheck, FinishBlocker, FinishEvent, LoopProof, LoopRequirement,
        ManagerMove, MemberEvent, MemberOrdered, MemberRole, MessageEvent, MessageLease,
        MessageStatus, ProvostInvocation, Team, TeamActor, TeamCommandLines, TeamMember,
        TeamMessage, TeamPhase, format_message, visible,
    },
    time::Moment,
};
use serde::Serialize;
use serde_json::json;

use self::loops::evidence_names;
pub use self::loops::loop_row;
use crate::{
    hints,
    projection::session::{clip, clip_to},
};

/// The maximum length of a text in fields that may occur many times.
const MAX_SHORT_BYTES: usize = 300;

/// The maximum number of members in the row that the ledger stores with every change. A row has a
/// size limit, and it must be possible to list a team with thousands of members. A request for the
/// team itself returns all members.
const MAX_LISTED: usize = 100;

/// Serializes the row for the ledger.
pub(crate) fn to_json(task: &Team) -> String {
    row_json(&build_row(task, &ProvostInvocation::default(), &TeamActor::Operator, MAX_LISTED))
}

/// Serializes a row.
pub(crate) fn row_json(row: &impl Serialize) -> String {
    serde_json::to_string(row).expect("a row has string keys only")
}

/// Builds the row of a team. Its commands are for an operator who has Provost on the PATH.
pub fn row(task: &Team) -> TeamRow {
    build_row(task, &ProvostInvocation::default(), &TeamActor::Operator, usize::MAX)
}

fn build_row(task: &Team, caller: &ProvostInvocation, who: &TeamActor, most: usize) -> TeamRow {
    let spec = &task.spec;
    let counts = task.messages.counts().into_iter();
    TeamRow {
        id: task.id.to_string(),
        name: spec.name.clone(),
        goal: clip(&spec.goal),
        summary: spec.summary.as_deref().map(clip),
        project: spec.project.clone(),
        cwd: spec.cwd.clone(),
        checks: spec.checks.clone(),
        state: state_name(&task.phase).into(),
        terminal: task.phase.is_over(),
        because: phase_reason(&task.phase).map(clip),
        since: task.since.wall_ms,
        opened_at: task.opened.wall_ms,
        members: task.members.iter().take(most).map(|one| member_row(task, one, caller)).collect(),
        messages: counts.map(|(status, count)| (status.as_str().to_owned(), count)).collect(),
        for_operator: task.messages.for_operator(),
        criteria: task.criteria.iter().map(|one| criterion_row(task, one)).collect(),
        awaits_consent: task.commands_awaiting_consent().into_iter().map(str::to_owned).collect(),
        loop_row: task.loop_state.as_ref().map(|looped| loop_row(task, looped)),
        mode: task.config.mode.as_str().to_owned(),
        revision: task.config.revision,
        config: json!(task.config),
        moves: move_rows(task),
        blockers: blocker_rows(task, caller, who, |_| None),
        allowed: task.allowed.iter().map(|one| blocker_row(task, one, caller, who)).collect(),
        being_audited: task.audit.is_some(),
        audited: audited_row(task),
        policy: spec.policy.as_ref().map(|policy| policy.name.clone()),
    }
}

/// Builds the short row of a team, which contains only its identity and state.
pub(crate) fn head_row(task: &Team) -> TeamHeadRow {
    TeamHeadRow {
        id: task.id.to_string(),
        name: task.spec.name.clone(),
        state: state_name(&task.phase).into(),
        terminal: task.phase.is_over(),
    }
}

/// Builds the row of a team for a caller. Its commands invoke Provost as the caller does, and it
/// includes the state of the members' sessions. `look` returns a session's current state.
pub fn row_for<'s>(
    task: &Team,
    caller: &ProvostInvocation,
    who: &TeamActor,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> TeamRow {
    let mut row = build_row(task, caller, who, usize::MAX);
    row.blockers = blocker_rows(task, caller, who, &look);
    for (member, shown) in task.members.iter().zip(&mut row.members) {
        if let Some(session) = member.session.and_then(&look) {
            let judged = session.judgement();
            shown.state = Some(judged.state.into());
            shown.cause = judged.cause.map(|cause| cause.as_str().to_owned());
            shown.branch = session.spec.work.branch().map(str::to_owned);
        }
    }
    if let Some(looped) = &mut row.loop_row {
        looped.tokens_used = worker_tokens(task, look);
    }
    row
}

/// Returns the number of tokens that a team's workers used. Workers without a session do not count.
pub(crate) fn worker_tokens<'s>(
    task: &Team,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<u64> {
    let sessions =
        task.bound(MemberRole::Worker).filter_map(|worker| worker.session).filter_map(look);
    let used: Vec<u64> = sessions.map(|session| session.spending.usage.total()).collect();
    (!used.is_empty()).then(|| used.iter().sum())
}

/// Returns the work that was last audited. `None` if it could not be committed.
pub(crate) fn audited_row(task: &Team) -> Option<AuditedWorkRow> {
    let AuditedWork { worker, tree } = task.audited.clone()?;
    let tree = Some(tree.0).filter(|tree| !tree.is_empty())?;
    Some(AuditedWorkRow { worker, tree })
}

/// How many of the most recent moves to show.
const MOVES_SHOWN: usize = 5;

fn move_rows(task: &Team) -> Vec<MoveRow> {
    let newest = task.moves.iter().skip(task.moves.len().saturating_sub(MOVES_SHOWN));
    let row = |one: &ManagerMove| MoveRow {
        kind: one.kind.as_str().to_owned(),
        because: clip_to(&one.because, MAX_SHORT_BYTES),
        by: one.by.clone(),
        at: one.at.wall_ms,
        used: one.used,
    };
    newest.map(row).collect()
}

fn phase_reason(phase: &TeamPhase) -> Option<&str> {
    match phase {
        TeamPhase::Open | TeamPhase::Active => None,
        TeamPhase::Paused { because }
        | TeamPhase::Done { because }
        | TeamPhase::Failed { because }
        | TeamPhase::Cancelled { because } => Some(because),
    }
}

/// Lists what blocks a team from finishing, for users and agents alike.
pub(crate) fn blocker_rows<'s>(
    task: &Team,
    caller: &ProvostInvocation,
    who: &TeamActor,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Vec<BlockerRow> {
    let row = |blocker: &FinishBlocker| {
        let hint = hints::hint_for_open_blocker(task, who, blocker, &look);
        blocker_row_with(blocker, caller, hint)
    };
    task.readiness(&look).iter().map(row).collect()
}

/// Describes one blocker, including a command that helps the caller to remove it.
pub(crate) fn blocker_row(
    task: &Team,
    blocker: &FinishBlocker,
    caller: &ProvostInvocation,
    who: &TeamActor,
) -> BlockerRow {
    blocker_row_with(blocker, caller, hints::hint_for_blocker(task, who, blocker))
}

fn blocker_row_with(
    blocker: &FinishBlocker,
    caller: &ProvostInvocation,
    hint: Option<Hint>,
) -> BlockerRow {
    let hint = hint.map(String::from);
    let printed = blocker.failed_check().map(|(_, tail)| tail);
    BlockerRow {
        code: blocker.code().to_owned(),
        text: clip_to(&blocker.to_string(), MAX_SHORT_BYTES),
        printed: printed.map(visible).filter(|tail| !tail.is_empty()),
        next: hint.as_deref().map(|hint| caller.rewrite_command(hint)),
        hint,
    }
}

fn member_row(task: &Team, member: &TeamMember, caller: &ProvostInvocation) -> MemberRow {
    MemberRow {
        name: member.name.clone(),
        role: member.role.as_str().to_owned(),
        session: member.session.map(|session| session.to_string()),
        thread: member.labels.thread.clone(),
        title: member.labels.title.clone(),
        left: !member.is_bound(),
        acknowledged_revision: member.acknowledged,
        polled_at: None,
        state: None,
        cause: None,
        branch: None,
        communication: communication_row(task, member, caller),
    }
}

/// Describes how a member receives its messages.
pub(crate) fn communication_row(
    task: &Team,
    member: &TeamMember,
    caller: &ProvostInvocation,
) -> CommunicationRow {
    crate::projection::session::communication_row(&Communication::for_member(task, member, caller))
}

fn commands<'a>(
    task: &'a Team,
    member: &'a str,
    caller: &'a ProvostInvocation,
) -> TeamCommandLines<'a> {
    TeamCommandLines { caller, task, member: Some(member) }
}

pub(crate) fn criterion_row(task: &Team, criterion: &Criterion) -> CriterionRow {
    let purpose = CheckPurpose::Criterion(criterion.no);
    let check = criterion.needs.check().map(|check| check.command);
    let needs = if check.is_some() { "verified" } else { "asserted" };
    let evidence = match &criterion.state {
        CriterionState::Satisfied { evidence } => Some(evidence),
        CriterionState::Proposed
        | CriterionState::Accepted
        | CriterionState::Deferred { .. }
        | CriterionState::Rejected { .. } => None,
    };
    CriterionRow {
        no: criterion.no,
        text: clip_to(&criterion.text, MAX_SHORT_BYTES),
        state: criterion_state_name(&criterion.state).into(),
        source: criterion.source.as_str().to_owned(),
        rationale: criterion.rationale.as_deref().map(|text| clip_to(text, MAX_SHORT_BYTES)),
        needs: needs.to_owned(),
        check,
        receipt: evidence.map(|evidence| evidence.as_str().to_owned()),
        evidence: evidence.map(describe_evidence),
        being_checked: task.is_being_checked(&purpose),
        failed: task.failed_check(&purpose).map(failed_check_row),
    }
}

fn failed_check_row(failed: &FailedCheck) -> FailedCheckRow {
    let receipt = &failed.receipt;
    FailedCheckRow {
        command: receipt.command.clone(),
        end: clip_to(&receipt.end.summary(), MAX_SHORT_BYTES),
        worker: failed.worker.clone(),
        tree: receipt.tree.0.clone(),
        output: receipt.output.clone(),
    }
}

/// Describes the criteria drafted from a text. `task` is the team before any of these criteria was proposed.
pub(crate) fn draft_row(task: &Team, draft: &CriteriaDraft, dry_run: bool) -> DraftRow {
    let numbers = (task.criteria.len() + 1..).map(|no| (!dry_run).then_some(no));
    let proposed = draft.drafted.iter().zip(numbers);
    let left_out = draft.left_out.iter();
    DraftRow {
        source: draft.source.as_str().to_owned(),
        rationale: draft.rationale.clone(),
        proposed: proposed
            .map(|(text, no)| DraftedRow {
                no: no.and_then(|no| u32::try_from(no).ok()),
                text: text.clone(),
            })
            .collect(),
        left_out: left_out
            .map(|(text, why)| RejectedItemRow {
                text: clip_to(&visible(text), MAX_SHORT_BYTES),
                why: why.as_str().to_owned(),
            })
            .collect(),
        more_left_out: draft.more,
        dry_run,
    }
}

fn describe_evidence(evidence: &CriterionEvidence) -> String {
    match evidence {
        CriterionEvidence::Asserted { text, by } => {
            clip_to(&format!("{by}: {text}"), MAX_SHORT_BYTES)
        }
        CriterionEvidence::Verified(receipt) => {
            format!("`{}` passed on tree {}", receipt.command, receipt.tree.0)
        }
    }
}

/// Builds the row of a message for the member that it was offered to.
pub fn item_row(
    task: &Team,
    message: &TeamMessage,
    lease: &MessageLease,
    caller: &ProvostInvocation,
    wall_of: impl Fn(u64) -> i64,
) -> InboxItemRow {
    let commands = commands(task, &lease.consumer, caller);
    InboxItemRow {
        team: task.id.to_string(),
        no: message.no,
        lease: lease.no,
        offer_until: lease.until_ms.map(wall_of),
        lease_until: None,
        kind: message.kind.as_str().to_owned(),
        key: message.key.clone(),
        correlation: message.correlation.clone(),
        from: message.from.name().to_owned(),
        channel: message.channel.as_str().to_owned(),
        trust: message.trust.as_str().to_owned(),
        redelivered: message.redelivered,
        text: message.text.clone(),
        envelope: format_message(task, message, caller),
        loop_terms: continuation_row(task, message),
        accept_command: Some(commands.accept(message.no, lease.no).to_string()),
        acknowledge_command: commands.acknowledge(message.no, lease.no).to_string(),
    }
}

fn continuation_row(task: &Team, message: &TeamMessage) -> Option<ContinuationRow> {
    let (iteration, looped) = message.iteration.zip(task.loop_state.as_ref())?;
    let template = &looped.template;
    let artifact =
        |required: &&LoopRequirement| matches!(required.proof, LoopProof::Artifact { .. });
    let artifacts = template.evidence.iter().filter(artifact);
    Some(ContinuationRow {
        template: template.name.clone(),
        iteration,
        max: template.max,
        cleanup: template.clean_up.as_str().to_owned(),
        evidence: evidence_names(&template.evidence),
        artifacts: artifacts.map(|required| required.name.clone()).collect(),
        tools: template.tools.clone(),
    })
}

/// Builds the row of a message in a list.
pub fn message_row(message: &TeamMessage) -> TeamMessageRow {
    let reason = match &message.status {
        MessageStatus::Dead { reason } => Some(reason.as_str()),
        MessageStatus::Cancelled { because } => Some(because.as_str()),
        MessageStatus::Stored
        | MessageStatus::Offered(_)
        | MessageStatus::Accepted(_)
        | MessageStatus::Acknowledged { .. }
        | MessageStatus::Expired => None,
    };
    TeamMessageRow {
        no: message.no,
        key: message.key.clone(),
        correlation: message.correlation.clone(),
        from: message.from.name().to_owned(),
        to: message.to.name().to_owned(),
        kind: message.kind.as_str().to_owned(),
        channel: message.channel.as_str().to_owned(),
        trust: message.trust.as_str().to_owned(),
        priority: message.priority.as_str().to_owned(),
        expires_at: message.expires_ms.map(|at| wall_time(message.stored, at)),
        iteration: message.iteration,
        status: message.status.kind().into(),
        reason: reason.map(clip),
        consumer: message.status.lease().map(|lease| lease.consumer.clone()),
        offers: message.offers,
        stored_at: message.stored.wall_ms,
        text: clip(&message.text),
    }
}

/// Converts a monotonic time to wall-clock time, based on a moment for which both are known.
pub(crate) fn wall_time(known: Moment, mono_ms: u64) -> i64 {
    let ahead = i64::try_from(mono_ms.saturating_sub(known.mono_ms)).unwrap_or(i64::MAX);
    known.wall_ms.saturating_add(ahead)
}

fn state_name(phase: &TeamPhase) -> TeamStateName {
    match phase {
        TeamPhase::Open => TeamStateName::Open,
        TeamPhase::Active => TeamStateName::Active,
        TeamPhase::Paused { .. } => TeamStateName::Paused,
        TeamPhase::Done { .. } => TeamStateName::Done,
        TeamPhase::Failed { .. } => TeamStateName::Failed,
        TeamPhase::Cancelled { .. } => TeamStateName::Cancelled,
    }
}

fn criterion_state_name(state: &CriterionState) -> CriterionStateName {
    match state {
        CriterionState::Proposed => CriterionStateName::Proposed,
        CriterionState::Accepted => CriterionStateName::Accepted,
        CriterionState::Satisfied { .. } => CriterionStateName::Satisfied,
        CriterionState::Deferred { .. } => CriterionStateName::Deferred,
        CriterionState::Rejected { .. } => CriterionStateName::Rejected,
    }
}

/// Returns the number of the message that an event changed, if any.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other event changes a message")]
fn changed_message(event: &Event) -> Option<u32> {
    match event {
        Event::Message(MessageEvent::MessageStored(e)) => Some(e.no),
        Event::Message(MessageEvent::MessageAccepted(e)) => Some(e.no),
        Event::Message(MessageEvent::MessageAcknowledged(e)) => Some(e.no),
        Event::Message(MessageEvent::MessageReturned(e)) => Some(e.no),
        Event::Message(MessageEvent::MessageCancelled(e)) => Some(e.no),
        Event::Message(MessageEvent::MessageDead(e)) => Some(e.no),
        Event::Message(MessageEvent::MessageRequeued(e)) => Some(e.no),
        _ => None,
    }
}

/// Whether an event changed only a message and nothing else in its team. A message that requests an
/// iteration also concerns the loop.
pub(crate) fn is_message_event(event: &Event) -> bool {
    let asks = matches!(event, Event::Message(MessageEvent::MessageStored(stored)) if stored.iteration.is_some());
    changed_message(event).is_some() && !asks
}

/// Adds the row that an event changed, if it is not the team's own row.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is in the task's own row")]
pub(crate) fn add_changed_row(task: &Team, event: &Event, rows: &mut ChangedRows) {
    if let Some(message) = changed_message(event).and_then(|no| task.message(no)) {
        rows.message = Some(message_row(message));
    }
    match event {
        Event::Criterion(
            CriterionEvent::CriterionProposed(CriterionProposed { no, .. })
            | CriterionEvent::CriterionJudged(CriterionJudged { no, .. }),
        ) => {
            if let Some(criterion) = task.criterion(*no) {
                rows.criterion = Some(criterion_row(task, criterion));
            }
        }
        Event::Check(CheckEvent::CheckRequested(CheckRequested { check })) => {
            rows.check = Some(check.no)
        }
        Event::Check(CheckEvent::CheckJoined(e)) => rows.check = Some(e.no),
        Event::Finish(FinishEvent::FinishRequested(e)) => rows.audit = Some(e.no),
        Event::Member(MemberEvent::MemberOrdered(MemberOrdered { name, what, .. })) => {
            let what = what.describe().to_owned();
            rows.ordered = Some(OrderedRow { member: name.clone(), what });
        }
        _ => {}
    }
}
