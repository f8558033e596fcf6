//! Follows a launch: folds each line of its journal once, and reports how its process ended.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::tz::TimeZone;
use provost_core::{
    ids::LaunchId,
    lifecycle::Process,
    session::{
        self, Command, Cursor, Driver, End, EndedBy, Launch, LaunchPhase, Session, Signal,
        WorkState,
    },
};
use provost_drivers::{Opening, Protocol};
use provost_holder::{
    self as holder, ExitRecord, Looked,
    journal::{self, Channel, Envelope, Frame, Line, Lines, Note, Opened, Reader, RelayNote},
    tree::{self, Traces},
    wire::{self, Data, Limited, Notice, Op},
};

use super::{
    clock::Clock,
    drop_box,
    executor::{TERMINAL_SIZE, World},
    failpoint,
    handle::{Handle, Teller},
    held::{self, NoneLeft, SURVIVOR_GRACE, chain},
    programs::{self, AgentPlace},
    real_path,
    watch::{Guess, Hints},
};
use crate::coalesce::{Coalesce, Placed};

/// The wait before a launch that could not be read is read again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The wait before a holder that seems to be exiting is contacted again.
const LINK_AGAIN: Duration = Duration::from_millis(20);

/// After this many failed attempts the holder is not exiting, but unreachable.
const FAILED_LINKS: u32 = 50;

/// How long a holder may take, beyond its windows, to report an end before it is probed.
const ENDING: Duration = Duration::from_secs(1);

/// How long a holder that reported the end of its tree may take to exit.
const HOLDER_LEAVES: Duration = Duration::from_secs(5);

/// This many consecutive reads may fail before a launch without a holder counts as broken.
const FAILED_LOOKS: u32 = 10;

/// Follows one launch until its whole process tree is gone.
pub(crate) struct Follower {
    launch: LaunchId,
    link: Link,
    /// The recorded identities of its processes, independent of the directory.
    traces: Traces,
    /// Why its directory is no longer believed, whatever it shows later.
    broken: Option<String>,
    failed_looks: u32,
    failed_links: u32,
    /// Where the agent works and its relative paths begin.
    place: AgentPlace,
    protocol: Box<dyn Protocol>,
    /// The screen signals of its terminal, if it has one.
    terminal: Option<Hints>,
    /// Whether its output shows that it works. A spinner of an agent that reports its work
    /// elsewhere does not.
    moves: bool,
    /// Whether its standard error is a log beside its protocol, which shows no work.
    logs: bool,
    /// Whether the end of its output is the end of its stream.
    closes: bool,
    lines: Lines,
    resume: journal::Cursor,
    /// Signals before this position were reported before.
    told: Cursor,
    /// Writes of the protocol that were sent to the holder on the present link.
    handed: BTreeSet<String>,
    reader: Option<Reader>,
    told_exit: bool,
    /// Whether its holder reported that its leader has ended.
    exited: bool,
    /// Whether that was recorded.
    told_end: bool,
    /// How long its holder may then take to end the rest.
    ending: Duration,
    told_unknown: bool,
    /// Whether its death was rejected as implausible. Then a readable journal proves nothing.
    doubted: bool,
    caught_up: bool,
    no_room: bool,
    folded: Coalesce,
    dropped: drop_box::Watch,
    /// When the current frame was printed.
    printed_ms: u64,
}

/// The sources that a follower reads and the channels it reports to.
pub(crate) struct Link {
    pub(crate) dir: PathBuf,
    pub(crate) world: World,
    pub(crate) teller: Teller,
    pub(crate) handle: Handle,
    pub(crate) clock: Clock,
}

/// Whether the journal shows that the holder wrote a message to the agent.
pub(crate) async fn was_written(dir: &Path, key: &str) -> bool {
    let (journal, key) = (dir.join(journal::JOURNAL_FILE), key.to_owned());
    held::blocking(move || {
        let Ok(Opened::At(reader)) = Reader::open(&journal, 0) else { return false };
        let inputs = reader.flatten().filter(|frame| frame.channel == Channel::Stdin);
        inputs
            .filter_map(|frame| Envelope::split(&frame.payload).map(|(envelope, _)| envelope.key))
            .any(|written| wire::plain_key(&written) == key)
    })
    .await
}

/// Returns the time zone of the agent: its own, or the machine's.
fn zone(session: &Session) -> Option<TimeZone> {
    match session.spec.agent.env.get("TZ") {
        Some(name) => TimeZone::get(name).ok(),
        None => TimeZone::try_system().ok(),
    }
}

fn cwd(session: &Session) -> PathBuf {
    match &session.work {
        WorkState::Ready { cwd, .. } => cwd.into(),
        WorkState::Owed | WorkState::Failed { .. } | WorkState::Removed => {
            PathBuf::from(&session.spec.cwd)
        }
    }
}

/// The result of listening to a holder.
enum Heard {
    Notice(Notice),
    /// The holder has exited, or is dead.
    Farewell,
    /// It lives but does not answer in time.
    Nothing,
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
        // Reported before a restart, it is withdrawn by the first read that succeeds.
        let told_unknown = recorded.process() == Process::Unknown;
        let (driver, bounds) = (session.spec.agent.driver, &session.spec.bounds);
        let opening = Opening { zone: zone(session), ..Opening::of(session) };
        let protocol = provost_drivers::protocol(driver, opening);
        let (rows, columns) = (TERMINAL_SIZE.rows, TERMINAL_SIZE.columns);
        let terminal = driver.has_terminal().then(|| Hints::new(session, rows, columns));
        let resume = if protocol.remembers() || terminal.is_some() {
            journal::Cursor::default()
        } else {
            let skip = u32::try_from(from.skip).unwrap_or(0);
            journal::Cursor { offset: from.offset, skip }
        };
        Some(Follower {
            launch,
            traces: traces(recorded, &link.dir),
            broken: None,
            failed_looks: 0,
            failed_links: 0,
            place: AgentPlace::of(session, &link.world, cwd(session)),
            link,
            protocol,
            terminal,
            moves: driver != Driver::CodexTerminal,
            logs: driver == Driver::Codex,
            closes: driver.has_protocol(),
            lines: Lines::resume(Channel::Stdout, resume),
            resume,
            told: from,
            handed: BTreeSet::new(),
            reader: None,
            told_exit: false,
            exited: recorded.has_ended(),
            told_end: recorded.has_ended(),
            ending: Duration::from_millis(bounds.drain_ms.saturating_add(bounds.stop_grace_ms))
                .saturating_add(ENDING),
            told_unknown,
            doubted: false,
            caught_up: false,
            no_room: recorded.no_room.is_some(),
            folded: Coalesce::new(session.budget.tokens.is_some()),
            dropped: drop_box::Watch::default(),
            printed_ms: 0,
        })
    }

    pub(crate) async fn run(mut self) {
        failpoint::unwind("follow");
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
        if let Some(why) = self.broken.take() {
            return self.end_broken(&why).await;
        }
        let found = match self.look().await? {
            Ok(found) => found,
            Err(why) => return self.end_broken(&why).await,
        };
        match found {
            // It ran: the directory of a recorded launch is never made or filled again.
            Looked::Absent | Looked::Starting { .. } => {
                self.end_broken("its launch directory was removed or emptied").await
            }
            Looked::Ended { .. } if self.child_lives() => {
                self.end_broken("its launch directory recorded an end while its process runs").await
            }
            Looked::Ended { held, exit, gone: None } if held::has_left(held.as_ref()) => {
                let ended = held::end_survivors(&self.traces).await?;
                let leftovers = u32::try_from(ended.found).unwrap_or(u32::MAX);
                self.finish(&exit, leftovers, ended.verified()).await
            }
            Looked::Alive { .. } | Looked::Ended { gone: None, .. } => {
                self.link.world.census.alive(self.launch);
                self.doubted = false;
                self.exited |= matches!(found, Looked::Ended { .. });
                self.drain().await?;
                self.catch_up().await;
                self.listen().await
            }
            Looked::Ended { exit, gone: Some(gone), .. } => {
                if self.holder_left().await {
                    self.finish(&exit, gone.leftovers, gone.verified).await
                } else {
                    self.end_broken("its holder stayed after the end it reported").await
                }
            }
            Looked::HolderDied { .. } => {
                self.drain().await?;
                let none_left = held::none_left(&self.traces, SURVIVOR_GRACE).await?;
                self.unobserved("its holder was killed", &none_left).await
            }
            Looked::OtherBoot { .. } => {
                self.drain().await?;
                let none_left = held::none_left(&self.traces, SURVIVOR_GRACE).await?;
                // A fact about the whole machine needs no check against other probes.
                self.ended_unseen("the machine was restarted", &none_left).await
            }
        }
    }

    /// Reads the directory. A failed read is repeated, unless the holder is known to be dead and
    /// reads have failed for long: then nothing will repair it.
    async fn look(&mut self) -> Result<Result<Looked, String>, held::Error> {
        match held::looked(&self.link.dir).await {
            Ok(found) => {
                self.failed_looks = 0;
                let lost = self.reader.is_none() && !self.has_journal();
                Ok(if lost { Err("its journal was removed".to_owned()) } else { Ok(found) })
            }
            Err(why) => {
                self.failed_looks += 1;
                let dead = |holder: &holder::Identity| matches!(holder.is_alive(), Ok(false));
                let dead = self.traces.holder.as_ref().is_some_and(dead);
                if dead && self.failed_looks >= FAILED_LOOKS {
                    Ok(Err(chain(&why)))
                } else {
                    Err(why)
                }
            }
        }
    }

    /// Ends a launch whose directory can no longer be trusted. Its journal is read as far as
    /// possible.
    async fn end_broken(&mut self, why: &str) -> Result<Next, held::Error> {
        self.broken = Some(why.to_owned());
        if self.told_end {
            return self.end_the_rest().await;
        }
        self.end_unseen(why).await
    }

    /// Ends a launch whose exit status cannot be learned.
    async fn end_unseen(&mut self, why: &str) -> Result<Next, held::Error> {
        let none_left = held::none_left(&self.traces, SURVIVOR_GRACE).await?;
        if self.reader.is_some() {
            self.drain().await?;
        }
        self.unobserved(why, &none_left).await
    }

    /// Ends the remains of a launch whose leader has ended and whose holder does not end the rest.
    async fn end_the_rest(&mut self) -> Result<Next, held::Error> {
        let ended = held::end_survivors(&self.traces).await?;
        let (leftovers, verified) =
            (u32::try_from(ended.found).unwrap_or(u32::MAX), ended.verified());
        let found = held::looked(&self.link.dir).await.ok();
        let found = if self.has_journal() { found } else { None };
        if let Some(Looked::Ended { exit, .. }) = found {
            return self.finish(&exit, leftovers, verified).await;
        }
        if !self.told_end {
            return self.end_unseen("its holder did not report how it ended").await;
        }
        self.close().await;
        self.tell(Command::TreeGone { launch: self.launch, leftovers, verified }).await;
        Ok(Next::Done)
    }

    /// Whether the journal exists. One that cannot be read exists.
    fn has_journal(&self) -> bool {
        let found = std::fs::symlink_metadata(self.link.dir.join(journal::JOURNAL_FILE));
        !matches!(found, Err(why) if why.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether the launch's own process may be alive, whatever its directory shows.
    fn child_lives(&self) -> bool {
        self.traces.child.as_ref().is_some_and(|child| !matches!(child.is_alive(), Ok(false)))
    }

    /// Waits until the launch's holder has exited, as it does at once after it reported the end.
    /// One that stays did not report it: a forged record may stand in for a holder that is kept
    /// stopped.
    async fn holder_left(&self) -> bool {
        let Some(holder) = &self.traces.holder else { return true };
        let left = async {
            let mut wait = Duration::from_millis(1);
            while !matches!(holder.is_alive(), Ok(false)) {
                held::pause(wait).await;
                wait = (wait * 2).min(LINK_AGAIN);
            }
        };
        tokio::time::timeout(HOLDER_LEAVES, left).await.is_ok()
    }

    /// Reports the rest of a launch whose tree is gone.
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

    /// Reports once that everything that happened before was reported.
    async fn catch_up(&mut self) {
        if !std::mem::replace(&mut self.caught_up, true) {
            self.link.teller.caught_up(self.launch).await;
        }
    }

    /// Listens to a living holder until it exits.
    async fn listen(&mut self) -> Result<Next, held::Error> {
        let Ok(mut link) = held::Link::follow(&self.link.dir).await else {
            self.failed_links = self.failed_links.saturating_add(1);
            let leaving = self.failed_links < FAILED_LINKS;
            held::pause(if leaving { LINK_AGAIN } else { LOOK_AGAIN }).await;
            return Ok(Next::Again);
        };
        self.failed_links = 0;
        self.handed.clear();
        self.hide_secrets(&mut link).await;
        self.hand_over(&mut link).await;
        let mut heard = false;
        loop {
            let notice = match self.hear_in_time(&mut link).await {
                Heard::Notice(notice) => notice,
                Heard::Farewell => {
                    if !heard {
                        // It is exiting, or refuses us. It is asked again after a pause.
                        held::pause(LINK_AGAIN).await;
                    }
                    break;
                }
                Heard::Nothing => return self.end_the_rest().await,
            };
            heard = true;
            match notice {
                Notice::Journal { .. } => {
                    if std::mem::take(&mut self.no_room) {
                        self.tell(Command::OutputFlows { launch: self.launch }).await;
                    }
                    self.drain().await?;
                    self.hand_over(&mut link).await;
                }
                Notice::Limit { limited: Limited::OutputLimit } => {
                    self.tell(Command::OutputAtLimit { launch: self.launch }).await;
                }
                Notice::Limit { limited: Limited::DiskFull } => {
                    self.no_room = true;
                    let dir = self.link.world.home.root().display().to_string();
                    self.tell(Command::OutputNoRoom { launch: self.launch, dir }).await;
                }
                Notice::Visits { people } => {
                    self.drain().await?;
                    self.see_what_was_left().await;
                    self.tell(Command::PeopleAttached { launch: self.launch, people }).await;
                }
                Notice::Suspended { suspended } => {
                    self.drain().await?;
                    let launch = self.launch;
                    self.tell(Command::ProcessSuspended { launch, suspended }).await;
                }
                Notice::Exited => self.hear_of_the_exit().await?,
                Notice::Gone => break,
            }
        }
        self.link.world.holders.ended(&link);
        Ok(Next::Again)
    }

    /// Waits for the next notice. Once the leader has ended, it waits only as long as the holder
    /// needs to end the rest. A holder that takes longer but answers has its reasons, such as a
    /// full disk.
    async fn hear_in_time(&mut self, link: &mut held::Link) -> Heard {
        let heard = |notice: Option<Notice>| notice.map_or(Heard::Farewell, Heard::Notice);
        if !self.exited {
            return heard(self.hear(link).await);
        }
        loop {
            if let Ok(notice) = tokio::time::timeout(self.ending, self.hear(link)).await {
                return heard(notice);
            }
            if let Some(holder) = &self.traces.holder {
                // One that cannot be woken does not answer.
                tree::wake(holder).ok();
            }
            if held::request(&self.link.dir, Op::Ping).await.is_err() {
                return Heard::Nothing;
            }
        }
    }

    /// Has the holder mask the secrets that another launch of the session received: a resumed
    /// conversation may be printed from its beginning.
    async fn hide_secrets(&self, link: &mut held::Link) {
        let forms = self.link.world.secrets.hidden(self.launch.session);
        if !forms.is_empty() {
            // A broken link is detected at the next notice. An older holder refuses, and nothing
            // else can be done.
            link.send(Op::Mask { forms: forms.into_iter().map(Data).collect() }).await.ok();
        }
    }

    /// Sends the pending writes of the protocol to the holder. The holder writes each key once, and
    /// the journal shows what arrived. The rest is sent again on the next link.
    async fn hand_over(&mut self, link: &mut held::Link) {
        for write in self.protocol.owed() {
            if self.handed.insert(write.key.clone()) {
                let key = self.link.world.write_key(self.launch, &write.key);
                let op = Op::Write { key, data: Data(write.line), secret: false };
                // A broken link is detected at the next notice.
                link.send(op).await.ok();
            }
        }
    }

    /// Waits for the next notice, and meanwhile reports held signals that become due.
    async fn hear(&mut self, link: &mut held::Link) -> Option<Notice> {
        loop {
            self.look_at_the_screen().await;
            let look = self.terminal.as_ref().and_then(Hints::due_ms);
            let Some(due) = self.folded.due_ms().into_iter().chain(look).min() else {
                return link.notice().await;
            };
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
    }

    async fn hear_of_the_exit(&mut self) -> Result<(), held::Error> {
        if let Looked::Ended { exit, .. } = held::looked(&self.link.dir).await?
            && !self.child_lives()
        {
            self.drain().await?;
            self.tell_exit(&exit).await;
            self.exited = true;
        }
        Ok(())
    }

    /// Takes reports that were written while no daemon answered.
    async fn empty_the_drop_box(&self) {
        drop_box::empty(&self.link.world, &self.link.handle, Some(self.launch)).await;
    }

    /// Takes reports that an agent wrote in its sandbox. A report that precedes a line of output
    /// counts before it: a claim made in a turn is known when the turn ends.
    async fn look_into_the_drop_box(&mut self) {
        let directory = self.link.world.home.agent_drop_box(self.launch.session);
        if self.dropped.changed(&directory, self.link.clock.now().wall_ms) {
            self.empty_the_drop_box().await;
        }
    }

    /// Folds all complete frames of the journal.
    async fn drain(&mut self) -> Result<(), held::Error> {
        loop {
            let Some(reader) = self.open_journal().await? else { return Ok(()) };
            let next = reader.next().transpose();
            let next = next.map_err(|why| held::Error::Talk(chain(&why)))?;
            self.see().await;
            match next {
                Some(frame) => {
                    self.look_into_the_drop_box().await;
                    self.take(&frame).await;
                }
                None => return Ok(()),
            }
        }
    }

    /// Withdraws the report that the launch could not be observed: its journal was read.
    async fn see(&mut self) {
        if !self.doubted && std::mem::take(&mut self.told_unknown) {
            self.tell(Command::ProcessSeen { launch: self.launch }).await;
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

    /// Handles a journal that ends before the folded position, because power was lost. The lost
    /// part is not folded again.
    async fn lose(&mut self, end: u64) {
        self.resume = journal::Cursor { offset: end, skip: 0 };
        self.lines = Lines::resume(Channel::Stdout, self.resume);
        let cursor = Cursor { offset: end, skip: 0 };
        self.tell(Command::OutputLost { launch: self.launch, cursor }).await;
    }

    async fn take(&mut self, frame: &Frame) {
        self.printed_ms = self.link.clock.ours(frame.mono_ms);
        match frame.channel {
            Channel::Stdout if self.terminal.is_some() => self.shown(&frame.payload).await,
            Channel::Stdout => self.printed(frame).await,
            Channel::Stderr if self.logs => {}
            Channel::Stderr => self.link.teller.heard(self.launch, self.printed_ms),
            Channel::Stdin => {
                // The protocol's own writes are not reported, so that no held signal is recorded
                // because of them: the end of a turn would wait for that.
                if let Some((Envelope { key, typed: false, .. }, _)) =
                    Envelope::split(&frame.payload)
                {
                    let key = wire::plain_key(&key);
                    if !self.protocol.wrote(key) {
                        let signal = Signal::InputSeen { key: key.to_owned() };
                        self.observe(signal, self.lines.cursor()).await;
                    }
                }
            }
            Channel::Note => {
                self.note_failed(frame).await;
                let note = serde_json::from_slice::<Note>(&frame.payload);
                match note {
                    Ok(Note::StdoutClosed) => self.note_closed(frame.after).await,
                    Ok(Note::Resized { columns, rows }) => {
                        if let Some(hints) = &mut self.terminal {
                            hints.resize(rows, columns);
                        }
                    }
                    // Limits and stops arrive as notices; notes of later versions are ignored.
                    Ok(
                        Note::OutputLimit { .. }
                        | Note::LimitRaised { .. }
                        | Note::StderrClosed
                        | Note::Suspended
                        | Note::Continued,
                    )
                    | Err(_) => {}
                }
            }
        }
    }

    /// Takes printed output. An agent that only reports retries shows no progress.
    async fn printed(&mut self, frame: &Frame) {
        let delivered = self.lines.feed(frame);
        let mut moves = delivered.is_empty();
        for delivered in delivered {
            moves |= self.read(delivered.line, delivered.after).await;
        }
        if moves {
            self.link.teller.heard(self.launch, self.printed_ms);
        }
    }

    /// Takes terminal output.
    async fn shown(&mut self, bytes: &[u8]) {
        if self.moves {
            self.link.teller.heard(self.launch, self.printed_ms);
        }
        let launch = self.launch;
        let now = self.link.clock.now().mono_ms;
        let guesses = self.terminal.as_mut().map(|hints| hints.feed(bytes, now));
        for Guess { by, place, what } in guesses.unwrap_or_default() {
            self.tell(Command::Hinted { launch, by, place, what }).await;
        }
    }

    /// Reads the terminal's screen, if it is due.
    async fn look_at_the_screen(&mut self) {
        let (launch, now) = (self.launch, self.link.clock.now().mono_ms);
        let guess = self.terminal.as_mut().and_then(|hints| hints.look(now));
        if let Some(Guess { by, place, what }) = guess {
            self.tell(Command::Hinted { launch, by, place, what }).await;
        }
    }

    /// Reports the draft that a leaving user left at the prompt, before it is reported that no user
    /// is attached.
    async fn see_what_was_left(&mut self) {
        let launch = self.launch;
        let guess = self.terminal.as_mut().and_then(Hints::draft);
        if let Some(Guess { by, place, what }) = guess {
            self.tell(Command::Hinted { launch, by, place, what }).await;
        }
    }

    /// Reports an agent that runs but cannot be connected to. It will not work, which is worse than
    /// a silent stream.
    async fn note_failed(&mut self, frame: &Frame) {
        let note = serde_json::from_slice::<RelayNote>(&frame.payload);
        if let Ok(RelayNote::RelayFailed { why }) = note {
            let after = journal::Cursor { offset: frame.after, skip: 0 };
            self.observe(Signal::Unreachable { reason: why }, after).await;
        }
    }

    /// Reports that an agent closed the stream of its protocol. A plain command may redirect its
    /// output and work on: there only the process counts.
    async fn note_closed(&mut self, after: u64) {
        if self.closes {
            self.observe(Signal::Closed, journal::Cursor { offset: after, skip: 0 }).await;
        }
    }

    /// Reads a line, and returns whether it shows progress of the agent.
    async fn read(&mut self, line: Line, after: journal::Cursor) -> bool {
        self.protocol.set_clock(self.link.clock.wall_of(self.printed_ms));
        let signal = match line {
            Line::Whole(bytes) => self.protocol.read(&bytes),
            Line::Oversized { len } => Some(Signal::Oversized { bytes: len }),
        };
        let moves = !matches!(signal, Some(Signal::Retrying { .. }));
        if let Some(signal) = signal {
            self.observe(signal, after).await;
        }
        moves
    }

    /// Closes the stream: a last line without a newline is read first.
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
        self.told_end = true;
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

    /// Reports an unobserved end, unless too many launches look dead at once. A process that was
    /// found and ended is certain.
    async fn unobserved(&mut self, why: &str, none_left: &NoneLeft) -> Result<Next, held::Error> {
        if !none_left.ran() {
            let believed = self.link.world.census.believe(self.launch).await;
            self.doubted = believed.is_err();
            believed?;
        }
        self.ended_unseen(why, none_left).await
    }

    /// Reports an unobserved end. The parameter proves that no process is left.
    async fn ended_unseen(&mut self, why: &str, _: &NoneLeft) -> Result<Next, held::Error> {
        let launch = self.launch;
        self.tell(Command::ProcessUnobserved { launch, why: why.to_owned() }).await;
        Ok(Next::Done)
    }

    async fn observe(&mut self, signal: Signal, after: journal::Cursor) {
        let cursor = Cursor { offset: after.offset, skip: u64::from(after.skip) };
        if cursor <= self.told && !matches!(signal, Signal::Closed | Signal::InputSeen { .. }) {
            return;
        }
        let signal = real_path::added(signal, &self.place.cwd).await;
        let signal = programs::added(signal, &self.place).await;
        let told = self.folded.take(signal, cursor, self.printed_ms);
        self.tell_observed(told, None).await;
    }

    async fn tell(&mut self, command: session::Command) {
        let before = self.folded.flush();
        self.tell_observed(before, Some(command)).await;
    }

    /// Reports signals together with the command that follows them.
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

/// Returns the recorded identities of a launch's processes.
pub(crate) fn traces(launch: &Launch, dir: &Path) -> Traces {
    let child = match &launch.phase {
        LaunchPhase::Running { child, .. } => child.as_ref(),
        LaunchPhase::Owed
        | LaunchPhase::Ended { .. }
        | LaunchPhase::Unobserved { .. }
        | LaunchPhase::Failed { .. } => None,
    };
    held::traces(dir, launch.holder.as_ref(), child)
}
