//! The effects of a session.

use std::sync::Arc;

use provost_core::{
    ids::LaunchId,
    session::{EffectKey, Session, SessionCommand, SessionEffect, enter_retry_key},
    shortage::Shortage,
};
use provost_holder::{
    ExitRecord, HoldSpec, OnLimit, ProcessEnd,
    wire::{HolderOp, WireBytes},
};
use provost_sys::error_chain;
use tokio::sync::watch;

use super::{
    super::{
        agent_launch,
        check::CheckJob,
        effects::{EffectName, FinishedEffect},
        encode_message::typed_text,
        follow::{Follower, FollowerLink},
        hook::HookJob,
        launch_start::effect_short,
        shortage::ShortageReport,
        supervised_command::{self, CommandEnd},
        watch::{
            ExternalAgentWatch, TranscriptContext, TranscriptSource, TranscriptWatcher,
            WatchContext,
        },
        worktree,
    },
    EffectContext, EffectOrder, EffectStart, ExecutableAggregate,
    input::write,
    launch::cwd_of,
};
use crate::stream::Subject;

impl ExecutableAggregate for Session {
    fn order(start: EffectStart<Session>) -> EffectOrder {
        EffectOrder::Session(start)
    }

    fn check_job(&self, effect: &SessionEffect) -> Option<CheckJob> {
        let SessionEffect::RunCheck { index, .. } = effect else { return None };
        let verification = self.check_request(*index)?;
        Some(CheckJob { owner: Subject::Session(self.id), key: effect.key(), verification })
    }

    async fn carry_out(
        context: EffectContext,
        start: EffectStart<Session>,
        cancel: watch::Receiver<bool>,
    ) {
        let EffectStart { aggregate: session, effect, .. } = start;
        if let SessionEffect::Follow(launch) = effect {
            Box::pin(context.follow(session, launch, cancel)).await;
        } else {
            Box::pin(context.carry_out_for_session(&session, effect, cancel)).await;
        }
    }
}

impl EffectContext {
    /// Carries out an effect of a session. A shortage is recorded in the ledger, and the session
    /// decides when to try again.
    async fn carry_out_for_session(
        self,
        session: &Session,
        effect: SessionEffect,
        cancel: watch::Receiver<bool>,
    ) {
        let result = match effect.clone() {
            SessionEffect::PrepareWork { .. } => Some(self.prepare(session, effect.key()).await),
            SessionEffect::RunSetup { attempt } => {
                Some(match self.run_setup(session, &effect, cancel).await {
                    Ok(failure) => SessionCommand::SetupFinished { attempt, failure },
                    Err(shortage) => effect_short(session, &effect, shortage),
                })
            }
            SessionEffect::StartLaunch(launch) => {
                let _start = self.starting.begin(launch);
                if *cancel.borrow() {
                    return;
                }
                Some(self.launch(session, launch).await)
            }
            // Following takes a long time and is therefore handled separately; see `follow`.
            SessionEffect::Follow(_) => None,
            SessionEffect::StopLaunch(launch, step) => {
                self.stop(session, launch, step, cancel).await
            }
            SessionEffect::Deliver { launch, message } if session.spec.adopted.is_some() => {
                self.type_message(session, launch, &message, cancel).await;
                None
            }
            SessionEffect::Deliver { launch, message } => {
                self.deliver(session, launch, &message, cancel).await
            }
            SessionEffect::PressAgain { launch, message } if session.spec.adopted.is_some() => {
                let text = session
                    .input
                    .messages
                    .iter()
                    .find(|one| one.key == message)
                    .map(typed_text(session));
                if let (Some(typist), Some(text)) = (self.typist(session, launch), text) {
                    typist.press_enter_again(&message, &text).await;
                }
                None
            }
            SessionEffect::PressAgain { launch, message } => {
                let key = self.world.write_key(launch, &enter_retry_key(&message));
                let data = WireBytes(provost_agent::ENTER.to_vec());
                let op = HolderOp::Write { key, data, secret: false };
                // An agent that accepts no more input exits on its own, and the follower of the launch reports the
                // exit.
                write(&self.world.home.launch(launch), op, cancel).await;
                None
            }
            SessionEffect::TakeSnapshot { attempt, no } => {
                Some(self.take_snapshot(session, attempt, no).await)
            }
            SessionEffect::RunCheck { attempt, .. } => {
                let Some(job) = session.check_job(&effect) else { return };
                let receipt = self.checks.run(job, cancel).await.pop();
                receipt.map(|receipt| SessionCommand::CheckFinished { attempt, receipt })
            }
            SessionEffect::RunHook(key) => {
                let environment = &self.world.environment;
                let Some(job) = HookJob::from_session(session, key, environment) else { return };
                let name = EffectName::new(session.id, effect.key());
                let end = job.run(self.world.gate.permit(name), &self.effects).await;
                Some(SessionCommand::HookFinished { key, end })
            }
        };
        if let Some(command) = result {
            let met = command.shortage();
            let command = met
                .map_or(command, |met| effect_short(session, &effect, self.refine_shortage(met)));
            self.observations.send(session.id, command).await;
        }
    }

    /// Follows a launch. Drops the session in the meantime, because hundreds of launches may be followed.
    async fn follow(
        self,
        session: Arc<Session>,
        launch: LaunchId,
        mut cancel: watch::Receiver<bool>,
    ) {
        let _counted = self.world.census.register(launch);
        if session.spec.adopted.is_some() {
            let context = WatchContext {
                adapters: &self.world.adapters,
                panes: &self.panes,
                moves: &self.world.moves,
                handle: self.handle.clone(),
                observations: self.observations.clone(),
                clock: self.clock,
                census: self.world.census.clone(),
            };
            let adopted = ExternalAgentWatch::new(&session, launch, context);
            drop(session);
            if let Some(adopted) = adopted {
                tokio::select! {
                    () = adopted.run() => {}
                    // The agent is external, so its end no longer matters once its attempt is sealed.
                    () = supervised_command::wait_for_cancel(&mut cancel) => {}
                }
                self.observations.forget(launch);
                self.panes.forget(launch);
                self.world.moves.forget(launch);
            }
            return;
        }
        let record = self.follow_transcript(&session, launch);
        let link = FollowerLink {
            dir: self.world.home.launch(launch),
            world: self.world.clone(),
            observations: self.observations.clone(),
            handle: self.handle.clone(),
            clock: self.clock,
        };
        let follower = Follower::new(&session, launch, link);
        let adapter = self.world.adapters.get(&session.spec.agent.interface).ok().cloned();
        drop(session);
        if let Some(follower) = follower {
            tokio::select! {
                () = follower.run() => {}
                () = record => {}
            }
            agent_launch::remove_remains(&self.world, adapter.as_deref(), launch);
            self.observations.forget(launch);
            self.world.moves.forget(launch);
            self.world.holders.reap();
        }
    }

    /// Follows the transcript of an agent in a terminal, for as long as the returned future is polled.
    fn follow_transcript(
        &self,
        session: &Session,
        launch: LaunchId,
    ) -> impl Future<Output = ()> + use<> {
        let interface = &session.spec.agent.interface;
        let store = if interface.has_transcript() {
            self.world.adapters.get(interface).ok().and_then(|adapter| adapter.transcripts())
        } else {
            None
        };
        let watch = store.map(|store| {
            let source = TranscriptSource::InHome(store.home(&self.world.home.agent(session.id)));
            let (handle, observations) = (self.handle.clone(), self.observations.clone());
            let context = TranscriptContext {
                store,
                moves: &self.world.moves,
                handle,
                observations,
                clock: self.clock,
            };
            TranscriptWatcher::new(session, launch, source, context)
        });
        async move {
            match watch {
                Some(watch) => watch.run().await,
                None => std::future::pending().await,
            }
        }
    }

    async fn prepare(&self, session: &Session, key: EffectKey) -> SessionCommand {
        let (effect, session) = (EffectName::new(session.id, key), session.clone());
        match self.git_calls.write(effect, move |git| worktree::prepare_work(git, &session)).await {
            Ok(prepared) => SessionCommand::WorkPrepared { cwd: prepared.cwd, base: prepared.base },
            Err(reason) => SessionCommand::WorkFailed { reason },
        }
    }

    async fn run_setup(
        &self,
        session: &Session,
        effect: &SessionEffect,
        mut cancel: watch::Receiver<bool>,
    ) -> Result<Option<String>, Shortage> {
        let command = session.spec.setup.clone().unwrap_or_default();
        let argv = vec!["/bin/sh".to_owned(), "-c".to_owned(), command.clone()];
        let spec = HoldSpec {
            env: self.world.environment.for_command(&session.spec),
            output_limit: session.spec.bounds.check_output,
            on_limit: OnLimit::End,
            time_limit_ms: Some(session.spec.bounds.check_time_ms),
            ..HoldSpec::new(String::new(), argv, cwd_of(session))
        };
        let effect = EffectName::new(session.id, effect.key());
        let ran = self.effects.run(&effect, spec, &mut cancel).await;
        let failure = match ran.map(|FinishedEffect { finished, .. }| finished) {
            Ok(CommandEnd::Ended {
                exit: ExitRecord { end: ProcessEnd::Exited { code: 0 }, .. },
            }) => None,
            Ok(CommandEnd::Ended { exit }) => Some(exit.to_string()),
            Ok(CommandEnd::Uncertain(why)) => Some(why),
            Err(why) => Some(error_chain(&why)),
        };
        if let Some(shortage) = failure.as_deref().and_then(Shortage::from_text) {
            return Err(self.refine_shortage(shortage));
        }
        Ok(failure.map(|why| format!("the setup command `{command}` failed: {why}")))
    }

    async fn take_snapshot(&self, session: &Session, attempt: u32, no: u32) -> SessionCommand {
        let git = self.git_calls.settled_git(Subject::Session(session.id)).await;
        let session = session.clone();
        match supervised_command::blocking(move || worktree::commit_work(&git, &session, no)).await
        {
            Ok((snapshot, caveats)) => {
                SessionCommand::SnapshotTaken { attempt, no, snapshot, caveats }
            }
            Err(reason) => SessionCommand::SnapshotFailed { attempt, no, reason },
        }
    }
}
