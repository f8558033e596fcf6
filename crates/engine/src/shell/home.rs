//! The layout of Provost's home directory.

use std::path::{Path, PathBuf};

use provost_core::ids::{LaunchId, RunId, SessionId};
use provost_sys::{origin::Boundary, peer::Pinning};

use crate::projection::common::CHECKS_DIR;

/// Provost's home directory.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    pub fn new(root: impl Into<PathBuf>) -> Home {
        Home { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn ledger(&self) -> PathBuf {
        self.root.join("ledger")
    }

    pub fn socket(&self) -> PathBuf {
        self.root.join("daemon.sock")
    }

    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    pub fn launches(&self) -> PathBuf {
        self.root.join("launches")
    }

    pub fn launch(&self, launch: LaunchId) -> PathBuf {
        self.launches().join(launch.to_string())
    }

    /// The directories of the holders that run checks, hooks and setups.
    pub fn checks(&self) -> PathBuf {
        self.root.join(CHECKS_DIR)
    }

    /// The start records, which show what Provost itself started.
    pub fn starts(&self) -> PathBuf {
        self.root.join("starts")
    }

    /// The start record of an effect or a launch.
    pub(crate) fn start(&self, name: &str) -> PathBuf {
        self.starts().join(format!("{name}.json"))
    }

    /// The directories of launches whose events the ledger lost.
    pub fn lost(&self) -> PathBuf {
        self.root.join("lost")
    }

    /// The records that Provost did not write.
    pub fn forged(&self) -> PathBuf {
        self.root.join("forged")
    }

    /// The files that an agent's program uses for one session: its home, sockets and temporary files.
    pub fn agent(&self, session: SessionId) -> PathBuf {
        self.agents().join(session.to_string())
    }

    pub fn agents(&self) -> PathBuf {
        self.root.join("agents")
    }

    /// The summaries of a run.
    pub fn run(&self, run: RunId) -> PathBuf {
        self.root.join("runs").join(run.to_string())
    }

    pub fn pool(&self) -> PathBuf {
        self.root.join("pool")
    }

    /// The reports that were written while no daemon could be reached.
    pub fn drop_box(&self) -> PathBuf {
        self.root.join("drop")
    }

    /// The drop box for a session whose agent can write only to its working directory and its
    /// temporary files.
    pub fn agent_drop_box(&self, session: SessionId) -> PathBuf {
        self.agent(session).join("tmp/drop")
    }

    /// The socket on which a launch's holder lets users attach to the agent.
    pub fn attach_socket(&self, launch: LaunchId) -> PathBuf {
        self.agent(launch.session).join(format!("a{}.sock", launch.no))
    }

    /// The path on which an agent starts to listen. The holder then removes the socket from this
    /// path.
    pub(crate) fn listen_socket(&self, launch: LaunchId) -> PathBuf {
        self.agent(launch.session).join(format!("l{}.sock", launch.no))
    }

    pub fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    pub fn worktrees(&self) -> PathBuf {
        self.root.join("worktrees")
    }

    /// The boundary that determines where the peers on this home's sockets come from.
    pub fn boundary(&self, pinning: Pinning) -> Boundary {
        Boundary {
            holder_dirs: vec![self.launches(), self.checks()],
            lock: self.ledger().join("ledger.lock"),
            register: self.root.join("holders.json"),
            pinning,
        }
    }

    /// Returns every directory that must exist.
    pub fn directories(&self) -> Vec<PathBuf> {
        let parts = [
            self.starts(),
            self.launches(),
            self.pool(),
            self.scratch(),
            self.worktrees(),
            self.log(),
            self.drop_box(),
            self.agents(),
        ];
        let mut all = vec![self.root.clone(), self.checks()];
        all.extend(parts);
        all
    }
}
