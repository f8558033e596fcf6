//! Rows while the ledger cannot be written: sessions as they would be, and the machine's shortages.

use std::collections::{BTreeMap, BTreeSet};

use provost_api::{SessionRow, ShortageRow};
use provost_core::{
    ids::SessionId,
    session::{LaunchPhase, Session, SessionCommand},
    shortage::{Resource, Shortage},
};
use provost_ledger::AppendError;

use super::{handle::SessionObservation, owner::Owner, shortage, supervised_command};
use crate::{projection, stream::Subject};

impl Owner {
    /// Decides observations that could not be written, as if they could. A process that is known to
    /// have ended is not shown as alive because its holder cannot record its exit.
    pub(super) fn preview_sessions(
        &self,
        told: &[SessionObservation],
    ) -> BTreeMap<SessionId, Session> {
        if self.write_shortage.is_none() && shortage::disk_shortage(self.home.root()).is_none() {
            return BTreeMap::new();
        }
        let mut turn = self.begin_turn();
        for (one, command) in told.iter().flat_map(|one| one.commands.iter().map(move |c| (one, c)))
        {
            // An observation that is not new changes nothing.
            drop(turn.command(one.session, command, "provost"));
        }
        for session in self.board.sessions() {
            let Some(launch) = session.current_launch().map(|launch| launch.id) else { continue };
            if has_ended(session) {
                let unknown =
                    SessionCommand::ProcessUnknown { launch, why: EXIT_NOT_RECORDED.to_owned() };
                drop(turn.command(session.id, &unknown, "provost"));
            }
        }
        turn.changed().map(|session| (session.id, session.clone())).collect()
    }

    /// Shows a session as it is, or would be if all could be written, with what it waits for.
    pub(super) fn shown_row(&self, session: &Session) -> SessionRow {
        let previewed = self.preview.get(&session.id);
        let mut row = previewed
            .map_or_else(|| projection::session::row(session), |newer| self.previewed_row(newer));
        if row.shortage.is_none() {
            let wait = self.waits.of_subject(Subject::Session(session.id));
            row.shortage = wait.map(|shortage| projection::session::shortage_row(&shortage));
        }
        row
    }

    /// Shows the sessions of which the ledger's cards do not have all.
    pub(super) fn overlaid_rows(&self) -> impl Iterator<Item = SessionRow> {
        let mut ids: BTreeSet<SessionId> = self.preview.keys().copied().collect();
        ids.extend(self.waits.all().into_iter().filter_map(|(subject, _)| match subject {
            Subject::Session(session) => Some(session),
            Subject::Run(_) | Subject::Team(_) => None,
        }));
        let shown = ids.into_iter().filter_map(|id| self.board.session(id));
        shown.map(|session| self.shown_row(session))
    }

    /// Shows a session as it would be.
    fn previewed_row(&self, session: &Session) -> SessionRow {
        let mut row = projection::session::row(session);
        let unwritten = self.write_shortage.as_ref();
        let unwritten =
            unwritten.map(|unwritten| format!("not recorded yet: {}", unwritten.detail));
        let ended = has_ended(session).then(|| EXIT_NOT_RECORDED.to_owned());
        row.reason = ended.or(row.reason).or(unwritten);
        row
    }

    /// Returns the rows of sessions that the ledger's cards are behind, by their ids.
    pub(super) fn overlay(&self) -> BTreeMap<String, String> {
        let rows = self.overlaid_rows();
        rows.filter_map(|row| Some((row.id.clone(), serde_json::to_string(&row).ok()?))).collect()
    }

    /// Returns the machine's shortages, with the number of effects that wait for each.
    pub(super) fn shortages(&self) -> Vec<ShortageRow> {
        let waits = self.board.sessions().filter_map(Session::longest_wait);
        let waits = waits.map(|wait| wait.shortage.clone());
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

    /// Returns the shortage that made a write fail, if it is one that may pass.
    pub(super) fn shortage_of_write(&self, why: &AppendError) -> Option<Shortage> {
        let AppendError::Storage(why) = why else { return None };
        let detail =
            format!("the ledger cannot be written: {}", supervised_command::error_chain(why));
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

/// Whether the process of a session that counts as running has ended. An external agent is observed
/// by its watcher.
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

/// Reason shown for a process that has ended and whose exit cannot be recorded now.
const EXIT_NOT_RECORDED: &str =
    "the process has ended; its exit status cannot be recorded until there is disk space";
