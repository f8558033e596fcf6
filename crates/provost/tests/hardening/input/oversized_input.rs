//! An agent that sends too much, and an operator who is too quick: neither affects any other session.

use provost_testkit::TestHome;
use provost_testkit::env::assert_refused;

/// A home with a shell script as agent, which speaks JSON lines.
fn home_with_script(script: &str) -> TestHome {
    let home = TestHome::with_short_windows();
    let path = home.root().join("agent.sh");
    std::fs::write(&path, script).expect("a script can be written");
    home.configure(&format!(
        "[agents.odd]\nadapter = \"jsonl\"\ncommand = [\"/bin/sh\", {path:?}]\n"
    ));
    home
}

#[test]
fn oversized_message_is_ignored_without_delay() {
    let home = home_with_script(
        "printf '{\"type\":\"ready\"}\\n{\"type\":\"claim\",\"claim\":\"completed\",\"text\":\"'\n\
         head -c 5000000 /dev/zero | tr '\\0' y\nprintf '\"}\\n'\n",
    );
    let odd = home.spawn(&["--agent", "odd", "go"]);
    let plain = home.spawn(&["--exit-zero-completes", "--", "true"]);
    assert_eq!(home.wait_sealed(&plain)["state"], "completed");
    let row = home.wait_sealed(&odd);
    assert_eq!(row["state"], "exited_without_claim", "{row}");
    assert!(row["flags"].to_string().contains("oversized_output"), "{row}");
    home.assert_ledger_verified();
}

#[test]
fn thousands_of_requests_delay_no_session() {
    let home = home_with_script(
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); \
         printf '{\"type\":\"request\",\"id\":\"q%s\",\"blocking\":false,\"title\":\"a question that is rather long, \
         so that many of them are very long\"}\\n' $i; done\n",
    );
    let odd = home.spawn(&["--agent", "odd", "go"]);
    let plain = home.spawn(&["--exit-zero-completes", "--", "true"]);
    assert_eq!(home.wait_sealed(&plain)["state"], "completed");
    assert_eq!(home.wait_sealed(&odd)["state"], "exited_without_claim");
}

#[test]
fn huge_usage_numbers_do_not_overflow() {
    let usage = "printf '{\"type\":\"usage\",\"input\":18446744073709551615,\"output\":18446744073709551615}\\n'\n";
    let home = home_with_script(&format!("{usage}{usage}"));
    let odd = home.spawn(&["--agent", "odd", "go"]);
    let row = home.wait_sealed(&odd);
    assert_eq!(row["usage"]["input"], u64::MAX);
    home.provost(&["status", &odd]).ok();
}

#[test]
fn claim_over_the_limit_is_refused() {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--", "sleep", "60"]);
    let report = |bytes: usize| {
        let text = "x".repeat(bytes);
        home.provost_with_input(
            &["report", "completed", "--session", &id, "-m", "-", "--json"],
            &text,
        )
    };
    report(500_000).ok();
    assert_refused(&report(600_000), 2, "bad_request", &["524288"]);
    home.provost(&["stop", &id]).ok();
    let row = home.wait_sealed(&id);
    assert_eq!(row["state"], "completed");
    assert!(row["claim_text"].to_string().contains("(500000 bytes)"), "the row shows a part");
}

#[test]
fn cancel_during_start_skips_the_grace_period() {
    let mut home = TestHome::with_short_windows();
    home.set_env("PROVOST_SESSION_STOP_GRACE", "10m");
    let ids: Vec<String> = (0..6)
        .map(|_| {
            let id = home.spawn(&["--", "sleep", "300"]);
            home.provost(&["cancel", &id]).ok();
            id
        })
        .collect();
    for id in ids {
        let row = home.wait_sealed(&id);
        assert_eq!(row["state"], "cancelled");
        assert_ne!(row["process"], "alive", "{row}");
    }
}

#[test]
fn cancelled_question_takes_no_answer() {
    let home = TestHome::with_short_windows();
    home.configure(&home.sample_agent("ask", "asks_question"));
    let id = home.spawn(&["--agent", "ask", "store it"]);
    let row = home.wait_state(&id, |row| row["state"] == "needs_input");
    let request = row["requests"][0]["id"].as_str().expect("an id").to_owned();
    home.provost(&["cancel", &id]).ok();
    let answer = home.provost(&["answer", &request, "--revision", "1", "SQLite", "--json"]);
    assert_ne!(answer.code(), Some(0), "{answer:?}");
    assert_eq!(home.wait_sealed(&id)["state"], "cancelled");

    let other = home.spawn(&["--", "sleep", "60"]);
    home.provost(&["resolve", &other, "--as", "failed", "--because", "no"]).ok();
    let row = home.wait_sealed(&other);
    assert_eq!((&row["state"], &row["cause"]), (&"failed".into(), &serde_json::Value::Null));
}
