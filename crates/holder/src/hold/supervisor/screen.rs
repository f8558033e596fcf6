//! The command's terminal: its screen, the typed keys, and whether the command is suspended.

use rustix::process::{Signal, kill_process_group};

use super::super::input::WriteWaiter;
use super::super::stops::{StopReaction, TtyPosition};
use super::Supervisor;
use super::requests::write_reply;
use crate::clock::mono_ms;
use crate::journal::JournalNote;
use crate::spec::{MAX_SIDE, Tty};
use crate::wire::{HolderFaultCode, HolderNotice, HolderReply};

impl Supervisor {
    /// Handles stops and continues of the command.
    pub(super) fn handle_stops(&mut self) {
        while !self.journal.is_stuck()
            && let Some(change) = self.leader.next_change()
        {
            let suspended = self.leader.suspended().unwrap_or(false);
            match change.reaction(self.tty_position(), suspended) {
                StopReaction::Report { suspended } => self.report_suspended(suspended),
                // The process may already be gone. Its exit is observed separately.
                StopReaction::Wake => drop(kill_process_group(self.leader.pid, Signal::CONT)),
                StopReaction::Nothing => {}
            }
        }
    }

    /// Sends new terminal output to all viewports.
    pub(super) fn show(&mut self) {
        let shown = self.output.take_unseen();
        if !shown.is_empty() {
            self.clients.show(&shown);
        }
    }

    /// Paces the reads of continuing output, unless a user is watching.
    pub(super) fn keep_pace(&mut self, read: u64) {
        if self.clients.attended() > 0 {
            self.pace.read_immediately();
        } else {
            self.pace.record_read(read, mono_ms());
        }
    }

    pub(super) fn resize(&mut self, id: u64, size: Tty) -> HolderReply {
        let Some(terminal) = self.terminal else { return no_terminal(id) };
        let Some(size) = size.checked() else {
            let text = format!(
                "a terminal cannot be {}x{}: each side must be 1 to {MAX_SIDE}",
                size.columns, size.rows
            );
            return HolderReply::refused(Some(id), HolderFaultCode::BadRequest, text);
        };
        match terminal.resize(size) {
            Ok(()) => {
                // Later output can be interpreted only with this size.
                let note = JournalNote::Resized { columns: size.columns, rows: size.rows };
                if self.journal.note(mono_ms(), note).is_err() {
                    self.disk_refused();
                }
                HolderReply::done(id)
            }
            Err(error) => {
                let text = format!("the terminal cannot be resized: {error}");
                HolderReply::refused(Some(id), HolderFaultCode::Ended, text)
            }
        }
    }

    pub(super) fn view(&mut self, client: u64, id: u64) -> HolderReply {
        if self.terminal.is_none() {
            return no_terminal(id);
        }
        self.clients.view(client);
        self.pace.read_immediately();
        HolderReply::done(id)
    }

    /// Types a user's keys. The request is answered later unless it is refused.
    pub(super) fn type_in(&mut self, typist: WriteWaiter, bytes: Vec<u8>) -> Option<HolderReply> {
        let id = typist.request;
        let typed_at = if self.clients.is_viewport(typist.client) { self.terminal } else { None };
        let Some(terminal) = typed_at else {
            let text = "only a viewport may type; request a view first";
            return Some(HolderReply::refused(Some(id), HolderFaultCode::BadRequest, text));
        };
        let accepted = self.input.type_in(bytes, terminal.is_asking_for_secret(), typist);
        self.write_input();
        write_reply(id, accepted)
    }

    fn report_suspended(&mut self, suspended: bool) {
        self.leader.set_suspended(suspended);
        let note = if suspended { JournalNote::Suspended } else { JournalNote::Continued };
        if self.journal.note(mono_ms(), note).is_err() {
            self.disk_refused();
        }
        self.clients.notify_all(HolderNotice::Suspended { suspended });
    }

    fn tty_position(&self) -> TtyPosition {
        match self.terminal {
            None => TtyPosition::NoTerminal,
            Some(terminal) if terminal.has_foreground(self.leader.pid) => TtyPosition::Foreground,
            Some(_) => TtyPosition::Background,
        }
    }
}

fn no_terminal(id: u64) -> HolderReply {
    HolderReply::refused(Some(id), HolderFaultCode::BadRequest, "the command has no terminal")
}
