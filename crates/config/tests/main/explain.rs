//! The output of `config show`.

use insta::assert_snapshot;
use provost_config::Resolved;

use crate::support::layers;

#[test]
fn entry_has_source_and_shadowed_values() {
    let resolved = layers()
        .user("session.settle = 1")
        .project("\n[session]\n  settle = \"1500ms\"")
        .environment(&[("PROVOST_SESSION_SETTLE", "3s")])
        .flag("--settle", "session.settle", "4s")
        .resolve();
    let entry = resolved.explain().iter().find(|entry| entry.key == "session.settle").unwrap();
    assert_snapshot!(serde_json::to_string_pretty(entry).unwrap(), @r#"
    {
      "key": "session.settle",
      "value": "4s",
      "source": {
        "layer": "flag",
        "flag": "--settle"
      },
      "shadowed": [
        {
          "source": {
            "layer": "environment",
            "variable": "PROVOST_SESSION_SETTLE"
          },
          "value": "3s"
        },
        {
          "source": {
            "layer": "project",
            "file": "provost.toml",
            "line": 3,
            "column": 3
          },
          "value": "1s500ms"
        },
        {
          "source": {
            "layer": "user",
            "file": "/home/u/provost.toml",
            "line": 1,
            "column": 9
          },
          "value": "1s"
        },
        {
          "source": {
            "layer": "default"
          },
          "value": "2s"
        }
      ]
    }
    "#);
}

#[test]
fn the_listing_follows_the_table() {
    let project = "ui.color = \"never\"\n[agents.b]\ncommand = [\"y\"]\n[agents.a]\ncommand = [\"x\"]\nenv.Z = \"z\"";
    let resolved = layers().project(project).user("session.time_limit = false").resolve();
    assert_snapshot!(listing(&resolved), @r#"
    session.settle = "2s"  default
    session.stale_after = "5m"  default
    session.drain = "2s"  default
    session.stop_grace = "10s"  default
    session.time_limit = false  user (/home/u/provost.toml:1:9)
    session.output_limit = "1GiB"  default
    session.limit_jitter = "30s"  default
    session.limit_spacing = "10s"  default
    session.rework = 3  default
    session.exit_zero_completes = false  default
    session.allow_empty_diff = false  default
    verify.checks = []  default
    verify.time_limit = "30m"  default
    verify.output_limit = "64MiB"  default
    verify.keep = ["target","node_modules"]  default
    verify.protected = []  default
    run.land = "branch"  default
    run.triage = true  default
    run.plan = "auto"  default
    run.approve_plan = false  default
    run.parallel = null  default
    run.machine_parallel = null  default
    run.batch = 8  default
    run.retries = 1  default
    run.questions = true  default
    run.pull_every = "30s"  default
    run.pull_checks = "1m"  default
    run.comments_from = "write"  default
    review.plan = "repair"  default
    review.task = "report"  default
    review.final = "off"  default
    review.cycles = 2  default
    prices.currency = "USD"  default
    prices.input = null  default
    prices.output = null  default
    prompts.triage = null  default
    prompts.plan = null  default
    prompts.plan_review = null  default
    prompts.plan_faults = null  default
    prompts.work = null  default
    prompts.next = null  default
    prompts.broken = null  default
    prompts.review = null  default
    prompts.repair = null  default
    prompts.resume = null  default
    prompts.merge = null  default
    prompts.review_comments = null  default
    worktree.enabled = null  default
    worktree.branch_prefix = "provost"  default
    worktree.copy = []  default
    worktree.setup = null  default
    git.filters = []  default
    terminal.tmux = false  default
    budget.tokens = null  default
    budget.turns = null  default
    approvals.version = 1  default
    approvals.allow = []  default
    approvals.ask = []  default
    approvals.deny = []  default
    approvals.expire_after = null  default
    skills.roots = []  default
    hooks.time_limit = "30s"  default
    hooks.output_limit = "1MiB"  default
    hooks.session.opened = null  default
    hooks.session.started = null  default
    hooks.session.needs_input = null  default
    hooks.session.stalled = null  default
    hooks.session.lost = null  default
    hooks.session.rework = null  default
    hooks.session.completed = null  default
    hooks.session.succeeded = null  default
    hooks.session.failed = null  default
    hooks.session.exited_without_claim = null  default
    hooks.session.stopped = null  default
    hooks.session.disputed = null  default
    hooks.session.cancelled = null  default
    hooks.session.accepted = null  default
    hooks.session.superseded = null  default
    hooks.session.late_claim = null  default
    hooks.session.reaction = null  default
    hooks.run.opened = null  default
    hooks.run.question = null  default
    hooks.run.findings = null  default
    hooks.run.planned = null  default
    hooks.run.succeeded = null  default
    hooks.run.completed = null  default
    hooks.run.failed = null  default
    hooks.run.cancelled = null  default
    agents.a.adapter = "command"  default
    agents.a.command = ["x"]  project (provost.toml:5:1)
    agents.a.env.Z = "***"  project (provost.toml:6:5)
    agents.a.pass_env = []  default
    agents.b.adapter = "command"  default
    agents.b.command = ["y"]  project (provost.toml:3:1)
    agents.b.pass_env = []  default
    agents.chat.path = null  default
    agents.chat.model = null  default
    agents.chat.effort = null  default
    agents.chat.sandbox = "workspace-write"  default
    agents.chat.network = false  default
    agents.chat.approvals = "on-request"  default
    agents.chat.questions = true  default
    agents.chat.multi_agent = null  default
    agents.chat.home = null  default
    agents.chat.pass_env = []  default
    monitor.stale_after = "5m"  default
    workflows.automate.verifier = "bmad-automate"  default
    workflows.automate.retries = 2  default
    workflows.automate.escalate = "preference"  default
    workflows.automate.defer_on_plateau = true  default
    workflows.automate.fallback = []  default
    workflows.create.verifier = "bmad-create"  default
    workflows.create.retries = 2  default
    workflows.create.escalate = "critical"  default
    workflows.create.defer_on_plateau = true  default
    workflows.create.fallback = []  default
    workflows.dev.verifier = "bmad-dev"  default
    workflows.dev.retries = 4  default
    workflows.dev.escalate = "critical"  default
    workflows.dev.defer_on_plateau = true  default
    workflows.dev.fallback = []  default
    workflows.retro.verifier = "bmad-retro"  default
    workflows.retro.retries = 2  default
    workflows.retro.escalate = "preference"  default
    workflows.retro.defer_on_plateau = true  default
    workflows.retro.fallback = []  default
    workflows.review.verifier = "bmad-review"  default
    workflows.review.retries = 4  default
    workflows.review.escalate = "critical"  default
    workflows.review.defer_on_plateau = true  default
    workflows.review.fallback = []  default
    environment.allow = []  default
    ui.color = "never"  project (provost.toml:1:4)
    presets.careful.review.task = "repair"  default
    presets.careful.review.final = "report"  default
    presets.quick.run.triage = false  default
    presets.quick.review.task = "off"  default
    "#);
}

#[test]
fn agent_environment_values_are_masked() {
    let secret = |text: &str| format!("[agents.a]\ncommand = [\"x\"]\nenv = {{ KEY = {text:?} }}");
    let resolved = layers()
        .user(&secret("hunter1"))
        .project(&secret("hunter2"))
        .flag("--set", "agents.a.env.KEY", "hunter3")
        .resolve();
    let shown = serde_json::to_string(resolved.explain()).unwrap();
    let debugged = format!("{resolved:?}");
    assert!(!shown.contains("hunter") && !debugged.contains("hunter"), "{shown}\n{debugged}");
    assert_eq!(shown.matches("\"***\"").count(), 3);
}

fn listing(resolved: &Resolved) -> String {
    let lines = resolved
        .explain()
        .iter()
        .map(|entry| format!("{} = {}  {}", entry.key, entry.value, entry.source));
    lines.collect::<Vec<_>>().join("\n")
}
