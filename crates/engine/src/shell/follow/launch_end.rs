//! Ends the following of a launch: its exit, or the reason why its end cannot be observed.

use std::time::Duration;

use provost_core::session::{ProcessExit, SessionCommand, StoppedBy};
use provost_holder::{self as holder, ExitRecord, LaunchState};

use super::{
    super::supervised_command::{self, NoProcessLeft, SURVIVOR_GRACE},
    FollowStep, Follower, HOLDER_EXIT_TIMEOUT, LINK_RETRY_DELAY,
};

impl Follower {
    /// Ends a launch whose directory can no longer be trusted. As much of its journal as possible is read.
    pub(super) async fn end_broken(
        &mut self,
        why: &str,
    ) -> Result<FollowStep, supervised_command::Error> {
        self.broken = Some(why.to_owned());
        if self.reported_end {
            return self.end_remaining().await;
        }
        self.end_unobserved(why).await
    }

    /// Ends a launch whose exit status cannot be determined.
    async fn end_unobserved(&mut self, why: &str) -> Result<FollowStep, supervised_command::Error> {
        let none_left = supervised_command::end_all_processes(&self.traces, SURVIVOR_GRACE).await?;
        if self.reader.is_some() {
            self.drain().await?;
        }
        self.confirm_unobserved(why, &none_left).await
    }

    /// Ends the remaining processes of a launch whose leader has exited, unless the holder ends
    /// them.
    pub(super) async fn end_remaining(&mut self) -> Result<FollowStep, supervised_command::Error> {
        let ended = supervised_command::end_survivors(&self.traces).await?;
        let (leftovers, verified) =
            (u32::try_from(ended.found).unwrap_or(u32::MAX), ended.verified());
        let found = supervised_command::read_launch(&self.link.dir).await.ok();
        let found = if self.has_journal() { found } else { None };
        if let Some(LaunchState::Ended { exit, .. }) = found {
            return self.finish(&exit, leftovers, verified).await;
        }
        if !self.reported_end {
            return self.end_unobserved("its holder did not report how it ended").await;
        }
        self.close_stream().await;
        self.report(SessionCommand::ProcessTreeGone { launch: self.launch, leftovers, verified })
            .await;
        Ok(FollowStep::Done)
    }

    /// Whether the launch's own process may be alive, regardless of what its directory shows.
    pub(super) fn child_may_live(&self) -> bool {
        self.traces.child.as_ref().is_some_and(|child| !matches!(child.is_alive(), Ok(false)))
    }

    /// Waits until the launch's holder has exited, which happens right after it reports the end. If
    /// the holder keeps running, the report may be forged and the real holder may have been
    /// suspended.
    pub(super) async fn wait_for_holder_exit(&self) -> bool {
        let Some(holder) = &self.traces.holder else { return true };
        let left = async {
            let mut wait = Duration::from_millis(1);
            while !matches!(holder.is_alive(), Ok(false)) {
                supervised_command::sleep(wait).await;
                wait = (wait * 2).min(LINK_RETRY_DELAY);
            }
        };
        tokio::time::timeout(HOLDER_EXIT_TIMEOUT, left).await.is_ok()
    }

    /// Reports everything that remains about a launch whose process tree is gone.
    pub(super) async fn finish(
        &mut self,
        exit: &ExitRecord,
        leftovers: u32,
        verified: bool,
    ) -> Result<FollowStep, supervised_command::Error> {
        self.drain().await?;
        self.report_exit(exit).await;
        self.close_stream().await;
        self.report(SessionCommand::ProcessTreeGone { launch: self.launch, leftovers, verified })
            .await;
        Ok(FollowStep::Done)
    }

    pub(super) async fn handle_exit(&mut self) -> Result<(), supervised_command::Error> {
        if let LaunchState::Ended { exit, .. } =
            supervised_command::read_launch(&self.link.dir).await?
            && !self.child_may_live()
        {
            self.drain().await?;
            self.report_exit(&exit).await;
            self.exited = true;
        }
        Ok(())
    }

    async fn report_exit(&mut self, exit: &ExitRecord) {
        if std::mem::replace(&mut self.reported_exit, true) {
            return;
        }
        self.reported_end = true;
        self.collect_reports().await;
        let by = match exit.ended_by {
            holder::EndCause::Itself => StoppedBy::Itself,
            holder::EndCause::Stop
            | holder::EndCause::TimeLimit
            | holder::EndCause::OutputLimit
            | holder::EndCause::HolderFault => StoppedBy::Provost,
        };
        let launch = self.launch;
        let command = match &exit.end {
            holder::ProcessEnd::Exited { code } => {
                SessionCommand::ProcessEnded { launch, end: ProcessExit::Exit(*code), by }
            }
            holder::ProcessEnd::Signalled { signal } => {
                SessionCommand::ProcessEnded { launch, end: ProcessExit::Signal(*signal), by }
            }
            holder::ProcessEnd::NotStarted { error } => {
                SessionCommand::ProcessUnobserved { launch, why: error.clone() }
            }
        };
        self.report(command).await;
    }

    /// Reports an unobserved end, unless too many launches look dead at once. If a process of the launch was found and
    /// ended, the end of the launch is certain.
    pub(super) async fn confirm_unobserved(
        &mut self,
        why: &str,
        none_left: &NoProcessLeft,
    ) -> Result<FollowStep, supervised_command::Error> {
        if !none_left.found_processes() {
            let believed = self.link.world.census.confirm_death(self.launch).await;
            self.implausible = believed.is_err();
            believed?;
        }
        self.report_unobserved_end(why, none_left).await
    }

    /// Reports an unobserved end. The unnamed parameter proves that no process is left.
    pub(super) async fn report_unobserved_end(
        &mut self,
        why: &str,
        _: &NoProcessLeft,
    ) -> Result<FollowStep, supervised_command::Error> {
        let launch = self.launch;
        self.report(SessionCommand::ProcessUnobserved { launch, why: why.to_owned() }).await;
        Ok(FollowStep::Done)
    }
}
