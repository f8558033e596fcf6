//! Starts launches, each only once.

use std::path::Path;

use provost_core::{
    ids::LaunchId,
    session::{ProcessIdentity, Session, SessionCommand, SessionEffect, WorkState},
    shortage::Shortage,
};
use provost_holder::{HoldSpec, LaunchState, OnLimit, StdinMode, tree};
use provost_sys::error_chain;

use super::{
    super::{
        agent_launch,
        environment::ProvostPaths,
        launch_start::{
            LaunchError, adopt_launch, describe_not_started, effect_short, failed_launch_command,
        },
        shortage,
        supervised_command::{self, SURVIVOR_GRACE},
        worktree,
    },
    EffectContext, RETRY_DELAY, TERMINAL_SIZE,
};

impl EffectContext {
    pub(super) async fn launch(&self, session: &Session, launch: LaunchId) -> SessionCommand {
        if let Some(adopted) = session.spec.adopted.as_deref() {
            return adopt_launch(launch, adopted).await;
        }
        match self.start_or_find(session, launch).await {
            Ok((holder, child)) => SessionCommand::LaunchStarted { launch, holder, child },
            Err(LaunchError { shortage: Some(shortage), may_have_started: false, .. }) => {
                effect_short(session, &SessionEffect::StartLaunch(launch), shortage)
            }
            Err(LaunchError { reason, shortage, .. }) => {
                let dir = self.world.home.launch(launch);
                let traces = self.world.holders.traces(&dir);
                let none_left = loop {
                    // A failed start is not over while any of its processes is still running.
                    match supervised_command::end_all_processes(&traces, SURVIVOR_GRACE).await {
                        Ok(none_left) => break none_left,
                        Err(_) => supervised_command::sleep(RETRY_DELAY).await,
                    }
                };
                let shortage = if none_left.found_processes() { None } else { shortage };
                match shortage {
                    Some(shortage) => {
                        // The next attempt creates the directory again, and reports an error if it
                        // still exists.
                        supervised_command::blocking(move || std::fs::remove_dir_all(&dir))
                            .await
                            .ok();
                        let shortage = self.refine_shortage(shortage);
                        effect_short(session, &SessionEffect::StartLaunch(launch), shortage)
                    }
                    None => failed_launch_command(launch, reason, &none_left),
                }
            }
        }
    }

    /// Returns a resource that a launch needs but that is currently short.
    fn missing_resource(&self) -> Option<Shortage> {
        let home = &self.world.home;
        let directories = [home.launches(), home.starts()];
        shortage::disk_shortage(home.root())
            .or_else(shortage::descriptor_shortage)
            .or_else(|| directories.iter().find_map(|one| shortage::directory_shortage(one)))
    }

    /// Starts a launch, or finds out that it was already started, and returns its processes.
    async fn start_or_find(
        &self,
        session: &Session,
        launch: LaunchId,
    ) -> Result<(ProcessIdentity, ProcessIdentity), LaunchError> {
        let dir = self.world.home.launch(launch);
        self.effects.verify_launch(launch).await?;
        let found = supervised_command::read_launch(&dir).await;
        // During a shortage, it is unknown whether the launch is absent or running.
        let unread = found.as_ref().err().and_then(|why| Shortage::from_text(&error_chain(why)));
        if let Some(shortage) = unread {
            return Err(shortage.into());
        }
        if matches!(found, Ok(LaunchState::Absent)) {
            self.ensure_not_running(session, launch, &dir).await?;
            let context = self.clone();
            if let Some(shortage) =
                supervised_command::blocking(move || context.missing_resource()).await
            {
                return Err(shortage.into());
            }
            worktree::check_home(session, self.world.home.root())?;
            let spec = self.launch_spec(session, launch).await?;
            self.effects.begin_launch(launch, &spec).await?;
            self.world.holders.start_at(&dir, spec).await?;
        }
        let held = match supervised_command::wait_until_started(&dir).await? {
            LaunchState::Absent => {
                return Err("its launch directory was removed".to_owned().into());
            }
            LaunchState::Starting { holder, .. } => {
                return Err(supervised_command::describe_stuck_start(holder.is_some()).into());
            }
            LaunchState::Ended { held: None, exit, .. } => {
                return Err(describe_not_started(&exit).into());
            }
            LaunchState::HolderDied { held: None, .. }
            | LaunchState::OtherBoot { held: None, .. } => {
                let why = "its holder died before it reported that the agent runs";
                return Err(why.to_owned().into());
            }
            LaunchState::Alive { held }
            | LaunchState::Ended { held: Some(held), .. }
            | LaunchState::HolderDied { held: Some(held), .. }
            | LaunchState::OtherBoot { held: Some(held), .. } => held,
        };
        if !self.effects.matches_launch(launch, &held).await {
            let why = "its launch directory has the record of another command";
            return Err(why.to_owned().into());
        }
        Ok((identity(held.holder), identity(held.child)))
    }

    /// Makes sure that an earlier daemon did not start a launch whose directory is missing. The
    /// agent itself may have removed the directory, and must not run twice.
    async fn ensure_not_running(
        &self,
        session: &Session,
        launch: LaunchId,
        dir: &Path,
    ) -> Result<(), String> {
        let requested = session.launch(launch).map_or(0, |launch| launch.requested_at.mono_ms);
        if requested > self.since_ms {
            return Ok(());
        }
        let traces = self.world.holders.traces(dir);
        let left = supervised_command::blocking(move || tree::remaining(&traces)).await;
        if left.map_err(|why| why.to_string())?.is_empty() {
            Ok(())
        } else {
            Err("it was started before, and its launch directory was removed".to_owned())
        }
    }

    async fn launch_spec(&self, session: &Session, launch: LaunchId) -> Result<HoldSpec, String> {
        let token = self.world.token(launch);
        let place = ProvostPaths {
            home: self.world.home.root(),
            socket: &self.world.home.socket(),
            program: &self.world.program,
            token: &token,
        };
        let agent = &session.spec.agent;
        let tty = agent.interface.has_terminal().then_some(TERMINAL_SIZE);
        let mut spec = HoldSpec {
            env: self.world.environment.for_launch(session, launch, &place),
            stdin: if agent.accepts_input() || tty.is_some() {
                StdinMode::Pipe
            } else {
                StdinMode::Null
            },
            output_limit: session.output_limit,
            on_limit: OnLimit::Block,
            grace_ms: session.spec.bounds.stop_grace_ms,
            settle_ms: session.spec.bounds.drain_ms,
            tty,
            ..HoldSpec::new(launch.to_string(), agent.argv.clone(), cwd_of(session))
        };
        let (world, session) = (self.world.clone(), session.clone());
        supervised_command::blocking(move || {
            agent_launch::prepare(&world, &session, launch, &mut spec).map(|()| spec)
        })
        .await
    }
}

fn identity(found: provost_holder::ProcessInstance) -> ProcessIdentity {
    let pid = i32::try_from(found.pid).unwrap_or(0);
    ProcessIdentity { pid, start_time: found.start_time, boot_id: found.boot_id }
}

pub(in crate::shell) fn cwd_of(session: &Session) -> &str {
    match &session.worktree.state {
        WorkState::Ready { cwd, .. } => cwd,
        WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => &session.spec.cwd,
    }
}
