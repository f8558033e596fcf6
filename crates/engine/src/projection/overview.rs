//! The overview of a team for one of its members, which contains everything needed to decide on the
//! next step.

use std::sync::Arc;

use provost_api::{
    ChosenProposalRow, ContextUseRow, ContractRow, LimitUseRow, LoopRow, LoopUseRow, MemberUseRow,
    OverviewBudgetRow, OverviewCriteriaRow, OverviewMemberRow, OverviewMessageRow,
    OverviewMessagesRow, OverviewReaderRow, OverviewRow, OverviewTeamRow, ProposalRoundRow,
    ProposalRow, RunningCheckRow,
};
use provost_core::{
    ids::SessionId,
    lifecycle::State,
    session::Session,
    team::{
        self, CheckPurpose, Criterion, FinishBlocker, ManagerMode, MemberRole, MessageStatus,
        PendingCheck, ProposalRound, ProvostInvocation, Recipient, Team, TeamActor, TeamMember,
        TeamMessage, visible,
    },
};

use crate::{
    hints,
    projection::session::clip_to,
    projection::team::{blocker_rows, criterion_row, loop_row, worker_tokens},
};

/// The maximum length of a goal, claim or objective.
const MAX_LONG_BYTES: usize = 2_000;

/// The maximum length of a text in fields that may occur many times.
const MAX_SHORT_BYTES: usize = 300;

/// The maximum number of criteria, messages and workers to show. The rest are only counted.
const MAX_ITEMS: usize = 20;

/// The state shown for a member without a session.
const POLLS_MESSAGES: &str = "polls_messages";

/// Builds the overview of a team for one of its members. `look` returns a session's current state.
pub fn overview<'s>(
    task: &Team,
    me: &TeamMember,
    caller: &ProvostInvocation,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> OverviewRow {
    let bound: Vec<&TeamMember> = task.members.iter().filter(|member| member.is_bound()).collect();
    let members =
        bound.iter().take(MAX_ITEMS).map(|one| member_row(one, one.session.and_then(&look)));
    let open: Vec<&Criterion> = task.criteria.iter().filter(|one| one.is_open()).collect();
    let criteria = open.iter().take(MAX_ITEMS).map(|one| criterion_row(task, one));
    let mut blockers = blocker_rows(task, caller, &actor_of(me), &look);
    blockers.truncate(MAX_ITEMS);
    let mut looped = task.loop_state.as_ref().map(|looped| loop_row(task, looped));
    if let Some(looped) = &mut looped {
        looped.tokens_used = worker_tokens(task, &look);
    }
    OverviewRow {
        team: OverviewTeamRow {
            id: task.id.to_string(),
            name: task.spec.name.clone(),
            goal: clip_to(&task.spec.goal, MAX_LONG_BYTES),
            state: task.phase.as_str().to_owned(),
            being_audited: task.audit.is_some(),
        },
        you: OverviewReaderRow { name: me.name.clone(), role: me.role.as_str().to_owned() },
        members: members.collect(),
        criteria: OverviewCriteriaRow {
            total: task.criteria.len(),
            open: open.len(),
            shown: criteria.collect(),
        },
        budget: budget_row(task, looped.as_ref(), &bound, &look),
        loop_row: looped,
        running_checks: task.checks.iter().take(MAX_ITEMS).map(check_row).collect(),
        messages: messages_row(task, me),
        blockers,
        next: next_steps(task, me, &failed_workers(&bound, &look), &look),
        proposals: task.next.as_ref().map(|round| proposals_row(round, me)),
        contract: (me.role == MemberRole::Manager).then(|| contract_row(task, me)),
        new: None,
    }
}

/// Returns the actor that the overview is for. The operator sees the same as a manager.
fn actor_of(me: &TeamMember) -> TeamActor {
    if me.name == TeamActor::Operator.name() {
        TeamActor::Operator
    } else {
        TeamActor::Member(me.name.clone())
    }
}

/// Describes how much of the budget is used, for the loop and for each session that has a limit.
fn budget_row<'s>(
    task: &Team,
    looped: Option<&LoopRow>,
    bound: &[&TeamMember],
    look: &impl Fn(SessionId) -> Option<&'s Session>,
) -> OverviewBudgetRow {
    let sessions = bound.iter().filter_map(|one| Some((one, look(one.session?)?)));
    let sessions = sessions.take(MAX_ITEMS).map(|(one, session)| {
        let limits = session.spending.budget;
        MemberUseRow {
            member: one.name.clone(),
            tokens: LimitUseRow {
                used: Some(session.spending.usage.total()),
                limit: limits.tokens,
            },
            turns: LimitUseRow {
                used: Some(session.spending.turns.into()),
                limit: limits.turns.map(u64::from),
            },
        }
    });
    let running = if task.running_loop().is_some() { looped } else { None };
    OverviewBudgetRow {
        loop_use: running.map(|looped| LoopUseRow {
            tokens: LimitUseRow { used: looped.tokens_used, limit: looped.tokens },
            iterations: LimitUseRow {
                used: Some(looped.iteration.into()),
                limit: Some(looped.max.into()),
            },
        }),
        sessions: sessions.collect(),
    }
}

/// Shows the proposals for the next step. Until both are written, each is visible only to its author.
fn proposals_row(round: &ProposalRound, me: &TeamMember) -> ProposalRoundRow {
    let (worker, manager) = round.visible_to(&me.name);
    let long = |text: Option<&str>| text.map(|text| clip_to(&visible(text), MAX_LONG_BYTES));
    let written =
        |by: &str, text: Option<&str>| ProposalRow { by: by.to_owned(), text: long(text) };
    ProposalRoundRow {
        round: round.no,
        worker: written(&round.worker.by, worker),
        manager: round.manager.as_ref().map(|one| written(&one.by, manager)),
        chosen: round.chosen.as_ref().map(|(choice, because)| ChosenProposalRow {
            choice: choice.as_str().to_owned(),
            because: short_text(because),
        }),
    }
}

fn contract_row(task: &Team, me: &TeamMember) -> ContractRow {
    let config = &task.config;
    let short = |all: &[String]| {
        all.iter().take(MAX_ITEMS).map(|one| clip_to(one, MAX_SHORT_BYTES)).collect()
    };
    ContractRow {
        revision: config.revision,
        acknowledged: me.acknowledged,
        mode: config.mode.as_str().to_owned(),
        objective: clip_to(&config.objective, MAX_LONG_BYTES),
        guidelines: short(&config.guidelines),
        references: short(&config.references),
        may_not: config.denied.iter().map(|action| action.as_str().to_owned()).collect(),
        epilogue: config.epilogue.iter().map(|step| step.as_str().to_owned()).collect(),
        adversarial: config.adversarial,
        questions: config.questions.clone(),
        on_completion: config.on_completion.clone(),
    }
}

fn member_row(member: &TeamMember, session: Option<&Session>) -> OverviewMemberRow {
    let row = OverviewMemberRow {
        name: member.name.clone(),
        role: member.role.as_str().to_owned(),
        state: POLLS_MESSAGES.to_owned(),
        ..OverviewMemberRow::default()
    };
    let Some(session) = session else { return row };
    let judged = session.judgement();
    let asks = session.open_requests().take(MAX_ITEMS).map(|one| short_text(&one.asked.title));
    let claim = session.attempt().claim.as_ref().and_then(|claim| claim.text.as_deref());
    OverviewMemberRow {
        state: judged.state.as_str().to_owned(),
        cause: judged.cause.map(|cause| cause.as_str().to_owned()),
        turns: Some(session.spending.turns),
        tokens: Some(session.spending.usage.total()),
        flags: judged.flags.iter().map(|flag| flag.as_str().to_owned()).collect(),
        open_requests: asks.collect(),
        says: claim.map(|says| clip_to(&visible(says), MAX_LONG_BYTES)),
        context: session
            .conversation
            .context
            .map(|context| ContextUseRow { used: context.used, window: context.window }),
        ..row
    }
}

fn check_row(check: &PendingCheck) -> RunningCheckRow {
    let purpose = match &check.purpose {
        CheckPurpose::Criterion(no) => format!("criterion {no}"),
        CheckPurpose::Evidence { name, .. } => name.clone(),
        CheckPurpose::Audit(no) => format!("audit {no}"),
    };
    let command = clip_to(&check.command, MAX_SHORT_BYTES);
    RunningCheckRow { check: check.no, command, purpose }
}

/// Lists the newest messages to or from this member, and counts those that are waiting.
fn messages_row(task: &Team, me: &TeamMember) -> OverviewMessagesRow {
    let own = Recipient::Member(me.name.clone());
    let waits = |to: &Recipient| {
        task.messages.iter().filter(|m| m.to == *to && !m.status.is_over()).count()
    };
    let of_me = |one: &&Arc<TeamMessage>| one.to == own || one.from.name() == me.name;
    let newest = task.messages.iter().rev().filter(of_me).take(MAX_ITEMS);
    let mut newest: Vec<OverviewMessageRow> = newest.map(|one| message_row(one)).collect();
    newest.reverse();
    OverviewMessagesRow {
        waiting_for_you: waits(&own),
        waiting_for_operator: waits(&Recipient::Operator),
        newest,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no other message has a reason here")]
fn message_row(message: &TeamMessage) -> OverviewMessageRow {
    OverviewMessageRow {
        no: message.no,
        from: message.from.name().to_owned(),
        to: message.to.name().to_owned(),
        kind: message.kind.as_str().to_owned(),
        status: message.status.as_str().to_owned(),
        text: short_text(&message.text),
        reason: match &message.status {
            MessageStatus::Dead { reason } => Some(short_text(reason)),
            _ => None,
        },
    }
}

fn short_text(text: &str) -> String {
    clip_to(&visible(text), MAX_SHORT_BYTES)
}

/// Lists the workers that failed, and why.
fn failed_workers<'s>(
    bound: &[&TeamMember],
    look: &impl Fn(SessionId) -> Option<&'s Session>,
) -> Vec<String> {
    let workers = bound.iter().filter(|one| one.role == MemberRole::Worker);
    let judged = workers.filter_map(|one| Some((one, look(one.session?)?.judgement())));
    let failed = judged.filter(|(_, judged)| judged.state == State::Failed).take(MAX_ITEMS);
    failed
        .map(|(one, judged)| {
            let why =
                judged.cause.map(|cause| format!(" ({})", cause.as_str())).unwrap_or_default();
            format!("{}{why}", one.name)
        })
        .collect()
}

/// Describes what a round of proposals currently requires from this member, if anything.
fn expected_proposal(task: &Team, me: &TeamMember) -> Option<String> {
    let round = task.next.as_ref().filter(|round| round.chosen.is_none())?;
    match (me.role, &round.manager) {
        (MemberRole::Manager, None) => {
            Some("propose the next step: the worker has already proposed one".to_owned())
        }
        (MemberRole::Reviewer, Some(_)) => Some("choose between the two proposals".to_owned()),
        (MemberRole::Worker | MemberRole::Manager | MemberRole::Reviewer, _) => None,
    }
}

/// Lists the next steps, most urgent first. Workers that failed do not continue on their own.
fn next_steps<'s>(
    task: &Team,
    me: &TeamMember,
    gone: &[String],
    look: &impl Fn(SessionId) -> Option<&'s Session>,
) -> Vec<String> {
    let mut next: Vec<String> = expected_proposal(task, me).into_iter().collect();
    if me.role != MemberRole::Manager {
        next.extend(task.running_loop().map(|looped| loop_row(task, looped).recommendation));
        return next;
    }
    let unread =
        task.config.mode != ManagerMode::Light && me.acknowledged != Some(task.config.revision);
    if unread {
        next.push(format!("accept revision {} of the contract", task.config.revision));
    }
    if task.audit.is_some() {
        next.push(
            "wait: the audit is running, and you will receive the result as a message".to_owned(),
        );
        return next;
    }
    next.extend(task.running_loop().map(|looped| loop_row(task, looped).recommendation));
    next.extend(gone.iter().map(|one| {
        format!("see why {one} failed: send it instructions to continue, or replace it")
    }));
    let open = task.criteria.iter().filter(|one| one.is_open()).take(MAX_ITEMS);
    next.extend(open.map(|one| match one.state.as_str() {
        "proposed" => format!("judge criterion {}: accept, defer or reject it", one.no),
        _ => format!("have criterion {} satisfied, or defer it", one.no),
    }));
    let lost: Vec<&TeamMessage> = task.dead_letters().take(MAX_ITEMS).collect();
    next.extend(lost.iter().map(|one| {
        format!(
            "handle message {}, which {} did not process: requeue it (to another with --to), or cancel it",
            one.no,
            one.to.name()
        )
    }));
    let failed = task.blockers.iter().filter_map(FinishBlocker::failed_check);
    let failed = failed.map(|(command, _)| short_text(command));
    let failed: Vec<String> = failed.take(MAX_ITEMS).collect();
    next.extend(failed.iter().map(|check| format!("have the work fixed: `{check}` does not pass")));
    let continues = task.running_loop().is_some_and(|looped| looped.continuation.is_some());
    let at_rest = failed.is_empty() && gone.is_empty() && lost.is_empty() && !continues;
    let blockers = task.readiness(look);
    next.extend(blockers.iter().filter_map(|one| blocker_advice(task, &actor_of(me), one, look)));
    if blockers.is_empty() && at_rest && !task.phase.is_over() {
        next.push("nothing is open: finish, or send the next instruction".to_owned());
    }
    next
}

/// Describes how a manager can deal with a blocker that the other next steps do not cover.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other next steps cover the rest")]
fn blocker_advice<'s>(
    task: &Team,
    who: &TeamActor,
    blocker: &FinishBlocker,
    look: &impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<String> {
    match blocker {
        FinishBlocker::MemberWorking { member, state } if state == State::NeedsInput.as_str() => {
            Some(match hints::answer_hint(task, member, look) {
                Some(hint) if hints::may_answer(task, who) => format!("answer {member}: {hint}"),
                Some(hint) => format!("{member} waits for an answer from the operator: {hint}"),
                None => format!("send {member} what it needs: it waits for input"),
            })
        }
        FinishBlocker::MemberWorking { member, state } => {
            Some(format!("wait until {member} is idle: it {}", team::describe_state(state)))
        }
        FinishBlocker::InstructionOpen { member, .. } => {
            Some(format!("wait until {member} has handled its instructions"))
        }
        FinishBlocker::NothingProved => Some(
            "have the work verified: add a criterion with a check, or show evidence".to_owned(),
        ),
        FinishBlocker::NothingChanged { worker, .. } => Some(format!(
            "have {worker} change something, or have the operator allow that nothing changed"
        )),
        FinishBlocker::Paused => Some("resume the team".to_owned()),
        FinishBlocker::DecidedNotFinished => {
            Some("finish the team: the move `stop` alone does not finish it".to_owned())
        }
        _ => None,
    }
}
