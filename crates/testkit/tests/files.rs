//! Steps that touch files, git and other commands.

use std::fs;

use provost_testkit::TestRepo;

use crate::agent_env::AgentEnv;

#[test]
fn file_steps_write_append_touch_and_delete() {
    let stage = AgentEnv::new();
    let output = stage.play(
        r#"
        [[step]]
        write = { path = "new/a.txt", content = "one\n" }
        [[step]]
        append = { path = "new/a.txt", content = "two {{launch_no}}\n" }
        [[step]]
        touch = "new/b.txt"
        [[step]]
        mkdir = "dir/deep"
        [[step]]
        write = { path = "gone.txt", content = "x" }
        [[step]]
        delete = "gone.txt"
        [[step]]
        mkdir = "gone"
        [[step]]
        write = { path = "gone/x", content = "x" }
        [[step]]
        delete = "gone"
        "#,
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stage.read("new/a.txt"), "one\ntwo 1\n");
    assert_eq!(stage.read("new/b.txt"), "");
    assert!(stage.path("dir/deep").is_dir());
    assert!(!stage.path("gone.txt").exists() && !stage.path("gone").exists());
}

#[test]
fn git_commit_works_without_git_identity() {
    let (stage, repo) = (AgentEnv::new(), TestRepo::new());
    let scenario =
        "[[step]]\nwrite = { path = 'a.txt', content = 'a' }\n[[step]]\ngit_commit = 'Add a'";
    let mut agent = stage.agent(scenario);
    agent.current_dir(repo.path()).env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = agent.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"", "committing prints nothing");
    assert_eq!(repo.git(&["log", "-1", "--format=%s by %an"]), "Add a by Scripted Agent");
    assert!(repo.is_clean());
}

#[test]
fn run_runs_a_command_with_the_agents_output() {
    let output = AgentEnv::new().play("[[step]]\nrun = ['sh', '-c', 'echo out; echo err >&2; exit 3']\nexpect_exit = 3\n[[step]]\nsay = 'on'");
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"out\non\n"[..], &b"err\n"[..])
    );
}

#[test]
fn run_with_unexpected_exit_code_fails() {
    let stage = AgentEnv::new();
    let broken = stage.play("[[step]]\nrun = ['false']\n[[step]]\nsay = 'on'");
    assert_eq!((broken.status.code(), broken.stdout.as_slice()), (Some(70), &b""[..]));
    assert!(
        String::from_utf8_lossy(&broken.stderr).contains("false exit with 0: it exited with 1"),
        "{broken:?}"
    );
    let any = stage.play("[[step]]\nrun = ['false']\nexpect_exit = 'any'\n[[step]]\nsay = 'on'");
    assert_eq!(any.stdout, b"on\n");
}

#[test]
fn env_dump_writes_names_but_no_values() {
    let stage = AgentEnv::new();
    let output =
        stage.agent("[[step]]\nenv_dump = 'env'").env("PROVOST_TOKEN", "canary").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let names = stage.read("env");
    assert!(names.lines().any(|name| name == "PROVOST_TOKEN"));
    assert!(!names.contains("canary"));
}

#[test]
fn wait_file_continues_when_file_appears() {
    let stage = AgentEnv::new();
    let mut playing = stage
        .start("[[step]]\nsay = 'waiting'\n[[step]]\nwait_file = 'go'\n[[step]]\nsay = 'seen'");
    assert_eq!(playing.line(), "waiting");
    assert!(playing.child.try_wait().unwrap().is_none());
    fs::write(stage.path("go"), "").unwrap();
    assert_eq!((playing.line().as_str(), playing.code()), ("seen", Some(0)));
}

#[test]
fn wait_file_times_out() {
    let output = AgentEnv::new().play("[[step]]\nwait_file = 'never'\nwithin_ms = 30");
    assert_eq!(output.status.code(), Some(70));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("see never within 30 ms"),
        "{output:?}"
    );
}
