//! The settings of Codex in a repository that is not trusted yet.

use provost_testkit::{
    harness::{TestHome, TestRepo},
    model::{MODEL, ModelServer, codex, codex_config},
};
use serde_json::Value;

use crate::trust::{assert_untrusted, proof_file, write_file};

/// A repository with an MCP server for Codex, and a model that responds once.
struct McpServerEnv {
    home: TestHome,
    model: ModelServer,
    repo: TestRepo,
}

impl McpServerEnv {
    fn new() -> Option<Self> {
        let program = codex()?;
        let model = ModelServer::play(
            "[[thread]]\nturn = [{ response = [{ items = [{ message = \"It is a sample.\" }] }] }]\n",
        );
        let mut home = TestHome::new();
        home.set_env("PROVOST_CODEX", program);
        let repo = home.repo("cloned");
        let server = format!(
            "[mcp_servers.x]\ncommand = \"sh\"\nargs = [\"-c\", \"touch {}\"]\n",
            proof_file(&home).display()
        );
        repo.write(".codex/config.toml", &server);
        repo.commit("Add a server");
        let scene = McpServerEnv { home, model, repo };
        scene.configure_codex("");
        Some(scene)
    }

    /// Writes the user's Codex configuration.
    fn configure_codex(&self, more: &str) {
        let sandbox = "[sandbox_workspace_write]\nexclude_slash_tmp = true\n";
        let text = codex_config(MODEL, &self.model.url()) + sandbox + more;
        write_file(&self.home.root().join("user/.codex/config.toml"), &text);
    }

    /// Has Codex describe the repository, in a worktree.
    #[track_caller]
    fn describe_repo(&self, flags: &[&str]) -> Value {
        let words = ["spawn", "--json", "--agent", "codex", "--worktree", "Say what this is."];
        let spawned = self.home.provost_in(self.repo.path(), &[&words, flags].concat());
        let reply = spawned.ok().json();
        self.home.wait_sealed(reply["id"].as_str().unwrap());
        reply
    }
}

#[test]
fn f2_4_codex_starts_no_untrusted_mcp_server() {
    let Some(scene) = McpServerEnv::new() else { return };
    let words = ["spawn", "--json", "--agent", "codex", "--worktree", "Say what this is."];
    assert_untrusted(&scene.home.provost_in(scene.repo.path(), &words), ".codex/config.toml");
    let reply = scene.describe_repo(&["--ignore-project-config"]);
    assert!(!proof_file(&scene.home).exists(), "{reply}");
    let warnings = reply["warnings"].to_string();
    assert!(warnings.contains(".codex"), "{warnings}");
}

#[test]
fn f2_4_codex_starts_trusted_mcp_server() {
    let Some(scene) = McpServerEnv::new() else { return };
    scene.home.trust(scene.repo.path());
    scene.describe_repo(&[]);
    assert!(proof_file(&scene.home).exists());
}

#[test]
fn f2_4_codex_ignores_content_that_was_not_shown() {
    let Some(scene) = McpServerEnv::new() else { return };
    // The committed content, which the worktree gets, differs from the checkout's.
    scene.repo.write(".codex/config.toml", "model_reasoning_effort = \"low\"\n");
    let words = ["spawn", "--json", "--agent", "codex", "--worktree", "Say what this is."];
    assert_untrusted(&scene.home.provost_in(scene.repo.path(), &words), ".codex/config.toml");
    scene.describe_repo(&["--ignore-project-config"]);
    assert!(!proof_file(&scene.home).exists());
    // The operator sees and trusts the checkout's and the commit's content.
    scene.home.trust(scene.repo.path());
    scene.describe_repo(&[]);
    assert!(proof_file(&scene.home).exists());
}

#[test]
fn f2_4_trust_in_user_codex_config_is_honoured() {
    let Some(scene) = McpServerEnv::new() else { return };
    let top = scene.repo.path().canonicalize().unwrap();
    scene.configure_codex(&format!(
        "[projects.{:?}]\ntrust_level = \"trusted\"\n",
        top.to_str().unwrap()
    ));
    scene.describe_repo(&["--ignore-project-config"]);
    assert!(proof_file(&scene.home).exists());
}
