//! A holder's instructions: one JSON document, read from an inherited descriptor. It is never
//! passed in argv or in a file, because it contains the environment, which includes tokens.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use provost_sandbox::enter::SandboxOrder;
use provost_sys::origin::Boundary;
pub use provost_sys::origin::MARK;
use serde::{Deserialize, Serialize};

/// The only version of the spec so far.
pub const SPEC_VERSION: u32 = 1;
/// The maximum size of a spec, in bytes.
pub const MAX_SPEC: u64 = 16 << 20;
/// The maximum length of a launch's key.
pub const MAX_KEY: usize = 200;
/// The maximum number of columns or rows of a terminal. Programs keep the whole screen in memory.
pub const MAX_SIDE: u16 = 4096;

/// One external command and its limits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldSpec {
    pub version: u32,
    pub key: String,
    pub argv: Vec<String>,
    /// The complete environment. Nothing is inherited, and [`MARK`] is added.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    pub stdin: StdinMode,
    /// The maximum number of bytes of stdout and stderr together.
    pub output_limit: u64,
    pub on_limit: OnLimit,
    pub time_limit_ms: Option<u64>,
    /// The time between SIGTERM and SIGKILL.
    pub grace_ms: u64,
    /// The time for which the pipes are drained after the leader's exit, unless they are closed
    /// earlier.
    #[serde(default = "default_settle_ms")]
    pub settle_ms: u64,
    /// Whether the journal stores the bytes of input that is not secret.
    pub journal_stdin: bool,
    /// The socket on which the command listens, if it does not communicate over its standard
    /// streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<Relay>,
    /// The terminal in which the command runs, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<Tty>,
    /// The sandbox in which the command runs, if any. The command must not be able to write to the
    /// status file of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxOrder>,
    /// The access rule: the daemon of this home has full access, and the operator of the home may
    /// use the terminal. Without a rule, every process of the user that does not descend from the
    /// holder has access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<Boundary>,
}

/// The command's own terminal and its size. It serves as the command's three standard streams and
/// its controlling terminal, and lives as long as the holder, whether or not someone is watching.
/// Its output is journalled as standard output, and input from clients is typed into it. `TERM` in
/// the environment specifies the terminal type.
///
/// The input of a terminal stays open, so [`HoldSpec::stdin`] must be [`StdinMode::Pipe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tty {
    pub columns: u16,
    pub rows: u16,
}

impl Tty {
    /// Returns the size if it is valid for a terminal.
    pub fn checked(self) -> Option<Self> {
        let possible = |side: u16| (1..=MAX_SIDE).contains(&side);
        (possible(self.columns) && possible(self.rows)).then_some(self)
    }
}

/// The command will listen on this Unix socket as a WebSocket server: it accepts an HTTP upgrade,
/// and each message is a text frame. The holder keeps one connection to it for as long as the
/// launch lasts. It journals that connection as the command's standard output and input, one line
/// per message, and both of the command's output streams as standard error. Input from clients goes
/// to the server, and the command's own standard input receives only the text from the spec.
///
/// Once connected, the holder unlinks the socket, so that other clients reach the server only
/// through the [`RelayListener`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// An absolute path that does not exist yet, in an existing directory. The path may be longer
    /// than a socket address allows, but its last component must be short enough for one.
    pub socket: PathBuf,
    /// The listener for other clients, if other clients are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<RelayListener>,
}

/// A socket of the holder through which the operator reaches the server. [`HoldSpec::boundary`]
/// defines who the operator is. The check is needed because the server accepts answers and
/// approvals from every client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayListener {
    /// The path of the listener's socket, with the same requirements as [`Relay::socket`].
    pub socket: PathBuf,
}

/// The command's standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    Null,
    /// An open pipe, which clients write to through the holder's socket.
    Pipe,
    /// The given text, followed by the end of input.
    Text(String),
}

/// The action that is taken at the output limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// The holder stops reading, which blocks the command until the limit is raised.
    Block,
    /// The holder ends the whole process tree.
    End,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read the spec")]
    Read(#[from] io::Error),
    #[error("the spec is longer than {MAX_SPEC} bytes")]
    TooLarge,
    #[error("could not parse the spec")]
    Parse(#[from] serde_json::Error),
    #[error("the spec has version {0}, but this holder supports only version {SPEC_VERSION}")]
    Version(u32),
    #[error("the launch key is empty, longer than {MAX_KEY} bytes, or contains a NUL")]
    Key,
    #[error("the working directory {0:?} is not an absolute path")]
    RelativeCwd(PathBuf),
    #[error("the socket path {0:?} is not an absolute path")]
    RelativeSocket(PathBuf),
    #[error("invalid terminal size {columns}x{rows}: each side must be 1 to {MAX_SIDE} characters")]
    Size { columns: u16, rows: u16 },
    #[error(
        "a command with a terminal cannot listen on a socket, and its standard input has to be \"pipe\""
    )]
    Streams,
}

impl HoldSpec {
    /// Creates a spec with no input, a generous output limit that blocks, and no time limit.
    pub fn new(key: impl Into<String>, argv: Vec<String>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            version: SPEC_VERSION,
            key: key.into(),
            argv,
            env: Vec::new(),
            cwd: cwd.into(),
            stdin: StdinMode::Null,
            output_limit: 1 << 30,
            on_limit: OnLimit::Block,
            time_limit_ms: None,
            grace_ms: 5000,
            settle_ms: default_settle_ms(),
            journal_stdin: true,
            relay: None,
            tty: None,
            sandbox: None,
            boundary: None,
        }
    }

    /// Reads a spec to the end of the stream and validates it, without side effects.
    pub fn read(source: impl Read) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        source.take(MAX_SPEC + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_SPEC {
            return Err(Error::TooLarge);
        }
        let spec: Self = serde_json::from_slice(&bytes)?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), Error> {
        if self.version != SPEC_VERSION {
            return Err(Error::Version(self.version));
        }
        if self.key.is_empty() || self.key.len() > MAX_KEY || self.key.contains('\0') {
            return Err(Error::Key);
        }
        if !self.cwd.is_absolute() {
            return Err(Error::RelativeCwd(self.cwd.clone()));
        }
        self.check_tty()?;
        let relay = self.relay.iter();
        let mut sockets = relay.flat_map(|Relay { socket, listener: door }| {
            std::iter::once(socket).chain(door.iter().map(|door| &door.socket))
        });
        match sockets.find(|socket| !socket.is_absolute()) {
            Some(socket) => Err(Error::RelativeSocket(socket.clone())),
            None => Ok(()),
        }
    }

    fn check_tty(&self) -> Result<(), Error> {
        let Some(Tty { columns, rows }) = self.tty else { return Ok(()) };
        if (Tty { columns, rows }).checked().is_none() {
            return Err(Error::Size { columns, rows });
        }
        let fits = self.stdin == StdinMode::Pipe && self.relay.is_none();
        if fits { Ok(()) } else { Err(Error::Streams) }
    }
}

/// Omits the environment and the input, which may contain secrets.
impl fmt::Debug for HoldSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, argv, cwd, output_limit, on_limit, time_limit_ms, .. } = self;
        f.debug_struct("HoldSpec")
            .field("key", key)
            .field("argv", argv)
            .field("cwd", cwd)
            .field("output_limit", output_limit)
            .field("on_limit", on_limit)
            .field("time_limit_ms", time_limit_ms)
            .finish_non_exhaustive()
    }
}

fn default_settle_ms() -> u64 {
    2000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_round_trips_and_bad_ones_are_refused() {
        let good = HoldSpec::new("k", vec!["true".into()], "/");
        let check = |spec: &HoldSpec| HoldSpec::read(serde_json::to_vec(spec).unwrap().as_slice());
        assert_eq!(check(&good).unwrap(), good);
        assert!(matches!(check(&HoldSpec { version: 2, ..good.clone() }), Err(Error::Version(2))));
        assert!(matches!(check(&HoldSpec { key: String::new(), ..good.clone() }), Err(Error::Key)));
        assert!(matches!(
            check(&HoldSpec { cwd: "here".into(), ..good.clone() }),
            Err(Error::RelativeCwd(_))
        ));
        let relay = |socket: &str| HoldSpec {
            relay: Some(Relay { socket: socket.into(), listener: None }),
            ..good.clone()
        };
        assert!(matches!(check(&relay("here.sock")), Err(Error::RelativeSocket(_))));
        assert_eq!(check(&relay("/there.sock")).unwrap(), relay("/there.sock"));
        assert!(matches!(HoldSpec::read(&b"{}"[..]), Err(Error::Parse(_))));
    }

    #[test]
    fn first_spec_format_is_stable() {
        let first = r#"{"version":1,"key":"k","argv":["true"],"env":[],"cwd":"/","stdin":"null","output_limit":1073741824,"on_limit":"block","time_limit_ms":null,"grace_ms":5000,"settle_ms":2000,"journal_stdin":true}"#;
        let spec = HoldSpec::read(first.as_bytes()).unwrap();
        assert_eq!(spec, HoldSpec::new("k", vec!["true".into()], "/"));
        assert_eq!(serde_json::to_string(&spec).unwrap(), first);
    }

    #[test]
    fn terminal_spec_format_is_frozen() {
        let first = r#"{"version":1,"key":"k","argv":["true"],"env":[],"cwd":"/","stdin":"pipe","output_limit":1073741824,"on_limit":"block","time_limit_ms":null,"grace_ms":5000,"settle_ms":2000,"journal_stdin":true,"tty":{"columns":80,"rows":24}}"#;
        let spec = HoldSpec::read(first.as_bytes()).unwrap();
        assert_eq!(spec.tty, Some(Tty { columns: 80, rows: 24 }));
        assert_eq!(serde_json::to_string(&spec).unwrap(), first);
        for (columns, rows) in [(0, 0), (0, 24), (80, 0), (MAX_SIDE + 1, 24)] {
            let spec = HoldSpec { tty: Some(Tty { columns, rows }), ..spec.clone() };
            assert!(matches!(spec.check(), Err(Error::Size { .. })), "{columns}x{rows}");
        }
        let socket = Relay { socket: "/there.sock".into(), listener: None };
        let relayed = HoldSpec { relay: Some(socket), ..spec.clone() };
        assert!(matches!(relayed.check(), Err(Error::Streams)));
        for stdin in [StdinMode::Null, StdinMode::Text("hi".into())] {
            assert!(matches!(HoldSpec { stdin, ..spec.clone() }.check(), Err(Error::Streams)));
        }
    }

    #[test]
    fn debug_output_shows_no_environment() {
        let mut spec = HoldSpec::new("k", vec![], "/");
        spec.env = vec![("TOKEN".into(), "canary".into())];
        spec.stdin = StdinMode::Text("canary".into());
        assert!(!format!("{spec:?}").contains("canary"));
    }
}
