//! A team's projection.

use provost_api::{
    AdvanceRow, AssertedRow, AuditedWorkRow, BlockerRow, CommunicationRow, ContinuationRow,
    CriterionRow, DraftRow, DraftedRow, FailedCheckRow, ItemRow, LeftOutRow, LoopRow, MemberRow,
    MoveRow, StandingTaskRow, TaskHeadRow, TaskMessageRow,
};
use provost_core::{
    ids::SessionId,
    session::Session,
    task::{
        Actor, Attack, Audited, Blocker, Caller, CheckWanted, Commands, Communication, Criterion,
        CriterionJudged, CriterionProposed, CriterionState, Draft, Event, Evidence, FailedCheck,
        Lease, Loop, LoopEnd, Member, MemberTold, Message, Move, Phase, Proof, Purpose, Required,
        Role, Shown, Standing, Task, visible, wrapped,
    },
    time::Moment,
};
use serde::Serialize;
use serde_json::json;

use crate::{
    card::{self, clip, clip_to},
    task_help,
};

/// The longest text of a field that a row may have many of.
const SHORT: usize = 300;

/// The maximum number of members in the row that the ledger stores with every change: a row has a
/// size limit, and a team with thousands of members must be listable. A request for the team
/// returns all.
const MAX_LISTED: usize = 100;

/// Serializes the row for the ledger.
pub(crate) fn text(task: &Task) -> String {
    written(&row_of(task, &Caller::default(), &Actor::Operator, MAX_LISTED))
}

/// Serializes a row.
pub(crate) fn written(row: &impl Serialize) -> String {
    serde_json::to_string(row).expect("a row has string keys only")
}

/// Builds the row of a team, with commands for an operator who has Provost on the path.
pub fn row(task: &Task) -> StandingTaskRow {
    row_of(task, &Caller::default(), &Actor::Operator, usize::MAX)
}

fn row_of(task: &Task, caller: &Caller, who: &Actor, most: usize) -> StandingTaskRow {
    let spec = &task.spec;
    let counts = task.messages.counts().into_iter();
    StandingTaskRow {
        id: task.id.to_string(),
        name: spec.name.clone(),
        goal: clip(&spec.goal),
        summary: spec.summary.as_deref().map(clip),
        project: spec.project.clone(),
        cwd: spec.cwd.clone(),
        checks: spec.checks.clone(),
        state: task.phase.word().to_owned(),
        terminal: task.phase.is_over(),
        because: because(&task.phase).map(clip),
        since: task.since.wall_ms,
        opened_at: task.opened.wall_ms,
        members: task.members.iter().take(most).map(|one| member(task, one, caller)).collect(),
        messages: counts.map(|(stands, count)| (stands.word().to_owned(), count)).collect(),
        for_operator: task.messages.for_operator(),
        criteria: task.criteria.iter().map(|one| criterion(task, one)).collect(),
        awaits_consent: task.awaited_commands().into_iter().map(str::to_owned).collect(),
        looped: task.looped.as_ref().map(|looped| loop_row(task, looped)),
        mode: task.config.mode.word().to_owned(),
        revision: task.config.revision,
        config: json!(task.config),
        moves: moves(task),
        blockers: blockers(task, caller, who, |_| None),
        allowed: task.allowed.iter().map(|one| blocker(task, one, caller, who)).collect(),
        being_audited: task.audit.is_some(),
        audited: audited(task),
        policy: spec.policy.as_ref().map(|policy| policy.name.clone()),
    }
}

/// Builds the short row of a team: only its identity and state.
pub(crate) fn head(task: &Task) -> TaskHeadRow {
    TaskHeadRow {
        id: task.id.to_string(),
        name: task.spec.name.clone(),
        state: task.phase.word().to_owned(),
        terminal: task.phase.is_over(),
    }
}

/// Builds the row of a team for a caller, with commands that name Provost as the caller does, and
/// with the state of its members' sessions. `look` returns a session's current state.
pub fn row_with<'s>(
    task: &Task,
    caller: &Caller,
    who: &Actor,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> StandingTaskRow {
    let mut row = row_of(task, caller, who, usize::MAX);
    row.blockers = blockers(task, caller, who, &look);
    for (member, shown) in task.members.iter().zip(&mut row.members) {
        if let Some(session) = member.session.and_then(&look) {
            let judged = session.judgement();
            shown.state = Some(judged.state.word().to_owned());
            shown.cause = judged.cause.map(|cause| cause.word().to_owned());
            shown.branch = session.spec.work.branch().map(str::to_owned);
        }
    }
    if let Some(looped) = &mut row.looped {
        looped.tokens_used = used(task, look);
    }
    row
}

/// Returns the tokens that the workers of a team used. Only workers with a session count.
pub(crate) fn used<'s>(
    task: &Task,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<u64> {
    let sessions = task.bound(Role::Worker).filter_map(|worker| worker.session).filter_map(look);
    let used: Vec<u64> = sessions.map(|session| session.usage.total()).collect();
    (!used.is_empty()).then(|| used.iter().sum())
}

/// Returns the work that was last audited. `None` if it could not be committed.
pub(crate) fn audited(task: &Task) -> Option<AuditedWorkRow> {
    let Audited { worker, tree } = task.audited.clone()?;
    let tree = Some(tree.0).filter(|tree| !tree.is_empty())?;
    Some(AuditedWorkRow { worker, tree })
}

/// The number of newest moves shown.
const MOVES_SHOWN: usize = 5;

fn moves(task: &Task) -> Vec<MoveRow> {
    let newest = task.moves.iter().skip(task.moves.len().saturating_sub(MOVES_SHOWN));
    let row = |one: &Move| MoveRow {
        kind: one.kind.word().to_owned(),
        because: clip_to(&one.because, SHORT),
        by: one.by.clone(),
        at: one.at.wall_ms,
        used: one.used,
    };
    newest.map(row).collect()
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

/// Lists the blockers of a team's completion, for users and agents alike.
pub(crate) fn blockers<'s>(
    task: &Task,
    caller: &Caller,
    who: &Actor,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Vec<BlockerRow> {
    task.readiness(look).iter().map(|one| blocker(task, one, caller, who)).collect()
}

/// Describes one blocker, with the command that helps the caller.
pub(crate) fn blocker(task: &Task, blocker: &Blocker, caller: &Caller, who: &Actor) -> BlockerRow {
    let hint = task_help::about_blocker(task, who, blocker);
    let printed = blocker.failed_check().map(|(_, tail)| tail);
    BlockerRow {
        code: blocker.code().to_owned(),
        text: clip_to(&blocker.to_string(), SHORT),
        printed: printed.map(visible).filter(|tail| !tail.is_empty()),
        next: hint.as_deref().map(|hint| caller.says(hint)),
        hint,
    }
}

fn member(task: &Task, member: &Member, caller: &Caller) -> MemberRow {
    MemberRow {
        name: member.name.clone(),
        role: member.role.word().to_owned(),
        session: member.session.map(|session| session.to_string()),
        thread: member.labels.thread.clone(),
        title: member.labels.title.clone(),
        left: !member.is_bound(),
        acknowledged_revision: member.acknowledged,
        polled_at: None,
        state: None,
        cause: None,
        branch: None,
        communication: communication(task, member, caller),
    }
}

/// Describes how a member receives its messages.
pub(crate) fn communication(task: &Task, member: &Member, caller: &Caller) -> CommunicationRow {
    card::communication(&Communication::of_member(task, member, caller))
}

fn commands<'a>(task: &'a Task, member: &'a str, caller: &'a Caller) -> Commands<'a> {
    Commands { caller, task, by: Some(member) }
}

pub(crate) fn criterion(task: &Task, criterion: &Criterion) -> CriterionRow {
    let purpose = Purpose::Criterion(criterion.no);
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
        text: clip_to(&criterion.text, SHORT),
        state: criterion.state.word().to_owned(),
        source: criterion.source.word().to_owned(),
        rationale: criterion.rationale.as_deref().map(|text| clip_to(text, SHORT)),
        needs: needs.to_owned(),
        check,
        receipt: evidence.map(|evidence| evidence.word().to_owned()),
        evidence: evidence.map(told),
        being_checked: task.is_being_checked(&purpose),
        failed: task.failed_check(&purpose).map(failed),
    }
}

fn failed(failed: &FailedCheck) -> FailedCheckRow {
    let receipt = &failed.receipt;
    FailedCheckRow {
        command: receipt.command.clone(),
        end: clip_to(&receipt.end.words(), SHORT),
        worker: failed.worker.clone(),
        tree: receipt.tree.0.clone(),
        output: receipt.output.clone(),
    }
}

/// Describes the criteria drafted from a text. `task` is in the state before any of them was
/// proposed.
pub(crate) fn draft(task: &Task, draft: &Draft, dry_run: bool) -> DraftRow {
    let numbers = (task.criteria.len() + 1..).map(|no| (!dry_run).then_some(no));
    let proposed = draft.drafted.iter().zip(numbers);
    let left_out = draft.left_out.iter();
    DraftRow {
        source: draft.source.word().to_owned(),
        rationale: draft.rationale.clone(),
        proposed: proposed
            .map(|(text, no)| DraftedRow {
                no: no.and_then(|no| u32::try_from(no).ok()),
                text: text.clone(),
            })
            .collect(),
        left_out: left_out
            .map(|(text, why)| LeftOutRow {
                text: clip_to(&visible(text), SHORT),
                why: why.word().to_owned(),
            })
            .collect(),
        more_left_out: draft.more,
        dry_run,
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

/// Builds the row of a loop.
pub fn loop_row(task: &Task, looped: &Loop) -> LoopRow {
    let template = &looped.template;
    let iteration = looped.iteration;
    let of = |name: &String| Purpose::Evidence { iteration, name: name.clone() };
    let names = names(&template.evidence);
    let not_passed = |name: &String| Some((name.clone(), failed(task.failed_check(&of(name))?)));
    LoopRow {
        template: template.name.clone(),
        iteration,
        max: template.max,
        cleanup: template.clean_up.word().to_owned(),
        being_checked: names
            .iter()
            .filter(|name| task.is_being_checked(&of(name)))
            .cloned()
            .collect(),
        failed: names.iter().filter_map(not_passed).collect(),
        evidence: names,
        shown: looped.shown.keys().cloned().collect(),
        verified: looped.shown.iter().filter_map(|(name, shown)| verified(name, shown)).collect(),
        asserted: looped
            .shown
            .iter()
            .filter_map(|(name, shown)| asserted(looped, name, shown))
            .collect(),
        missing: looped.missing(),
        plateau: template.plateau,
        tokens: template.tokens,
        tokens_used: None,
        backlog: task.messages.iter().filter(|one| one.standing == Standing::Stored).count(),
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
        recommendation: recommended(task, looped),
        tools: template.tools.clone(),
    }
}

/// Describes evidence that Provost itself verified.
fn verified(name: &str, shown: &Shown) -> Option<(String, String)> {
    let text = match shown {
        Shown::Evidence(evidence @ Evidence::Verified(_)) => told(evidence),
        Shown::Pictures(compared) => compared.words(),
        Shown::Evidence(Evidence::Asserted { .. }) | Shown::Attack(_) | Shown::Artifact(_) => {
            return None;
        }
    };
    Some((name.to_owned(), text))
}

/// Describes evidence that is only asserted, and by whom. Challenges and artifacts are asserted,
/// too.
fn asserted(looped: &Loop, name: &str, shown: &Shown) -> Option<(String, AssertedRow)> {
    let by = || Some(looped.shown_by.get(name)?.name().to_owned());
    let (by, text) = match shown {
        Shown::Evidence(Evidence::Asserted { text, by }) => (by.clone(), text.clone()),
        Shown::Attack(Attack { failure_mode, check, result }) => {
            (by()?, format!("{failure_mode}; {check}; {result}"))
        }
        Shown::Artifact(fields) => {
            let fields = fields.iter().map(|(field, value)| format!("{field}: {value}"));
            (by()?, fields.collect::<Vec<_>>().join("; "))
        }
        Shown::Evidence(Evidence::Verified(_)) | Shown::Pictures(_) => return None,
    };
    Some((name.to_owned(), AssertedRow { by, text: clip_to(&text, SHORT) }))
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

fn recommended(task: &Task, looped: &Loop) -> String {
    let missing = looped.missing();
    match (&looped.ended, looped.asked) {
        _ if task.phase.is_over() => format!("the team is {}", task.phase.word()),
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
        (None, Some(message)) => match cleaned(task, looped, message) {
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

/// Returns the worker whose conversation is being compacted before it gets a message.
fn cleaned<'t>(task: &'t Task, looped: &Loop, message: u32) -> Option<&'t str> {
    let under_way = looped.compactions.is_some() && looped.cleaned_for == Some(message);
    let waits =
        task.message(message).filter(|one| under_way && one.standing == Standing::Stored)?;
    Some(waits.to.name())
}

/// Builds the row of a message for the member that it was offered to.
pub fn item(
    task: &Task,
    message: &Message,
    lease: &Lease,
    caller: &Caller,
    wall_of: impl Fn(u64) -> i64,
) -> ItemRow {
    let commands = commands(task, &lease.consumer, caller);
    ItemRow {
        task: task.id.to_string(),
        no: message.no,
        lease: lease.no,
        offer_until: lease.until_ms.map(wall_of),
        lease_until: None,
        kind: message.kind.word().to_owned(),
        key: message.key.clone(),
        correlation: message.correlation.clone(),
        from: message.from.name().to_owned(),
        channel: message.channel.word().to_owned(),
        trust: message.trust.word().to_owned(),
        redelivered: message.redelivered,
        text: message.text.clone(),
        envelope: wrapped(task, message, caller),
        looped: continuation(task, message),
        accept_command: Some(commands.accept(message.no, lease.no).to_string()),
        acknowledge_command: commands.acknowledge(message.no, lease.no).to_string(),
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

/// Builds the row of a message in a list.
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
        channel: message.channel.word().to_owned(),
        trust: message.trust.word().to_owned(),
        priority: message.priority.word().to_owned(),
        expires_at: message.expires_ms.map(|at| wall_of(message.stored, at)),
        iteration: message.iteration,
        standing: message.standing.word().to_owned(),
        reason: reason.map(clip),
        consumer: message.standing.lease().map(|lease| lease.consumer.clone()),
        offers: message.offers,
        stored_at: message.stored.wall_ms,
        text: clip(&message.text),
    }
}

/// Converts a monotonic time to wall time, relative to a known moment.
pub(crate) fn wall_of(known: Moment, mono_ms: u64) -> i64 {
    let ahead = i64::try_from(mono_ms.saturating_sub(known.mono_ms)).unwrap_or(i64::MAX);
    known.wall_ms.saturating_add(ahead)
}

/// Returns the message that an event changed.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is of no message")]
fn changed_message(event: &Event) -> Option<u32> {
    match event {
        Event::MessageStored(e) => Some(e.no),
        Event::MessageAccepted(e) => Some(e.no),
        Event::MessageAcknowledged(e) => Some(e.no),
        Event::MessageReturned(e) => Some(e.no),
        Event::MessageCancelled(e) => Some(e.no),
        Event::MessageDead(e) => Some(e.no),
        Event::MessageRequeued(e) => Some(e.no),
        _ => None,
    }
}

/// Whether an event changed a message and nothing else of its team. A message that requests an
/// iteration belongs to a loop, too.
pub(crate) fn is_of_message(event: &Event) -> bool {
    let asks = matches!(event, Event::MessageStored(stored) if stored.iteration.is_some());
    changed_message(event).is_some() && !asks
}

/// The row that an event changed.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Changed {
    Message(Box<TaskMessageRow>),
    Criterion(Box<CriterionRow>),
    Told { member: String, what: &'static str },
    Number(u32),
}

/// Returns the row that an event changed.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is in the task's own row")]
pub(crate) fn changed(task: &Task, event: &Event) -> Option<(&'static str, Changed)> {
    if let Some(no) = changed_message(event) {
        return task.message(no).map(|one| ("message", Changed::Message(Box::new(message(one)))));
    }
    match event {
        Event::CriterionProposed(CriterionProposed { no, .. })
        | Event::CriterionJudged(CriterionJudged { no, .. }) => {
            let row = criterion(task, task.criterion(*no)?);
            Some(("criterion", Changed::Criterion(Box::new(row))))
        }
        Event::CheckWanted(CheckWanted { check }) => Some(("check", Changed::Number(check.no))),
        Event::CheckJoined(e) => Some(("check", Changed::Number(e.no))),
        Event::FinishAsked(e) => Some(("audit", Changed::Number(e.no))),
        Event::MemberTold(MemberTold { name, what, .. }) => {
            Some(("told", Changed::Told { member: name.clone(), what: what.word() }))
        }
        _ => None,
    }
}
