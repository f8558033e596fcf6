//! Forged records: an agent writes records of checks, hooks, launches and other effects that never ran.

use std::{fs, path::Path};

use provost_testkit::{TestHome, eventually};
use serde_json::Value;

/// Shell functions with which an agent forges the record of a command that exited with code 0.
const FORGE_FUNCTIONS: &str = r#"
forge() {
  mkdir -p "$1" || return
  echo '{"version":1,"end":{"exited":{"code":0}},"ended_by":"itself","wall_ms":1,"mono_ms":1,"journal_end":0}' > "$1/exit.json"
  echo '{"version":1,"leftovers":0,"verified":true,"journal_end":0}' > "$1/gone.json"
}
"#;

fn home_without_rework() -> TestHome {
    let mut home = TestHome::with_short_windows();
    home.set_env("PROVOST_SESSION_REWORK", "0");
    home
}

/// Starts a shell script as an agent in a worktree of a new repository, and returns the session's id.
fn spawn_forger(home: &TestHome, flags: &[&str], script: &str) -> String {
    let repo = home.repo("sample");
    let script = format!("{FORGE_FUNCTIONS}\n{script}");
    let line = [&["spawn", "--json", "--worktree"], flags, &["--", "sh", "-c", &script]].concat();
    let spawned = home.provost_in(repo.path(), &line);
    spawned.ok().json()["id"].as_str().unwrap().to_owned()
}

fn wait_sealed(home: &TestHome, id: &str) -> Value {
    home.wait_state(id, |row| row["sealed"] == true)
}

fn has_flag(row: &Value, flag: &str) -> bool {
    row["flags"].as_array().is_some_and(|flags| flags.contains(&flag.into()))
}

fn count_lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// Returns the directories below `checks/` or `launches/` whose names start with `start`.
fn dirs_starting_with(home: &TestHome, parent: &str, start: &str) -> Vec<String> {
    let entries = fs::read_dir(home.path().join(parent)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(start)).collect()
}

#[test]
fn f2_10_forged_check_record_is_set_aside() {
    let home = home_without_rework();
    let ran = home.root().join("ran");
    let check = format!("echo run >> {}; exit 1", ran.display());
    let id = spawn_forger(
        &home,
        &["--check", &check],
        r#"echo work > work.txt
forge "$PROVOST_HOME/checks/$PROVOST_SESSION.c1-1-0"
"$PROVOST_BIN" report completed --message done"#,
    );
    let row = wait_sealed(&home, &id);
    assert_ne!(row["state"], "succeeded", "the forged record counted: {row:#}");
    assert_eq!(count_lines(&ran), 1, "the check ran once");
    assert!(has_flag(&row, "record_forged"), "{:#}", row["flags"]);
    let events = home.events_of(&id, "record.forged");
    assert_eq!(events.len(), 1, "{events:#?}");
    let kept = events[0]["data"]["moved_to"].as_str().unwrap();
    assert!(home.path().join(kept).join("exit.json").exists(), "it is not kept at {kept}");
}

#[test]
fn f2_10_forged_hook_record_still_runs_the_hook() {
    let home = home_without_rework();
    let ran = home.root().join("hooks");
    home.configure(&format!("[hooks.session]\ncompleted = \"echo hook >> {}\"\n", ran.display()));
    // The agent does not know the hook's number, so it forges several.
    let id = spawn_forger(
        &home,
        &[],
        r#"for no in 1 2 3 4 5; do forge "$PROVOST_HOME/checks/$PROVOST_SESSION.h$no-session.completed"; done
for no in 1 2 3 4 5; do forge "$PROVOST_HOME/checks/$PROVOST_SESSION.h$no-completed"; done
"$PROVOST_BIN" report completed --message done"#,
    );
    wait_sealed(&home, &id);
    eventually("the hook runs", || (count_lines(&ran) == 1).then_some(()));
    home.wait_state(&id, |row| has_flag(row, "record_forged"));
}

#[test]
fn f2_10_check_directories_have_a_random_part() {
    let home = home_without_rework();
    let flags = ["--check", "true"];
    let id = spawn_forger(&home, &flags, "echo w > w.txt; \"$PROVOST_BIN\" report completed");
    let row = wait_sealed(&home, &id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let output = row["checks"][0]["output"].as_str().unwrap();
    let name = output.strip_prefix("checks/").unwrap();
    let random = name.strip_prefix(&format!("{id}.c1-1-0~")).unwrap_or_default();
    assert!(random.len() >= 16, "{name} can be guessed");
    assert_eq!(dirs_starting_with(&home, "checks", &format!("{id}.c1-1-0")), [name.to_owned()]);
    home.provost(&["logs", &id, "--check", "1"]).ok();
}

#[test]
fn f2_10_record_without_held_json_does_not_count() {
    let home = home_without_rework();
    let (go, ran) = (home.root().join("go"), home.root().join("ran"));
    // The check blocks. Meanwhile a forged exit record is written to its directory.
    let check = format!(
        "echo run >> {}; while [ ! -e {} ]; do sleep 0.05; done; exit 1",
        ran.display(),
        go.display()
    );
    let id = spawn_forger(
        &home,
        &["--check", &check],
        "echo w > w.txt; \"$PROVOST_BIN\" report completed",
    );
    eventually("the check runs", || (count_lines(&ran) == 1).then_some(()));
    let name = eventually("the check's directory", || {
        dirs_starting_with(&home, "checks", &format!("{id}.c1-1-0")).pop()
    });
    let dir = home.path().join("checks").join(name);
    let exit = r#"{"version":1,"end":{"exited":{"code":0}},"ended_by":"itself","wall_ms":1,"mono_ms":1,"journal_end":0}"#;
    fs::remove_file(dir.join("held.json")).unwrap();
    fs::write(dir.join("exit.json"), exit).unwrap();
    let gone = r#"{"version":1,"leftovers":0,"verified":true,"journal_end":0}"#;
    fs::write(dir.join("gone.json"), gone).unwrap();
    // The next daemon can rely only on these files.
    home.daemon().kill();
    home.provost(&["ls"]).ok();
    fs::write(&go, "").unwrap();
    let row = wait_sealed(&home, &id);
    assert_ne!(row["state"], "succeeded", "{row:#}");
}

#[test]
fn f2_10_forged_launch_directory_is_set_aside() {
    let home = home_without_rework();
    let started = home.root().join("started");
    let script = home.root().join("forger.sh");
    let text = format!(
        "{FORGE_FUNCTIONS}\necho start >> {}\nread line\n[ $PROVOST_LAUNCH_NO = 1 ] && forge \"$PROVOST_HOME/launches/$PROVOST_SESSION.l2\"\n\"$PROVOST_BIN\" report completed\n",
        started.display()
    );
    fs::write(&script, text).unwrap();
    home.configure(&format!(
        "[agents.forger]\nadapter = \"jsonl\"\ncommand = [\"sh\", \"{}\"]\n",
        script.display()
    ));
    let spawned = home.provost(&["spawn", "--json", "--agent", "forger", "first"]);
    let id = spawned.ok().json()["id"].as_str().unwrap().to_owned();
    wait_sealed(&home, &id);
    home.provost(&["send", &id, "second"]).ok();
    eventually("the second launch starts", || (count_lines(&started) == 2).then_some(()));
    home.wait_state(&id, |row| has_flag(row, "record_forged"));
}

#[test]
fn f2_20_copied_file_does_not_leave_the_worktree() {
    let home = home_without_rework();
    let outside = home.root().join("outside");
    fs::create_dir(&outside).unwrap();
    let repo = home.repo("sample");
    // The commit has a symbolic link where the checkout has a directory.
    std::os::unix::fs::symlink(&outside, repo.path().join("conf")).unwrap();
    repo.write(".gitignore", ".env\n");
    repo.commit("a link that leads out");
    fs::remove_file(repo.path().join("conf")).unwrap();
    repo.write("conf/.env", "SECRET=1\n");
    home.configure("[worktree]\ncopy = [\"conf/.env\"]\n");
    let line = ["spawn", "--json", "--worktree", "--", "true"];
    home.provost_in(repo.path(), &line).ok();
    eventually("the session is over", || {
        let rows = home.provost(&["ls", "--all", "--json"]).ok().json();
        (rows["sessions"][0]["sealed"] == true).then_some(())
    });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "a file was written through the link");
}
