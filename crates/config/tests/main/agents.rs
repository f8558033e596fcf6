//! Agents, and the environment of children.

use provost_config::{Adapter, Variable};

use crate::support::layers;

#[test]
fn agent_is_merged_from_all_layers() {
    let resolved = layers()
        .user("[agents.helper]\ncommand = [\"codex\", \"exec\"]\npass_env = [\"SSH_*\"]\nenv = { KEY = \"$TOKEN\", LOG = \"warn\" }")
        .project("[agents.helper]\nadapter = \"jsonl\"\nenv = { LOG = \"debug\" }")
        .flag("--set", "agents.helper.env.EXTRA", "off")
        .resolve();
    let helper = &resolved.agents["helper"];
    assert_eq!(helper.adapter, Adapter::Jsonl);
    assert_eq!(helper.command.as_slice(), ["codex", "exec"]);
    assert!(helper.pass_env.matches("SSH_AUTH_SOCK") && !helper.pass_env.matches("SSH"));
    assert_eq!(helper.env.get("KEY"), Some(&Variable::Reference("TOKEN".into())));
    assert_eq!(helper.env.get("LOG"), Some(&Variable::Literal("debug".into())));
    assert_eq!(helper.env.get("EXTRA"), Some(&Variable::Literal("off".into())));
    assert_eq!(helper.env.iter().count(), 3);
}

#[test]
fn agents_with_similar_names_stay_apart() {
    let text = "[agents.a]\ncommand = [\"1\"]\nenv.X = \"1\"\n[agents.a-b]\ncommand = [\"2\"]\nenv.Y = \"2\"\n[agents.ab]\ncommand = [\"3\"]";
    let resolved = layers().project(text).resolve();
    let programs: Vec<(&str, &str, usize)> = resolved
        .agents
        .iter()
        .map(|(name, agent)| (name.as_str(), agent.command.program(), agent.env.iter().count()))
        .collect();
    assert_eq!(programs, [("a", "1", 1), ("a-b", "2", 1), ("ab", "3", 0)]);
    assert_eq!(resolved.agents["a"].adapter, Adapter::Command);
}

#[test]
fn agent_command_may_come_from_other_layer() {
    let project = "agents.helper.adapter = \"jsonl\"";
    layers().project(project).error();
    let resolved = layers().user("agents.helper.command = [\"codex\"]").project(project).resolve();
    assert_eq!(resolved.agents["helper"].command.program(), "codex");
}

#[test]
fn children_get_only_allowed_variables() {
    let environment = layers()
        .project("environment.allow = [\"CARGO_*\", \"EDITOR\", \"P*\"]")
        .resolve()
        .environment;
    for name in ["PATH", "HOME", "LC_ALL", "CARGO_HOME", "EDITOR", "PAGER"] {
        assert!(environment.passes(name), "{name}");
    }
    for name in ["AWS_SECRET_ACCESS_KEY", "EDITOR2", "CARGO", "PROVOST_TOKEN", "LD_PRELOAD", ""] {
        assert!(!environment.passes(name), "{name}");
    }
}
