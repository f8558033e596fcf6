//! Real tmux, on a socket of its own.

use std::path::PathBuf;
use std::process::Command;

use provost_watch::tmux::{Client, Error, Message, Pane, PaneId, Server, sockets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use crate::kit::wait_until;

/// A server that is ended with the test.
struct Lab {
    directory: TempDir,
    server: Server,
}

impl Lab {
    /// A server with a session whose pane runs a line of the shell; nothing if this run does without tmux.
    fn new(line: &str) -> Option<Self> {
        if crate::kit::is_missing("tmux") {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let server = Server::new(directory.path().join("socket"));
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

    fn pane(&self) -> Pane {
        self.server.panes().unwrap().remove(0)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.tmux().arg("kill-server").status().ok();
    }
}

#[test]
fn panes_are_listed_by_id_with_process_title_and_mode() {
    let Some(lab) = Lab::new("printf '\\033]2;a title\\007'; exec cat") else { return };
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
    let seen = provost_watch::process::look(panes[0].pid).unwrap().unwrap();
    assert_eq!(seen.identity.pid, panes[0].pid);
    assert!(!lab.pane().in_mode);
    lab.tmux().args(["copy-mode", "-t", panes[0].id.as_str()]).status().unwrap();
    assert!(lab.pane().in_mode);
    assert_eq!(lab.server.pane(&PaneId::parse("%99").unwrap()).unwrap(), None);
    assert_eq!(sockets(lab.directory.path()).unwrap(), [lab.server.socket()]);
}

#[test]
fn a_paste_reaches_the_program_in_brackets_and_cannot_leave_them() {
    let Some(lab) = Lab::new("stty raw -echo; printf '\\033[?2004hready'; exec cat > got") else {
        return;
    };
    let pane = lab.pane().id;
    let got = || std::fs::read_to_string(lab.path("got")).unwrap_or_default();
    wait_until("the program", || lab.server.screen(&pane).unwrap()[0] == "ready");
    lab.server.paste(&pane, "one\ntwo\x1b[201~; three").unwrap();
    wait_until("the paste", || got().ends_with("\x1b[201~"));
    assert_eq!(got(), "\x1b[200~one\ntwo[201~; three\x1b[201~");
    lab.server.key(&pane, "Enter").unwrap();
    wait_until("the key", || got().ends_with("\x1b[201~\r"));
}

#[test]
fn no_server_and_no_pane_are_told_apart() {
    let Some(lab) = Lab::new("exec cat") else { return };
    let nobody = Server::new(lab.path("nobody"));
    assert!(matches!(nobody.panes(), Err(Error::NoServer(_))), "{:?}", nobody.panes());
    assert!(!lab.path("nobody").exists(), "no server was started");
    let refused = lab.server.key(&PaneId::parse("%99").unwrap(), "y");
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}

/// Takes messages until one fits, for a bounded time.
fn until(client: &mut Client, mut fits: impl FnMut(&Message) -> bool) {
    let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
    wait_until("a message", || {
        let ready = poll(&mut [PollFd::new(&*client, PollFlags::IN)], Some(&patience)).unwrap();
        ready > 0 && client.read().unwrap().iter().any(&mut fits)
    });
}

#[test]
fn a_client_in_control_mode_is_told_what_a_pane_writes_and_when_the_server_ends() {
    let Some(lab) = Lab::new("read line; printf '\\033]7501;state=idle:app=codex\\007'; exec cat")
    else {
        return;
    };
    let pane = lab.pane();
    let mut client = Client::attach(&lab.server, &pane.session, 5).unwrap();
    wait_until("the client", || lab.pane().clients == 1);
    lab.server.key(&pane.id, "Enter").unwrap();
    let mut written = Vec::new();
    until(&mut client, |message| {
        if let Message::Output { pane: from, bytes, .. } = message {
            assert_eq!(*from, pane.id);
            written.extend_from_slice(bytes);
        }
        String::from_utf8_lossy(&written).contains("\x1b]7501;state=idle:app=codex\x07")
    });
    assert_eq!((lab.pane().rows, lab.pane().columns), (24, 80));
    lab.tmux().arg("kill-server").status().unwrap();
    until(&mut client, |message| matches!(message, Message::Exit { .. }));
}

#[test]
fn a_flood_that_is_read_too_slowly_is_paused_and_goes_on_when_asked_for() {
    let Some(lab) = Lab::new("read line; exec yes") else { return };
    let pane = lab.pane();
    let mut client = Client::attach(&lab.server, &pane.session, 1).unwrap();
    wait_until("the client", || lab.pane().clients == 1);
    lab.server.key(&pane.id, "Enter").unwrap();
    let mut is_paused = false;
    wait_until("the pause", || {
        // Resting longer than tmux bears is what makes a client too slow.
        poll(&mut [], Some(&Timespec { tv_sec: 1, tv_nsec: 500_000_000 })).unwrap();
        is_paused |= client.read().unwrap().contains(&Message::Paused(pane.id.clone()));
        is_paused
    });
    client.resume(&pane.id).unwrap();
    until(&mut client, |message| *message == Message::Continued(pane.id.clone()));
}
