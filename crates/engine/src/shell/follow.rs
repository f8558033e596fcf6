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

/// How long to wait before a launch that could not be looked at is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long to wait before a holder that is leaving, as it seems, is spoken with again.
const LINK_AGAIN: Duration = Duration::from_millis(20);

/// After so many tries in vain it is not leaving, but cannot be spoken with.
const FAILED_LINKS: u32 = 50;

/// How long a holder may take, beyond its windows, to tell of an end before it is asked whether it lives.
const ENDING: Duration = Duration::from_secs(1);

/// How long a holder that told of the end of its tree may take to leave.
const HOLDER_LEAVES: Duration = Duration::from_secs(5);

/// So many looks may fail one after the other before a launch without a holder is taken for broken.
const FAILED_LOOKS: u32 = 10;

/// Follows one launch until its whole tree is gone.
pub(crate) struct Follower {
    launch: LaunchId,
    link: Link,
    /// What the record knows of its processes, whatever the directory says.
    traces: Traces,
    /// Why its directory is not believed any more, whatever it says later.
    broken: Option<String>,
    failed_looks: u32,
    failed_links: u32,
    /// Where the agent works, and its relative paths begin.
    place: AgentPlace,
    protocol: Box<dyn Protocol>,
    /// What its terminal lets guess, if it has one.
    terminal: Option<Hints>,
    /// Whether what it prints shows that it moves: a spinner of an agent that says so otherwise does not.
    moves: bool,
    /// Whether its standard error is a log beside its protocol, which tells of no work.
    logs: bool,
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
    /// Its leader has ended, as its holder says.
    exited: bool,
    /// That was told.
    told_end: bool,
    /// How long its holder may then take to end the rest.
    ending: Duration,
    told_unknown: bool,
    /// It looks dead, and is not believed to be: that its journal can be read says nothing else.
    doubted: bool,
    caught_up: bool,
    no_room: bool,
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
            .any(|written| wire::plain_key(&written) == key)
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

fn cwd(session: &Session) -> PathBuf {
    match &session.work {
        WorkState::Ready { cwd, .. } => cwd.into(),
        WorkState::Owed | WorkState::Failed { .. } | WorkState::Removed => {
            PathBuf::from(&session.spec.cwd)
        }
    }
}

/// What came of listening to a holder.
enum Heard {
    Notice(Notice),
    /// The holder has left, or is dead.
    Farewell,
    /// It lives, and says nothing though it should.
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
        // Said before a restart, it is taken back by the first look that succeeds.
        let told_unknown = recorded.process() == Process::Unknown;
        let (driver, bounds) = (session.spec.agent.driver, &session.spec.bounds);
        let opening = Opening { zone: zone(session), ..Opening::of(session) };
        let protocol = provost_drivers::protocol(driver, opening);
        let size = (TERMINAL_SIZE.rows, TERMINAL_SIZE.columns);
        let terminal = driver.has_terminal().then(|| Hints::new(session, size));
        let resume = match protocol.remembers() || terminal.is_some() {
            true => journal::Cursor::default(),
            false => {
                let skip = u32::try_from(from.skip).unwrap_or(0);
                journal::Cursor { offset: from.offset, skip }
            }
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
            // It ran: the directory of a launch that was recorded is neither made nor filled again.
            Looked::Absent | Looked::Starting { .. } => {
                self.end_broken("its launch directory was removed or emptied").await
            }
            Looked::Ended { .. } if self.child_lives() => {
                self.end_broken("its launch directory told of an end that was none").await
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
            Looked::Ended { exit, gone: Some(gone), .. } => match self.holder_left().await {
                true => self.finish(&exit, gone.leftovers, gone.verified).await,
                false => self.end_broken("its holder stayed after the end that was told").await,
            },
            Looked::HolderDied { .. } => {
                self.drain().await?;
                let none_left = held::none_left(&self.traces, SURVIVOR_GRACE).await?;
                self.unobserved("its holder was killed", &none_left).await
            }
            Looked::OtherBoot { .. } => {
                self.drain().await?;
                let none_left = held::none_left(&self.traces, SURVIVOR_GRACE).await?;
                // What the kernel says of the whole machine is no probe of this one.
                self.ended_unseen("the machine was started anew", &none_left).await
            }
        }
    }

    /// Looks at the directory. What cannot be looked at is looked at again, unless its holder is known to be
    /// dead and it has been so for long: then nobody will mend it.
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
                match dead && self.failed_looks >= FAILED_LOOKS {
                    true => Ok(Err(chain(&why))),
                    false => Err(why),
                }
            }
        }
    }

    /// Ends a launch that its directory no longer tells the truth about. Its journal is read as far as it can be.
    async fn end_broken(&mut self, why: &str) -> Result<Next, held::Error> {
        self.broken = Some(why.to_owned());
        if self.told_end {
            return self.end_the_rest().await;
        }
        self.end_unseen(why).await
    }

    /// Ends a launch of which nobody will say how it ended.
    async fn end_unseen(&mut self, why: &str) -> Result<Next, held::Error> {
        let none_left = held::none_left(&self.traces, SURVIVOR_GRACE).await?;
        if self.reader.is_some() {
            self.drain().await?;
        }
        self.unobserved(why, &none_left).await
    }

    /// Ends what is left of a launch whose leader has ended and whose holder does not end the rest.
    async fn end_the_rest(&mut self) -> Result<Next, held::Error> {
        let ended = held::end_survivors(&self.traces).await?;
        let (leftovers, verified) =
            (u32::try_from(ended.found).unwrap_or(u32::MAX), ended.verified());
        let found = held::looked(&self.link.dir).await.ok().filter(|_| self.has_journal());
        if let Some(Looked::Ended { exit, .. }) = found {
            return self.finish(&exit, leftovers, verified).await;
        }
        if !self.told_end {
            return self.end_unseen("its holder did not say how it ended").await;
        }
        self.close().await;
        self.tell(Command::TreeGone { launch: self.launch, leftovers, verified }).await;
        Ok(Next::Done)
    }

    /// Says whether the journal is there. One that cannot be looked at is.
    fn has_journal(&self) -> bool {
        let found = std::fs::symlink_metadata(self.link.dir.join(journal::JOURNAL_FILE));
        !matches!(found, Err(why) if why.kind() == std::io::ErrorKind::NotFound)
    }

    /// Says whether the launch's own process may be there, whatever its directory says.
    fn child_lives(&self) -> bool {
        self.traces.child.as_ref().is_some_and(|child| !matches!(child.is_alive(), Ok(false)))
    }

    /// Waits until the launch's holder has left, as it does at once after it told of the end. One that stays
    /// did not tell it: a holder that is kept stopped may be spoken for by a forged record.
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
                        // It is leaving, or refuses us. It is asked again, but not without end at once.
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

    /// Waits for the next notice, once the leader has ended not longer than its holder needs to end the rest.
    /// One that takes longer and answers has its reasons, such as a full disk.
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

    /// Has the holder hide what another launch of the session was told: a conversation that is gone on with may be told
    /// from its beginning.
    async fn hide_secrets(&self, link: &mut held::Link) {
        let forms = self.link.world.secrets.hidden(self.launch.session);
        if !forms.is_empty() {
            // A link that breaks is noticed by the next notice; an older holder refuses, and nothing else is to be done.
            link.send(Op::Mask { forms: forms.into_iter().map(Data).collect() }).await.ok();
        }
    }

    /// Hands to the holder what the protocol owes by itself. The holder writes each key once, and what
    /// arrived is seen in the journal; what did not is handed over again on the next link.
    async fn hand_over(&mut self, link: &mut held::Link) {
        for write in self.protocol.owed() {
            if self.handed.insert(write.key.clone()) {
                let key = self.link.world.write_key(self.launch, &write.key);
                let op = Op::Write { key, data: Data(write.line), secret: false };
                // A link that breaks is noticed by the next notice.
                link.send(op).await.ok();
            }
        }
    }

    /// Waits for the next notice, and tells meanwhile what was held back and has become due.
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

    /// Takes back that the launch could not be looked at: it was, and its journal was read.
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
            Channel::Stdout if self.terminal.is_some() => self.shown(&frame.payload).await,
            Channel::Stdout => self.printed(frame).await,
            Channel::Stderr if self.logs => {}
            Channel::Stderr => self.link.teller.heard(self.launch, self.printed_ms),
            Channel::Stdin => {
                // What the protocol wrote by itself is told to nobody, so that nothing that is held back is
                // recorded on its account: a turn's end would wait for that.
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
                    // Limits and stops are told by notices; a note of a later version means nothing here.
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

    /// Takes what was printed. Whoever only says that it tries again does not move.
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

    /// Takes what a terminal shows.
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

    /// Looks at the terminal's screen, if it is time for that.
    async fn look_at_the_screen(&mut self) {
        let (launch, now) = (self.launch, self.link.clock.now().mono_ms);
        let guess = self.terminal.as_mut().and_then(|hints| hints.look(now));
        if let Some(Guess { by, place, what }) = guess {
            self.tell(Command::Hinted { launch, by, place, what }).await;
        }
    }

    /// Tells what somebody who leaves has left at the prompt, before it is told that nobody is there.
    async fn see_what_was_left(&mut self) {
        let launch = self.launch;
        let guess = self.terminal.as_mut().and_then(Hints::draft);
        if let Some(Guess { by, place, what }) = guess {
            self.tell(Command::Hinted { launch, by, place, what }).await;
        }
    }

    /// An agent that runs and cannot be connected to will not work, which is more than a stream without a word.
    async fn note_failed(&mut self, frame: &Frame) {
        let note = serde_json::from_slice::<RelayNote>(&frame.payload);
        if let Ok(RelayNote::RelayFailed { why }) = note {
            let after = journal::Cursor { offset: frame.after, skip: 0 };
            self.observe(Signal::Unreachable { reason: why }, after).await;
        }
    }

    /// An agent that closes the stream of its protocol has left it. A plain command may send its output
    /// elsewhere and work on: there the process is the only witness.
    async fn note_closed(&mut self, after: u64) {
        if self.closes {
            self.observe(Signal::Closed, journal::Cursor { offset: after, skip: 0 }).await;
        }
    }

    /// Reads a line, and says whether it shows that the agent gets on.
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

    /// Tells an end that nobody saw, unless too many look so at once. Who was found and ended did not just look so.
    async fn unobserved(&mut self, why: &str, none_left: &NoneLeft) -> Result<Next, held::Error> {
        if !none_left.ran() {
            let believed = self.link.world.census.believe(self.launch).await;
            self.doubted = believed.is_err();
            believed?;
        }
        self.ended_unseen(why, none_left).await
    }

    /// Tells an end that nobody saw. It takes the proof that it is one.
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

/// Gives what the record knows of a launch's processes.
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
