//! The detail view of a run.

use provost_api::{
    ApprovalRow, CheckResultName, CostRow, FindingRow, MergeCheckStateName, RunGraphRow, RunRow,
    RunSessionRow, RunVerificationRow,
};

use super::run::{INDENT, LINE_WIDTH, describe_run_state, spaced};
use super::{
    GraphExtent, Paint, Screen, Tone, ago,
    detail_view::DetailView,
    for_how_long, graph_lines,
    run_graph::{describe_counts, describe_queue, task_rows},
    short_id,
    text::{clip, escape_line},
};

/// Additional data to show with a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunExtras<'a> {
    /// The plan of the run, if it has one.
    pub(crate) graph: Option<&'a RunGraphRow>,
    /// The time of the last event, if known.
    pub(crate) heard: Option<i64>,
}

/// Shows a run in detail.
pub(crate) fn run_detail(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    row: &RunRow,
    beside: RunExtras<'_>,
) -> Vec<String> {
    let mut detail = DetailView::new(paint, screen, now_ms);
    detail.line(&format!(
        "{} · run {}",
        paint.paint(Tone::Bold, &escape_line(&row.name)),
        escape_line(&row.id)
    ));
    let (tone, state) = describe_run_state(row);
    let since = paint.paint(Tone::Dim, &for_how_long(now_ms, row.since));
    let sealed = if row.sealed { ", sealed" } else { "" };
    detail.label("state", &format!("{}{sealed} · {since}", paint.paint(tone, &state)));
    detail.label("stage", &spaced(&row.stage));
    if let Some(reason) = row.detail.as_deref().filter(|reason| !reason.is_empty()) {
        detail.text_lines("reason", reason);
    }
    if let Some(shortage) = &row.shortage {
        detail.text("waiting", &shortage.detail);
    }
    detail.text("goal", &row.goal);
    if let Some(understanding) = &row.understanding {
        detail.text("intent", understanding);
    }
    row.requests.iter().for_each(|request| detail.request(request));
    if row.awaits_approval {
        show_approval(&mut detail, paint, row);
    }
    if let Some(graph) = beside.graph {
        show_plan(&mut detail, paint, screen, row, graph);
    }
    // The sessions that work on tasks are already shown in the plan.
    let shown = row.sessions.iter().filter(|one| beside.graph.is_none() || is_run_wide(one));
    shown.for_each(|session| detail.label("session", &describe_run_session(session)));
    for one in verifications_to_show(row) {
        let (tone, text) = describe_verification(one);
        detail.label("merge check", &paint.paint(tone, &text));
    }
    for decision in &row.decisions {
        let answer = decision.answer.as_ref().map_or("a secret".to_owned(), |all| all.join("; "));
        detail.text("decided", &format!("{} → {answer}", decision.question));
    }
    row.checks.iter().enumerate().for_each(|(at, check)| detail.check(at + 1, check));
    row.findings.iter().for_each(|finding| show_finding(&mut detail, finding));
    show_landing(&mut detail, row);
    show_usage(&mut detail, row);
    if !row.terminal
        && let Some(heard) = beside.heard
    {
        detail.label("last event", &ago(now_ms, heard));
    }
    row.warnings.iter().for_each(|warning| detail.text_lines("warning", warning));
    detail.into_lines()
}

/// Shows a run's pending approval, with the commands that answer it.
fn show_approval(detail: &mut DetailView, paint: Paint, row: &RunRow) {
    let waits = describe_approval(row);
    detail.label("request", &paint.paint(Tone::Warn, &format!("approval: {waits}")));
    let approval = row.approval.clone().unwrap_or_default();
    approval.commands.iter().for_each(|command| detail.text("would run", command));
    for line in approval_diff(&approval) {
        detail.unwrapped_line(&format!("{:INDENT$}{line}", ""));
    }
    approval_commands(row).iter().for_each(|command| detail.command(command));
}

/// Returns the lines of an approval's diff. If the diff is truncated, the last line mentions that.
pub(crate) fn approval_diff(approval: &ApprovalRow) -> Vec<String> {
    let lines = approval.diff.as_deref().unwrap_or_default().lines().map(escape_line);
    let rest = approval.truncated.then(|| {
        "the rest of the diff is too long to show here; the next command shows all of it".to_owned()
    });
    lines.chain(rest).collect()
}

/// Describes what the user is asked to approve.
pub(crate) fn describe_approval(row: &RunRow) -> String {
    let approval = row.approval.clone().unwrap_or_default();
    match (approval.kind.as_str(), approval.commands.is_empty()) {
        ("landing", _) => {
            let files = clip(&escape_line(&approval.files.join(", ")), LINE_WIDTH);
            format!("land this change to files that control checks or agents: {files}")
        }
        (_, true) => "start work on this plan".to_owned(),
        (_, false) => "start work on this plan, with commands that an agent wrote".to_owned(),
    }
}

/// Returns the commands that answer the run's pending approval.
pub(crate) fn approval_commands(row: &RunRow) -> Vec<String> {
    let id = short_id(&row.id);
    let approval = row.approval.clone().unwrap_or_default();
    let look = match (&approval.onto, &approval.commit) {
        // If the displayed diff is truncated, this command shows the complete diff.
        (Some(onto), Some(commit)) if approval.truncated => {
            let place = provost_core::text::shell_quote(&row.project);
            Some(format!("git -C {place} diff --text {onto} {commit}"))
        }
        (Some(_), Some(_)) => None,
        _ => Some(format!("provost graph {id}")),
    };
    let settle = [format!("provost approve {id}"), format!("provost deny {id} --because TEXT")];
    look.into_iter().chain(settle).collect()
}

/// Shows the tasks in the plan, and the merge queue.
fn show_plan(
    detail: &mut DetailView,
    paint: Paint,
    screen: Screen,
    row: &RunRow,
    graph: &RunGraphRow,
) {
    if let Some(counts) = &row.tasks {
        detail.label("tasks", &describe_counts(counts));
    }
    for line in
        graph_lines(paint, screen.narrowed_by(INDENT), &task_rows(graph), GraphExtent::Folded)
    {
        detail.unwrapped_line(&format!("{:INDENT$}{line}", ""));
    }
    let queue = if row.terminal { None } else { describe_queue(&graph.queue) };
    if let Some(queue) = queue {
        detail.label("queue", &queue);
    }
}

fn is_run_wide(session: &RunSessionRow) -> bool {
    session.task.is_none()
}

/// Returns the newest check of merged work, and those that did not pass.
pub(super) fn verifications_to_show(row: &RunRow) -> impl Iterator<Item = &RunVerificationRow> {
    let newest = row.verifications.last().map(|one| one.no);
    let passed = |one: &RunVerificationRow| one.state == MergeCheckStateName::Passed;
    row.verifications.iter().filter(move |one| !passed(one) || Some(one.no) == newest)
}

/// Describes a check of merged work: its number, what was merged, and the check that did not pass.
pub(super) fn describe_verification(one: &RunVerificationRow) -> (Tone, String) {
    let merged = match (one.batch, one.step) {
        (Some(batch), _) => format!("batch {batch}"),
        (None, Some(step)) => format!("landing step {step}"),
        (None, None) => escape_line(&one.kind),
    };
    let failed = one.checks.iter().find(|check| {
        matches!(check.result.known(), Some(CheckResultName::Failed | CheckResultName::Unfinished))
    });
    let failed = failed.map(|check| {
        let detail = check.detail.as_deref().unwrap_or(&check.result);
        format!(", {}: {}", clip(&escape_line(&check.command), LINE_WIDTH), escape_line(detail))
    });
    let tone = match one.state.known() {
        Some(MergeCheckStateName::Passed) => Tone::Good,
        Some(MergeCheckStateName::Failed | MergeCheckStateName::Inconclusive) => Tone::Bad,
        Some(MergeCheckStateName::Running | MergeCheckStateName::Stopped) | None => Tone::Dim,
    };
    (tone, format!("{} of {merged}: {}{}", one.no, spaced(&one.state), failed.unwrap_or_default()))
}

fn describe_run_session(session: &RunSessionRow) -> String {
    let state = match session.state.as_deref() {
        Some(state) => spaced(state),
        None if session.interrupted => "interrupted, waiting for you".to_owned(),
        None => "working".to_owned(),
    };
    let cycle = if session.cycle > 1 { format!(" {}", session.cycle) } else { String::new() };
    format!("{} {}{cycle}: {state}", short_id(&session.id), spaced(&session.stage))
}

fn show_finding(detail: &mut DetailView, finding: &FindingRow) {
    let place = match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        (None, _) => String::new(),
    };
    let fate = if finding.open { "open" } else { "settled" };
    detail.text("finding", &format!("{fate}, {}: {}{place}", finding.severity, finding.title));
}

fn show_landing(detail: &mut DetailView, row: &RunRow) {
    if let Some(commit) = &row.commit {
        let proved = if row.verified { ", every check passed on its tree" } else { "" };
        let commit = commit.get(..12).unwrap_or(commit);
        detail.label("commit", &format!("{}{proved}", escape_line(commit)));
    }
    let target = row.target.as_deref().unwrap_or("no branch");
    let text = match (&row.landing.branch, row.landing.merged) {
        (Some(_), true) => format!("merged into {target}"),
        (Some(branch), false) => format!("on branch {branch}"),
        (None, _) => format!("as {}, from {target}", row.landing.mode),
    };
    detail.label(if row.landing.done { "landed" } else { "lands" }, &escape_line(&text));
    if let Some(pull) = &row.landing.pull_request {
        let checks =
            pull.checks.as_deref().map_or(String::new(), |checks| format!(", checks {checks}"));
        detail.label("pull request", &escape_line(&format!("{}{checks}", pull.url)));
        if pull.left_out > 0 {
            let text = format!(
                "{} comments of users without write access (run.comments_from)",
                pull.left_out
            );
            detail.label("left out", &text);
        }
    }
    for comment in &row.landing.unaddressed_comments {
        detail.label("not addressed", &escape_line(comment));
    }
}

fn show_usage(detail: &mut DetailView, row: &RunRow) {
    if row.usage.input > 0 || row.usage.output > 0 {
        let of = row.budget.tokens.map(|tokens| format!(", of {tokens}")).unwrap_or_default();
        let text = format!("{} in, {} out{of}", row.usage.input, row.usage.output);
        detail.label("tokens", &text);
        if let Some(cost) = &row.cost {
            detail.label("cost", &escape_line(&describe_cost(cost)));
        }
    }
}

/// Rounds a cost to two decimals.
fn describe_cost(cost: &CostRow) -> String {
    match cost.amount.parse::<f64>() {
        Ok(amount) if amount > 0.0 && amount < 0.01 => format!("less than 0.01 {}", cost.currency),
        Ok(amount) => format!("{amount:.2} {}", cost.currency),
        Err(_) => format!("{} {}", cost.amount, cost.currency),
    }
}
