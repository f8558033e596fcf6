//! Pending effects of a session. Level-triggered: a pure function of the committed state.

use serde::{Deserialize, Serialize};

use super::{
    hook::HookKey,
    launch::{Launch, LaunchPhase, StopStep},
    spec::{Driver, Work},
    state::{Message, MessageFate, MessageKind, Session, SetupState, WorkState},
};
use crate::{ids::LaunchId, lifecycle::Activity, verdict::Verdict};

/// The key of an effect. An outside command runs in a directory of this name, so it cannot run twice.
pub type EffectKey = String;

/// An action on the outside world. Its result comes back as a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Prepare the worktree for this attempt. A retry for the next attempt is another effect, even if
    /// both appear in one commit.
    PrepareWork {
        attempt: u32,
    },
    /// Run the setup command in the worktree, for this attempt.
    RunSetup {
        attempt: u32,
    },
    StartLaunch(LaunchId),
    /// Read the journal and watch the process, for as long as this is pending.
    Follow(LaunchId),
    StopLaunch(LaunchId, StopStep),
    Deliver {
        launch: LaunchId,
        /// The key under which it is written, [`Message::write_key`].
        message: String,
    },
    /// Press Enter for a message once more.
    PressAgain {
        launch: LaunchId,
        message: String,
    },
    TakeSnapshot {
        attempt: u32,
        no: u32,
    },
    RunCheck {
        attempt: u32,
        no: u32,
        index: u32,
    },
    RunHook(HookKey),
}

/// The purpose of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    TimeLimit,
    StreamSettle,
    Escalation,
    Seal,
    Silence(LaunchId),
    LimitLifted,
    Handshake,
    Expiry,
    Proof,
    Compaction,
    Reaction,
    OwnTurn,
    /// Retry of an effect that met a shortage.
    Retry,
}

impl Due {
    pub fn word(self) -> &'static str {
        match self {
            Due::TimeLimit => "time_limit",
            Due::StreamSettle => "stream_settle",
            Due::Escalation => "escalation",
            Due::Seal => "seal",
            Due::Silence(_) => "silence",
            Due::LimitLifted => "limit_lifted",
            Due::Handshake => "handshake",
            Due::Expiry => "expiry",
            Due::Proof => "proof",
            Due::Compaction => "compaction",
            Due::Reaction => "reaction",
            Due::OwnTurn => "own_turn",
            Due::Retry => "retry",
        }
    }
}

impl Effect {
    /// Returns the effect's key within its session.
    pub fn key(&self) -> EffectKey {
        match self {
            Effect::PrepareWork { attempt: 1 } => "work".to_owned(),
            Effect::PrepareWork { attempt } => format!("work-{attempt}"),
            Effect::RunSetup { attempt: 1 } => "setup".to_owned(),
            Effect::RunSetup { attempt } => format!("setup-{attempt}"),
            Effect::StartLaunch(launch) => format!("l{}", launch.no),
            Effect::Follow(launch) => format!("follow-l{}", launch.no),
            Effect::StopLaunch(launch, step) => {
                format!("stop-l{}-{step:?}", launch.no).to_lowercase()
            }
            Effect::Deliver { launch, message } => format!("deliver-l{}-{message}", launch.no),
            Effect::PressAgain { launch, message } => format!("press-l{}-{message}", launch.no),
            Effect::TakeSnapshot { attempt, no } => format!("snapshot-{attempt}-{no}"),
            Effect::RunCheck { attempt, no, index } => format!("c{attempt}-{no}-{index}"),
            Effect::RunHook(key) => format!("h{}-{}", key.no, key.event),
        }
    }
}

impl Effect {
    /// Whether a shortage makes it wait. The executor retries the others.
    pub(super) fn may_wait(&self) -> bool {
        match self {
            Effect::PrepareWork { .. }
            | Effect::RunSetup { .. }
            | Effect::StartLaunch(_)
            | Effect::TakeSnapshot { .. }
            | Effect::RunCheck { .. }
            | Effect::RunHook(_) => true,
            Effect::Follow(_)
            | Effect::StopLaunch(..)
            | Effect::Deliver { .. }
            | Effect::PressAgain { .. } => false,
        }
    }
}

impl Session {
    /// Returns all effects to execute now: pending ones that do not wait for a resource.
    pub fn effects(&self) -> Vec<Effect> {
        let mut owed = self.owed();
        owed.retain(|effect| !self.is_waiting(effect));
        owed
    }

    /// Returns all pending effects, including those that wait for a resource.
    pub(super) fn owed(&self) -> Vec<Effect> {
        let mut owed = Vec::new();
        if self.is_foreign() {
            return owed;
        }
        if self.work == WorkState::Owed && !self.attempt().is_sealed() {
            owed.push(Effect::PrepareWork { attempt: self.work_for });
        }
        if self.setup == SetupState::Owed
            && matches!(self.work, WorkState::Ready { .. })
            && !self.attempt().is_decided()
        {
            owed.push(self.setup_effect());
        }
        owed.extend(self.launches.iter().filter_map(launch_effect));
        // An external agent is watched for its attempt only: its process is not awaited.
        let sealed = self.attempt().is_sealed();
        let followed = self.launches.iter().filter(|l| l.is_followed() && !(l.adopted && sealed));
        owed.extend(followed.map(|launch| Effect::Follow(launch.id)));
        owed.extend(self.deliveries());
        owed.extend(self.presses());
        owed.extend(self.proof());
        owed.extend(self.hooks.iter().map(|hook| Effect::RunHook(hook.key)));
        owed
    }

    /// Returns the newest setup effect, pending or not.
    pub fn setup_effect(&self) -> Effect {
        Effect::RunSetup { attempt: self.setup_for }
    }

    /// Returns the next delivery. Messages go to the running launch of the attempt, one at a time, in
    /// order.
    pub(super) fn deliveries(&self) -> Option<Effect> {
        let driver = self.spec.agent.driver;
        // One-shot work gets its whole input at the start.
        if driver == Driver::CodexExec {
            return None;
        }
        let ready = |launch: &&Launch| {
            launch.stop.is_none() && (launch.stream.ready || !driver.shakes_hands())
        };
        let launch = self.running().filter(ready)?;
        let message = if driver.has_terminal() {
            self.to_be_typed(launch)?
        } else {
            self.next_message(launch)?
        };
        Some(Effect::Deliver { launch: launch.id, message: message.write_key().into_owned() })
    }

    /// Returns the message that may be typed now. Texts keep their order; answers and interrupts do not
    /// wait for texts. An interrupt comes after the answer to the request on the screen, because it
    /// would cancel the approved action.
    fn to_be_typed(&self, launch: &Launch) -> Option<&Message> {
        let queued = || self.messages.iter().filter(|m| m.fate == MessageFate::Queued);
        let free = |m: &&Message| m.unproved.is_none() && self.held_back(launch, m).is_none();
        let is_key = |m: &&Message| matches!(m.kind, MessageKind::Answer | MessageKind::Interrupt);
        let of_kind = |kind| queued().filter(move |m: &&Message| m.kind == kind);
        let keys = of_kind(MessageKind::Answer).chain(of_kind(MessageKind::Interrupt));
        let text = self.next_message(launch).filter(|m| !is_key(m));
        keys.chain(text).find(free)
    }

    fn presses(&self) -> Option<Effect> {
        let launch = self.running().filter(|launch| launch.stop.is_none())?.id;
        let (message, typed) = self.pressed_again()?;
        let message = message.key.clone();
        self.may_press_again(&typed).then_some(Effect::PressAgain { launch, message })
    }

    fn proof(&self) -> Option<Effect> {
        // A sealed attempt is not verified again, even if its worktree and base are gone.
        let open = !self.attempt().is_sealed();
        if open && self.wants_commit() {
            return self.is_quiet().then(|| self.next_snapshot());
        }
        (open && self.wants_verdict() && self.is_quiet())
            .then(|| self.next_step_of_proof())
            .flatten()
    }

    fn next_snapshot(&self) -> Effect {
        let attempt = self.attempt();
        Effect::TakeSnapshot { attempt: attempt.no, no: attempt.verifying.taken + 1 }
    }

    /// Whether the work in its own worktree has ended and is not committed yet, though no check requires
    /// a commit. Work that the user stopped or decided is left as it is, and a run commits its sessions'
    /// work itself.
    pub(super) fn wants_commit(&self) -> bool {
        let (attempt, verifying) = (self.attempt(), &self.attempt().verifying);
        let untried = verifying.snapshot.is_none() && verifying.failed.is_none();
        let own = matches!(self.spec.work, Work::Worktree { .. }) && self.spec.run.is_none();
        let stands = matches!(self.work, WorkState::Ready { .. });
        let left = own && stands && untried && !attempt.is_decided() && !self.was_ended();
        left && !self.wants_verdict() && self.is_at_its_end()
    }

    /// Whether an agent worked for the attempt, and its outcome is known.
    fn is_at_its_end(&self) -> bool {
        let rests = |launch: &Launch| {
            launch.has_ended()
                || (launch.activity() != Activity::Active && !launch.is_being_ended())
        };
        let ran = |launch: &Launch| {
            !matches!(launch.phase, LaunchPhase::Owed | LaunchPhase::Failed { .. })
        };
        self.attempt().shown.is_terminal()
            && !self.is_stopping_for_it()
            && !self.goes_on()
            && self.launches.iter().any(ran)
            && self.current_launch().is_some_and(rests)
    }

    /// Returns the next step towards a verdict: commit the work, run the checks one by one, compare the
    /// tree again.
    fn next_step_of_proof(&self) -> Option<Effect> {
        let (attempt, verifying) = (self.attempt().no, &self.attempt().verifying);
        let snapshot = self.next_snapshot();
        match (&verifying.snapshot, self.verdict()) {
            (None, _) | (Some(_), Verdict::Passed(_) | Verdict::Refuted(_)) => Some(snapshot),
            (Some(_), Verdict::Open) => {
                let done = |check: &String| verifying.receipts.iter().any(|r| r.command == *check);
                let index = self.spec.checks.iter().position(|check| !done(check))? as u32;
                Some(Effect::RunCheck { attempt, no: verifying.taken, index })
            }
        }
    }

    /// Whether this snapshot is the one that the verdict needs. One reported twice must not confirm
    /// itself, and one from an abandoned round does not count for the next.
    pub(super) fn lacks_snapshot(&self, attempt: u32, no: u32) -> bool {
        if self.wants_commit() {
            return self.next_snapshot() == (Effect::TakeSnapshot { attempt, no });
        }
        let lacking = self.next_step_of_proof() == Some(Effect::TakeSnapshot { attempt, no });
        self.is_unproved() && (lacking || bug!(SnapshotConfirmsItself))
    }

    /// Whether the launch cannot change the work unnoticed: it is gone, or it is alive and observed.
    fn is_quiet(&self) -> bool {
        self.current_launch().is_none_or(|launch| launch.may_live() || launch.is_gone())
    }
}

fn launch_effect(launch: &Launch) -> Option<Effect> {
    match (&launch.phase, launch.stop) {
        (LaunchPhase::Owed, None) => Some(Effect::StartLaunch(launch.id)),
        // Nothing follows it, so the stop effect alone reports its end.
        (LaunchPhase::Owed, Some(stop)) => Some(Effect::StopLaunch(launch.id, stop.step)),
        (LaunchPhase::Running { .. }, Some(stop)) => {
            (stop.step != StopStep::GivenUp).then_some(Effect::StopLaunch(launch.id, stop.step))
        }
        (LaunchPhase::Running { .. }, None) => None,
        (
            LaunchPhase::Ended { .. } | LaunchPhase::Unobserved { .. } | LaunchPhase::Failed { .. },
            _,
        ) => None,
    }
}
