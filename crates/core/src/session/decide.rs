//! Command handlers. They are pure: the same session, command and time always produce the same events.

mod ending;
mod observation;
mod request_answers;
mod send;
mod stream;

use super::{
    close_imported::is_allowed_for_foreign,
    command::{SessionCommand, SessionRejection},
    event::*,
    launch::{Launch, LaunchPhase, Visibility},
    state::{AgentMessageKind, Budget, Session},
};
use crate::{
    ids::LaunchId,
    request::{Request, RequestReply},
    time::Moment,
};

pub(super) type CommandResult = Result<Vec<Event>, SessionRejection>;

pub(super) fn one_event(event: impl Into<Event>) -> CommandResult {
    Ok(vec![event.into()])
}

/// Returns the event if it is new, and rejects the command otherwise.
pub(super) fn if_new(new: bool, event: impl Into<Event>) -> CommandResult {
    if new { one_event(event) } else { Err(SessionRejection::NothingNew) }
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
            SessionCommand::WorkPrepared { cwd, base } => self.work_prepared(cwd, base.as_ref()),
            SessionCommand::WorkFailed { reason } => self.work_failed(reason),
            SessionCommand::WorkRemoved => self.work_removed(),
            SessionCommand::ConversationRemoved => self.conversation_removed(),
            SessionCommand::SetupFinished { attempt, failure } => {
                self.setup_finished(*attempt, failure.as_deref())
            }
            SessionCommand::LaunchStarted { launch, holder, child } => {
                self.launch_started(*launch, holder, child)
            }
            SessionCommand::LaunchAdopted { launch, child } => {
                self.launch_adopted(*launch, child.as_ref())
            }
            SessionCommand::LaunchFailed { launch, reason } => self.launch_failed(*launch, reason),
            SessionCommand::LaunchFollowed { launch } => self.launch_followed(*launch),
            SessionCommand::ProcessEnded { launch, end, by } => {
                self.process_ended(*launch, *end, *by)
            }
            SessionCommand::ProcessUnobserved { launch, why } => {
                self.process_unobserved(*launch, why)
            }
            SessionCommand::ProcessUnknown { launch, why } => self.process_unknown(*launch, why),
            SessionCommand::ProcessSeen { launch } => self.process_seen(*launch),
            SessionCommand::ProcessSuspended { launch, suspended } => {
                self.process_suspended(*launch, *suspended)
            }
            SessionCommand::ViewersChanged { launch, people } => {
                self.viewers_changed(*launch, *people)
            }
            SessionCommand::ProcessTreeGone { launch, leftovers, verified } => {
                self.process_tree_gone(*launch, *leftovers, *verified)
            }
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
            SessionCommand::OutputAtLimit { launch } => self.output_at_limit(*launch),
            SessionCommand::OutputDiskFull { launch, dir } => self.output_disk_full(*launch, dir),
            SessionCommand::OutputResumed { launch } => self.output_resumed(*launch),
            SessionCommand::OutputLost { launch, cursor } => self.output_lost(*launch, *cursor),
            SessionCommand::RecordForged { effect, moved_to } => {
                one_event(RecordForged { effect: effect.clone(), moved_to: moved_to.clone() })
            }
            SessionCommand::ReportRefused { launch } => {
                self.mark_reports_refused(self.known_launch(*launch)?)
            }
            SessionCommand::SnapshotTaken { attempt, no, snapshot, caveats } => {
                self.snapshot_taken(*attempt, *no, snapshot, caveats)
            }
            SessionCommand::SnapshotFailed { attempt, no, reason } => {
                self.snapshot_failed(*attempt, *no, reason)
            }
            SessionCommand::CheckFinished { attempt, receipt } => {
                self.check_finished(*attempt, receipt)
            }
            SessionCommand::HookFinished { key, end } => self.hook_finished(*key, end),
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
                self.count_team_command(*launch, *bytes)
            }
            SessionCommand::Interrupt { key, text } => self.interrupt(key, text.as_deref()),
            SessionCommand::Compact { key } => self.compact(key),
            SessionCommand::Stop => self.stop(),
            SessionCommand::Dismiss { because, at_once } => self.dismiss(because, *at_once),
            SessionCommand::Cancel { because } => self.cancel(because),
            SessionCommand::Resolve { to, because } => Ok(self.resolve(*to, because)),
            SessionCommand::Rename { name } => self.rename(name),
            SessionCommand::TakeOver => self.take_over(),
            SessionCommand::RaiseLimit { bytes } => self.raise_output_limit(*bytes),
            SessionCommand::RaiseBudget { tokens, turns } => self.raise_budget(*tokens, *turns),
        }
    }

    fn rename(&self, name: &str) -> CommandResult {
        // A closed session can no longer be renamed.
        if self.is_closed() {
            return Err(SessionRejection::Sealed(self.state().as_str()));
        }
        if_new(name != self.spec.name, SessionRenamed { name: name.to_owned() })
    }

    fn take_over(&self) -> CommandResult {
        if self.is_foreign() { one_event(SessionTakenOver {}) } else { Ok(vec![]) }
    }

    fn raise_output_limit(&self, bytes: u64) -> CommandResult {
        if bytes > self.output_limit {
            one_event(LimitRaised { bytes })
        } else {
            Err(SessionRejection::LimitNotRaised { now: self.output_limit })
        }
    }

    fn raise_budget(&self, tokens: Option<u64>, turns: Option<u32>) -> CommandResult {
        let Budget { tokens: have_tokens, turns: have_turns } = self.spending.budget;
        let less =
            |what: &str, now: u64| Err(SessionRejection::BudgetNotRaised(format!("{now} {what}")));
        match (have_tokens, tokens, have_turns, turns) {
            (Some(now), Some(given), _, _) if given <= now => less("tokens", now),
            (_, _, Some(now), Some(given)) if given <= now => less("turns", now.into()),
            (_, None, _, None) => Err(SessionRejection::NothingNew),
            _ => one_event(BudgetRaised { tokens, turns }),
        }
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
}
