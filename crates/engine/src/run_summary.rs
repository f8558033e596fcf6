//! The summary of a run: goal, understanding, plan, decisions, changes, proof, reviews and open
//! points.
//!
//! The summary is written once, as Markdown and as HTML, when the outcome is sealed. All text from agents and users is
//! quoted, so none of it can pass for a part of the summary itself.

mod page;
mod plan;

use std::{fs, io::Write as _, path::Path};

use provost_api::{CheckResultName, CheckRow, RunRow};
use provost_core::{
    ids::CommitId,
    limits::MAX_LEFT_OUT,
    result::Finding,
    run::{Run, RunAttempt, StageReview},
};
use provost_git::{FileChange, Git, Oid, Project, changed_among, diff_stat};
use provost_sys::private;

use self::page::{PagePart, ReportPage, Span};
use crate::{guarded_files, projection, shell::error_chain};

/// The maximum number of files to list. The branch contains all of them.
const MAX_FILES: usize = 100;

/// Writes the summary of a sealed run attempt, once. Existing files are not changed.
pub(crate) fn write(
    dir: &Path,
    run: &Run,
    attempt: u32,
    changes: WorkChanges,
) -> Result<(), String> {
    let write_error = |why: std::io::Error| format!("cannot write the summary: {why}");
    private::create_dir_all(dir).map_err(write_error)?;
    let page = build_page(run, attempt, changes, SummaryAudience::Operator);
    // The Markdown file is written last, so if it exists, both files exist.
    write_once(dir, &format!("summary-{attempt}.html"), &page.to_html()).map_err(write_error)?;
    write_once(dir, &format!("summary-{attempt}.md"), &page.to_markdown()).map_err(write_error)
}

/// Renders the summary of a run that is not sealed yet, for a pull request. The summary contains nothing about the
/// user's machine and nothing private, so it omits the spec and the decisions.
pub(crate) fn render_for_pull_request(git: &Git, run: &Run) -> String {
    build_page(run, run.attempt().no, WorkChanges::read(git, run), SummaryAudience::Public)
        .to_forge_markdown()
}

/// Whether the work changes files that a pull request must list first.
pub(crate) fn changes_guarded_files(git: &Git, run: &Run) -> bool {
    guarded_files(git, run).map_or(true, |files| !files.is_empty())
}

/// Who can read a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SummaryAudience {
    Operator,
    /// Everyone who can see the pull request.
    Public,
}

fn write_once(dir: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let (path, unfinished) = (dir.join(name), dir.join(format!("{name}.new")));
    if path.exists() {
        return Ok(());
    }
    let mut file = private::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, &path)
}

/// Lists the changes between the run's base and its result.
fn changed_files(git: &Git, run: &Run) -> Result<Vec<FileChange>, String> {
    let Some((from, to)) = base_and_head(run)? else { return Ok(Vec::new()) };
    let project =
        Project::find(git, Path::new(&run.spec.project)).map_err(|why| error_chain(&why))?;
    diff_stat(git, &project, &from, &to).map_err(|why| error_chain(&why))
}

/// Returns the trust-relevant and protected files that the work changes.
fn guarded_files(git: &Git, run: &Run) -> Result<Vec<String>, String> {
    let Some((from, to)) = base_and_head(run)? else { return Ok(Vec::new()) };
    let project =
        Project::find(git, Path::new(&run.spec.project)).map_err(|why| error_chain(&why))?;
    let files = changed_among(git, &project, &from, &to, &guarded_files::patterns(&run.spec));
    Ok(files.map_err(|why| error_chain(&why))?.iter().map(ToString::to_string).collect())
}

/// Returns the base and head commits of the run's own work, which excludes changes by others that
/// were merged in the meantime.
fn base_and_head(run: &Run) -> Result<Option<(Oid, Oid)>, String> {
    let Some(head) = &run.head else { return Ok(None) };
    let oid = |commit: &CommitId| Oid::new(&commit.0).map_err(|why| error_chain(&why));
    Ok(Some((oid(run.protected_base())?, oid(&head.commit)?)))
}

fn lead_parts(held: Result<Vec<String>, String>) -> Vec<PagePart> {
    let what = "This work changes files that affect the checks, or that make Provost or an agent run something. Read their diff before you merge:";
    match held {
        Ok(files) if files.is_empty() => Vec::new(),
        Ok(files) => {
            let more = files.len().saturating_sub(MAX_FILES);
            let more = (more > 0).then(|| vec![Span::Text(format!("and {more} more"))]);
            let listed = files.into_iter().take(MAX_FILES).map(|file| vec![Span::Code(file)]);
            let listed = listed.chain(more).collect();
            vec![PagePart::Text(what.to_owned()), PagePart::SpanList(listed)]
        }
        Err(why) => {
            let why = format!(
                "Provost could not determine whether this work changes files that affect the checks, or that make Provost or an agent run something: {why}"
            );
            vec![PagePart::Text(why)]
        }
    }
}

/// The files that a run's work changed, or why they could not be determined.
pub(crate) struct WorkChanges {
    files: Result<Vec<FileChange>, String>,
    /// The changed files that are trust-relevant or protected.
    guarded: Result<Vec<String>, String>,
}

impl WorkChanges {
    pub(crate) fn read(git: &Git, run: &Run) -> WorkChanges {
        WorkChanges { files: changed_files(git, run), guarded: guarded_files(git, run) }
    }

    /// Returns the first few protected and trust-relevant files that the work changes. `None` if
    /// they could not be determined.
    pub(crate) fn first_guarded(&self) -> Option<Vec<String>> {
        let files = self.guarded.as_ref().ok()?;
        Some(files.iter().take(MAX_LEFT_OUT).cloned().collect())
    }
}

fn build_page(
    run: &Run,
    attempt: u32,
    changes: WorkChanges,
    audience: SummaryAudience,
) -> ReportPage {
    let private = audience == SummaryAudience::Operator;
    let row = projection::run::row(run);
    let attempt = run.attempts.iter().find(|one| one.no == attempt).unwrap_or(run.attempt());
    let ending = attempt.sealed.as_ref().map_or("to be landed", |outcome| outcome.ending.as_str());
    let mut page = ReportPage::new(&format!("{}: {ending}", run.spec.name));
    let held = changes.guarded.clone();
    page.add_lead(lead_parts(changes.guarded));
    page.add_section("", ending_parts(run, attempt, private));
    page.add_section("Asked", goal_parts(run, private));
    page.add_section(
        "Understood",
        run.triage.iter().map(|t| PagePart::Quote(t.understanding.clone())),
    );
    page.add_section("Planned", plan::plan_parts(run));
    if private {
        page.add_section("Decided", list_part(decision_lines(run)));
    }
    page.add_section("Changed", change_parts(changes.files));
    page.add_section("Proved", proof_parts(&row));
    page.add_section("Reviewed", run.reviews.iter().flat_map(review_parts));
    page.add_section("Still open", list_part(open_points(run, &row, held)));
    page.add_section("Used", list_part(usage_lines(run, &row, attempt)));
    page
}

fn ending_parts(run: &Run, attempt: &RunAttempt, private: bool) -> Vec<PagePart> {
    let detail = attempt.sealed.as_ref().map(|outcome| outcome.detail.clone());
    let detail = detail.filter(|detail| !detail.is_empty());
    let stage = run.stage.as_str().replace('_', " ");
    let why = detail.map(|detail| {
        vec![PagePart::Text(format!("Ended in stage {stage}:")), PagePart::Quote(detail)]
    });
    let mut run_line = vec![Span::Text(format!("Run {}", run.id))];
    if private {
        run_line.extend([Span::Text(", ".to_owned()), Span::Code(run.spec.project.clone())]);
    }
    [vec![PagePart::Spans(run_line)], why.unwrap_or_default()].concat()
}

fn goal_parts(run: &Run, private: bool) -> Vec<PagePart> {
    let spec = if private { run.spec.spec.as_ref() } else { None };
    let spec = spec.map(|spec| {
        [PagePart::Text("The specification:".to_owned()), PagePart::Quote(spec.clone())]
    });
    [vec![PagePart::Quote(run.spec.goal.clone())], spec.into_iter().flatten().collect()].concat()
}

fn decision_lines(run: &Run) -> Vec<String> {
    let answer = |answer: &Option<Vec<String>>| match answer {
        Some(all) => all.join("; "),
        None => "a secret".to_owned(),
    };
    run.decisions.iter().map(|one| format!("{} → {}", one.question, answer(&one.answer))).collect()
}

fn change_parts(changes: Result<Vec<FileChange>, String>) -> Vec<PagePart> {
    let changes = match changes {
        Ok(changes) if changes.is_empty() => return vec![PagePart::Text("Nothing.".to_owned())],
        Ok(changes) => changes,
        Err(why) => return vec![PagePart::Text(format!("The changes could not be read: {why}"))],
    };
    let lines = changes.iter().filter_map(|change| change.lines.as_ref());
    let (added, removed) =
        lines.fold((0, 0), |(added, removed), l| (added + l.added, removed + l.removed));
    let file = |change: &FileChange| {
        let extent = match &change.lines {
            Some(lines) => format!(" (+{} −{})", lines.added, lines.removed),
            None => " (binary)".to_owned(),
        };
        vec![Span::Code(change.path.to_string()), Span::Text(extent)]
    };
    let more = changes.len().saturating_sub(MAX_FILES);
    let more = (more > 0).then(|| vec![Span::Text(format!("and {more} more"))]);
    vec![
        PagePart::Text(format!(
            "{}, +{added} −{removed} lines:",
            count_noun(changes.len(), "file")
        )),
        PagePart::SpanList(changes.iter().take(MAX_FILES).map(file).chain(more).collect()),
    ]
}

fn proof_parts(row: &RunRow) -> Vec<PagePart> {
    let checks = row.checks.iter().map(check_line).collect::<Vec<_>>();
    let verdict = match (row.verified, &row.commit) {
        (true, Some(commit)) => format!("Every check passed on the tree of commit {commit}."),
        (false, Some(commit)) if checks.is_empty() => {
            format!("No checks were configured, so nothing proves commit {commit}.")
        }
        (false, Some(commit)) => format!("Not every check passed on the tree of commit {commit}."),
        (_, None) => "There is no work to prove.".to_owned(),
    };
    vec![PagePart::Text(verdict), PagePart::SpanList(checks)]
}

/// Renders the evidence from one check: its command, tree, result, and where its output is stored.
fn check_line(check: &CheckRow) -> Vec<Span> {
    let part = |what: &str, value: &Option<String>| value.as_ref().map(|v| format!("{what}{v}"));
    let text = |text: &str| Span::Text(text.to_owned());
    let by = check.by.as_deref().map(|by| match by {
        "agent" => "written by an agent, which proves nothing alone",
        "configuration" => "from the configuration",
        _ => "set by you",
    });
    let parts = [
        by.map(str::to_owned),
        check.detail.clone(),
        check.duration_ms.map(|ms| format!("{ms} ms")),
        part("tree ", &check.tree),
        (!check.base_files.is_empty())
            .then(|| format!("{} as of the base", check.base_files.join(", "))),
        part("digest ", &check.output_digest),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let mut spans = vec![Span::Code(check.command.clone()), text(&format!(": {}", check.result))];
    let opening = if parts.is_empty() { " (" } else { ", " };
    if !parts.is_empty() {
        spans.push(text(&format!(" ({}", parts.join(", "))));
    }
    if let Some(output) = &check.output {
        spans.extend([text(&format!("{opening}output ")), Span::Code(output.clone())]);
    }
    if !parts.is_empty() || check.output.is_some() {
        spans.push(text(")"));
    }
    spans
}

fn review_parts(one: &StageReview) -> Vec<PagePart> {
    let of = one.task.as_ref().map(|task| format!(" of {task}"));
    let stage = one.stage.as_str().replace('_', " ") + &of.unwrap_or_default();
    let count = match one.review.findings.len() {
        0 => "nothing found".to_owned(),
        some => count_noun(some, "finding"),
    };
    let list = one.review.findings.iter().map(|finding| {
        let repaired = if finding.repaired { ", fixed by the reviewer" } else { "" };
        format!("{}{repaired}", describe_finding(finding))
    });
    vec![PagePart::Text(format!("{stage} {}: {count}", one.cycle)), PagePart::List(list.collect())]
}

fn describe_finding(finding: &Finding) -> String {
    let place = match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        (None, _) => String::new(),
    };
    let detail =
        if finding.detail.is_empty() { String::new() } else { format!(": {}", finding.detail) };
    format!("{}: {}{place}{detail}", finding.severity.as_str(), finding.title)
}

fn open_points(run: &Run, row: &RunRow, held: Result<Vec<String>, String>) -> Vec<String> {
    let held = held.unwrap_or_default();
    let held = (!held.is_empty()).then(|| {
        let more = held.len().saturating_sub(MAX_LEFT_OUT);
        let more = (more > 0).then(|| format!("and {more} more"));
        let listed: Vec<String> = held.into_iter().take(MAX_LEFT_OUT).chain(more).collect();
        format!("to be reviewed: the changes of {}", listed.join(", "))
    });
    let left_out = projection::run::left_out_paths(run);
    let left_out = (!left_out.is_empty())
        .then(|| format!("not in the verified tree: {}", left_out.join(", ")));
    let unproved = row.checks.iter().filter(|check| check.result != CheckResultName::Passed);
    let unproved = unproved.map(|check| format!("check {}: {}", check.command, check.result));
    let pull = row.landing.pull_request.as_ref().map(|pull| pull.url.as_str());
    let landing = match (&row.landing.branch, pull, row.landing.merged) {
        (_, _, true) => None,
        (_, Some(url), false) => Some(format!("to be merged: {url}")),
        (Some(branch), None, false) => Some(format!("to be merged: branch {branch}")),
        (None, None, false) => Some("the work has not landed".to_owned()),
    };
    let comments =
        row.landing.unaddressed_comments.iter().map(|comment| format!("not addressed: {comment}"));
    let files = held.into_iter().chain(left_out);
    let points = run.open_findings().map(describe_finding).chain(unproved).chain(files);
    points.chain(landing).chain(comments).collect()
}

fn usage_lines(run: &Run, row: &RunRow, attempt: &RunAttempt) -> Vec<String> {
    let turns = if row.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", row.turns) };
    let tokens = format!("tokens: {} in, {} out, in {turns}", row.usage.input, row.usage.output);
    let cost = row.cost.as_ref().map(|cost| format!("cost: {} {}", cost.amount, cost.currency));
    let end = attempt.sealed.as_ref().map_or(attempt.opened.wall_ms, |outcome| outcome.at.wall_ms);
    let seconds = end.saturating_sub(run.opened.wall_ms) / 1000;
    let time = format!("time: {} min {} s, waiting included", seconds / 60, seconds % 60);
    [Some(tokens), cost, Some(time)].into_iter().flatten().collect()
}

fn count_noun(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn list_part(items: Vec<String>) -> Vec<PagePart> {
    if items.is_empty() { Vec::new() } else { vec![PagePart::List(items)] }
}
