//! Measurements, by name. Each prints what it measured with medians and spread.

use anyhow::{Result, bail};

use crate::{say::say, workspace::Workspace};

/// A measurement: its name, and what runs it.
type Bench = (&'static str, fn(&Workspace) -> Result<()>);

const BENCHES: &[Bench] = &[];

/// Runs the named measurements, or all.
pub(crate) fn run(workspace: &Workspace, names: &[&str]) -> Result<()> {
    if let Some(unknown) =
        names.iter().find(|name| !BENCHES.iter().any(|(known, _)| known == *name))
    {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
        bail!("there is no measurement {unknown}; there are: {}", known.join(", "));
    }
    for (name, bench) in BENCHES.iter().filter(|(name, _)| names.is_empty() || names.contains(name))
    {
        say(&format!("── {name}"));
        bench(workspace)?;
    }
    Ok(())
}
