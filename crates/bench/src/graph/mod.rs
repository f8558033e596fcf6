//! Runs with a plan: overhead per task compared with a shell script, the merge queue, very large
//! graphs, and many agents.

mod many;
mod overhead;
mod queue;
mod step;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::daemon::BenchDaemon;

pub(crate) use self::{
    many::run as many, overhead::run as overhead, queue::run as queue, step::run as step,
};

/// An agent that speaks JSON lines and runs `work.sh` for its task.
const AGENT: &str = r###"#!/bin/sh
echo '{"type":"ready","thread":"t"}'
while IFS= read -r line; do
  case "$line" in *'"instruction"'*|*'"rework"'*) ;; *) continue ;; esac
  echo '{"type":"turn_started","turn":"t1"}'
  id=$(printf '%s' "$line" | sed -n 's/.*## Your task\\n\\n\([a-z0-9-]*\):.*/\1/p')
  again=$(printf '%s' "$line" | grep -c -e 'conflict markers' -e 'Merged with the work of others')
  sh "$(dirname "$0")/work.sh" "$id" "$again" >&2
  echo '{"type":"claim","claim":"completed","text":"done"}'
  echo '{"type":"turn_ended","turn":"t1","status":"ok"}'
done
"###;

/// A repository with an agent that acts on task ids.
struct GraphBenchEnv {
    daemon: BenchDaemon,
    dir: tempfile::TempDir,
}

impl GraphBenchEnv {
    fn new(work: &str, files: &[(&str, &str)]) -> Result<GraphBenchEnv> {
        let scene = GraphBenchEnv { daemon: BenchDaemon::home()?, dir: tempfile::tempdir()? };
        let agent = scene.dir.path().join("agent.sh");
        fs::write(&agent, AGENT)?;
        fs::write(scene.dir.path().join("work.sh"), work)?;
        let repo = scene.repo();
        fs::create_dir(&repo)?;
        let configured = format!(
            "[agents.bench]\nadapter = \"jsonl\"\ncommand = [\"sh\", {:?}]\n",
            agent.display().to_string()
        );
        fs::write(repo.join("provost.toml"), configured)?;
        for (name, text) in files {
            fs::write(repo.join(name), text)?;
        }
        git(&repo, &["init", "--quiet", "-b", "main"])?;
        git(&repo, &["add", "--all"])?;
        git(&repo, &["commit", "--quiet", "-m", "Begin"])?;
        let trusted = scene.daemon.command(&["trust", "--yes"])?.current_dir(&repo).status()?;
        anyhow::ensure!(trusted.success(), "cannot trust the configuration of the benchmark");
        scene.daemon.start()?;
        Ok(scene)
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// Executes a plan to completion and returns the run.
    fn run(&self, plan: &[BenchTask], args: &[&str]) -> Result<Value> {
        let run = self.command(plan, args)?.arg("--json").output()?;
        let printed = String::from_utf8_lossy(&run.stdout).into_owned();
        serde_json::from_str(&printed).with_context(|| {
            format!("the run did not print JSON: {printed}{}", String::from_utf8_lossy(&run.stderr))
        })
    }

    fn command(&self, plan: &[BenchTask], args: &[&str]) -> Result<Command> {
        let file = self.dir.path().join("plan.toml");
        fs::write(&file, plan_toml(plan))?;
        let mut command = self.daemon.command(&["run", "--agent", "bench", "--no-triage"])?;
        command.args(["--review-task", "off", "--plan"]).arg(&file).args(args).arg("all of it");
        command.current_dir(self.repo());
        Ok(command)
    }
}

/// A task of a measured plan.
struct BenchTask {
    id: String,
    after: Vec<String>,
}

/// Returns `count` independent tasks.
fn independent_tasks(count: usize) -> Vec<BenchTask> {
    (0..count).map(|no| BenchTask { id: format!("t{no}"), after: Vec::new() }).collect()
}

fn plan_toml(plan: &[BenchTask]) -> String {
    plan.iter().fold(String::new(), |mut text, BenchTask { id, after }| {
        write!(
            text,
            "[[task]]\nid = \"{id}\"\ntitle = \"{id}\"\ninstruction = \"do it\"\nafter = {after:?}\n"
        )
        .expect("writing to a string cannot fail");
        text
    })
}

fn git(dir: &Path, args: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]);
    let ran = git.args(args).current_dir(dir).output()?;
    ensure!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}
