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
        let lab = Self { directory, server };
        lab.session("one", line);
        Some(lab)
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
    let Some(lab) = TmuxTestEnv::new("printf '\\033]2;a title\\007'; exec cat") else { return };
    lab.session("one-more", "exec cat");
    let panes = lab.server.panes().unwrap();
    assert_eq!(
        panes.iter().map(|pane| pane.session_name.as_str()).collect::<Vec<_>>(),
        ["one", "one-more"]
    );
    assert_ne!(panes[0].id, panes[1].id);
    assert_eq!(
        (panes[0].rows, panes[0].columns, panes[0].clients, panes[0].dead),
        (24, 80, 0, false)
    );
    wait_until("the title", || lab.pane().title == "a title");
    assert!(PathBuf::from(format!("/proc/{}", panes[0].pid)).exists());
    assert!(!lab.pane().in_mode);
    lab.tmux().args(["copy-mode", "-t", panes[0].id.as_str()]).status().unwrap();
    assert!(lab.pane().in_mode);
    assert_eq!(lab.server.pane(&PaneId::parse("%99").unwrap()).unwrap(), None);
    assert_eq!(sockets(lab.directory.path()).unwrap(), [lab.server.socket()]);
}

#[test]
fn paste_is_bracketed() {
    let Some(lab) = TmuxTestEnv::new("stty raw -echo; printf '\\033[?2004hready'; exec cat > got")
    else {
        return;
    };
    let pane = lab.pane().id;
    let got = || std::fs::read_to_string(lab.path("got")).unwrap_or_default();
    wait_until("the program", || lab.server.screen(&pane).unwrap()[0] == "ready");
    lab.server.paste(&pane, "one\ntwo\x1b[201~; three").unwrap();
    wait_until("the paste", || got().ends_with("\x1b[201~"));
    assert_eq!(got(), "\x1b[200~one\ntwo[201~; three\x1b[201~");
    lab.server.press_key(&pane, "Enter").unwrap();
    wait_until("the key", || got().ends_with("\x1b[201~\r"));
}

#[test]
fn missing_server_differs_from_missing_pane() {
    let Some(lab) = TmuxTestEnv::new("exec cat") else { return };
    let missing = TmuxServer::new(lab.path("nobody"));
    assert!(matches!(missing.panes(), Err(Error::NoServer(_))), "{:?}", missing.panes());
    assert!(!lab.path("nobody").exists(), "no server was started");
    let refused = lab.server.press_key(&PaneId::parse("%99").unwrap(), "y");
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}

#[test]
fn f6_w1_paste_into_dead_pane_is_refused() {
    let Some(lab) = TmuxTestEnv::new("read line") else { return };
    let pane = lab.pane();
    lab.tmux().args(["set-option", "-g", "remain-on-exit", "on"]).status().unwrap();
    lab.server.press_key(&pane.id, "Enter").unwrap();
    wait_until("the end of the program", || lab.pane().dead);
    for refused in [lab.server.paste(&pane.id, "text"), lab.server.send_keys(&pane.id, b"y")] {
        assert!(matches!(&refused, Err(Error::PaneClosed)), "{refused:?}");
        assert!(refused.unwrap_err().is_refusal());
    }
    assert_eq!(lab.pane().server, pane.server, "the same server");
    assert_eq!(lab.buffers(), "", "the text is left nowhere");
}

#[test]
fn f6_w1_copy_mode_pane_gets_no_input() {
    let Some(lab) = TmuxTestEnv::new("stty raw -echo; printf ready; exec cat > got") else {
        return;
    };
    let pane = lab.pane().id;
    wait_until("the program", || lab.server.screen(&pane).unwrap()[0] == "ready");
    lab.tmux().args(["copy-mode", "-t", pane.as_str()]).status().unwrap();
    for refused in [lab.server.paste(&pane, "text"), lab.server.send_keys(&pane, b"y")] {
        assert!(matches!(refused, Err(Error::PaneClosed)), "{refused:?}");
    }
    lab.tmux().args(["send-keys", "-t", pane.as_str(), "-X", "cancel"]).status().unwrap();
    lab.server.send_keys(&pane, b"after").unwrap();
    let got = || std::fs::read_to_string(lab.path("got")).unwrap_or_default();
    wait_until("the keys", || got().ends_with("after"));
    assert_eq!((got(), lab.buffers()), ("after".to_owned(), String::new()));
}

#[test]
fn pane_capture_has_styles() {
    let Some(lab) = TmuxTestEnv::new("printf '\\033]2;a title\\007\\033[1mbold\\033[0m'; exec cat")
    else {
        return;
    };
    let id = lab.pane().id;
    wait_until("the line", || lab.server.screen(&id).unwrap()[0] == "bold");
    let (pane, lines) = lab.server.styled_screen(&id).unwrap().unwrap();
    assert_eq!((&pane.id, pane.title.as_str(), pane.rows), (&id, "a title", 24));
    assert!(lines[0].contains("\x1b[1mbold"), "{lines:?}");
    assert_eq!(lab.server.styled_screen(&PaneId::parse("%99").unwrap()).unwrap(), None);
}

#[test]
fn pane_write_is_detected_without_attaching() {
    let Some(lab) = TmuxTestEnv::new("stty -echo; while read line; do printf '%s' \"$line\"; done")
    else {
        return;
    };
    let pane = lab.pane();
    let writes = WriteQueue::new().unwrap();
    let ticket = writes.watch_next_write(&pane.tty).unwrap();
    assert_eq!(writes.watch_next_write(&pane.tty).unwrap(), ticket, "it is one terminal");
    assert!(writes.take_tickets().is_err(), "nothing was written yet");
    lab.tmux().args(["send-keys", "-t", pane.id.as_str(), "-l", "hello"]).status().unwrap();
    lab.server.press_key(&pane.id, "Enter").unwrap();
    let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&writes, PollFlags::IN)], Some(&patience)).unwrap(), 1);
    assert_eq!(writes.take_tickets().unwrap(), [ticket]);
    wait_until("what was written", || lab.server.screen(&pane.id).unwrap()[0] == "hello");
    assert_eq!(lab.pane().clients, 0);
}
