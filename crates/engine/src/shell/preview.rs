//! Rows to show while the ledger cannot be written: sessions as they would be, and the machine's
//! shortages.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use provost_api::{SessionRow, ShortageRow, WhyFact};
use provost_core::{
    ids::SessionId,
    lifecycle::Flag,
    session::{Launch, LaunchPhase, Session, SessionCommand},
    shortage::{EffectWait, Resource, Shortage, retry_after_ms},
};
use provost_ledger::AppendError;

use super::{handle::Observation, owner::Owner, shortage, supervised_command};
use crate::{projection, stream::Subject};

impl Owner {
    /// Applies observations that could not be written, as if they had been. This way, a process
    /// that is known to have exited is not shown as alive just because its holder cannot record the
    /// exit.
    pub(super) fn preview_sessions(
        &self,
        observed: &[Observation],
    ) -> BTreeMap<SessionId, Session> {
        let is_short =
            self.write_shortage.is_some() || shortage::disk_shortage(self.home.root()).is_some();
        if !is_short && self.preview.is_empty() {
            return BTreeMap::new();
        }
        let mut turn = self.begin_turn();
        let unwritten = if is_short { observed } else { &[] };
        for observation in unwritten {
            let Observation::Session(id, commands) = observation else { continue };
            for command in commands {
                // An observation that is not new changes nothing.
                drop(turn.command(*id, command, "provost"));
            }
        }
        for session in self.board.sessions.iter() {
            // Once there is room again, holders take a moment to record the exits.
            if !is_short && !self.preview.contains_key(&session.id) {
                continue;
            }
            let Some(launch) = session.current_launch().map(|launch| launch.id) else { continue };
            if has_ended(session) {
                let unknown =
                    SessionCommand::ProcessUnknown { launch, why: EXIT_NOT_RECORDED.to_owned() };
                drop(turn.command(session.id, &unknown, "provost"));
            }
        }
        turn.changed().map(|session| (session.id, session.clone())).collect()
    }

    /// Returns the row of a session as it would be if all pending events could be written. The row
    /// also shows which resource the session is waiting for.
    pub(super) fn shown_row(&self, session: &Session) -> SessionRow {
        let previewed = self.preview.get(&session.id);
        let mut row = match previewed {
            Some(newer) => self.previewed_row(&self.without_past_waits(newer)),
            None => projection::session::row(&self.without_past_waits(session)),
        };
        if row.shortage.is_none() {
            let wait = self.waits.of_subject(Subject::Session(session.id));
            row.shortage = wait.map(|shortage| projection::session::shortage_row(&shortage));
        }
        row
    }

    /// Returns a session without waits for shortages that an earlier daemon encountered and that are over.
    fn without_past_waits<'a>(&self, session: &'a Session) -> Cow<'a, Session> {
        if !session.effect_waits.iter().any(|wait| self.is_past(wait)) {
            return Cow::Borrowed(session);
        }
        let mut session = session.clone();
        session.effect_waits.retain(|wait| !self.is_past(wait));
        Cow::Owned(session)
    }

    /// Whether an earlier daemon encountered this shortage and it is over. The effect will be retried soon.
    fn is_past(&self, wait: &EffectWait) -> bool {
        let met_ms = wait.retry_at_ms.saturating_sub(retry_after_ms(wait.tries));
        let over = || match wait.shortage.resource {
            Resource::DiskSpace | Resource::Inodes | Resource::WritableDisk => {
                shortage::disk_shortage(self.home.root()).is_none()
            }
            Resource::Descriptors => shortage::descriptor_shortage().is_none(),
            // These limits apply to each daemon separately.
            Resource::Threads => true,
            Resource::Memory | Resource::Directory | Resource::Git => false,
        };
        met_ms < self.started_ms && over()
    }

    /// Returns the rows of sessions for which the ledger's projections are out of date.
    pub(super) fn overlaid_rows(&self) -> impl Iterator<Item = SessionRow> {
        let mut ids: BTreeSet<SessionId> = self.preview.keys().copied().collect();
        let has_past =
            |session: &&Session| matches!(self.without_past_waits(session), Cow::Owned(_));
        ids.extend(self.board.sessions.iter().filter(has_past).map(|session| session.id));
        ids.extend(self.waits.all().into_iter().filter_map(|(subject, _)| match subject {
            Subject::Session(session) => Some(session),
            Subject::Run(_) | Subject::Team(_) => None,
        }));
        let shown = ids.into_iter().filter_map(|id| self.board.session(id));
        shown.map(|session| self.shown_row(session))
    }

    /// Returns the row of a session with all pending events applied.
    fn previewed_row(&self, session: &Session) -> SessionRow {
        let mut row = projection::session::row(session);
        let unwritten = self.write_shortage.as_ref();
        let unwritten =
            unwritten.map(|unwritten| format!("not recorded yet: {}", unwritten.detail));
        let ended = has_ended(session).then(|| EXIT_NOT_RECORDED.to_owned());
        if ended.is_some() {
            row.flags.push(Flag::ExitUnrecorded.into());
        }
        row.reason = ended.or(row.reason).or(unwritten);
        row
    }

    /// Explains the state of a session, as recorded or as it would be if everything could be written. The last value is
    /// the next deadline, which no longer exists if the process has exited.
    pub(super) fn explain_shown(
        &self,
        session: &Session,
        now_ms: u64,
    ) -> (Vec<WhyFact>, String, Option<String>) {
        let newer = self.preview.get(&session.id);
        let (facts, rule) = projection::session::explain(newer.unwrap_or(session), now_ms);
        if newer.is_some_and(has_ended) {
            return (facts, EXIT_NOT_RECORDED.to_owned(), None);
        }
        let next = session
            .deadline()
            .map(|(at, due)| format!("{} in {} ms", due.as_str(), at.saturating_sub(now_ms)));
        (facts, rule, next)
    }

    /// Counts the sessions with a running agent that Provost started.
    pub(super) fn running_agents(&self) -> usize {
        let runs = |session: &&Session| {
            let newer = self.preview.get(&session.id);
            runs_own_agent(newer.unwrap_or(session)) && !newer.is_some_and(has_ended)
        };
        self.board.sessions.iter().filter(runs).count()
    }

    /// Returns the rows of sessions for which the ledger's projections are out of date, by session id.
    pub(super) fn overlay(&self) -> BTreeMap<String, String> {
        let rows = self.overlaid_rows();
        rows.filter_map(|row| Some((row.id.clone(), serde_json::to_string(&row).ok()?))).collect()
    }

    /// Returns the machine's shortages, and how many effects are waiting for each.
    pub(super) fn shortages(&self) -> Vec<ShortageRow> {
        let waits = self.board.sessions.iter().filter_map(|session| {
            let session = self.without_past_waits(session);
            session.longest_wait().map(|wait| wait.shortage.clone())
        });
        let of_others = self.waits.all().into_iter().map(|(_, shortage)| shortage);
        let mut found: BTreeMap<Resource, ShortageRow> = BTreeMap::new();
        let disk = shortage::disk_shortage(self.home.root());
        for shortage in self.write_shortage.iter().cloned().chain(disk) {
            found
                .entry(shortage.resource)
                .or_insert_with(|| projection::session::shortage_row(&shortage));
        }
        for shortage in waits.chain(of_others) {
            let row = found
                .entry(shortage.resource)
                .or_insert_with(|| projection::session::shortage_row(&shortage));
            row.waiting += 1;
        }
        found.into_values().collect()
    }

    /// Returns the shortage that caused a write to fail, if it is one that may pass.
    pub(super) fn shortage_of_write(&self, why: &AppendError) -> Option<Shortage> {
        let AppendError::Storage(why) = why else { return None };
        let detail = format!("the ledger cannot be written: {}", provost_sys::error_chain(why));
        let resource = match (why, shortage::disk_shortage(self.home.root())) {
            (provost_ledger::Error::Full { .. }, Some(found)) => found.resource,
            (provost_ledger::Error::Full { .. }, None) => Resource::DiskSpace,
            (_, Some(found)) => found.resource,
            (_, None) => {
                let known = Shortage::from_text(&detail);
                known.map_or(Resource::WritableDisk, |shortage| shortage.resource)
            }
        };
        Some(Shortage::new(resource, detail))
    }
}

/// Whether a session's agent is running and was started by Provost.
fn runs_own_agent(session: &Session) -> bool {
    let runs =
        |launch: &Launch| matches!(launch.phase, LaunchPhase::Running { .. }) && !launch.adopted;
    session.launches.last().is_some_and(runs)
}

/// Whether the process of a session has exited although the session counts as running. External
/// agents are observed by their watcher instead.
fn has_ended(session: &Session) -> bool {
    let Some(launch) = session.current_launch().filter(|launch| !launch.adopted) else {
        return false;
    };
    match &launch.phase {
        LaunchPhase::Running { child: Some(child), .. } => {
            matches!(supervised_command::to_holder_identity(child).is_alive(), Ok(false))
        }
        LaunchPhase::Running { child: None, .. }
        | LaunchPhase::Pending
        | LaunchPhase::Ended { .. }
        | LaunchPhase::Unobserved { .. }
        | LaunchPhase::Failed { .. } => false,
    }
}

/// The reason shown for a process that has exited but whose exit cannot be recorded at the moment.
const EXIT_NOT_RECORDED: &str =
    "the process has ended; its exit status cannot be recorded until there is disk space";
