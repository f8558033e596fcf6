//! The report card of a run: goal, understanding, plan, decisions, changes, proof, reviews and open
//! points.
//!
//! It is written once, when the outcome is sealed, as Markdown and as HTML. All text of agents and
//! users is quoted, so none of it can pass for a part of the card.

mod page;
mod plan;

use std::{fs, io::Write as _, path::Path};

use provost_api::{CheckRow, RunRow};
use provost_core::{
    ids::CommitId,
    limits::MAX_LEFT_OUT,
    result::Finding,
    run::{Leg, Reviewed, Run},
};
use provost_git::{FileChange, Git, Oid, Project, changed_among, diff_stat};
use provost_sys::private;

use self::page::{Page, Part};
use crate::{run_card, shell::chain};

/// The most files that are listed. The branch has all of them.
const FILES: usize = 100;

/// Writes the card of a sealed run attempt, once. Existing files are left as they are.
pub(crate) fn write(dir: &Path, run: &Run, leg: u32, changes: Changes) -> Result<(), String> {
    let told = |why: std::io::Error| format!("cannot write the report card: {why}");
    private::create_dir_all(dir).map_err(told)?;
    let page = page(run, leg, changes, Audience::Operator);
    // The Markdown comes last: if it exists, both do.
    put(dir, &format!("card-{leg}.html"), &page.html()).map_err(told)?;
    put(dir, &format!("card-{leg}.md"), &page.markdown()).map_err(told)
}

/// Renders the card of a run that is not sealed yet, for a pull request. It contains nothing about
/// the user's machine and nothing private: neither the specification nor the decisions.
pub(crate) fn so_far(git: &Git, run: &Run) -> String {
    page(run, run.leg().no, Changes::of(git, run), Audience::Public).published()
}

/// Whether the work changes files that a pull request has to list first.
pub(crate) fn changes_held_files(git: &Git, run: &Run) -> bool {
    held_files(git, run).map_or(true, |files| !files.is_empty())
}

/// The readers of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    Operator,
    /// Everyone who can see the pull request.
    Public,
}

fn put(dir: &Path, name: &str, text: &str) -> std::io::Result<()> {
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
fn changes(git: &Git, run: &Run) -> Result<Vec<FileChange>, String> {
    let Some((from, to)) = ends(run)? else { return Ok(Vec::new()) };
    let project = Project::find(git, Path::new(&run.spec.project)).map_err(|why| chain(&why))?;
    diff_stat(git, &project, &from, &to).map_err(|why| chain(&why))
}

/// Returns the trust-relevant and protected files that the work changes.
fn held_files(git: &Git, run: &Run) -> Result<Vec<String>, String> {
    let Some((from, to)) = ends(run)? else { return Ok(Vec::new()) };
    let project = Project::find(git, Path::new(&run.spec.project)).map_err(|why| chain(&why))?;
    let files = changed_among(git, &project, &from, &to, &run.spec.held_patterns());
    Ok(files.map_err(|why| chain(&why))?.iter().map(ToString::to_string).collect())
}

/// Returns the base and head commits of the run's own work. Changes of others that were merged
/// meanwhile do not belong to it.
fn ends(run: &Run) -> Result<Option<(Oid, Oid)>, String> {
    let Some(head) = &run.head else { return Ok(None) };
    let oid = |commit: &CommitId| Oid::new(&commit.0).map_err(|why| chain(&why));
    Ok(Some((oid(run.protected_base())?, oid(&head.commit)?)))
}

fn lead(held: Result<Vec<String>, String>) -> Vec<Part> {
    let what = "This work changes files that affect the checks, or that make Provost or an agent run something. Read their diff before you merge:";
    match held {
        Ok(files) if files.is_empty() => Vec::new(),
        Ok(files) => {
            let more = files.len().saturating_sub(FILES);
            let more = (more > 0).then(|| format!("and {more} more"));
            let listed = files.into_iter().take(FILES).chain(more).collect();
            vec![Part::Text(what.to_owned()), Part::List(listed)]
        }
        Err(why) => {
            let why = format!(
                "Provost could not determine whether this work changes files that affect the checks, or that make Provost or an agent run something: {why}"
            );
            vec![Part::Text(why)]
        }
    }
}

/// The changes of a run's work, or why they could not be read.
pub(crate) struct Changes {
    files: Result<Vec<FileChange>, String>,
    /// The trust-relevant and protected files among them.
    held: Result<Vec<String>, String>,
}

impl Changes {
    pub(crate) fn of(git: &Git, run: &Run) -> Changes {
        Changes { files: changes(git, run), held: held_files(git, run) }
    }

    /// Returns the first protected and trust-relevant files that the work changes, if they could be
    /// read.
    pub(crate) fn first_held(&self) -> Option<Vec<String>> {
        let files = self.held.as_ref().ok()?;
        Some(files.iter().take(MAX_LEFT_OUT).cloned().collect())
    }
}

fn page(run: &Run, leg: u32, changes: Changes, audience: Audience) -> Page {
    let private = audience == Audience::Operator;
    let row = run_card::row(run);
    let leg = run.legs.iter().find(|one| one.no == leg).unwrap_or(run.leg());
    let ending = leg.sealed.as_ref().map_or("to be landed", |outcome| outcome.ending.word());
    let mut page = Page::new(&format!("{}: {ending}", run.spec.name));
    let held = changes.held.clone();
    page.lead(lead(changes.held));
    page.part("", ended(run, leg, private));
    page.part("Asked", asked(run, private));
    page.part("Understood", run.triage.iter().map(|t| Part::Quote(t.understanding.clone())));
    page.part("Planned", plan::planned(run));
    if private {
        page.part("Decided", listed(decided(run)));
    }
    page.part("Changed", changed(changes.files));
    page.part("Proved", proved(&row));
    page.part("Reviewed", run.reviews.iter().flat_map(reviewed));
    page.part("Still open", listed(open(run, &row, held)));
    page.part("Used", listed(used(run, &row, leg)));
    page
}

fn ended(run: &Run, leg: &Leg, private: bool) -> Vec<Part> {
    let detail = leg.sealed.as_ref().map(|outcome| outcome.detail.clone());
    let detail = detail.filter(|detail| !detail.is_empty());
    let stage = run.stage.word().replace('_', " ");
    let why = detail
        .map(|detail| vec![Part::Text(format!("Ended in stage {stage}:")), Part::Quote(detail)]);
    let project = if private { format!(", {}", run.spec.project) } else { String::new() };
    [vec![Part::Text(format!("Run {}{project}", run.id))], why.unwrap_or_default()].concat()
}

fn asked(run: &Run, private: bool) -> Vec<Part> {
    let spec = if private { run.spec.spec.as_ref() } else { None };
    let spec =
        spec.map(|spec| [Part::Text("The specification:".to_owned()), Part::Quote(spec.clone())]);
    [vec![Part::Quote(run.spec.goal.clone())], spec.into_iter().flatten().collect()].concat()
}

fn decided(run: &Run) -> Vec<String> {
    let answer = |answer: &Option<Vec<String>>| match answer {
        Some(all) => all.join("; "),
        None => "a secret".to_owned(),
    };
    run.decisions.iter().map(|one| format!("{} → {}", one.question, answer(&one.answer))).collect()
}

fn changed(changes: Result<Vec<FileChange>, String>) -> Vec<Part> {
    let changes = match changes {
        Ok(changes) if changes.is_empty() => return vec![Part::Text("Nothing.".to_owned())],
        Ok(changes) => changes,
        Err(why) => return vec![Part::Text(format!("The changes could not be read: {why}"))],
    };
    let lines = changes.iter().filter_map(|change| change.lines.as_ref());
    let (added, removed) =
        lines.fold((0, 0), |(added, removed), l| (added + l.added, removed + l.removed));
    let file = |change: &FileChange| match &change.lines {
        Some(lines) => format!("{} (+{} −{})", change.path, lines.added, lines.removed),
        None => format!("{} (binary)", change.path),
    };
    let more = changes.len().saturating_sub(FILES);
    let more = (more > 0).then(|| format!("and {more} more"));
    vec![
        Part::Text(format!("{}, +{added} −{removed} lines:", counted(changes.len(), "file"))),
        Part::List(changes.iter().take(FILES).map(file).chain(more).collect()),
    ]
}

fn proved(row: &RunRow) -> Vec<Part> {
    let checks = row.checks.iter().map(receipt).collect::<Vec<_>>();
    let verdict = match (row.proved, &row.commit) {
        (true, Some(commit)) => format!("Every check passed on the tree of commit {commit}."),
        (false, Some(commit)) if checks.is_empty() => {
            format!("No checks were configured, so nothing proves commit {commit}.")
        }
        (false, Some(commit)) => format!("Not every check passed on the tree of commit {commit}."),
        (_, None) => "There is no work to prove.".to_owned(),
    };
    vec![Part::Text(verdict), Part::List(checks)]
}

/// Renders the evidence of one check: command, tree, result, and location of its output.
fn receipt(check: &CheckRow) -> String {
    let part = |what: &str, value: &Option<String>| value.as_ref().map(|v| format!("{what}{v}"));
    let by = check.by.as_deref().map(|by| match by {
        "agent" => "written by an agent, which proves nothing alone",
        "configuration" => "from the configuration",
        _ => "named by the operator",
    });
    let parts = [
        by.map(str::to_owned),
        check.detail.clone(),
        check.duration_ms.map(|ms| format!("{ms} ms")),
        part("tree ", &check.tree),
        (!check.base_files.is_empty())
            .then(|| format!("{} as of the base", check.base_files.join(", "))),
        part("output ", &check.output),
        part("digest ", &check.output_digest),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{}: {}{parts}", check.command, check.result)
}

fn reviewed(one: &Reviewed) -> Vec<Part> {
    let of = one.task.as_ref().map(|task| format!(" of {task}"));
    let stage = one.stage.word().replace('_', " ") + &of.unwrap_or_default();
    let count = match one.review.findings.len() {
        0 => "nothing found".to_owned(),
        some => counted(some, "finding"),
    };
    let list = one.review.findings.iter().map(|finding| {
        let mended = if finding.repaired { ", fixed by the reviewer" } else { "" };
        format!("{}{mended}", told(finding))
    });
    vec![Part::Text(format!("{stage} {}: {count}", one.cycle)), Part::List(list.collect())]
}

fn told(finding: &Finding) -> String {
    let place = match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        (None, _) => String::new(),
    };
    let detail =
        if finding.detail.is_empty() { String::new() } else { format!(": {}", finding.detail) };
    format!("{}: {}{place}{detail}", finding.severity.word(), finding.title)
}

fn open(run: &Run, row: &RunRow, held: Result<Vec<String>, String>) -> Vec<String> {
    let held = held.unwrap_or_default();
    let held = (!held.is_empty()).then(|| {
        let more = held.len().saturating_sub(MAX_LEFT_OUT);
        let more = (more > 0).then(|| format!("and {more} more"));
        let listed: Vec<String> = held.into_iter().take(MAX_LEFT_OUT).chain(more).collect();
        format!("to be reviewed: the changes of {}", listed.join(", "))
    });
    let left_out = run_card::left_out(run);
    let left_out = (!left_out.is_empty())
        .then(|| format!("not in the verified tree: {}", left_out.join(", ")));
    let unproved = row.checks.iter().filter(|check| check.result != "passed");
    let unproved = unproved.map(|check| format!("check {}: {}", check.command, check.result));
    let pull = row.landing.pull_request.as_ref().map(|pull| pull.url.as_str());
    let landing = match (&row.landing.branch, pull, row.landing.merged) {
        (_, _, true) => None,
        (_, Some(url), false) => Some(format!("to be merged: {url}")),
        (Some(branch), None, false) => Some(format!("to be merged: branch {branch}")),
        (None, None, false) => Some("the work has not landed".to_owned()),
    };
    let remarks = row.landing.remarks.iter().map(|remark| format!("not addressed: {remark}"));
    let files = held.into_iter().chain(left_out);
    let told = run.open_findings().map(told).chain(unproved).chain(files);
    told.chain(landing).chain(remarks).collect()
}

fn used(run: &Run, row: &RunRow, leg: &Leg) -> Vec<String> {
    let tokens =
        format!("tokens: {} in, {} out, in {} turns", row.usage.input, row.usage.output, row.turns);
    let cost = row.cost.as_ref().map(|cost| format!("cost: {} {}", cost.amount, cost.currency));
    let end = leg.sealed.as_ref().map_or(leg.opened.wall_ms, |outcome| outcome.at.wall_ms);
    let seconds = end.saturating_sub(run.opened.wall_ms) / 1000;
    let time = format!("time: {} min {} s, waiting included", seconds / 60, seconds % 60);
    [Some(tokens), cost, Some(time)].into_iter().flatten().collect()
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn listed(items: Vec<String>) -> Vec<Part> {
    if items.is_empty() { Vec::new() } else { vec![Part::List(items)] }
}
