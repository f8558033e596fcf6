//! Reports made while no daemon is running.

use provost_testkit::env::wait_file;
use provost_testkit::harness::string_value;
use provost_testkit::{TestHome, eventually, scripted_agent_bin};

/// Spawns an agent that reports once `go` exists, and kills the daemon before that.
fn report_without_daemon(home: &TestHome, steps: &str) -> String {
    let scenario = home.scenario("agent", steps);
    let root = format!("root={}", home.root().display());
    let program = scripted_agent_bin().display().to_string();
    let spawn = ["spawn", "--json", "--no-exit-zero-completes"];
    let args = ["--", &program, &scenario.display().to_string(), "--vars", &root];
    let id = string_value(&home.provost(&[&spawn[..], &args].concat()).ok().json()["id"]);
    wait_file(&home.root().join("ready"));
    home.wait_state(&id, |row| row["launches"][0]["phase"] == "running");
    home.daemon().kill();
    std::fs::write(home.root().join("go"), "").expect("the file can be written");
    id
}

#[test]
fn offline_report_counts_once_after_restart() {
    let home = TestHome::with_short_windows();
    let id = report_without_daemon(
        &home,
        r#"
[[step]]
touch = "{{root}}/ready"
[[step]]
wait_file = "{{root}}/go"
[[step]]
report = "completed"
message = "no daemon listened"
reply_to = "{{root}}/reply"
args = ["--json"]
[[step]]
exit = 0
"#,
    );
    let reply = eventually("the report is made", || {
        std::fs::read_to_string(home.root().join("reply")).ok().filter(|reply| reply.contains('\n'))
    });
    assert!(reply.contains("\"ok\":true") && reply.contains("dropped"), "{reply}");
    assert!(home.daemon().status().is_none(), "a report from a launch starts no daemon");
    let row = home.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["claim_text"]),
        (&"completed".into(), &"no daemon listened".into())
    );
    assert_eq!(row["claim_source"], "drop_box", "{row:#}");
    assert_eq!(count_claims(&home), 1);
    let made = home.ledger_records().into_iter().find(|record| record["kind"] == "claim.made");
    let actor = string_value(&made.expect("a claim")["actor"]);
    assert_eq!(actor, format!("drop/{id}.l1"), "the writer is unknown");
    home.daemon().kill();
    home.wait_sealed(&id);
    assert_eq!(count_claims(&home), 1, "it counts once, also after a restart");
    home.assert_ledger_verified();
}

#[test]
fn offline_reports_are_taken_in_order() {
    let home = TestHome::with_short_windows();
    let id = report_without_daemon(
        &home,
        r#"
[[step]]
touch = "{{root}}/ready"
[[step]]
wait_file = "{{root}}/go"
[[step]]
repeat = { times = 10, steps = [{ report = "working", message = "step {{n}}" }] }
[[step]]
report = "failed"
message = "gave up"
[[step]]
touch = "{{root}}/reported"
[[step]]
exit = 0
"#,
    );
    wait_file(&home.root().join("reported"));
    let row = home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["claim_text"]), (&"failed".into(), &"gave up".into()), "{row}");
    assert_eq!(count_claims(&home), 11);
}

#[test]
fn junk_in_drop_box_is_ignored() {
    let home = TestHome::with_short_windows();
    let id = report_without_daemon(
        &home,
        "[[step]]\ntouch = \"{{root}}/ready\"\n[[step]]\nwait_file = \"{{root}}/end\"\n[[step]]\nexit = 0\n",
    );
    let dir = home.path().join("drop");
    let launch = format!("{id}.l1");
    std::fs::create_dir_all(dir.join(format!("{launch}~dir.json")))
        .expect("a drop box can be made");
    for (name, content) in [
        ("junk.json", "not json".to_owned()),
        (
            "forged.json",
            format!("{{\"launch\":\"{launch}\",\"token\":\"forged\",\"claim\":\"completed\"}}"),
        ),
        ("other.json", "{\"launch\":\"x\",\"token\":\"y\",\"claim\":\"completed\"}".to_owned()),
        ("huge.json", "x".repeat(2 << 20)),
    ] {
        std::fs::write(dir.join(format!("{launch}~{name}")), content)
            .expect("a file can be written");
    }
    std::os::unix::fs::symlink("/dev/zero", dir.join(format!("{launch}~zero.json")))
        .expect("a link can be made");
    std::fs::write(home.root().join("end"), "").expect("the file can be written");
    assert_eq!(home.wait_sealed(&id)["state"], "exited_without_claim", "no claim was made");
    assert_eq!(count_claims(&home), 0);
}

#[test]
fn session_with_own_drop_box_ignores_home_drop_box() {
    let home = TestHome::with_short_windows();
    let id = report_without_daemon(
        &home,
        "[[step]]\ntouch = \"{{root}}/ready\"\n[[step]]\nwait_file = \"{{root}}/end\"\n[[step]]\nexit = 0\n",
    );
    // This drop box is that of a sandboxed agent. An agent outside the sandbox has already read its
    // token.
    std::fs::create_dir_all(home.path().join(format!("agents/{id}/tmp/drop")))
        .expect("a drop box can be created");
    let row = home.wait_state(&id, |row| row["launches"][0]["pid"].is_u64());
    let environ = std::fs::read(format!("/proc/{}/environ", row["launches"][0]["pid"]))
        .expect("the agent's environment can be read");
    let environ = String::from_utf8_lossy(&environ).into_owned();
    let token = environ.split('\0').find_map(|entry| entry.strip_prefix("PROVOST_TOKEN="));
    let report = serde_json::json!({
        "launch": format!("{id}.l1"), "token": token.expect("a token"), "claim": "completed",
    });
    let forged = home.path().join(format!("drop/{id}.l1~k.json"));
    std::fs::write(&forged, report.to_string()).expect("a file can be written");
    home.daemon().kill();
    std::fs::write(home.root().join("end"), "").expect("the file can be written");
    assert_eq!(home.wait_sealed(&id)["state"], "exited_without_claim", "it claimed nothing itself");
    assert_eq!(count_claims(&home), 0);
    std::fs::remove_dir_all(home.path().join("agents").join(&id)).expect("it can be removed");
    home.daemon().kill();
    eventually("the report counts without an own drop box", || {
        home.provost(&["ls"]).ok();
        (count_claims(&home) == 1).then_some(())
    });
}

fn count_claims(home: &TestHome) -> usize {
    home.ledger_records().iter().filter(|record| record["kind"] == "claim.made").count()
}
