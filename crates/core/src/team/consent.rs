//! Commands written by members, which Provost runs only with the operator's consent.

use super::{
    command::TeamRejection,
    criterion::{Criterion, CriterionState, ProvostCheck},
    decide::{TeamCommandResult, single_event},
    event::CommandsApproved,
    member::TeamActor,
    state::Team,
};
use crate::policy::Ruling;

impl Team {
    /// Rejects a member's command that the approval rules deny.
    pub(super) fn check_command_rules(
        &self,
        actor: &TeamActor,
        command: &str,
    ) -> Result<(), TeamRejection> {
        match (actor, self.rule_for(command)) {
            (TeamActor::Member(_), Ruling::Deny(rule)) => {
                Err(TeamRejection::DeniedCommand { command: command.to_owned(), rule })
            }
            _ => Ok(()),
        }
    }

    /// Rejects a check whose command the operator neither wrote nor approved. Comparing pictures
    /// runs no command, so it needs no consent.
    pub(super) fn check_consent(&self, check: &ProvostCheck) -> Result<(), TeamRejection> {
        if check.pictures.is_some() || self.has_consent(&check.command) {
            return Ok(());
        }
        Err(TeamRejection::NeedsConsent(check.command.clone()))
    }

    fn has_consent(&self, command: &str) -> bool {
        let named = self.spec.checks.iter().chain(&self.spec.consent.named);
        named.into_iter().any(|one| one == command)
            || self.consented.contains(command)
            || matches!(self.rule_for(command), Ruling::Allow(_))
    }

    fn rule_for(&self, command: &str) -> Ruling {
        self.spec.consent.rules.evaluate_own_command(command)
    }

    /// Returns the commands that are waiting for the operator's consent, without duplicates.
    pub fn commands_awaiting_consent(&self) -> Vec<&str> {
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

    /// Approves commands that are waiting for consent.
    pub(super) fn approve_commands(
        &self,
        actor: &TeamActor,
        commands: &[String],
    ) -> TeamCommandResult {
        if *actor != TeamActor::Operator {
            return Err(TeamRejection::OperatorConsents);
        }
        let waiting = self.commands_awaiting_consent();
        let unknown = commands.iter().find(|command| !waiting.contains(&command.as_str()));
        match unknown {
            Some(command) => Err(TeamRejection::NoSuchCommand(command.clone())),
            None if commands.is_empty() => Err(TeamRejection::NothingNew),
            None => single_event(CommandsApproved { commands: commands.to_vec() }),
        }
    }
}
