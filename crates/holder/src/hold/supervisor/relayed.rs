//! A listening command: its connection is established, kept, and closed. Users connect through the
//! listener.

use std::os::unix::net::UnixStream;

use super::super::relay::{Receiver, Sender, Server, Step, Visits};
use super::Supervisor;
use crate::clock::mono_ms;
use crate::journal::RelayNote;
use crate::wire::Notice;

impl Supervisor {
    /// Takes the connection's due steps, whatever woke the holder.
    pub(super) fn follow_relay(&mut self, now: u64) {
        if self.arriving.as_ref().is_some_and(|arriving| now >= arriving.due()) {
            self.arrive();
        }
        if let Some(ping) = self.output.take_ping() {
            self.input.owe_pong(ping);
            self.write_input();
        }
        // A bidirectional channel is closed in both directions.
        let both_ways = self.rules.is_relayed || self.terminal.is_some();
        if both_ways && self.output.is_stdout_closed() {
            self.refuse_all_writes();
        }
    }

    /// Continues establishing the connection.
    pub(super) fn arrive(&mut self) {
        let step = self.arriving.as_mut().map(|arriving| arriving.step(mono_ms()));
        self.arrive_by(step.unwrap_or(Step::Ongoing), |why| RelayNote::RelayFailed { why });
    }

    /// After the command ended: the connection is established now or never.
    pub(super) fn finish_arriving(&mut self) {
        if let Some(arriving) = &mut self.arriving {
            let step = arriving.finish();
            self.arrive_by(step, |why| RelayNote::RelayClosed { why });
        }
    }

    /// Accepts a user who wants to talk to the command. A peer that has already left is ignored.
    pub(super) fn let_in(&mut self) {
        if let Some(visits) = &mut self.visits {
            visits.accept().ok();
        }
    }

    pub(super) fn carry(&mut self, number: u64) {
        if let Some(visits) = &mut self.visits {
            visits.carry(number);
        }
    }

    /// Reports the number of connected users. Returns true if it changed.
    pub(super) fn tell_visits(&mut self) -> bool {
        let people = self.people();
        let changed = std::mem::replace(&mut self.told_people, people) != people;
        if changed {
            self.clients.tell_all(Notice::Visits { people });
        }
        changed
    }

    /// The number of users who talk to the command directly, through a connection or its terminal.
    pub(super) fn people(&self) -> u32 {
        self.visits.as_ref().map_or(0, Visits::count) + self.clients.attended()
    }

    /// Closes the input and refuses all pending writes.
    pub(super) fn refuse_all_writes(&mut self) {
        let unread = self.input.abandon();
        self.refuse_writes(unread);
    }

    fn arrive_by(&mut self, step: Step, failed: fn(String) -> RelayNote) {
        match step {
            Step::Ongoing => {}
            Step::Arrived(stream, server) => match stream.try_clone() {
                Ok(second) => {
                    self.attach(stream, second);
                    self.open_door(server);
                }
                Err(error) => {
                    self.give_up(&failed(format!("the connection cannot be used: {error}")))
                }
            },
            Step::Failed(why) => self.give_up(&failed(why)),
        }
    }

    fn attach(&mut self, read: UnixStream, write: UnixStream) {
        self.arriving = None;
        self.input.attach(Sender::new(write));
        if self.output.attach(Receiver::new(read), &mut self.journal, mono_ms()).is_err() {
            self.disk_refused();
        }
        self.write_input();
    }

    /// Without a listener, or if it cannot be opened, no client can reach the server any more: its
    /// socket has no name.
    fn open_door(&mut self, server: Server) {
        let door = self.rules.door.as_ref();
        let admission = &self.rules.admission;
        self.visits = door.and_then(|door| Visits::open(door, admission.clone(), server).ok());
    }

    fn give_up(&mut self, note: &RelayNote) {
        self.arriving = None;
        if self.output.hang_up(note, &mut self.journal, mono_ms()).is_err() {
            self.disk_refused();
        }
        self.refuse_all_writes();
    }
}
