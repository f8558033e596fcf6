//! What `config show` has to tell.

use insta::assert_snapshot;
use provost_config::Resolved;

use crate::support::layers;

#[test]
fn an_entry_tells_its_source_and_what_it_hides() {
    let resolved = layers()
        .user("session.settle = 1")
        .project("\n[session]\n  settle = \"1500ms\"")
        .environment(&[("PROVOST_SESSION_SETTLE", "3s")])
        .flag("--settle", "session.settle", "4s")
        .resolve();
    let entry = resolved.explain().iter().find(|entry| entry.key == "session.settle").unwrap();
    assert_snapshot!(serde_json::to_string_pretty(entry).unwrap(), @"");
}

#[test]
fn the_listing_follows_the_table() {
    let project = "ui.color = \"never\"\n[agents.b]\ncommand = [\"y\"]\n[agents.a]\ncommand = [\"x\"]\nenv.Z = \"z\"";
    let resolved = layers().project(project).user("session.time_limit = false").resolve();
    assert_snapshot!(listing(&resolved), @"");
}

#[test]
fn values_of_an_agents_environment_are_masked_everywhere() {
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
