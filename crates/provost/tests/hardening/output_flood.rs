//! An agent that prints without end: it is paused at the limit, no output is dropped, and disk
//! usage is bounded.

use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

use provost_testkit::harness::string_value;
use provost_testkit::scenario::{Flood, OutputChannel, write_flood};
use provost_testkit::{TestHome, scripted_agent_bin};

const FLOOD: u64 = 200 << 20;
const LIMIT: u64 = 10 << 20;
const LINE: usize = 80;

/// Journal overhead over the printed bytes, in percent.
const OVERHEAD: u64 = 20;

#[test]
fn output_flood_blocks_at_limit_until_raised() {
    let mut home = TestHome::with_short_windows();
    home.set_env("PROVOST_SESSION_OUTPUT_LIMIT", "10MiB");
    let scenario = home.scenario(
        "agent",
        &format!("[[step]]\nflood = {{ bytes = {FLOOD}, line = {LINE}, channel = \"stdout\" }}\n[[step]]\nexit = 0\n"),
    );
    let program = scripted_agent_bin().display().to_string();
    let id =
        home.spawn(&["--exit-zero-completes", "--", &program, &scenario.display().to_string()]);
    let row = home.wait_state(&id, |row| has_flag(row, "output_limit"));
    assert_eq!(
        (&row["process"], &row["terminal"]),
        (&"alive".into(), &false.into()),
        "it is blocked, not ended"
    );
    let next: Vec<String> =
        row["next"].as_array().expect("a list").iter().map(string_value).collect();
    assert!(next.iter().any(|command| command.contains("provost limit")), "{next:?}");
    let shown = home.provost(&["status", &id]);
    assert!(
        shown.ok().stdout.contains("limit") || shown.stderr.contains("provost limit"),
        "{shown:#?}"
    );
    let held = dir_size(&home.path().join("launches"));
    assert!((LIMIT..LIMIT + LIMIT * OVERHEAD / 100).contains(&held), "{held} bytes on the disk");
    // A new daemon keeps the limit.
    home.daemon().kill();
    home.wait_state(&id, |row| has_flag(row, "output_limit"));
    home.provost(&["limit", &id, "--output", "1KiB", "--json"]).assert_code(2);
    home.provost(&["limit", &id, "--output", "1GiB", "--json"]).ok();
    let row = home.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row}");
    assert!(!has_flag(&row, "output_limit"), "{row}");
    assert_eq!(logs_digest(&home, &id), flood_digest(), "every byte was kept, in order");
    let kept = dir_size(&home.path().join("launches"));
    assert!(kept < FLOOD + FLOOD * OVERHEAD / 100, "{kept} bytes on the disk");
    home.assert_ledger_verified();
}

fn has_flag(row: &serde_json::Value, flag: &str) -> bool {
    row["flags"].as_array().is_some_and(|flags| flags.contains(&flag.into()))
}

/// Returns the length and digest of the logs.
fn logs_digest(home: &TestHome, id: &str) -> (u64, String) {
    let mut command = home.command(&["logs", id, "--raw"]);
    let mut logs = command.stdout(Stdio::piped()).spawn().expect("logs can be run");
    let mut stdout = logs.stdout.take().expect("a pipe");
    let (mut hasher, mut length) = (blake3::Hasher::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = stdout.read(&mut buffer).expect("logs can be read");
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        length += read as u64;
    }
    assert!(logs.wait().expect("logs ends").success());
    (length, hasher.finalize().to_string())
}

fn flood_digest() -> (u64, String) {
    let mut hasher = blake3::Hasher::new();
    let flood = Flood { bytes: FLOOD, line: LINE, channel: OutputChannel::Stdout };
    write_flood(&mut hasher, &flood).expect("a digest can be written to");
    (FLOOD, hasher.finalize().to_string())
}

/// Returns the number of bytes in a directory.
pub(crate) fn dir_size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => dir_size(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}
