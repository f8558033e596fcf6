//! Hooks: commands of the project, which run once per event and receive the event as JSON on
//! standard input.

use provost_core::{
    run::{PendingRunHook, Run, RunHookKey},
    session::{HookEnd, HookKey, HookSpec, PendingHook, Session},
};
use provost_holder::{EndCause, HoldSpec, OnLimit, ProcessEnd, StdinMode};
use serde_json::{Value, json};

use provost_sys::error_chain;

use super::{
    effect_gate::Permit,
    effects::{Effects, FinishedEffect},
    environment::DaemonEnvironment,
    supervised_command::{self, CommandEnd},
};
use crate::projection;

/// The time between TERM and KILL when a hook is being ended.
const GRACE_MS: u64 = 2_000;

/// The version of the JSON that a hook receives. Later versions only add fields; any other change
/// gets a new number.
pub const HOOK_VERSION: u32 = 1;

/// A pending hook.
pub(crate) struct HookJob {
    spec: HookSpec,
    env: Vec<(String, String)>,
    cwd: String,
    payload: String,
}

impl HookJob {
    pub(crate) fn from_session(
        session: &Session,
        key: HookKey,
        environment: &DaemonEnvironment,
    ) -> Option<HookJob> {
        let hook = session.hook_log.pending.iter().find(|hook| hook.key == key)?;
        let spec = session.spec.hooks.get(&key.event)?.clone();
        Some(HookJob {
            spec,
            env: environment.for_command(&session.spec),
            cwd: session.spec.project.clone().unwrap_or_else(|| session.spec.cwd.clone()),
            payload: payload(session, hook),
        })
    }

    pub(crate) fn from_run(
        run: &Run,
        key: RunHookKey,
        environment: &DaemonEnvironment,
    ) -> Option<HookJob> {
        let hook = run.hooks.iter().find(|hook| hook.key == key)?;
        Some(HookJob {
            spec: run.spec.hooks.get(&key.event)?.clone(),
            env: environment.for_agent(&run.spec.agent),
            cwd: run.spec.project.clone(),
            payload: run_payload(run, hook),
        })
    }

    /// Runs the hook to completion, or returns the result if it already ran.
    pub(crate) async fn run(self, permit: Permit, effects: &Effects) -> HookEnd {
        // A hook is never cancelled, because it reports something that has already happened.
        let (_never, mut cancel) = tokio::sync::watch::channel(false);
        let spec = HoldSpec {
            env: self.env,
            stdin: StdinMode::Text(self.payload),
            output_limit: self.spec.output_limit,
            on_limit: OnLimit::End,
            time_limit_ms: Some(self.spec.time_limit_ms),
            grace_ms: GRACE_MS,
            journal_stdin: false,
            ..HoldSpec::new(String::new(), self.spec.argv, self.cwd)
        };
        match effects.run(permit.effect(), spec, &mut cancel).await {
            Ok(FinishedEffect { finished: CommandEnd::Ended { exit }, .. }) => {
                hook_end(exit.ended_by, exit.end)
            }
            Ok(FinishedEffect { finished: CommandEnd::Uncertain(why), .. }) => {
                HookEnd::Uncertain(why)
            }
            Err(
                why @ (supervised_command::Error::Start(_) | supervised_command::Error::Record(_)),
            ) => HookEnd::NotStarted(error_chain(&why)),
            Err(why) => HookEnd::Uncertain(error_chain(&why)),
        }
    }
}

fn hook_end(by: EndCause, end: ProcessEnd) -> HookEnd {
    match (by, end) {
        (EndCause::TimeLimit, _) => HookEnd::TimeLimit,
        (EndCause::OutputLimit, _) => HookEnd::OutputLimit,
        (_, ProcessEnd::Exited { code }) => HookEnd::Exit(code),
        (_, ProcessEnd::Signalled { signal }) => HookEnd::Signal(signal),
        (_, ProcessEnd::NotStarted { error }) => HookEnd::NotStarted(error),
    }
}

/// Returns the input for a run's hook: the event, and the run's current row.
fn run_payload(run: &Run, hook: &PendingRunHook) -> String {
    json!({
        "version": HOOK_VERSION,
        "event": hook.key.event.to_string(),
        "occasion": hook.key.no,
        "at": hook.at.wall_ms,
        "attempt": hook.attempt,
        "stage": hook.stage.as_str(),
        "run": projection::run::row(run),
    })
    .to_string()
}

/// Returns the reaction that triggered a hook, with its trigger and its action.
fn reaction(session: &Session, name: &str) -> Option<Value> {
    let one = session.spec.reactions.iter().find(|one| one.name == name)?;
    Some(json!({"name": one.name, "on": one.on.as_str(), "do": one.act.as_str()}))
}

/// Returns the input for a session's hook: the event, and the session's current row.
fn payload(session: &Session, hook: &PendingHook) -> String {
    json!({
        "version": HOOK_VERSION,
        "event": hook.key.event.to_string(),
        "occasion": hook.key.no,
        "at": hook.at.wall_ms,
        "attempt": hook.attempt,
        "state": hook.state.as_str(),
        "cause": hook.cause.map(|cause| cause.as_str()),
        "reaction": hook.reaction.as_ref().and_then(|name| reaction(session, name)),
        "session": projection::session::row(session),
    })
    .to_string()
}
