//! Shared test support: launches in temporary directories, bounded waits, and journal readers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use provost_holder::client::Error;
use provost_holder::journal::{
    JournalChannel, JournalFrame, JournalNote, JournalReader, OpenedJournal,
};
use provost_holder::wire::{HolderOp, HolderReply, HolderState, OutputPause, WireBytes};
use provost_holder::{
    ExitRecord, GoneRecord, HeldRecord, HoldSpec, HolderLink, LaunchState, StdinMode, Tty, inspect,
    start, tree,
};
use rustix::event::poll;
use rustix::time::{ClockId, Timespec, clock_gettime};
use tempfile::TempDir;

/// The longest wait in these tests.
const PATIENCE_S: i64 = 60;

pub(crate) fn program() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_hold-for-tests").into()]
}

/// A launch that is cleaned up however its test ends.
pub(crate) struct Launch {
    pub(crate) dir: PathBuf,
    pub(crate) key: String,
    holder: Option<Child>,
    _temp: TempDir,
}

/// A spec for a shell script, with a key unique among all tests.
pub(crate) fn sh(script: &str) -> HoldSpec {
    command(&["sh", "-c", script])
}

pub(crate) fn command(argv: &[&str]) -> HoldSpec {
    let argv = argv.iter().map(|arg| (*arg).to_owned()).collect();
    let mut spec = HoldSpec::new("", argv, "/");
    spec.env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
    spec
}

pub(crate) fn with_pipe(spec: HoldSpec) -> HoldSpec {
    HoldSpec { stdin: StdinMode::Pipe, ..spec }
}

/// Adds a terminal of the usual size.
pub(crate) fn in_terminal(spec: HoldSpec) -> HoldSpec {
    HoldSpec { tty: Some(Tty { columns: 80, rows: 24 }), ..with_pipe(spec) }
}

impl Launch {
    /// Starts a holder; the spec's key is replaced by a unique one.
    pub(crate) fn start(spec: HoldSpec) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("launch");
        Self::start_at(temp, dir, spec)
    }

    pub(crate) fn start_at(temp: TempDir, dir: PathBuf, mut spec: HoldSpec) -> Self {
        spec.key = format!("test-{}", temp.path().display());
        let started = start(&program(), &dir, &spec).unwrap();
        Self { dir, key: spec.key, holder: Some(started.holder), _temp: temp }
    }

    /// Takes over a holder that the test started itself.
    pub(crate) fn adopt(temp: TempDir, dir: PathBuf, key: String, holder: Child) -> Self {
        Self { dir, key, holder: Some(holder), _temp: temp }
    }

    pub(crate) fn link(&self) -> HolderLink {
        let link = HolderLink::connect(&self.dir).unwrap();
        link.set_timeout(Duration::from_secs(PATIENCE_S as u64)).unwrap();
        link
    }

    pub(crate) fn holder_pid(&self) -> u32 {
        self.holder.as_ref().unwrap().id()
    }

    pub(crate) fn held(&self) -> HeldRecord {
        let looked = inspect(&self.dir).unwrap();
        let LaunchState::Alive { held } = looked else { panic!("not alive: {looked:?}") };
        held
    }

    /// Waits for the holder to exit, which it does once the tree is gone.
    pub(crate) fn wait(&mut self) -> (ExitRecord, GoneRecord) {
        assert!(self.wait_for_holder().success());
        let looked = inspect(&self.dir).unwrap();
        let LaunchState::Ended { exit, gone: Some(gone), .. } = looked else {
            panic!("not ended: {looked:?}")
        };
        (exit, gone)
    }

    pub(crate) fn wait_for_holder(&mut self) -> ExitStatus {
        let holder = self.holder.as_mut().unwrap();
        let mut status = None;
        until("the holder leaves", || {
            status = holder.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub(crate) fn kill_holder(&mut self) {
        let holder = self.holder.as_mut().unwrap();
        holder.kill().unwrap();
        holder.wait().unwrap();
    }

    pub(crate) fn frames(&self) -> Vec<JournalFrame> {
        frames(&self.dir)
    }

    pub(crate) fn output(&self, channel: JournalChannel) -> Vec<u8> {
        let of_channel = self.frames().into_iter().filter(|frame| frame.channel == channel);
        of_channel.flat_map(|frame| frame.payload).collect()
    }

    /// Waits for this text on the command's standard output.
    pub(crate) fn wait_for_output(&self, text: &str) {
        until("the command says it", || {
            String::from_utf8_lossy(&self.output(JournalChannel::Stdout)).contains(text)
        });
    }

    /// A file in the launch's temporary directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.parent().unwrap().join(name)
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if let Some(mut holder) = self.holder.take()
            && !matches!(holder.try_wait(), Ok(Some(_)))
        {
            holder.kill().ok();
            holder.wait().ok();
        }
        tree::end_survivors(&self.key, Duration::ZERO).ok();
    }
}

pub(crate) fn frames(dir: &Path) -> Vec<JournalFrame> {
    match JournalReader::open(&dir.join("journal"), 0).unwrap() {
        OpenedJournal::Ready(reader) => reader.map(Result::unwrap).collect(),
        OpenedJournal::Lost { end } => panic!("lost at {end}"),
    }
}

pub(crate) fn notes(launch: &Launch) -> Vec<JournalNote> {
    let frames = launch.frames().into_iter().filter(|frame| frame.channel == JournalChannel::Note);
    frames.map(|frame| serde_json::from_slice(&frame.payload).unwrap()).collect()
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

pub(crate) fn write(link: &mut HolderLink, key: &str, bytes: &[u8]) -> Result<HolderReply, Error> {
    link.request(write_op(key, bytes))
}

pub(crate) fn write_op(key: &str, bytes: &[u8]) -> HolderOp {
    HolderOp::Write { key: key.into(), data: WireBytes(bytes.to_vec()), secret: false }
}

pub(crate) fn state(link: &mut HolderLink) -> HolderState {
    link.request(HolderOp::Ping).unwrap().state.unwrap()
}

pub(crate) fn wait_limited(link: &mut HolderLink, limited: OutputPause) {
    until("the holder is limited", || state(link).limited == Some(limited));
}

/// Waits for a condition, with a timeout.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = now().tv_sec + PATIENCE_S;
    while !holds() {
        assert!(now().tv_sec < end, "waited in vain until {what}");
        pause(Duration::from_millis(5));
    }
}

/// Sleeps, for tests that observe the passing of time itself.
pub(crate) fn pause(duration: Duration) {
    let duration = Timespec::try_from(duration).unwrap();
    poll(&mut [], Some(&duration)).unwrap();
}

/// Returns how often a process has gone to sleep, once the process is idle.
pub(crate) fn switches_when_idle(pid: u32) -> u64 {
    let mut last = voluntary_switches(pid);
    until("the process is idle", || {
        pause(Duration::from_millis(100));
        let before = std::mem::replace(&mut last, voluntary_switches(pid));
        before == last
    });
    last
}

pub(crate) fn voluntary_switches(pid: u32) -> u64 {
    proc_value(pid, "status", "voluntary_ctxt_switches")
}

/// The value of a line like `VmHWM:   123 kB` in a file of a process.
pub(crate) fn proc_value(pid: u32, file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

fn now() -> Timespec {
    clock_gettime(ClockId::Monotonic)
}
