//! Screens of Codex, captured from tmux.

use std::path::Path;

use provost_agent::screen::{FrameDebouncer, ScreenKind, ScreenReading};
use provost_agent_codex::screen::{CodexReading, CodexScreenKind, classify};
use provost_core::session::ScreenHint;
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
        ("0.166/trust", CodexScreenKind::Trust),
        ("0.166/hook-trust", CodexScreenKind::HookTrust),
        ("0.166/login", CodexScreenKind::Login),
        ("0.166/migration", CodexScreenKind::ModelMigration),
        ("0.166/starting", CodexScreenKind::Composer),
        ("0.166/idle", CodexScreenKind::Composer),
        ("0.166/typed", CodexScreenKind::Composer),
        ("0.166/said-words-of-an-end", CodexScreenKind::Composer),
        ("0.166/interrupted", CodexScreenKind::Composer),
        ("0.166/approval", CodexScreenKind::Approval),
        ("0.166/question", CodexScreenKind::Question),
        ("0.166/plan", CodexScreenKind::Plan),
        ("0.166/working", CodexScreenKind::Working),
        ("0.166/retrying", CodexScreenKind::Retrying),
        ("0.107/trust", CodexScreenKind::Trust),
        ("0.107/update", CodexScreenKind::Update),
        ("0.107/login", CodexScreenKind::Login),
        ("0.107/migration", CodexScreenKind::ModelMigration),
        ("0.107/starting", CodexScreenKind::Composer),
        ("0.107/idle", CodexScreenKind::Composer),
        ("0.107/said-words-of-an-end", CodexScreenKind::Composer),
        ("0.107/approval", CodexScreenKind::Approval),
        ("0.107/question", CodexScreenKind::Question),
        ("0.107/working", CodexScreenKind::Working),
        ("0.107/retrying", CodexScreenKind::Retrying),
        ("0.107/interrupted", CodexScreenKind::Composer),
    ];
    for (name, shown) in screens {
        assert_eq!(classify(&screen(name), Some(version(name))).kind, shown, "{name}");
        assert_eq!(classify(&screen(name), None).kind, shown, "{name} of an unknown version");
    }
}

#[test]
fn active_turn_may_show_no_sign() {
    // The model hangs in plan mode, and only other sources know that the agent is not idle.
    assert_eq!(
        classify(&screen("0.166/working-without-a-sign"), None).kind,
        CodexScreenKind::Composer
    );
}

#[test]
fn dialog_keeps_all_its_text() {
    let CodexReading { lines, .. } = classify(&screen("0.166/approval"), None);
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
        assert_eq!(classify(&lines, None).kind, CodexScreenKind::Composer, "{forged}");
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
        assert_eq!(classify(&shell, None).kind, CodexScreenKind::Nothing, "{end:?}");
    }
    assert_eq!(classify(&[], None).kind, CodexScreenKind::Nothing);
}

#[test]
fn unmatched_choice_is_unknown_dialog() {
    let lines = ["  Something new", "", "› 1. One", "  2. Two", "", "  enter choose · esc leave"]
        .map(str::to_owned);
    let reading = classify(&lines, None);
    assert_eq!(reading.kind, CodexScreenKind::UnknownDialog);
    assert!(reading.kind.is_dialog());
    assert_eq!(reading.lines.len(), 6);
}

#[test]
fn other_version_dialog_does_not_match() {
    assert_eq!(
        classify(&screen("0.107/trust"), Some((0, 166))).kind,
        CodexScreenKind::UnknownDialog
    );
}

#[test]
fn truncated_dialog_is_never_composer() {
    for name in ["0.166/trust", "0.166/approval", "0.166/question", "0.107/approval", "0.107/trust"]
    {
        let lines = screen(name);
        for height in 0..lines.len() {
            let shown = classify(&lines[..height], None).kind;
            assert_ne!(shown, CodexScreenKind::Composer, "{name} up to line {height}");
        }
    }
}

#[test]
fn stream_is_classified_by_its_screen() {
    let mut drawn = TerminalScreen::new(40, 110);
    drawn.feed(screen("0.166/approval").join("\r\n").as_bytes());
    let mut steady = FrameDebouncer::default();
    let reading = || ScreenReading::from(&classify(&drawn.lines(), None));
    assert_eq!(steady.frame(reading()), None);
    assert_eq!(steady.frame(reading()).map(|reading| reading.kind), Some(ScreenKind::Approval));
}

/// Draws an approval of a command.
fn approval(command: &str) -> ScreenReading {
    let text = format!(
        "  Would you like to run the following command?\n\n  Reason: May I?\n\n  $ {command}\n\n› 1. Yes (y)\n  \
         2. No (esc)\n\n  Press enter to confirm or esc to cancel"
    );
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    ScreenReading::from(&classify(&lines, None))
}

#[test]
fn different_approval_is_reported() {
    let mut steady = FrameDebouncer::default();
    let reported = ["ls", "ls", "rm x", "rm x", "rm x"].map(|command| {
        let reading = steady.frame(approval(command));
        reading.is_some().then_some(command)
    });
    assert_eq!(reported, [None, Some("ls"), None, Some("rm x"), None]);
}

#[test]
fn screen_approval_has_its_command() {
    let Some(ScreenHint::ShowsRequest(asked)) = approval("touch x").hint else {
        panic!("an approval");
    };
    assert_eq!(asked.title, "Would you like to run the following command? touch x");
    let subject = asked.subject.unwrap();
    assert_eq!(subject.command.as_deref(), Some("touch x"));
    assert_eq!(subject.reason.as_deref(), Some("May I?"));
}
