//! Stops launches: interrupts, terminates or kills those that are running, and cancels those that
//! have not started.

use std::{path::Path, time::Duration};

use provost_agent::AgentInput;
use provost_core::{
    ids::LaunchId,
    session::{LaunchPhase, Session, SessionCommand, StopStep},
};
use provost_holder::{
    LaunchState, client,
    tree::{self, LaunchTraces},
    wire::{HolderOp, WireBytes},
};
use tokio::sync::watch;

use super::{
    super::{
        follow,
        launch_start::failed_launch_command,
        supervised_command::{self, HolderConnection},
    },
    EffectContext, RETRY_DELAY,
};

/// How long a holder may take to confirm that it is killing its process tree.
const KILL_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait before asking a holder again after it has confirmed a kill.
const KILL_RETRY_DELAY: Duration = Duration::from_millis(500);

/// How long to wait for a report of a launch's end that may already be on its way.
const END_REPORT_TIMEOUT: Duration = Duration::from_millis(200);

impl EffectContext {
    /// Carries out one step of stopping a launch. The launch's follower reports the result.
    pub(super) async fn stop(
        &self,
        session: &Session,
        launch: LaunchId,
        step: StopStep,
        mut cancel: watch::Receiver<bool>,
    ) -> Option<SessionCommand> {
        let dir = self.world.home.launch(launch);
        let pending = session.launch(launch).is_some_and(|l| l.phase == LaunchPhase::Pending);
        let by_force = matches!(step, StopStep::Kill | StopStep::GivenUp);
        if pending && (block_start(&dir) || by_force) {
            return self.cancel_launch(launch, &dir, cancel).await;
        }
        if pending {
            // The launch is being started. Let the start complete, then stop the launch like any
            // other.
            tokio::select! {
                () = self.starting.wait_for(launch) => {}
                () = supervised_command::wait_for_cancel(&mut cancel) => return None,
            }
            let started = tokio::select! {
                started = self.launch(session, launch) => started,
                () = supervised_command::wait_for_cancel(&mut cancel) => return None,
            };
            if let SessionCommand::EffectShortage { .. } = started {
                // The launch was waiting for a resource and is not retried.
                return self.cancel_launch(launch, &dir, cancel).await;
            }
            self.observations.send(session.id, started).await;
        }
        if by_force {
            self.kill(session, launch, &dir, cancel).await;
            return None;
        }
        let key = format!("interrupt-{}", session.attempt().no);
        let op = if step == StopStep::Interrupt {
            let turn = session.launch(launch).and_then(|launch| launch.turn());
            let thread = session.conversation.thread.as_deref();
            let interrupt = AgentInput::Interrupt { key: &key, thread, turn };
            let interface = &session.spec.agent.interface;
            let adapter = self.world.adapters.get(interface).ok()?;
            let data = adapter.encode(interface, &interrupt)?;
            let key = self.world.write_key(launch, &key);
            HolderOp::Write { key, data: WireBytes(data), secret: false }
        } else {
            HolderOp::Stop { grace_ms: session.spec.bounds.stop_grace_ms }
        };
        let traces = launch_traces(session, launch, &dir);
        // A daemon that has just started may not follow the launch yet, and it cannot read the exit status of a holder
        // that is not its child. In these cases, only this connection reports that the launch ended in an orderly way.
        let mut link = if matches!(op, HolderOp::Stop { .. }) {
            HolderConnection::follow(&dir).await.ok()
        } else {
            None
        };
        while !*cancel.borrow() {
            // The agent may have suspended its holder, which then cannot handle requests.
            if let Some(holder) = &traces.holder {
                tree::resume_process(holder).ok();
            }
            match supervised_command::request(&dir, op.clone()).await {
                Ok(()) | Err(client::Error::Fault(_)) => break,
                // The holder is exiting or dead. If it is dead, the launch's follower ends the
                // survivors.
                Err(_) => supervised_command::sleep(RETRY_DELAY).await,
            }
        }
        if let Some(link) = &mut link {
            self.record_end(link, &mut cancel).await;
        }
        None
    }

    /// Waits until the holder reports the end of its launch, and records the end. If the stop is cancelled, because the
    /// launch has ended or a harder step follows, waits only for a report that may already be on its way.
    async fn record_end(&self, link: &mut HolderConnection, cancel: &mut watch::Receiver<bool>) {
        let is_cancelled = tokio::select! {
            () = link.wait_gone() => false,
            () = supervised_command::wait_for_cancel(cancel) => true,
        };
        if is_cancelled {
            tokio::time::timeout(END_REPORT_TIMEOUT, link.wait_gone()).await.ok();
        }
        self.world.holders.record_end(link);
    }

    /// Asks the holder to kill its process tree. If the holder stops responding, ends it together
    /// with the tree.
    async fn kill(
        &self,
        session: &Session,
        launch: LaunchId,
        dir: &Path,
        cancel: watch::Receiver<bool>,
    ) {
        let op = HolderOp::Stop { grace_ms: 0 };
        let traces = launch_traces(session, launch, dir);
        while supervised_command::request_within(dir, op.clone(), KILL_ANSWER_TIMEOUT).await.is_ok()
        {
            supervised_command::sleep(KILL_RETRY_DELAY).await;
            if *cancel.borrow() {
                return;
            }
        }
        let has_left = matches!(
            supervised_command::read_launch(dir).await,
            Ok(LaunchState::Ended { gone: Some(_), .. } | LaunchState::HolderDied { .. })
        );
        if !has_left {
            // The launch's follower finds processes that are left, and tries again.
            supervised_command::end_all_processes(&traces, Duration::ZERO).await.ok();
        }
    }

    /// Cancels a launch that is not known to be running. If the launch is running after all, its processes are ended.
    async fn cancel_launch(
        &self,
        launch: LaunchId,
        dir: &Path,
        cancel: watch::Receiver<bool>,
    ) -> Option<SessionCommand> {
        let traces = self.world.holders.traces(dir);
        while !*cancel.borrow() {
            match supervised_command::end_all_processes(&traces, Duration::ZERO).await {
                Ok(none_left) => {
                    let reason = "it was stopped before it started".to_owned();
                    return Some(failed_launch_command(launch, reason, &none_left));
                }
                Err(_) => supervised_command::sleep(RETRY_DELAY).await,
            }
        }
        None
    }
}

/// Creates the directory of a launch that has not started, so that a start in progress cannot use
/// it. Returns whether that worked.
fn block_start(dir: &Path) -> bool {
    std::fs::create_dir(dir).is_ok()
}

fn launch_traces(session: &Session, launch: LaunchId, dir: &Path) -> LaunchTraces {
    session.launch(launch).map_or_else(
        || LaunchTraces::with_mark(&supervised_command::launch_mark(dir)),
        |l| follow::traces(l, dir),
    )
}
