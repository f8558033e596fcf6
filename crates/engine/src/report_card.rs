//! The report card of a run: what was asked, changed, proved, and is still open.

use std::{fs, io::Write as _, path::Path};

use provost_core::run::Run;

use crate::run_card;

/// Writes the card of a sealed leg, once: what stands already is left as it is.
pub(crate) fn write(dir: &Path, run: &Run, leg: u32) -> Result<(), String> {
    let told = |why: std::io::Error| format!("cannot write the report card: {why}");
    fs::create_dir_all(dir).map_err(told)?;
    let path = dir.join(format!("card-{leg}.md"));
    if path.exists() {
        return Ok(());
    }
    let unfinished = dir.join(format!("card-{leg}.md.new"));
    let mut file = fs::File::create(&unfinished).map_err(told)?;
    file.write_all(markdown(run).as_bytes()).map_err(told)?;
    file.sync_all().map_err(told)?;
    fs::rename(&unfinished, &path).map_err(told)
}

/// Words the card.
pub fn markdown(run: &Run) -> String {
    let row = run_card::row(run);
    let mut text = format!("# {}: {}\n\n", row.name, row.state);
    let mut line = |words: String| {
        text += &words;
        text.push('\n');
    };
    line(format!("## Asked\n\n{}\n", row.goal));
    if let Some(detail) = &row.detail {
        line(format!("Ended in stage {}: {detail}\n", row.stage));
    }
    line("## Proved\n".to_owned());
    for check in &row.checks {
        line(format!("- `{}`: {}", check.command, check.result));
    }
    if row.checks.is_empty() {
        line("- no checks were asked for".to_owned());
    }
    if let (Some(commit), Some(tree)) = (&row.commit, &row.tree) {
        line(format!("\nCommit {commit}, tree {tree}"));
    }
    line("\n## Still open\n".to_owned());
    for finding in row.findings.iter().filter(|finding| finding.open) {
        line(format!("- {}: {}", finding.severity, finding.title));
    }
    for decision in &row.decisions {
        let answer = decision.answer.as_ref().map_or("a secret".to_owned(), |all| all.join("; "));
        line(format!("- decided: {} → {answer}", decision.question));
    }
    line(format!("\nTokens: {} in, {} out", row.usage.input, row.usage.output));
    text
}
