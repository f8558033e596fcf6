//! Benchmarks of Provost compared with bare loops that do the same work, in one run on one machine.
//!
//! `cargo xtask bench [NAME…]` builds the release binary and runs this program with `PROVOST_BIN`
//! set. `--list` prints the names, and `--json FILE` also writes the figures to a file.

mod append;
mod codex;
mod daemon;
mod dispatch;
mod event_follower;
mod exit;
mod fill;
mod graph;
mod listing;
mod memory;
mod replay;
mod table;
mod timing;
mod wakeups;
mod watch;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};

use crate::table::FigureTable;

/// A benchmark that adds its figures to a table.
type BenchFn = fn(&mut FigureTable) -> Result<()>;

/// All benchmarks, in the order in which they run.
///
/// A name also selects all benchmarks whose names start with it: `codex` selects `codex-turn`,
/// among others.
const ALL: [(&str, BenchFn); 20] = [
    ("append", append::run),
    ("replay", replay::run),
    ("listing", listing::run),
    ("memory", memory::run),
    ("exit", exit::run),
    ("wakeups", wakeups::run),
    ("graph-step", graph::step),
    ("graph-overhead", graph::overhead),
    ("graph-queue", graph::queue),
    ("graph-many", graph::many),
    ("codex-turn", codex::turn),
    ("codex-delay", codex::delay),
    ("codex-many", codex::many),
    ("dispatch-wait", dispatch::wait),
    ("dispatch-enqueue", dispatch::enqueue),
    ("dispatch-look", dispatch::look),
    ("dispatch-show", dispatch::show),
    ("watch-ingest", watch::ingest),
    ("watch-terminals", watch::terminals),
    ("watch-panes", watch::panes),
];

/// The parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct BenchArgs {
    /// The file for the figures as JSON.
    json: Option<PathBuf>,
    /// Whether to print the names of the benchmarks and exit.
    list: bool,
    /// The benchmarks to run. Empty means all.
    names: Vec<String>,
}

impl BenchArgs {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut args = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => {
                    let file = arguments.next().context("--json needs a file name")?;
                    args.json = Some(file.into());
                }
                "--list" => args.list = true,
                name if ALL.iter().any(|(known, _)| name_matches(known, name)) => {
                    args.names.push(argument);
                }
                unknown => {
                    let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
                    bail!("unknown benchmark {unknown:?}; expected one of {}", names.join(", "));
                }
            }
        }
        Ok(args)
    }

    fn selects(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| name_matches(name, wanted))
    }
}

fn main() -> Result<()> {
    let args = BenchArgs::parse(std::env::args().skip(1))?;
    let selected = ALL.iter().filter(|(name, _)| args.selects(name));
    if args.list {
        return list(selected.map(|(name, _)| *name));
    }
    let mut table = FigureTable::default();
    let mut failed = Vec::new();
    for (name, bench) in selected {
        table.progress(&format!("running {name} …"));
        // A failed benchmark must not lose the figures of the others.
        if let Err(why) = bench(&mut table) {
            failed.push(format!("{name}: {why:#}"));
        }
        if let Some(json) = &args.json {
            table.write_json(json)?;
        }
    }
    table.print();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the list is the result")]
fn list<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    names.for_each(|name| println!("{name}"));
    Ok(())
}

fn name_matches(name: &str, wanted: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<BenchArgs> {
        BenchArgs::parse(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn name_selects_benchmarks_by_prefix() {
        let args = parse(&["--json", "f", "graph"]).unwrap();
        assert_eq!(args.json, Some("f".into()));
        assert!(args.selects("graph-step") && args.selects("graph-many"));
        assert!(!args.selects("append"));
        assert!(parse(&[]).unwrap().selects("append"));
        assert!(parse(&["grap"]).is_err() && parse(&["--json"]).is_err());
    }
}
