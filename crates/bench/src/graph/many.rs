//! Two hundred concurrent agents in one run.

use anyhow::{Result, ensure};

use super::{GraphBenchEnv, independent_tasks};
use crate::{
    table::{FigureTable, Goal},
    timing::time,
};

const TASKS: usize = 200;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let scene = GraphBenchEnv::new("echo \"$1\" > \"$1\"\n", &[])?;
    let plan = independent_tasks(TASKS);
    let (run, took) = time(|| {
        scene.run(&plan, &["--parallel", "200", "--batch", "64", "--check", "test -f provost.toml"])
    });
    let run = run?;
    ensure!(run["run"]["state"] == "succeeded", "{run:#}");
    ensure!(run["run"]["tasks"]["merged"] == TASKS, "{run:#}");
    let what = format!("graph: {TASKS} agents at the same time, all merged and proved");
    table.row(&what, took.as_secs_f64(), " s", Goal::None, "from `run` to its end");
    Ok(())
}
