//! Rollouts that Codex wrote, with long texts shortened.

use std::path::{Path, PathBuf};

use provost_agent_codex::ThreadId;
use provost_agent_codex::rollout::{
    LimitReset, NextLine, RecordedTurnEnd, RolloutEvent, RolloutFold, RolloutLine, RolloutTail,
    TurnRecording,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/rollout")
        .join(format!("{name}.jsonl"))
}

fn read(fold: &mut RolloutFold, path: &Path) -> Vec<RolloutEvent> {
    let mut tail = RolloutTail::open(path, 0).unwrap();
    let mut found = Vec::new();
    while let NextLine::Line(line) = tail.next_line().unwrap() {
        fold.line(&line, |event| found.push(event));
    }
    found
}

fn fixture_events(name: &str) -> Vec<RolloutEvent> {
    read(&mut RolloutFold::new(), &fixture(name))
}

fn fold_text(text: &str) -> Vec<RolloutEvent> {
    let mut fold = RolloutFold::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let line = RolloutLine { bytes: line.as_bytes(), len: line.len() as u64, after: 0 };
        fold.line(&line, |event| found.push(event));
    }
    found
}

/// Returns the turns and messages as short texts.
fn summarize(events: &[RolloutEvent]) -> Vec<String> {
    let word = |event: &RolloutEvent| match event {
        RolloutEvent::Session(meta) => Some(format!("session {}", meta.cli_version.clone()?)),
        RolloutEvent::TurnStarted { .. } => Some("started".to_owned()),
        RolloutEvent::TurnEnded { end: RecordedTurnEnd::Ok { .. }, .. } => Some("ok".to_owned()),
        RolloutEvent::TurnEnded { end: RecordedTurnEnd::Error { kind, .. }, .. } => {
            Some(format!("error {}", kind.clone()?))
        }
        RolloutEvent::TurnEnded { end: RecordedTurnEnd::Aborted { reason }, .. } => {
            Some(format!("aborted {}", reason.clone()?))
        }
        RolloutEvent::UserMessage { text, .. } => Some(format!("said {text}")),
        RolloutEvent::Plan(plan) => Some(format!("plan {:?}", plan.progress())),
        RolloutEvent::Compacted => Some("compacted".to_owned()),
        RolloutEvent::Unreadable { .. } => Some("unreadable".to_owned()),
        RolloutEvent::Tokens(_) | RolloutEvent::Limits(_) | RolloutEvent::Alive => None,
    };
    events.iter().filter_map(word).collect()
}

#[test]
fn turn_ends_are_ok_or_typed_errors() {
    let events = fixture_events("errors-and-compaction");
    let story = summarize(&events);
    let expected = [
        "session 0.166.0",
        "started",
        "said OK-1 please",
        "plan (1, 2)",
        "ok",
        "started",
        "said SCHEMA go",
        "ok",
        "started",
        "error other",
        "started",
        "error usage_limit_exceeded",
    ];
    let without_later_words: Vec<_> =
        story.iter().filter(|word| !word.starts_with("said E")).collect();
    assert_eq!(&without_later_words[..expected.len()], &expected, "{story:#?}");
    assert!(story.contains(&"error context_window_exceeded".to_owned()));
    assert_eq!(story.iter().filter(|word| *word == "compacted").count(), 1);
}

#[test]
fn token_and_limit_changes_are_reported() {
    let events = fixture_events("errors-and-compaction");
    let tokens: Vec<_> = events
        .iter()
        .filter_map(
            |event| if let RolloutEvent::Tokens(tokens) = event { Some(*tokens) } else { None },
        )
        .collect();
    assert_eq!(tokens[0].total.total, 1050);
    assert_eq!(
        (tokens[1].total.total, tokens[1].response.total, tokens[1].filled()),
        (2310, 1260, 1260)
    );
    assert_eq!(tokens[1].window, Some(258_400));
    assert!(tokens.windows(2).all(|pair| pair[0] != pair[1]));
    let limits: Vec<_> = events
        .iter()
        .filter_map(
            |event| if let RolloutEvent::Limits(limits) = event { limits.primary } else { None },
        )
        .collect();
    assert_eq!(limits[0].used_percent, 100.0);
    assert_eq!(
        (limits[0].minutes, limits[0].reset),
        (Some(300), Some(LimitReset::At(1_794_780_000)))
    );
    assert_eq!(limits[1].used_percent, 42.5);
}

#[test]
fn input_is_confirmed_by_client_id() {
    let events = fixture_events("terminal");
    let ids: Vec<_> = events
        .iter()
        .filter_map(|event| {
            let RolloutEvent::UserMessage { client_id, text, turn } = event else { return None };
            Some((client_id.as_deref()?, text.as_str(), turn.as_deref()?))
        })
        .collect();
    assert_eq!(
        ids[0],
        (
            "a85a0774-7db1-4f9d-b8e8-62822e5cfe82",
            "HELLO one",
            "01a1e08b-640d-70a0-9e51-78a46de3d154"
        )
    );
    assert!(ids.len() >= 6, "{ids:#?}");
}

#[test]
fn an_interrupted_turn_is_aborted() {
    assert_eq!(summarize(&fixture_events("interrupted")).last().unwrap(), "aborted interrupted");
}

#[test]
fn killed_turn_has_no_end() {
    let events = fixture_events("killed-and-resumed");
    let story: Vec<_> =
        summarize(&events).into_iter().filter(|word| !word.starts_with("said")).collect();
    assert_eq!(story, ["session 0.166.0", "started", "ok", "started", "started", "ok"]);
}

#[test]
fn older_history_format_yields_same_events() {
    assert_eq!(
        summarize(&fixture_events("legacy")),
        ["session 0.166.0", "started", "said SHX", "ok"]
    );
}

#[test]
fn the_oldest_supported_version_records_turns() {
    let mut fold = RolloutFold::new();
    let events = read(&mut fold, &fixture("version-0.107"));
    assert_eq!(fold.turns(), TurnRecording::Recorded);
    assert!(fold.turn().is_some());
    assert_eq!(summarize(&events).last().unwrap(), "said HANGS now");
}

#[test]
fn version_without_turns_reports_none() {
    let mut fold = RolloutFold::new();
    let events = read(&mut fold, &fixture("version-0.63"));
    assert_eq!(fold.turns(), TurnRecording::NotRecorded);
    let story = summarize(&events);
    assert!(
        story.iter().all(|word| word.starts_with("said") || word.starts_with("session")),
        "{story:#?}"
    );
    assert!(events.iter().filter(|event| **event == RolloutEvent::Alive).count() > 10);
}

#[test]
fn fork_skips_parent_history() {
    let events = fixture_events("forked-child");
    let RolloutEvent::Session(meta) = &events[0] else { panic!("{:?}", events[0]) };
    assert_eq!(meta.thread.as_str(), "01a1e07d-362f-7533-9c68-7c09cd1f5b34");
    assert_eq!(
        meta.parent.as_ref().map(ThreadId::as_str),
        Some("01a1e07d-352a-7e12-8802-a4409dd02b19")
    );
    assert_eq!(summarize(&events), ["session 0.166.0", "started", "ok"]);
}

#[test]
fn fork_without_ordinals_skips_older_turns() {
    let text = std::fs::read_to_string(fixture("forked-child")).unwrap();
    let older = text.replace("subagent_history_start_ordinal", "unknown_field");
    assert_eq!(summarize(&fold_text(&older)), ["session 0.166.0", "started", "ok"]);
}

#[test]
fn file_of_other_thread_yields_nothing() {
    let wanted = ThreadId::parse("01a1e07d-352a-7e12-8802-a4409dd02b19").unwrap();
    assert_eq!(read(&mut RolloutFold::for_thread(wanted), &fixture("child")), []);
    let own = ThreadId::parse("01a1e07d-35b3-7ec0-9e13-1aafc4e2902c").unwrap();
    assert_eq!(
        summarize(&read(&mut RolloutFold::for_thread(own), &fixture("child"))),
        ["session 0.166.0", "started", "ok"]
    );
}

#[test]
fn head_classification_matches_parser() {
    for name in
        ["errors-and-compaction", "legacy", "version-0.63", "version-0.107", "terminal", "child"]
    {
        let text = std::fs::read_to_string(fixture(name)).unwrap();
        // A list at the beginning of the line stops the scan, so the line must be parsed.
        let slow: String =
            text.lines().map(|line| line.replacen('{', r#"{"first":[],"#, 1) + "\n").collect();
        assert_eq!(fold_text(&slow), fixture_events(name), "{name}");
    }
}

#[test]
fn record_after_torn_line_is_read() {
    let whole =
        r#"{"timestamp":"T","type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}"#;
    let torn = r#"{"timestamp":"T","ordinal":4,"type":"event_m"#;
    assert_eq!(
        fold_text(&format!("{torn}{whole}")),
        [RolloutEvent::TurnStarted { turn: Some("t".into()) }]
    );
    assert_eq!(fold_text(torn), [RolloutEvent::Unreadable { len: torn.len() as u64 }]);
}

#[test]
fn unknown_records_count_as_activity() {
    let lines = [
        r#"{"timestamp":"T","type":"new_thing","payload":{"type":"task_complete"}}"#,
        r#"{"timestamp":"T","type":"event_msg","payload":{"type":"new_event"}}"#,
        r#"{"timestamp":"T","type":"event_msg","payload":7}"#,
        r#"{"timestamp":"T","type":"event_msg","payload":{"type":"token_count","info":"none"}}"#,
        r#"{"timestamp":"T","type":"session_meta","payload":{"id":"../../x"}}"#,
        r#"{"timestamp":"T","type":"response_item","payload":{"type":"message","text":"task_complete"}}"#,
    ];
    for line in lines {
        assert_eq!(fold_text(line), [RolloutEvent::Alive], "{line}");
    }
}

#[test]
fn separate_error_explains_turn_end() {
    let event = |payload: &str| {
        format!("{{\"timestamp\":\"T\",\"type\":\"event_msg\",\"payload\":{payload}}}\n")
    };
    let error = event(
        r#"{"type":"error","message":"no","codex_error_info":{"http_connection_failed":{"status":1}}}"#,
    );
    let end = event(r#"{"type":"task_complete","turn_id":"t","last_agent_message":null}"#);
    let end = fold_text(&(error + &end)).pop();
    let expected = RecordedTurnEnd::Error {
        message: "no".into(),
        kind: Some("http_connection_failed".into()),
    };
    assert_eq!(end, Some(RolloutEvent::TurnEnded { turn: Some("t".into()), end: expected }));
}

#[test]
fn overlong_line_still_ends_turn() {
    let check = |beginning: &str, expected: RolloutEvent| {
        let mut found = Vec::new();
        let line = RolloutLine { bytes: beginning.as_bytes(), len: 1 << 40, after: 0 };
        RolloutFold::new().line(&line, |event| found.push(event));
        assert_eq!(found, [expected]);
    };
    let message = RolloutEvent::UserMessage {
        turn: Some("t".into()),
        client_id: Some("c".into()),
        text: String::new(),
    };
    check(
        r#"{"type":"event_msg","payload":{"type":"item_completed","turn_id":"t","item":{"type":"UserMessage","client_id":"c","content":[{"te"#,
        message,
    );
    let ended = RolloutEvent::TurnEnded {
        turn: Some("t".into()),
        end: RecordedTurnEnd::Ok { last_message: None },
    };
    check(
        r#"{"type":"event_msg","payload":{"type":"task_complete","turn_id":"t","last_agent_message":"aaa"#,
        ended,
    );
    check(
        r#"{"type":"response_item","payload":{"type":"message","text":"aaa"#,
        RolloutEvent::Alive,
    );
    check("aaaa", RolloutEvent::Unreadable { len: 1 << 40 });
}
