//! The built-in agent, its skills and budgets.

use std::path::Path;

use insta::assert_snapshot;
use provost_config::{Approvals, Sandbox, Switchable, ValueSource, Variable};

use crate::support::{layers, problems};

#[test]
fn codex_is_built_in() {
    let resolved = layers().resolve();
    assert!(resolved.agents.is_empty());
    let codex = resolved.codex;
    assert_eq!(
        (codex.path, codex.model, codex.home),
        (Switchable::Unset, Switchable::Unset, Switchable::Unset)
    );
    assert_eq!((codex.sandbox, codex.approvals), (Sandbox::WorkspaceWrite, Approvals::OnRequest));
    assert!(codex.questions && !codex.network);
}

#[test]
fn codex_is_merged_from_all_layers() {
    let resolved = layers()
        .user("[agents.codex]\nmodel = \"m1\"\neffort = \"low\"\nhome = \"~/other\"\nsandbox = \"read-only\"\nenv = { KEY = \"$KEY\" }")
        .project("[agents.codex]\nmodel = \"m2\"\neffort = \"off\"\nquestions = false\npass_env = [\"AZURE_*\"]")
        .environment(&[("PROVOST_AGENTS_CODEX_SANDBOX", "full-access")])
        .flag("--approvals", "agents.codex.approvals", "never")
        .flag("--network", "agents.codex.network", "true")
        .resolve();
    let codex = &resolved.codex;
    assert_eq!(codex.model.on().map(|model| model.as_str()), Some("m2"));
    assert_eq!(codex.effort, Switchable::Off);
    assert_eq!(codex.home.on().map(|home| home.as_str()), Some("~/other"));
    assert_eq!((codex.sandbox, codex.approvals), (Sandbox::FullAccess, Approvals::Never));
    assert!(codex.network && !codex.questions);
    assert!(codex.pass_env.matches("AZURE_KEY"));
    assert_eq!(codex.env.get("KEY"), Some(&Variable::Reference("KEY".into())));
    assert!(resolved.agents.is_empty());
}

#[test]
fn codex_path_precedence() {
    let file = "agents.codex.path = \"bin/codex\"";
    let path = |layers: crate::support::TestLayers| {
        let resolved = layers.resolve();
        let text = resolved.codex.path.on().map(|path| path.as_str().to_owned());
        (text.unwrap(), resolved.provenance["agents.codex.path"].clone())
    };
    let variables = [("PROVOST_CODEX", "/v/codex")];
    assert_eq!(path(layers().project(file)).0, "bin/codex");
    let (text, source) = path(layers().project(file).environment(&variables));
    let variable = ValueSource::Environment { variable: "PROVOST_CODEX".into() };
    assert_eq!((text.as_str(), source), ("/v/codex", variable));
    let flagged = layers().project(file).environment(&variables);
    let (text, source) = path(flagged.flag("--codex-path", "agents.codex.path", "/f/codex"));
    assert_eq!(
        (text.as_str(), source),
        ("/f/codex", ValueSource::Flag { flag: "--codex-path".into() })
    );
}

#[test]
fn relative_paths_start_at_their_file() {
    let resolved = layers()
        .user("skills.roots = [\"mine\"]\nagents.codex.path = \"codex\"")
        .environment(&[("PROVOST_CODEX", "x/codex")])
        .resolve();
    assert_eq!(resolved.directory_of("skills.roots"), Some(Path::new("/home/u")));
    assert_eq!(resolved.directory_of("agents.codex.path"), None);
    assert_eq!(resolved.directory_of("agents.codex.home"), None);
}

#[test]
fn generic_agent_keys_are_refused_for_codex() {
    assert_snapshot!(problems("[agents.codex]\ncommand = [\"codex\"]\nadapter = \"jsonl\"\n"), @r#"
    unknown key "agents.codex.command" at provost.toml:2:1; the agent "codex" is built in; set "agents.codex.path" to use a program other than the newest one found
    unknown key "agents.codex.adapter" at provost.toml:3:1; the agent "codex" is built in; set "agents.codex.path" to use a program other than the newest one found
    "#);
    assert_snapshot!(problems("[agents.mine]\ncommand = [\"x\"]\nmodel = \"m\"\n"), @r#"unknown key "agents.mine.model" at provost.toml:3:1; did you mean "agents.codex.model"?"#);
}

#[test]
fn invalid_keyword_suggests_nearest() {
    assert_snapshot!(problems("[agents.codex]\nmodle = \"m\"\nsandbox = \"workspace\"\napprovals = \"on-failure\"\nmodel = \"a b\"\npath = \"\"\n"), @r#"
    unknown key "agents.codex.modle" at provost.toml:2:1; did you mean "agents.codex.model"?
    invalid value for "agents.codex.sandbox" at provost.toml:3:11; expected "read-only", "workspace-write" or "full-access", found "workspace"
    invalid value for "agents.codex.approvals" at provost.toml:4:13; expected "untrusted", "on-request" or "never", found "on-failure"
    invalid value for "agents.codex.model" at provost.toml:5:9; expected 1 to 200 characters without blanks, and no "-" first
    invalid value for "agents.codex.path" at provost.toml:6:8; the path is empty
    "#);
    assert_snapshot!(problems("[agents.codex]\nsandbox = \"read_only\"\n"), @r#"invalid value for "agents.codex.sandbox" at provost.toml:2:11; expected "read-only", "workspace-write" or "full-access", found "read_only"; did you mean "read-only"?"#);
}

#[test]
fn budgets_parse_tokens_turns_and_off() {
    let resolved = layers()
        .user("[budget]\ntokens = \"500k\"\nturns = 7")
        .project("budget.turns = \"off\"")
        .environment(&[("PROVOST_BUDGET_TOKENS", "2M")])
        .resolve();
    assert_eq!(resolved.budget.tokens.on().map(|tokens| tokens.get()), Some(2_000_000));
    assert_eq!(resolved.budget.turns, Switchable::Off);
    assert_snapshot!(problems("[budget]\ntokens = \"2m\"\nturns = 0\n"), @r#"
    invalid value for "budget.tokens" at provost.toml:2:10; "2m" is not a number of tokens: unknown unit "m", did you mean "M"?
    value out of range for "budget.turns" at provost.toml:3:9; expected 1 to 1000000, found 0
    "#);
    assert_snapshot!(problems("budget.tokens = 0"), @r#"value out of range for "budget.tokens" at provost.toml:1:17; expected 1 to 1000G, found 0"#);
    assert_snapshot!(problems("budget.tokens = 1.5"), @r#"wrong type for "budget.tokens" at provost.toml:1:17; expected a number of tokens such as "2M" or "500k", or "off", found a float"#);
}
