//! Real tmux, on its own socket.

use std::path::PathBuf;
use std::process::Command;

use provost_terminal::WriteQueue;
use provost_terminal::tmux::{Error, PaneId, PaneListing, TmuxServer, sockets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use crate::support::wait_until;

/// A server that ends with the test.
struct TmuxTestEnv {
    directory: TempDir,
    server: TmuxServer,
}

impl TmuxTestEnv {
    /// Starts a server with a session whose pane runs a shell command. Returns `None` if this run
    /// has no tmux.
    fn new(line: &str) -> Option<Self> {
        if crate::support::is_missing("tmux") {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let server = TmuxServer::new(directory.path().join("socket"));
        let env = Self { directory, server };
        env.session("one", line);
        Some(env)
    }

    fn session(&self, name: &str, line: &str) {
        let mut tmux = self.tmux();
        tmux.args(["new-session", "-d", "-x", "80", "-y", "24", "-s", name, "-c"]);
        let status = tmux.arg(self.directory.path()).arg(line).status();
        assert!(status.unwrap().success());
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh");
        command.arg("-S").arg(self.server.socket()).args(["-f", "/dev/null"]);
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn pane(&self) -> PaneListing {
        self.server.panes().unwrap().remove(0)
    }

    /// Returns the remaining paste buffers.
    fn buffers(&self) -> String {
        let listed = self.tmux().arg("list-buffers").output().unwrap();
        String::from_utf8_lossy(&listed.stdout).into_owned()
    }
}

impl Drop for TmuxTestEnv {
    fn drop(&mut self) {
        self.tmux().arg("kill-server").status().ok();
    }
}

#[test]
fn panes_are_listed_with_properties() {
    let Some(env) = TmuxTestEnv::new("printf '\\033]2;a title\\007'; exec cat") else { return };
    env.session("one-more", "exec cat");
    let panes = env.server.panes().unwrap();
    assert_eq!(
        panes.iter().map(|pane| pane.session_name.as_str()).collect::<Vec<_>>(),
        ["one", "one-more"]
    );
    assert_ne!(panes[0].id, panes[1].id);
    assert_eq!(
        (panes[0].rows, panes[0].columns, panes[0].clients, panes[0].dead),
        (24, 80, 0, false)
    );
    wait_until("the title", || env.pane().title == "a title");
    assert!(PathBuf::from(format!("/proc/{}", panes[0].pid)).exists());
    assert!(!env.pane().in_mode);
    env.tmux().args(["copy-mode", "-t", panes[0].id.as_str()]).status().unwrap();
    assert!(env.pane().in_mode);
    assert_eq!(env.server.pane(&PaneId::parse("%99").unwrap()).unwrap(), None);
    assert_eq!(sockets(env.directory.path()).unwrap(), [env.server.socket()]);
}

#[test]
fn paste_is_bracketed() {
    let Some(env) = TmuxTestEnv::new("stty raw -echo; printf '\\033[?2004hready'; exec cat > got")
    else {
        return;
    };
    let pane = env.pane().id;
    let got = || std::fs::read_to_string(env.path("got")).unwrap_or_default();
    wait_until("the program", || env.server.screen(&pane).unwrap()[0] == "ready");
    env.server.paste(&pane, "one\ntwo\x1b[201~; three").unwrap();
    wait_until("the paste", || got().ends_with("\x1b[201~"));
    assert_eq!(got(), "\x1b[200~one\ntwo[201~; three\x1b[201~");
    env.server.press_key(&pane, "Enter").unwrap();
    wait_until("the key", || got().ends_with("\x1b[201~\r"));
}

#[test]
fn missing_server_differs_from_missing_pane() {
    let Some(env) = TmuxTestEnv::new("exec cat") else { return };
    let missing = TmuxServer::new(env.path("nobody"));
    assert!(matches!(missing.panes(), Err(Error::NoServer(_))), "{:?}", missing.panes());
    assert!(!env.path("nobody").exists(), "no server was started");
    let refused = env.server.press_key(&PaneId::parse("%99").unwrap(), "y");
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}

#[test]
fn f6_w1_paste_into_dead_pane_is_refused() {
    let Some(env) = TmuxTestEnv::new("read line") else { return };
    let pane = env.pane();
    env.tmux().args(["set-option", "-g", "remain-on-exit", "on"]).status().unwrap();
    env.server.press_key(&pane.id, "Enter").unwrap();
    wait_until("the end of the program", || env.pane().dead);
    for refused in [env.server.paste(&pane.id, "text"), env.server.send_keys(&pane.id, b"y")] {
        assert!(matches!(&refused, Err(Error::PaneClosed)), "{refused:?}");
        assert!(refused.unwrap_err().is_refusal());
    }
    assert_eq!(env.pane().server, pane.server, "the same server");
    assert_eq!(env.buffers(), "", "the text is left nowhere");
}

#[test]
fn f6_w1_copy_mode_pane_gets_no_input() {
    let Some(env) = TmuxTestEnv::new("stty raw -echo; printf ready; exec cat > got") else {
        return;
    };
    let pane = env.pane().id;
    wait_until("the program", || env.server.screen(&pane).unwrap()[0] == "ready");
    env.tmux().args(["copy-mode", "-t", pane.as_str()]).status().unwrap();
    for refused in [env.server.paste(&pane, "text"), env.server.send_keys(&pane, b"y")] {
        assert!(matches!(refused, Err(Error::PaneClosed)), "{refused:?}");
    }
    env.tmux().args(["send-keys", "-t", pane.as_str(), "-X", "cancel"]).status().unwrap();
    env.server.send_keys(&pane, b"after").unwrap();
    let got = || std::fs::read_to_string(env.path("got")).unwrap_or_default();
    wait_until("the keys", || got().ends_with("after"));
    assert_eq!((got(), env.buffers()), ("after".to_owned(), String::new()));
}

#[test]
fn pane_capture_has_styles() {
    let Some(env) = TmuxTestEnv::new("printf '\\033]2;a title\\007\\033[1mbold\\033[0m'; exec cat")
    else {
        return;
    };
    let id = env.pane().id;
    wait_until("the line", || env.server.screen(&id).unwrap()[0] == "bold");
    let (pane, lines) = env.server.styled_screen(&id).unwrap().unwrap();
    assert_eq!((&pane.id, pane.title.as_str(), pane.rows), (&id, "a title", 24));
    assert!(lines[0].contains("\x1b[1mbold"), "{lines:?}");
    assert_eq!(env.server.styled_screen(&PaneId::parse("%99").unwrap()).unwrap(), None);
}

#[test]
fn pane_write_is_detected_without_attaching() {
    let Some(env) = TmuxTestEnv::new("stty -echo; while read line; do printf '%s' \"$line\"; done")
    else {
        return;
    };
    let pane = env.pane();
    let writes = WriteQueue::new().unwrap();
    let ticket = writes.watch_next_write(&pane.tty).unwrap();
    assert_eq!(writes.watch_next_write(&pane.tty).unwrap(), ticket, "it is one terminal");
    assert!(writes.take_tickets().is_err(), "nothing was written yet");
    env.tmux().args(["send-keys", "-t", pane.id.as_str(), "-l", "hello"]).status().unwrap();
    env.server.press_key(&pane.id, "Enter").unwrap();
    let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&writes, PollFlags::IN)], Some(&patience)).unwrap(), 1);
    assert_eq!(writes.take_tickets().unwrap(), [ticket]);
    wait_until("what was written", || env.server.screen(&pane.id).unwrap()[0] == "hello");
    assert_eq!(env.pane().clients, 0);
}
