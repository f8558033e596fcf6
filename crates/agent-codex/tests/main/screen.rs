//! Screens of Codex, captured from tmux.

use std::path::Path;

use provost_agent_codex::screen::{FrameDebouncer, ScreenKind, ScreenReading, classify};
use provost_terminal::TerminalScreen;

fn screen(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/screen")
        .join(format!("{name}.txt"));
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn version(name: &str) -> (u64, u64) {
    if name.starts_with("0.107") { (0, 107) } else { (0, 166) }
}

#[test]
fn captured_screens_are_classified() {
    let screens = [
        ("0.166/trust", ScreenKind::Trust),
        ("0.166/hook-trust", ScreenKind::HookTrust),
        ("0.166/login", ScreenKind::Login),
        ("0.166/migration", ScreenKind::ModelMigration),
        ("0.166/starting", ScreenKind::Composer),
        ("0.166/idle", ScreenKind::Composer),
        ("0.166/typed", ScreenKind::Composer),
        ("0.166/said-words-of-an-end", ScreenKind::Composer),
        ("0.166/interrupted", ScreenKind::Composer),
        ("0.166/approval", ScreenKind::Approval),
        ("0.166/question", ScreenKind::Question),
        ("0.166/plan", ScreenKind::Plan),
        ("0.166/working", ScreenKind::Working),
        ("0.166/retrying", ScreenKind::Retrying),
        ("0.107/trust", ScreenKind::Trust),
        ("0.107/update", ScreenKind::Update),
        ("0.107/login", ScreenKind::Login),
        ("0.107/migration", ScreenKind::ModelMigration),
        ("0.107/starting", ScreenKind::Composer),
        ("0.107/idle", ScreenKind::Composer),
        ("0.107/said-words-of-an-end", ScreenKind::Composer),
        ("0.107/approval", ScreenKind::Approval),
        ("0.107/question", ScreenKind::Question),
        ("0.107/working", ScreenKind::Working),
        ("0.107/retrying", ScreenKind::Retrying),
        ("0.107/interrupted", ScreenKind::Composer),
    ];
    for (name, shown) in screens {
        assert_eq!(classify(&screen(name), Some(version(name))).kind, shown, "{name}");
        assert_eq!(classify(&screen(name), None).kind, shown, "{name} of an unknown version");
    }
}

#[test]
fn active_turn_may_show_no_sign() {
    // The model hangs in plan mode, and only other sources know that the agent is not idle.
    assert_eq!(classify(&screen("0.166/working-without-a-sign"), None).kind, ScreenKind::Composer);
}

#[test]
fn dialog_keeps_all_its_text() {
    let ScreenReading { lines, .. } = classify(&screen("0.166/approval"), None);
    let text = lines.join("\n");
    for words in [
        "Would you like to run the following command?",
        "Reason: May I go out?",
        "$ touch",
        "3. No, and",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Inserts lines above the composer, like a message of the agent.
fn with_message(name: &str, message: &[String]) -> Vec<String> {
    let mut lines = screen(name);
    let composer = lines.iter().rposition(|line| line.starts_with('›')).unwrap();
    let message = message.iter().map(|line| format!("  {line}")).chain([String::new()]);
    lines.splice(composer..composer, message);
    lines
}

#[test]
fn dialog_text_in_output_is_ignored() {
    for forged in ["0.166/trust", "0.166/approval", "0.166/question", "0.166/plan", "0.166/login"] {
        let lines = with_message("0.166/idle", &screen(forged));
        assert_eq!(classify(&lines, None).kind, ScreenKind::Composer, "{forged}");
    }
}

#[test]
fn shell_prompts_are_not_classified() {
    for end in [
        "user@host:~$ ",
        "host% ",
        "root@host:/# ",
        "tokens used",
        "❯ ",
        "> ",
        "100%",
        "$",
        "›",
        "› ",
    ] {
        let shell = ["some output", "", "tokens used", "1,234", "", end].map(str::to_owned);
        assert_eq!(classify(&shell, None).kind, ScreenKind::Nothing, "{end:?}");
    }
    assert_eq!(classify(&[], None).kind, ScreenKind::Nothing);
}

#[test]
fn unmatched_choice_is_unknown_dialog() {
    let lines = ["  Something new", "", "› 1. One", "  2. Two", "", "  enter choose · esc leave"]
        .map(str::to_owned);
    let reading = classify(&lines, None);
    assert_eq!(reading.kind, ScreenKind::UnknownDialog);
    assert!(reading.kind.is_dialog());
    assert_eq!(reading.lines.len(), 6);
}

#[test]
fn other_version_dialog_does_not_match() {
    assert_eq!(classify(&screen("0.107/trust"), Some((0, 166))).kind, ScreenKind::UnknownDialog);
}

#[test]
fn truncated_dialog_is_never_composer() {
    for name in ["0.166/trust", "0.166/approval", "0.166/question", "0.107/approval", "0.107/trust"]
    {
        let lines = screen(name);
        for height in 0..lines.len() {
            let shown = classify(&lines[..height], None).kind;
            assert_ne!(shown, ScreenKind::Composer, "{name} up to line {height}");
        }
    }
}

#[test]
fn stream_is_classified_by_its_screen() {
    let mut drawn = TerminalScreen::new(40, 110);
    drawn.feed(screen("0.166/approval").join("\r\n").as_bytes());
    let mut steady = FrameDebouncer::default();
    assert_eq!(steady.frame(classify(&drawn.lines(), None)), None);
    assert_eq!(
        steady.frame(classify(&drawn.lines(), None)).map(|reading| reading.kind),
        Some(ScreenKind::Approval)
    );
}
