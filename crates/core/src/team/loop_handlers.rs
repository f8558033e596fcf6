//! Handlers for commands about the loop.

use super::{
    advance::TeamAdvanceContext,
    command::TeamRejection,
    criterion::{CriterionEvidence, check_meaningful},
    decide::{TeamCommandResult, single_event},
    dedup::{DuplicateStatus, MessageContent},
    event::*,
    loop_evidence::ShownEvidence,
    loop_state::{Loop, LoopEnd, LoopProof, LoopTemplate},
    member::{MemberRole, TeamActor},
    message::{MAX_TEXT, MessageChannel, MessageTrust, Priority, Recipient, TeamMessageKind},
    state::Team,
};

/// A request for the next iteration of the loop.
#[derive(Clone, Copy)]
pub(super) struct Continuation<'a> {
    pub(super) iteration: u32,
    pub(super) to: &'a str,
    pub(super) key: &'a str,
    pub(super) text: &'a str,
    pub(super) channel: MessageChannel,
}

impl Team {
    pub(super) fn begin_loop(
        &self,
        actor: &TeamActor,
        template: &LoopTemplate,
    ) -> TeamCommandResult {
        template.validate()?;
        template.commands().try_for_each(|command| self.check_command_rules(actor, command))?;
        if let Some(running) = self.running_loop() {
            return Err(TeamRejection::LoopRuns(running.template.name.clone()));
        }
        // Replacing the operator's loop with a weaker one would bypass its gate.
        let pending = self.loop_state.as_ref().filter(|looped| looped.is_pending_for_operator());
        match pending {
            Some(pending) if actor.is_manager() => {
                Err(TeamRejection::OperatorsLoop(pending.template.name.clone()))
            }
            Some(_) | None => {
                single_event(LoopBegun { template: Box::new(template.clone()), by: actor.clone() })
            }
        }
    }

    pub(super) fn show_evidence(
        &self,
        actor: &TeamActor,
        iteration: u32,
        name: &str,
        shown: &ShownEvidence,
    ) -> TeamCommandResult {
        let looped = self.running_loop().ok_or(TeamRejection::NoLoop)?;
        let now = looped.iteration;
        if iteration != now {
            return Err(TeamRejection::OtherIteration { now, given: iteration });
        }
        let proof = required_proof(looped, name)?;
        // Only Provost can submit receipts and comparisons, because Provost runs the commands and
        // compares the pictures itself.
        let own = match shown {
            ShownEvidence::Evidence(CriterionEvidence::Verified(_))
            | ShownEvidence::Pictures(_) => true,
            ShownEvidence::Evidence(CriterionEvidence::Asserted { .. })
            | ShownEvidence::Challenge(_)
            | ShownEvidence::Artifact(_) => false,
        };
        if own && *actor != TeamActor::Provost {
            return Err(TeamRejection::NothingToCheck);
        }
        if *proof == LoopProof::Adversarial {
            self.check_may_challenge(actor)?;
        }
        proof.check_evidence(shown)?;
        let shown = match shown.clone() {
            ShownEvidence::Evidence(evidence) => ShownEvidence::Evidence(evidence.sign(actor)),
            other @ (ShownEvidence::Challenge(_)
            | ShownEvidence::Artifact(_)
            | ShownEvidence::Pictures(_)) => other,
        };
        let (name, by) = (name.to_owned(), actor.clone());
        single_event(EvidenceShown { iteration, name, shown, by })
    }

    /// Stops the loop, even if the loop already ended at a plateau or because its budget was used up.
    pub(super) fn stop_loop(&self, actor: &TeamActor, because: &str) -> TeamCommandResult {
        let looped = self.loop_state.as_ref().ok_or(TeamRejection::NoLoop)?;
        match looped.ended {
            None | Some(LoopEnd::Plateau { .. } | LoopEnd::Budget { .. }) => {
                check_meaningful(because)?;
                let end = LoopEnd::Stopped { because: because.to_owned() };
                single_event(LoopEnded { end, by: actor.clone() })
            }
            Some(LoopEnd::Finished | LoopEnd::Stopped { .. }) => Err(TeamRejection::NoLoop),
        }
    }

    /// Requests the next iteration. The gate decides, and refusals are recorded.
    pub(super) fn request_continuation(
        &self,
        actor: &TeamActor,
        wanted: Continuation<'_>,
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        let Continuation { iteration, to, key, text, channel } = wanted;
        let looped = self.loop_state.as_ref().ok_or(TeamRejection::NoLoop)?;
        let content = MessageContent {
            to,
            text,
            iteration: Some(iteration),
            kind: TeamMessageKind::Continuation,
            priority: Priority::Normal,
            window_ms: None,
            correlation: None,
            steer: false,
        };
        match self.duplicate_status(actor, key, &content) {
            DuplicateStatus::Never => {}
            DuplicateStatus::Duplicate => return Err(TeamRejection::NothingNew),
            DuplicateStatus::Conflict => return Err(TeamRejection::KeyTaken(key.to_owned())),
        }
        if let Err(why) = looped.check_may_request(iteration, context.tokens_used(self)) {
            let by = TeamActor::Provost;
            let end = why.loop_end().map(|end| LoopEnded { end, by }.into());
            let refused = ContinuationRefused { iteration, why, by: actor.clone() }.into();
            return Ok([refused].into_iter().chain(end).collect());
        }
        let member = self.bound_member(to)?;
        if member.role != MemberRole::Worker {
            return Err(TeamRejection::NoWorker(member.name.clone()));
        }
        let to = Recipient::Member(member.name.clone());
        if text.len() > MAX_TEXT {
            return Err(TeamRejection::TooLong(text.len()));
        }
        self.check_room(&to)?;
        single_event(MessageStored {
            no: self.messages_stored + 1,
            key: key.to_owned(),
            correlation: None,
            from: actor.clone(),
            channel,
            trust: MessageTrust::between(self.role_of(actor), self.recipient_role(&to)),
            to,
            kind: TeamMessageKind::Continuation,
            text: text.to_owned(),
            priority: Priority::Normal,
            expires_ms: None,
            window_ms: None,
            iteration: Some(iteration),
            steer: false,
        })
    }
}

pub(super) fn required_proof<'a>(
    looped: &'a Loop,
    name: &str,
) -> Result<&'a LoopProof, TeamRejection> {
    let evidence = &looped.template.evidence;
    let found = evidence.iter().find(|required| required.name == name);
    found.map(|required| &required.proof).ok_or_else(|| {
        TeamRejection::NoSuchEvidence(evidence.iter().map(|one| one.name.clone()).collect())
    })
}
