//! Identifies a pane, and describes what was read from it.

use std::{fmt, os::fd::OwnedFd, path::Path, sync::Arc};

use provost_agent::{
    Adapter,
    screen::{ScreenReader, ScreenReading},
};
use provost_core::session::{LaunchPhase, PaneState, Session};
use provost_sys::{process::ProcessInstance, stat::is_in_foreground};
use provost_terminal::{
    parse_styles,
    tmux::{Error, PaneId, PaneListing, TmuxServer},
};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

/// The pane of an external agent.
#[derive(Clone)]
pub(super) struct PaneTarget {
    pub(super) server: TmuxServer,
    pub(super) id: PaneId,
    /// The server process. The pane's id is unique only during the lifetime of this process.
    server_process: Option<u32>,
    process: Option<ProcessInstance>,
    adapter: Arc<dyn Adapter>,
    /// Interprets the agent's screens. None if Provost cannot interpret the screens of this agent.
    screen: Option<Arc<dyn ScreenReader>>,
    version: Option<String>,
}

impl fmt::Debug for PaneTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaneTarget").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An exclusive lock for typing into a pane, shared by all Provost daemons. The kernel holds the
/// lock on the pane's own terminal, and releases it when the process exits.
#[derive(Debug)]
pub(super) struct PaneClaim(
    #[expect(dead_code, reason = "it is held, and never read")] Option<OwnedFd>,
);

/// A pane and the lines that it shows.
type ShownPane = (PaneListing, Option<Vec<String>>);

/// The result of reading a pane.
#[derive(Debug)]
pub(super) enum PaneRead {
    Present(Box<PaneContent>),
    /// The pane cannot be read at the moment.
    Unavailable,
    /// The pane is permanently gone, because ids are unique during the lifetime of a server.
    Gone,
}

/// A pane's current content.
#[derive(Debug)]
pub(super) struct PaneContent {
    pub(super) pane: PaneListing,
    pub(super) sight: PaneState,
    /// The interpretation of the screen, if there is one.
    pub(super) reading: Option<ScreenReading>,
    /// The unsent text at the agent's prompt, if it is visible.
    pub(super) draft: Option<String>,
}

impl PaneTarget {
    pub(super) fn from_session(
        session: &Session,
        adapter: &Arc<dyn Adapter>,
    ) -> Option<PaneTarget> {
        let pane = session.spec.adopted.as_deref()?.pane.as_ref()?;
        let running = session.current_launch().map(|launch| &launch.phase);
        let process = match running {
            Some(LaunchPhase::Running { child: Some(child), .. }) => Some(ProcessInstance {
                pid: child.pid.unsigned_abs(),
                start_time: child.start_time,
                boot_id: child.boot_id.clone(),
            }),
            Some(_) | None => None,
        };
        let agent = &session.spec.agent;
        let signals = agent.interface.capabilities.screen.signals;
        Some(PaneTarget {
            server: TmuxServer::new(&pane.socket),
            id: PaneId::parse(&pane.id)?,
            server_process: pane.server,
            process,
            adapter: adapter.clone(),
            screen: if signals { adapter.screen() } else { None },
            version: agent.version.clone(),
        })
    }

    /// Claims the pane for typing, unless another process has claimed it. Blocks.
    pub(super) fn claim(&self) -> Option<PaneClaim> {
        let pane = self.server.pane(&self.id).ok()??;
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // If the terminal cannot be opened, it cannot be locked, but can still be typed into.
        let Ok(terminal) = open(&pane.tty, flags, Mode::empty()) else {
            return Some(PaneClaim(None));
        };
        match flock(&terminal, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => None,
            Ok(()) | Err(_) => Some(PaneClaim(Some(terminal))),
        }
    }

    /// Reads the pane, its process and its screen. Blocks.
    pub(super) fn look(&self) -> PaneRead {
        match self.read_lines() {
            Ok(Some((pane, painted)))
                if self.server_process.is_none_or(|life| life == pane.server) =>
            {
                self.content(pane, painted)
            }
            Ok(_) => PaneRead::Gone,
            Err(Error::NoServer(_)) if self.server_process.is_some_and(has_exited) => {
                PaneRead::Gone
            }
            Err(_) => PaneRead::Unavailable,
        }
    }

    /// Returns the pane, and its lines if they can be interpreted.
    fn read_lines(&self) -> Result<Option<ShownPane>, Error> {
        if self.screen.is_none() {
            return Ok(self.server.pane(&self.id)?.map(|pane| (pane, None)));
        }
        Ok(self.server.styled_screen(&self.id)?.map(|(pane, painted)| (pane, Some(painted))))
    }

    /// Returns the pid of the server, if it is known.
    pub(super) fn server_pid(&self) -> Option<u32> {
        self.server_process
    }

    /// Whether keys currently reach the agent. The pane must belong to the same server, and the
    /// agent's own process must be in the foreground and still run the agent's program. This is
    /// checked again right before every key. Blocks.
    pub(super) fn is_ready(&self) -> bool {
        let pane = self.server.pane(&self.id).ok().flatten();
        let same = |pane: &PaneListing| self.server_process.is_none_or(|life| life == pane.server);
        pane.is_some_and(|pane| same(&pane) && !pane.dead && !pane.in_mode && self.has_agent(&pane))
    }

    fn has_agent(&self, pane: &PaneListing) -> bool {
        let Some(process) = &self.process else { return false };
        is_in_foreground(process, &pane.tty).unwrap_or(false)
            && self.adapter.is_running_agent(process).unwrap_or(false)
    }

    /// Whether a draft that was read from this pane is exactly this text.
    pub(super) fn is_draft_of(&self, draft: &str, text: &str) -> bool {
        self.screen.as_ref().is_some_and(|screen| screen.is_draft_of(draft, text))
    }

    fn content(&self, pane: PaneListing, painted: Option<Vec<String>>) -> PaneRead {
        let shown = self.screen.as_ref().zip(painted.as_deref().map(parse_styles));
        let reading =
            shown.as_ref().map(|(screen, lines)| screen.read(lines, self.version.as_deref()));
        let written = shown.as_ref().and_then(|(screen, lines)| screen.draft(lines));
        let drafted = written.as_deref().is_some_and(|written| !written.is_empty());
        let has_agent = self.has_agent(&pane);
        let sight = if pane.dead {
            PaneState::Gone
        } else if pane.in_mode {
            PaneState::ScrolledBack
        } else if !has_agent {
            PaneState::OtherProgram
        } else if drafted {
            PaneState::UnsentText
        } else {
            PaneState::Open
        };
        PaneRead::Present(Box::new(PaneContent { pane, sight, reading, draft: written }))
    }
}

fn has_exited(server: u32) -> bool {
    !Path::new("/proc").join(server.to_string()).exists()
}
