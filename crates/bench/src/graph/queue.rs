//! A hundred finished tasks in the merge queue: ten of them break the check of another task, and
//! five conflict. Measures the number of checks, and verifies that every commit of the branch
//! passes.

use std::{fs, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{GraphBenchEnv, git, independent_tasks};
use crate::table::{FigureTable, Goal};

const TASKS: usize = 100;
const BAD: usize = 10;
const BATCH: usize = 8;

/// Numbered from one, tasks 10, 20, … 100 reuse the number of the task before them, and tasks 5, 25, … change the
/// same line. The later task of each pair is sent back and fixes it.
const WORK: &str = r#"id=$1 again=$2 no=${1#t}
n=$((no + 1))
echo "number $n" > "part-$id"
if [ $((n % 10)) = 0 ]; then echo "number $((n - 1))" > "part-$id"; fi
if [ "$again" != 0 ]; then echo "number $((n + 1000))" > "part-$id"; fi
if [ $((n % 20)) = 5 ]; then
  if [ "$again" = 0 ]; then echo "$id" > shared.txt; else git show HEAD^2:shared.txt > shared.txt; echo "$id" >> shared.txt; fi
fi
"#;

/// The check that no two parts have the same number. The first merged task waits until all others
/// are done.
const CHECK: &str = r#"gate=$1
if [ -f part-t0 ] && [ -f part-t1 ]; then while [ -e "$gate" ]; do sleep 0.02; done; fi
[ -z "$(cat part-* | sort | uniq -d)" ] && ! grep -q '^<<<<<<<' shared.txt
"#;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let scene = GraphBenchEnv::new(WORK, &[("shared.txt", "base\n"), ("check.sh", CHECK)])?;
    let gate = scene.dir.path().join("gate");
    fs::write(&gate, "")?;
    let check = format!("sh check.sh {}", gate.display());
    let size = BATCH.to_string();
    let plan = independent_tasks(TASKS);
    let args = ["--parallel", "8", "--batch", &size, "--check", &check, "--detach", "--json"];
    let opened = scene.command(&plan, &args)?.output()?;
    let opened: Value =
        serde_json::from_slice(&opened.stdout).context("the run did not print JSON")?;
    let id = opened["id"].as_str().context("the run has no id")?.to_owned();
    wait(&scene, &id, |graph| {
        let queue = &graph["queue"];
        let held =
            [&queue["waiting"], &queue["batch"]].map(|list| list.as_array().map_or(0, Vec::len));
        let merged = graph["tasks"].as_array().into_iter().flatten();
        held.iter().sum::<usize>() + merged.filter(|task| task["state"] == "merged").count()
            == TASKS
    })?;
    fs::remove_file(&gate)?;
    let graph = wait(&scene, &id, |graph| graph["state"] != "running")?;
    ensure!(graph["state"] == "succeeded", "the run ended as {}: {graph:#}", graph["state"]);
    let checks = graph["queue"]["checks"].as_f64().context("the graph has no number of checks")?;
    let returned = graph["tasks"].as_array().into_iter().flatten();
    let returned = returned.filter(|task| task["returns"] != 0).count();
    let bound = TASKS.div_ceil(BATCH) as f64 + 2.0 * BAD as f64 * ((BATCH as f64).log2() + 1.0);
    let red = red_commits(&scene, &check)?;
    let from = format!(
        "batches of {BATCH}, {} batches, {returned} tasks sent back",
        graph["queue"]["batches"]
    );
    table.row(
        "graph: 100 tasks in the queue, 10 bad, 5 in conflict: checks",
        checks,
        "",
        Goal::AtMost(bound),
        &from,
    );
    table.row(
        "the same: commits of the branch that are red",
        red as f64,
        "",
        Goal::AtMost(0.0),
        "each checked",
    );
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a poll interval outside the measured time")]
fn wait(scene: &GraphBenchEnv, id: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
    loop {
        let output = scene.daemon.run(&["graph", id, "--json"])?;
        let graph = serde_json::from_slice::<Value>(&output.stdout)?["graph"].clone();
        if holds(&graph) {
            return Ok(graph);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Counts the first-parent commits of the branch that fail the check.
fn red_commits(scene: &GraphBenchEnv, check: &str) -> Result<usize> {
    let repo = scene.repo();
    let branch =
        git(&repo, &["branch", "--list", "--format=%(refname:short)", "provost/*-all-of-it"])?;
    let branch = branch.lines().next().context("the run has no branch")?.to_owned();
    let commits = git(&repo, &["rev-list", "--first-parent", &format!("main..{branch}")])?;
    let place = scene.dir.path().join("at");
    let text = place.display().to_string();
    git(&repo, &["worktree", "add", "--quiet", "--detach", &text, "main"])?;
    let mut red = 0;
    for commit in commits.lines() {
        git(&place, &["checkout", "--quiet", "--detach", commit])?;
        let passed = Command::new("sh").args(["-c", check]).current_dir(&place).status()?.success();
        red += usize::from(!passed);
    }
    ensure!(!commits.is_empty(), "the branch has no commits");
    Ok(red)
}
