//! Rollouts that Codex wrote, with long texts shortened.

use std::path::{Path, PathBuf};

use provost_watch::ThreadId;
use provost_watch::rollout::{Fold, Line, Next, Reset, Tail, Told, TurnEnd, Turns};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/rollout")
        .join(format!("{name}.jsonl"))
}

fn read(fold: &mut Fold, path: &Path) -> Vec<Told> {
    let mut tail = Tail::open(path, 0).unwrap();
    let mut found = Vec::new();
    while let Next::Line(line) = tail.next_line().unwrap() {
        fold.line(&line, |told| found.push(told));
    }
    found
}

fn told(name: &str) -> Vec<Told> {
    read(&mut Fold::new(), &fixture(name))
}

fn fold_text(text: &str) -> Vec<Told> {
    let mut fold = Fold::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let line = Line { bytes: line.as_bytes(), len: line.len() as u64, after: 0 };
        fold.line(&line, |told| found.push(told));
    }
    found
}

/// Returns the turns and messages as short texts.
fn story(told: &[Told]) -> Vec<String> {
    let word = |told: &Told| match told {
        Told::Session(meta) => Some(format!("session {}", meta.cli_version.clone()?)),
        Told::TurnStarted { .. } => Some("started".to_owned()),
        Told::TurnEnded { end: TurnEnd::Ok { .. }, .. } => Some("ok".to_owned()),
        Told::TurnEnded { end: TurnEnd::Error { kind, .. }, .. } => {
            Some(format!("error {}", kind.clone()?))
        }
        Told::TurnEnded { end: TurnEnd::Aborted { reason }, .. } => {
            Some(format!("aborted {}", reason.clone()?))
        }
        Told::UserMessage { text, .. } => Some(format!("said {text}")),
        Told::Plan(plan) => Some(format!("plan {:?}", plan.progress())),
        Told::Compacted => Some("compacted".to_owned()),
        Told::Unreadable { .. } => Some("unreadable".to_owned()),
        Told::Tokens(_) | Told::Limits(_) | Told::Alive => None,
    };
    told.iter().filter_map(word).collect()
}

#[test]
fn turns_end_well_or_with_a_kind_of_error() {
    let told = told("errors-and-compaction");
    let story = story(&told);
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
fn tokens_are_told_when_they_change_and_limits_with_their_reset() {
    let told = told("errors-and-compaction");
    let tokens: Vec<_> = told
        .iter()
        .filter_map(|told| if let Told::Tokens(tokens) = told { Some(*tokens) } else { None })
        .collect();
    assert_eq!(tokens[0].total.total, 1050);
    assert_eq!(
        (tokens[1].total.total, tokens[1].response.total, tokens[1].filled()),
        (2310, 1260, 1260)
    );
    assert_eq!(tokens[1].window, Some(258_400));
    assert!(tokens.windows(2).all(|pair| pair[0] != pair[1]));
    let limits: Vec<_> = told
        .iter()
        .filter_map(|told| if let Told::Limits(limits) = told { limits.primary } else { None })
        .collect();
    assert_eq!(limits[0].used_percent, 100.0);
    assert_eq!((limits[0].minutes, limits[0].reset), (Some(300), Some(Reset::At(1_794_780_000))));
    assert_eq!(limits[1].used_percent, 42.5);
}

#[test]
fn input_is_proved_by_the_id_that_its_sender_gave() {
    let told = told("terminal");
    let ids: Vec<_> = told
        .iter()
        .filter_map(|told| {
            let Told::UserMessage { client_id, text, turn } = told else { return None };
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
    assert_eq!(story(&told("interrupted")).last().unwrap(), "aborted interrupted");
}

#[test]
fn a_turn_that_was_cut_by_a_kill_has_no_end_and_the_next_begins() {
    let told = told("killed-and-resumed");
    let story: Vec<_> = story(&told).into_iter().filter(|word| !word.starts_with("said")).collect();
    assert_eq!(story, ["session 0.166.0", "started", "ok", "started", "started", "ok"]);
}

#[test]
fn threads_with_the_older_history_say_the_same() {
    assert_eq!(story(&told("legacy")), ["session 0.166.0", "started", "said SHX", "ok"]);
}

#[test]
fn the_oldest_supported_version_records_turns() {
    let mut fold = Fold::new();
    let told = read(&mut fold, &fixture("version-0.107"));
    assert_eq!(fold.turns(), Turns::Recorded);
    assert!(fold.turn().is_some());
    assert_eq!(story(&told).last().unwrap(), "said HANGS now");
}

#[test]
fn a_version_without_turns_says_so_and_guesses_none() {
    let mut fold = Fold::new();
    let told = read(&mut fold, &fixture("version-0.63"));
    assert_eq!(fold.turns(), Turns::NotRecorded);
    let story = story(&told);
    assert!(
        story.iter().all(|word| word.starts_with("said") || word.starts_with("session")),
        "{story:#?}"
    );
    assert!(told.iter().filter(|told| **told == Told::Alive).count() > 10);
}

#[test]
fn the_history_of_the_parent_is_not_the_forks_own() {
    let told = told("forked-child");
    let Told::Session(meta) = &told[0] else { panic!("{:?}", told[0]) };
    assert_eq!(meta.thread.as_str(), "01a1e07d-362f-7533-9c68-7c09cd1f5b34");
    assert_eq!(
        meta.parent.as_ref().map(ThreadId::as_str),
        Some("01a1e07d-352a-7e12-8802-a4409dd02b19")
    );
    assert_eq!(story(&told), ["session 0.166.0", "started", "ok"]);
}

#[test]
fn without_ordinals_turns_older_than_the_fork_are_not_its_own() {
    let text = std::fs::read_to_string(fixture("forked-child")).unwrap();
    let older = text.replace("subagent_history_start_ordinal", "unknown_field");
    assert_eq!(story(&fold_text(&older)), ["session 0.166.0", "started", "ok"]);
}

#[test]
fn a_file_of_another_thread_says_nothing() {
    let wanted = ThreadId::parse("01a1e07d-352a-7e12-8802-a4409dd02b19").unwrap();
    assert_eq!(read(&mut Fold::of(wanted), &fixture("child")), []);
    let own = ThreadId::parse("01a1e07d-35b3-7ec0-9e13-1aafc4e2902c").unwrap();
    assert_eq!(
        story(&read(&mut Fold::of(own), &fixture("child"))),
        ["session 0.166.0", "started", "ok"]
    );
}

#[test]
fn what_is_known_by_its_beginning_is_what_the_parser_says() {
    for name in
        ["errors-and-compaction", "legacy", "version-0.63", "version-0.107", "terminal", "child"]
    {
        let text = std::fs::read_to_string(fixture(name)).unwrap();
        // A list at the beginning stops readers that only look there.
        let slow: String =
            text.lines().map(|line| line.replacen('{', r#"{"first":[],"#, 1) + "\n").collect();
        assert_eq!(fold_text(&slow), told(name), "{name}");
    }
}

#[test]
fn a_record_after_a_torn_one_is_read_and_a_torn_one_alone_is_told() {
    let whole =
        r#"{"timestamp":"T","type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}"#;
    let torn = r#"{"timestamp":"T","ordinal":4,"type":"event_m"#;
    assert_eq!(
        fold_text(&format!("{torn}{whole}")),
        [Told::TurnStarted { turn: Some("t".into()) }]
    );
    assert_eq!(fold_text(torn), [Told::Unreadable { len: torn.len() as u64 }]);
}

#[test]
fn unknown_kinds_and_shapes_are_life_and_no_more() {
    let lines = [
        r#"{"timestamp":"T","type":"new_thing","payload":{"type":"task_complete"}}"#,
        r#"{"timestamp":"T","type":"event_msg","payload":{"type":"new_event"}}"#,
        r#"{"timestamp":"T","type":"event_msg","payload":7}"#,
        r#"{"timestamp":"T","type":"event_msg","payload":{"type":"token_count","info":"none"}}"#,
        r#"{"timestamp":"T","type":"session_meta","payload":{"id":"../../x"}}"#,
        r#"{"timestamp":"T","type":"response_item","payload":{"type":"message","text":"task_complete"}}"#,
    ];
    for line in lines {
        assert_eq!(fold_text(line), [Told::Alive], "{line}");
    }
}

#[test]
fn an_error_that_was_recorded_by_itself_is_the_reason_of_the_end() {
    let event = |payload: &str| {
        format!("{{\"timestamp\":\"T\",\"type\":\"event_msg\",\"payload\":{payload}}}\n")
    };
    let error = event(
        r#"{"type":"error","message":"no","codex_error_info":{"http_connection_failed":{"status":1}}}"#,
    );
    let end = event(r#"{"type":"task_complete","turn_id":"t","last_agent_message":null}"#);
    let end = fold_text(&(error + &end)).pop();
    let expected =
        TurnEnd::Error { message: "no".into(), kind: Some("http_connection_failed".into()) };
    assert_eq!(end, Some(Told::TurnEnded { turn: Some("t".into()), end: expected }));
}

#[test]
fn a_line_too_long_to_parse_still_proves_input_and_ends_turns() {
    let check = |beginning: &str, expected: Told| {
        let mut found = Vec::new();
        let line = Line { bytes: beginning.as_bytes(), len: 1 << 40, after: 0 };
        Fold::new().line(&line, |told| found.push(told));
        assert_eq!(found, [expected]);
    };
    let said = Told::UserMessage {
        turn: Some("t".into()),
        client_id: Some("c".into()),
        text: String::new(),
    };
    check(
        r#"{"type":"event_msg","payload":{"type":"item_completed","turn_id":"t","item":{"type":"UserMessage","client_id":"c","content":[{"te"#,
        said,
    );
    let ended = Told::TurnEnded { turn: Some("t".into()), end: TurnEnd::Ok { last_message: None } };
    check(
        r#"{"type":"event_msg","payload":{"type":"task_complete","turn_id":"t","last_agent_message":"aaa"#,
        ended,
    );
    check(r#"{"type":"response_item","payload":{"type":"message","text":"aaa"#, Told::Alive);
    check("aaaa", Told::Unreadable { len: 1 << 40 });
}
