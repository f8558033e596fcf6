//! The relay with the real Codex, which needs no model for the handshake, for answers and to exit.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use provost_holder::journal::{
    JournalChannel, JournalCursor, JournalLine, JournalNote, LineAssembler,
};
use provost_holder::wire::HolderOp;
use provost_holder::{EndCause, HoldSpec, ProcessEnd, Relay};
use serde_json::Value;

use crate::kit::{
    Launch, command, pause, proc_value, switches_when_idle, until, voluntary_switches, write,
};

/// Keeps Codex off the network.
const QUIET: &str = "\
check_for_update_on_startup = false
[analytics]
enabled = false
[otel]
metrics_exporter = \"none\"
[features]
plugins = false
shell_snapshot = false
daemon_auto_start = false
";

#[test]
fn codex_connection_works_without_a_client() {
    let Some(codex) = codex() else {
        println!("not run: npm is missing, and with it Codex");
        return;
    };
    let mut launch = app_server(&codex);
    let initialize = r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"relay","title":"relay","version":"1"}}}"#;
    write(&mut launch.link(), "1", format!("{initialize}\n").as_bytes()).unwrap();
    let answer = answer(&launch, 1);
    assert!(answer["result"]["userAgent"].as_str().unwrap().starts_with("relay/"), "{answer}");
    write(&mut launch.link(), "2", b"{\"method\":\"initialized\"}\n").unwrap();

    // No client is connected to the holder for a while.
    let before = switches_when_idle(launch.holder_pid());
    pause(Duration::from_secs(2));
    let dirty = proc_value(launch.holder_pid(), "status", "RssAnon");
    let wakeups = voluntary_switches(launch.holder_pid()) - before;
    println!("wake-ups in 2 s: {wakeups}; private: {dirty} kB dirty");

    // Only the initialized connection may send this.
    let list = b"{\"id\":2,\"method\":\"thread/loaded/list\",\"params\":{}}\n";
    write(&mut launch.link(), "3", list).unwrap();
    assert_eq!(self::answer(&launch, 2)["result"]["data"], Value::Array(Vec::new()));

    launch.link().request(HolderOp::Stop { grace_ms: 30_000 }).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 0 }, EndCause::Stop));
    assert_eq!((gone.leftovers, gone.verified), (0, true));
    let notes = launch.frames().into_iter().filter(|frame| frame.channel == JournalChannel::Note);
    let notes: Vec<JournalNote> =
        notes.filter_map(|frame| serde_json::from_slice(&frame.payload).ok()).collect();
    assert!(notes.contains(&JournalNote::StdoutClosed));
    assert!(!launch.path("long").join("a".repeat(150)).join("codex.sock").exists());
}

/// The program, or `None` if it is known to be missing.
#[expect(clippy::disallowed_methods, reason = "the test run says where the program is")]
fn codex() -> Option<PathBuf> {
    let given = std::env::var_os("PROVOST_CODEX_FOR_TESTS");
    let missing = std::env::var("PROVOST_TEST_MISSING").unwrap_or_default();
    if given.is_none() && missing.contains("npm") {
        return None;
    }
    Some(given.expect("PROVOST_CODEX_FOR_TESTS names the Codex to test with").into())
}

/// Starts an app-server on a socket whose path is longer than an address allows. Codex requires its
/// home to be outside its temporary directory.
fn app_server(codex: &std::path::Path) -> Launch {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    let deep = path("long").join("a".repeat(150));
    for dir in [&path("home"), &path("tmp"), &deep] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(path("home/config.toml"), QUIET).unwrap();
    let socket = deep.join("codex.sock");
    let listen = format!("unix://{}", socket.display());
    let mut spec = command(&[codex.to_str().unwrap(), "app-server", "--listen", &listen]);
    let dirs = [("HOME", "home"), ("CODEX_HOME", "home"), ("TMPDIR", "tmp")];
    spec.env.extend(dirs.map(|(name, dir)| (name.into(), path(dir).display().to_string())));
    let (cwd, dir) = (path("tmp"), path("launch"));
    Launch::start_at(
        temp,
        dir,
        HoldSpec { relay: Some(Relay { socket, listener: None }), cwd, ..spec },
    )
}

/// Waits for the answer to a request.
fn answer(launch: &Launch, id: u64) -> Value {
    let mut found = None;
    until("it is answered", || {
        let mut lines = LineAssembler::resume(JournalChannel::Stdout, JournalCursor::default());
        let delivered = launch.frames().into_iter().flat_map(|frame| lines.feed(&frame));
        let messages = delivered.filter_map(|delivered| match delivered.line {
            JournalLine::Whole(line) => Some(serde_json::from_slice::<Value>(&line).unwrap()),
            JournalLine::Oversized { .. } => None,
        });
        found = messages.into_iter().find(|message| message["id"] == id);
        found.is_some()
    });
    found.unwrap()
}
