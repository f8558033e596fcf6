//! A launch with a scripted server to which the holder connects, and what its journal contains.

use std::path::Path;
use std::process::Command;

use provost_holder::client::Error;
use provost_holder::journal::{InputEnvelope, JournalChannel, JournalNote, RelayNote};
use provost_holder::wire::HolderFaultCode;
use provost_holder::{HoldSpec, Relay};

use crate::kit::{Launch, command, until};

/// A temporary directory for a launch and a server's socket.
pub(crate) struct RelayEnv {
    pub(crate) temp: tempfile::TempDir,
}

impl RelayEnv {
    pub(crate) fn new() -> Self {
        Self { temp: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn socket(&self) -> String {
        self.temp.path().join("s.sock").display().to_string()
    }

    /// A named pipe for the step `await`.
    pub(crate) fn fifo(&self) -> String {
        let path = self.temp.path().join("fifo").display().to_string();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// A spec for the scripted server.
    pub(crate) fn spec(&self, steps: &[&str]) -> HoldSpec {
        let socket = self.socket();
        let program = [env!("CARGO_BIN_EXE_websocket-for-tests"), &socket];
        relayed(command(&[&program, steps].concat()), Path::new(&socket))
    }

    /// Starts the scripted server with steps that contain no spaces.
    pub(crate) fn start(self, steps: &str) -> Launch {
        let spec = self.spec(&steps.split_whitespace().collect::<Vec<_>>());
        self.hold(spec)
    }

    pub(crate) fn hold_relayed(self, spec: HoldSpec) -> Launch {
        let spec = relayed(spec, Path::new(&self.socket()));
        self.hold(spec)
    }

    pub(crate) fn hold(self, spec: HoldSpec) -> Launch {
        let dir = self.temp.path().join("launch");
        Launch::start_at(self.temp, dir, spec)
    }
}

pub(crate) fn serve(steps: &str) -> Launch {
    RelayEnv::new().start(steps)
}

pub(crate) fn relayed(spec: HoldSpec, socket: &Path) -> HoldSpec {
    HoldSpec { relay: Some(Relay { socket: socket.into(), listener: None }), ..spec }
}

pub(crate) fn text(launch: &Launch, channel: JournalChannel) -> String {
    String::from_utf8(launch.output(channel)).unwrap()
}

pub(crate) fn wait_for_errors(launch: &Launch, word: &str) {
    until("the command says it", || text(launch, JournalChannel::Stderr).contains(word));
}

/// The lines with this word that the command itself wrote; its shell writes more.
pub(crate) fn lines_with(launch: &Launch, word: &str) -> usize {
    text(launch, JournalChannel::Stderr).lines().filter(|line| line.contains(word)).count()
}

pub(crate) fn fault<T: std::fmt::Debug>(result: Result<T, Error>) -> HolderFaultCode {
    let Err(Error::Fault(fault)) = result else { panic!("{result:?}") };
    fault.code
}

/// The notes of both kinds.
pub(crate) fn notes(launch: &Launch) -> (Vec<JournalNote>, Vec<RelayNote>) {
    let (mut plain, mut relay) = (Vec::new(), Vec::new());
    for frame in launch.frames().iter().filter(|frame| frame.channel == JournalChannel::Note) {
        match serde_json::from_slice(&frame.payload) {
            Ok(note) => plain.push(note),
            Err(_) => relay.push(serde_json::from_slice(&frame.payload).unwrap()),
        }
    }
    (plain, relay)
}

/// The inputs, each with its kept bytes.
pub(crate) fn envelopes(launch: &Launch) -> Vec<(InputEnvelope, String)> {
    let input = launch.frames().into_iter().filter(|frame| frame.channel == JournalChannel::Stdin);
    let split = input.filter_map(|frame| {
        let (envelope, kept) = InputEnvelope::split(&frame.payload)?;
        Some((envelope, String::from_utf8_lossy(kept).into_owned()))
    });
    split.collect()
}
