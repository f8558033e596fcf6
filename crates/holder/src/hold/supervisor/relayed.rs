//! Establishes, keeps and closes the connection to a listening command. Users connect through the
//! listener.

use std::os::unix::net::UnixStream;

use super::super::relay::{AttachProxy, ConnectStep, RelayReceiver, RelaySender, ServerSocket};
use super::Supervisor;
use crate::clock::mono_ms;
use crate::journal::RelayNote;
use crate::wire::HolderNotice;

impl Supervisor {
    /// Takes the steps of the connection that are due. Called whenever the holder wakes up.
    pub(super) fn follow_relay(&mut self, now: u64) {
        if self.connecting.as_ref().is_some_and(|arriving| now >= arriving.due()) {
            self.continue_connecting();
        }
        if let Some(ping) = self.output.take_ping() {
            self.input.queue_pong(ping);
            self.write_input();
        }
        // A bidirectional channel always closes in both directions.
        let both_ways = self.rules.is_relayed || self.terminal.is_some();
        if both_ways && self.output.is_stdout_closed() {
            self.refuse_all_writes();
        }
    }

    /// Continues establishing the connection.
    pub(super) fn continue_connecting(&mut self) {
        let step = self.connecting.as_mut().map(|connecting| connecting.step(mono_ms()));
        self.apply_connect_step(step.unwrap_or(ConnectStep::Ongoing), |why| {
            RelayNote::RelayFailed { why }
        });
    }

    /// Finishes connecting after the command has exited. The connection is either established by
    /// this call, or never.
    pub(super) fn finish_connecting(&mut self) {
        if let Some(connecting) = &mut self.connecting {
            let step = connecting.finish();
            self.apply_connect_step(step, |why| RelayNote::RelayClosed { why });
        }
    }

    /// Accepts a user's connection to the command. Ignores a peer that has already left.
    pub(super) fn accept_user(&mut self) {
        if let Some(proxy) = &mut self.attach_proxy {
            proxy.accept().ok();
        }
    }

    pub(super) fn copy_user_data(&mut self, number: u64) {
        if let Some(proxy) = &mut self.attach_proxy {
            proxy.copy(number);
        }
    }

    /// Reports the number of connected users. Returns true if the number changed.
    pub(super) fn report_users(&mut self) -> bool {
        let people = self.user_count();
        let changed = std::mem::replace(&mut self.reported_users, people) != people;
        if changed {
            self.clients.notify_all(HolderNotice::Viewers { count: people });
        }
        changed
    }

    /// Returns the number of users who interact with the command directly, through a connection or
    /// its terminal.
    pub(super) fn user_count(&self) -> u32 {
        self.attach_proxy.as_ref().map_or(0, AttachProxy::count) + self.clients.attended()
    }

    /// Closes the input and refuses all pending writes.
    pub(super) fn refuse_all_writes(&mut self) {
        let unread = self.input.abandon();
        self.refuse_writes(unread);
    }

    fn apply_connect_step(&mut self, step: ConnectStep, failed: fn(String) -> RelayNote) {
        match step {
            ConnectStep::Ongoing => {}
            ConnectStep::Connected(stream, server) => match stream.try_clone() {
                Ok(second) => {
                    self.attach(stream, second);
                    self.open_listener(server);
                }
                Err(error) => {
                    self.give_up(&failed(format!("the connection cannot be used: {error}")))
                }
            },
            ConnectStep::Failed(why) => self.give_up(&failed(why)),
        }
    }

    fn attach(&mut self, read: UnixStream, write: UnixStream) {
        self.connecting = None;
        self.input.attach(RelaySender::new(write));
        if self.output.attach(RelayReceiver::new(read), &mut self.journal, mono_ms()).is_err() {
            self.disk_refused();
        }
        self.write_input();
    }

    /// Opens the listener. Without it, no client can reach the server, because the server's socket
    /// has no name.
    fn open_listener(&mut self, server: ServerSocket) {
        let door = self.rules.listener.as_ref();
        let admission = &self.rules.admission;
        self.attach_proxy =
            door.and_then(|door| AttachProxy::open(door, admission.clone(), server).ok());
    }

    fn give_up(&mut self, note: &RelayNote) {
        self.connecting = None;
        if self.output.hang_up(note, &mut self.journal, mono_ms()).is_err() {
            self.disk_refused();
        }
        self.refuse_all_writes();
    }
}
