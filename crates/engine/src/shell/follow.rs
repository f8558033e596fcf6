//! Follows a launch: folds each line of its journal once, and tells how its process ended.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::tz::TimeZone;
use provost_core::{
    ids::LaunchId,
    lifecycle::Process,
    session::{self, Command, Cursor, End, EndedBy, Session, Signal},
};
use provost_drivers::{Opening, Protocol};
use provost_holder::{
    self as holder, ExitRecord, Looked,
    journal::{self, Channel, Envelope, Frame, Line, Lines, Note, Opened, Reader},
    wire::{Data, Limited, Notice, Op},
};

use super::{
    clock::Clock,
    drop_box,
    executor::World,
    handle::{Handle, Teller},
    held::{self, chain},
};
use crate::coalesce::{Coalesce, Placed};

/// How long to wait before a launch that could not be looked at is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Follows one launch until its whole tree is gone.
pub(crate) struct Follower {
    launch: LaunchId,
    link: Link,
    protocol: Box<dyn Protocol>,
    /// Whether the end of its output is the end of its stream.
    closes: bool,
    lines: Lines,
    resume: journal::Cursor,
    /// What lies before this was told before.
    told: Cursor,
    /// What the protocol owes and was handed to the holder on the present link.
    handed: BTreeSet<String>,
    reader: Option<Reader>,
    told_exit: bool,
    told_unknown: bool,
    caught_up: bool,
    folded: Coalesce,
    dropped: drop_box::Watch,
    /// When the frame at hand was printed.
    printed_ms: u64,
}

/// What a follower reads from, and whom it tells.
pub(crate) struct Link {
    pub(crate) dir: PathBuf,
    pub(crate) world: World,
    pub(crate) teller: Teller,
    pub(crate) handle: Handle,
    pub(crate) clock: Clock,
}

/// Says whether the holder wrote a message to the agent, as its journal shows.
pub(crate) async fn was_written(dir: &Path, key: &str) -> bool {
    let (journal, key) = (dir.join(journal::JOURNAL_FILE), key.to_owned());
    held::blocking(move || {
        let Ok(Opened::At(reader)) = Reader::open(&journal, 0) else { return false };
        let inputs = reader.flatten().filter(|frame| frame.channel == Channel::Stdin);
        inputs
            .filter_map(|frame| Envelope::split(&frame.payload).map(|(envelope, _)| envelope.key))
            .any(|written| written == key)
    })
    .await
}

/// Gives the zone in which the agent tells times of day: its own, or the machine's.
fn zone(session: &Session) -> Option<TimeZone> {
    match session.spec.agent.env.get("TZ") {
        Some(name) => TimeZone::get(name).ok(),
        None => TimeZone::try_system().ok(),
    }
}

/// Whether there is anything left to follow.
enum Next {
    Again,
    Done,
}

impl Follower {
    pub(crate) fn new(session: &Session, launch: LaunchId, link: Link) -> Option<Follower> {
        let recorded = session.launch(launch)?;
        let from = recorded.cursor;
        // Said before a restart, it is taken back by the first look that succeeds.
        let told_unknown = recorded.process() == Process::Unknown;
        let driver = session.spec.agent.driver;
        let protocol = provost_drivers::protocol(
            driver,
            Opening { zone: zone(session), ..Opening::of(session) },
        );
        let resume = match protocol.remembers() {
            true => journal::Cursor::default(),
            false => {
                let skip = u32::try_from(from.skip).unwrap_or(0);
                journal::Cursor { offset: from.offset, skip }
            }
        };
        Some(Follower {
            launch,
            link,
            protocol,
            closes: driver.has_protocol(),
            lines: Lines::resume(Channel::Stdout, resume),
            resume,
            told: from,
            handed: BTreeSet::new(),
            reader: None,
            told_exit: false,
            told_unknown,
            caught_up: false,
            folded: Coalesce::new(session.budget.tokens.is_some()),
            dropped: drop_box::Watch::default(),
            printed_ms: 0,
        })
    }

    pub(crate) async fn run(mut self) {
        self.empty_the_drop_box().await;
        loop {
            let next = self.step().await;
            self.catch_up().await;
            match next {
                Ok(Next::Done) => return,
                Ok(Next::Again) => {}
                Err(why) => {
                    self.told_unknown = true;
                    let why = chain(&why);
                    self.tell(Command::ProcessUnknown { launch: self.launch, why }).await;
                    held::pause(LOOK_AGAIN).await;
                }
            }
        }
    }

    async fn step(&mut self) -> Result<Next, held::Error> {
        let found = held::looked(&self.link.dir).await?;
        if std::mem::take(&mut self.told_unknown) {
            self.tell(Command::ProcessSeen { launch: self.launch }).await;
        }
        match found {
            Looked::Absent => self.unobserved("its directory is gone").await,
            Looked::Starting { .. } => {
                held::pause(LOOK_AGAIN).await;
                Ok(Next::Again)
            }
            Looked::Ended { held, exit, gone: None } if held::has_left(held.as_ref()) => {
                let ended = held::end_survivors(&held::mark(&self.link.dir)).await?;
                let leftovers = u32::try_from(ended.found).unwrap_or(u32::MAX);
                self.finish(&exit, leftovers, ended.verified()).await
            }
            Looked::Alive { .. } | Looked::Ended { gone: None, .. } => {
                self.drain().await?;
                self.catch_up().await;
                self.listen().await
            }
            Looked::Ended { exit, gone: Some(gone), .. } => {
                self.finish(&exit, gone.leftovers, gone.verified).await
            }
            Looked::HolderDied { .. } => {
                self.drain().await?;
                held::end_survivors(&held::mark(&self.link.dir)).await?;
                self.unobserved("its holder was killed").await
            }
            Looked::OtherBoot { .. } => {
                self.drain().await?;
                self.unobserved("the machine was started anew").await
            }
        }
    }

    /// Tells the rest of a launch whose tree is gone.
    async fn finish(
        &mut self,
        exit: &ExitRecord,
        leftovers: u32,
        verified: bool,
    ) -> Result<Next, held::Error> {
        self.drain().await?;
        self.tell_exit(exit).await;
        self.close().await;
        self.tell(Command::TreeGone { launch: self.launch, leftovers, verified }).await;
        Ok(Next::Done)
    }

    /// Says once that all was told that had happened before.
    async fn catch_up(&mut self) {
        if !std::mem::replace(&mut self.caught_up, true) {
            self.link.teller.caught_up(self.launch).await;
        }
    }

    /// Listens to a living holder until it leaves.
    async fn listen(&mut self) -> Result<Next, held::Error> {
        let Ok(mut link) = held::Link::follow(&self.link.dir).await else {
            held::pause(LOOK_AGAIN.min(Duration::from_millis(20))).await;
            return Ok(Next::Again);
        };
        self.handed.clear();
        self.hand_over(&mut link).await;
        while let Some(notice) = self.hear(&mut link).await {
            match notice {
                Notice::Journal { .. } => {
                    self.drain().await?;
                    self.hand_over(&mut link).await;
                }
                Notice::Limit { limited: Limited::OutputLimit | Limited::DiskFull } => {
                    self.tell(Command::OutputAtLimit { launch: self.launch }).await;
                }
                Notice::Visits { people } => {
                    self.tell(Command::PeopleAttached { launch: self.launch, people }).await;
                }
                Notice::Exited => self.hear_of_the_exit().await?,
                Notice::Gone => break,
            }
        }
        Ok(Next::Again)
    }

    /// Hands to the holder what the protocol owes by itself. The holder writes each key once, and what
    /// arrived is seen in the journal; what did not is handed over again on the next link.
    async fn hand_over(&mut self, link: &mut held::Link) {
        for write in self.protocol.owed() {
            if self.handed.insert(write.key.clone()) {
                let op = Op::Write { key: write.key, data: Data(write.line), secret: false };
                // A link that breaks is noticed by the next notice.
                link.send(op).await.ok();
            }
        }
    }

    /// Waits for the next notice, and tells meanwhile what was held back and has become due.
    async fn hear(&mut self, link: &mut held::Link) -> Option<Notice> {
        while let Some(due) = self.folded.due_ms() {
            let now = self.link.clock.now().mono_ms;
            let wait = Duration::from_millis(due.saturating_sub(now));
            tokio::select! {
                notice = link.notice() => return notice,
                () = held::pause(wait) => {
                    let due = self.folded.due(self.link.clock.now().mono_ms);
                    self.tell_observed(due, None).await;
                }
            }
        }
        link.notice().await
    }

    async fn hear_of_the_exit(&mut self) -> Result<(), held::Error> {
        if let Looked::Ended { exit, .. } = held::looked(&self.link.dir).await? {
            self.drain().await?;
            self.tell_exit(&exit).await;
        }
        Ok(())
    }

    /// Takes reports that were written down while no daemon answered.
    async fn empty_the_drop_box(&self) {
        drop_box::empty(&self.link.world, &self.link.handle, Some(self.launch)).await;
    }

    /// Takes reports that an agent wrote down in its sandbox. What it wrote before it said something counts
    /// before that: a claim made in a turn is known when the turn ends.
    async fn look_into_the_drop_box(&mut self) {
        let directory = self.link.world.home.agent_drop_box(self.launch.session);
        if self.dropped.changed(&directory, self.link.clock.now().wall_ms) {
            self.empty_the_drop_box().await;
        }
    }

    /// Folds all whole frames that the journal has by now.
    async fn drain(&mut self) -> Result<(), held::Error> {
        loop {
            let Some(reader) = self.open_journal().await? else { return Ok(()) };
            let next = reader.next().transpose();
            match next.map_err(|why| held::Error::Talk(chain(&why)))? {
                Some(frame) => {
                    self.look_into_the_drop_box().await;
                    self.take(&frame).await;
                }
                None => return Ok(()),
            }
        }
    }

    async fn open_journal(&mut self) -> Result<Option<&mut Reader>, held::Error> {
        if self.reader.is_none() {
            let path = self.link.dir.join(journal::JOURNAL_FILE);
            match Reader::open(&path, self.resume.offset) {
                Ok(Opened::At(reader)) => self.reader = Some(reader),
                Ok(Opened::Lost { end }) => self.lose(end).await,
                Err(why) => return Err(held::Error::Talk(chain(&why))),
            }
        }
        Ok(self.reader.as_mut())
    }

    /// The journal ends before what was folded: power was lost. What is gone is not folded again.
    async fn lose(&mut self, end: u64) {
        self.resume = journal::Cursor { offset: end, skip: 0 };
        self.lines = Lines::resume(Channel::Stdout, self.resume);
        let cursor = Cursor { offset: end, skip: 0 };
        self.tell(Command::OutputLost { launch: self.launch, cursor }).await;
    }

    async fn take(&mut self, frame: &Frame) {
        self.printed_ms = self.link.clock.ours(frame.mono_ms);
        match frame.channel {
            Channel::Stdout => {
                self.link.teller.heard(self.launch, self.printed_ms);
                for delivered in self.lines.feed(frame) {
                    self.read(delivered.line, delivered.after).await;
                }
            }
            Channel::Stderr => self.link.teller.heard(self.launch, self.printed_ms),
            Channel::Stdin => {
                if let Some((Envelope { key, .. }, _)) = Envelope::split(&frame.payload) {
                    self.protocol.wrote(&key);
                    self.observe(Signal::InputSeen { key }, self.lines.cursor()).await;
                }
            }
            Channel::Note => {
                let note = serde_json::from_slice::<Note>(&frame.payload);
                match note {
                    Ok(Note::StdoutClosed) => self.note_closed(frame.after).await,
                    // Limits are told by notices; a note of a later version means nothing here.
                    Ok(
                        Note::OutputLimit { .. } | Note::LimitRaised { .. } | Note::StderrClosed,
                    )
                    | Err(_) => {}
                }
            }
        }
    }

    /// An agent that closes the stream of its protocol has left it. A plain command may send its output
    /// elsewhere and work on: there the process is the only witness.
    async fn note_closed(&mut self, after: u64) {
        if self.closes {
            self.observe(Signal::Closed, journal::Cursor { offset: after, skip: 0 }).await;
        }
    }

    async fn read(&mut self, line: Line, after: journal::Cursor) {
        let signal = match line {
            Line::Whole(bytes) => self.protocol.read(&bytes),
            Line::Oversized { len } => Some(Signal::Oversized { bytes: len }),
        };
        if let Some(signal) = signal {
            self.observe(signal, after).await;
        }
    }

    /// The stream is at its end: a last line without an end is read, then the stream is closed.
    async fn close(&mut self) {
        if let Some(last) = self.lines.finish() {
            self.read(last.line, last.after).await;
        }
        self.observe(Signal::Closed, self.lines.cursor()).await;
    }

    async fn tell_exit(&mut self, exit: &ExitRecord) {
        if std::mem::replace(&mut self.told_exit, true) {
            return;
        }
        self.empty_the_drop_box().await;
        let by = match exit.ended_by {
            holder::EndedBy::Itself => EndedBy::Itself,
            holder::EndedBy::Stop
            | holder::EndedBy::TimeLimit
            | holder::EndedBy::OutputLimit
            | holder::EndedBy::HolderFault => EndedBy::Provost,
        };
        let launch = self.launch;
        let command = match &exit.end {
            holder::End::Exited { code } => {
                Command::ProcessEnded { launch, end: End::Exit(*code), by }
            }
            holder::End::Signalled { signal } => {
                Command::ProcessEnded { launch, end: End::Signal(*signal), by }
            }
            holder::End::NotStarted { error } => {
                Command::ProcessUnobserved { launch, why: error.clone() }
            }
        };
        self.tell(command).await;
    }

    async fn unobserved(&mut self, why: &str) -> Result<Next, held::Error> {
        let launch = self.launch;
        self.tell(Command::ProcessUnobserved { launch, why: why.to_owned() }).await;
        Ok(Next::Done)
    }

    async fn observe(&mut self, signal: Signal, after: journal::Cursor) {
        let cursor = Cursor { offset: after.offset, skip: u64::from(after.skip) };
        if cursor <= self.told && !matches!(signal, Signal::Closed | Signal::InputSeen { .. }) {
            return;
        }
        let told = self.folded.take(signal, cursor, self.printed_ms);
        self.tell_observed(told, None).await;
    }

    async fn tell(&mut self, command: session::Command) {
        let before = self.folded.flush();
        self.tell_observed(before, Some(command)).await;
    }

    /// Tells together what was observed and what follows it.
    async fn tell_observed(&self, observed: Vec<Placed>, then: Option<Command>) {
        let launch = self.launch;
        let observed = observed.into_iter();
        let commands: Vec<Command> = observed
            .map(|(signal, cursor)| Command::Observed { launch, signal, cursor })
            .chain(then)
            .collect();
        if !commands.is_empty() {
            self.link.teller.tell_all(launch.session, commands).await;
        }
    }
}
