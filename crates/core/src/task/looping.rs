//! Commands about the loop.

use super::{
    advance::Around,
    command::{Command, Rejected},
    criterion::{Evidence, says_something},
    decide::{Decision, one},
    event::*,
    forgotten::{Content, Sent},
    gate::{Loop, LoopEnd, Proof, Shown, Template},
    member::{Actor, Role},
    message::{Address, Kind, MAX_TEXT, Priority, Trust},
    state::Task,
};

impl Task {
    pub(super) fn begin_loop(&self, actor: &Actor, template: &Template) -> Decision {
        template.check()?;
        template.commands().try_for_each(|command| self.may_write(actor, command))?;
        if let Some(running) = self.running_loop() {
            return Err(Rejected::LoopRuns(running.template.name.clone()));
        }
        // Replacing the operator's loop with a weaker one would bypass its gate.
        let owed = self.looped.as_ref().filter(|looped| looped.is_owed_to_the_operator());
        match owed {
            Some(owed) if actor.manages() => {
                Err(Rejected::OperatorsLoop(owed.template.name.clone()))
            }
            Some(_) | None => {
                one(LoopBegun { template: Box::new(template.clone()), by: actor.clone() })
            }
        }
    }

    pub(super) fn show(
        &self,
        actor: &Actor,
        iteration: u32,
        name: &str,
        shown: &Shown,
    ) -> Decision {
        let looped = self.running_loop().ok_or(Rejected::NoLoop)?;
        let now = looped.iteration;
        if iteration != now {
            return Err(Rejected::OtherIteration { now, given: iteration });
        }
        let proof = required(looped, name)?;
        // Only Provost has receipts of commands that it ran, and results of pictures that it
        // compared.
        let own = match shown {
            Shown::Evidence(Evidence::Verified(_)) | Shown::Pictures(_) => true,
            Shown::Evidence(Evidence::Asserted { .. }) | Shown::Attack(_) | Shown::Artifact(_) => {
                false
            }
        };
        if own && *actor != Actor::Provost {
            return Err(Rejected::NothingToCheck);
        }
        if *proof == Proof::Adversarial {
            self.may_attack(actor)?;
        }
        proof.met_by(shown)?;
        let shown = match shown.clone() {
            Shown::Evidence(evidence) => Shown::Evidence(evidence.signed(actor)),
            other @ (Shown::Attack(_) | Shown::Artifact(_) | Shown::Pictures(_)) => other,
        };
        let (name, by) = (name.to_owned(), actor.clone());
        one(EvidenceShown { iteration, name, shown, by })
    }

    /// Stops the loop. This also accepts a loop that ended by plateau or budget.
    pub(super) fn stop_loop(&self, actor: &Actor, because: &str) -> Decision {
        let looped = self.looped.as_ref().ok_or(Rejected::NoLoop)?;
        match looped.ended {
            None | Some(LoopEnd::Plateau { .. } | LoopEnd::Budget { .. }) => {
                says_something(because)?;
                let end = LoopEnd::Stopped { because: because.to_owned() };
                one(LoopEnded { end, by: actor.clone() })
            }
            Some(LoopEnd::Finished | LoopEnd::Stopped { .. }) => Err(Rejected::NoLoop),
        }
    }

    /// Requests the next iteration. The gate decides, and a refusal is recorded.
    pub(super) fn ask_to_continue(
        &self,
        actor: &Actor,
        command: &Command,
        around: &Around<'_>,
    ) -> Decision {
        let Command::Continue { iteration, to, key, text, channel } = command else {
            unreachable!("dispatch() sends only this here")
        };
        let (iteration, channel) = (*iteration, *channel);
        let looped = self.looped.as_ref().ok_or(Rejected::NoLoop)?;
        let content = Content {
            to,
            text,
            iteration: Some(iteration),
            kind: Kind::Continuation,
            priority: Priority::Normal,
            window_ms: None,
            correlation: None,
            steer: false,
        };
        match self.sent_before(actor, key, &content) {
            Sent::Never => {}
            Sent::Already => return Err(Rejected::Nothing),
            Sent::Otherwise => return Err(Rejected::KeyTaken(key.clone())),
        }
        if let Err(why) = looped.may_ask(iteration, around.used(self)) {
            let by = Actor::Provost;
            let end = why.end().map(|end| LoopEnded { end, by }.into());
            let refused = ContinuationRefused { iteration, why, by: actor.clone() }.into();
            return Ok([refused].into_iter().chain(end).collect());
        }
        let member = self.known(to)?;
        if member.role != Role::Worker {
            return Err(Rejected::NoWorker(member.name.clone()));
        }
        let to = Address::Member(member.name.clone());
        if text.len() > MAX_TEXT {
            return Err(Rejected::TooLong(text.len()));
        }
        self.has_room(&to)?;
        one(MessageStored {
            no: self.messages_stored + 1,
            key: key.clone(),
            correlation: None,
            from: actor.clone(),
            channel,
            trust: Trust::between(self.role_of(actor), self.role_at(&to)),
            to,
            kind: Kind::Continuation,
            text: text.clone(),
            priority: Priority::Normal,
            expires_ms: None,
            window_ms: None,
            iteration: Some(iteration),
            steer: false,
        })
    }
}

pub(super) fn required<'a>(looped: &'a Loop, name: &str) -> Result<&'a Proof, Rejected> {
    let evidence = &looped.template.evidence;
    let found = evidence.iter().find(|required| required.name == name);
    found.map(|required| &required.proof).ok_or_else(|| {
        Rejected::NoSuchEvidence(evidence.iter().map(|one| one.name.clone()).collect())
    })
}
