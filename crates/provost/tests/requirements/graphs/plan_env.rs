//! A repository where an agent works on the tasks of a plan, each with its own script.

use std::{fs, path::Path, process::Command};

use provost_testkit::harness::{ProgramOutput, TestRepo, eventually};
use serde_json::Value;

use provost_testkit::env::{TALKER, TestEnv};

/// Handles one instruction: records its text, runs the task's script, and reports.
const ACT_SCRIPT: &str = r#"set -eu
root='ROOT'
id=$(printf '%s\n' "$1" | awk '/^## Your task/ { found = 1; next } found && NF { print; exit }' | sed 's/:.*//')
n=1
while test -e "$root/instructions/$id.$n"; do n=$((n + 1)); done
printf '%s\n' "$1" > "$root/instructions/$id.$n"
echo "$id $n $PROVOST_SESSION ${PROVOST_THREAD-}" >> "$root/log"
claim=completed
. "$root/tasks/$id"
"$PROVOST_BIN" report "$claim" --message "$id, instruction $n" > "$root/reply"
"#;

/// Accepts up to 20 instructions, one after another.
const AGENT_SCENARIO: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
repeat = { times = 20, steps = [
  { wait_input = { type = "instruction" } },
  { emit = { type = "turn_started", turn = "t" } },
  { emit = { type = "usage", input = 10, output = 1 } },
  { run = ["sh", "ROOT/act.sh", "{{input}}"] },
  { emit = { type = "turn_ended", turn = "t", status = "ok" } },
] }
"#;

/// A task: its id, the ids it depends on, and the shell script its agent runs. In the script, `$root` is the test's
/// directory and `$n` counts the instructions for this task, the current one included.
pub(crate) type ScriptedTask<'a> = (&'a str, &'a [&'a str], &'a str);

/// An instruction that an agent received, with its task, its number, its session, and the resumed
/// thread (empty for a new one).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedInstruction {
    pub(crate) task: String,
    pub(crate) n: u32,
    pub(crate) session: String,
    pub(crate) thread: String,
}

/// A repository, a plan, and an agent with a script for each task.
pub(crate) struct PlanEnv {
    pub(crate) stage: TestEnv,
    pub(crate) repo: TestRepo,
}

impl PlanEnv {
    pub(crate) fn new(tasks: &[ScriptedTask<'_>]) -> PlanEnv {
        PlanEnv::with_config(tasks, "")
    }

    /// Like `new`, with further configuration.
    pub(crate) fn with_config(tasks: &[ScriptedTask<'_>], more: &str) -> PlanEnv {
        let stage = TestEnv::new();
        let repo = stage.home.repo("work");
        let root = stage.home.root().to_owned();
        for dir in ["instructions", "tasks"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        let here = root.display().to_string();
        fs::write(root.join("act.sh"), ACT_SCRIPT.replace("ROOT", &here)).unwrap();
        let own = "session.rework = 0\nsession.stop_grace = \"100ms\"\nrun.parallel = 4\n";
        stage.configure_talker(&AGENT_SCENARIO.replace("ROOT", &here), &format!("{own}{more}"));
        let env = PlanEnv { stage, repo };
        env.write_plan(tasks);
        env
    }

    /// Writes the plan and the script of each task.
    pub(crate) fn write_plan(&self, tasks: &[ScriptedTask<'_>]) {
        for (id, _, script) in tasks {
            fs::write(self.stage.file(&format!("tasks/{id}")), format!("{script}\n")).unwrap();
        }
        fs::write(self.stage.file("plan.toml"), tasks.iter().map(task_toml).collect::<String>())
            .unwrap();
    }

    /// Starts a run of the plan.
    pub(crate) fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let plan = self.stage.file("plan.toml");
        self.run_with(&[&["--detach", "--json", "--plan", &plan], arguments].concat())
    }

    /// Starts a run with these arguments.
    pub(crate) fn run_with(&self, arguments: &[&str]) -> ProgramOutput {
        let plain = ["--agent", TALKER, "--review-task", "off", "go"];
        self.stage.home.provost_in(self.repo.path(), &[&["run"], arguments, &plain].concat())
    }

    /// Starts a run of the plan and returns its id.
    #[track_caller]
    pub(crate) fn open_run(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok().json()["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn wait_sealed(&self, id: &str) -> Value {
        self.stage.wait_sealed(id)
    }

    /// Waits until the given attempt of the run is sealed.
    #[track_caller]
    pub(crate) fn wait_sealed_attempt(&self, id: &str, attempt: u32) -> Value {
        self.stage.wait_state(id, |row| row["attempt"] == attempt && row["sealed"] == true)
    }

    /// The graph that `provost graph` prints.
    #[track_caller]
    pub(crate) fn graph(&self, id: &str) -> Value {
        self.stage.provost(&["graph", id, "--json"]).ok().json()["graph"].clone()
    }

    /// The state of each task.
    #[track_caller]
    pub(crate) fn task_states(&self, id: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let graph = self.graph(id);
        let tasks = graph["tasks"].as_array().unwrap();
        tasks.iter().map(|task| (text(&task["id"]), text(&task["state"]))).collect()
    }

    /// Waits until a task has this state.
    #[track_caller]
    pub(crate) fn wait_task(&self, id: &str, task: &str, state: &str) {
        let wanted = (task.to_owned(), state.to_owned());
        eventually(&format!("{task} is {state}"), || {
            let states = self.task_states(id);
            if states.contains(&wanted) { Ok(()) } else { Err(states) }
        });
    }

    /// Waits for a file in the test's directory.
    #[track_caller]
    pub(crate) fn wait_file(&self, file: &str) {
        let path = self.stage.file(file);
        eventually(&format!("{file} appears"), || Path::new(&path).exists().then_some(()));
    }

    /// Creates a file in the test's directory that a script waits for.
    pub(crate) fn touch(&self, file: &str) {
        fs::write(self.stage.file(file), "").unwrap();
    }

    /// The text of a task's n-th instruction.
    #[track_caller]
    pub(crate) fn instruction(&self, task: &str, n: u32) -> String {
        let path = self.stage.file(&format!("instructions/{task}.{n}"));
        fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"))
    }

    /// All instructions, in the order they arrived.
    pub(crate) fn log(&self) -> Vec<LoggedInstruction> {
        let text = fs::read_to_string(self.stage.file("log")).unwrap_or_default();
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let [task, n, session, thread] = words[..] else { panic!("{line}") };
            let [task, session, thread] = [task, session, thread].map(str::to_owned);
            LoggedInstruction { task, n: n.parse().unwrap(), session, thread }
        };
        text.lines().map(line).collect()
    }

    /// The instructions for one task.
    pub(crate) fn instructions_of(&self, task: &str) -> Vec<LoggedInstruction> {
        self.log().into_iter().filter(|entry| entry.task == task).collect()
    }

    /// The run's branch.
    #[track_caller]
    pub(crate) fn branch(&self, id: &str) -> String {
        let opened = self.stage.events_of(id, "run.opened");
        opened[0]["data"]["spec"]["branch"].as_str().unwrap().to_owned()
    }

    /// The content of a file at a revision.
    #[track_caller]
    pub(crate) fn file_at(&self, revision: &str, file: &str) -> String {
        self.repo.git(&["show", &format!("{revision}:{file}")])
    }

    /// The files at a revision.
    #[track_caller]
    pub(crate) fn files_at(&self, revision: &str) -> Vec<String> {
        let files = self.repo.git(&["ls-tree", "-r", "--name-only", revision]);
        files.lines().map(str::to_owned).collect()
    }

    /// Asserts that a command succeeds on every first-parent commit of a branch since `main`.
    #[track_caller]
    pub(crate) fn assert_every_commit_passes(&self, branch: &str, check: &str) {
        let commits =
            self.repo.git(&["rev-list", "--first-parent", "--reverse", &format!("main..{branch}")]);
        assert!(!commits.is_empty(), "{branch} has nothing");
        for commit in commits.lines() {
            let dir = tempfile::tempdir().unwrap();
            let line = format!(
                "git -C '{}' archive {commit} | tar -x && ({check})",
                self.repo.path().display()
            );
            let checked =
                Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
            let shown = self.repo.git(&["log", "--graph", "--oneline", branch]);
            assert!(checked.status.success(), "{commit} fails {check}:\n{shown}\n{checked:?}");
        }
    }

    /// The data of the run's events of one kind.
    #[track_caller]
    pub(crate) fn events(&self, id: &str, kind: &str) -> Vec<Value> {
        let events = self.stage.events_of(id, kind);
        events.iter().map(|event| event["data"].clone()).collect()
    }
}

/// A script that first waits for the other task to start, so that both start from the same commit.
pub(crate) fn after_peer_starts(own: &str, other: &str, script: &str) -> String {
    format!(
        "touch $root/{own}-there; while ! test -e $root/{other}-there; do sleep 0.05; done\n{script}"
    )
}

fn task_toml((id, after, _): &ScriptedTask<'_>) -> String {
    format!(
        "[[task]]\nid = \"{id}\"\ntitle = \"The task {id}\"\ninstruction = \"Make it.\"\nafter = {after:?}\n"
    )
}
