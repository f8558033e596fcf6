//! Determines the origin of a process, and thus its privileges. All sockets use this code to judge
//! their peers.
//!
//! Every process below a holder or the daemon is identified by its ancestors, and by a mark in its
//! environment. Ancestors and marks can be forged, but forging them only removes privileges. A
//! process without such an ancestor and without a mark is the operator.
//!
//! A holder is a child subreaper, so as long as the holder is running, all processes of its launch
//! remain its descendants. If a holder is killed, the daemon (a subreaper too) or one of the daemon's
//! ancestors adopts the processes. Therefore, while there is a launch without a holder
//! ([`register`](crate::register)), a process is assumed to belong to that launch unless the
//! process's ancestry proves otherwise (see `LostLaunch::may_include`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::lock;
use crate::peer::{self, PinnedPeer, Pinning};
use crate::process::{self, ProcessInstance};
use crate::register::{LaunchRegister, RegisteredLaunch};
use crate::stat::ProcStat;

/// The environment variable that marks every process that Provost starts, except its own processes.
/// Its value is the key of the launch, or [`HELPER`].
pub const MARK: &str = "PROVOST_LAUNCH";

/// The mark of processes that run without a holder, such as git. It does not belong to a launch.
pub const HELPER: &str = "helper";

/// The properties of a home that determine the origins of processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// The directories that contain the holders' launch directories.
    pub holder_dirs: Vec<PathBuf>,
    /// The file that the home's daemon locks.
    pub lock: PathBuf,
    /// The register of this boot's launches whose processes may still be alive, see
    /// [`LaunchRegister`].
    pub register: PathBuf,
    #[serde(default)]
    pub pinning: Pinning,
}

/// The origin of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessOrigin {
    /// The home's daemon, which holds the lock and does not descend from a holder.
    Daemon,
    /// A descendant of this holder of the home, which is identified by its command line.
    Supervised {
        dir: PathBuf,
        holder: ProcessInstance,
        /// The directory of the outermost such holder. A process can pretend to have another `dir`
        /// through its command line, but cannot hide the holder above it.
        outermost: PathBuf,
    },
    /// A process that has the mark of one of the home's launches but is not below the launch's
    /// holder.
    Marked { key: String },
    /// A process that is below the daemon, or marked as its helper, without a holder in between.
    Helper,
    /// A process that may belong to this launch, whose holder was killed.
    Unproven { key: String },
    /// Any other process of the user.
    Operator,
}

/// The account that is charged for a process's use of a limited resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceAccount {
    Operator,
    /// A launch, check, hook or setup with a living holder, identified by the holder's directory.
    Supervised(PathBuf),
    /// All other processes. They share one account, because marks can be forged.
    Other,
}

impl ProcessOrigin {
    /// Returns the account for a process of this origin. A process cannot change its account by
    /// forking or by claiming to belong to another launch.
    pub fn account(&self) -> ResourceAccount {
        match self {
            ProcessOrigin::Operator => ResourceAccount::Operator,
            ProcessOrigin::Supervised { outermost, .. } => {
                ResourceAccount::Supervised(outermost.clone())
            }
            ProcessOrigin::Daemon
            | ProcessOrigin::Marked { .. }
            | ProcessOrigin::Helper
            | ProcessOrigin::Unproven { .. } => ResourceAccount::Other,
        }
    }
}

impl Boundary {
    /// Determines the origin of a peer. Fails if the origin is unknown. A peer of unknown origin
    /// has no privileges.
    pub fn identify(
        &self,
        peer: &PinnedPeer,
        register: &LaunchRegister,
    ) -> Result<ProcessOrigin, peer::Error> {
        peer.check()?;
        let origin = self.identify_family(peer, register)?;
        // The data that was read describes the peer only if the peer is still running.
        peer.check()?;
        Ok(origin)
    }

    fn identify_family(
        &self,
        peer: &PinnedPeer,
        register: &LaunchRegister,
    ) -> io::Result<ProcessOrigin> {
        let family = process::family(peer.pid())?;
        let mut holders = family.iter().filter_map(|stat| {
            let dir = holder_directory(stat.pid).filter(|dir| self.is_holder_dir(dir))?;
            Some((dir, stat))
        });
        if let Some((dir, stat)) = holders.next() {
            let outermost = holders.next_back().map_or_else(|| dir.clone(), |(outer, _)| outer);
            let holder = stat.identity(&peer.identity().boot_id);
            return Ok(ProcessOrigin::Supervised { dir, holder, outermost });
        }
        for key in family.iter().filter_map(|stat| mark(stat.pid)) {
            if key == HELPER {
                return Ok(ProcessOrigin::Helper);
            }
            if register.has(&key) || self.holder_dirs.iter().any(|place| place.join(&key).exists())
            {
                return Ok(ProcessOrigin::Marked { key });
            }
        }
        let daemons = lock::owners_of(&self.lock)?;
        if let Some(at) = family.iter().position(|stat| daemons.contains(&stat.pid)) {
            return Ok(if at == 0 { ProcessOrigin::Daemon } else { ProcessOrigin::Helper });
        }
        for launch in register.lost()? {
            let lost = LostLaunch { launch, own_uid: peer.uid() };
            if lost.may_include(&family_members(&family)?) {
                return Ok(ProcessOrigin::Unproven { key: launch.key.clone() });
            }
        }
        Ok(ProcessOrigin::Operator)
    }

    fn is_holder_dir(&self, dir: &Path) -> bool {
        let parent = dir.parent();
        parent
            .is_some_and(|parent| self.holder_dirs.iter().any(|place| is_same_file(parent, place)))
    }
}

/// A process or one of its ancestors, with the properties that can prove that the process does not
/// belong to a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FamilyMember {
    pid: u32,
    ppid: u32,
    start_time: u64,
    session: u32,
    /// `None` if the process has just exited.
    real_uid: Option<u32>,
    control_groups: Option<String>,
}

fn family_members(family: &[ProcStat]) -> io::Result<Vec<FamilyMember>> {
    let seen = family.iter().map(|stat| {
        Ok(FamilyMember {
            pid: stat.pid,
            ppid: stat.ppid,
            start_time: stat.start_time,
            session: stat.session,
            real_uid: process::real_uid(stat.pid)?,
            control_groups: process::control_groups(stat.pid)?,
        })
    });
    seen.collect()
}

/// A launch whose holder was killed, so that any of the holder's ancestors may have adopted its
/// processes.
struct LostLaunch<'a> {
    launch: &'a RegisteredLaunch,
    own_uid: u32,
}

impl LostLaunch<'_> {
    /// Whether a process may belong to the launch, given its family (the process itself, then its
    /// ancestors). It does not belong to the launch if one of the following conditions holds for
    /// the process, or for an ancestor that it does not share with the launch's holder:
    ///
    /// - it is older than the launch;
    /// - it runs as another user, as sshd and cron do;
    /// - it entered the PID namespace from outside, as by `docker exec`;
    /// - it is in another control group, as systemd units are;
    /// - it is in the session of the ancestor that it shares with the holder, because every holder
    ///   leaves that session.
    fn may_include(&self, family: &[FamilyMember]) -> bool {
        let shared = family.iter().position(|one| self.is_shared(one));
        let (own, shared) = family.split_at(shared.unwrap_or(family.len()));
        if own.iter().any(|one| self.has_other_origin(one)) {
            return false;
        }
        match (own.last(), shared.first()) {
            (Some(last), Some(first)) => last.session != first.session,
            // The next ancestor is hidden, because it belongs to another user. Only process 1
            // adopts processes of all users.
            (Some(last), None) => last.ppid <= 1,
            // The process is itself an ancestor of the holder.
            (None, _) => false,
        }
    }

    fn is_shared(&self, one: &FamilyMember) -> bool {
        let known = &self.launch.ancestors;
        one.pid == 1
            || known.iter().any(|held| (held.pid, held.start_time) == (one.pid, one.start_time))
    }

    fn has_other_origin(&self, one: &FamilyMember) -> bool {
        one.start_time < self.launch.started
            || one.ppid == 0
            || (self.own_uid != 0 && one.real_uid.is_some_and(|uid| uid != self.own_uid))
            || one.control_groups.as_ref().is_some_and(|found| *found != self.launch.control_groups)
    }
}

/// Returns the launch directory of a holder, which is taken from the process's command line.
pub fn holder_directory(pid: u32) -> Option<PathBuf> {
    let mut words = process::command_line(pid).ok()?.into_iter().skip(1);
    let (word, dir) = (words.next()?, words.next()?);
    (word == "hold").then(|| dir.into())
}

/// Returns the mark in the initial environment of a process, if it is readable and a valid
/// directory name.
pub fn mark(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mark = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
    let mark = String::from_utf8(mark?.to_owned()).ok()?;
    (!mark.is_empty() && !mark.contains('/') && !mark.starts_with('.')).then_some(mark)
}

/// Whether two paths refer to the same file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::register::HolderAncestor;

    fn boundary(root: &Path) -> Boundary {
        Boundary {
            holder_dirs: vec![root.join("launches"), root.join("checks")],
            lock: root.join("lock"),
            register: root.join("register"),
            pinning: Pinning::Best,
        }
    }

    /// Starts a process with this mark, which connects to a socket and waits for the end of its
    /// input. Returns the process and its pinned peer.
    fn connected(root: &Path, mark: Option<&str>) -> (Child, PinnedPeer) {
        let path = root.join("s");
        fs::remove_file(&path).ok();
        let listener = UnixListener::bind(&path).unwrap();
        let script = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un($ARGV[0])) or die; syswrite(STDOUT, 'x'); sysread(STDIN, $_, 1)";
        let mut command = Command::new("perl");
        command.args(["-e", script]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env_remove(MARK).envs(mark.map(|mark| (MARK, mark)));
        let mut child = command.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let peer = PinnedPeer::pin(listener.accept().unwrap().0, Pinning::Best).unwrap();
        (child, peer)
    }

    fn judged(root: &Path, mark: Option<&str>) -> ProcessOrigin {
        let (mut child, peer) = connected(root, mark);
        let origin = boundary(root).identify(&peer, &LaunchRegister::default()).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(
            boundary(root).identify(&peer, &LaunchRegister::default()).is_err(),
            "it has ended"
        );
        origin
    }

    #[test]
    fn mark_counts_in_the_home_of_its_launch() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("checks/c1")).unwrap();
        let judged = |mark| judged(dir.path(), mark);
        assert_eq!(judged(Some("c1")), ProcessOrigin::Marked { key: "c1".into() });
        assert_eq!(judged(Some("c2")), ProcessOrigin::Operator, "it belongs to another home");
        assert_eq!(judged(Some("..")), ProcessOrigin::Operator);
        assert_eq!(judged(Some(HELPER)), ProcessOrigin::Helper);
        assert_eq!(judged(None), ProcessOrigin::Operator);
    }

    /// Starts a process below two holders, identified by their command lines, which connects to a
    /// socket.
    fn connected_below_two(root: &Path) -> (Child, PinnedPeer) {
        let path = root.join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let connect = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un($ARGV[0])) or die; syswrite(STDOUT, 'x'); sysread(STDIN, $_, 1); exit 0";
        // The command line of the shell looks like that of a holder: `sh hold DIR ...`.
        let script = root.join("hold");
        fs::write(&script, "shift; \"$@\"; exit $?").unwrap();
        let mut command = Command::new("sh");
        command.arg("hold").arg(root.join("launches/real")).arg("sh").arg("hold");
        command.arg(root.join("launches/claimed")).args(["perl", "-e", connect]).arg(&path);
        command.current_dir(root).stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove(MARK);
        let mut child = command.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let peer = PinnedPeer::pin(listener.accept().unwrap().0, Pinning::Best).unwrap();
        (child, peer)
    }

    #[test]
    fn account_is_the_outermost_holder() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("launches")).unwrap();
        let (mut child, peer) = connected_below_two(dir.path());
        let origin = boundary(dir.path()).identify(&peer, &LaunchRegister::default()).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(origin.account(), ResourceAccount::Supervised(dir.path().join("launches/real")));
        let ProcessOrigin::Supervised { dir: claimed, .. } = origin else { panic!("{origin:?}") };
        assert_eq!(claimed, dir.path().join("launches/claimed"));
        assert_eq!(ProcessOrigin::Marked { key: "l1".into() }.account(), ResourceAccount::Other);
    }

    #[test]
    fn child_of_the_lock_owner_is_a_helper() {
        let dir = tempfile::tempdir().unwrap();
        let lock = fs::File::create(dir.path().join("lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert_eq!(judged(dir.path(), None), ProcessOrigin::Helper);
    }

    fn launch() -> RegisteredLaunch {
        RegisteredLaunch {
            key: "l".into(),
            started: 100,
            holder: None,
            lost: false,
            ancestors: vec![
                HolderAncestor { pid: 50, start_time: 90 },
                HolderAncestor { pid: 20, start_time: 10 },
                HolderAncestor { pid: 1, start_time: 0 },
            ],
            control_groups: "0::/a\n".into(),
        }
    }

    fn process(pid: u32, ppid: u32, start_time: u64) -> FamilyMember {
        let control_groups = Some("0::/a\n".to_owned());
        FamilyMember { pid, ppid, start_time, session: pid, real_uid: Some(7), control_groups }
    }

    fn init() -> FamilyMember {
        FamilyMember { real_uid: Some(0), ..process(1, 0, 0) }
    }

    fn may_include(family: &[FamilyMember]) -> bool {
        LostLaunch { launch: &launch(), own_uid: 7 }.may_include(family)
    }

    #[test]
    fn younger_orphan_may_belong_to_the_launch() {
        assert!(may_include(&[process(300, 1, 100), init()]));
        assert!(may_include(&[process(300, 299, 120), process(299, 1, 110), init()]));
        // Ancestors of the holder other than process 1 adopt processes too.
        let reaper = process(20, 1, 10);
        assert!(may_include(&[process(300, 20, 120), reaper, init()]));
        // A hidden process can have adopted the process only if the hidden process is process 1.
        assert!(may_include(&[process(300, 1, 120)]));
        assert!(!may_include(&[process(300, 77, 120)]));
    }

    #[test]
    fn proof_of_another_origin_is_enough() {
        let orphan = process(300, 1, 120);
        assert!(
            !may_include(&[FamilyMember { start_time: 99, ..orphan.clone() }, init()]),
            "older"
        );
        let cron = FamilyMember { real_uid: Some(0), ..process(60, 1, 110) };
        assert!(
            !may_include(&[FamilyMember { ppid: 60, ..orphan.clone() }, cron, init()]),
            "another user"
        );
        assert!(
            !may_include(&[FamilyMember { ppid: 0, ..orphan.clone() }]),
            "entered from outside"
        );
        let unit = FamilyMember { control_groups: Some("0::/b\n".into()), ..orphan };
        assert!(!may_include(&[unit, init()]), "a unit of systemd");
        let script = process(20, 1, 10);
        let command = FamilyMember { ppid: 20, session: 20, ..orphan };
        assert!(!may_include(&[command, script.clone(), init()]), "a command of a script");
        assert!(!may_include(&[script, init()]), "an ancestor of the holder");
    }

    #[test]
    fn other_uids_prove_nothing_to_root() {
        let orphan = FamilyMember { real_uid: Some(9), ..process(300, 1, 120) };
        assert!(LostLaunch { launch: &launch(), own_uid: 0 }.may_include(&[orphan, init()]));
    }
}
