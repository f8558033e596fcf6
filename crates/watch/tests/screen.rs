//! Screens of Codex, captured from tmux.

use std::path::Path;

use provost_watch::screen::{Reading, Shown, Steady, read};
use provost_watch::terminal::Screen;

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
fn every_captured_screen_is_read_as_what_it_is() {
    let screens = [
        ("0.166/trust", Shown::Trust),
        ("0.166/hook-trust", Shown::HookTrust),
        ("0.166/login", Shown::Login),
        ("0.166/migration", Shown::ModelMigration),
        ("0.166/starting", Shown::Composer),
        ("0.166/idle", Shown::Composer),
        ("0.166/typed", Shown::Composer),
        ("0.166/said-words-of-an-end", Shown::Composer),
        ("0.166/interrupted", Shown::Composer),
        ("0.166/approval", Shown::Approval),
        ("0.166/question", Shown::Question),
        ("0.166/plan", Shown::Plan),
        ("0.166/working", Shown::Working),
        ("0.166/retrying", Shown::Retrying),
        ("0.107/trust", Shown::Trust),
        ("0.107/update", Shown::Update),
        ("0.107/login", Shown::Login),
        ("0.107/migration", Shown::ModelMigration),
        ("0.107/starting", Shown::Composer),
        ("0.107/idle", Shown::Composer),
        ("0.107/said-words-of-an-end", Shown::Composer),
        ("0.107/approval", Shown::Approval),
        ("0.107/question", Shown::Question),
        ("0.107/working", Shown::Working),
        ("0.107/retrying", Shown::Retrying),
        ("0.107/interrupted", Shown::Composer),
    ];
    for (name, shown) in screens {
        assert_eq!(read(&screen(name), Some(version(name))).shown, shown, "{name}");
        assert_eq!(read(&screen(name), None).shown, shown, "{name} of an unknown version");
    }
}

#[test]
fn a_turn_may_be_under_way_without_a_sign_of_it() {
    // The model hangs in plan mode: only other sources know that the agent is not idle.
    assert_eq!(read(&screen("0.166/working-without-a-sign"), None).shown, Shown::Composer);
}

#[test]
fn a_dialog_is_shown_with_all_its_words() {
    let Reading { lines, .. } = read(&screen("0.166/approval"), None);
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
fn a_dialog_in_what_the_agent_says_is_no_dialog() {
    for forged in ["0.166/trust", "0.166/approval", "0.166/question", "0.166/plan", "0.166/login"] {
        let lines = with_message("0.166/idle", &screen(forged));
        assert_eq!(read(&lines, None).shown, Shown::Composer, "{forged}");
    }
}

#[test]
fn prompts_of_shells_and_words_of_an_end_are_nothing() {
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
        assert_eq!(read(&shell, None).shown, Shown::Nothing, "{end:?}");
    }
    assert_eq!(read(&[], None).shown, Shown::Nothing);
}

#[test]
fn a_choice_that_no_rule_knows_is_an_unknown_dialog() {
    let lines = ["  Something new", "", "› 1. One", "  2. Two", "", "  enter choose · esc leave"]
        .map(str::to_owned);
    let reading = read(&lines, None);
    assert_eq!(reading.shown, Shown::UnknownDialog);
    assert!(reading.shown.is_dialog());
    assert_eq!(reading.lines.len(), 6);
}

#[test]
fn a_dialog_of_another_version_is_not_taken_for_one_that_is_known() {
    assert_eq!(read(&screen("0.107/trust"), Some((0, 166))).shown, Shown::UnknownDialog);
}

#[test]
fn any_cut_of_a_dialog_is_never_read_as_a_place_to_type() {
    for name in ["0.166/trust", "0.166/approval", "0.166/question", "0.107/approval", "0.107/trust"]
    {
        let lines = screen(name);
        for height in 0..lines.len() {
            let shown = read(&lines[..height], None).shown;
            assert_ne!(shown, Shown::Composer, "{name} up to line {height}");
        }
    }
}

#[test]
fn a_stream_is_read_from_the_screen_that_it_draws() {
    let mut drawn = Screen::new(40, 110);
    drawn.feed(screen("0.166/approval").join("\r\n").as_bytes());
    let mut steady = Steady::default();
    assert_eq!(steady.frame(read(&drawn.lines(), None)), None);
    assert_eq!(
        steady.frame(read(&drawn.lines(), None)).map(|reading| reading.shown),
        Some(Shown::Approval)
    );
}
