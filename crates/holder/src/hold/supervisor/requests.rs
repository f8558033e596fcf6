//! Client requests.

use rustix::process::{Signal, kill_process_group};

use super::super::clients::Received;
use super::super::input::{Accepted, Waiter};
use super::Supervisor;
use crate::clock::mono_ms;
use crate::journal::Note;
use crate::record::EndedBy;
use crate::spec::Tty;
use crate::wire::{FaultCode, Limited, Notice, Op, Reply, Request, Sent, State};

impl Supervisor {
    pub(super) fn answer(&mut self, received: Received) {
        let Received { client, request } = received;
        let reply = match request {
            Ok(request) => self.handle(client, request),
            Err(refusal) => Some(refusal),
        };
        if let Some(reply) = reply {
            self.clients.reply(client, &reply);
        }
    }

    /// Handles a client's request. A queued write is answered later.
    fn handle(&mut self, client: u64, Request { id, op, .. }: Request) -> Option<Reply> {
        match op {
            Op::Write { key, data, secret } => {
                let accepted =
                    self.input.write(key, data.0, secret, Waiter { client, request: id });
                self.write_input();
                return write_reply(id, accepted);
            }
            Op::Mask { forms } => {
                let accepted = self.output.mask(forms.into_iter().map(|form| form.0));
                return Some(if accepted {
                    Reply::done(id)
                } else {
                    Reply::refused(Some(id), FaultCode::BadRequest, "not all forms can be masked")
                });
            }
            Op::CloseStdin => {
                self.input.close();
                self.stdin.close();
            }
            Op::Signal { signal } => return Some(self.signal(id, signal)),
            Op::Stop { grace_ms } => self.end_tree(EndedBy::Stop, grace_ms),
            Op::Limit { bytes } => {
                self.set_limit(bytes);
                return Some(self.with_state(id));
            }
            Op::Resize { columns, rows } => return Some(self.resize(id, Tty { columns, rows })),
            Op::View => return Some(self.view(client, id)),
            Op::Type { data } => return self.type_in(Waiter { client, request: id }, data.0),
            Op::Attended { attended } => self.clients.attend(client, attended),
            Op::Follow => self.follow(client),
            Op::Ping => return Some(self.with_state(id)),
        }
        Some(Reply::done(id))
    }

    fn signal(&self, id: u64, signal: Sent) -> Reply {
        let signal = match signal {
            Sent::Int => Signal::INT,
            Sent::Term => Signal::TERM,
        };
        let refused = |text: String| Reply::refused(Some(id), FaultCode::Ended, text);
        if self.leader.has_ended() {
            return refused("the command has ended".into());
        }
        match kill_process_group(self.leader.pid, signal) {
            Ok(()) => Reply::done(id),
            Err(error) => refused(format!("the command cannot be signalled: {error}")),
        }
    }

    /// Sets the limit. This also retries refused disk writes at once.
    fn set_limit(&mut self, limit: u64) {
        self.retry_at = self.retry_at.map(|_| mono_ms());
        self.retry_disk(mono_ms());
        if self.output.set_limit(limit)
            && self.journal.note(mono_ms(), Note::LimitRaised { limit }).is_err()
        {
            self.disk_refused();
        }
    }

    fn follow(&mut self, client: u64) {
        self.clients.follow(client);
        self.clients.tell(client, Notice::Journal { end: self.journal.end() });
        if self.rules.door.is_some() || self.terminal.is_some() {
            self.clients.tell(client, Notice::Visits { people: self.people() });
        }
        if let Some(suspended) = self.leader.suspended() {
            self.clients.tell(client, Notice::Suspended { suspended });
        }
        if let Some(limited) = self.limited() {
            self.clients.tell(client, Notice::Limit { limited });
        }
        if self.leader.recorded {
            self.clients.tell(client, Notice::Exited);
        }
    }

    fn with_state(&self, id: u64) -> Reply {
        let state = State {
            identity: self.holder.clone(),
            journal_end: self.journal.end(),
            limited: self.limited(),
        };
        Reply { state: Some(state), ..Reply::done(id) }
    }

    fn limited(&self) -> Option<Limited> {
        if self.retry_at.is_some() {
            return Some(Limited::DiskFull);
        }
        self.output.limit_reached().then_some(Limited::OutputLimit)
    }
}

pub(super) fn write_reply(id: u64, accepted: Accepted) -> Option<Reply> {
    match accepted {
        Accepted::Queued => None,
        Accepted::Already => Some(Reply { already: true, ..Reply::done(id) }),
        Accepted::Refused(code, text) => Some(Reply::refused(Some(id), code, text)),
    }
}
