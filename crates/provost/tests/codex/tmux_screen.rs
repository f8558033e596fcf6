//! A tmux terminal, as a user sees it.

use std::process::Command;

use provost_testkit::harness::eventually;

use crate::codex_env::CodexEnv;

/// A terminal that runs a Provost command. Dropping it closes the terminal.
pub(crate) struct TmuxScreen<'a>(&'a CodexEnv);

impl<'a> TmuxScreen<'a> {
    /// Runs a command until it ends or is detached.
    pub(crate) fn run_provost(stage: &'a CodexEnv, arguments: &[&str]) -> Self {
        let words = command_words(stage, arguments);
        Self::run(stage, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Runs a command in a terminal that stays open after the command ended, so that its output can be read.
    pub(crate) fn run_provost_and_stay(stage: &'a CodexEnv, arguments: &[&str]) -> Self {
        let line = format!("{}; cat", command_words(stage, arguments).join(" "));
        Self::run(stage, &[&line])
    }

    pub(crate) fn run(stage: &'a CodexEnv, words: &[&str]) -> Self {
        let screen = TmuxScreen(stage);
        let start = ["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40"];
        screen.tmux(&[&start, words].concat());
        screen
    }

    /// Waits until a text is on the screen.
    #[track_caller]
    pub(crate) fn wait_for_text(&self, text: &str) {
        eventually(&format!("{text:?} on the screen"), || {
            let shown = self.tmux(&["capture-pane", "-p"]);
            if shown.contains(text) { Ok(()) } else { Err(shown) }
        });
    }

    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        let like = self.0.home.command(&["status"]);
        let environment = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut tmux = Command::new("tmux");
        tmux.env_clear().envs(environment).env("TERM", "xterm-256color");
        tmux.arg("-S").arg(self.0.home.root().join("tmux.sock")).args(arguments);
        let ran = tmux.current_dir(self.0.home.root()).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }
}

impl Drop for TmuxScreen<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn command_words(stage: &CodexEnv, arguments: &[&str]) -> Vec<String> {
    let command = stage.home.command(arguments);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_str().unwrap().to_owned()).collect()
}
