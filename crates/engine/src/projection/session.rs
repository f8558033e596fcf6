//! The projection of a session: the row that `ls` and `status` show, and the facts behind its state.

mod explain;

use provost_api::{
    BudgetRow, CheckResultName, CheckRow, ClaimRow, CommunicationRow, ContextRow, ExitRow,
    Extensible, FactRow, Hint, LaunchPhaseName, LaunchRow, LimitWaitRow, MessageRow, ProgressRow,
    QuestionRow, RequestRow, ResolutionRow, SessionRow, ShortageRow, SubjectRow, UsageRow,
    VerificationName, WorktreeRow,
};
use provost_core::{
    lifecycle::{Activity, VerificationFact},
    request::{ApprovalSubject, BlockingMode, Request, RequestKind},
    session::{
        AgentMessage, AgentMessageKind, Claim, DeliveryStatus, Fact, FactKind, Launch, LaunchPhase,
        LimitWait, ProcessExit, Session, StoppedBy, TmuxPane, WorkLocation, WorkState,
    },
    shortage::{EffectWait, Shortage},
    team::Communication,
    text::shell_quote,
    verdict::{CheckEnd, CheckOrigin, Receipt},
};

pub(crate) use self::explain::describe_caveats;
pub use self::explain::explain;
use self::explain::{
    describe_contradictions, describe_uncommitted, describe_unobservable, effective_claim, reason,
};
use crate::projection;

/// The maximum length of a text in a row, and the maximum number of items of each kind. The events
/// contain the rest.
const MAX_TEXT_BYTES: usize = 4 << 10;
const MAX_ITEMS: usize = 50;

/// Serializes the row for the ledger.
pub(crate) fn to_json(session: &Session) -> String {
    serde_json::to_string(&row(session)).expect("a row has string keys only")
}

/// Builds the row of a session.
pub fn row(session: &Session) -> SessionRow {
    let (spec, attempt, judged) = (&session.spec, session.attempt(), session.judgement());
    let claim = effective_claim(session, judged.rule);
    let snapshot = attempt.verifying.snapshot.as_ref();
    SessionRow {
        id: session.id.to_string(),
        name: spec.name.clone(),
        role: spec.role.clone(),
        run: spec.run.map(|of| of.run.to_string()),
        project: spec.project.clone(),
        cwd: match &session.worktree.state {
            WorkState::Ready { cwd, .. } => cwd.clone(),
            WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => spec.cwd.clone(),
        },
        agent: spec.agent.name.clone(),
        adapter: spec.agent.interface.adapter.to_string(),
        mode: spec.agent.interface.mode.into(),
        has_conversation: spec.agent.interface.has_turns(),
        can_resume: spec.agent.interface.can_resume(),
        can_attach: spec.agent.interface.can_attach(),
        argv: spec.agent.argv.clone(),
        version: spec.agent.version.clone(),
        state: judged.state.into(),
        terminal: judged.is_terminal(),
        sealed: attempt.is_sealed(),
        cause: judged.cause.map(Extensible::from),
        flags: judged.flags.iter().copied().map(Extensible::from).collect(),
        rule: judged.rule.as_str().to_owned(),
        claim: claim.kind.into(),
        claimed_at: claim.at,
        claim_source: claim.source.map(|source| source.as_str().to_owned()),
        claim_text: claim.text.map(clip),
        process: projection::common::process_name(session).into(),
        exit: session.current_launch().and_then(exit_row),
        activity: projection::common::activity_name(session).into(),
        verification: verification_name(session).into(),
        checks: check_rows(session),
        tree: snapshot.map(|snapshot| snapshot.tree.0.clone()),
        commit: snapshot.map(|snapshot| snapshot.commit.0.clone()),
        requests: request_rows(session),
        communication: Some(communication_row(&Communication::for_session(session))),
        thread: session.conversation.thread.as_deref().map(clip),
        late_claims: newest(&attempt.late_claims).map(claim_row).collect(),
        progress: session.reported.progress.map(|progress| ProgressRow {
            done: progress.done,
            total: progress.total,
            source: "agent".to_owned(),
        }),
        usage: UsageRow {
            input: session.spending.usage.input,
            output: session.spending.usage.output,
        },
        context: session
            .conversation
            .context
            .map(|context| ContextRow { used: context.used, window: context.window }),
        turns: session.spending.turns,
        budget: BudgetRow {
            tokens: session.spending.budget.tokens,
            turns: session.spending.budget.turns,
        },
        limited: if attempt.is_sealed() {
            None
        } else {
            session.spending.limited.as_ref().map(limited_row)
        },
        screen: pane_command(session),
        retrying: if attempt.is_sealed() { None } else { session.retry_reason().map(clip) },
        attempt: attempt.no,
        instruction: attempt.instruction.as_deref().map(clip),
        setup: projection::common::setup_row(session),
        launches: newest(&session.launches).map(launch_row).collect(),
        messages: newest(&session.input.messages).map(|one| message_row(session, one)).collect(),
        facts: newest(&session.reported.facts).map(fact_row).collect(),
        hooks: projection::common::hook_rows(session),
        warnings: newest(&spec.warnings)
            .chain(newest(&session.reported.warnings))
            .map(|warning| clip(warning))
            .chain(describe_caveats(&session.attempt().verifying.caveats))
            .chain(describe_uncommitted(session))
            .chain(describe_contradictions(session))
            .chain(describe_unobservable(session))
            .collect(),
        resolution: attempt.resolutions.last().map(|resolution| ResolutionRow {
            state: resolution.state.into(),
            because: clip(&resolution.because),
            at: resolution.at.wall_ms,
        }),
        shortage: session.longest_wait().map(effect_wait_row),
        reason: reason(session, judged.cause),
        worktree: worktree_row(session),
        opened_at: session.opened.wall_ms,
        since: attempt.resolutions.last().map_or(attempt.since, |one| one.at).wall_ms,
        last_activity_at: None,
        sealed_at: attempt.sealed.as_ref().map(|sealed| sealed.at.wall_ms),
    }
}

/// Returns the verdict of the checks on the current tree.
fn verification_name(session: &Session) -> VerificationName {
    match session.verification() {
        VerificationFact::None => VerificationName::None,
        VerificationFact::Passed(_) => VerificationName::Passed,
        VerificationFact::Failed(_) => VerificationName::Failed,
    }
}

/// Returns the result of a check that has no receipt.
pub(crate) fn missing_result(is_over: bool) -> CheckResultName {
    if is_over { CheckResultName::NotRun } else { CheckResultName::Pending }
}

/// Describes how a session or member receives messages.
pub(crate) fn communication_row(how: &Communication) -> CommunicationRow {
    CommunicationRow {
        kind: how.channel_kind().to_owned(),
        receive: how.receive.as_str().to_owned(),
        can_push: how.can_push(),
        needs_wake: how.needs_wake(),
        receive_command: how.receive_command.clone(),
        acts: how.via.map(|via| via.as_str().to_owned()),
        note: how.note().map(str::to_owned),
    }
}

fn phase_detail(launch: &Launch) -> (&'static str, Option<i64>, Option<String>) {
    match &launch.phase {
        LaunchPhase::Pending => {
            ("provost", Some(launch.requested_at.wall_ms), Some("being started".to_owned()))
        }
        LaunchPhase::Running { child: None, .. } => {
            ("none", None, Some("adopted by its transcript; its process is unknown".to_owned()))
        }
        LaunchPhase::Running { child: Some(child), .. } => (
            if launch.adopted { "kernel" } else { "holder" },
            None,
            Some(format!("pid {} since boot tick {}", child.pid, child.start_time)),
        ),
        LaunchPhase::Ended { end, by, at } => {
            let how = match end {
                ProcessExit::Exit(code) => format!("exit code {code}"),
                ProcessExit::Signal(signal) => format!("signal {signal}"),
            };
            let how = match by {
                StoppedBy::Itself => format!("{how}, by itself"),
                StoppedBy::Provost => format!("ended by Provost ({how})"),
            };
            ("holder's wait status", Some(at.wall_ms), Some(how))
        }
        LaunchPhase::Unobserved { why, at } => ("provost", Some(at.wall_ms), Some(why.clone())),
        LaunchPhase::Failed { reason } => ("holder", None, Some(reason.clone())),
    }
}

/// Returns the time of a launch's last activity: when it exited, or otherwise its last sign of life.
fn activity_at(launch: &Launch) -> i64 {
    match &launch.phase {
        LaunchPhase::Ended { at, .. } | LaunchPhase::Unobserved { at, .. }
            if launch.activity() == Activity::Exited =>
        {
            at.wall_ms
        }
        LaunchPhase::Pending
        | LaunchPhase::Running { .. }
        | LaunchPhase::Ended { .. }
        | LaunchPhase::Unobserved { .. }
        | LaunchPhase::Failed { .. } => launch.stream.last_heard.wall_ms,
    }
}

fn exit_row(launch: &Launch) -> Option<ExitRow> {
    let LaunchPhase::Ended { end, by, .. } = &launch.phase else { return None };
    let (code, signal) = match end {
        ProcessExit::Exit(code) => (Some(*code), None),
        ProcessExit::Signal(signal) => (None, Some(*signal)),
    };
    let by = match by {
        StoppedBy::Itself => "itself",
        StoppedBy::Provost => "provost",
    };
    Some(ExitRow { code, signal, by: by.to_owned() })
}

fn check_rows(session: &Session) -> Vec<CheckRow> {
    let receipts = &session.attempt().verifying.receipts;
    let receipt = |check: &str| receipts.iter().find(|receipt| receipt.command == check);
    let missing = missing_result(session.attempt().is_sealed());
    let row = |check: &String| {
        check_row(check, session.spec.check_origin(check), receipt(check), missing)
    };
    session.spec.checks.iter().map(row).collect()
}

pub(crate) fn check_row(
    command: &str,
    by: CheckOrigin,
    receipt: Option<&Receipt>,
    missing: CheckResultName,
) -> CheckRow {
    let result = match receipt.map(|receipt| &receipt.end) {
        None => missing,
        Some(CheckEnd::Exit(0)) => CheckResultName::Passed,
        Some(CheckEnd::Exit(_) | CheckEnd::Signal(_)) => CheckResultName::Failed,
        Some(CheckEnd::TimeLimit | CheckEnd::OutputLimit | CheckEnd::Unfinished(_)) => {
            CheckResultName::Unfinished
        }
    };
    let overlay = receipt.and_then(|receipt| receipt.overlay.as_ref());
    CheckRow {
        command: command.to_owned(),
        by: Some(by.as_str().to_owned()),
        result: result.into(),
        detail: receipt.map(|receipt| receipt.end.summary()),
        tree: receipt.map(|receipt| receipt.tree.0.clone()),
        duration_ms: receipt.map(|receipt| receipt.duration_ms),
        output_digest: receipt.map(|receipt| receipt.output_digest.clone()),
        output: receipt.map(|receipt| receipt.output.clone()),
        warm: receipt.map(|receipt| receipt.warm),
        environment: receipt.and_then(|receipt| receipt.environment.clone()),
        base_files: overlay.map(|overlay| overlay.files.clone()).unwrap_or_default(),
        checked_tree: overlay.map(|overlay| overlay.tree.0.clone()),
    }
}

/// Lists the open requests.
pub(crate) fn request_rows(session: &Session) -> Vec<RequestRow> {
    session
        .open_requests()
        .take(MAX_ITEMS)
        .map(|one| request_row_with_commands(session, one))
        .collect()
}

fn request_row_with_commands(session: &Session, request: &Request) -> RequestRow {
    let row = request_row(request);
    let id = session.id.short();
    let runs = session.current_launch().is_some_and(Launch::may_be_running);
    let pane = session.spec.adopted.as_ref().and_then(|adopted| adopted.pane.as_ref());
    let unseen = session.spec.adopted.is_some()
        && request.asked.kind == RequestKind::Approval
        && request.asked.subject.is_none();
    let look = if runs { pane.map(attach_command) } else { None };
    let commands = match (session.is_screen_only(request), &session.spec.adopted) {
        (true, None) if runs => vec![Hint::Attach(id).to_string()],
        (true, None) if session.spec.agent.interface.takes_instructions() => {
            vec![Hint::Resume(id).to_string()]
        }
        (true, _) => vec![look.unwrap_or_else(|| Hint::StatusWhy(id).to_string())],
        (false, _) => {
            let deny = row.can_be_denied().then(|| row.deny_command());
            let look = if unseen { look } else { None };
            [look, Some(row.answer_command()), deny].into_iter().flatten().collect()
        }
    };
    // An agent does not show the subject of a request if its screen is too small.
    let title = if unseen {
        clip(&format!("{}; its pane does not show the subject", row.title))
    } else {
        row.title.clone()
    };
    RequestRow { title, commands, ..row }
}

/// Returns the command that shows an external agent's pane, if the pane is known.
pub(crate) fn pane_command(session: &Session) -> Option<String> {
    session.spec.adopted.as_ref()?.pane.as_ref().map(attach_command)
}

/// Returns the command that shows an external agent's pane.
fn attach_command(pane: &TmuxPane) -> String {
    format!("tmux -S {} attach -t {}", shell_quote(&pane.socket), shell_quote(&pane.id))
}

fn request_row(request: &Request) -> RequestRow {
    RequestRow {
        id: request.id.to_string(),
        revision: request.revision,
        kind: request.asked.kind.into(),
        blocking: request.asked.waiting == BlockingMode::Blocking,
        title: clip(&request.asked.title),
        questions: request
            .asked
            .questions
            .iter()
            .take(MAX_ITEMS)
            .map(|question| QuestionRow {
                id: question.id.clone(),
                header: clip(&question.header),
                question: clip(&question.question),
                options: question
                    .options
                    .iter()
                    .take(MAX_ITEMS)
                    .map(|one| clip(&one.label))
                    .collect(),
                descriptions: question
                    .options
                    .iter()
                    .take(MAX_ITEMS)
                    .map(|one| clip(&one.description))
                    .collect(),
                only_options: question.only_options,
                secret: question.secret,
            })
            .collect(),
        subject: request.asked.subject.as_deref().map(subject_row),
        asked_at: request.at.wall_ms,
        commands: Vec::new(),
    }
}

fn subject_row(subject: &ApprovalSubject) -> SubjectRow {
    let part = |text: &Option<String>| text.as_deref().map(clip);
    SubjectRow {
        command: part(&subject.command),
        cwd: part(&subject.cwd),
        reason: part(&subject.reason),
        paths: subject.paths.iter().take(MAX_ITEMS).map(|path| clip(path)).collect(),
        diff: part(&subject.diff),
        network: part(&subject.network),
        inferred_from: subject.inferred_from.map(|by| by.as_str().to_owned()),
    }
}

fn limited_row(limited: &LimitWait) -> LimitWaitRow {
    let wait = limited.until_mono_ms.saturating_sub(limited.since.mono_ms);
    let until = limited.since.wall_ms.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX));
    LimitWaitRow { until, detail: clip(&limited.detail) }
}

fn claim_row(claim: &Claim) -> ClaimRow {
    ClaimRow {
        claim: claim.kind.into(),
        source: claim.source.as_str().to_owned(),
        text: claim.text.as_deref().map(clip),
        at: claim.at.wall_ms,
    }
}

fn launch_row(launch: &Launch) -> LaunchRow {
    let (phase, pid) = match &launch.phase {
        LaunchPhase::Pending => (LaunchPhaseName::Pending, None),
        LaunchPhase::Running { child, .. } => {
            (LaunchPhaseName::Running, child.as_ref().map(|child| child.pid))
        }
        LaunchPhase::Ended { .. } => (LaunchPhaseName::Ended, None),
        LaunchPhase::Unobserved { .. } => (LaunchPhaseName::Unobserved, None),
        LaunchPhase::Failed { .. } => (LaunchPhaseName::Failed, None),
    };
    LaunchRow {
        id: launch.id.to_string(),
        phase: phase.into(),
        pid,
        attempt: launch.attempt,
        stop: launch.stop.map(|stop| stop.step.as_str().to_owned()),
        leftovers: launch.gone.map(|gone| gone.leftovers),
    }
}

/// Returns why a message is still waiting, if that is known.
fn wait_reason(session: &Session, message: &AgentMessage) -> Option<String> {
    let launch = session.current_launch().filter(|launch| launch.may_be_running())?;
    let typed = session.spec.agent.interface.has_terminal();
    let held_back = || session.input_blocked(launch, message).map(|why| why.describe().to_owned());
    message.unconfirmed_reason.clone().or_else(|| typed.then(held_back).flatten())
}

fn message_row(session: &Session, message: &AgentMessage) -> MessageRow {
    let kind = match message.kind {
        AgentMessageKind::Instruction => "instruction",
        AgentMessageKind::Steer => "steer",
        AgentMessageKind::Rework => "rework",
        AgentMessageKind::ResultWanted => "result_wanted",
        AgentMessageKind::Answer => "answer",
        AgentMessageKind::Returned => "returned",
        AgentMessageKind::Continue => "continue",
        AgentMessageKind::Nudge => "nudge",
        AgentMessageKind::Interrupt => "interrupt",
        AgentMessageKind::Compact => "compact",
    };
    let (fate, reason) = match &message.status {
        DeliveryStatus::Queued => ("queued", wait_reason(session, message)),
        DeliveryStatus::Delivered { .. } => ("delivered", None),
        DeliveryStatus::Undeliverable { reason } => ("undeliverable", Some(reason.clone())),
    };
    MessageRow { key: message.key.clone(), kind: kind.to_owned(), status: fate.to_owned(), reason }
}

fn fact_row(fact: &Fact) -> FactRow {
    let kind = match fact.kind {
        FactKind::Branch => "branch",
        FactKind::Pr => "pr",
        FactKind::Artifact => "artifact",
    };
    FactRow { fact: kind.to_owned(), value: clip(&fact.value), at: fact.at.wall_ms }
}

/// Describes the resource that an effect is waiting for.
fn effect_wait_row(wait: &EffectWait) -> ShortageRow {
    ShortageRow {
        effect: Some(wait.effect.clone()),
        since: Some(wait.since.wall_ms),
        tries: wait.tries,
        ..shortage_row(&wait.shortage)
    }
}

pub(crate) fn shortage_row(shortage: &Shortage) -> ShortageRow {
    ShortageRow {
        resource: shortage.resource.as_str().to_owned(),
        detail: clip(&shortage.detail),
        effect: None,
        since: None,
        tries: 0,
        waiting: 0,
    }
}

/// Truncates a text that is too long for a row, at a character boundary.
pub(crate) fn clip(text: &str) -> String {
    clip_to(text, MAX_TEXT_BYTES)
}

pub(crate) fn clip_to(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes)", &text[..end], text.len())
}

/// Returns the newest items, in their original order.
pub(crate) fn newest<T>(all: &[T]) -> std::slice::Iter<'_, T> {
    all[all.len().saturating_sub(MAX_ITEMS)..].iter()
}

fn worktree_row(session: &Session) -> Option<WorktreeRow> {
    match &session.spec.work {
        WorkLocation::Worktree { path, branch, .. } => Some(WorktreeRow {
            path: path.clone(),
            branch: branch.clone(),
            removed: session.worktree.state == WorkState::Removed,
        }),
        WorkLocation::Plain | WorkLocation::InPlace { .. } | WorkLocation::Detached { .. } => None,
    }
}

fn is_suspended(launch: &Launch) -> bool {
    launch.watch.suspended && launch.may_be_running()
}
