//! What a session owes to the outside world. Level-triggered: a pure function of what was committed.

use serde::{Deserialize, Serialize};

use super::{
    hook::HookKey,
    launch::{Launch, LaunchPhase, StopStep},
    spec::{Driver, Work},
    state::{Message, MessageFate, MessageKind, Session, SetupState, WorkState},
};
use crate::{ids::LaunchId, lifecycle::Activity, verdict::Verdict};

/// Names an effect. An outside command runs in a directory of this name, so it cannot happen twice.
pub type EffectKey = String;

/// Something to be done to the outside world. Its result comes back as a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Prepare the place of work, for this attempt: what failed for one and is owed for the next is another effect, also
    /// if both are told in one commit.
    PrepareWork {
        attempt: u32,
    },
    /// Set up the place of work, for this attempt.
    RunSetup {
        attempt: u32,
    },
    StartLaunch(LaunchId),
    /// Read the journal and watch the process, for as long as this is owed.
    Follow(LaunchId),
    StopLaunch(LaunchId, StopStep),
    Deliver {
        launch: LaunchId,
        /// The key under which it is written, [`Message::write_key`].
        message: String,
    },
    /// Press the key that sends a message once more.
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

/// What a deadline is for.
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
    /// An effect that met a shortage is tried again.
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
    /// Gives the effect's key within its session.
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
    /// Whether a shortage makes it wait. The others are tried again by whoever carries them out.
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
    /// Gives all that is to be done now: what is owed, and does not wait for a resource.
    pub fn effects(&self) -> Vec<Effect> {
        let mut owed = self.owed();
        owed.retain(|effect| !self.is_waiting(effect));
        owed
    }

    /// Returns all that is owed, also what waits for a resource.
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
        // What somebody else started is watched for its attempt: nobody waits for its process to go.
        let sealed = self.attempt().is_sealed();
        let followed = self.launches.iter().filter(|l| l.is_followed() && !(l.adopted && sealed));
        owed.extend(followed.map(|launch| Effect::Follow(launch.id)));
        owed.extend(self.deliveries());
        owed.extend(self.presses());
        owed.extend(self.proof());
        owed.extend(self.hooks.iter().map(|hook| Effect::RunHook(hook.key)));
        owed
    }

    /// Gives the newest effect that sets the place of work up, whether it is owed or not.
    pub fn setup_effect(&self) -> Effect {
        Effect::RunSetup { attempt: self.setup_for }
    }

    /// Messages go to the running launch of the attempt, one after the other in their order.
    pub(super) fn deliveries(&self) -> Option<Effect> {
        let shakes_hands = self.spec.agent.driver.shakes_hands();
        let ready =
            |launch: &&Launch| launch.stop.is_none() && (launch.stream.ready || !shakes_hands);
        // One-shot work is told everything when it starts.
        let listens = self.spec.agent.driver != Driver::CodexExec;
        let launch = self.running().filter(ready).filter(|_| listens)?;
        let message = match self.spec.agent.driver.has_terminal() {
            true => self.to_be_typed(launch)?,
            false => self.next_message(launch)?,
        };
        Some(Effect::Deliver { launch: launch.id, message: message.write_key().into_owned() })
    }

    /// Gives what may be typed now. Texts keep their order, and neither an answer nor an interrupt waits for a text.
    /// An interrupt comes after the answer to what stands on the screen: it would call off what was approved.
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
        // What was sealed is not proved again, though its place of work, and with it where it began, is gone.
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

    /// Whether the work in a worktree of its own has ended and is yet to be committed, though no check asks for that. What
    /// the user stopped or decided stays as it is, and a run commits what its sessions left itself.
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

    /// The next step towards a verdict: commit the work, run the checks one by one, look at the tree again.
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

    /// Says whether this very snapshot is what the verdict lacks. One told twice must not confirm itself,
    /// and one of a round that was given up says nothing about the next.
    pub(super) fn lacks_snapshot(&self, attempt: u32, no: u32) -> bool {
        if self.wants_commit() {
            return self.next_snapshot() == (Effect::TakeSnapshot { attempt, no });
        }
        let lacking = self.next_step_of_proof() == Some(Effect::TakeSnapshot { attempt, no });
        self.is_unproved() && (lacking || bug!(SnapshotConfirmsItself))
    }

    /// Says whether nothing of the launch can change the work behind our back: it is gone, or idle.
    fn is_quiet(&self) -> bool {
        self.current_launch().is_none_or(|launch| launch.may_live() || launch.is_gone())
    }
}

fn launch_effect(launch: &Launch) -> Option<Effect> {
    match (&launch.phase, launch.stop) {
        (LaunchPhase::Owed, None) => Some(Effect::StartLaunch(launch.id)),
        // Nobody follows it, so that whoever ends it is the only one to tell what became of it.
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
