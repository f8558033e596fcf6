//! Helpers shared by the tests of this binary.

use std::fs;
use std::path::Path;

use provost_testkit::{ProgramOutput, TestHome, eventually};
use serde_json::Value;

/// A home with short windows, so that sessions are sealed quickly.
pub(crate) fn quick_home() -> TestHome {
    let mut home = TestHome::new();
    set_short_windows(&mut home);
    home
}

/// Sets short windows for a home.
pub(crate) fn set_short_windows(home: &mut TestHome) {
    home.set_env("PROVOST_SESSION_SETTLE", "150ms");
    home.set_env("PROVOST_SESSION_DRAIN", "300ms");
    home.set_env("PROVOST_SESSION_STOP_GRACE", "150ms");
}

/// Writes the user's configuration.
pub(crate) fn configure(home: &TestHome, text: &str) {
    let dir = home.root().join("user/.config/provost");
    fs::create_dir_all(&dir).expect("the configuration's directory can be made");
    fs::write(dir.join("provost.toml"), text).expect("the configuration can be written");
}

/// Spawns a command and returns the session's id.
#[track_caller]
pub(crate) fn spawn(home: &TestHome, args: &[&str]) -> String {
    let spawned = home.provost(&[&["spawn", "--json"], args].concat());
    string_value(&spawned.ok().json()["id"])
}

/// Returns the text of a JSON string.
#[track_caller]
pub(crate) fn string_value(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}

/// Waits until the session's outcome is sealed.
#[track_caller]
pub(crate) fn wait_sealed(home: &TestHome, id: &str) -> Value {
    home.wait_state(id, |row| row["sealed"] == true)
}

/// Asserts that the output is a JSON error with this exit code and error code, and that its message
/// contains all these parts. Returns the message.
#[track_caller]
pub(crate) fn assert_refused(
    output: &ProgramOutput,
    exit: i32,
    code: &str,
    parts: &[&str],
) -> String {
    output.assert_code(exit);
    let value = output.json();
    assert_eq!(value["ok"], false, "{value}");
    assert_eq!(value["error"]["code"], code, "{value}");
    let message = string_value(&value["error"]["message"]);
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    message
}

/// Returns the number of lines of a file; 0 if it does not exist.
pub(crate) fn count_lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// Waits until a file exists.
#[track_caller]
pub(crate) fn wait_file(path: &Path) {
    eventually(&format!("{} appears", path.display()), || path.exists().then_some(()));
}

/// Returns the records of the ledger, in order.
#[track_caller]
pub(crate) fn ledger_records(home: &TestHome) -> Vec<Value> {
    let export = home.provost(&["ledger", "export"]);
    let lines = export.ok().json_lines();
    lines.into_iter().filter_map(|line| line.get("record").cloned()).collect()
}

/// Asserts that the ledger is intact and its projections match its events.
#[track_caller]
pub(crate) fn assert_ledger_verified(home: &TestHome) {
    home.provost(&["ledger", "verify", "--json"]).ok();
}
