//! Repositories that are not trusted yet.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
};

use provost_testkit::harness::{ProgramOutput, TestHome, TestRepo, eventually, read_nonempty};
use rustix::process::geteuid;
use serde_json::Value;

/// A user that owns none of these files.
const FOREIGN_UID: u32 = 65_534;

/// The file that a program of the repository would create.
pub(crate) fn proof_file(home: &TestHome) -> PathBuf {
    home.root().join("OWNED")
}

/// Configuration of a hook that creates that file.
fn hook_config(home: &TestHome) -> String {
    format!("[hooks]\nsession.opened = \"touch {}\"\n", proof_file(home).display())
}

pub(crate) fn write_file(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Starts a plain command and waits for its outcome.
#[track_caller]
fn spawn_and_wait(home: &TestHome, dir: &Path) -> ProgramOutput {
    home.provost_in(dir, &["spawn", "--json", "--wait", "--exit-zero-completes", "--", "true"])
}

/// Asserts that the command was refused and suggests `provost trust`.
#[track_caller]
pub(crate) fn assert_untrusted(output: &ProgramOutput, file: &str) {
    output.assert_code(4);
    let error = &output.json()["error"];
    let text = error.to_string();
    assert!(text.contains(file), "{text}");
    assert!(error["next"].to_string().contains("provost trust"), "{text}");
}

#[test]
fn f1_s5_cloned_config_runs_nothing_before_trust() {
    let home = TestHome::new();
    let repo = home.repo("cloned");
    let setup = home.root().join("SETUP");
    let more = format!(
        "[worktree]\nenabled = true\nsetup = \"touch {}\"\n[agents.codex]\nsandbox = \"full-access\"\n",
        setup.display()
    );
    repo.write("provost.toml", &format!("{more}{}", hook_config(&home)));
    let refused = spawn_and_wait(&home, repo.path());
    assert_untrusted(&refused, "provost.toml");
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("worktree.setup") && message.contains("touch"), "{message}");
    for arguments in [
        &["run", "Do it."][..],
        &["plan", "Do it."],
        &["team", "start", "Do it.", "--worker", "codex"],
    ] {
        assert_untrusted(
            &home.provost_in(repo.path(), &[arguments, &["--json"]].concat()),
            "provost.toml",
        );
    }
    assert!(!proof_file(&home).exists() && !setup.exists());
    let listed = home.provost(&["ls", "--all", "--json"]).ok().json();
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(0), "{listed}");

    home.trust(repo.path());
    spawn_and_wait(&home, repo.path()).ok();
    eventually("the hook of a trusted project", || proof_file(&home).exists().then_some(()));
    assert!(setup.exists());
}

#[test]
fn f1_s5_changed_config_needs_trust_again() {
    let home = TestHome::new();
    let repo = home.repo("cloned");
    repo.write("provost.toml", "[verify]\nchecks = [\"true\"]\n");
    home.trust(repo.path());
    home.provost_in(
        repo.path(),
        &["spawn", "--no-check", "--wait", "--exit-zero-completes", "--", "true"],
    )
    .ok();
    repo.write("provost.toml", "[verify]\nchecks = [\"true\"]\n[session]\nsettle = \"60ms\"\n");
    spawn_and_wait(&home, repo.path());
    let unchanged = home.provost_in(repo.path(), &["trust", "--print", "--json"]).ok().json();
    assert_eq!(unchanged["trusted"], true, "a harmless key needs no trust: {unchanged}");

    repo.write("provost.toml", &format!("[verify]\nchecks = [\"true\"]\n{}", hook_config(&home)));
    assert_untrusted(&spawn_and_wait(&home, repo.path()), "hooks.session.opened");
    let print = home.provost_in(repo.path(), &["trust", "--print"]).ok().stdout.clone();
    assert!(print.contains("+ hooks.session.opened"), "{print}");
    assert!(!print.contains("+ verify.checks"), "trusted keys are not shown as changes: {print}");
    assert!(!proof_file(&home).exists());
}

#[test]
fn harmless_project_keys_need_no_trust() {
    let home = TestHome::new();
    let repo = home.repo("plain");
    repo.write("provost.toml", "[session]\nsettle = \"60ms\"\n[ui]\ncolor = \"never\"\n");
    spawn_and_wait(&home, repo.path()).ok();
    let print = home.provost_in(repo.path(), &["trust", "--print", "--json"]).ok().json();
    assert_eq!((&print["needed"], &print["trusted"]), (&false.into(), &true.into()), "{print}");
}

/// Keys of a repository that name no program but widen what others see, run or keep.
#[test]
fn keys_that_widen_reach_need_trust() {
    for (text, key) in [
        ("[worktree]\ncopy = [\".env\"]\n", "worktree.copy"),
        ("[worktree]\nenabled = false\n", "worktree.enabled"),
        ("[workflows.create]\nverifier = \"mine\"\n", "workflows.create.verifier"),
        ("[workflows.create]\nfallback = [\"codex\"]\n", "workflows.create.fallback"),
        ("[verify]\nkeep = [\"tests\"]\n", "verify.keep"),
        ("[run]\nmachine_parallel = 256\n", "run.machine_parallel"),
    ] {
        let home = TestHome::new();
        let repo = home.repo("wide");
        repo.write("provost.toml", text);
        let refused = spawn_and_wait(&home, repo.path());
        assert_untrusted(&refused, key);
        let message = refused.json()["error"]["message"].to_string();
        assert!(!message.contains("widens what runs may do"), "{key} has no meaning: {message}");
        // Commands that only read still work, without the value.
        home.provost_in(repo.path(), &["config", "show"]).ok();
        home.trust(repo.path());
        spawn_and_wait(&home, repo.path()).ok();
    }
}

#[test]
fn kept_pattern_that_no_check_accepts_is_refused() {
    let home = TestHome::new();
    let repo = home.repo("kept");
    for name in ["*", "a/b", "target*", "**/cache"] {
        home.configure(&format!("[verify]\nkeep = [\"{name}\"]\nchecks = [\"true\"]\n"));
        let refused = spawn_and_wait(&home, repo.path());
        let error = refused.assert_code(2).json()["error"]["message"].to_string();
        assert!(error.contains("verify.keep") && error.contains(":2:"), "what and where: {error}");
        assert!(error.contains("name of a directory"), "what to do: {error}");
    }
}

#[test]
fn config_with_errors_cannot_be_trusted() {
    let home = TestHome::new();
    let repo = home.repo("misspelt");
    let config = |key: &str| format!("[agents.mine]\nadapter = \"jsonl\"\n{key} = [\"true\"]\n");
    repo.write("provost.toml", &config("comand"));
    for arguments in [&["trust", "--yes"][..], &["trust", "--print"], &["trust"]] {
        let refused = home.provost_in(repo.path(), arguments);
        refused.assert_code(2);
        for part in ["agents.mine.comand", "did you mean", "correct the file, then trust it"] {
            assert!(refused.stderr.contains(part), "{arguments:?}: {refused:#?}");
        }
    }
    let digests = home.provost(&["trust", "--list", "--json"]).ok().json();
    assert_eq!(digests["projects"], serde_json::json!([]), "nothing was trusted");
    repo.write("provost.toml", &config("command"));
    let trusted = home.provost_in(repo.path(), &["trust", "--yes"]);
    trusted.ok();
    assert!(trusted.stdout.contains("+ agents.mine.command"), "{trusted:#?}");
    assert!(!trusted.stdout.contains("removed"), "the file exists: {trusted:#?}");
}

#[test]
fn ignore_project_config_skips_project_settings() {
    let home = TestHome::new();
    let repo = home.repo("ignored");
    home.configure("[run]\ntriage = false\nplan = \"never\"\n[review]\ntask = \"off\"\n[agents.mine]\nadapter = \"jsonl\"\ncommand = [\"true\"]\n");
    let more = "run.opened = \"false\"\n[worktree]\nsetup = \"false\"\n";
    repo.write("provost.toml", &format!("{}{more}", hook_config(&home)));
    let spawn = ["spawn", "--json", "--wait", "--exit-zero-completes", "--ignore-project-config"];
    home.provost_in(repo.path(), &[&spawn[..], &["--", "true"]].concat()).ok();
    let run = ["run", "--json", "--detach", "--agent", "mine", "--ignore-project-config", "Do it."];
    let id = home.provost_in(repo.path(), &run).ok().json()["id"].as_str().unwrap().to_owned();
    let spec = home.events_of(&id, "run.opened")[0]["data"]["spec"].clone();
    assert_eq!(
        (&spec["setup"], &spec["hooks"]),
        (&Value::Null, &serde_json::json!({})),
        "{spec:#}"
    );
    home.provost(&["cancel", &id]);
    home.wait_sealed(&id);
    assert!(!proof_file(&home).exists());
}

#[test]
fn trust_for_ci_takes_exactly_one_digest() {
    let home = TestHome::new();
    let repo = home.repo("ci");
    repo.write("provost.toml", &hook_config(&home));
    let digest = |home: &TestHome| -> String {
        let print = home.provost_in(repo.path(), &["trust", "--print", "--json"]).ok().json();
        print["digest"].as_str().unwrap().to_owned()
    };
    let before = digest(&home);
    repo.write("provost.toml", &format!("{}[worktree]\nsetup = \"true\"\n", hook_config(&home)));
    let wrong = home.provost_in(repo.path(), &["trust", "--trust", &before, "--json"]);
    assert_eq!(wrong.assert_code(4).json()["ok"], false);
    assert_untrusted(&spawn_and_wait(&home, repo.path()), "provost.toml");
    home.provost_in(repo.path(), &["trust", "--trust", &digest(&home)]).ok();
    spawn_and_wait(&home, repo.path()).ok();
    // Without a terminal and without --yes, the project stays untrusted.
    repo.write("provost.toml", &format!("{}[worktree]\nsetup = \"false\"\n", hook_config(&home)));
    home.provost_in(repo.path(), &["trust"]).assert_code(4);
    assert_untrusted(&spawn_and_wait(&home, repo.path()), "provost.toml");
}

#[test]
fn trust_is_listed_and_revoked() {
    let home = TestHome::new();
    let repo = home.repo("listed");
    repo.write("provost.toml", &hook_config(&home));
    home.trust(repo.path());
    let listed = home.provost(&["trust", "--list", "--json"]).ok().json();
    let top = repo.path().canonicalize().unwrap();
    assert_eq!(listed["projects"][0]["path"], top.to_str().unwrap(), "{listed}");
    let store = home.root().join("user/.config/provost/trust");
    assert_eq!(fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&store).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    home.provost_in(repo.path(), &["trust", "--revoke"]).ok();
    assert_untrusted(&spawn_and_wait(&home, repo.path()), "provost.toml");
    home.provost_in(repo.path(), &["trust", "--revoke"]).assert_code(3);
}

#[test]
fn no_variable_turns_trust_off() {
    let mut home = TestHome::new();
    let repo = home.repo("variable");
    repo.write("provost.toml", &hook_config(&home));
    for name in ["PROVOST_TRUST", "PROVOST_YES", "PROVOST_TRUST_ALL", "PROVOST_NO_TRUST"] {
        home.set_env(name, "1");
    }
    assert_untrusted(&spawn_and_wait(&home, repo.path()), "provost.toml");
    assert!(!proof_file(&home).exists());
}

#[test]
fn untrusted_text_cannot_drive_the_terminal() {
    let home = TestHome::new();
    let repo = home.repo("escapes");
    repo.write("provost.toml", "[worktree]\nsetup = \"true \\u001b[2J\\u202e\"\n");
    repo.write(".mcp.json", "{\"mcpServers\": {\"x\u{1b}[2J\": {\"command\": \"true\"}}}\n");
    for output in [
        home.provost_in(repo.path(), &["trust", "--print"]),
        home.provost_in(repo.path(), &["spawn", "--", "true"]),
        home.provost_in(repo.path(), &["trust", "--yes"]),
    ] {
        let text = format!("{}{}", output.stdout, output.stderr);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    }
}

#[test]
fn agent_cannot_trust_its_repository() {
    let home = TestHome::new();
    let repo = home.repo("agent");
    let other = home.repo("other");
    repo.write("provost.toml", &hook_config(&home));
    let script = home.root().join("agent.sh");
    let elsewhere = home.root().join("elsewhere");
    write_file(
        &script,
        &format!(
            "cd {repo}\nprovost trust --yes; echo $? > {root}/codes\n\
             PROVOST_HOME={elsewhere} provost trust --yes; echo $? >> {root}/codes\n\
             env -u PROVOST_LAUNCH provost trust --yes; echo $? >> {root}/codes\nmv {root}/codes {root}/done\n",
            repo = repo.path().display(),
            root = home.root().display(),
            elsewhere = elsewhere.display(),
        ),
    );
    home.provost_in(other.path(), &["spawn", "--", "sh", script.to_str().unwrap()]).ok();
    let done = home.root().join("done");
    let codes = eventually("the agent's exit codes", || read_nonempty(&done));
    assert_eq!(codes.lines().collect::<Vec<_>>(), ["4", "4", "4"]);
    assert_untrusted(&spawn_and_wait(&home, repo.path()), "provost.toml");
}

#[test]
fn agent_in_terminal_gets_no_trust_prompt() {
    let home = TestHome::new();
    let repo = home.repo("tty");
    let other = home.repo("other");
    repo.write("provost.toml", &hook_config(&home));
    let script = home.root().join("agent.sh");
    let root = home.root().display().to_string();
    let text = format!(
        "cd {}\nyes | provost trust; echo $? > {root}/codes\nprovost spawn -- true; echo $? >> {root}/codes\nmv {root}/codes {root}/done\nexec sleep 100\n",
        repo.path().display()
    );
    write_file(&script, &text);
    let started = home.provost_in(
        other.path(),
        &["spawn", "--json", "--tty", "--", "sh", script.to_str().unwrap()],
    );
    let id = started.ok().json()["id"].as_str().unwrap().to_owned();
    let done = home.root().join("done");
    let codes = eventually("the agent's exit codes", || read_nonempty(&done));
    assert_eq!(codes.lines().collect::<Vec<_>>(), ["4", "4"]);
    home.provost(&["stop", &id]).ok();
    assert_untrusted(&spawn_and_wait(&home, repo.path()), "provost.toml");
}

/// On a terminal, starting a session asks for trust immediately. `script` provides the terminal.
#[test]
fn spawn_on_terminal_prompts_for_trust() {
    let home = TestHome::new();
    let repo = home.repo("asked");
    repo.write("provost.toml", &hook_config(&home));
    let answer = |text: &str| -> ProgramOutput {
        let like = home.command(&["spawn", "--wait", "--exit-zero-completes", "--", "true"]);
        let words: Vec<&str> = like.get_args().filter_map(|word| word.to_str()).collect();
        let line = format!("{} {}", like.get_program().to_str().unwrap(), words.join(" "));
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(repo.path()).env_clear();
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), text.as_bytes()).unwrap();
        let ended = child.wait_with_output().unwrap();
        ProgramOutput {
            command: line,
            status: ended.status,
            stdout: String::from_utf8_lossy(&ended.stdout).into_owned(),
            stderr: String::new(),
            raw_stdout: ended.stdout,
        }
    };
    let refused = answer("n\n");
    assert!(refused.assert_code(4).stdout.contains("hooks.session.opened"), "{refused:?}");
    assert!(!proof_file(&home).exists());
    answer("y\n").ok();
    eventually("the hook of a trusted project", || proof_file(&home).exists().then_some(()));
    spawn_and_wait(&home, repo.path()).ok();
}

/// While the prompt is open, the file's mode changes so that another user could have written it.
#[test]
fn trusted_content_counts_if_file_changes_meanwhile() {
    let home = TestHome::new();
    let repo = home.repo("asked");
    repo.write("provost.toml", &hook_config(&home));
    let like = home.command(&["spawn", "--wait", "--exit-zero-completes", "--", "true"]);
    let words: Vec<&str> = like.get_args().filter_map(|word| word.to_str()).collect();
    let line = format!("{} {}", like.get_program().to_str().unwrap(), words.join(" "));
    let mut command = std::process::Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(repo.path()).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut shown = Vec::new();
    while !shown.ends_with(b"[y/N]") {
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        shown.extend(byte);
    }
    let file = repo.path().join("provost.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    child.stdin.as_mut().unwrap().write_all(b"y\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    // The content that was shown and trusted had a hook.
    eventually("the hook of a trusted project", || proof_file(&home).exists().then_some(()));
    spawn_and_wait(&home, repo.path()).assert_code(4);
}

#[test]
fn f2_2_fake_git_dir_above_is_not_a_project() {
    let home = TestHome::new();
    let shared = home.root().join("shared");
    write_file(&shared.join(".git/HEAD"), "");
    write_file(&shared.join("provost.toml"), &hook_config(&home));
    let work = shared.join("alice/work");
    fs::create_dir_all(&work).unwrap();
    spawn_and_wait(&home, &work).ok();
    assert!(!proof_file(&home).exists());
    let shown = home.provost_in(&work, &["config", "show", "--json"]).ok().stdout.clone();
    assert!(!shown.contains("OWNED"), "{shown}");
}

#[test]
fn f2_2_config_of_another_user_is_ignored() {
    if !geteuid().is_root() {
        return;
    }
    let home = TestHome::new();
    for foreign in ["", ".git", "provost.toml"] {
        let name = if foreign.is_empty() { "top" } else { foreign.trim_start_matches('.') };
        let repo = home.repo(name);
        repo.write("provost.toml", &hook_config(&home));
        home.trust(repo.path());
        chown(repo.path().join(foreign), Some(FOREIGN_UID), Some(FOREIGN_UID)).unwrap();
        let refused = spawn_and_wait(&home, repo.path());
        let error = refused.assert_code(4).json()["error"].to_string();
        assert!(error.contains("another user") && error.contains("chown"), "{foreign}: {error}");
        home.provost_in(repo.path(), &["trust", "--yes"]).assert_code(4);
        for arguments in [&["config", "show"][..], &["ls"], &["status"]] {
            home.provost_in(repo.path(), arguments);
        }
        assert!(!proof_file(&home).exists(), "{foreign}");
        chown(repo.path().join(foreign), Some(0), Some(0)).unwrap();
    }
}

#[test]
fn f2_2_world_writable_config_cannot_be_trusted() {
    let home = TestHome::new();
    for (name, mode) in [("provost.toml", 0o666), ("", 0o777), ("provost.toml", 0o646)] {
        let repo = home.repo(&format!("writable-{mode:o}"));
        repo.write("provost.toml", &hook_config(&home));
        fs::set_permissions(repo.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        let refused = home.provost_in(repo.path(), &["trust", "--yes", "--json"]);
        let error = refused.assert_code(4).json()["error"].to_string();
        assert!(error.contains("chmod"), "{error}");
        let refused = spawn_and_wait(&home, repo.path());
        assert!(
            refused.assert_code(4).json()["error"].to_string().contains("chmod"),
            "{refused:?}"
        );
        assert!(!proof_file(&home).exists(), "{name} {mode:o}");
    }
}

#[test]
fn f2_2_symlinked_config_is_ignored() {
    let home = TestHome::new();
    let repo = home.repo("linked");
    let real = home.root().join("elsewhere.toml");
    write_file(&real, &hook_config(&home));
    symlink(&real, repo.path().join("provost.toml")).unwrap();
    let refused = home.provost_in(repo.path(), &["trust", "--yes", "--json"]);
    assert!(refused.assert_code(4).json()["error"].to_string().contains("link"), "{refused:?}");
    spawn_and_wait(&home, repo.path()).assert_code(4);
    assert!(!proof_file(&home).exists());
}

/// A repository whose configuration names one of its own programs as Codex.
fn repo_with_program(home: &TestHome, name: &str) -> TestRepo {
    let repo = home.repo(name);
    repo.write("run.sh", &format!("#!/bin/sh\ntouch {}\n", proof_file(home).display()));
    repo.write("provost.toml", "[agents.codex]\npath = \"run.sh\"\n");
    let path = repo.path().join("run.sh");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    repo
}

#[test]
fn f2_3_read_commands_run_no_repo_program() {
    let home = TestHome::new();
    let repo = repo_with_program(&home, "looked-at");
    let look = || {
        for arguments in [
            &["config", "show"][..],
            &["config", "show", "--json"],
            &["doctor"],
            &["doctor", "--json"],
            &["ls"],
            &["status"],
            &["presets"],
            &["skills", "list"],
            &["trust", "--print"],
        ] {
            home.provost_in(repo.path(), arguments);
            assert!(!proof_file(&home).exists(), "{arguments:?} ran the repository's program");
        }
    };
    look();
    // Trust applies to starting sessions; read-only commands still run nothing.
    home.trust(repo.path());
    look();
    let doctor = home.provost_in(repo.path(), &["doctor", "--json"]).json().to_string();
    assert!(doctor.contains("run.sh"), "its path is shown: {doctor}");
}

#[test]
fn f2_3_doctor_skips_repo_programs_on_path() {
    let mut home = TestHome::new();
    let repo = repo_with_program(&home, "in-path");
    fs::rename(repo.path().join("run.sh"), repo.path().join("codex")).unwrap();
    fs::remove_file(repo.path().join("provost.toml")).unwrap();
    let path = std::env::split_paths(&path_variable(&home)).collect::<Vec<_>>();
    for added in [PathBuf::from("."), repo.path().to_owned(), PathBuf::new()] {
        let all = std::iter::once(added.clone()).chain(path.iter().cloned());
        home.set_env("PATH", std::env::join_paths(all).unwrap());
        home.provost_in(repo.path(), &["doctor"]);
        home.provost_in(repo.path(), &["config", "show"]);
        assert!(!proof_file(&home).exists(), "{} was searched", added.display());
    }
}

fn path_variable(home: &TestHome) -> std::ffi::OsString {
    let like = home.command(&["status"]);
    let path = like.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    path.unwrap().to_owned()
}

#[test]
fn f2_3_config_show_marks_untrusted_values() {
    let home = TestHome::new();
    let repo = home.repo("marked");
    repo.write("provost.toml", "[worktree]\nsetup = \"./evil\"\n[session]\nsettle = \"70ms\"\n");
    let entry = |key: &str| -> Value {
        let shown = home.provost_in(repo.path(), &["config", "show", "--json"]).ok().json();
        let entries = shown["entries"].as_array().unwrap().clone();
        entries.into_iter().find(|entry| entry["key"] == key).unwrap()
    };
    let setup = entry("worktree.setup");
    assert_eq!(setup["value"], Value::Null, "{setup}");
    assert_eq!(setup["untrusted"][0]["value"], "./evil", "{setup}");
    assert_eq!(entry("session.stale_after")["untrusted"], Value::Null);
    let text = home.provost_in(repo.path(), &["config", "show"]).ok().stdout.clone();
    assert!(text.contains("not trusted yet"), "{text}");
    home.trust(repo.path());
    assert_eq!(entry("worktree.setup")["value"], "./evil");
}

#[test]
fn serve_reloads_changed_workflow_after_trust() {
    let home = TestHome::new();
    let repo = home.repo("served");
    let front = |hook: &str| {
        format!(
            "---\ntracker: {{kind: file}}\npolling: {{interval_ms: 100}}\nhooks: {{after_create: \"{hook}\"}}\n---\nDo it.\n"
        )
    };
    fs::create_dir(repo.path().join("issues")).unwrap();
    repo.write("WORKFLOW.md", &front("true"));
    let refused = home.provost_in(repo.path(), &["serve", "--once", "--json"]);
    assert_untrusted(&refused, "WORKFLOW.md");
    home.trust(repo.path());
    home.provost_in(repo.path(), &["serve", "--once"]).ok();

    let workflow = repo.path().join("WORKFLOW.md");
    let serving = home.follow(&["serve", "--json", "--workflow", workflow.to_str().unwrap()]);
    let until =
        |text: &str| serving.wait_line(text, |line| line.contains(text).then(|| line.to_owned()));
    until("serving");
    repo.write("WORKFLOW.md", &front(&format!("touch {}", proof_file(&home).display())));
    let event = until("provost trust");
    assert!(event.contains("WORKFLOW.md"), "{event}");
    home.trust(repo.path());
    until("reloaded");
}
