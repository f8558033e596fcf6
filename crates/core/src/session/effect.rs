//! The pending effects of a session, which are a pure function of the committed state.

use serde::{Deserialize, Serialize};

use super::{
    hook::HookKey,
    launch::{Launch, LaunchPhase, StopStep},
    spec::WorkLocation,
    state::{AgentMessage, AgentMessageKind, Session, SetupState, WorkState},
};
use crate::{
    aggregate::EffectKey, ids::LaunchId, lifecycle::Activity, rules::rules, verdict::Verdict,
};

/// An action outside the ledger. Its result is returned as a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionEffect {
    /// Prepare the worktree for this attempt. Preparing it again for the next attempt is a separate
    /// effect, even if both become pending in the same commit.
    PrepareWork {
        attempt: u32,
    },
    /// Run the setup command in the worktree for this attempt.
    RunSetup {
        attempt: u32,
    },
    StartLaunch(LaunchId),
    /// Read the journal and watch the process, as long as this effect is pending.
    Follow(LaunchId),
    StopLaunch(LaunchId, StopStep),
    Deliver {
        launch: LaunchId,
        /// The key under which the message is written; see [`AgentMessage::write_key`].
        message: String,
    },
    /// Press Enter again for a message that was already typed.
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
pub enum DeadlineKind {
    TimeLimit,
    StreamSettle,
    Escalation,
    Seal,
    Silence(LaunchId),
    LimitLifted,
    Handshake,
    ApprovalExpiry,
    InputConfirmation,
    Compaction,
    Reaction,
    OwnTurn,
    /// Retrying an effect that was delayed by a shortage.
    Retry,
}

impl DeadlineKind {
    pub fn as_str(self) -> &'static str {
        match self {
            DeadlineKind::TimeLimit => "time_limit",
            DeadlineKind::StreamSettle => "stream_settle",
            DeadlineKind::Escalation => "escalation",
            DeadlineKind::Seal => "seal",
            DeadlineKind::Silence(_) => "silence",
            DeadlineKind::LimitLifted => "limit_lifted",
            DeadlineKind::Handshake => "handshake",
            DeadlineKind::ApprovalExpiry => "expiry",
            DeadlineKind::InputConfirmation => "proof",
            DeadlineKind::Compaction => "compaction",
            DeadlineKind::Reaction => "reaction",
            DeadlineKind::OwnTurn => "own_turn",
            DeadlineKind::Retry => "retry",
        }
    }
}

impl SessionEffect {
    /// Returns the key that identifies the effect within its session.
    pub fn key(&self) -> EffectKey {
        match self {
            SessionEffect::PrepareWork { attempt: 1 } => "work".to_owned(),
            SessionEffect::PrepareWork { attempt } => format!("work-{attempt}"),
            SessionEffect::RunSetup { attempt: 1 } => "setup".to_owned(),
            SessionEffect::RunSetup { attempt } => format!("setup-{attempt}"),
            SessionEffect::StartLaunch(launch) => format!("l{}", launch.no),
            SessionEffect::Follow(launch) => format!("follow-l{}", launch.no),
            SessionEffect::StopLaunch(launch, step) => {
                format!("stop-l{}-{step:?}", launch.no).to_lowercase()
            }
            SessionEffect::Deliver { launch, message } => {
                format!("deliver-l{}-{message}", launch.no)
            }
            SessionEffect::PressAgain { launch, message } => {
                format!("press-l{}-{message}", launch.no)
            }
            SessionEffect::TakeSnapshot { attempt, no } => format!("snapshot-{attempt}-{no}"),
            SessionEffect::RunCheck { attempt, no, index } => format!("c{attempt}-{no}-{index}"),
            SessionEffect::RunHook(key) => format!("h{}-{}", key.no, key.event),
        }
    }
}

impl SessionEffect {
    /// Whether the session itself waits and retries if the effect encounters a shortage. The
    /// executor retries all other effects.
    pub(super) fn can_wait_for_resource(&self) -> bool {
        match self {
            SessionEffect::PrepareWork { .. }
            | SessionEffect::RunSetup { .. }
            | SessionEffect::StartLaunch(_)
            | SessionEffect::TakeSnapshot { .. }
            | SessionEffect::RunCheck { .. }
            | SessionEffect::RunHook(_) => true,
            SessionEffect::Follow(_)
            | SessionEffect::StopLaunch(..)
            | SessionEffect::Deliver { .. }
            | SessionEffect::PressAgain { .. } => false,
        }
    }
}

impl Session {
    /// Returns all effects to execute now, which excludes those that are waiting for a resource.
    pub fn effects(&self) -> Vec<SessionEffect> {
        let mut effects = self.pending_effects();
        effects.retain(|effect| !self.is_waiting(effect));
        effects
    }

    /// Returns all pending effects, including those that are waiting for a resource.
    pub(super) fn pending_effects(&self) -> Vec<SessionEffect> {
        let mut effects = Vec::new();
        if self.is_foreign() {
            return effects;
        }
        if self.worktree.state == WorkState::Pending && !self.attempt().is_sealed() {
            effects.push(self.preparation());
        }
        if self.worktree.setup == SetupState::Pending
            && matches!(self.worktree.state, WorkState::Ready { .. })
            && !self.attempt().is_decided()
        {
            effects.push(self.setup_effect());
        }
        effects.extend(self.launches.iter().filter_map(launch_effect));
        // An external agent is watched only during its attempt, because Provost does not wait for
        // its process to exit.
        let sealed = self.attempt().is_sealed();
        let followed = self.launches.iter().filter(|l| l.is_followed() && !(l.adopted && sealed));
        effects.extend(followed.map(|launch| SessionEffect::Follow(launch.id)));
        effects.extend(self.next_delivery());
        effects.extend(self.enter_retry_effect());
        effects.extend(self.verification_effect());
        effects.extend(self.hook_log.pending.iter().map(|hook| SessionEffect::RunHook(hook.key)));
        effects
    }

    /// Returns the newest setup effect, whether or not it is pending.
    pub fn setup_effect(&self) -> SessionEffect {
        SessionEffect::RunSetup { attempt: self.worktree.setup_attempt }
    }

    /// Returns the next message to deliver. Messages are delivered in order and one at a time, to
    /// the process that works on the current attempt.
    pub(super) fn next_delivery(&self) -> Option<SessionEffect> {
        let interface = &self.spec.agent.interface;
        // One-shot work receives its entire input when it starts.
        if interface.is_one_shot() {
            return None;
        }
        let ready = |launch: &&Launch| {
            launch.stop.is_none() && (launch.stream.ready || !interface.has_handshake())
        };
        let launch = self.running_launch().filter(ready)?;
        let message = if interface.has_terminal() {
            self.next_typed_message(launch)?
        } else {
            self.next_message(launch)?
        };
        Some(SessionEffect::Deliver {
            launch: launch.id,
            message: message.write_key().into_owned(),
        })
    }

    /// Returns the message that can be typed now. Texts keep their order, but answers and
    /// interrupts do not wait for texts. An interrupt waits for the answer to the request on the
    /// screen, because it would cancel the approved action.
    fn next_typed_message(&self, launch: &Launch) -> Option<&AgentMessage> {
        let queued = || self.input.queued();
        let free = |m: &&AgentMessage| {
            m.unconfirmed_reason.is_none() && self.input_blocked(launch, m).is_none()
        };
        let is_key = |m: &&AgentMessage| {
            matches!(m.kind, AgentMessageKind::Answer | AgentMessageKind::Interrupt)
        };
        let of_kind = |kind| queued().filter(move |m: &&AgentMessage| m.kind == kind);
        let keys = of_kind(AgentMessageKind::Answer).chain(of_kind(AgentMessageKind::Interrupt));
        let text = self.next_message(launch).filter(|m| !is_key(m));
        keys.chain(text).find(free)
    }

    fn enter_retry_effect(&self) -> Option<SessionEffect> {
        let launch = self.running_launch().filter(|launch| launch.stop.is_none())?.id;
        let (message, typed) = self.pending_enter_retry()?;
        let message = message.key.clone();
        self.may_retry_enter(&typed).then_some(SessionEffect::PressAgain { launch, message })
    }

    fn verification_effect(&self) -> Option<SessionEffect> {
        // A sealed attempt is not verified again, even if its worktree and base no longer exist.
        let open = !self.attempt().is_sealed();
        if open && self.wants_commit() {
            return self.is_quiet().then(|| self.next_snapshot());
        }
        (open && self.wants_verdict() && self.is_quiet())
            .then(|| self.next_verification_step())
            .flatten()
    }

    fn next_snapshot(&self) -> SessionEffect {
        let attempt = self.attempt();
        SessionEffect::TakeSnapshot { attempt: attempt.no, no: attempt.verifying.taken + 1 }
    }

    fn preparation(&self) -> SessionEffect {
        SessionEffect::PrepareWork { attempt: self.worktree.attempt }
    }

    /// Whether git may still be making the session's worktree. Until git is done, the attempt is not
    /// sealed, because otherwise a worktree could appear after the session has ended.
    pub(super) fn is_preparing(&self) -> bool {
        rules().may_create_worktree(&self.worktree.state)
            && self.spec.work != WorkLocation::Plain
            && !self.is_foreign()
            && !self.is_waiting(&self.preparation())
    }

    /// Whether the work in the session's own worktree is over but not committed, although no check
    /// requires a commit. Work that the user stopped or decided stays uncommitted, and a run
    /// commits the work of its sessions itself.
    pub(super) fn wants_commit(&self) -> bool {
        let (attempt, verifying) = (self.attempt(), &self.attempt().verifying);
        let untried = verifying.snapshot.is_none() && verifying.failed.is_none();
        let own =
            matches!(self.spec.work, WorkLocation::Worktree { .. }) && self.spec.run.is_none();
        let ready = matches!(self.worktree.state, WorkState::Ready { .. });
        let left = own && ready && untried && !attempt.is_decided() && !self.ended_on_request();
        left && !self.wants_verdict() && self.has_outcome()
    }

    /// Whether an agent has worked on the attempt and its outcome is known.
    fn has_outcome(&self) -> bool {
        let rests = |launch: &Launch| {
            launch.has_ended() || (launch.activity() != Activity::Active && !launch.is_stopping())
        };
        let ran = |launch: &Launch| {
            !matches!(launch.phase, LaunchPhase::Pending | LaunchPhase::Failed { .. })
        };
        self.attempt().shown.is_terminal()
            && !self.is_stop_pending()
            && !self.will_continue()
            && self.launches.iter().any(ran)
            && self.current_launch().is_some_and(rests)
    }

    /// Returns the next step towards a verdict: commit the work, run the checks one by one, then
    /// compare the tree again.
    fn next_verification_step(&self) -> Option<SessionEffect> {
        let (attempt, verifying) = (self.attempt().no, &self.attempt().verifying);
        let snapshot = self.next_snapshot();
        match (&verifying.snapshot, self.verdict()) {
            (None, _) | (Some(_), Verdict::Passed(_) | Verdict::Refuted(_)) => Some(snapshot),
            (Some(_), Verdict::Open) => {
                let done = |check: &String| verifying.receipts.iter().any(|r| r.command == *check);
                let index = self.spec.checks.iter().position(|check| !done(check))? as u32;
                Some(SessionEffect::RunCheck { attempt, no: verifying.taken, index })
            }
        }
    }

    /// Whether this is the snapshot that the verdict needs. A snapshot that is reported twice must
    /// not confirm itself, and a snapshot from an abandoned round does not count in the next one.
    pub(super) fn needs_snapshot(&self, attempt: u32, no: u32) -> bool {
        if self.wants_commit() {
            return self.next_snapshot() == (SessionEffect::TakeSnapshot { attempt, no });
        }
        let (next, given) =
            (self.next_verification_step(), SessionEffect::TakeSnapshot { attempt, no });
        self.lacks_verdict() && rules().is_requested(next.as_ref(), &given)
    }

    /// Whether the launch cannot change the work unnoticed, because it is either gone or being observed.
    fn is_quiet(&self) -> bool {
        self.current_launch().is_none_or(|launch| launch.may_be_running() || launch.is_gone())
    }
}

fn launch_effect(launch: &Launch) -> Option<SessionEffect> {
    match (&launch.phase, launch.stop) {
        (LaunchPhase::Pending, None) => Some(SessionEffect::StartLaunch(launch.id)),
        // No follower observes this launch, so only the stop effect reports its end.
        (LaunchPhase::Pending, Some(stop)) => Some(SessionEffect::StopLaunch(launch.id, stop.step)),
        (LaunchPhase::Running { .. }, Some(stop)) => (stop.step != StopStep::GivenUp)
            .then_some(SessionEffect::StopLaunch(launch.id, stop.step)),
        (LaunchPhase::Running { .. }, None) => None,
        (
            LaunchPhase::Ended { .. } | LaunchPhase::Unobserved { .. } | LaunchPhase::Failed { .. },
            _,
        ) => None,
    }
}
