//! Handling of client requests.

use rustix::process::{Signal, kill_process_group};

use super::super::clients::ReceivedLine;
use super::super::input::{WriteAdmission, WriteWaiter};
use super::Supervisor;
use crate::clock::mono_ms;
use crate::journal::JournalNote;
use crate::record::EndCause;
use crate::spec::Tty;
use crate::wire::{
    HolderFaultCode, HolderNotice, HolderOp, HolderReply, HolderRequest, HolderState, OutputPause,
    SignalName,
};

impl Supervisor {
    pub(super) fn answer(&mut self, received: ReceivedLine) {
        let ReceivedLine { client, request } = received;
        let reply = match request {
            Ok(request) => self.handle(client, request),
            Err(refusal) => Some(refusal),
        };
        if let Some(reply) = reply {
            self.clients.reply(client, &reply);
        }
    }

    /// Handles a client's request. Returns `None` for a queued write, which is answered later.
    fn handle(
        &mut self,
        client: u64,
        HolderRequest { id, op, .. }: HolderRequest,
    ) -> Option<HolderReply> {
        match op {
            HolderOp::Write { key, data, secret } => {
                let accepted =
                    self.input.write(key, data.0, secret, WriteWaiter { client, request: id });
                self.write_input();
                return write_reply(id, accepted);
            }
            HolderOp::Mask { forms } => {
                let accepted = self.output.mask(forms.into_iter().map(|form| form.0));
                return Some(if accepted {
                    HolderReply::done(id)
                } else {
                    HolderReply::refused(
                        Some(id),
                        HolderFaultCode::BadRequest,
                        "some forms of the secret cannot be masked",
                    )
                });
            }
            HolderOp::CloseStdin => {
                self.input.close();
                self.stdin.close();
            }
            HolderOp::Signal { signal } => return Some(self.signal(id, signal)),
            HolderOp::Stop { grace_ms } => self.end_tree(EndCause::Stop, grace_ms),
            HolderOp::Limit { bytes } => {
                self.set_limit(bytes);
                return Some(self.with_state(id));
            }
            HolderOp::Resize { columns, rows } => {
                return Some(self.resize(id, Tty { columns, rows }));
            }
            HolderOp::View => return Some(self.view(client, id)),
            HolderOp::Type { data } => {
                return self.type_in(WriteWaiter { client, request: id }, data.0);
            }
            HolderOp::Attended { attended } => self.clients.attend(client, attended),
            HolderOp::Follow => self.follow(client),
            HolderOp::Ping => return Some(self.with_state(id)),
        }
        Some(HolderReply::done(id))
    }

    fn signal(&self, id: u64, signal: SignalName) -> HolderReply {
        let signal = match signal {
            SignalName::Int => Signal::INT,
            SignalName::Term => Signal::TERM,
        };
        let refused = |text: String| HolderReply::refused(Some(id), HolderFaultCode::Ended, text);
        if self.leader.has_ended() {
            return refused("the command has ended".into());
        }
        match kill_process_group(self.leader.pid, signal) {
            Ok(()) => HolderReply::done(id),
            Err(error) => refused(format!("the command cannot be signalled: {error}")),
        }
    }

    /// Sets the output limit. Also retries refused disk writes immediately.
    fn set_limit(&mut self, limit: u64) {
        self.retry_at = self.retry_at.map(|_| mono_ms());
        self.retry_disk(mono_ms());
        if self.output.set_limit(limit)
            && self.journal.note(mono_ms(), JournalNote::LimitRaised { limit }).is_err()
        {
            self.disk_refused();
        }
    }

    fn follow(&mut self, client: u64) {
        self.clients.follow(client);
        self.clients.notify(client, HolderNotice::Journal { end: self.journal.end() });
        if self.rules.listener.is_some() || self.terminal.is_some() {
            self.clients.notify(client, HolderNotice::Viewers { count: self.user_count() });
        }
        if let Some(suspended) = self.leader.suspended() {
            self.clients.notify(client, HolderNotice::Suspended { suspended });
        }
        if let Some(limited) = self.limited() {
            self.clients.notify(client, HolderNotice::Limit { limited });
        }
        if self.leader.recorded {
            self.clients.notify(client, HolderNotice::Exited);
        }
    }

    fn with_state(&self, id: u64) -> HolderReply {
        let state = HolderState {
            identity: self.holder.clone(),
            journal_end: self.journal.end(),
            limited: self.limited(),
        };
        HolderReply { state: Some(state), ..HolderReply::done(id) }
    }

    fn limited(&self) -> Option<OutputPause> {
        if self.retry_at.is_some() {
            return Some(OutputPause::DiskFull);
        }
        self.output.limit_reached().then_some(OutputPause::OutputLimit)
    }
}

pub(super) fn write_reply(id: u64, accepted: WriteAdmission) -> Option<HolderReply> {
    match accepted {
        WriteAdmission::Queued => None,
        WriteAdmission::AlreadyWritten => {
            Some(HolderReply { already: true, ..HolderReply::done(id) })
        }
        WriteAdmission::Refused(code, text) => Some(HolderReply::refused(Some(id), code, text)),
    }
}
