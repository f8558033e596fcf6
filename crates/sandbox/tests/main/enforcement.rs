//! Commands reach only the files and sockets that their plan allows.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use provost_sandbox::status::{SandboxStart, read};
use provost_sandbox::{Error, NetworkAccess, SandboxLevel, SandboxMode, SandboxRequest};

use crate::kit::{CANARY, TestEnv, TestUser, everywhere, has_full};

#[test]
fn command_runs_in_the_worktree_and_can_write_there() {
    everywhere(|env, level| {
        let run = env.run(&env.request(), level, "pwd; echo new >file; mkdir d; mv file d/");
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{level}");
        assert_eq!(run.stdout.trim(), env.worktree().to_str().unwrap());
        assert_eq!(env.read("work/d/file"), "new\n");
        assert_eq!(read(&env.status()).unwrap(), SandboxStart::Entered);
    });
}

#[test]
fn exit_code_and_output_pass_through() {
    everywhere(|env, level| {
        let run = env.run(&env.request(), level, "echo out; echo err >&2; exit 41");
        assert_eq!((run.code, run.stdout.as_str()), (Some(41), "out\n"), "{level} {run:?}");
        assert_eq!(run.stderr, "err\n");
    });
}

#[test]
fn secrets_are_not_readable_on_any_path() {
    everywhere(|env, level| {
        symlink(env.root.join("home/.ssh/id"), env.worktree().join("link")).unwrap();
        let script = "cat link \"$R/home/.ssh/id\" \"$R/home/.config/gh/hosts.yml\" \
                      \"$R/provost/ledger/key\" \"/proc/self/root$R/home/.ssh/id\"; \
                      ln \"$R/home/.ssh/id\" copy && cat copy; \
                      mv \"$R/home/.ssh\" there && cat there/id; \
                      cat \"$R/home/src/notes\"";
        let run = env.run(&env.request(), level, script);
        assert!(!run.stdout.contains(CANARY), "{level} {run:?}");
        assert_eq!(run.stdout, "public", "the rest stays readable: {level} {run:?}");
        assert_eq!(env.read("home/.ssh/id"), CANARY);
    });
}

#[test]
fn secrets_are_readable_without_a_sandbox() {
    everywhere(|env, level| {
        let request = SandboxRequest { mode: SandboxMode::Off, ..env.request() };
        let run = env.run(&request, level, "cat \"$R/home/.ssh/id\"; echo x >\"$R/outside/new\"");
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), CANARY), "{level} {run:?}");
        assert_eq!(env.read("outside/new"), "x\n");
    });
}

#[test]
fn files_outside_cannot_be_changed() {
    everywhere(|env, level| {
        let script = "echo x >\"$R/outside/new\"; echo x >>\"$R/outside/file\"; \
                      : >\"$R/outside/file\"; rm -f \"$R/outside/file\"; \
                      mv \"$R/outside/file\" \"$R/outside/moved\"; mkdir \"$R/outside/d\"; \
                      ln -s x \"$R/outside/l\"; touch \"$R/home/x\" \"$R/provost/x\" /etc/x /x; \
                      chmod 0777 \"$R/outside\"; ln \"$R/outside/file\" own && echo x >own; \
                      mv own \"$R/outside/\"; true";
        let run = env.run(&env.request(), level, script);
        assert_eq!(env.read("outside/file"), "before", "{level} {run:?}");
        let entries = fs::read_dir(env.root.join("outside")).unwrap().count();
        assert_eq!(entries, 1, "{level} {run:?}");
        assert!(!env.root.join("home/x").exists() && !env.root.join("provost/x").exists());
    });
}

#[test]
fn read_only_command_can_write_only_temporary_files() {
    everywhere(|env, level| {
        env.write("work/file", "before");
        let request = SandboxRequest {
            mode: SandboxMode::ReadOnly,
            user_writable: vec![env.root.join("outside")],
            ..env.request()
        };
        let script = "cat file; echo x >new; echo x >file; echo x >\"$R/outside/new\"; \
                      echo t >\"$TMPDIR/t\" && cat \"$TMPDIR/t\"";
        let run = env.run(&request, level, script);
        assert_eq!(run.stdout, "beforet\n", "{level} {run:?}");
        assert_eq!(env.read("work/file"), "before");
        assert!(!env.worktree().join("new").exists() && !env.root.join("outside/new").exists());
    });
}

#[test]
fn configured_paths_are_writable() {
    everywhere(|env, level| {
        let missing = env.root.join("missing");
        let request = SandboxRequest {
            user_writable: vec![env.root.join("outside"), missing],
            ..env.request()
        };
        let run = env.run(&request, level, "echo x >\"$R/outside/new\"");
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{level}");
        assert_eq!(env.read("outside/new"), "x\n");
    });
}

#[test]
fn secrets_in_a_writable_directory_stay_hidden() {
    everywhere(|env, level| {
        let request =
            SandboxRequest { user_writable: vec![env.root.join("home")], ..env.request() };
        let script = "cat \"$R/home/.ssh/id\"; echo x >\"$R/home/src/new\"; \
                      echo x >>\"$R/home/.ssh/authorized_keys\"";
        let run = env.run(&request, level, script);
        assert!(!run.stdout.contains(CANARY), "{level} {run:?}");
        assert_eq!(env.read("home/src/new"), "x\n");
        assert!(!env.root.join("home/.ssh/authorized_keys").exists());
    });
}

#[test]
fn system_cannot_be_made_writable() {
    let env = TestEnv::new(TestUser::Current);
    for path in ["/", "/proc", "/dev/../sys"] {
        let request = SandboxRequest { user_writable: vec![path.into()], ..env.request() };
        assert!(matches!(request.resolve(), Err(Error::TooBroad { .. })), "{path}");
    }
}

#[test]
fn shared_temporary_files_are_neither_readable_nor_changed() {
    everywhere(|env, level| {
        let shared = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        fs::write(shared.path(), CANARY).unwrap();
        let script =
            format!("cat {0}; echo x >{0}; echo y >\"$TMPDIR/own\"", shared.path().display());
        let run = env.run(&env.request(), level, &script);
        assert!(!run.stdout.contains(CANARY), "{level} {run:?}");
        assert_eq!(fs::read_to_string(shared.path()).unwrap(), CANARY);
        assert_eq!(env.read("tmp/own"), "y\n");
    });
}

#[test]
fn git_dir_of_an_own_repository_cannot_be_changed() {
    everywhere(|env, level| {
        fs::create_dir_all(env.worktree().join(".git/hooks")).unwrap();
        env.write("work/.git/config", "before");
        let script = "cat .git/config; echo x >.git/config; echo x >.git/hooks/pre-commit; \
                      mv .git other; rm -rf .git; true";
        let run = env.run(&env.request(), level, script);
        assert_eq!(run.stdout, "before", "{level} {run:?}");
        assert_eq!(env.read("work/.git/config"), "before");
        assert!(!env.worktree().join(".git/hooks/pre-commit").exists());
    });
}

#[test]
fn key_agents_are_not_inherited() {
    everywhere(|env, level| {
        let run = env.run(&env.request(), level, "env");
        assert!(!run.stdout.contains("SSH_AUTH_SOCK"), "{level} {run:?}");
        assert!(!run.stdout.contains("PROVOST_SANDBOX_ORDER"), "{level} {run:?}");
    });
}

/// Connects to a TCP port of this machine, with a shell that supports this.
fn connect_script(port: u16) -> String {
    format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected' 2>&1; true")
}

#[test]
fn network_is_off_unless_allowed() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = connect_script(server.local_addr().unwrap().port());
    everywhere(|env, level| {
        let run = env.run(&env.request(), level, &script);
        assert!(!run.stdout.contains("connected"), "{level} {run:?}");
        let request = SandboxRequest { network: NetworkAccess::On, ..env.request() };
        let run = env.run(&request, level, &script);
        assert!(run.stdout.contains("connected"), "{level} {run:?}");
    });
}

/// Connects to a socket in the file system.
fn unix_script(path: &str) -> String {
    format!(
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); \
         print connect(S, pack_sockaddr_un(\"{path}\")) ? \"connected\" : \"refused\"'"
    )
}

#[test]
fn hidden_sockets_are_unreachable_and_shown_ones_reachable() {
    if !has_full() {
        return;
    }
    let env = TestEnv::new(TestUser::Current);
    let path = env.root.join("provost/daemon.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let script = unix_script(path.to_str().unwrap());
    let run = env.run(&env.request(), SandboxLevel::Full, &script);
    assert_eq!(run.stdout, "refused", "{run:?}");
    let mut request = env.request();
    request.readable.push(path);
    let run = env.run(&request, SandboxLevel::Full, &script);
    assert_eq!(run.stdout, "connected", "{run:?}");
}

#[test]
fn own_worktree_in_a_hidden_directory_is_the_only_one() {
    everywhere(|env, level| {
        for name in ["provost/worktrees/a", "provost/worktrees/b"] {
            fs::create_dir_all(env.root.join(name)).unwrap();
        }
        env.write("provost/worktrees/b/file", CANARY);
        let own = env.root.join("provost/worktrees/a");
        let request = SandboxRequest { directory: own.clone(), worktree: own, ..env.request() };
        let script = "echo x >own; cat ../b/file; echo x >../b/new; \
                      echo x >../new; cat \"$R/provost/ledger/key\"; true";
        let run = env.run(&request, level, script);
        assert!(!run.stdout.contains(CANARY), "{level} {run:?}");
        assert_eq!(env.read("provost/worktrees/a/own"), "x\n");
        assert!(!env.root.join("provost/worktrees/new").exists());
        assert_eq!(fs::read_dir(env.root.join("provost/worktrees/b")).unwrap().count(), 1);
    });
}

#[test]
fn hidden_names_are_visible_only_without_namespaces() {
    everywhere(|env, level| {
        let run = env.run(&env.request(), level, "ls \"$R/home/.ssh\"");
        assert_eq!(run.stdout.contains("id"), level == SandboxLevel::Files, "{level} {run:?}");
    });
}

#[test]
fn hidden_directory_cannot_be_uncovered() {
    if !has_full() {
        return;
    }
    for user in crate::kit::users() {
        let env = TestEnv::new(user);
        let script = "umount \"$R/home/.ssh\"; mount -o remount,rw /; \
                      unshare --user --map-root-user --mount sh -c 'umount \"$R/home/.ssh\"; \
                      umount -l \"$R/home\"; mount -o remount,rw,bind /; \
                      cat \"$R/home/.ssh/id\"; echo x >\"$R/outside/new\"'; \
                      cat \"$R/home/.ssh/id\"; p=/proc/sys/kernel/core_pattern; v=$(cat $p); \
                      echo \"$v\" >$p && echo changed; true";
        let run = env.run(&env.request(), SandboxLevel::Full, script);
        assert!(!run.stdout.contains(CANARY), "{run:?}");
        assert!(!env.root.join("outside/new").exists(), "{run:?}");
        assert!(!run.stdout.contains("changed"), "{run:?}");
    }
}

#[test]
fn missing_program_is_reported_by_name() {
    everywhere(|env, level| {
        let output = env.command(&env.request(), level, &["no-such-program"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(127), "{level} {text}");
        assert!(text.contains("cannot run \"no-such-program\""), "{level} {text}");
    });
}

#[test]
fn failed_sandbox_is_not_a_failed_command() {
    if !has_full() {
        return;
    }
    let env = TestEnv::new(TestUser::Current);
    let gone = env.root.join("gone");
    fs::create_dir(&gone).unwrap();
    let request = SandboxRequest { writable: vec![gone.clone()], ..env.request() };
    let mut command = env.command(&request, SandboxLevel::Full, &["/bin/true"]);
    fs::remove_dir(&gone).unwrap();
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(read(&env.status()).unwrap(), SandboxStart::Failed);
    assert!(text.contains("gone"), "{text}");
}

#[test]
fn required_path_must_exist() {
    let env = TestEnv::new(TestUser::Current);
    let request = SandboxRequest { writable: vec![PathBuf::from("/nonexistent")], ..env.request() };
    assert!(
        matches!(request.resolve(), Err(Error::Examine(path, _)) if path.starts_with("/nonexistent"))
    );
}
