//! Real Codex in real tmux, with an unreachable model: hooks, the rollout and the screen still
//! work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use provost_agent::{Adapter, Adapters, processes};
use provost_agent_codex::CodexAdapter;
use provost_agent_codex::hooks::{self, CodexHookEvent, HookCall};
use provost_agent_codex::rollout::{
    self, CodexHomes, NextLine, RecordedTurnEnd, RolloutFold, RolloutTail,
};
use provost_agent_codex::screen::{CodexScreenKind, classify};
use provost_terminal::tmux::{PaneListing, TmuxServer};
use tempfile::TempDir;

use crate::support::{codex, is_missing, wait_until};

/// A Codex home without prompts, a trusted project, and a tmux server.
struct CodexPaneEnv {
    directory: TempDir,
    server: TmuxServer,
    codex: PathBuf,
}

impl CodexPaneEnv {
    fn new() -> Option<Self> {
        let codex = codex()?;
        if is_missing("tmux") {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let server = TmuxServer::new(directory.path().join("socket"));
        let env = Self { directory, server, codex };
        for name in ["home", "codex", "tmp", "project/.git"] {
            fs::create_dir_all(env.path(name)).unwrap();
        }
        fs::write(env.path("codex/config.toml"), config(&env.path("project"))).unwrap();
        Some(env)
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.directory.path()).unwrap().join(name)
    }

    fn start(&self, arguments: &[String]) {
        let variables = [("HOME", "home"), ("CODEX_HOME", "codex"), ("TMPDIR", "tmp")];
        let mut tmux = self.tmux();
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "40", "-c"]);
        tmux.arg(self.path("project")).args([
            "env",
            "-i",
            "PATH=/usr/bin:/bin",
            "TERM=xterm-256color",
            "LANG=C.UTF-8",
        ]);
        tmux.args(variables.map(|(name, path)| format!("{name}={}", self.path(path).display())));
        assert!(tmux.arg(&self.codex).args(arguments).status().unwrap().success());
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.env_remove("TMUX").env("LC_ALL", "C.UTF-8").arg("-S").arg(self.server.socket());
        tmux
    }

    fn pane(&self) -> PaneListing {
        self.server.panes().unwrap().remove(0)
    }

    fn wait_for_screen(&self, shown: CodexScreenKind) {
        let pane = self.pane().id;
        wait_until(&format!("{shown:?}"), || {
            classify(&self.server.screen(&pane).unwrap(), Some((0, 166))).kind == shown
        });
    }

    /// Returns the hook calls so far.
    fn hook_calls(&self) -> Vec<HookCall> {
        let written = fs::read_to_string(self.path("hooks")).unwrap_or_default();
        let whole =
            written.split_inclusive('\n').filter(|line| line.ends_with('\n') && line.len() > 1);
        whole.map(|line| hooks::parse_hook(line.as_bytes()).unwrap()).collect()
    }
}

impl Drop for CodexPaneEnv {
    fn drop(&mut self) {
        self.tmux().arg("kill-server").status().ok();
    }
}

/// Returns a configuration without network access or a model.
fn config(project: &Path) -> String {
    format!(
        r#"model = "gpt-5.5"
model_provider = "nobody"
check_for_update_on_startup = false
allow_login_shell = false
model_providers.nobody = {{ name = "nobody", base_url = "http://127.0.0.1:9/v1", wire_api = "responses", requires_openai_auth = false, request_max_retries = 0, stream_max_retries = 0 }}
analytics.enabled = false
otel.metrics_exporter = "none"
features = {{ plugins = false, shell_snapshot = false, daemon_auto_start = false, unbounded_connection_retries = false }}
notice.model_migrations = {{ "gpt-5.5" = "gpt-6-sol" }}
projects.{project:?}.trust_level = "trusted"
"#
    )
}

#[test]
fn trusted_hooks_agree_with_rollout() {
    let Some(env) = CodexPaneEnv::new() else { return };
    let line = format!("cat >> '{0}'; echo >> '{0}'", env.path("hooks").display());
    env.start(&hooks::launch_arguments(&line));
    env.wait_for_screen(CodexScreenKind::Composer);
    let pane = env.pane().id;
    wait_until("the prompt", || env.server.screen(&pane).unwrap().join("\n").contains("GPT-5.5"));
    env.server.paste(&pane, "hello").unwrap();
    wait_until("the text", || {
        env.server.screen(&pane).unwrap().iter().any(|line| line == "› hello")
    });
    env.server.press_key(&pane, "Enter").unwrap();
    let is_submission =
        |heard: &HookCall| heard.event == CodexHookEvent::PromptSubmitted { text: "hello".into() };
    wait_until("the hooks", || env.hook_calls().iter().any(is_submission));
    let heard = env.hook_calls();
    assert_eq!(heard[0].event, CodexHookEvent::SessionStarted { source: Some("startup".into()) });
    let submitted = heard.iter().find(|heard| is_submission(heard)).unwrap();
    let places = CodexHomes::new(vec![env.path("codex")]);
    let found = places.find(&submitted.thread).rollouts.pop().unwrap();
    assert_eq!(Some(&found.path), submitted.transcript.as_ref());
    wait_until("the end of the turn", || ends_with_error(&found.path, submitted));
}

fn ends_with_error(path: &Path, submitted: &HookCall) -> bool {
    let mut fold = RolloutFold::for_thread(submitted.thread.clone());
    let mut tail = RolloutTail::open(path, 0).unwrap();
    let mut ended = false;
    while let NextLine::Line(line) = tail.next_line().unwrap() {
        fold.line(&line, |event| {
            if let rollout::RolloutEvent::TurnEnded { turn, end: RecordedTurnEnd::Error { .. } } =
                event
            {
                ended |= turn == submitted.turn;
            }
        });
    }
    ended
}

#[test]
fn untrusted_hook_makes_codex_ask() {
    let Some(env) = CodexPaneEnv::new() else { return };
    let mut arguments = hooks::launch_arguments("cat");
    arguments.truncate(arguments.len() - 2);
    env.start(&arguments);
    env.wait_for_screen(CodexScreenKind::HookTrust);
}

#[test]
fn pane_process_is_identified_as_codex() {
    let Some(env) = CodexPaneEnv::new() else { return };
    env.start(&[]);
    env.wait_for_screen(CodexScreenKind::Composer);
    let adapters = Adapters::new([Arc::new(CodexAdapter) as Arc<dyn Adapter>]);
    let recognize = |path: &Path| adapters.recognize_transcript(path);
    let seen = processes::inspect(env.pane().pid, &recognize).unwrap().unwrap();
    let all = [seen];
    let signatures = adapters.signatures();
    let agents = processes::ProcessTree::new(&all, &signatures).agents();
    let [(seen, agent)] = agents.as_slice() else { panic!("{agents:?}") };
    assert_eq!(agent.kind, "codex");
    assert_eq!(seen.cwd.seen(), Some(&env.path("project")));
}
