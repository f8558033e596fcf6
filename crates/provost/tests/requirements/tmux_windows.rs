//! The windows in Provost's own tmux that show the sessions Provost hosts.

use std::{fs, process::Command};

use provost_testkit::env::{TestEnv, text};
use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use crate::tmux_panes::{tmux, tmux_is_missing};

/// Provost's own tmux server, killed on drop.
struct ProvostTmux<'a>(&'a TestEnv);

impl ProvostTmux<'_> {
    fn tmux(&self, arguments: &[&str]) -> String {
        tmux(self.0, &text(&self.0.home.path().join("tmux.sock")), arguments)
    }

    /// Returns the names of the open windows.
    fn window_names(&self) -> Vec<String> {
        let listed = self.tmux(&["list-windows", "-a", "-F", "#{window_name}"]);
        listed.lines().map(str::to_owned).collect()
    }
}

impl Drop for ProvostTmux<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// The five endings, each with the line that distinguishes it.
const ENDINGS: [(&str, &str); 5] = [
    ("exit0_silent", "exited_without_claim null exit0 code=0 signal=null"),
    ("exit1_silent", "failed \"crash\" exitN code=1 signal=null"),
    ("completed_exit0", "completed null exit0 code=0 signal=null"),
    ("needs_input_exit0", "needs_input null exit0 code=0 signal=null"),
    ("working_killed9", "failed \"crash\" exitN code=null signal=9"),
];

fn describe_end(row: &Value) -> String {
    format!(
        "{} {} {} code={} signal={}",
        row["state"].as_str().unwrap(),
        row["cause"],
        row["process"].as_str().unwrap(),
        row["exit"]["code"],
        row["exit"]["signal"]
    )
}

fn is_settled(row: &Value) -> bool {
    let settled = row["sealed"] == true || row["state"] == "needs_input";
    row["process"] != "alive" && row["activity"] == "exited" && settled
}

#[test]
fn a01_terminal_end_comes_from_the_holder_record() {
    if tmux_is_missing() {
        return;
    }
    let stage = TestEnv::new();
    let windows = ProvostTmux(&stage);
    let scenario =
        "[[step]]\nwait_file = \"go\"\n[[step]]\nreport = \"completed\"\n[[step]]\nexit = 0\n";
    let flags = |name| ["--tty", "--tmux", "--name", name];
    let ids = ["open", "closed"].map(|name| stage.spawn_scenario(scenario, &flags(name)));
    eventually("both windows", || {
        let mut names = windows.window_names();
        names.sort();
        if names == ["closed", "open"] { Ok(()) } else { Err(names) }
    });
    let pane = windows.tmux(&[
        "list-panes",
        "-a",
        "-f",
        "#{==:#{window_name},closed}",
        "-F",
        "#{pane_id}",
    ]);
    windows.tmux(&["kill-pane", "-t", pane.trim()]);
    eventually("its window is gone", || (windows.window_names() == ["open"]).then_some(()));
    fs::write(stage.file("go"), "").unwrap();
    for id in ids {
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["exit"]["code"]),
            (&json!("completed"), &json!(0)),
            "{row:#}"
        );
    }
    eventually("no window outlives its session", || {
        windows.window_names().is_empty().then_some(())
    });
}

#[test]
fn a02_terminal_endings_are_distinct_despite_tmux_death() {
    if tmux_is_missing() {
        return;
    }
    let stage = TestEnv::new();
    let windows = ProvostTmux(&stage);
    for flags in [&["--tty"][..], &["--tty", "--tmux"]] {
        let ids = ENDINGS.map(|(sample, _)| stage.spawn_sample(sample, flags));
        if flags.len() > 1 {
            windows.tmux(&["kill-server"]);
        }
        for (id, (sample, expected)) in ids.iter().zip(ENDINGS) {
            let row = stage.home.wait_state(id, is_settled);
            assert_eq!(describe_end(&row), expected, "{sample} with {flags:?}");
        }
    }
}

#[test]
fn window_is_made_once_and_needs_tmux() {
    if tmux_is_missing() {
        return;
    }
    let mut stage = TestEnv::new();
    let id = stage.spawn_in(stage.home.root(), &["--tty", "--name", "#(touch x) a", "--", "cat"]);
    stage.pid(&id);
    {
        let windows = ProvostTmux(&stage);
        let print =
            || stage.home.provost(&["attach", "--tmux", &id, "--print"]).ok().stdout.clone();
        let first = print();
        assert_eq!(first, print(), "the same window");
        assert!(first.contains("=provost:@") && first.contains("tmux.conf"), "{first}");
        assert_eq!(windows.window_names(), ["(touch x) a"]);
    }
    let refused = stage.home.provost(&["attach", "--tmux", &id]);
    let print = format!("attach --tmux {} --print", &id[id.len() - 8..]);
    assert!(refused.assert_code(2).stderr.contains(&print), "{refused:#?}");
    // The printed command works in any shell.
    let printed = stage.home.provost(&["attach", &id, "--print"]).ok().stdout.clone();
    let ran = Command::new("/bin/sh").env_clear().args(["-c", printed.trim()]).output().unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(stderr.contains("needs a terminal"), "{printed}: {stderr}");
    stage.home.set_env("PATH", "/nowhere");
    let refused = stage.home.provost(&["attach", "--tmux", &id, "--print"]);
    assert!(refused.assert_code(4).stderr.contains("tmux is not installed"), "{refused:#?}");
    stage.home.provost(&["stop", &id]).ok();
    stage.wait_sealed(&id);
}
