//! Agent output: too long, not text, and crafted to fool a terminal.

use std::process::{Command, Stdio};

use provost_testkit::{TestHome, eventually};

use super::names::is_dangerous;

/// The length of a line in bytes, longer than the maximum of any protocol.
const LONG_LINE: u64 = 100 << 20;

fn home_with_agent(steps: &str) -> TestHome {
    let home = TestHome::with_short_windows();
    home.configure(&home.scripted_agent("scripted", steps));
    home
}

#[test]
fn huge_line_is_stored_and_skipped() {
    let home = home_with_agent(&format!(
        r#"
[[step]]
emit = {{ type = "ready", thread = "t" }}
[[step]]
wait_input = {{ type = "instruction" }}
[[step]]
emit = {{ type = "turn_started", turn = "t1" }}
[[step]]
one_line = {{ bytes = {LONG_LINE}, channel = "stdout" }}
[[step]]
emit = {{ type = "claim", claim = "completed", text = "after the line" }}
[[step]]
emit = {{ type = "turn_ended", turn = "t1", status = "ok" }}
[[step]]
exit = 0
"#
    ));
    let id = home.spawn(&["--agent", "scripted", "print"]);
    let row = home.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["claim_text"]),
        (&"completed".into(), &"after the line".into())
    );
    assert!(row["flags"].as_array().expect("a list").contains(&"oversized_output".into()), "{row}");
    let mut logs = home.command(&["logs", &id]);
    let mut logs =
        logs.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("logs can be run");
    let printed = std::io::copy(&mut logs.stdout.take().expect("a pipe"), &mut std::io::sink());
    assert!(logs.wait().expect("logs ends").success());
    assert!(printed.expect("logs can be read") >= LONG_LINE, "nothing of it is lost");
    home.assert_ledger_verified();
}

#[test]
fn binary_output_is_stored_and_shown_as_text() {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--", "printf", r"ok\n\377\376\000\033[31mred\033]0;t\007\n\302\n"]);
    assert_eq!(home.wait_sealed(&id)["state"], "completed");
    let shown = home.provost(&["logs", &id]);
    assert!(shown.ok().stdout.contains("ok"), "{shown:#?}");
    let json = home.provost(&["logs", &id, "--json"]);
    json.ok();
    home.assert_ledger_verified();
}

#[test]
fn invalid_protocol_lines_are_skipped() {
    let home = home_with_agent(
        r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
raw = '\xff\xfe{"type":\x00\n{"type":"claim"}\n{"type":"claim","claim":"succeeded"}\n[1,2]\n{"type":"unheard_of"}\n'
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "claim", claim = "completed", text = "done" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
exit = 0
"#,
    );
    let id = home.spawn(&["--agent", "scripted", "go"]);
    assert_eq!(home.wait_sealed(&id)["state"], "completed");
}

#[test]
fn escapes_never_reach_a_real_terminal() {
    let home = home_with_agent(
        r#"
[[step]]
emit = { type = "ready", thread = "\u001b[31mthread" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
raw = '\e]0;owned\x07\e[2J\e[31mprinted\n'
[[step]]
emit = { type = "claim", claim = "completed", text = "\u001b[2J\u001b[31mclaimed\u202e" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
exit = 0
"#,
    );
    let id = home.spawn(&["--agent", "scripted", "go \u{1b}[2J\u{1b}]0;owned\u{7}there"]);
    home.wait_sealed(&id);
    let tmux = TmuxTerminal::start(&home);
    for command in ["ls", &format!("status {id}"), &format!("logs {id}"), &format!("events {id}")] {
        let screen = tmux.screen_after(command);
        let raw = screen.chars().find(|c| is_dangerous(*c));
        assert_eq!(raw, None, "{command}: {screen:?}");
    }
    assert_ne!(tmux.title(), "owned", "an escape set the terminal's title");
}

/// A terminal, because Provost's output differs on a terminal.
struct TmuxTerminal<'a>(&'a TestHome);

impl<'a> TmuxTerminal<'a> {
    fn start(home: &'a TestHome) -> Self {
        let tmux = TmuxTerminal(home);
        tmux.run(&["new-session", "-d", "-x", "200", "-y", "100", "sh"]);
        tmux
    }

    /// Types a command and returns the screen once it has ended.
    fn screen_after(&self, command: &str) -> String {
        let mark = format!("ended-{}", command.len());
        self.run(&["send-keys", &format!("clear; provost {command}; echo ${{no}}{mark}"), "Enter"]);
        eventually("the command has ended", || {
            let screen = self.run(&["capture-pane", "-p", "-J"]);
            let ended = screen.lines().any(|line| line == mark);
            if ended { Ok(screen) } else { Err(screen) }
        })
    }

    fn title(&self) -> String {
        self.run(&["display-message", "-p", "#{pane_title}"]).trim().to_owned()
    }

    fn run(&self, args: &[&str]) -> String {
        let provost = self.0.command::<&str>(&[]);
        let mut tmux = Command::new("tmux");
        tmux.arg("-f/dev/null")
            .args(args)
            .env_clear()
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh");
        tmux.envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = tmux.current_dir(self.0.root()).output().expect("tmux can be run");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for TmuxTerminal<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
