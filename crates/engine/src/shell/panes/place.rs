//! A pane with its identity, and the result of reading it.

use std::{os::fd::OwnedFd, path::Path};

use provost_core::session::{Driver, LaunchPhase, PaneSight, Session};
use provost_drivers::codex::Version;
use provost_watch::{
    process,
    screen::{self, Reading},
    tmux::{Error, Pane, PaneId, Server},
};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

/// The pane of an external agent.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) server: Server,
    pub(super) id: PaneId,
    /// The server process in whose lifetime the id means this pane.
    life: Option<u32>,
    process: Option<process::Identity>,
    /// Whether the agent's screens are known, and their version.
    known: Option<Option<(u64, u64)>>,
}

/// An exclusive lock for typing into a pane, across all Provost daemons. The kernel holds it on the
/// pane's own terminal, and releases it with the process.
#[derive(Debug)]
pub(super) struct Claimed(
    #[expect(dead_code, reason = "it is held, and never read")] Option<OwnedFd>,
);

/// A pane and its painted lines.
type ShownPane = (Pane, Option<Vec<String>>);

/// The result of reading a pane.
#[derive(Debug)]
pub(super) enum Looked {
    There(Box<Found>),
    /// It could not be read now.
    Unseen,
    /// It is gone for good: ids are unique in the lifetime of a server.
    Never,
}

/// A pane's current content.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) pane: Pane,
    pub(super) sight: PaneSight,
    /// The interpretation of the screen, where it is known.
    pub(super) reading: Option<Reading>,
    /// The unsent text at the agent's prompt, if it is shown.
    pub(super) written: Option<String>,
}

impl Place {
    pub(super) fn of(session: &Session) -> Option<Place> {
        let pane = session.spec.adopted.as_deref()?.pane.as_ref()?;
        let running = session.current_launch().map(|launch| &launch.phase);
        let process = match running {
            Some(LaunchPhase::Running { child: Some(child), .. }) => Some(process::Identity {
                pid: child.pid.unsigned_abs(),
                start_time: child.start_time,
                boot_id: child.boot_id.clone(),
            }),
            Some(_) | None => None,
        };
        let agent = &session.spec.agent;
        let version = agent.version.as_deref().and_then(Version::parse);
        let version = version.map(|Version(major, minor, _)| (u64::from(major), u64::from(minor)));
        Some(Place {
            server: Server::new(&pane.socket),
            id: PaneId::parse(&pane.id)?,
            life: pane.server,
            process,
            known: (agent.driver == Driver::CodexTerminal).then_some(version),
        })
    }

    /// Claims the pane for typing, unless another process has it. Blocks.
    pub(super) fn claim(&self) -> Option<Claimed> {
        let pane = self.server.pane(&self.id).ok()??;
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // A terminal that cannot be opened has no lock, and is typed into nevertheless.
        let Ok(terminal) = open(&pane.tty, flags, Mode::empty()) else {
            return Some(Claimed(None));
        };
        match flock(&terminal, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => None,
            Ok(()) | Err(_) => Some(Claimed(Some(terminal))),
        }
    }

    /// Reads the pane, its process and its screen. Blocks.
    pub(super) fn look(&self) -> Looked {
        match self.shown() {
            Ok(Some((pane, painted))) if self.life.is_none_or(|life| life == pane.server) => {
                self.found(pane, painted)
            }
            Ok(_) => Looked::Never,
            Err(Error::NoServer(_)) if self.life.is_some_and(is_over) => Looked::Never,
            Err(_) => Looked::Unseen,
        }
    }

    /// Returns the pane, and its lines where they can be understood.
    fn shown(&self) -> Result<Option<ShownPane>, Error> {
        if self.known.is_none() {
            return Ok(self.server.pane(&self.id)?.map(|pane| (pane, None)));
        }
        Ok(self.server.painted(&self.id)?.map(|(pane, painted)| (pane, Some(painted))))
    }

    /// Returns the process of the server, if it is known.
    pub(super) fn server_pid(&self) -> Option<u32> {
        self.life
    }

    /// Whether keys reach the agent now: it is the pane of the same server, and the agent's own
    /// process, still running the agent's own program, is in the foreground. Checked again right
    /// before every key. Blocks.
    pub(super) fn is_ready(&self) -> bool {
        let pane = self.server.pane(&self.id).ok().flatten();
        let same = |pane: &Pane| self.life.is_none_or(|life| life == pane.server);
        pane.is_some_and(|pane| same(&pane) && !pane.dead && !pane.in_mode && self.has_agent(&pane))
    }

    fn has_agent(&self, pane: &Pane) -> bool {
        let Some(process) = &self.process else { return false };
        process::is_in_front(process, &pane.tty).unwrap_or(false)
            && process::is_codex(process).unwrap_or(false)
    }

    fn found(&self, pane: Pane, painted: Option<Vec<String>>) -> Looked {
        let read =
            |painted: &Vec<String>| screen::read(&screen::plain(painted), self.known.flatten());
        let reading = painted.as_ref().map(read);
        let written = painted.as_deref().map(screen::painted).and_then(|p| screen::written(&p));
        let drafted = written.as_deref().is_some_and(|written| !written.is_empty());
        let has_agent = self.has_agent(&pane);
        let sight = if pane.dead {
            PaneSight::Gone
        } else if pane.in_mode {
            PaneSight::Browsed
        } else if !has_agent {
            PaneSight::Taken
        } else if drafted {
            PaneSight::Drafted
        } else {
            PaneSight::Open
        };
        Looked::There(Box::new(Found { pane, sight, reading, written }))
    }
}

fn is_over(server: u32) -> bool {
    !Path::new("/proc").join(server.to_string()).exists()
}
