//! A repository in which an agent works on the tasks of a plan, each by a script of its own.

use std::{fs, path::Path, process::Command};

use provost_testkit::harness::{Output, Repo, eventually};
use serde_json::Value;

use crate::kit::{Stage, TALKER};

/// What an agent does when it is told something: it notes what, does what the task's script says, and reports.
const ACT: &str = r#"set -eu
root='ROOT'
id=$(printf '%s\n' "$1" | awk '/^## Your task/ { found = 1; next } found && NF { print; exit }' | sed 's/:.*//')
n=1
while test -e "$root/told/$id.$n"; do n=$((n + 1)); done
printf '%s\n' "$1" > "$root/told/$id.$n"
echo "$id $n $PROVOST_SESSION ${PROVOST_THREAD-}" >> "$root/log"
claim=completed
. "$root/tasks/$id"
"$PROVOST_BIN" report "$claim" --message "$id, told $n times" > "$root/reply"
"#;

/// Takes instructions for as long as it is given some.
const AGENT: &str = r#"
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

/// A task: its id, the ids that it is after, and what its agent does, in shell. There `$root` is the directory of the
/// test and `$n` how often the task was told, this time included.
pub(crate) type Scripted<'a> = (&'a str, &'a [&'a str], &'a str);

/// Who was told about a task: the number of the time, the session, and the conversation that it went on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) task: String,
    pub(crate) n: u32,
    pub(crate) session: String,
    pub(crate) thread: String,
}

/// A repository, a plan, and an agent that knows what to do for each of its tasks.
pub(crate) struct Site {
    pub(crate) stage: Stage,
    pub(crate) repo: Repo,
}

impl Site {
    pub(crate) fn new(tasks: &[Scripted<'_>]) -> Site {
        Site::configured(tasks, "")
    }

    /// With further configuration.
    pub(crate) fn configured(tasks: &[Scripted<'_>], more: &str) -> Site {
        let stage = Stage::new();
        let repo = stage.home.repo("work");
        let root = stage.home.root().to_owned();
        for dir in ["told", "tasks"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        let here = root.display().to_string();
        fs::write(root.join("act.sh"), ACT.replace("ROOT", &here)).unwrap();
        let own = "session.rework = 0\nsession.stop_grace = \"100ms\"\nrun.parallel = 4\n";
        stage.configure_talker(&AGENT.replace("ROOT", &here), &format!("{own}{more}"));
        let site = Site { stage, repo };
        site.plan(tasks);
        site
    }

    /// Makes these the tasks of the plan.
    pub(crate) fn plan(&self, tasks: &[Scripted<'_>]) {
        for (id, _, script) in tasks {
            fs::write(self.stage.file(&format!("tasks/{id}")), format!("{script}\n")).unwrap();
        }
        fs::write(self.stage.file("plan.toml"), tasks.iter().map(in_toml).collect::<String>())
            .unwrap();
    }

    /// Asks for a run of the plan.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let plan = self.stage.file("plan.toml");
        self.ask(&[&["--detach", "--json", "--plan", &plan], arguments].concat())
    }

    /// Asks for a run with these arguments.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        let plain = ["--agent", TALKER, "--review-task", "off", "go"];
        self.stage.home.provost_in(self.repo.path(), &[&["run"], arguments, &plain].concat())
    }

    /// Opens a run of the plan, and gives its id.
    #[track_caller]
    pub(crate) fn opened(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok().json()["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn ended(&self, id: &str) -> Value {
        self.stage.sealed(id)
    }

    /// Waits for the outcome of a later leg.
    #[track_caller]
    pub(crate) fn ended_again(&self, id: &str, leg: u32) -> Value {
        self.stage.wait_state(id, |row| row["leg"] == leg && row["sealed"] == true)
    }

    /// What `provost graph` says of the tasks.
    #[track_caller]
    pub(crate) fn graph(&self, id: &str) -> Value {
        self.stage.provost(&["graph", id, "--json"]).ok().json()["graph"].clone()
    }

    /// Tells of each task how it stands.
    #[track_caller]
    pub(crate) fn states(&self, id: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let graph = self.graph(id);
        let tasks = graph["tasks"].as_array().unwrap();
        tasks.iter().map(|task| (text(&task["id"]), text(&task["state"]))).collect()
    }

    /// Waits until a task stands so.
    #[track_caller]
    pub(crate) fn wait_task(&self, id: &str, task: &str, state: &str) {
        let wanted = (task.to_owned(), state.to_owned());
        eventually(&format!("{task} is {state}"), || {
            let states = self.states(id);
            if states.contains(&wanted) { Ok(()) } else { Err(states) }
        });
    }

    /// Waits for a file beside the home.
    #[track_caller]
    pub(crate) fn appears(&self, file: &str) {
        let path = self.stage.file(file);
        eventually(&format!("{file} appears"), || Path::new(&path).exists().then_some(()));
    }

    /// Makes a file beside the home, for which a script waits.
    pub(crate) fn sign(&self, file: &str) {
        fs::write(self.stage.file(file), "").unwrap();
    }

    /// What was told about a task for the n-th time.
    #[track_caller]
    pub(crate) fn told(&self, task: &str, n: u32) -> String {
        let path = self.stage.file(&format!("told/{task}.{n}"));
        fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"))
    }

    /// Who was told what, in its order.
    pub(crate) fn log(&self) -> Vec<Told> {
        let text = fs::read_to_string(self.stage.file("log")).unwrap_or_default();
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let [task, n, session, thread] = words[..] else { panic!("{line}") };
            let [task, session, thread] = [task, session, thread].map(str::to_owned);
            Told { task, n: n.parse().unwrap(), session, thread }
        };
        text.lines().map(line).collect()
    }

    /// Who was told about a task.
    pub(crate) fn told_of(&self, task: &str) -> Vec<Told> {
        self.log().into_iter().filter(|told| told.task == task).collect()
    }

    /// The run's branch.
    #[track_caller]
    pub(crate) fn branch(&self, id: &str) -> String {
        let opened = self.stage.events_of(id, "run.opened");
        opened[0]["data"]["spec"]["branch"].as_str().unwrap().to_owned()
    }

    /// What a revision has in a file.
    #[track_caller]
    pub(crate) fn file_at(&self, revision: &str, file: &str) -> String {
        self.repo.git(&["show", &format!("{revision}:{file}")])
    }

    /// The files of a revision.
    #[track_caller]
    pub(crate) fn files_at(&self, revision: &str) -> Vec<String> {
        let files = self.repo.git(&["ls-tree", "-r", "--name-only", revision]);
        files.lines().map(str::to_owned).collect()
    }

    /// Demands that a command succeeds on every commit at which a branch stood since it left `main`.
    #[track_caller]
    pub(crate) fn every_commit_passes(&self, branch: &str, check: &str) {
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

    /// The run's own events of a kind.
    #[track_caller]
    pub(crate) fn events(&self, id: &str, kind: &str) -> Vec<Value> {
        let events = self.stage.events_of(id, kind);
        events.iter().map(|event| event["data"].clone()).collect()
    }
}

/// Waits until the other is at work too, so that both begin from the same commit.
pub(crate) fn beside(own: &str, other: &str, script: &str) -> String {
    format!(
        "touch $root/{own}-there; while ! test -e $root/{other}-there; do sleep 0.01; done\n{script}"
    )
}

fn in_toml((id, after, _): &Scripted<'_>) -> String {
    format!(
        "[[task]]\nid = \"{id}\"\ntitle = \"The task {id}\"\ninstruction = \"Make it.\"\nafter = {after:?}\n"
    )
}
