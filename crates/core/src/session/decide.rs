//! Command handlers. Pure: the same session, command and moment always return the same events.

use super::{
    attempt::{ClaimSource, Standing},
    command::{Command, Rejected, Reporter, Resolve, SendMode, Signal, Testimony},
    elsewhere::is_for_foreign,
    event::*,
    launch::{Cursor, Launch, LaunchPhase, LaunchWhy, Reports, Sight, Stop, StopStep, StopWhy},
    spec::Assignment,
    state::{Budget, MessageFate, MessageKind, Progress, Session, SetupState, WorkState},
    typing::sayable,
};
use crate::{
    ids::{LaunchId, RequestId},
    lifecycle::{ClaimKind, State},
    limits::{MAX_OPEN_REQUESTS, MAX_QUEUED, MAX_SAYS, MAX_WARNINGS},
    request::{Asked, Fate, Reply, Request, RequestKind},
    text::shortened,
    time::Moment,
};

type Decision = Result<Vec<Event>, Rejected>;

fn one(event: impl Into<Event>) -> Decision {
    Ok(vec![event.into()])
}

/// Returns the event only if it is new.
fn if_new(new: bool, event: impl Into<Event>) -> Decision {
    if new { one(event) } else { Err(Rejected::Nothing) }
}

/// Closes a launch whose holder exited after it reported the end: no report of the stream or the process
/// tree will follow.
fn nobody_left_to_tell(launch: &Launch) -> Decision {
    let (id, cursor) = (launch.id, launch.cursor);
    let followed = launch.is_followed();
    let closed = launch.stream.closed.is_none().then(|| StreamClosed { launch: id, cursor }.into());
    let gone = launch
        .gone
        .is_none()
        .then(|| TreeGone { launch: id, leftovers: 0, verified: false }.into());
    if followed && !bug!(LostTreeForgotten) {
        Ok(closed.into_iter().chain(gone).collect())
    } else {
        Err(Rejected::Nothing)
    }
}

/// Builds the message for an answer. A secret is not part of it: it reaches the agent outside the
/// ledger.
pub(super) fn answer_to(request: &Request, reply: &Reply) -> MessageQueued {
    MessageQueued {
        key: format!("answer-{}-{}", request.id.no, request.revision),
        kind: MessageKind::Answer,
        text: String::new(),
        request: Some(request.id),
        reply: (!request.asked.is_secret()).then(|| reply.clone()),
    }
}

impl Session {
    /// Decides a command: returns its events, or the reason it is rejected.
    pub fn decide(&self, command: &Command, now: Moment) -> Decision {
        if self.is_foreign() && !is_for_foreign(command) {
            return Err(Rejected::Imported(self.spec.agent.argv.join(" ")));
        }
        match command {
            Command::WorkPrepared { .. }
            | Command::WorkFailed { .. }
            | Command::WorkRemoved
            | Command::StoreRemoved
            | Command::SetupFinished { .. } => self.decide_work(command),
            Command::LaunchStarted { .. }
            | Command::LaunchFailed { .. }
            | Command::LaunchFollowed { .. }
            | Command::ProcessEnded { .. }
            | Command::ProcessUnknown { .. }
            | Command::ProcessSeen { .. }
            | Command::ProcessSuspended { .. }
            | Command::LaunchAdopted { .. }
            | Command::PeopleAttached { .. }
            | Command::ProcessUnobserved { .. }
            | Command::TreeGone { .. } => self.decide_process(command),
            Command::Observed { launch, signal, cursor } => self.observe(*launch, signal, *cursor),
            Command::Recorded { launch, by, place, what } => {
                self.recorded(*launch, *by, *place, what)
            }
            Command::Hinted { launch, by, place, what } => self.hinted(*launch, *by, *place, what),
            Command::PaneSeen { launch, sight } => self.pane_seen(*launch, *sight),
            Command::Keyed { launch, key, way } => self.keyed(*launch, key, *way),
            Command::OutputAtLimit { launch } => {
                let launch = self.known(*launch)?;
                if_new(!launch.at_limit, OutputAtLimit { launch: launch.id })
            }
            Command::OutputNoRoom { launch, dir } => {
                let known = self.known(*launch)?;
                let new = known.no_room.is_none();
                if_new(new, OutputNoRoom { launch: *launch, dir: dir.clone() })
            }
            Command::OutputFlows { launch } => {
                if_new(self.known(*launch)?.no_room.is_some(), OutputFlows { launch: *launch })
            }
            Command::OutputLost { launch, cursor } => {
                let launch = self.known(*launch)?;
                let (launch, new) = (launch.id, !launch.output_lost);
                if_new(new, OutputLost { launch, cursor: *cursor })
            }
            Command::RecordForged { effect, moved_to } => {
                one(RecordForged { effect: effect.clone(), moved_to: moved_to.clone() })
            }
            Command::ReportRefused { launch } => self.refuse_report(self.known(*launch)?),
            Command::SnapshotTaken { .. }
            | Command::SnapshotFailed { .. }
            | Command::CheckFinished { .. } => self.decide_evidence(command),
            Command::HookFinished { key, end } => {
                let owed = self.hooks.iter().any(|hook| hook.key == *key);
                if_new(owed, HookFinished { key: *key, end: end.clone() })
            }
            Command::EffectShort { effect, tries, shortage } => {
                self.decide_short(effect, *tries, shortage)
            }
            Command::MessageLost { key, reason } => self.lose_message(key, reason),
            Command::Silence { launch, heard_ms } => self.silence(*launch, *heard_ms, now),
            Command::Tick => Ok(vec![]),
            Command::Report { from, testimony } => self.report(*from, testimony, None),
            Command::Send { key, text, mode } => self.send(key, text, *mode),
            Command::Assign { key, text, assignment } => self.assign(key, text, assignment),
            Command::Answer { request, revision, reply } => self.answer(*request, *revision, reply),
            Command::Called { launch, native, call } => self.called(*launch, native, call, None),
            Command::AnswerCall { no, ok, text } => self.answer_call(*no, *ok, text),
            Command::Interrupt { key, text } => self.interrupt(key, text.as_deref()),
            Command::Compact { key } => self.compact(key),
            Command::Stop => self.stop(),
            Command::Dismiss { because, at_once } => self.dismiss(because, *at_once),
            Command::Cancel { because } => self.cancel(because),
            Command::Resolve { to, because } => Ok(self.resolve(*to, because)),
            // A finished session keeps its name.
            Command::Rename { .. } if self.is_closed() => {
                Err(Rejected::Sealed(self.state().word()))
            }
            Command::Rename { name } => {
                if_new(*name != self.spec.name, SessionRenamed { name: name.clone() })
            }
            Command::TakeOver if self.is_foreign() => one(SessionTakenOver {}),
            Command::TakeOver => Ok(vec![]),
            Command::RaiseLimit { bytes } if *bytes > self.output_limit => {
                one(LimitRaised { bytes: *bytes })
            }
            Command::RaiseLimit { .. } => Err(Rejected::LimitNotRaised { now: self.output_limit }),
            Command::RaiseBudget { tokens, turns } => self.raise_budget(*tokens, *turns),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "decide() is the exhaustive match")]
    fn decide_work(&self, command: &Command) -> Decision {
        let owed = self.work == WorkState::Owed;
        match command.clone() {
            Command::WorkPrepared { cwd, base } => if_new(owed, WorkPrepared { cwd, base }),
            Command::WorkFailed { reason } => if_new(owed, WorkFailed { reason }),
            Command::WorkRemoved => {
                let stands = self.work != WorkState::Removed;
                if_new(stands && self.attempt().is_sealed(), WorkRemoved {})
            }
            Command::StoreRemoved => {
                if_new(!self.store_removed && self.attempt().is_sealed(), StoreRemoved {})
            }
            Command::SetupFinished { attempt, failure } => {
                let owed = self.setup == SetupState::Owed && self.setup_for == attempt;
                if_new(owed, SetupFinished { failure })
            }
            _ => unreachable!("decide() sends only commands about the place of work here"),
        }
    }

    /// Records observations of the kernel and the holder. An end is recorded once, and never questioned
    /// later.
    #[expect(clippy::wildcard_enum_match_arm, reason = "decide() is the exhaustive match")]
    fn decide_process(&self, command: &Command) -> Decision {
        match command.clone() {
            Command::LaunchStarted { launch, holder, child } => {
                let owed = self.known(launch)?.phase == LaunchPhase::Owed;
                if_new(owed, LaunchStarted { launch, holder, child })
            }
            Command::LaunchAdopted { launch, child } => {
                let owed = self.known(launch)?.phase == LaunchPhase::Owed;
                if_new(owed && self.spec.adopted.is_some(), LaunchAdopted { launch, child })
            }
            Command::LaunchFailed { launch, reason } => {
                let owed = self.known(launch)?.phase == LaunchPhase::Owed;
                if_new(owed, LaunchFailed { launch, reason })
            }
            Command::LaunchFollowed { launch } => {
                let waits = self.shaking_hands().is_some_and(|waiting| waiting.id == launch);
                if_new(waits, LaunchFollowed { launch })
            }
            Command::ProcessEnded { launch, end, by } => {
                if_new(self.known(launch)?.may_live(), ProcessEnded { launch, end, by })
            }
            Command::ProcessUnobserved { launch, why } => match self.known(launch)? {
                known if known.may_live() => {
                    let ended = ProcessUnobserved { launch, why }.into();
                    Ok(std::iter::once(ended).chain(self.void_with_its_screen(known)).collect())
                }
                known => nobody_left_to_tell(known),
            },
            Command::ProcessUnknown { launch, why } => {
                let seen = self.sight(launch)? == Some(Sight::Seen);
                if_new(seen, ProcessUnknown { launch, why })
            }
            Command::ProcessSeen { launch } => {
                let unknown = self.sight(launch)? == Some(Sight::Unknown);
                if_new(unknown, ProcessSeen { launch })
            }
            Command::ProcessSuspended { launch, suspended } => {
                let known = self.known(launch)?;
                let new = known.watch.suspended != suspended && known.may_live();
                if_new(new, ProcessSuspended { launch, suspended })
            }
            Command::PeopleAttached { launch, people } => {
                let new = self.known(launch)?.people != people;
                if_new(new, PeopleAttached { launch, people })
            }
            Command::TreeGone { launch, leftovers, verified } => {
                let known = self.known(launch)?;
                let new = known.has_ended() && known.gone.is_none();
                if_new(new, TreeGone { launch, leftovers, verified })
            }
            _ => unreachable!("decide() sends only commands about a process here"),
        }
    }

    /// Records a snapshot or a receipt, if it belongs to the evidence that is wanted now.
    #[expect(clippy::wildcard_enum_match_arm, reason = "decide() is the exhaustive match")]
    fn decide_evidence(&self, command: &Command) -> Decision {
        // Evidence is about a tree, so it counts even if a question was opened meanwhile. An effect with
        // the same key would not be reported again.
        let open = !self.attempt().is_sealed() && !self.attempt().is_decided();
        match command.clone() {
            Command::SnapshotTaken { attempt, no, snapshot, caveats } => {
                let wanted = open && self.lacks_snapshot(attempt, no);
                if_new(wanted, SnapshotTaken { snapshot, caveats })
            }
            Command::SnapshotFailed { attempt, no, reason } => {
                if_new(open && self.lacks_snapshot(attempt, no), SnapshotFailed { reason })
            }
            Command::CheckFinished { attempt, receipt } => {
                let verifying = &self.attempt().verifying;
                let tree = verifying.snapshot.as_ref().map(|snapshot| &snapshot.tree);
                let same = |r: &crate::verdict::Receipt| r.command == receipt.command;
                let about_it = tree == Some(&receipt.tree) || bug!(EvidenceOfAnotherTree);
                let new = about_it && !verifying.receipts.iter().any(same);
                if_new(new && open && attempt == self.attempt().no, CheckFinished { receipt })
            }
            _ => unreachable!("decide() sends only commands about evidence here"),
        }
    }

    /// Records an observation of a stream, once: everything before the cursor was folded already.
    fn observe(&self, id: LaunchId, signal: &Signal, cursor: Cursor) -> Decision {
        let launch = self.known(id)?;
        if let Signal::InputSeen { key } = signal {
            // Input lies between lines of output, so it is identified by its key and moves no cursor.
            return self.input_seen(key, id);
        }
        let folded = cursor <= launch.cursor && !bug!(LinesFoldedTwice);
        if folded && *signal != Signal::Closed {
            return Err(Rejected::Nothing);
        }
        match signal.clone() {
            Signal::Ready { thread } => one(StreamReady { launch: id, thread, cursor }),
            Signal::TurnStarted { turn } => one(TurnStarted { launch: id, turn, cursor }),
            Signal::TurnEnded { turn, end, usage, says } => {
                let says = says.map(|says| shortened(&says, MAX_SAYS));
                one(TurnEnded { launch: id, turn, end, usage, says, cursor })
            }
            Signal::Refused { reason } => one(StreamRefused { launch: id, reason, cursor }),
            Signal::Unreachable { reason } => one(StreamUnreachable { launch: id, reason, cursor }),
            Signal::Goal { active } => {
                if_new(launch.stream.goal != active, GoalChanged { launch: id, active, cursor })
            }
            Signal::MessageRefused { key, reason, busy } => {
                self.message_refused(launch, &key, &reason, busy, cursor)
            }
            Signal::Warned { text } => {
                let new = !self.warnings.contains(&text) && self.warnings.len() < MAX_WARNINGS;
                if_new(new, AgentWarned { launch: id, text, cursor })
            }
            Signal::Said(testimony) => self.said(id, &testimony, cursor),
            Signal::Told { kind, text, result } => {
                let standing = self.standing_of_result(id);
                let claim = Testimony::Claim { kind, text };
                let mut events = self.said(id, &claim, cursor)?;
                if let [Event::ReportsRefused(_)] = events.as_slice() {
                    return Ok(events);
                }
                events.push(ResultTold { launch: id, result, standing, cursor }.into());
                Ok(events)
            }
            Signal::Asked(_) if self.open_requests().count() >= MAX_OPEN_REQUESTS => {
                Err(Rejected::Nothing)
            }
            Signal::Asked(asked) => one(self.asked(id, asked, cursor)),
            Signal::Called { native, call } => self.called(id, &native, &call, Some(cursor)),
            Signal::Withdrawn { native } => self.withdraw(id, &native, cursor),
            Signal::CameOut { native, done } => self.came_out(id, &native, done, cursor),
            Signal::Progress(progress) => {
                one(ProgressTold { launch: id, progress, cursor: Some(cursor) })
            }
            Signal::Usage(usage) => one(UsageTold { launch: id, usage, cursor }),
            Signal::Context(context) => {
                if_new(self.context != Some(context), ContextTold { launch: id, context, cursor })
            }
            Signal::Compacted => one(ContextCompacted { launch: id, cursor }),
            Signal::NotCompacted { reason } => {
                let asked = self.compacting().is_some_and(|asked| asked.launch == id);
                if_new(asked, ContextKept { launch: id, reason, cursor: Some(cursor) })
            }
            Signal::Retrying { detail } => one(StreamRetrying { launch: id, detail, cursor }),
            Signal::Oversized { bytes } => one(OutputOversized { launch: id, bytes, cursor }),
            Signal::InputSeen { .. } => Err(Rejected::Nothing),
            Signal::Closed => {
                if_new(launch.stream.closed.is_none(), StreamClosed { launch: id, cursor })
            }
        }
    }

    fn silence(&self, id: LaunchId, heard_ms: u64, now: Moment) -> Decision {
        let launch = self.known(id)?;
        let stream = &launch.stream;
        let due = heard_ms.saturating_add(self.spec.bounds.stale_ms);
        if heard_ms > stream.heard.mono_ms {
            return one(StreamHeard { launch: id, heard_ms });
        }
        let silent = now.mono_ms >= due && !stream.silent && launch.may_live();
        let silent = silent.then(|| StreamSilent { launch: id }.into());
        let events: Vec<Event> = silent.into_iter().chain(self.react_to_silence(now)).collect();
        if events.is_empty() { Err(Rejected::Nothing) } else { Ok(events) }
    }

    /// Records a report. It is never rejected because of the session's state, only because of the
    /// launch's budget.
    fn report(&self, from: Reporter, testimony: &Testimony, cursor: Option<Cursor>) -> Decision {
        let launch = match from {
            Reporter::Launch(launch) | Reporter::Dropped(launch) => Some(self.known(launch)?.id),
            Reporter::Operator => None,
        };
        let source = match from {
            Reporter::Launch(_) => ClaimSource::Agent,
            Reporter::Dropped(_) => ClaimSource::DropBox,
            Reporter::Operator => ClaimSource::Operator,
        };
        let counts = cursor.is_none() || !matches!(testimony, Testimony::Progress(_));
        if counts
            && let Some(launch) = launch
            && !self.known(launch)?.reports.has_room_for(testimony.len())
        {
            return Err(Rejected::ReportBudget { launch });
        }
        let standing = self.standing(launch, testimony);
        match testimony.clone() {
            Testimony::Claim { kind, text } => {
                one(ClaimMade { launch, kind, source, text, standing, cursor })
            }
            Testimony::Fact { kind, value } => {
                one(FactTold { launch, fact: kind, value, standing, cursor })
            }
            Testimony::Progress(progress) => self.progressed(launch, progress, cursor),
        }
    }

    /// Records a report on the stream. One beyond the budget is only marked as rejected.
    fn said(&self, id: LaunchId, testimony: &Testimony, cursor: Cursor) -> Decision {
        match self.report(Reporter::Launch(id), testimony, Some(cursor)) {
            Err(Rejected::ReportBudget { launch }) => self.refuse_report(self.known(launch)?),
            decided => decided,
        }
    }

    /// Marks a launch that has used up its budget of reports, once.
    pub(super) fn refuse_report(&self, launch: &Launch) -> Decision {
        let Reports { count: reports, bytes, refused } = launch.reports;
        if_new(!refused, ReportsRefused { launch: launch.id, reports, bytes })
    }

    /// Records progress. Reports of an older launch are ignored.
    fn progressed(
        &self,
        launch: Option<LaunchId>,
        progress: Progress,
        cursor: Option<Cursor>,
    ) -> Decision {
        let teller = self.current_launch().ok_or(Rejected::NotRunning)?;
        if launch.is_some_and(|launch| launch != teller.id) {
            return Err(Rejected::Nothing);
        }
        one(ProgressTold { launch: teller.id, progress, cursor })
    }

    fn standing_of_result(&self, launch: LaunchId) -> Standing {
        let current = self.current_launch().is_some_and(|one| one.id == launch);
        match (current, self.attempt().is_sealed()) {
            (false, _) => Standing::Recorded,
            (true, true) => Standing::RecordedLate,
            (true, false) => Standing::Applied,
        }
    }

    fn standing(&self, launch: Option<LaunchId>, testimony: &Testimony) -> Standing {
        let current = self.current_launch().map(|launch| launch.id);
        if launch.is_some() && launch != current && !bug!(FenceRemoved) {
            return Standing::Recorded;
        }
        let sealed = self.attempt().is_sealed() && !bug!(LateClaimApplied);
        match testimony {
            Testimony::Fact { .. } | Testimony::Progress(_) => Standing::Applied,
            Testimony::Claim { kind: ClaimKind::None | ClaimKind::Working, .. } => {
                let over = sealed || self.has_ended();
                if over { Standing::Recorded } else { Standing::Applied }
            }
            Testimony::Claim {
                kind: ClaimKind::NeedsInput | ClaimKind::Completed | ClaimKind::Failed,
                ..
            } => {
                if sealed {
                    Standing::RecordedLate
                } else {
                    Standing::Applied
                }
            }
        }
    }

    pub(super) fn asked(&self, launch: LaunchId, asked: Asked, cursor: Cursor) -> RequestOpened {
        let same = |request: &&crate::request::Request| {
            request.launch == launch && request.asked.native == asked.native
        };
        let (request, revision) = match self.requests.iter().find(same) {
            Some(earlier) => (earlier.id, earlier.revision + 1),
            None => {
                let no = self.requests.len() as u32 + 1;
                (RequestId { session: self.id, no }, 1)
            }
        };
        RequestOpened { request, launch, asked, revision, cursor }
    }

    fn withdraw(&self, launch: LaunchId, native: &str, cursor: Cursor) -> Decision {
        let open = self
            .open_requests()
            .find(|request| request.launch == launch && request.asked.native == native);
        let Some(request) = open else { return Err(Rejected::Nothing) };
        // An agent that is being stopped has to withdraw its requests. A question can still be answered,
        // which resumes the work in another process, unless the attempt is decided.
        let asker = self.known(launch)?;
        let outlives = request.asked.kind != RequestKind::Approval && !self.attempt().is_decided();
        let fate = match (asker.stop.is_some(), outlives) {
            // While users are at its screen, they settled it there.
            (false, _) if asker.is_attended() => Fate::AnsweredElsewhere,
            (false, _) => Fate::Withdrawn,
            (true, false) => Fate::Void,
            (true, true) => return Err(Rejected::Nothing),
        };
        one(RequestSettled { request: request.id, fate, cursor: Some(cursor) })
    }

    /// Compares the outcome of an approval with its answer. A user at the agent's own screen may have
    /// answered first.
    fn came_out(&self, launch: LaunchId, native: &str, done: bool, cursor: Cursor) -> Decision {
        let about = |request: &&Request| request.launch == launch && request.asked.native == native;
        let request = self.requests.iter().find(about).ok_or(Rejected::Nothing)?;
        let allowed = request.allowed.ok_or(Rejected::Nothing)?;
        let new = allowed != done && request.otherwise.is_none();
        if_new(new, RequestContradicted { request: request.id, done, cursor })
    }

    /// Returns the reason an answer is no longer needed.
    fn why_void(&self, request: &Request) -> &'static str {
        let asker = self.launch(request.launch);
        let stopped = |launch: &Launch| launch.stop.is_some_and(|s| s.why == StopWhy::Operator);
        match (&self.attempt().cancelled, asker) {
            (Some(_), _) => "the session was cancelled",
            (None, Some(asker)) if stopped(asker) => "the session was stopped",
            (None, Some(asker)) if asker.adopted && asker.has_ended() => {
                "the process that asked has ended"
            }
            // A newer launch has replaced it.
            (None, Some(asker)) if self.launches.last() != Some(asker) => {
                "the process that asked has ended"
            }
            (None, _) => "the session ended",
        }
    }

    fn answer(&self, id: RequestId, revision: u32, reply: &Reply) -> Decision {
        let request =
            self.requests.iter().find(|r| r.id == id).ok_or(Rejected::UnknownRequest(id))?;
        match request.fate {
            Fate::Open => {}
            Fate::Answered => {
                let lost = self.why_lost(request);
                let answered = || Rejected::RequestSettled(id, "it was answered");
                return Err(
                    lost.map_or_else(answered, |why| Rejected::AnswerLost(id, why.to_owned()))
                );
            }
            Fate::Withdrawn => return Err(Rejected::RequestSettled(id, "the agent withdrew it")),
            Fate::AnsweredElsewhere => {
                return Err(Rejected::RequestSettled(id, "it was answered on the agent's screen"));
            }
            Fate::Void => return Err(Rejected::RequestSettled(id, self.why_void(request))),
        }
        if self.attempt().is_decided() {
            return Err(Rejected::RequestSettled(id, "the session was ended"));
        }
        if request.revision != revision {
            return Err(Rejected::RequestRevision { id, now: request.revision, given: revision });
        }
        if self.spec.adopted.as_ref().is_some_and(|adopted| adopted.pane.is_none()) {
            return Err(Rejected::NoWayIn);
        }
        if self.is_settled_there(request) {
            return Err(match (&self.spec.adopted, self.has_ended()) {
                (Some(_), _) => Rejected::NotTouched,
                (None, true) => Rejected::NotRunning,
                (None, false) => Rejected::AtItsScreen(id),
            });
        }
        request.asked.check(reply).map_err(|misfit| Rejected::Misfit(id, misfit))?;
        // It would reach neither the ending process nor a later one.
        if self.current_launch().is_some_and(Launch::is_being_ended) {
            return Err(Rejected::BeingStopped(id));
        }
        let mut events = vec![
            RequestSettled { request: id, fate: Fate::Answered, cursor: None }.into(),
            answer_to(request, reply).into(),
        ];
        if self.has_ended() {
            // Provost cannot restart an external agent.
            if self.spec.adopted.is_some() {
                return Err(Rejected::NotRunning);
            }
            events.push(LaunchOwed { launch: self.next_launch(), why: LaunchWhy::Answer }.into());
        }
        Ok(events)
    }

    fn raise_budget(&self, tokens: Option<u64>, turns: Option<u32>) -> Decision {
        let Budget { tokens: have_tokens, turns: have_turns } = self.budget;
        let less = |what: &str, now: u64| Err(Rejected::BudgetNotRaised(format!("{now} {what}")));
        match (have_tokens, tokens, have_turns, turns) {
            (Some(now), Some(given), _, _) if given <= now => less("tokens", now),
            (_, _, Some(now), Some(given)) if given <= now => less("turns", now.into()),
            (_, None, _, None) => Err(Rejected::Nothing),
            _ => one(BudgetRaised { tokens, turns }),
        }
    }

    fn lose_message(&self, key: &str, reason: &str) -> Decision {
        if !self.is_queued(key) {
            return Err(Rejected::Nothing);
        }
        let lost = MessageLost { key: key.to_owned(), reason: reason.to_owned() };
        Ok(std::iter::once(lost.into()).chain(self.ask_again(key).map(Event::from)).collect())
    }

    /// Reopens the question of a secret answer that was never delivered, because the answer is not
    /// stored.
    fn ask_again(&self, key: &str) -> Option<RequestOpened> {
        let message = self.messages.iter().find(|message| message.key == key)?;
        let request = self.requests.iter().find(|request| Some(request.id) == message.request)?;
        let launch = self.current_launch()?;
        request.asked.is_secret().then(|| RequestOpened {
            request: request.id,
            launch: launch.id,
            asked: request.asked.clone(),
            revision: request.revision + 1,
            cursor: launch.cursor,
        })
    }

    fn send(&self, key: &str, text: &str, mode: SendMode) -> Decision {
        if self.messages.iter().filter(|m| m.fate == MessageFate::Queued).count() >= MAX_QUEUED {
            return Err(Rejected::QueueFull(MAX_QUEUED));
        }
        let sealed = self.attempt().is_sealed();
        let agent = &self.spec.agent;
        let alive = self.launches.last().is_some_and(Launch::may_live);
        let instructs = mode != SendMode::Continue || sealed;
        if self.work == WorkState::Removed {
            return Err(Rejected::PlaceGone(self.spec.work.branch().map(str::to_owned)));
        }
        if self.store_removed && self.thread.is_some() {
            return Err(Rejected::ConversationGone);
        }
        if instructs && let Some(used_up) = self.used_up() {
            return Err(Rejected::BudgetUsedUp(used_up));
        }
        // One-shot work takes no input while it runs, but its conversation can be resumed.
        if agent.driver == super::Driver::CodexExec && sealed && !alive && self.thread.is_some() {
            let instruction = Some(text.to_owned());
            return one(AttemptOpened { no: self.attempt().no + 1, instruction });
        }
        if agent.driver == super::Driver::CodexExec {
            let refused = if sealed && !alive { Rejected::WorkedOnce } else { Rejected::WorksOnce };
            return Err(refused(agent.name.clone()));
        }
        match &self.spec.adopted {
            Some(_) if !alive && !self.launches.is_empty() => return Err(Rejected::EndedElsewhere),
            Some(adopted) if adopted.pane.is_none() => return Err(Rejected::NoWayIn),
            Some(_) if !alive => return Err(Rejected::NotRunning),
            Some(_) if !agent.listens() => return Err(Rejected::Unrecorded),
            Some(_) | None => {}
        }
        if !agent.listens() || (instructs && !agent.driver.has_protocol()) {
            return Err(Rejected::TakesNoInstruction(agent.name.clone()));
        }
        if !agent.driver.has_protocol() && !alive {
            return Err(Rejected::NotRunning);
        }
        sayable(agent.driver, text)?;
        let message = MessageQueued {
            key: key.to_owned(),
            kind: MessageKind::Steer,
            text: text.to_owned(),
            request: None,
            reply: None,
        };
        let next = AttemptOpened { no: self.attempt().no + 1, instruction: Some(text.to_owned()) };
        if mode == SendMode::NewThread {
            return self.begin_anew(next);
        }
        match (mode, sealed) {
            (SendMode::Continue, false) if self.attempt().cancelled.is_some() => {
                Err(Rejected::Cancelled)
            }
            (SendMode::Continue, false) if self.messages.iter().any(|m| m.key == key) => {
                Err(Rejected::Nothing)
            }
            (SendMode::Continue, false) if self.ends_unheard() => Err(Rejected::EndsUnheard),
            (SendMode::Continue, false) => Ok(self.steer(message)),
            (SendMode::Continue | SendMode::Supersede | SendMode::NewThread, true) => one(next),
            (SendMode::Supersede | SendMode::NewThread, false) => {
                let mut events = self.superseded();
                events.push(next.into());
                Ok(events)
            }
        }
    }

    fn superseded(&self) -> Vec<Event> {
        let since = self.attempt().since;
        let superseded = AttemptSuperseded {}.into();
        let mut after = self.clone();
        after.evolve(since, &superseded);
        vec![superseded, after.seal(since).into()]
    }

    /// Opens the next attempt in a new conversation, which needs another process.
    fn begin_anew(&self, next: AttemptOpened) -> Decision {
        if !self.spec.agent.driver.begins_threads() {
            return Err(Rejected::OneThread(self.spec.agent.name.clone()));
        }
        let open = !self.attempt().is_sealed();
        let mut events = if open { self.superseded() } else { Vec::new() };
        let running = self.launches.last().filter(|launch| launch.may_be_ended());
        events.extend(running.map(|one| self.stop_launch(one.id, StopWhy::Finished).into()));
        events.extend([ThreadLeft {}.into(), next.into()]);
        Ok(events)
    }

    /// Assigns another task. Only a finished conversation takes one.
    fn assign(&self, key: &str, text: &str, assignment: &Assignment) -> Decision {
        if !self.attempt().is_sealed() {
            return Err(Rejected::AtWork);
        }
        let mut events = vec![TaskAssigned { assignment: assignment.clone() }.into()];
        events.extend(self.send(key, text, SendMode::Continue)?);
        Ok(events)
    }

    /// Queues a message. An agent that ended while it waited is resumed by any message, not only by an
    /// answer.
    fn steer(&self, message: MessageQueued) -> Vec<Event> {
        let mut events = vec![message.into()];
        if self.has_ended() && self.judge_facts().state == State::NeedsInput {
            events.push(LaunchOwed { launch: self.next_launch(), why: LaunchWhy::Answer }.into());
        }
        events
    }

    /// Whether the operator's stop takes precedence: a message now would reach neither the ending
    /// process nor a later one.
    pub(crate) fn ends_unheard(&self) -> bool {
        let by_operator =
            |stop: Stop| stop.why == StopWhy::Operator && stop.step != StopStep::GivenUp;
        let stopped = self.current_launch().is_some_and(|one| one.stop.is_some_and(by_operator));
        let resumed_by_it = self.has_ended() && self.judge_facts().state == State::NeedsInput;
        stopped && !resumed_by_it
    }

    /// Whether the operator stopped its process, and it was not resumed since.
    pub fn was_stopped(&self) -> bool {
        self.stopped_for() == Some(StopWhy::Operator)
    }

    /// Returns the reason Provost stopped its process, if it did.
    pub fn stopped_for(&self) -> Option<StopWhy> {
        Some(self.current_launch()?.stop?.why)
    }

    fn stop(&self) -> Decision {
        let launch = self.launches.last().filter(|l| l.may_live()).ok_or(Rejected::NotRunning)?;
        match launch.stop {
            _ if launch.adopted => Err(Rejected::NotOurs),
            Some(_) => Err(Rejected::Nothing),
            None => {
                let stop = self.stop_launch(launch.id, StopWhy::Operator).into();
                Ok(std::iter::once(stop).chain(self.void_approvals()).collect())
            }
        }
    }

    /// Ends a session that was opened for a team that has ended. Sessions that the user spawned or
    /// adopted stay.
    fn dismiss(&self, because: &str, at_once: bool) -> Decision {
        if !self.is_member() || self.spec.adopted.is_some() {
            return Err(Rejected::NotOurs);
        }
        if self.launches.last().is_some_and(Launch::may_live) {
            let dismissed = SessionDismissed { because: because.to_owned(), at_once };
            return if_new(self.dismissed.is_none(), dismissed);
        }
        // A process that has not started is not started any more.
        if self.attempt().shown.is_terminal() || self.attempt().is_sealed() {
            return Err(Rejected::Nothing);
        }
        self.cancel(because)
    }

    /// Voids open approvals, which only the ending process could have used.
    pub(super) fn void_approvals(&self) -> impl Iterator<Item = Event> {
        let approvals = self.open_requests().filter(|r| r.asked.kind == RequestKind::Approval);
        approvals.map(|r| RequestSettled { request: r.id, fate: Fate::Void, cursor: None }.into())
    }

    /// Voids the requests of an external agent that ended. They existed only on its screen, and Provost
    /// does not resume it.
    fn void_with_its_screen(&self, launch: &Launch) -> impl Iterator<Item = Event> {
        let (id, adopted) = (launch.id, launch.adopted);
        let asked = self.open_requests().filter(move |r| adopted && r.launch == id);
        asked.map(|r| RequestSettled { request: r.id, fate: Fate::Void, cursor: None }.into())
    }

    pub(super) fn stop_launch(&self, launch: LaunchId, why: StopWhy) -> StopAsked {
        let polite = self.spec.agent.driver.has_protocol();
        let step = if polite { StopStep::Interrupt } else { StopStep::Terminate };
        StopAsked { launch, why, step }
    }

    fn cancel(&self, because: &str) -> Decision {
        let attempt = self.attempt();
        if attempt.is_sealed() {
            return Err(Rejected::Sealed(self.judgement().state.word()));
        }
        if_new(attempt.cancelled.is_none(), AttemptCancelled { because: because.to_owned() })
    }

    fn resolve(&self, to: Resolve, because: &str) -> Vec<Event> {
        let (state, cause) = match to {
            Resolve::Accepted => (State::Accepted, None),
            Resolve::Failed => (State::Failed, None),
            Resolve::Cancelled => (State::Cancelled, None),
        };
        vec![AttemptResolved { state, cause, because: because.to_owned() }.into()]
    }

    pub(super) fn next_launch(&self) -> LaunchId {
        LaunchId { session: self.id, no: self.launches.len() as u32 + 1 }
    }

    fn known(&self, id: LaunchId) -> Result<&Launch, Rejected> {
        self.launch(id).ok_or(Rejected::UnknownLaunch(id))
    }

    fn sight(&self, id: LaunchId) -> Result<Option<Sight>, Rejected> {
        Ok(match &self.known(id)?.phase {
            LaunchPhase::Running { sight, .. } => Some(*sight),
            LaunchPhase::Owed
            | LaunchPhase::Ended { .. }
            | LaunchPhase::Unobserved { .. }
            | LaunchPhase::Failed { .. } => None,
        })
    }

    fn is_queued(&self, key: &str) -> bool {
        self.messages.iter().any(|m| m.key == key && m.fate == MessageFate::Queued)
    }
}
