//! The command as somebody at a terminal has it before them: what is on its screen, what is typed, and whether it
//! was stopped.

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

    /// Shows to all viewports what came on the terminal.
    pub(super) fn show(&mut self) {
        let shown = self.output.take_shown();
        if !shown.is_empty() {
            self.clients.show(&shown);
        }
    }

    /// Has what flows on gathered, unless somebody looks at it.
    pub(super) fn keep_pace(&mut self, read: u64) {
        match self.clients.attended() > 0 {
            true => self.pace.hurry(),
            false => self.pace.read(read, mono_ms()),
        }
    }

    pub(super) fn resize(&mut self, id: u64, size: Tty) -> Reply {
        let Some(terminal) = self.terminal else { return no_terminal(id) };
        let Some(size) = size.checked() else {
            let text = format!(
                "a terminal cannot have {}x{} characters: each side has 1 to {MAX_SIDE}",
                size.columns, size.rows
            );
            return Reply::refused(Some(id), FaultCode::BadRequest, text);
        };
        match terminal.resize(size) {
            Ok(()) => {
                // What is drawn from here on can be understood only with the size.
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

    /// Types what a person typed. It is answered later unless it was refused.
    pub(super) fn type_in(&mut self, typist: Waiter, bytes: Vec<u8>) -> Option<Reply> {
        let id = typist.request;
        let Some(terminal) = self.terminal.filter(|_| self.clients.is_viewport(typist.client))
        else {
            let text = "only a viewport types; ask for a view first";
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
