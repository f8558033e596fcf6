//! Recorded sessions, rendered as text.

use provost_agent::Adapter as _;
use provost_agent_codex::CodexAdapter;
use provost_core::session::AgentMode;

use super::recorded::{self, RecordedLine};

fn shown(mode: AgentMode, dir: &str, name: &str, stream: &str) -> String {
    let transcript = recorded::one(dir, name);
    let lines = transcript.rows.iter().filter(|row| row.dir == stream).map(RecordedLine::line);
    let render = CodexAdapter.renderer(mode).unwrap();
    lines.filter_map(|line| render(&line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn app_server_sessions_render_as_text() {
    for name in [
        "02-turn-with-shell-and-patch",
        "04-outputschema-and-errors",
        "10-cmd-approval-accept",
        "60-code-mode-model",
        "61-request-user-input-async",
        "71-mcp-config-at-thread-start",
        "80-multi-agent-v2",
        "98-retries",
    ] {
        insta::assert_snapshot!(name, shown(AgentMode::Headless, "app-server", name, "recv"));
    }
}

#[test]
fn runs_of_exec_are_shown_as_text() {
    for name in [
        "01-success-shell-patch",
        "02-failing-command",
        "03-model-error-EUSAGE",
        "28-no-json-human",
        "40-todo-list",
    ] {
        let text = shown(AgentMode::Once, "exec", name, "stdout");
        insta::assert_snapshot!(format!("exec-{name}"), text);
    }
}

#[test]
fn long_output_renders_its_tail() {
    let output: String = (0..100).map(|no| format!("line {no}\\n")).collect();
    let item = format!(
        r#"{{"type":"command_execution","command":"seq","exit_code":1,"aggregated_output":"{output}"}}"#
    );
    let line = format!(r#"{{"type":"item.completed","item":{item}}}"#);
    let render = CodexAdapter.renderer(AgentMode::Once).unwrap();
    let text = render(line.as_bytes()).unwrap();
    assert!(text.starts_with("$ seq  [exit 1]\n  … 90 earlier lines\n  line 90\n"), "{text}");
    assert!(text.ends_with("line 99"), "{text}");
}

#[test]
fn non_protocol_lines_render_unchanged() {
    for mode in [AgentMode::Headless, AgentMode::Once] {
        let render = CodexAdapter.renderer(mode).unwrap();
        assert_eq!(render(b"plain \xff\n").as_deref(), Some("plain \u{fffd}"));
    }
    assert!(CodexAdapter.renderer(AgentMode::Terminal).is_none());
}
