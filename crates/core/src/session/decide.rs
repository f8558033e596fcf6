//! Command handlers. They are pure: the same session, command and time always produce the same events.

mod request_answers;

use super::{
    attempt::{ClaimSource, ReportStatus},
    close_imported::is_allowed_for_foreign,
    command::{
        ManualOutcome, ReportBody, Reporter, SendMode, SessionCommand, SessionRejection,
        StreamSignal,
    },
    event::*,
    launch::{
        Cursor, Launch, LaunchPhase, LaunchReason, ReportUsage, StopProgress, StopReason, StopStep,
        Visibility,
    },
    spec::Assignment,
    state::{AgentMessageKind, Budget, DeliveryStatus, Progress, Session, SetupState, WorkState},
    typing::check_typeable,
};
use crate::{
    ids::{LaunchId, RequestId},
    lifecycle::{ClaimKind, State},
    limits::{MAX_OPEN_REQUESTS, MAX_QUEUED, MAX_SAYS, MAX_WARNINGS},
    request::{AgentRequest, Request, RequestKind, RequestReply, RequestStatus},
    rules::rules,
    text::shortened,
    time::Moment,
};

type CommandResult = Result<Vec<Event>, SessionRejection>;

fn one_event(event: impl Into<Event>) -> CommandResult {
    Ok(vec![event.into()])
}

/// Returns the event if it is new, and rejects the command otherwise.
fn if_new(new: bool, event: impl Into<Event>) -> CommandResult {
    if new { one_event(event) } else { Err(SessionRejection::NothingNew) }
}

/// Closes a launch whose holder reported the end of the process and then exited. Nothing more will
/// be reported about the stream or the process tree.
fn close_after_holder_exit(launch: &Launch) -> CommandResult {
    let (id, cursor) = (launch.id, launch.cursor);
    let closed = launch.stream.closed.is_none().then(|| StreamClosed { launch: id, cursor }.into());
    let gone = launch
        .gone
        .is_none()
        .then(|| ProcessTreeReaped { launch: id, leftovers: 0, verified: false }.into());
    if rules().closes_with_holder(launch.is_followed()) {
        Ok(closed.into_iter().chain(gone).collect())
    } else {
        Err(SessionRejection::NothingNew)
    }
}

/// Builds the message that contains an answer. A secret is omitted, because it reaches the agent
/// without passing through the ledger.
pub(super) fn answer_message(request: &Request, reply: &RequestReply) -> MessageQueued {
    MessageQueued {
        key: format!("answer-{}-{}", request.id.no, request.revision),
        kind: AgentMessageKind::Answer,
        text: String::new(),
        request: Some(request.id),
        reply: (!request.asked.is_secret()).then(|| reply.clone()),
    }
}

impl Session {
    /// Handles a command: returns the resulting events, or why the command is rejected.
    pub fn decide(&self, command: &SessionCommand, now: Moment) -> CommandResult {
        if self.is_foreign() && !is_allowed_for_foreign(command) {
            return Err(SessionRejection::Imported(self.spec.agent.argv.join(" ")));
        }
        match command {
            SessionCommand::WorkPrepared { .. }
            | SessionCommand::WorkFailed { .. }
            | SessionCommand::WorkRemoved
            | SessionCommand::ConversationRemoved
            | SessionCommand::SetupFinished { .. } => self.decide_work(command),
            SessionCommand::LaunchStarted { .. }
            | SessionCommand::LaunchFailed { .. }
            | SessionCommand::LaunchFollowed { .. }
            | SessionCommand::ProcessEnded { .. }
            | SessionCommand::ProcessUnknown { .. }
            | SessionCommand::ProcessSeen { .. }
            | SessionCommand::ProcessSuspended { .. }
            | SessionCommand::LaunchAdopted { .. }
            | SessionCommand::ViewersChanged { .. }
            | SessionCommand::ProcessUnobserved { .. }
            | SessionCommand::ProcessTreeGone { .. } => self.decide_process(command),
            SessionCommand::Observed { launch, signal, cursor } => {
                self.observe(*launch, signal, *cursor)
            }
            SessionCommand::RecordRead { launch, by, place, what } => {
                self.decide_record(*launch, *by, *place, what)
            }
            SessionCommand::ScreenHinted { launch, by, place, what } => {
                self.decide_hint(*launch, *by, *place, what)
            }
            SessionCommand::PaneSeen { launch, sight } => self.decide_pane(*launch, *sight),
            SessionCommand::TypingChanged { launch, key, state } => {
                self.decide_typing(*launch, key, *state)
            }
            SessionCommand::OutputAtLimit { launch } => {
                let launch = self.known_launch(*launch)?;
                if_new(!launch.at_limit, OutputAtLimit { launch: launch.id })
            }
            SessionCommand::OutputDiskFull { launch, dir } => {
                let known = self.known_launch(*launch)?;
                let new = known.disk_full.is_none();
                if_new(new, OutputDiskFull { launch: *launch, dir: dir.clone() })
            }
            SessionCommand::OutputResumed { launch } => if_new(
                self.known_launch(*launch)?.disk_full.is_some(),
                OutputResumed { launch: *launch },
            ),
            SessionCommand::OutputLost { launch, cursor } => {
                let launch = self.known_launch(*launch)?;
                let (launch, new) = (launch.id, !launch.output_lost);
                if_new(new, OutputLost { launch, cursor: *cursor })
            }
            SessionCommand::RecordForged { effect, moved_to } => {
                one_event(RecordForged { effect: effect.clone(), moved_to: moved_to.clone() })
            }
            SessionCommand::ReportRefused { launch } => {
                self.mark_reports_refused(self.known_launch(*launch)?)
            }
            SessionCommand::SnapshotTaken { .. }
            | SessionCommand::SnapshotFailed { .. }
            | SessionCommand::CheckFinished { .. } => self.decide_evidence(command),
            SessionCommand::HookFinished { key, end } => {
                let pending = self.hooks.iter().any(|hook| hook.key == *key);
                if_new(pending, HookFinished { key: *key, end: end.clone() })
            }
            SessionCommand::EffectShortage { effect, tries, shortage } => {
                self.decide_shortage(effect, *tries, shortage)
            }
            SessionCommand::MessageLost { key, reason } => self.drop_message(key, reason),
            SessionCommand::Silence { launch, heard_ms } => {
                self.decide_silence(*launch, *heard_ms, now)
            }
            SessionCommand::Tick => Ok(vec![]),
            SessionCommand::Report { from, testimony } => self.report(*from, testimony, None),
            SessionCommand::Send { key, text, mode } => self.send(key, text, *mode),
            SessionCommand::Assign { key, text, assignment } => self.assign(key, text, assignment),
            SessionCommand::Answer { request, revision, reply } => {
                self.answer(*request, *revision, reply)
            }
            SessionCommand::ToolCalled { launch, native, call } => {
                self.decide_call(*launch, native, call, None)
            }
            SessionCommand::AnswerCall { no, ok, text } => self.answer_call(*no, *ok, text),
            SessionCommand::CountTeamCommand { launch, bytes } => {
                let known = self.known_launch(*launch)?;
                if !known.reports.has_room_for(usize::try_from(*bytes).unwrap_or(usize::MAX)) {
                    return Err(SessionRejection::ReportBudget { launch: *launch });
                }
                one_event(TeamCommandCounted { launch: *launch, bytes: *bytes })
            }
            SessionCommand::Interrupt { key, text } => self.interrupt(key, text.as_deref()),
            SessionCommand::Compact { key } => self.compact(key),
            SessionCommand::Stop => self.stop(),
            SessionCommand::Dismiss { because, at_once } => self.dismiss(because, *at_once),
            SessionCommand::Cancel { because } => self.cancel(because),
            SessionCommand::Resolve { to, because } => Ok(self.resolve(*to, because)),
            // A closed session can no longer be renamed.
            SessionCommand::Rename { .. } if self.is_closed() => {
                Err(SessionRejection::Sealed(self.state().as_str()))
            }
            SessionCommand::Rename { name } => {
                if_new(*name != self.spec.name, SessionRenamed { name: name.clone() })
            }
            SessionCommand::TakeOver if self.is_foreign() => one_event(SessionTakenOver {}),
            SessionCommand::TakeOver => Ok(vec![]),
            SessionCommand::RaiseLimit { bytes } if *bytes > self.output_limit => {
                one_event(LimitRaised { bytes: *bytes })
            }
            SessionCommand::RaiseLimit { .. } => {
                Err(SessionRejection::LimitNotRaised { now: self.output_limit })
            }
            SessionCommand::RaiseBudget { tokens, turns } => self.raise_budget(*tokens, *turns),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "decide() is the exhaustive match")]
    fn decide_work(&self, command: &SessionCommand) -> CommandResult {
        let pending = self.work == WorkState::Pending;
        match command.clone() {
            SessionCommand::WorkPrepared { cwd, base } => {
                if_new(pending, WorkPrepared { cwd, base })
            }
            SessionCommand::WorkFailed { reason } => if_new(pending, WorkFailed { reason }),
            SessionCommand::WorkRemoved => {
                let exists = self.work != WorkState::Removed;
                if_new(exists && self.attempt().is_sealed(), WorkRemoved {})
            }
            SessionCommand::ConversationRemoved => if_new(
                !self.conversation_deleted && self.attempt().is_sealed(),
                ConversationDeleted {},
            ),
            SessionCommand::SetupFinished { attempt, failure } => {
                let pending = self.setup == SetupState::Pending && self.setup_for == attempt;
                if_new(pending, SetupFinished { failure })
            }
            _ => unreachable!("decide() sends only commands about the worktree here"),
        }
    }

    /// Records what the kernel and the holder report. The end of a process is recorded once and
    /// never revised.
    #[expect(clippy::wildcard_enum_match_arm, reason = "decide() is the exhaustive match")]
    fn decide_process(&self, command: &SessionCommand) -> CommandResult {
        match command.clone() {
            SessionCommand::LaunchStarted { launch, holder, child } => {
                let pending = self.known_launch(launch)?.phase == LaunchPhase::Pending;
                if_new(pending, LaunchStarted { launch, holder, child })
            }
            SessionCommand::LaunchAdopted { launch, child } => {
                let pending = self.known_launch(launch)?.phase == LaunchPhase::Pending;
                if_new(pending && self.spec.adopted.is_some(), LaunchAdopted { launch, child })
            }
            SessionCommand::LaunchFailed { launch, reason } => {
                let pending = self.known_launch(launch)?.phase == LaunchPhase::Pending;
                if_new(pending, LaunchFailed { launch, reason })
            }
            SessionCommand::LaunchFollowed { launch } => {
                let waits = self.handshaking_launch().is_some_and(|waiting| waiting.id == launch);
                if_new(waits, LaunchFollowed { launch })
            }
            SessionCommand::ProcessEnded { launch, end, by } => if_new(
                self.known_launch(launch)?.may_be_running(),
                ProcessEnded { launch, end, by },
            ),
            SessionCommand::ProcessUnobserved { launch, why } => match self.known_launch(launch)? {
                known if known.may_be_running() => {
                    let ended = ProcessUnobserved { launch, why }.into();
                    Ok(std::iter::once(ended).chain(self.void_screen_requests(known)).collect())
                }
                known => close_after_holder_exit(known),
            },
            SessionCommand::ProcessUnknown { launch, why } => {
                let seen = self.visibility(launch)? == Some(Visibility::Seen);
                if_new(seen, ProcessUnknown { launch, why })
            }
            SessionCommand::ProcessSeen { launch } => {
                let unknown = self.visibility(launch)? == Some(Visibility::Unknown);
                if_new(unknown, ProcessSeen { launch })
            }
            SessionCommand::ProcessSuspended { launch, suspended } => {
                let known = self.known_launch(launch)?;
                let new = known.watch.suspended != suspended && known.may_be_running();
                if_new(new, ProcessSuspended { launch, suspended })
            }
            SessionCommand::ViewersChanged { launch, people } => {
                let new = self.known_launch(launch)?.viewers != people;
                if_new(new, ViewersChanged { launch, viewers: people })
            }
            SessionCommand::ProcessTreeGone { launch, leftovers, verified } => {
                let known = self.known_launch(launch)?;
                let new = known.has_ended() && known.gone.is_none();
                if_new(new, ProcessTreeReaped { launch, leftovers, verified })
            }
            _ => unreachable!("decide() sends only commands about a process here"),
        }
    }

    /// Records a snapshot or a receipt if it belongs to the evidence that is currently needed.
    #[expect(clippy::wildcard_enum_match_arm, reason = "decide() is the exhaustive match")]
    fn decide_evidence(&self, command: &SessionCommand) -> CommandResult {
        // Evidence is about a tree, so it counts even if a question was opened in the meantime. An
        // effect with the same key would not be reported a second time.
        let open = !self.attempt().is_sealed() && !self.attempt().is_decided();
        match command.clone() {
            SessionCommand::SnapshotTaken { attempt, no, snapshot, caveats } => {
                let wanted = open && self.needs_snapshot(attempt, no);
                if_new(wanted, SnapshotTaken { snapshot, caveats })
            }
            SessionCommand::SnapshotFailed { attempt, no, reason } => {
                if_new(open && self.needs_snapshot(attempt, no), SnapshotFailed { reason })
            }
            SessionCommand::CheckFinished { attempt, receipt } => {
                let verifying = &self.attempt().verifying;
                let tree = verifying.snapshot.as_ref().map(|snapshot| &snapshot.tree);
                let same = |r: &crate::verdict::Receipt| r.command == receipt.command;
                let about_it = tree.is_some_and(|tree| rules().is_about_tree(&receipt.tree, tree));
                let new = about_it && !verifying.receipts.iter().any(same);
                if_new(new && open && attempt == self.attempt().no, CheckFinished { receipt })
            }
            _ => unreachable!("decide() sends only commands about evidence here"),
        }
    }

    /// Records an observation on a stream. Everything before the cursor has already been recorded,
    /// so nothing is recorded twice.
    fn observe(&self, id: LaunchId, signal: &StreamSignal, cursor: Cursor) -> CommandResult {
        let launch = self.known_launch(id)?;
        if let StreamSignal::InputWritten { key } = signal {
            // The cursor counts lines of output only. Input has a key instead of a position.
            return self.input_seen(key, id);
        }
        let folded = rules().is_folded(cursor, launch.cursor);
        if folded && *signal != StreamSignal::Closed {
            return Err(SessionRejection::NothingNew);
        }
        match signal.clone() {
            StreamSignal::Ready { thread } => one_event(StreamReady { launch: id, thread, cursor }),
            StreamSignal::TurnStarted { turn } => {
                one_event(TurnStarted { launch: id, turn, cursor })
            }
            StreamSignal::TurnEnded { turn, end, usage, says } => {
                let says = says.map(|says| shortened(&says, MAX_SAYS));
                one_event(TurnEnded { launch: id, turn, end, usage, says, cursor })
            }
            StreamSignal::Refused { reason } => {
                one_event(StreamRefused { launch: id, reason, cursor })
            }
            StreamSignal::Unreachable { reason } => {
                one_event(StreamUnreachable { launch: id, reason, cursor })
            }
            StreamSignal::Goal { active } => {
                if_new(launch.stream.goal != active, GoalChanged { launch: id, active, cursor })
            }
            StreamSignal::MessageRefused { key, reason, busy } => {
                self.decide_refusal(launch, &key, &reason, busy, cursor)
            }
            StreamSignal::Warned { text } => {
                let new = !self.warnings.contains(&text) && self.warnings.len() < MAX_WARNINGS;
                if_new(new, AgentWarned { launch: id, text, cursor })
            }
            StreamSignal::Reported(testimony) => self.report_on_stream(id, &testimony, cursor),
            StreamSignal::ClaimWithResult { kind, text, result } => {
                let status = self.result_status(id);
                let claim = ReportBody::Claim { kind, text };
                let mut events = self.report_on_stream(id, &claim, cursor)?;
                if let [Event::Report(ReportEvent::ReportsRefused(_))] = events.as_slice() {
                    return Ok(events);
                }
                events.push(ResultReported { launch: id, result, status, cursor }.into());
                Ok(events)
            }
            StreamSignal::RequestOpened(_) if self.open_requests().count() >= MAX_OPEN_REQUESTS => {
                Err(SessionRejection::NothingNew)
            }
            StreamSignal::RequestOpened(asked) => one_event(self.request_opened(id, asked, cursor)),
            StreamSignal::ToolCalled { native, call } => {
                self.decide_call(id, &native, &call, Some(cursor))
            }
            StreamSignal::RequestWithdrawn { native } => self.withdraw(id, &native, cursor),
            StreamSignal::ItemFinished { native, done } => {
                self.compare_outcome(id, &native, done, cursor)
            }
            StreamSignal::Progress(progress) => {
                one_event(ProgressReported { launch: id, progress, cursor: Some(cursor) })
            }
            StreamSignal::Usage(usage) => one_event(UsageReported { launch: id, usage, cursor }),
            StreamSignal::Context(context) => if_new(
                self.context != Some(context),
                ContextReported { launch: id, context, cursor },
            ),
            StreamSignal::Compacted => one_event(ContextCompacted { launch: id, cursor }),
            StreamSignal::CompactionFailed { reason } => {
                let asked = self.compacting().is_some_and(|asked| asked.launch == id);
                if_new(asked, CompactionFailed { launch: id, reason, cursor: Some(cursor) })
            }
            StreamSignal::Retrying { detail } => {
                one_event(StreamRetrying { launch: id, detail, cursor })
            }
            StreamSignal::Oversized { bytes } => {
                one_event(OutputOversized { launch: id, bytes, cursor })
            }
            StreamSignal::InputWritten { .. } => Err(SessionRejection::NothingNew),
            StreamSignal::Closed => {
                if_new(launch.stream.closed.is_none(), StreamClosed { launch: id, cursor })
            }
        }
    }

    fn decide_silence(&self, id: LaunchId, heard_ms: u64, now: Moment) -> CommandResult {
        let launch = self.known_launch(id)?;
        let stream = &launch.stream;
        let due = heard_ms.saturating_add(self.spec.bounds.stale_ms);
        if heard_ms > stream.last_heard.mono_ms {
            return one_event(StreamHeard { launch: id, heard_ms });
        }
        let silent = now.mono_ms >= due && !stream.silent && launch.may_be_running();
        let silent = silent.then(|| StreamSilent { launch: id }.into());
        let events: Vec<Event> = silent.into_iter().chain(self.react_to_silence(now)).collect();
        if events.is_empty() { Err(SessionRejection::NothingNew) } else { Ok(events) }
    }

    /// Records a report. A report is never rejected because of the session's state, only because
    /// the launch has used up its budget.
    fn report(
        &self,
        from: Reporter,
        testimony: &ReportBody,
        cursor: Option<Cursor>,
    ) -> CommandResult {
        let launch = match from {
            Reporter::Launch(launch) | Reporter::DropBox(launch) => {
                Some(self.known_launch(launch)?.id)
            }
            Reporter::Operator => None,
        };
        let source = match from {
            Reporter::Launch(_) => ClaimSource::Agent,
            Reporter::DropBox(_) => ClaimSource::DropBox,
            Reporter::Operator => ClaimSource::Operator,
        };
        let counts = cursor.is_none() || !matches!(testimony, ReportBody::Progress(_));
        if counts
            && let Some(launch) = launch
            && !self.known_launch(launch)?.reports.has_room_for(testimony.len())
        {
            return Err(SessionRejection::ReportBudget { launch });
        }
        let status = self.report_status(launch, testimony);
        match testimony.clone() {
            ReportBody::Claim { kind, text } => {
                one_event(ClaimMade { launch, kind, source, text, status, cursor })
            }
            ReportBody::Fact { kind, value } => {
                one_event(FactReported { launch, fact: kind, value, status, cursor })
            }
            ReportBody::Progress(progress) => self.record_progress(launch, progress, cursor),
        }
    }

    /// Records a report that arrived on the stream. If it exceeds the budget, only the fact that it
    /// was rejected is recorded.
    fn report_on_stream(
        &self,
        id: LaunchId,
        testimony: &ReportBody,
        cursor: Cursor,
    ) -> CommandResult {
        match self.report(Reporter::Launch(id), testimony, Some(cursor)) {
            Err(SessionRejection::ReportBudget { launch }) => {
                self.mark_reports_refused(self.known_launch(launch)?)
            }
            decided => decided,
        }
    }

    /// Records, once, that a launch has used up its report budget.
    pub(super) fn mark_reports_refused(&self, launch: &Launch) -> CommandResult {
        let ReportUsage { count: reports, bytes, refused } = launch.reports;
        if_new(!refused, ReportsRefused { launch: launch.id, reports, bytes })
    }

    /// Records progress. Progress reported by an older launch is ignored.
    fn record_progress(
        &self,
        launch: Option<LaunchId>,
        progress: Progress,
        cursor: Option<Cursor>,
    ) -> CommandResult {
        let reporter = self.current_launch().ok_or(SessionRejection::NotRunning)?;
        if launch.is_some_and(|launch| launch != reporter.id) {
            return Err(SessionRejection::NothingNew);
        }
        one_event(ProgressReported { launch: reporter.id, progress, cursor })
    }

    fn result_status(&self, launch: LaunchId) -> ReportStatus {
        let current = self.current_launch().is_some_and(|one| one.id == launch);
        match (current, self.attempt().is_sealed()) {
            (false, _) => ReportStatus::Recorded,
            (true, true) => ReportStatus::RecordedLate,
            (true, false) => ReportStatus::Applied,
        }
    }

    fn report_status(&self, launch: Option<LaunchId>, testimony: &ReportBody) -> ReportStatus {
        let current = self.current_launch().map(|launch| launch.id);
        if rules().is_fenced_off(launch, current) {
            return ReportStatus::Recorded;
        }
        let sealed = rules().is_late_claim(self.attempt().is_sealed());
        match testimony {
            ReportBody::Fact { .. } | ReportBody::Progress(_) => ReportStatus::Applied,
            ReportBody::Claim { kind: ClaimKind::None | ClaimKind::Working, .. } => {
                let over = sealed || self.has_ended();
                if over { ReportStatus::Recorded } else { ReportStatus::Applied }
            }
            ReportBody::Claim {
                kind: ClaimKind::NeedsInput | ClaimKind::Completed | ClaimKind::Failed,
                ..
            } => {
                if sealed {
                    ReportStatus::RecordedLate
                } else {
                    ReportStatus::Applied
                }
            }
        }
    }

    pub(super) fn request_opened(
        &self,
        launch: LaunchId,
        asked: AgentRequest,
        cursor: Cursor,
    ) -> RequestOpened {
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

    fn raise_budget(&self, tokens: Option<u64>, turns: Option<u32>) -> CommandResult {
        let Budget { tokens: have_tokens, turns: have_turns } = self.budget;
        let less =
            |what: &str, now: u64| Err(SessionRejection::BudgetNotRaised(format!("{now} {what}")));
        match (have_tokens, tokens, have_turns, turns) {
            (Some(now), Some(given), _, _) if given <= now => less("tokens", now),
            (_, _, Some(now), Some(given)) if given <= now => less("turns", now.into()),
            (_, None, _, None) => Err(SessionRejection::NothingNew),
            _ => one_event(BudgetRaised { tokens, turns }),
        }
    }

    fn drop_message(&self, key: &str, reason: &str) -> CommandResult {
        if !self.is_queued(key) {
            return Err(SessionRejection::NothingNew);
        }
        let lost = MessageLost { key: key.to_owned(), reason: reason.to_owned() };
        Ok(std::iter::once(lost.into()).chain(self.reopen_question(key).map(Event::from)).collect())
    }

    /// Reopens a question if its secret answer was never delivered, because secret answers are not stored.
    fn reopen_question(&self, key: &str) -> Option<RequestOpened> {
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

    fn send(&self, key: &str, text: &str, mode: SendMode) -> CommandResult {
        if self.messages.iter().filter(|m| m.status == DeliveryStatus::Queued).count() >= MAX_QUEUED
        {
            return Err(SessionRejection::QueueFull(MAX_QUEUED));
        }
        let sealed = self.attempt().is_sealed();
        let agent = &self.spec.agent;
        let alive = self.launches.last().is_some_and(Launch::may_be_running);
        let instructs = mode != SendMode::Continue || sealed;
        if self.work == WorkState::Removed {
            return Err(SessionRejection::WorktreeRemoved(
                self.spec.work.branch().map(str::to_owned),
            ));
        }
        if self.conversation_deleted && self.thread.is_some() {
            return Err(SessionRejection::ConversationGone);
        }
        if instructs && let Some(used_up) = self.exhausted_budget() {
            return Err(SessionRejection::BudgetUsedUp(used_up));
        }
        // One-shot work accepts no input while it is running, but its conversation can be resumed later.
        if agent.interface.is_one_shot()
            && agent.interface.can_resume()
            && sealed
            && !alive
            && self.thread.is_some()
        {
            let instruction = Some(text.to_owned());
            return one_event(AttemptOpened { no: self.attempt().no + 1, instruction });
        }
        if agent.interface.is_one_shot() {
            let refused = if sealed && !alive {
                SessionRejection::OneShotWithoutConversation
            } else {
                SessionRejection::OneShotBusy
            };
            return Err(refused(agent.name.clone()));
        }
        match &self.spec.adopted {
            Some(_) if !alive && !self.launches.is_empty() => {
                return Err(SessionRejection::ExternalAgentEnded);
            }
            Some(adopted) if adopted.pane.is_none() => return Err(SessionRejection::NoChannel),
            Some(_) if !alive => return Err(SessionRejection::NotRunning),
            Some(_) if !agent.accepts_input() => return Err(SessionRejection::NoTranscript),
            Some(_) | None => {}
        }
        if !agent.accepts_input() || (instructs && !agent.interface.takes_instructions()) {
            return Err(SessionRejection::TakesNoInstruction(agent.name.clone()));
        }
        if !agent.interface.takes_instructions() && !alive {
            return Err(SessionRejection::NotRunning);
        }
        check_typeable(&agent.interface, text)?;
        let message = MessageQueued {
            key: key.to_owned(),
            kind: AgentMessageKind::Steer,
            text: text.to_owned(),
            request: None,
            reply: None,
        };
        let next = AttemptOpened { no: self.attempt().no + 1, instruction: Some(text.to_owned()) };
        if mode == SendMode::NewThread {
            return self.start_new_thread(next);
        }
        match (mode, sealed) {
            (SendMode::Continue, false) if self.attempt().cancelled.is_some() => {
                Err(SessionRejection::Cancelled)
            }
            (SendMode::Continue, false) if self.messages.iter().any(|m| m.key == key) => {
                Err(SessionRejection::NothingNew)
            }
            (SendMode::Continue, false) if self.is_stopped_first() => {
                Err(SessionRejection::StoppedFirst)
            }
            (SendMode::Continue, false) => Ok(self.steer(message)),
            (SendMode::Continue | SendMode::Supersede | SendMode::NewThread, true) => {
                one_event(next)
            }
            (SendMode::Supersede | SendMode::NewThread, false) => {
                let mut events = self.supersede();
                events.push(next.into());
                Ok(events)
            }
        }
    }

    fn supersede(&self) -> Vec<Event> {
        let since = self.attempt().since;
        let superseded = AttemptSuperseded {}.into();
        let mut after = self.clone();
        after.evolve(since, &superseded);
        vec![superseded, after.seal(since).into()]
    }

    /// Opens the next attempt in a new conversation, which requires a new process.
    fn start_new_thread(&self, next: AttemptOpened) -> CommandResult {
        if !self.spec.agent.interface.can_start_threads() {
            return Err(SessionRejection::CannotStartThread(self.spec.agent.name.clone()));
        }
        let open = !self.attempt().is_sealed();
        let mut events = if open { self.supersede() } else { Vec::new() };
        let running = self.launches.last().filter(|launch| launch.may_be_stopped());
        events.extend(running.map(|one| self.stop_launch(one.id, StopReason::Finished).into()));
        events.extend([ThreadRestarted {}.into(), next.into()]);
        Ok(events)
    }

    /// Assigns another task, which is possible only if the conversation has finished.
    fn assign(&self, key: &str, text: &str, assignment: &Assignment) -> CommandResult {
        if !self.attempt().is_sealed() {
            return Err(SessionRejection::AtWork);
        }
        let mut events = vec![TaskAssigned { assignment: assignment.clone() }.into()];
        events.extend(self.send(key, text, SendMode::Continue)?);
        Ok(events)
    }

    /// Queues a message. If the agent exited while it was waiting for input, any message resumes
    /// it, not only an answer.
    fn steer(&self, message: MessageQueued) -> Vec<Event> {
        let mut events = vec![message.into()];
        if self.has_ended() && self.judge_facts().state == State::NeedsInput {
            events.push(
                LaunchRequested { launch: self.next_launch(), why: LaunchReason::Answer }.into(),
            );
        }
        events
    }

    /// Whether the operator's stop must be handled before a message is sent. A message sent now
    /// would reach neither the process that is being stopped nor a later one.
    pub(crate) fn is_stopped_first(&self) -> bool {
        let by_operator =
            |stop: StopProgress| stop.why == StopReason::Operator && stop.step != StopStep::GivenUp;
        let stopped = self.current_launch().is_some_and(|one| one.stop.is_some_and(by_operator));
        let resumed_by_it = self.has_ended() && self.judge_facts().state == State::NeedsInput;
        stopped && !resumed_by_it
    }

    /// Whether the operator stopped the process and it has not been resumed since.
    pub fn was_stopped(&self) -> bool {
        self.stop_reason() == Some(StopReason::Operator)
    }

    /// Returns why Provost stopped the process, if it did.
    pub fn stop_reason(&self) -> Option<StopReason> {
        Some(self.current_launch()?.stop?.why)
    }

    fn stop(&self) -> CommandResult {
        let launch = self
            .launches
            .last()
            .filter(|l| l.may_be_running())
            .ok_or(SessionRejection::NotRunning)?;
        match launch.stop {
            _ if launch.adopted => Err(SessionRejection::StopExternally),
            Some(_) => Err(SessionRejection::NothingNew),
            None => {
                let stop = self.stop_launch(launch.id, StopReason::Operator).into();
                Ok(std::iter::once(stop).chain(self.void_approvals()).collect())
            }
        }
    }

    /// Ends a session that was opened for a team, because the team has finished. Sessions that the
    /// user spawned or adopted are kept.
    fn dismiss(&self, because: &str, at_once: bool) -> CommandResult {
        if !self.is_member() || self.spec.adopted.is_some() {
            return Err(SessionRejection::StopExternally);
        }
        let dismissed = SessionDismissed { because: because.to_owned(), at_once };
        if self.launches.last().is_some_and(Launch::may_be_running) {
            return if_new(self.dismissed.is_none(), dismissed);
        }
        // A process that has not started yet will not be started at all.
        if self.attempt().shown.is_terminal() || self.attempt().is_sealed() {
            return Err(SessionRejection::NothingNew);
        }
        let cancelled = self.cancel(because)?;
        Ok(std::iter::once(dismissed.into()).chain(cancelled).collect())
    }

    /// Voids open approval requests, because only the process that is ending could have used the answers.
    pub(super) fn void_approvals(&self) -> impl Iterator<Item = Event> {
        let approvals = self.open_requests().filter(|r| r.asked.kind == RequestKind::Approval);
        approvals.map(|r| {
            RequestSettled { request: r.id, status: RequestStatus::Void, cursor: None }.into()
        })
    }

    /// Voids the requests of an external agent whose process ended. They existed only on its
    /// screen, and Provost does not resume external agents.
    fn void_screen_requests(&self, launch: &Launch) -> impl Iterator<Item = Event> {
        let (id, adopted) = (launch.id, launch.adopted);
        let asked = self.open_requests().filter(move |r| adopted && r.launch == id);
        asked.map(|r| {
            RequestSettled { request: r.id, status: RequestStatus::Void, cursor: None }.into()
        })
    }

    pub(super) fn stop_launch(&self, launch: LaunchId, why: StopReason) -> StopRequested {
        let polite = self.spec.agent.interface.takes_instructions();
        let step = if polite { StopStep::Interrupt } else { StopStep::Terminate };
        StopRequested { launch, why, step }
    }

    fn cancel(&self, because: &str) -> CommandResult {
        let attempt = self.attempt();
        if attempt.is_sealed() {
            let state = self.judgement().state;
            // The attempt is already cancelled.
            let (name, ended) = (self.spec.name.clone(), state.as_str());
            let refused = SessionRejection::NothingToCancel { name, state: ended };
            return if state == State::Cancelled { Ok(Vec::new()) } else { Err(refused) };
        }
        if_new(attempt.cancelled.is_none(), AttemptCancelled { because: because.to_owned() })
    }

    fn resolve(&self, to: ManualOutcome, because: &str) -> Vec<Event> {
        let (state, cause) = match to {
            ManualOutcome::Accepted => (State::Accepted, None),
            ManualOutcome::Failed => (State::Failed, None),
            ManualOutcome::Cancelled => (State::Cancelled, None),
        };
        vec![AttemptResolved { state, cause, because: because.to_owned() }.into()]
    }

    pub(super) fn next_launch(&self) -> LaunchId {
        LaunchId { session: self.id, no: self.launches.len() as u32 + 1 }
    }

    fn known_launch(&self, id: LaunchId) -> Result<&Launch, SessionRejection> {
        self.launch(id).ok_or(SessionRejection::UnknownLaunch(id))
    }

    fn visibility(&self, id: LaunchId) -> Result<Option<Visibility>, SessionRejection> {
        Ok(match &self.known_launch(id)?.phase {
            LaunchPhase::Running { visibility: sight, .. } => Some(*sight),
            LaunchPhase::Pending
            | LaunchPhase::Ended { .. }
            | LaunchPhase::Unobserved { .. }
            | LaunchPhase::Failed { .. } => None,
        })
    }

    fn is_queued(&self, key: &str) -> bool {
        self.messages.iter().any(|m| m.key == key && m.status == DeliveryStatus::Queued)
    }
}
