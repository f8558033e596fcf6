//! Determines where a process comes from, and so its privileges: the only such decision for the
//! peers of all sockets.
//!
//! Everything that runs below a holder or the daemon is identified by its ancestors, and by a mark
//! in its environment. Both can be forged, but forging them only removes privileges. A process with
//! neither is the operator.
//!
//! A holder is a child subreaper: no descendant leaves it while it lives. When it is killed, its
//! processes are adopted by the daemon, which is a subreaper too, or by one of the daemon's
//! ancestors. So a process may belong to a launch that lost its holder
//! ([`register`](crate::register)) if nothing in its ancestry shows otherwise: see
//! `Lost::may_include`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::lock;
use crate::peer::{self, Peer, Pinning};
use crate::process::{self, Identity, ProcStat};
use crate::register::{Launched, Register};

/// The variable that marks every process that Provost starts on behalf of others. Its value is the
/// key of the launch, or [`HELPER`].
pub const MARK: &str = "PROVOST_LAUNCH";

/// The mark of processes that run without a holder, such as git. It belongs to no launch.
pub const HELPER: &str = "helper";

/// The properties of a home that determine where a process comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// The directories that contain the holders' directories.
    pub held: Vec<PathBuf>,
    /// The file that the home's daemon has locked.
    pub lock: PathBuf,
    /// The launches of this boot whose processes may live: see [`Register`].
    pub register: PathBuf,
    #[serde(default)]
    pub pinning: Pinning,
}

/// The origin of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The home's daemon: it holds the lock, and does not descend from a holder.
    Daemon,
    /// Descends from this holder of the home, identified by its command line.
    Held {
        dir: PathBuf,
        holder: Identity,
        /// The directory of the outermost such holder. A process can claim another `dir` by its
        /// command line, but cannot hide the holder above it.
        outermost: PathBuf,
    },
    /// Marked by a launch of the home, but not below its holder.
    Marked { key: String },
    /// Below the daemon or marked as its helper, with no holder in between.
    Helper,
    /// It may belong to this launch, whose holder was killed.
    Unproven { key: String },
    /// None of these: a process of the user.
    Operator,
}

/// The account that a process's use of a limited resource is charged to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    Operator,
    /// A launch, check, hook or setup with a living holder, by the holder's directory.
    Held(PathBuf),
    /// Everything else. It is one account, because marks can be forged.
    Other,
}

impl Origin {
    /// The account of a process of this origin. Forking, or naming other launches, does not change
    /// it.
    pub fn account(&self) -> Account {
        match self {
            Origin::Operator => Account::Operator,
            Origin::Held { outermost, .. } => Account::Held(outermost.clone()),
            Origin::Daemon | Origin::Marked { .. } | Origin::Helper | Origin::Unproven { .. } => {
                Account::Other
            }
        }
    }
}

impl Boundary {
    /// Determines the origin of a peer. An error means that it is unknown, so the peer has no
    /// privileges.
    pub fn judge(&self, peer: &Peer, register: &Register) -> Result<Origin, peer::Error> {
        peer.check()?;
        let origin = self.judge_family(peer, register)?;
        // The data is the peer's only if it still runs.
        peer.check()?;
        Ok(origin)
    }

    fn judge_family(&self, peer: &Peer, register: &Register) -> io::Result<Origin> {
        let family = process::family(peer.pid())?;
        let mut holders = family.iter().filter_map(|stat| {
            let dir = held_directory(stat.pid).filter(|dir| self.is_held(dir))?;
            Some((dir, stat))
        });
        if let Some((dir, stat)) = holders.next() {
            let outermost = holders.next_back().map_or_else(|| dir.clone(), |(outer, _)| outer);
            let holder = stat.identity(&peer.identity().boot_id);
            return Ok(Origin::Held { dir, holder, outermost });
        }
        for key in family.iter().filter_map(|stat| mark(stat.pid)) {
            if key == HELPER {
                return Ok(Origin::Helper);
            }
            if register.has(&key) || self.held.iter().any(|place| place.join(&key).exists()) {
                return Ok(Origin::Marked { key });
            }
        }
        let daemons = lock::owners_of(&self.lock)?;
        if let Some(at) = family.iter().position(|stat| daemons.contains(&stat.pid)) {
            return Ok(if at == 0 { Origin::Daemon } else { Origin::Helper });
        }
        for launch in register.lost()? {
            let lost = Lost { launch, own_uid: peer.uid() };
            if lost.may_include(&seen(&family)?) {
                return Ok(Origin::Unproven { key: launch.key.clone() });
            }
        }
        Ok(Origin::Operator)
    }

    fn is_held(&self, dir: &Path) -> bool {
        let parent = dir.parent();
        parent.is_some_and(|parent| self.held.iter().any(|place| same_place(parent, place)))
    }
}

/// A process of a family, with the properties that show it does not belong to a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    pid: u32,
    ppid: u32,
    start_time: u64,
    session: u32,
    /// Unknown for a process that has just ended.
    real_uid: Option<u32>,
    control_groups: Option<String>,
}

fn seen(family: &[ProcStat]) -> io::Result<Vec<Seen>> {
    let seen = family.iter().map(|stat| {
        Ok(Seen {
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

/// A launch whose holder was killed, so that its processes may have any of the holder's ancestors
/// as their parent.
struct Lost<'a> {
    launch: &'a Launched,
    own_uid: u32,
}

impl Lost<'_> {
    /// Whether a process with this family, itself first, may belong to the launch. It does not if
    /// one of these holds for the process or an ancestor that the launch's holder did not have:
    ///
    /// - it is older than the launch;
    /// - another user started it, such as sshd or cron;
    /// - it entered the PID namespace from outside, as by `docker exec`;
    /// - it is in another control group, as a unit of systemd is;
    /// - it is in the session of the ancestor that it shares with the holder, which every holder leaves.
    fn may_include(&self, family: &[Seen]) -> bool {
        let shared = family.iter().position(|one| self.is_shared(one));
        let (own, shared) = family.split_at(shared.unwrap_or(family.len()));
        if own.iter().any(|one| self.is_of_others(one)) {
            return false;
        }
        match (own.last(), shared.first()) {
            (Some(last), Some(first)) => last.session != first.session,
            // The next ancestor is hidden, because it belongs to another user. Only process 1
            // adopts for all users.
            (Some(last), None) => last.ppid <= 1,
            // The process is itself an ancestor of the holder.
            (None, _) => false,
        }
    }

    fn is_shared(&self, one: &Seen) -> bool {
        let known = &self.launch.ancestors;
        one.pid == 1
            || known.iter().any(|held| (held.pid, held.start_time) == (one.pid, one.start_time))
    }

    fn is_of_others(&self, one: &Seen) -> bool {
        one.start_time < self.launch.started
            || one.ppid == 0
            || (self.own_uid != 0 && one.real_uid.is_some_and(|uid| uid != self.own_uid))
            || one.control_groups.as_ref().is_some_and(|found| *found != self.launch.control_groups)
    }
}

/// The directory of a holder, identified by the process's command line.
pub fn held_directory(pid: u32) -> Option<PathBuf> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = command.split(|byte| *byte == 0).skip(1);
    let (word, dir) = (words.next()?, words.next()?);
    (word == b"hold").then(|| Path::new(OsStr::from_bytes(dir)).to_owned())
}

/// The mark in the initial environment of a process, if it is readable and can name a directory.
pub fn mark(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mark = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
    let mark = String::from_utf8(mark?.to_owned()).ok()?;
    (!mark.is_empty() && !mark.contains('/') && !mark.starts_with('.')).then_some(mark)
}

/// Whether two paths point to the same file.
pub fn same_place(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::register::Ancestor;

    fn boundary(root: &Path) -> Boundary {
        Boundary {
            held: vec![root.join("launches"), root.join("checks")],
            lock: root.join("lock"),
            register: root.join("register"),
            pinning: Pinning::Best,
        }
    }

    /// A process with this mark, connected to the returned socket. It waits for the end of its
    /// input.
    fn connected(root: &Path, mark: Option<&str>) -> (Child, Peer) {
        let path = root.join("s");
        fs::remove_file(&path).ok();
        let listener = UnixListener::bind(&path).unwrap();
        let script = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un($ARGV[0])) or die; syswrite(STDOUT, 'x'); sysread(STDIN, $_, 1)";
        let mut command = Command::new("perl");
        command.args(["-e", script]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env_remove(MARK).envs(mark.map(|mark| (MARK, mark)));
        let mut child = command.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let peer = Peer::pin(listener.accept().unwrap().0, Pinning::Best).unwrap();
        (child, peer)
    }

    fn judged(root: &Path, mark: Option<&str>) -> Origin {
        let (mut child, peer) = connected(root, mark);
        let origin = boundary(root).judge(&peer, &Register::default()).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(boundary(root).judge(&peer, &Register::default()).is_err(), "it has ended");
        origin
    }

    #[test]
    fn mark_counts_where_its_directory_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("checks/c1")).unwrap();
        let judged = |mark| judged(dir.path(), mark);
        assert_eq!(judged(Some("c1")), Origin::Marked { key: "c1".into() });
        assert_eq!(judged(Some("c2")), Origin::Operator, "it is of another home");
        assert_eq!(judged(Some("..")), Origin::Operator);
        assert_eq!(judged(Some(HELPER)), Origin::Helper);
        assert_eq!(judged(None), Origin::Operator);
    }

    /// A process below two holders, identified by their command lines, connected to the returned
    /// socket.
    fn connected_below_two(root: &Path) -> (Child, Peer) {
        let path = root.join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let connect = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un($ARGV[0])) or die; syswrite(STDOUT, 'x'); sysread(STDIN, $_, 1); exit 0";
        // The shell has the command line of a holder: `sh hold DIR ...`.
        let script = root.join("hold");
        fs::write(&script, "shift; \"$@\"; exit $?").unwrap();
        let mut command = Command::new("sh");
        command.arg("hold").arg(root.join("launches/real")).arg("sh").arg("hold");
        command.arg(root.join("launches/claimed")).args(["perl", "-e", connect]).arg(&path);
        command.current_dir(root).stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove(MARK);
        let mut child = command.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let peer = Peer::pin(listener.accept().unwrap().0, Pinning::Best).unwrap();
        (child, peer)
    }

    #[test]
    fn account_is_the_outermost_holders_whatever_is_claimed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("launches")).unwrap();
        let (mut child, peer) = connected_below_two(dir.path());
        let origin = boundary(dir.path()).judge(&peer, &Register::default()).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(origin.account(), Account::Held(dir.path().join("launches/real")));
        let Origin::Held { dir: claimed, .. } = origin else { panic!("{origin:?}") };
        assert_eq!(claimed, dir.path().join("launches/claimed"));
        assert_eq!(Origin::Marked { key: "l1".into() }.account(), Account::Other);
    }

    #[test]
    fn child_of_the_lock_owner_is_a_helper() {
        let dir = tempfile::tempdir().unwrap();
        let lock = fs::File::create(dir.path().join("lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert_eq!(judged(dir.path(), None), Origin::Helper);
    }

    fn launch() -> Launched {
        Launched {
            key: "l".into(),
            started: 100,
            holder: None,
            lost: false,
            ancestors: vec![
                Ancestor { pid: 50, start_time: 90 },
                Ancestor { pid: 20, start_time: 10 },
                Ancestor { pid: 1, start_time: 0 },
            ],
            control_groups: "0::/a\n".into(),
        }
    }

    fn process(pid: u32, ppid: u32, start_time: u64) -> Seen {
        let control_groups = Some("0::/a\n".to_owned());
        Seen { pid, ppid, start_time, session: pid, real_uid: Some(7), control_groups }
    }

    fn init() -> Seen {
        Seen { real_uid: Some(0), ..process(1, 0, 0) }
    }

    fn may_include(family: &[Seen]) -> bool {
        Lost { launch: &launch(), own_uid: 7 }.may_include(family)
    }

    #[test]
    fn orphan_that_is_younger_than_the_launch_may_be_of_it() {
        assert!(may_include(&[process(300, 1, 100), init()]));
        assert!(may_include(&[process(300, 299, 120), process(299, 1, 110), init()]));
        // The holder's ancestors other than process 1 adopt too.
        let reaper = process(20, 1, 10);
        assert!(may_include(&[process(300, 20, 120), reaper, init()]));
        // A hidden process can only have adopted it if it is process 1.
        assert!(may_include(&[process(300, 1, 120)]));
        assert!(!may_include(&[process(300, 77, 120)]));
    }

    #[test]
    fn proof_of_another_origin_is_enough() {
        let orphan = process(300, 1, 120);
        assert!(!may_include(&[Seen { start_time: 99, ..orphan.clone() }, init()]), "older");
        let cron = Seen { real_uid: Some(0), ..process(60, 1, 110) };
        assert!(!may_include(&[Seen { ppid: 60, ..orphan.clone() }, cron, init()]), "another user");
        assert!(!may_include(&[Seen { ppid: 0, ..orphan.clone() }]), "entered from outside");
        let unit = Seen { control_groups: Some("0::/b\n".into()), ..orphan };
        assert!(!may_include(&[unit, init()]), "a unit of systemd");
        let script = process(20, 1, 10);
        let command = Seen { ppid: 20, session: 20, ..orphan };
        assert!(!may_include(&[command, script.clone(), init()]), "a command of a script");
        assert!(!may_include(&[script, init()]), "an ancestor of the holder");
    }

    #[test]
    fn other_uids_prove_nothing_to_root() {
        let orphan = Seen { real_uid: Some(9), ..process(300, 1, 120) };
        assert!(Lost { launch: &launch(), own_uid: 0 }.may_include(&[orphan, init()]));
    }
}
