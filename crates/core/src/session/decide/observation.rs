//! Observations of Provost itself: worktrees, processes, output, evidence and hooks.

use crate::{
    ids::LaunchId,
    rules::rules,
    session::{
        command::SessionRejection,
        decide::ending::close_after_holder_exit,
        decide::{CommandResult, if_new, one_event},
        event::{
            CheckFinished, ConversationDeleted, HookFinished, LaunchAdopted, LaunchFailed,
            LaunchFollowed, LaunchStarted, OutputAtLimit, OutputDiskFull, OutputLost,
            OutputResumed, ProcessEnded, ProcessSeen, ProcessSuspended, ProcessTreeReaped,
            ProcessUnknown, ProcessUnobserved, SetupFinished, SnapshotFailed, SnapshotTaken,
            TeamCommandCounted, ViewersChanged, WorkFailed, WorkPrepared, WorkRemoved,
        },
        hook::{HookEnd, HookKey},
        launch::{Cursor, LaunchPhase, ProcessExit, ProcessIdentity, StoppedBy, Visibility},
        state::{Session, SetupState, WorkState},
    },
    verdict::{Caveats, Receipt, Snapshot},
};

impl Session {
    pub(super) fn work_prepared(&self, cwd: &str, base: Option<&Snapshot>) -> CommandResult {
        let (cwd, base) = (cwd.to_owned(), base.cloned());
        if_new(self.worktree.state == WorkState::Pending, WorkPrepared { cwd, base })
    }

    pub(super) fn work_failed(&self, reason: &str) -> CommandResult {
        if_new(self.worktree.state == WorkState::Pending, WorkFailed { reason: reason.to_owned() })
    }

    pub(super) fn work_removed(&self) -> CommandResult {
        let exists = self.worktree.state != WorkState::Removed;
        if_new(exists && self.attempt().is_sealed(), WorkRemoved {})
    }

    pub(super) fn conversation_removed(&self) -> CommandResult {
        let exists = !self.conversation.deleted;
        if_new(exists && self.attempt().is_sealed(), ConversationDeleted {})
    }

    pub(super) fn setup_finished(&self, attempt: u32, failure: Option<&str>) -> CommandResult {
        let pending =
            self.worktree.setup == SetupState::Pending && self.worktree.setup_attempt == attempt;
        if_new(pending, SetupFinished { failure: failure.map(str::to_owned) })
    }

    pub(super) fn launch_started(
        &self,
        launch: LaunchId,
        holder: &ProcessIdentity,
        child: &ProcessIdentity,
    ) -> CommandResult {
        let (holder, child) = (holder.clone(), child.clone());
        if_new(self.is_pending(launch)?, LaunchStarted { launch, holder, child })
    }

    pub(super) fn launch_adopted(
        &self,
        launch: LaunchId,
        child: Option<&ProcessIdentity>,
    ) -> CommandResult {
        let new = self.is_pending(launch)? && self.spec.adopted.is_some();
        if_new(new, LaunchAdopted { launch, child: child.cloned() })
    }

    pub(super) fn launch_failed(&self, launch: LaunchId, reason: &str) -> CommandResult {
        let reason = reason.to_owned();
        if_new(self.is_pending(launch)?, LaunchFailed { launch, reason })
    }

    fn is_pending(&self, launch: LaunchId) -> Result<bool, SessionRejection> {
        Ok(self.known_launch(launch)?.phase == LaunchPhase::Pending)
    }

    pub(super) fn launch_followed(&self, launch: LaunchId) -> CommandResult {
        let waits = self.handshaking_launch().is_some_and(|waiting| waiting.id == launch);
        if_new(waits, LaunchFollowed { launch })
    }

    /// Records the end of a process once. It is never revised.
    pub(super) fn process_ended(
        &self,
        launch: LaunchId,
        end: ProcessExit,
        by: StoppedBy,
    ) -> CommandResult {
        let running = self.known_launch(launch)?.may_be_running();
        if_new(running, ProcessEnded { launch, end, by })
    }

    pub(super) fn process_unobserved(&self, launch: LaunchId, why: &str) -> CommandResult {
        let known = self.known_launch(launch)?;
        if !known.may_be_running() {
            return close_after_holder_exit(known);
        }
        let ended = ProcessUnobserved { launch, why: why.to_owned() }.into();
        Ok(std::iter::once(ended).chain(self.void_screen_requests(known)).collect())
    }

    pub(super) fn process_unknown(&self, launch: LaunchId, why: &str) -> CommandResult {
        let seen = self.visibility(launch)? == Some(Visibility::Seen);
        if_new(seen, ProcessUnknown { launch, why: why.to_owned() })
    }

    pub(super) fn process_seen(&self, launch: LaunchId) -> CommandResult {
        let unknown = self.visibility(launch)? == Some(Visibility::Unknown);
        if_new(unknown, ProcessSeen { launch })
    }

    pub(super) fn process_suspended(&self, launch: LaunchId, suspended: bool) -> CommandResult {
        let known = self.known_launch(launch)?;
        let new = known.watch.suspended != suspended && known.may_be_running();
        if_new(new, ProcessSuspended { launch, suspended })
    }

    pub(super) fn viewers_changed(&self, launch: LaunchId, viewers: u32) -> CommandResult {
        let new = self.known_launch(launch)?.viewers != viewers;
        if_new(new, ViewersChanged { launch, viewers })
    }

    pub(super) fn process_tree_gone(
        &self,
        launch: LaunchId,
        leftovers: u32,
        verified: bool,
    ) -> CommandResult {
        let known = self.known_launch(launch)?;
        let new = known.has_ended() && known.gone.is_none();
        if_new(new, ProcessTreeReaped { launch, leftovers, verified })
    }

    pub(super) fn output_at_limit(&self, launch: LaunchId) -> CommandResult {
        if_new(!self.known_launch(launch)?.at_limit, OutputAtLimit { launch })
    }

    pub(super) fn output_disk_full(&self, launch: LaunchId, dir: &str) -> CommandResult {
        let new = self.known_launch(launch)?.disk_full.is_none();
        if_new(new, OutputDiskFull { launch, dir: dir.to_owned() })
    }

    pub(super) fn output_resumed(&self, launch: LaunchId) -> CommandResult {
        let waited = self.known_launch(launch)?.disk_full.is_some();
        if_new(waited, OutputResumed { launch })
    }

    pub(super) fn output_lost(&self, launch: LaunchId, cursor: Cursor) -> CommandResult {
        if_new(!self.known_launch(launch)?.output_lost, OutputLost { launch, cursor })
    }

    /// Records a snapshot if it is the one that is currently needed.
    pub(super) fn snapshot_taken(
        &self,
        attempt: u32,
        no: u32,
        snapshot: &Snapshot,
        caveats: &Caveats,
    ) -> CommandResult {
        let (snapshot, caveats) = (snapshot.clone(), caveats.clone());
        let wanted = self.takes_evidence() && self.needs_snapshot(attempt, no);
        if_new(wanted, SnapshotTaken { snapshot, caveats })
    }

    pub(super) fn snapshot_failed(&self, attempt: u32, no: u32, reason: &str) -> CommandResult {
        let wanted = self.takes_evidence() && self.needs_snapshot(attempt, no);
        if_new(wanted, SnapshotFailed { reason: reason.to_owned() })
    }

    /// Records a receipt if it is about the tree that is currently judged.
    pub(super) fn check_finished(&self, attempt: u32, receipt: &Receipt) -> CommandResult {
        let verifying = &self.attempt().verifying;
        let tree = verifying.snapshot.as_ref().map(|snapshot| &snapshot.tree);
        let about_it = rules().is_about_tree(&receipt.tree, tree);
        let known = verifying.receipts.iter().any(|one| one.command == receipt.command);
        let current = self.takes_evidence() && attempt == self.attempt().no;
        if_new(about_it && !known && current, CheckFinished { receipt: receipt.clone() })
    }

    /// Whether evidence may still be recorded. Evidence is about a tree, so it counts even if a
    /// question was opened in the meantime. An effect with the same key would not be reported a
    /// second time.
    fn takes_evidence(&self) -> bool {
        !self.attempt().is_sealed() && !self.attempt().is_decided()
    }

    pub(super) fn hook_finished(&self, key: HookKey, end: &HookEnd) -> CommandResult {
        let pending = self.hook_log.pending.iter().any(|hook| hook.key == key);
        if_new(pending, HookFinished { key, end: end.clone() })
    }

    pub(super) fn count_team_command(&self, launch: LaunchId, bytes: u64) -> CommandResult {
        let reports = &self.known_launch(launch)?.reports;
        if !reports.has_room_for(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            return Err(SessionRejection::ReportBudget { launch });
        }
        one_event(TeamCommandCounted { launch, bytes })
    }
}
