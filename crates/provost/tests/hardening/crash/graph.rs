//! A run of a whole plan: two parallel tasks that change the same line, a task after both, and a
//! fourth task that continues the third one's conversation.

use std::fs;

use super::scenarios::{CrashScenario, assert_hooks, assert_outcome};
use provost_testkit::harness::string_value;

/// Works on the task in the instruction, and logs that the instruction arrived.
const ACT_SCRIPT: &str = r#"set -eu
root=$1
id=$(printf '%s\n' "$2" | awk '/^## Your task/ { found = 1; next } found && NF { print; exit }' | sed 's/:.*//')
echo "$id $PROVOST_SESSION" >> "$root/received"
case "$2" in
  *"conflict markers"*) grep -v '^[<=>]' shared.txt | sort > merged; mv merged shared.txt; exit 0;;
esac
case "$id" in
  left | right)
    touch "$root/$id"
    while ! test -e "$root/left" || ! test -e "$root/right"; do sleep 0.05; done
    printf 'base\n%s\n' "$id" > shared.txt;;
  both) cat shared.txt > both.txt;;
  last) cat both.txt > last.txt;;
esac
"#;

const PLAN: &str = r#"
[[task]]
id = "left"
title = "Left"
instruction = "Add a line."
[[task]]
id = "right"
title = "Right"
instruction = "Add a line."
[[task]]
id = "both"
title = "Both"
instruction = "Copy the lines."
after = ["left", "right"]
[[task]]
id = "last"
title = "Last"
instruction = "Copy them again."
after = ["both"]
"#;

pub(super) const GRAPH: CrashScenario = CrashScenario {
    name: "a graph of tasks",
    agent: r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
repeat = { times = 9, steps = [
  { wait_input = { type = "instruction" } },
  { emit = { type = "turn_started", turn = "t" } },
  { run = ["sh", "{{root}}/act.sh", "{{root}}", "{{input}}"] },
  { emit = { type = "claim", claim = "completed", text = "did it" } },
  { emit = { type = "turn_ended", turn = "t", status = "ok" } },
] }
"#,
    grace: "10s",
    hooks: 2,
    play: |stage| {
        let file = |name: &str, text: &str| {
            fs::write(stage.outside_file(name), text).expect("a file can be written");
        };
        file("act.sh", ACT_SCRIPT);
        file("plan.toml", PLAN);
        stage.repo.write("shared.txt", "base\n");
        stage.repo.commit("Something to change");
        let plan = stage.outside_file("plan.toml").display().to_string();
        let check = "! grep -q '^[<=>]' shared.txt";
        let planned = ["run", "--detach", "--agent", "scripted", "--plan", &plan];
        let ends = ["--review-task", "off", "--parallel", "2", "--check", check];
        let opened = stage.send_change(&[&planned[..], &ends].concat(), &["Do it"]);
        opened.ok().id()
    },
    check: |stage, id| {
        assert_outcome(stage, id, "succeeded");
        assert_hooks(stage, &["run.opened", "run.succeeded"]);
        let row = stage.home.provost(&["status", id, "--json"]).ok().json();
        let branch = string_value(&row["landing"]["branch"]);
        let at = |file: &str| stage.repo.git(&["show", &format!("{branch}:{file}")]);
        assert_eq!(["shared.txt", "both.txt", "last.txt"].map(at), ["base\nleft\nright"; 3]);
        let log = fs::read_to_string(stage.outside_file("received")).expect("the log exists");
        let of = |task: &str| -> Vec<&str> {
            log.lines().filter_map(|line| line.strip_prefix(task)?.strip_prefix(' ')).collect()
        };
        assert_eq!(of("left").len() + of("right").len(), 3, "one of them met a conflict: {log}");
        assert_eq!((of("both").len(), of("both")), (1, of("last")), "in one conversation: {log}");
        assert_eq!(stage.events("run.handed_over").len(), 0);
    },
};
