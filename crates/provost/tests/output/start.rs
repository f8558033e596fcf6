//! Commands that start work.

use crate::{
    agents::{BUSY, WORKER},
    recorder::Recorder,
};

const WORKFLOW: &str = "---
tracker: {kind: file}
provost: {agent: busy}
---
Do {{ issue.title }}.
";

const ISSUE: &str = "---
title: Limit the calls
state: todo
---
Each caller may call ten times a minute.
";

#[test]
fn spawn_is_recorded() {
    let mut terminal = Recorder::new();
    terminal.configure(&[("worker", WORKER)], "");
    terminal.record(
        "spawn",
        "spawn --name first -- true
        spawn --name second --json -- true
        ~| spawn --wait --name third -- false
        100| spawn --name fourth --agent worker 'Write the work.'
        spawn
        spawn 'only an instruction'
        spawn --agent nothing 'Do it.'
        spawn --agent worker
        spawn --cwd /nonexistent -- true
        spawn --name first --model m -- true
        spawn --budget much --agent worker 'Do it.'
        spawn --env API_TOKEN=x -- true
        spawn --check 'true' -- true
        ~| spawn --wait -- /nonexistent/program",
    );
    terminal.finish();
}

#[test]
fn run_and_plan_are_recorded() {
    let mut terminal = Recorder::new();
    let more = "rework = 0\n[run]\ntriage = false\n[review]\ntask = \"off\"\n";
    terminal.configure(&[("worker", WORKER)], more);
    terminal.write("plan.toml", "[[task]]\nid = \"a\"\ntitle = \"A\"\nafter = [\"b\"]\n");
    terminal.commit();
    terminal.record(
        "run",
        "~| run --agent worker --name limits --check 'test -s work.txt' 'Limit the calls.'
        run --agent worker --name again --detach --json 'Limit the calls.'
        ~| run --agent worker --check false --name broken 'Limit the calls.'
        run
        run --agent nothing 'Limit the calls.'
        run --agent worker --spec missing.md 'Limit the calls.'
        run --agent worker --plan plan.toml 'Limit the calls.'
        run --agent worker --cwd / 'Limit the calls.'
        run --preset nothing 'Limit the calls.'",
    );
    terminal.home.wait_sealed("again");
    terminal.record("run", "=| status limits\n*| ls --runs\nstatus limits --why");
    terminal.record(
        "plan",
        "plan --agent worker --name outline 'Limit the calls.'
        plan
        plan --agent nothing 'Limit the calls.'
        plan --cwd / --agent worker 'Limit the calls.'",
    );
    terminal.finish();
}

#[test]
fn serve_is_recorded() {
    let mut terminal = Recorder::new();
    let more = "rework = 0\n[run]\ntriage = false\n[review]\ntask = \"off\"\n";
    terminal.configure(&[("busy", BUSY)], more);
    terminal.record("serve", "serve --once\nserve missing.md --once");
    terminal.write("WORKFLOW.md", "---\ntracker: {kind: none}\n---\nDo it.\n");
    terminal.commit();
    terminal.run("trust --yes");
    terminal.record("serve", "serve --once");
    terminal.write("WORKFLOW.md", WORKFLOW);
    terminal.write("issues/7.md", ISSUE);
    terminal.commit();
    terminal.record("serve", "serve --once");
    terminal.run("trust --yes");
    let runs = terminal.json("ls --runs --all");
    let id = runs["runs"][0]["id"].as_str().unwrap();
    terminal.home.wait_state(id, |row| !row["sessions"][0].is_null());
    terminal.record("serve", "serve --once");
    terminal.write("issues/8.md", ISSUE);
    terminal.commit();
    terminal.record("serve", "serve --once --json");
    let runs = terminal.json("ls --runs --all");
    for run in runs["runs"].as_array().unwrap() {
        terminal.run(&format!("cancel {}", run["id"].as_str().unwrap()));
        terminal.home.wait_sealed(run["id"].as_str().unwrap());
    }
    terminal.finish();
}
