//! The command as somebody at a terminal has it before them: stopped and going on, and what is on its screen.

use rustix::process::{Signal, kill_process_group};

use super::super::stops::{Reaction, Standing};
use super::Supervisor;
use crate::clock::mono_ms;
use crate::journal::Note;
use crate::wire::Notice;

impl Supervisor {
    /// Takes note of the command's being stopped and going on.
    pub(super) fn see_stops(&mut self) {
        while !self.journal.is_stuck()
            && let Some(change) = self.leader.next_change()
        {
            let suspended = self.leader.suspended().unwrap_or(false);
            match change.reaction(self.standing(), suspended) {
                Reaction::Tell { suspended } => self.tell_suspended(suspended),
                // Should it be gone, its end is seen.
                Reaction::Wake => drop(kill_process_group(self.leader.pid, Signal::CONT)),
                Reaction::Nothing => {}
            }
        }
    }

    fn tell_suspended(&mut self, suspended: bool) {
        self.leader.set_suspended(suspended);
        let note = if suspended { Note::Suspended } else { Note::Continued };
        if self.journal.note(mono_ms(), note).is_err() {
            self.disk_refused();
        }
        self.clients.tell_all(Notice::Suspended { suspended });
    }

    fn standing(&self) -> Standing {
        match self.terminal {
            None => Standing::NoTerminal,
            Some(terminal) if terminal.has_in_front(self.leader.pid) => Standing::Foreground,
            Some(_) => Standing::Background,
        }
    }
}
