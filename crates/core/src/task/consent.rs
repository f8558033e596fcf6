//! Commands written by members: Provost runs them only with the operator's consent.

use super::{
    command::Rejected,
    criterion::{Check, Criterion, CriterionState},
    decide::{Decision, one},
    event::CommandsApproved,
    member::Actor,
    state::Task,
};
use crate::policy::Ruling;

impl Task {
    /// Refuses a member's command that the approval rules deny.
    pub(super) fn may_write(&self, actor: &Actor, command: &str) -> Result<(), Rejected> {
        match (actor, self.ruling(command)) {
            (Actor::Member(_), Ruling::Deny(rule)) => {
                Err(Rejected::DeniedCommand { command: command.to_owned(), rule })
            }
            _ => Ok(()),
        }
    }

    /// Refuses to run a command that the operator neither wrote nor approved. Comparing pictures
    /// runs none.
    pub(super) fn may_check(&self, check: &Check) -> Result<(), Rejected> {
        if check.pictures.is_some() || self.has_consent(&check.command) {
            return Ok(());
        }
        Err(Rejected::NeedsConsent(check.command.clone()))
    }

    fn has_consent(&self, command: &str) -> bool {
        let named = self.spec.checks.iter().chain(&self.spec.consent.named);
        named.into_iter().any(|one| one == command)
            || self.consented.contains(command)
            || matches!(self.ruling(command), Ruling::Allow(_))
    }

    fn ruling(&self, command: &str) -> Ruling {
        self.spec.consent.rules.rule_own_command(command)
    }

    /// Returns the commands that wait for the operator's consent, without duplicates.
    pub fn awaited_commands(&self) -> Vec<&str> {
        if self.phase.is_over() {
            return Vec::new();
        }
        let wanted = |criterion: &&Criterion| {
            matches!(criterion.state, CriterionState::Proposed | CriterionState::Accepted)
        };
        let of_criteria = self.criteria.iter().filter(wanted).filter_map(|one| one.needs.command());
        let of_loop = self.running_loop().into_iter().flat_map(|looped| looped.template.commands());
        let mut waiting: Vec<&str> = Vec::new();
        for command in of_criteria.chain(of_loop) {
            if !self.has_consent(command) && !waiting.contains(&command) {
                waiting.push(command);
            }
        }
        waiting
    }

    /// Approves commands that wait for consent.
    pub(super) fn approve_commands(&self, actor: &Actor, commands: &[String]) -> Decision {
        if *actor != Actor::Operator {
            return Err(Rejected::OperatorConsents);
        }
        let waiting = self.awaited_commands();
        let unknown = commands.iter().find(|command| !waiting.contains(&command.as_str()));
        match unknown {
            Some(command) => Err(Rejected::NoSuchCommand(command.clone())),
            None if commands.is_empty() => Err(Rejected::Nothing),
            None => one(CommandsApproved { commands: commands.to_vec() }),
        }
    }
}
