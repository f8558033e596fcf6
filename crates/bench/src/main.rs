//! Benchmarks of Provost against bare loops that do the same without it, in one run on one machine.
//!
//! `cargo xtask bench [NAME…]` builds the release binary and runs this with `PROVOST_BIN` set.

mod append;
mod codex;
mod daemon;
mod dispatch;
mod exit;
mod fill;
mod graph;
mod happenings;
mod listing;
mod memory;
mod replay;
mod table;
mod timing;
mod wakeups;
mod watch;

use anyhow::{Result, bail, ensure};

use crate::table::Table;

/// Fills a table with what it measured.
type Bench = fn(&mut Table) -> Result<()>;

/// All benchmarks, in the order in which they run.
///
/// A name also stands for all that begin with it: `codex` for `codex-turn` and the others.
const ALL: [(&str, Bench); 19] = [
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
    ("watch-ingest", watch::ingest),
    ("watch-terminals", watch::terminals),
    ("watch-panes", watch::panes),
];

fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) =
        wanted.iter().find(|name| !ALL.iter().any(|(known, _)| is_meant(known, name)))
    {
        let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        bail!("there is no benchmark {unknown:?}; there are {}", names.join(", "));
    }
    let mut table = Table::default();
    let mut failed = Vec::new();
    for (name, bench) in ALL {
        if wanted.is_empty() || wanted.iter().any(|wanted| is_meant(name, wanted)) {
            table.say(&format!("running {name} …"));
            // What was measured is told, whatever becomes of the rest.
            if let Err(why) = bench(&mut table) {
                failed.push(format!("{name}: {why:#}"));
            }
        }
    }
    table.print();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

fn is_meant(name: &str, wanted: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
