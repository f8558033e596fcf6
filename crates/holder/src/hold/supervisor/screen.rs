//! The command as seen at its terminal: its screen, the typed keys, and whether it is stopped.

use rustix::process::{Signal, kill_process_group};

use super::super::input::Waiter;
use super::super::stops::{Reaction, Standing};
use super::Supervisor;
use super::requests::write_reply;
use crate::clock::mono_ms;
use crate::journal::Note;
use crate::spec::{MAX_SIDE, Tty};
use crate::wire::{FaultCode, Notice, Reply};

impl Supervisor {
    /// Handles the command's stops and continues.
    pub(super) fn see_stops(&mut self) {
        while !self.journal.is_stuck()
            && let Some(change) = self.leader.next_change()
        {
            let suspended = self.leader.suspended().unwrap_or(false);
            match change.reaction(self.standing(), suspended) {
                Reaction::Tell { suspended } => self.tell_suspended(suspended),
                // If the process is gone, its end is observed separately.
                Reaction::Wake => drop(kill_process_group(self.leader.pid, Signal::CONT)),
                Reaction::Nothing => {}
            }
        }
    }

    /// Sends new terminal output to all viewports.
    pub(super) fn show(&mut self) {
        let shown = self.output.take_shown();
        if !shown.is_empty() {
            self.clients.show(&shown);
        }
    }

    /// Gathers continuing output, unless a user is watching.
    pub(super) fn keep_pace(&mut self, read: u64) {
        if self.clients.attended() > 0 {
            self.pace.hurry();
        } else {
            self.pace.read(read, mono_ms());
        }
    }

    pub(super) fn resize(&mut self, id: u64, size: Tty) -> Reply {
        let Some(terminal) = self.terminal else { return no_terminal(id) };
        let Some(size) = size.checked() else {
            let text = format!(
                "a terminal cannot be {}x{}: each side must be 1 to {MAX_SIDE}",
                size.columns, size.rows
            );
            return Reply::refused(Some(id), FaultCode::BadRequest, text);
        };
        match terminal.resize(size) {
            Ok(()) => {
                // Later output can be understood only with this size.
                let note = Note::Resized { columns: size.columns, rows: size.rows };
                if self.journal.note(mono_ms(), note).is_err() {
                    self.disk_refused();
                }
                Reply::done(id)
            }
            Err(error) => {
                let text = format!("the terminal cannot be resized: {error}");
                Reply::refused(Some(id), FaultCode::Ended, text)
            }
        }
    }

    pub(super) fn view(&mut self, client: u64, id: u64) -> Reply {
        if self.terminal.is_none() {
            return no_terminal(id);
        }
        self.clients.view(client);
        self.pace.hurry();
        Reply::done(id)
    }

    /// Writes a user's keys. The request is answered later unless it is refused.
    pub(super) fn type_in(&mut self, typist: Waiter, bytes: Vec<u8>) -> Option<Reply> {
        let id = typist.request;
        let typed_at = if self.clients.is_viewport(typist.client) { self.terminal } else { None };
        let Some(terminal) = typed_at else {
            let text = "only a viewport may type; request a view first";
            return Some(Reply::refused(Some(id), FaultCode::BadRequest, text));
        };
        let accepted = self.input.type_in(bytes, terminal.is_asking_for_secret(), typist);
        self.write_input();
        write_reply(id, accepted)
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

fn no_terminal(id: u64) -> Reply {
    Reply::refused(Some(id), FaultCode::BadRequest, "the command has no terminal")
}
