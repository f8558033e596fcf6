//! Reads the properties of one process or of all processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use provost_core::session::AdapterId;
use provost_sys::{
    process::{ProcessInstance, boot_id, is_gone, split_zero_terminated},
    stat::{ProcStat, ProcessState},
};

use crate::transcript::TranscriptFile;

/// The maximum number of bytes to read from a file in `/proc`.
const MAX_BYTES: u64 = 1 << 20;
/// The maximum number of file descriptors to examine.
const MAX_DESCRIPTORS: usize = 4096;

/// The tmux pane in which a process was started, according to its environment. The process may have
/// left the pane since, and can set any value, so this is only a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TmuxOrigin {
    pub socket: PathBuf,
    /// The pid of the tmux server.
    pub server: Option<u32>,
    /// The id of the pane.
    pub pane: Option<String>,
}

/// A property of a process, or the reason why it could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessProperty<T> {
    Visible(T),
    /// The property cannot be read, usually because the process belongs to another user.
    Hidden(String),
}

/// All properties of a process that can be read from the outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedProcess {
    pub identity: ProcessInstance,
    pub parent: u32,
    pub user: u32,
    pub state: ProcessState,
    pub executable: ProcessProperty<PathBuf>,
    pub arguments: ProcessProperty<Vec<OsString>>,
    pub cwd: ProcessProperty<PathBuf>,
    /// `AI_AGENT` in the initial environment.
    pub ai_agent: ProcessProperty<Option<OsString>>,
    /// `TMUX` and `TMUX_PANE` in the initial environment.
    pub tmux: ProcessProperty<Option<TmuxOrigin>>,
    /// The transcripts that the process has open for writing and that still exist under their names.
    pub transcripts: ProcessProperty<Vec<OpenTranscript>>,
}

/// A transcript that a process is writing, and the adapter that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTranscript {
    pub adapter: AdapterId,
    pub file: TranscriptFile,
}

/// Recognizes a transcript by the name of its file.
pub type RecognizeTranscript<'a> = &'a dyn Fn(&Path) -> Option<OpenTranscript>;

/// All processes that could be read, and the errors for the rest.
#[derive(Debug, Default)]
pub struct ProcessList {
    pub processes: Vec<ObservedProcess>,
    pub skipped: Vec<(u32, io::Error)>,
}

/// Reads a process. Returns `None` if the pid does not exist.
pub fn inspect(
    pid: u32,
    recognize: RecognizeTranscript<'_>,
) -> io::Result<Option<ObservedProcess>> {
    let Some(before) = ProcStat::read(pid)? else { return Ok(None) };
    let directory = PathBuf::from(format!("/proc/{pid}"));
    let Some(user) = ignore_missing(fs::metadata(&directory))?.map(|seen| seen.uid()) else {
        return Ok(None);
    };
    let environment = probe_result(read_some(&directory.join("environ")));
    let process = ObservedProcess {
        identity: ProcessInstance { pid, start_time: before.start_time, boot_id: boot_id()? },
        parent: before.ppid,
        user,
        state: before.state,
        executable: probe_result(fs::read_link(directory.join("exe"))),
        arguments: probe_result(
            read_some(&directory.join("cmdline")).map(|bytes| split_zero_terminated(&bytes)),
        ),
        cwd: probe_result(fs::read_link(directory.join("cwd"))),
        ai_agent: environment.map(|bytes| value(bytes, b"AI_AGENT=")),
        tmux: environment.map(|bytes| parse_tmux_origin(bytes)),
        transcripts: probe_result(open_in(&directory.join("fd"), recognize)),
    };
    // The pid may have been reused between the two reads.
    let same = ProcStat::read(pid)?.is_some_and(|after| after.start_time == before.start_time);
    Ok(same.then_some(process))
}

/// Reads every process that the kernel lists.
pub fn list_processes(recognize: RecognizeTranscript<'_>) -> io::Result<ProcessList> {
    let mut found = ProcessList::default();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match inspect(pid, recognize) {
            Ok(process) => found.processes.extend(process),
            Err(error) => found.skipped.push((pid, error)),
        }
    }
    Ok(found)
}

fn probe_result<T>(result: io::Result<T>) -> ProcessProperty<T> {
    match result {
        Ok(value) => ProcessProperty::Visible(value),
        Err(error) => ProcessProperty::Hidden(error.to_string()),
    }
}

fn ignore_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn value(environment: &[u8], name: &[u8]) -> Option<OsString> {
    let mut found =
        environment.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(name));
    found.next().map(|value| OsString::from_vec(value.to_vec()))
}

/// Parses `TMUX`, which consists of the socket's path, the server's pid and a session number. The
/// path may contain commas.
fn parse_tmux_origin(environment: &[u8]) -> Option<TmuxOrigin> {
    let variable = value(environment, b"TMUX=")?;
    let mut parts = variable.as_encoded_bytes().rsplitn(3, |byte| *byte == b',');
    let (_, server, socket) = (parts.next()?, parts.next()?, parts.next()?);
    let server = std::str::from_utf8(server).ok().and_then(|text| text.parse().ok());
    let socket = PathBuf::from(OsString::from_vec(socket.to_vec()));
    let pane = value(environment, b"TMUX_PANE=").and_then(|pane| pane.into_string().ok());
    socket.is_absolute().then_some(TmuxOrigin { socket, server, pane })
}

impl<T> ProcessProperty<T> {
    fn map<U>(&self, to: impl FnOnce(&T) -> U) -> ProcessProperty<U> {
        match self {
            ProcessProperty::Visible(value) => ProcessProperty::Visible(to(value)),
            ProcessProperty::Hidden(why) => ProcessProperty::Hidden(why.clone()),
        }
    }
}

/// Returns the recognized files that a process has open for writing, ordered by path.
pub fn open_files<T>(pid: u32, recognize: impl Fn(&Path) -> Option<T>) -> io::Result<Vec<T>> {
    open_in(&PathBuf::from(format!("/proc/{pid}/fd")), recognize)
}

/// Whether a descriptor is open for writing and `target` is still the name of its file. The name is
/// checked because the process may be in another mount namespace, in which the same name belongs to
/// another file.
fn is_open_for_writing(descriptor: &Path, target: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).ok().map(|seen| (seen.dev(), seen.ino()));
    let flags = || {
        let (fds, number) = (descriptor.parent()?, descriptor.file_name()?);
        let info = fs::read_to_string(fds.with_file_name("fdinfo").join(number)).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(flags.trim(), 8).ok()
    };
    let writes = flags().is_some_and(|flags| matches!(flags & 0o3, 1 | 2));
    let opened = id(descriptor);
    writes && opened.is_some() && opened == id(target)
}

fn open_in<T>(descriptors: &Path, recognize: impl Fn(&Path) -> Option<T>) -> io::Result<Vec<T>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(descriptors)?.take(MAX_DESCRIPTORS) {
        // A descriptor may have been closed in the meantime.
        let descriptor = entry?.path();
        let Ok(target) = fs::read_link(&descriptor) else { continue };
        if let Some(recognized) = recognize(&target)
            && is_open_for_writing(&descriptor, &target)
        {
            found.insert(target, recognized);
        }
    }
    Ok(found.into_values().collect())
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::{Child, Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// Returns a process without special properties.
    pub(in super::super) fn process() -> ObservedProcess {
        ObservedProcess {
            identity: ProcessInstance { pid: 1, start_time: 1, boot_id: "b".into() },
            parent: 0,
            user: 0,
            state: ProcessState::Alive,
            executable: ProcessProperty::Visible("/bin/sh".into()),
            arguments: ProcessProperty::Visible(Vec::new()),
            cwd: ProcessProperty::Visible("/".into()),
            ai_agent: ProcessProperty::Visible(None),
            tmux: ProcessProperty::Visible(None),
            transcripts: ProcessProperty::Visible(Vec::new()),
        }
    }

    /// Recognizes files whose name ends in `.talk`.
    fn talk(path: &Path) -> Option<OpenTranscript> {
        let thread = path.file_name()?.to_str()?.strip_suffix(".talk")?.to_owned();
        let file = TranscriptFile { thread, path: path.to_owned() };
        Some(OpenTranscript { adapter: AdapterId::COMMAND, file })
    }

    struct KilledOnDrop(Child);

    impl Drop for KilledOnDrop {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "polls the kernel's tables, which send no events"
    )]
    fn wait_until(mut holds: impl FnMut() -> bool) {
        let start = std::time::Instant::now();
        while !holds() {
            assert!(start.elapsed() < std::time::Duration::from_secs(30), "waited in vain");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    #[test]
    fn process_properties_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let transcript = fs::canonicalize(directory.path()).unwrap().join("one.talk");
        fs::write(&transcript, "").unwrap();
        let mut command = Command::new("/bin/cat");
        command.env("TMUX", "/a,b/sock,77,3").env("TMUX_PANE", "%4");
        command.env("AI_AGENT", "aider").current_dir(directory.path());
        command
            .stdin(Stdio::piped())
            .stdout(File::options().append(true).open(&transcript).unwrap());
        let child = KilledOnDrop(command.arg("-").spawn().unwrap());
        // Until it calls `exec`, the child is still a copy of this process.
        let seen = || inspect(child.0.id(), &talk).unwrap();
        wait_until(|| seen().unwrap().arguments.seen().unwrap().len() == 2);
        let seen = seen().unwrap();
        assert_eq!(seen.parent, std::process::id());
        assert_eq!(seen.state, ProcessState::Alive);
        assert_eq!(seen.cwd, ProcessProperty::Visible(fs::canonicalize(directory.path()).unwrap()));
        assert_eq!(seen.ai_agent, ProcessProperty::Visible(Some("aider".into())));
        let (socket, pane) = (PathBuf::from("/a,b/sock"), Some("%4".to_owned()));
        let inside = TmuxOrigin { socket, server: Some(77), pane };
        assert_eq!(seen.tmux, ProcessProperty::Visible(Some(inside)));
        assert_eq!(seen.arguments, ProcessProperty::Visible(vec!["/bin/cat".into(), "-".into()]));
        let open = seen.transcripts.seen().unwrap();
        assert_eq!(open.iter().map(|open| &open.file.path).collect::<Vec<_>>(), [&transcript]);
        assert!(
            list_processes(&talk)
                .unwrap()
                .processes
                .iter()
                .any(|other| other.identity == seen.identity)
        );
    }

    #[test]
    fn read_only_or_deleted_files_are_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let path = |no| directory.path().join(format!("{no}.talk"));
        for no in [1, 2] {
            fs::write(path(no), "").unwrap();
        }
        let mut command = Command::new("/bin/cat");
        command.stdin(Stdio::piped()).stdout(File::open(path(1)).unwrap());
        command.stderr(File::options().append(true).open(path(2)).unwrap());
        let child = KilledOnDrop(command.arg("-").spawn().unwrap());
        let threads = |pid| open_files(pid, talk).unwrap().len();
        wait_until(|| threads(child.0.id()) == 1);
        fs::remove_file(path(2)).unwrap();
        fs::write(path(2), "another file of its name").unwrap();
        assert_eq!(threads(child.0.id()), 0);
    }

    #[test]
    fn tmux_variables_are_parsed_strictly() {
        let read = |text: &str| parse_tmux_origin(text.replace(' ', "\0").as_bytes());
        assert_eq!(read("A=1 B=2"), None);
        for odd in ["TMUX=", "TMUX=,,", "TMUX=relative,1,2", "TMUX=/only"] {
            assert_eq!(read(odd), None, "{odd}");
        }
        let inside = read("TMUX=/s,x,0").unwrap();
        assert_eq!((inside.server, inside.pane), (None, None));
    }

    #[test]
    fn stopped_and_ended_processes_differ() {
        let child = KilledOnDrop(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap());
        let pid = Pid::from_child(&child.0);
        let state = || inspect(child.0.id(), &talk).unwrap().map(|process| process.state);
        assert_eq!(state(), Some(ProcessState::Alive));
        kill_process(pid, Signal::STOP).unwrap();
        wait_until(|| state() == Some(ProcessState::Stopped));
        kill_process(pid, Signal::KILL).unwrap();
        wait_until(|| state() == Some(ProcessState::Zombie));
        drop(child);
    }

    #[test]
    fn unused_pid_is_none() {
        assert_eq!(inspect(u32::MAX, &talk).unwrap(), None);
    }

    #[test]
    fn hidden_property_has_reason() {
        let hidden: ProcessProperty<()> =
            probe_result(Err(io::Error::from(io::ErrorKind::PermissionDenied)));
        assert_eq!(hidden, ProcessProperty::Hidden("permission denied".into()));
    }
}
