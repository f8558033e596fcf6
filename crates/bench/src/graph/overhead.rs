//! The overhead of a task compared with a shell script with the same worktrees, commits and
//! commands.

use std::{fs, process::Command};

use anyhow::{Result, ensure};

use super::{GraphBenchEnv, git, independent_tasks};
use crate::{
    table::{FigureTable, Goal},
    timing::{Sample, time},
};

/// The number of tasks, executed one by one on both sides.
const TASKS: usize = 5;

/// The same steps as a script: a worktree, the work, a commit, the check and a merge.
const SCRIPT: &str = r#"set -e
id=$1
git worktree add --quiet -b "work-$id" "../script-$id" main
cd "../script-$id"
sh ../work.sh "$id" 0
git add --all
git -c user.name=Bench -c user.email=bench@example.invalid commit --quiet -m "$id"
test -f "$id"
cd ../repo
git -c user.name=Bench -c user.email=bench@example.invalid merge --quiet --no-edit "work-$id"
"#;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    for (seconds, rounds, goal) in [(1, 3, 1.25), (10, 1, 1.05)] {
        let mut ratios = Sample::default();
        for _ in 0..rounds {
            let scripted = by_script(seconds)?;
            ratios.add(by_run(seconds)? / scripted);
        }
        let what = format!(
            "graph: {TASKS} tasks of {seconds} s one after the other, against a shell script"
        );
        table.row(&what, ratios.median(), "×", Goal::AtMost(goal), &ratios.spread("×"));
    }
    Ok(())
}

fn work(seconds: u32) -> String {
    format!("sleep {seconds}\necho \"$1\" > \"$1\"\n")
}

fn by_run(seconds: u32) -> Result<f64> {
    let scene = GraphBenchEnv::new(&work(seconds), &[])?;
    let plan = independent_tasks(TASKS);
    let args = ["--parallel", "1", "--check", "test -f provost.toml"];
    let (run, took) = time(|| scene.run(&plan, &args));
    let run = run?;
    ensure!(run["run"]["state"] == "succeeded", "{run:#}");
    Ok(took.as_secs_f64())
}

fn by_script(seconds: u32) -> Result<f64> {
    let scene = GraphBenchEnv::new(&work(seconds), &[])?;
    let script = scene.dir.path().join("script.sh");
    fs::write(&script, SCRIPT)?;
    let (done, took) = time(|| -> Result<()> {
        for no in 0..TASKS {
            let mut sh = Command::new("sh");
            let ran = sh.arg(&script).arg(format!("t{no}")).current_dir(scene.repo()).output()?;
            ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        }
        Ok(())
    });
    done?;
    let merged = git(&scene.repo(), &["ls-files", "t*"])?;
    ensure!(merged.lines().count() == TASKS, "{merged}");
    Ok(took.as_secs_f64())
}
