//! Files that were damaged while no daemon was running.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use provost_testkit::env::assert_refused;
use provost_testkit::harness::string_value;
use provost_testkit::{TestHome, eventually};

fn home_with_sessions() -> (TestHome, Vec<String>) {
    let home = TestHome::with_short_windows();
    let ids: Vec<String> = (0..3).map(|_| home.spawn(&["--", "true"])).collect();
    for id in &ids {
        home.wait_sealed(id);
    }
    home.daemon().stop();
    (home, ids)
}

fn ledger_path(home: &TestHome) -> PathBuf {
    home.path().join("ledger/ledger.db")
}

#[test]
fn truncated_ledger_is_an_error_and_unchanged() {
    let (mut home, _) = home_with_sessions();
    let file =
        OpenOptions::new().write(true).open(ledger_path(&home)).expect("the ledger can be opened");
    let whole = file.metadata().expect("it has a length").len();
    file.set_len(whole / 2).expect("it can be cut");
    assert_unusable(&home);
    assert_eq!(
        fs::metadata(ledger_path(&home)).expect("it is there").len(),
        whole / 2,
        "nothing was repaired silently"
    );
    home.leave_unchecked();
}

#[test]
fn non_database_ledger_is_an_error_and_unchanged() {
    let (mut home, _) = home_with_sessions();
    fs::write(ledger_path(&home), "this was a ledger once").expect("it can be overwritten");
    assert_unusable(&home);
    assert_eq!(
        fs::read_to_string(ledger_path(&home)).expect("it is there"),
        "this was a ledger once"
    );
    home.leave_unchecked();
}

#[test]
fn missing_ledger_is_not_recreated_silently() {
    let (mut home, ids) = home_with_sessions();
    fs::remove_file(ledger_path(&home)).expect("it can be removed");
    let output = home.provost(&["status", &ids[0], "--json"]);
    assert_ne!(output.code(), Some(0), "{output:#?}");
    assert_eq!(output.json()["ok"], false);
    home.leave_unchecked();
}

#[test]
fn f8_v8_changed_event_is_named_by_every_command() {
    let (mut home, ids) = home_with_sessions();
    let stream = format!("session/{}", ids[1]);
    let database =
        rusqlite::Connection::open(ledger_path(&home)).expect("the ledger can be opened");
    let (seq, version): (i64, i64) = database
        .query_row(
            "SELECT seq, version FROM event WHERE stream = ?1 AND kind = 'session.opened'",
            [&stream],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("the session was opened");
    // The event is still one that Provost could have written.
    let changed = database.execute(
        "UPDATE event SET data = replace(data, '\"true\"', '\"trud\"') WHERE seq = ?1",
        [seq],
    );
    assert_eq!(changed.expect("the event can be changed"), 1);
    drop(database);
    let place = format!("record {seq} of the ledger (event {version} of {stream})");
    for args in [&["status", &ids[1], "--why", "--json"][..], &["events", &ids[1], "--json"]] {
        let refused = home.provost(args);
        assert_refused(&refused, 6, "storage", &[&place, "its checksum is wrong"]);
        assert_eq!(refused.json()["error"]["next"][0], "provost ledger verify");
    }
    let export = home.provost(&["ledger", "export"]);
    assert!(export.assert_code(6).stderr.contains(&place), "{export:#?}");
    for id in [&ids[0], &ids[2]] {
        home.provost(&["status", id, "--why"]).ok();
        home.provost(&["events", id]).ok();
    }
    assert_eq!(
        home.provost(&["ls", "--all", "--json"]).ok().json()["sessions"].as_array().map(Vec::len),
        Some(3)
    );
    let doctor = home.provost(&["doctor", "--json"]).assert_code(1).json();
    let findings = doctor["findings"].as_array().expect("a list");
    let about = findings.iter().find(|finding| finding["what"] == "ledger").expect("a finding");
    assert_eq!(about["level"], "fail", "{about}");
    assert!(string_value(&about["found"]).contains(&place), "{about}");
    let verified = home.provost(&["ledger", "verify", "--json"]).assert_code(1).json();
    let differences = verified["differences"].as_array().expect("a list");
    assert_eq!(differences.len(), 1, "{verified}");
    assert_eq!(differences[0]["stream"], stream);
    assert!(string_value(&differences[0]["what"]).contains(&place), "{verified}");
    home.leave_unchecked();
}

#[test]
fn f8_v8_damaged_row_is_rebuilt_from_events() {
    let (mut home, ids) = home_with_sessions();
    let list = || home.provost(&["ls", "--all", "--json"]).ok().json();
    let (listed, status) = (list(), home.status(&ids[1]));
    home.daemon().stop();
    for damage in
        ["substr(projection, 2)", "replace(projection, 'completed', 'complfted')", "x'ff'"]
    {
        let database =
            rusqlite::Connection::open(ledger_path(&home)).expect("the ledger can be opened");
        let stream = format!("session/{}", ids[1]);
        let spoil = format!("UPDATE stream SET projection = CAST({damage} AS TEXT) WHERE id = ?1");
        assert_eq!(database.execute(&spoil, [&stream]).expect("the row can be changed"), 1);
        drop(database);
        assert_eq!(list()["sessions"], listed["sessions"], "{damage}");
        assert_eq!(home.status(&ids[1])["state"], status["state"], "{damage}");
        let verified = home.provost(&["ledger", "verify", "--json"]).assert_code(1).json();
        let differences = verified["differences"].as_array().expect("a list");
        assert_eq!(differences.len(), 1, "{verified}");
        assert_eq!(differences[0]["stream"], stream, "{verified}");
        home.daemon().stop();
    }
    home.leave_unchecked();
}

#[test]
fn event_of_later_version_makes_ledger_read_only() {
    let (home, ids) = home_with_sessions();
    let database =
        rusqlite::Connection::open(ledger_path(&home)).expect("the ledger can be opened");
    let columns: Vec<String> = database
        .prepare("SELECT name FROM pragma_table_info('event') WHERE name NOT IN ('seq')")
        .and_then(|mut query| query.query_map([], |row| row.get(0))?.collect())
        .expect("the columns can be listed");
    let copied: Vec<String> = columns
        .iter()
        .map(|name| match name.as_str() {
            "kind" => "'session.dreamt'".to_owned(),
            "version" => "version + 1".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    let insert = format!(
        "INSERT INTO event ({}) SELECT {} FROM event ORDER BY seq DESC LIMIT 1",
        columns.join(","),
        copied.join(",")
    );
    database.execute(&insert, []).expect("an event can be added");
    database
        .execute_batch(
            "UPDATE stream SET version = version + 1 WHERE id = (SELECT stream FROM event ORDER BY seq DESC LIMIT 1);
             INSERT INTO kind (kind, v, software) VALUES ('session.dreamt', 1, '99.0.0');",
        )
        .expect("the later version can be simulated");
    drop(database);
    let list = home.provost(&["ls", "--all", "--json"]);
    assert_eq!(list.ok().json()["sessions"].as_array().expect("a list").len(), ids.len());
    let refusal = home.provost(&["spawn", "--json", "--", "true"]);
    assert_refused(&refusal, 4, "read_only", &["session.dreamt"]);
    assert!(
        string_value(&home.daemon().status().expect("it runs")["read_only"])
            .contains("session.dreamt")
    );
}

#[test]
fn truncated_journal_is_flagged_and_not_reread() {
    let home = TestHome::with_short_windows();
    let go = home.root().join("go");
    let agent = home.scripted_agent(
        "scripted",
        r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "progress", done = 1, total = 2 }
[[step]]
wait_file = "{{root}}/go"
[[step]]
exit = 0
"#,
    );
    home.configure(&agent);
    let id = home.spawn(&["--agent", "scripted", "go"]);
    home.wait_state(&id, |row| row["progress"]["done"] == 1);
    home.daemon().kill();
    let journal = home.path().join("launches").join(format!("{id}.l1/journal"));
    let file = OpenOptions::new().write(true).open(journal).expect("the journal can be opened");
    file.set_len(40).expect("it can be cut");
    let row = home.wait_state(&id, |row| {
        row["flags"].as_array().is_some_and(|flags| flags.contains(&"output_lost".into()))
    });
    assert_eq!(row["progress"]["done"], 1, "recorded progress is kept");
    fs::write(go, "").expect("the file can be written");
    home.wait_sealed(&id);
    let recorded = home.ledger_records();
    let count = |kind: &str| recorded.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!(
        (count("turn.started"), count("progress.reported"), count("output.lost")),
        (1, 1, 1)
    );
    home.assert_ledger_verified();
}

#[track_caller]
fn assert_unusable(home: &TestHome) {
    for args in
        [&["ls", "--json"][..], &["spawn", "--json", "--", "true"], &["ledger", "verify", "--json"]]
    {
        let output = eventually("an answer", || Some(home.provost(args)));
        assert!(matches!(output.code(), Some(1 | 6)), "{output:#?}");
        let error = &output.json()["error"];
        assert!(string_value(&error["message"]).contains("ledger"), "{error}");
        assert!(!error["next"].as_array().expect("a list").is_empty(), "{error}");
    }
}
