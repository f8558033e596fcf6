//! A client in control mode: it is told what the panes of a session write, and changes nothing about them.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::message::{Message, Messages};
use super::pane::{Measures, PaneId, SessionId};
use super::run::{Error, Server};

/// How much is read in one go.
const PIECE: usize = 64 << 10;

/// The client. Its descriptor can be polled. Its end ends nothing else; to begin anew is the caller's.
#[derive(Debug)]
pub struct Client {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    messages: Messages,
}

impl Client {
    /// Attaches to a session, without a say about its size. tmux pauses a pane of which so many seconds of
    /// output wait for us, instead of growing.
    pub fn attach(server: &Server, session: &SessionId, pause_after: u32) -> Result<Self, Error> {
        let flags = format!("ignore-size,pause-after={pause_after}");
        let mut command = server.command();
        command.args(["-N", "-C", "attach-session", "-f", &flags, "-t", session.as_str()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Error::Start)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Talk(io::Error::other("tmux has no pipes")));
        };
        rustix::io::ioctl_fionbio(&output, true).map_err(|error| Error::Talk(error.into()))?;
        Ok(Self { child, input, output, messages: Messages::default() })
    }

    /// Takes what has come. Nothing if there is nothing yet; an end of the stream is an exit without a reason.
    pub fn read(&mut self) -> io::Result<Vec<Message>> {
        match self.take() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
            taken => taken,
        }
    }

    /// The same, for whoever waits for the descriptor: that there is nothing yet is an error, as the kernel tells it.
    pub fn take(&mut self) -> io::Result<Vec<Message>> {
        let mut piece = vec![0; PIECE];
        match self.output.read(&mut piece) {
            Ok(0) => Ok(vec![Message::Exit { reason: None }]),
            Ok(read) => Ok(self.messages.feed(&piece[..read])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Asks for the output of a pane that was paused. It is answered once.
    pub fn resume(&mut self, pane: &PaneId) -> io::Result<()> {
        // Without quotes tmux takes the sign of an id for one of its own words.
        self.ask(&format!("refresh-client -A '{pane}:continue'"))
    }

    /// Has tmux tell nothing more of a pane for now, and keep nothing of it for us either. It is answered once.
    pub fn pause(&mut self, pane: &PaneId) -> io::Result<()> {
        self.ask(&format!("refresh-client -A '{pane}:pause'"))
    }

    /// Asks what a pane shows. It is answered twice, by its measures and its lines, after all that was drawn before.
    pub fn picture(&mut self, pane: &PaneId) -> io::Result<()> {
        self.ask(&format!("display-message -p -t '{pane}' '{}'", Measures::FORMAT))?;
        self.ask(&format!("capture-pane -p -t '{pane}'"))
    }

    fn ask(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.input, "{line}")?;
        self.input.flush()
    }
}

impl AsRawFd for Client {
    fn as_raw_fd(&self) -> RawFd {
        self.output.as_raw_fd()
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
