//! Runs commands on a tmux server with a given socket. A command times out if the server does not
//! respond.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use provost_sys::origin::{HELPER, MARK};
use provost_sys::program::{CommandEnd, LimitedCommand, ProgramLimits, StderrLimit};

use super::pane::{PaneId, PaneListing};

/// The timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A tmux format that is true if the pane's program receives keys, so the pane is neither dead nor
/// in copy mode.
const ACCEPTS_KEYS_FORMAT: &str = "#{?pane_dead,0,#{?pane_in_mode,0,1}}";
/// The output of tmux if nothing was typed because the pane does not accept keys.
const CLOSED: &str = "closed";
/// The maximum size of a command's output, in bytes.
const MAX_OUTPUT: usize = 4 << 20;

/// The limits of a command.
const LIMITS: ProgramLimits = ProgramLimits {
    time: TIMEOUT,
    stdout: MAX_OUTPUT,
    stderr: StderrLimit::KeepLast(4096),
    grace: Duration::ZERO,
};

/// The reason why a tmux command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start tmux; check that tmux is installed")]
    Start(#[source] io::Error),
    #[error("cannot communicate with tmux")]
    Io(#[source] io::Error),
    #[error("no tmux server listens on {0}")]
    NoServer(PathBuf),
    #[error("tmux did not respond within {} seconds", TIMEOUT.as_secs())]
    Timeout,
    #[error("tmux printed more than {MAX_OUTPUT} bytes")]
    OutputTooLong,
    #[error("tmux reported an error: {0}")]
    Refused(String),
    #[error("cannot parse tmux's pane listing {0:?}")]
    UnknownFormat(String),
    #[error("the pane does not accept keys: its program has exited, or it is in copy mode")]
    PaneClosed,
}

impl Error {
    /// Whether it is certain that a command has typed nothing.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Error::Start(_) | Error::Refused(_) | Error::PaneClosed)
    }
}

/// A tmux server.
#[derive(Debug, Clone)]
pub struct TmuxServer {
    socket: PathBuf,
}

impl TmuxServer {
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns all panes of all sessions.
    pub fn panes(&self) -> Result<Vec<PaneListing>, Error> {
        let listed = self.run(&["list-panes", "-a", "-F", PaneListing::FORMAT], b"")?;
        let parse = |line: &str| {
            PaneListing::parse(line).ok_or_else(|| Error::UnknownFormat(line.to_owned()))
        };
        listed.lines().map(parse).collect()
    }

    /// Returns one pane, or `None` if no pane has this id.
    pub fn pane(&self, id: &PaneId) -> Result<Option<PaneListing>, Error> {
        Ok(self.panes()?.into_iter().find(|pane| pane.id == *id))
    }

    /// Returns the lines that a pane displays.
    pub fn screen(&self, id: &PaneId) -> Result<Vec<String>, Error> {
        let shown = self.run(&["capture-pane", "-p", "-t", id.as_str()], b"")?;
        Ok(shown.lines().map(|line| line.trim_end().to_owned()).collect())
    }

    /// Returns a pane and its lines with character attributes, or `None` if there is no pane with
    /// this id. One command queries both the pane and the lines, because starting a client takes
    /// longer than the query itself.
    pub fn styled_screen(&self, id: &PaneId) -> Result<Option<(PaneListing, Vec<String>)>, Error> {
        let pane = ["display-message", "-p", "-t", id.as_str(), PaneListing::FORMAT, ";"];
        let lines = ["capture-pane", "-p", "-e", "-t", id.as_str()];
        let shown = match self.run(&[&pane[..], &lines].concat(), b"") {
            Err(Error::Refused(why)) => {
                return self.pane(id)?.map_or(Ok(None), |_| Err(Error::Refused(why)));
            }
            shown => shown?,
        };
        let (first, lines) = shown.split_once('\n').unwrap_or((&shown, ""));
        let pane =
            PaneListing::parse(first).ok_or_else(|| Error::UnknownFormat(first.to_owned()))?;
        Ok(Some((pane, lines.lines().map(str::to_owned).collect())))
    }

    /// Pastes a text with bracketed paste, so that none of its lines is mistaken for a command.
    /// Removes characters that could end the paste or control the program.
    ///
    /// # Errors
    /// Returns [`Error::PaneClosed`], among others, if the pane does not accept keys.
    pub fn paste(&self, id: &PaneId, text: &str) -> Result<(), Error> {
        let is_text = |char: &char| !char.is_control() || matches!(char, '\n' | '\t');
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text: String = text.chars().filter(is_text).collect();
        let buffer = format!("provost-{}-{}", std::process::id(), &id.as_str()[1..]);
        self.run(&["load-buffer", "-b", &buffer, "-"], text.as_bytes())?;
        let pasted = self.type_if_open(id, &format!("paste-buffer -p -r -d -b {buffer} -t '{id}'"));
        if pasted.is_err() {
            // The buffer is already gone if it was pasted or if the server exited.
            self.run(&["delete-buffer", "-b", &buffer], b"").ok();
        }
        pasted
    }

    /// Presses one key, given by tmux's name for it, such as `Enter`, `Escape` or `y`.
    pub fn press_key(&self, id: &PaneId, key: &str) -> Result<(), Error> {
        self.run(&["send-keys", "-t", id.as_str(), "--", key], b"").map(drop)
    }

    /// Sends bytes as keys.
    ///
    /// # Errors
    /// Returns [`Error::PaneClosed`] if the pane does not accept keys. In copy mode, tmux would
    /// interpret the keys as commands.
    pub fn send_keys(&self, id: &PaneId, bytes: &[u8]) -> Result<(), Error> {
        let codes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.type_if_open(id, &format!("send-keys -t '{id}' -H {}", codes.join(" ")))
    }

    /// Runs a typing command if the pane accepts keys. tmux checks and acts in one step, so that
    /// the pane cannot change between the check and the action. This matters because tmux 3.3a
    /// crashes when it pastes into a dead pane.
    fn type_if_open(&self, id: &PaneId, command: &str) -> Result<(), Error> {
        let refuse = format!("display-message -p {CLOSED}");
        let asked = ["if-shell", "-F", "-t", id.as_str(), ACCEPTS_KEYS_FORMAT, command, &refuse];
        if self.run(&asked, b"")?.trim() == CLOSED { Err(Error::PaneClosed) } else { Ok(()) }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        // If Provost runs inside another tmux, these variables would make the command fail or use
        // the other tmux's server.
        command.env_remove("TMUX").env_remove("TMUX_PANE").env("LC_ALL", "C.UTF-8");
        command.env(MARK, HELPER);
        command.arg("-S").arg(&self.socket);
        command
    }

    /// Runs a command. Never starts a server.
    fn run(&self, arguments: &[&str], input: &[u8]) -> Result<String, Error> {
        let mut command = self.command();
        command.arg("-N").args(arguments);
        let limited = LimitedCommand::new(command, LIMITS).input(input.to_owned());
        let running = limited.start().map_err(Error::Start)?;
        let finished = running.finish::<Infallible>(&|| None).map_err(Error::Io)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match finished.end {
            CommandEnd::Exited(status) if status.success() => Ok(text(finished.stdout)),
            CommandEnd::Exited(_) => Err(self.classify_error(&text(finished.stderr))),
            CommandEnd::TimedOut => Err(Error::Timeout),
            CommandEnd::TooMuchOutput => Err(Error::OutputTooLong),
            CommandEnd::Blocked(never) => match never {},
        }
    }

    fn classify_error(&self, errors: &str) -> Error {
        let gone = ["no server running", "error connecting to", "server exited", "lost server"];
        if gone.iter().any(|words| errors.contains(words)) {
            return Error::NoServer(self.socket.clone());
        }
        Error::Refused(errors.trim().chars().filter(|char| !char.is_control()).collect())
    }
}

/// Returns the user's tmux socket directory: `tmux-1000` in `TMUX_TMPDIR`, or in `/tmp`.
pub fn socket_directory(named: Option<&OsStr>) -> PathBuf {
    let above = named.filter(|name| !name.is_empty()).map_or(Path::new("/tmp"), Path::new);
    above.join(format!("tmux-{}", rustix::process::getuid().as_raw()))
}

/// Returns this user's sockets in a directory. Sockets of other users are skipped, because their
/// servers are not trusted.
pub fn sockets(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if is_own_socket(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a path is a socket of this user. Returns false for a removed socket, and for a symbolic
/// link, which may point to any file.
pub fn is_own_socket(path: &Path) -> bool {
    let own = rustix::process::getuid().as_raw();
    let seen = path.symlink_metadata();
    seen.is_ok_and(|seen| seen.file_type().is_socket() && seen.uid() == own)
}
