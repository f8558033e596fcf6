//! The section of an agent that an adapter supports, its skills and budgets.

use std::path::Path;

use insta::assert_snapshot;
use provost_config::{Approvals, Sandbox, Switchable, ValueSource, Variable};

use crate::support::{ChatSettings, layers, problems};

#[test]
fn section_needs_no_configuration() {
    let resolved = layers().resolve();
    assert!(resolved.agents.is_empty());
    let chat = ChatSettings::from_config(&resolved);
    assert_eq!(
        (chat.path, chat.model, chat.home),
        (Switchable::Unset, Switchable::Unset, Switchable::Unset)
    );
    assert_eq!((chat.sandbox, chat.approvals), (Sandbox::WorkspaceWrite, Approvals::OnRequest));
    assert!(chat.questions && !chat.network);
}

#[test]
fn section_is_merged_from_all_layers() {
    let resolved = layers()
        .user("[agents.chat]\nmodel = \"m1\"\neffort = \"low\"\nhome = \"~/other\"\nsandbox = \"read-only\"\nenv = { KEY = \"$KEY\" }")
        .project("[agents.chat]\nmodel = \"m2\"\neffort = \"off\"\nquestions = false\npass_env = [\"AZURE_*\"]")
        .environment(&[("PROVOST_AGENTS_CHAT_SANDBOX", "full-access")])
        .flag("--approvals", "agents.chat.approvals", "never")
        .flag("--network", "agents.chat.network", "true")
        .resolve();
    let chat = &ChatSettings::from_config(&resolved);
    assert_eq!(chat.model.on().map(|model| model.as_str()), Some("m2"));
    assert_eq!(chat.effort, Switchable::Off);
    assert_eq!(chat.home.on().map(|home| home.as_str()), Some("~/other"));
    assert_eq!((chat.sandbox, chat.approvals), (Sandbox::FullAccess, Approvals::Never));
    assert!(chat.network && !chat.questions);
    assert!(chat.pass_env.matches("AZURE_KEY"));
    assert_eq!(chat.env.get("KEY"), Some(&Variable::Reference("KEY".into())));
    assert!(resolved.agents.is_empty());
}

#[test]
fn short_variable_precedence() {
    let file = "agents.chat.path = \"bin/chat\"";
    let path = |layers: crate::support::TestLayers| {
        let resolved = layers.resolve();
        let text =
            ChatSettings::from_config(&resolved).path.on().map(|path| path.as_str().to_owned());
        (text.unwrap(), resolved.provenance["agents.chat.path"].clone())
    };
    let variables = [("PROVOST_CHAT", "/v/chat")];
    assert_eq!(path(layers().project(file)).0, "bin/chat");
    let (text, source) = path(layers().project(file).environment(&variables));
    let variable = ValueSource::Environment { variable: "PROVOST_CHAT".into() };
    assert_eq!((text.as_str(), source), ("/v/chat", variable));
    let flagged = layers().project(file).environment(&variables);
    let (text, source) = path(flagged.flag("--chat-path", "agents.chat.path", "/f/chat"));
    assert_eq!(
        (text.as_str(), source),
        ("/f/chat", ValueSource::Flag { flag: "--chat-path".into() })
    );
}

#[test]
fn relative_paths_start_at_their_file() {
    let resolved = layers()
        .user("skills.roots = [\"mine\"]\nagents.chat.path = \"chat\"")
        .environment(&[("PROVOST_CHAT", "x/chat")])
        .resolve();
    assert_eq!(resolved.directory_of("skills.roots"), Some(Path::new("/home/u")));
    assert_eq!(resolved.directory_of("agents.chat.path"), None);
    assert_eq!(resolved.directory_of("agents.chat.home"), None);
}

#[test]
fn generic_agent_keys_are_refused_in_section() {
    assert_snapshot!(problems("[agents.chat]\ncommand = [\"chat\"]\nadapter = \"jsonl\"\n"), @r#"
    unknown key "agents.chat.command" at provost.toml:2:1; the agent "chat" is built in; set "agents.chat.path" to use a program other than the newest one found
    unknown key "agents.chat.adapter" at provost.toml:3:1; the agent "chat" is built in; set "agents.chat.path" to use a program other than the newest one found
    "#);
    assert_snapshot!(problems("[agents.mine]\ncommand = [\"x\"]\nmodel = \"m\"\n"), @r#"unknown key "agents.mine.model" at provost.toml:3:1; did you mean "agents.chat.model"?"#);
}

#[test]
fn invalid_keyword_suggests_nearest() {
    assert_snapshot!(problems("[agents.chat]\nmodle = \"m\"\nsandbox = \"workspace\"\napprovals = \"on-failure\"\nmodel = \"a b\"\npath = \"\"\n"), @r#"
    unknown key "agents.chat.modle" at provost.toml:2:1; did you mean "agents.chat.model"?
    invalid value for "agents.chat.sandbox" at provost.toml:3:11; expected "read-only", "workspace-write" or "full-access", found "workspace"
    invalid value for "agents.chat.approvals" at provost.toml:4:13; expected "untrusted", "on-request" or "never", found "on-failure"
    invalid value for "agents.chat.model" at provost.toml:5:9; expected 1 to 200 characters without blanks, and no "-" first
    invalid value for "agents.chat.path" at provost.toml:6:8; the path is empty
    "#);
    assert_snapshot!(problems("[agents.chat]\nsandbox = \"read_only\"\n"), @r#"invalid value for "agents.chat.sandbox" at provost.toml:2:11; expected "read-only", "workspace-write" or "full-access", found "read_only"; did you mean "read-only"?"#);
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

#[test]
fn keys_of_section_state_their_need_for_trust() {
    crate::support::register();
    let effect = provost_config::trust_effect;
    assert_eq!(effect("agents.chat.path"), Some(Some("the program to run as Chat")));
    assert_eq!(effect("agents.chat.env.X"), Some(Some("environment variables of programs")));
    assert_eq!(effect("agents.chat.model"), Some(None));
    assert_eq!(effect("agents.other.command"), None);
    for (key, needed) in [
        ("agents.chat.path", true),
        ("agents.chat.env.X", true),
        ("agents.chat.model", false),
        ("agents.chat.key_of_tomorrow", true),
        ("presets.p.agents.chat.effort", false),
    ] {
        assert_eq!(provost_config::trust::needs_trust(key), needed, "{key}");
    }
}
