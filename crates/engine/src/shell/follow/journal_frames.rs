//! Reads a launch's journal and reports what it contains.

use std::path::Path;

use provost_core::session::{self, Cursor, SessionCommand, StreamSignal};
use provost_holder::{
    journal::{
        self, InputEnvelope, JournalChannel, JournalFrame, JournalLine, JournalNote, JournalReader,
        LineAssembler, OpenedJournal, RelayNote,
    },
    wire,
};
use provost_sys::error_chain;

use super::{
    super::{
        programs, real_path, supervised_command,
        watch::{InferredState, ScreenHints},
    },
    Follower,
};
use crate::coalesce::JournalSignal;

impl Follower {
    /// Processes all complete frames of the journal.
    pub(super) async fn drain(&mut self) -> Result<(), supervised_command::Error> {
        if self.unknown_adapter.is_some() {
            return Ok(());
        }
        loop {
            let Some(reader) = self.open_journal().await? else { return Ok(()) };
            let next = reader.next().transpose();
            let next =
                next.map_err(|why| supervised_command::Error::Communicate(error_chain(&why)))?;
            self.report_seen().await;
            match next {
                Some(frame) => {
                    self.check_drop_box().await;
                    self.take_frame(&frame).await;
                }
                None => return Ok(()),
            }
        }
    }

    /// Withdraws the report that the launch could not be observed, because its journal has now been read.
    async fn report_seen(&mut self) {
        if !self.implausible && std::mem::take(&mut self.reported_unknown) {
            self.report(SessionCommand::ProcessSeen { launch: self.launch }).await;
        }
    }

    async fn open_journal(
        &mut self,
    ) -> Result<Option<&mut JournalReader>, supervised_command::Error> {
        if self.reader.is_none() {
            let path = self.link.dir.join(journal::JOURNAL_FILE);
            match JournalReader::open(&path, self.resume.offset) {
                Ok(OpenedJournal::Ready(reader)) => self.reader = Some(reader),
                Ok(OpenedJournal::Lost { end }) => self.handle_lost_journal(end).await,
                Err(why) => return Err(supervised_command::Error::Communicate(error_chain(&why))),
            }
        }
        Ok(self.reader.as_mut())
    }

    /// Handles a journal that ends before a position that was already processed, because of a power
    /// loss. The lost part is not processed again.
    async fn handle_lost_journal(&mut self, end: u64) {
        self.resume = journal::JournalCursor { offset: end, skip: 0 };
        self.lines = LineAssembler::resume(JournalChannel::Stdout, self.resume);
        let cursor = Cursor { offset: end, skip: 0 };
        self.report(SessionCommand::OutputLost { launch: self.launch, cursor }).await;
    }

    async fn take_frame(&mut self, frame: &JournalFrame) {
        self.printed_ms = self.link.clock.ours(frame.mono_ms);
        match frame.channel {
            JournalChannel::Stdout if self.terminal.is_some() => {
                self.take_terminal_output(&frame.payload).await
            }
            JournalChannel::Stdout => self.take_output(frame).await,
            JournalChannel::Stderr if self.stderr_is_log => {}
            JournalChannel::Stderr => {
                self.link.observations.note_heard(self.launch, self.printed_ms)
            }
            JournalChannel::Stdin => {
                // The protocol's own writes are not reported. Otherwise, each write would cause the signals that are
                // held back to be recorded, and the end of a turn would have to wait for that commit.
                if let Some((InputEnvelope { key, typed: false, .. }, _)) =
                    InputEnvelope::split(&frame.payload)
                {
                    let key = wire::plain_key(&key);
                    if !self.protocol.acknowledge_write(key) {
                        let signal = StreamSignal::InputWritten { key: key.to_owned() };
                        self.observe(signal, self.lines.cursor()).await;
                    }
                }
            }
            JournalChannel::Note => {
                self.handle_relay_failure(frame).await;
                let note = serde_json::from_slice::<JournalNote>(&frame.payload);
                match note {
                    Ok(JournalNote::StdoutClosed) => self.handle_stdout_closed(frame.after).await,
                    Ok(JournalNote::Resized { columns, rows }) => {
                        if let Some(hints) = &mut self.terminal {
                            hints.resize(rows, columns);
                        }
                    }
                    // Limits and stops are reported as notices, and notes from later versions are ignored.
                    Ok(
                        JournalNote::OutputLimit { .. }
                        | JournalNote::LimitRaised { .. }
                        | JournalNote::StderrClosed
                        | JournalNote::Suspended
                        | JournalNote::Continued,
                    )
                    | Err(_) => {}
                }
            }
        }
    }

    /// Handles printed output. An agent that only reports retries makes no progress.
    async fn take_output(&mut self, frame: &JournalFrame) {
        let delivered = self.lines.feed(frame);
        let mut moves = delivered.is_empty();
        for delivered in delivered {
            moves |= self.read_line(delivered.line, delivered.after).await;
        }
        if moves {
            self.link.observations.note_heard(self.launch, self.printed_ms);
        }
    }

    /// Handles terminal output.
    async fn take_terminal_output(&mut self, bytes: &[u8]) {
        if self.output_is_activity {
            self.link.observations.note_heard(self.launch, self.printed_ms);
        }
        let launch = self.launch;
        let now = self.link.clock.now().mono_ms;
        let guesses = self.terminal.as_mut().map(|hints| hints.feed(bytes, now));
        for InferredState { by, place, what } in guesses.unwrap_or_default() {
            self.report(SessionCommand::ScreenHinted { launch, by, place, what }).await;
        }
    }

    /// Reads the terminal's screen, if that is due.
    pub(super) async fn read_screen(&mut self) {
        let (launch, now) = (self.launch, self.link.clock.now().mono_ms);
        let guess = self.terminal.as_mut().and_then(|hints| hints.read_screen(now));
        if let Some(InferredState { by, place, what }) = guess {
            self.report(SessionCommand::ScreenHinted { launch, by, place, what }).await;
        }
    }

    /// Reports the unsent text that a detaching user left at the prompt. This must precede the
    /// report that no user is attached anymore.
    pub(super) async fn report_draft(&mut self) {
        let launch = self.launch;
        let guess = self.terminal.as_mut().and_then(ScreenHints::draft);
        if let Some(InferredState { by, place, what }) = guess {
            self.report(SessionCommand::ScreenHinted { launch, by, place, what }).await;
        }
    }

    /// Reports an agent that is running but that the relay cannot connect to. Such an agent never receives any work, so
    /// the failure is reported instead of being treated as silence.
    async fn handle_relay_failure(&mut self, frame: &JournalFrame) {
        let note = serde_json::from_slice::<RelayNote>(&frame.payload);
        if let Ok(RelayNote::RelayFailed { why }) = note {
            let after = journal::JournalCursor { offset: frame.after, skip: 0 };
            self.observe(StreamSignal::Unreachable { reason: why }, after).await;
        }
    }

    /// Reports that an agent closed the stream of its protocol. A plain command may redirect its
    /// output and continue, so for a plain command, only the process counts.
    async fn handle_stdout_closed(&mut self, after: u64) {
        if self.stdout_is_stream {
            self.observe(StreamSignal::Closed, journal::JournalCursor { offset: after, skip: 0 })
                .await;
        }
    }

    /// Parses a line, and returns whether it shows that the agent made progress.
    async fn read_line(&mut self, line: JournalLine, after: journal::JournalCursor) -> bool {
        self.protocol.set_clock(self.link.clock.wall_of(self.printed_ms));
        let signal = match line {
            JournalLine::Whole(bytes) => self.protocol.read(&bytes),
            JournalLine::Oversized { len } => Some(StreamSignal::Oversized { bytes: len }),
        };
        let moves = !matches!(signal, Some(StreamSignal::Retrying { .. }));
        if let Some(signal) = signal {
            self.observe(signal, after).await;
        }
        moves
    }

    /// Closes the stream, after parsing a last line without a newline.
    pub(super) async fn close_stream(&mut self) {
        if let Some(last) = self.lines.finish() {
            self.read_line(last.line, last.after).await;
        }
        self.observe(StreamSignal::Closed, self.lines.cursor()).await;
    }

    async fn observe(&mut self, signal: StreamSignal, after: journal::JournalCursor) {
        let cursor = Cursor { offset: after.offset, skip: u64::from(after.skip) };
        if cursor <= self.reported
            && !matches!(signal, StreamSignal::Closed | StreamSignal::InputWritten { .. })
        {
            return;
        }
        let signal = real_path::with_real_paths(signal, &self.place.cwd).await;
        let signal = programs::with_lookup(signal, &self.place).await;
        let released = self.coalescer.take(signal, cursor, self.printed_ms);
        self.report_observed(released, None).await;
    }

    pub(super) async fn report(&mut self, command: session::SessionCommand) {
        let before = self.coalescer.flush();
        self.report_observed(before, Some(command)).await;
    }

    /// Reports signals together with the command that follows from them.
    pub(super) async fn report_observed(
        &self,
        observed: Vec<JournalSignal>,
        then: Option<SessionCommand>,
    ) {
        let launch = self.launch;
        let observed = observed.into_iter();
        let commands: Vec<SessionCommand> = observed
            .map(|(signal, cursor)| SessionCommand::Observed { launch, signal, cursor })
            .chain(then)
            .collect();
        if !commands.is_empty() {
            self.link.observations.send_all(launch.session, commands).await;
        }
    }
}

/// Whether the journal shows that the holder wrote a message to the agent.
pub(crate) async fn was_written(dir: &Path, key: &str) -> bool {
    let (journal, key) = (dir.join(journal::JOURNAL_FILE), key.to_owned());
    supervised_command::blocking(move || {
        let Ok(OpenedJournal::Ready(reader)) = JournalReader::open(&journal, 0) else {
            return false;
        };
        let inputs = reader.flatten().filter(|frame| frame.channel == JournalChannel::Stdin);
        inputs
            .filter_map(|frame| {
                InputEnvelope::split(&frame.payload).map(|(envelope, _)| envelope.key)
            })
            .any(|written| wire::plain_key(&written) == key)
    })
    .await
}
