//! Checks that the requirements table names existing tests, and at least one per requirement.

use std::{collections::BTreeSet, fs, ops::RangeInclusive};

use anyhow::{Context as _, Result, bail};

use crate::{print::print_line, process::capture, workspace::Workspace};

const TABLE: &str = "docs/requirements.md";

/// The kinds of requirements and their numbers.
const KINDS: [(char, RangeInclusive<usize>); 6] =
    [('R', 1..=21), ('E', 1..=26), ('A', 1..=9), ('M', 1..=25), ('T', 3..=9), ('D', 1..=22)];

/// Returns the ids of all requirements.
fn requirement_ids() -> impl Iterator<Item = String> {
    KINDS.into_iter().flat_map(|(kind, all)| all.map(move |no| format!("{kind}{no}")))
}

/// Verifies that every test named in the table exists.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let table = fs::read_to_string(workspace.root.join(TABLE)).context(TABLE)?;
    let troubles = problems_in(&table, &tests(workspace)?);
    print_line(&format!("── requirements: {} problems", troubles.len()));
    if !troubles.is_empty() {
        bail!("\n{}", troubles.join("\n"));
    }
    Ok(())
}

/// Returns the names of all functions. If a test lost its attribute, the compiler reports it as an
/// unused function.
fn tests(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let mut git = workspace.command("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.rs"]);
    let mut found = BTreeSet::new();
    for name in capture(&mut git)?.split('\0').filter(|name| !name.is_empty()) {
        let text = fs::read_to_string(workspace.root.join(name)).unwrap_or_default();
        found.extend(text.lines().filter_map(function));
    }
    Ok(found)
}

fn function(line: &str) -> Option<String> {
    let name = line.trim_start().strip_prefix("fn ")?.split('(').next()?;
    Some(name.to_owned())
}

fn problems_in(table: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let rows: Vec<(&str, Vec<&str>)> = table.lines().filter_map(row).collect();
    let missing = requirement_ids().filter(|id| !rows.iter().any(|(named, _)| named == id));
    let missing = missing.map(|id| format!("{TABLE}: {id} is missing"));
    let unproved = rows.iter().filter(|(_, named)| named.is_empty());
    let unproved = unproved.map(|(id, _)| format!("{TABLE}: {id} names no test"));
    let named = rows.iter().flat_map(|(id, named)| named.iter().map(move |test| (id, test)));
    let unknown = named.filter(|(_, test)| !tests.contains(**test));
    let unknown = unknown.map(|(id, test)| format!("{TABLE}: {id}: unknown test {test}"));
    missing.chain(unproved).chain(unknown).collect()
}

/// Parses the requirement id of a row and the tests in its last cell.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
    let (id, tests) = (cells.next()?, cells.last()?);
    let is_id = !id.is_empty() && !id.contains(' ');
    is_id.then(|| (id, tests.split('`').skip(1).step_by(2).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_missing_tests_are_reported() {
        let good: String =
            requirement_ids().map(|id| format!("| {id} | x | `there` |\n")).collect();
        let there = BTreeSet::from(["there".to_owned()]);
        assert_eq!(problems_in(&good, &there), Vec::<String>::new());
        let bad = good.replace("| R2 | x | `there` |", "| R2 | x |  |");
        let bad = bad.replace("| R3 | x | `there` |", "| R3 | x | `there`, `gone` |");
        let bad = bad.replace("| E26 | x | `there` |\n", "");
        let troubles = problems_in(&bad, &there);
        let expected = ["E26 is missing", "R2 names no test", "R3: unknown test gone"];
        assert_eq!(troubles, expected.map(|what| format!("{TABLE}: {what}")));
    }

    #[test]
    fn functions_are_found_at_any_depth() {
        assert_eq!(function("    fn e01_a_plan() {").as_deref(), Some("e01_a_plan"));
        assert_eq!(function("// fn none"), None);
    }
}
