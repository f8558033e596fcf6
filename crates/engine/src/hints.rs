//! Hint commands: against a blocker of a team's completion, and after a refusal.

use provost_core::{
    ids::TeamId,
    team::{
        EpilogueStep, EvidenceRequirement, FinishBlocker, InsufficientEvidence, MemberRole, Team,
        TeamActor, TeamCommand, TeamRejection,
    },
    text::shell_quote,
};

/// Returns the command that helps the caller against a blocker of a team's completion. `None` if
/// only work or another member can help. It names the team by its whole id, which cannot be a name,
/// and the actor: an external member that left that out would act as the operator.
pub(crate) fn hint_for_blocker(
    task: &Team,
    who: &TeamActor,
    blocker: &FinishBlocker,
) -> Option<String> {
    let (id, by) = (task.id, actor_option(who));
    Some(match blocker {
        FinishBlocker::OpenCriterion { no, state, .. } => {
            match (state.as_str(), task.criterion(*no).map(|one| &one.needs)) {
                ("proposed", _) => format!("provost criteria accept {no} --task {id}{by}"),
                (
                    _,
                    Some(EvidenceRequirement::Verified { .. } | EvidenceRequirement::Pictures(_)),
                ) => {
                    format!("provost check --criterion {no} --task {id}{by}")
                }
                (_, Some(EvidenceRequirement::Asserted) | None) => {
                    format!("provost criteria satisfy {no} --evidence TEXT --task {id}{by}")
                }
            }
        }
        FinishBlocker::ContractUnacknowledged { member, revision } => {
            let ack = format!("provost manager ack --revision {revision} --task {id}");
            member_command(task, who, member, &ack)
        }
        FinishBlocker::EpilogueOpen { step } => {
            // A bound reviewer attests a review.
            let of_review = *step == EpilogueStep::SeparateReview;
            let reviewer = if of_review { task.bound(MemberRole::Reviewer).next() } else { None };
            let step = step.as_str().replace('_', "-");
            let done = format!("provost manager epilogue {step} --evidence TEXT --task {id}");
            match reviewer {
                Some(reviewer) => member_command(task, who, &reviewer.name, &done),
                None => format!("{done}{by}"),
            }
        }
        FinishBlocker::NotAttacked => format!(
            "provost manager attack --failure-mode TEXT --check TEXT --result TEXT --task {id}{by}"
        ),
        FinishBlocker::LoopIncomplete { .. } => format!("provost loop status --task {id}{by}"),
        FinishBlocker::LoopGaveUp { .. } => {
            format!("provost loop stop --because TEXT --task {id}{by}")
        }
        // Only as the operator.
        FinishBlocker::GateDropped { .. } if *who == TeamActor::Operator => {
            format!("provost finish {id} --because TEXT")
        }
        FinishBlocker::GateDropped { .. } => ask_operator(&id.to_string(), &by),
        FinishBlocker::CriterionDropped { no, .. } => {
            format!("provost criteria reopen {no} --because TEXT --task {id}{by}")
        }
        FinishBlocker::InstructionOpen { member, .. } => {
            format!("provost inbox ls {} --task {id}{by}", quoted_option("--to", member))
        }
        FinishBlocker::NothingProved => {
            format!("provost criteria add TEXT --check COMMAND --task {id}{by}")
        }
        FinishBlocker::CheckFailed { .. }
        | FinishBlocker::MemberWorking { .. }
        | FinishBlocker::NothingChanged { .. } => return None,
        FinishBlocker::Paused => format!("provost task go-on {id}{by}"),
        FinishBlocker::DecidedNotFinished => format!("provost finish {id} --because TEXT{by}"),
    })
}

/// Returns a command that only one member may run: for itself, and for the operator, who may act
/// for it. All other callers can only ask for it.
fn member_command(task: &Team, who: &TeamActor, member: &str, command: &str) -> String {
    match who {
        TeamActor::Member(name) if name != member => {
            let (to, by) = (quoted_option("--to", member), actor_option(who));
            format!("provost send {to} TEXT --task {}{by}", task.id)
        }
        TeamActor::Member(_) | TeamActor::Operator | TeamActor::Policy | TeamActor::Provost => {
            format!("{command} {}", as_option(member))
        }
    }
}

/// Returns the command that asks the operator.
fn ask_operator(id: &str, by: &str) -> String {
    format!("provost send --to operator TEXT --task {id}{by}")
}

/// Returns the option that names the actor. Empty for the operator.
pub(crate) fn actor_option(who: &TeamActor) -> String {
    match who {
        TeamActor::Member(name) => format!(" {}", as_option(name)),
        TeamActor::Operator | TeamActor::Policy | TeamActor::Provost => String::new(),
    }
}

/// Returns the command that helps a caller after a refusal.
pub(crate) fn hint_after_refusal(
    id: TeamId,
    who: &TeamActor,
    command: &TeamCommand,
    why: &TeamRejection,
) -> String {
    let (id, by) = (id.short(), actor_option(who));
    let operates = *who == TeamActor::Operator;
    match (why, command) {
        (TeamRejection::NotAcknowledged(revision), _) => {
            format!("provost manager ack --revision {revision} --task {id}{by}")
        }
        (TeamRejection::NeedsConsent(_), _) if operates => format!("provost approve {id}"),
        (TeamRejection::NeedsConsent(_), _) => ask_operator(&id, &by),
        (TeamRejection::NoMove(moves), _) => {
            let kind = moves.first().map_or("KIND", |kind| kind.as_str());
            format!("provost manager move {kind} --because TEXT --task {id}{by}")
        }
        (
            TeamRejection::MessageIs { standing: "offered", .. },
            TeamCommand::Acknowledge { no, lease, .. },
        ) => {
            format!("provost inbox accept {no} --lease {lease} --task {id}{by}")
        }
        (TeamRejection::StaleLease(_) | TeamRejection::NoLease { .. }, _)
        | (TeamRejection::MessageIs { standing: "stored", .. }, _) => {
            format!("provost inbox next --task {id}{by}")
        }
        // A caller that drafts from a message does not take one.
        (TeamRejection::NoMessage(_), TeamCommand::Draft { .. })
        | (TeamRejection::MessageIs { .. }, _) => {
            format!("provost inbox ls --all --task {id}{by}")
        }
        (TeamRejection::NoMessage(_), _) => format!("provost inbox next --task {id}{by}"),
        (
            TeamRejection::Insufficient(InsufficientEvidence::NeedsCheck(_)),
            TeamCommand::Judge { no, .. },
        ) => {
            format!("provost check --criterion {no} --task {id}{by}")
        }
        (TeamRejection::OperatorsLoop(_) | TeamRejection::NoWorkToCheck, _) if !operates => {
            ask_operator(&id, &by)
        }
        (TeamRejection::NoLoop | TeamRejection::OperatorsLoop(_), _) => {
            format!("provost loop start TEMPLATE --task {id}{by}")
        }
        (
            TeamRejection::LoopRuns(_)
            | TeamRejection::NoSuchEvidence(_)
            | TeamRejection::OtherIteration { .. }
            | TeamRejection::EvidenceMismatch(_)
            | TeamRejection::Blocked(_),
            _,
        ) => format!("provost loop status --task {id}{by}"),
        (
            TeamRejection::NoCriterion(_)
            | TeamRejection::IllegalJudgement { .. }
            | TeamRejection::TooManyCriteria(_)
            | TeamRejection::NothingToCheck,
            _,
        ) => format!("provost criteria ls --task {id}{by}"),
        (TeamRejection::MessagesOpen { member, .. }, _) => {
            format!("provost inbox ls {} --task {id}{by}", quoted_option("--to", member))
        }
        (TeamRejection::OperatorAllows(_), _) => ask_operator(&id, &by),
        (TeamRejection::NoWorkToCheck, _) => format!("provost task bind {id} NAME --role worker"),
        (TeamRejection::StaleRevision { .. }, _) => format!("provost manager show --task {id}{by}"),
        (TeamRejection::NoSession(member), _) => {
            let to = quoted_option("--to", member);
            format!("provost send {to} TEXT --task {id}{by}")
        }
        _ => format!("provost task show {id}{by}"),
    }
}

fn as_option(name: &str) -> String {
    quoted_option("--as", name)
}

/// Returns an option with a user-chosen name, quoted for a shell.
fn quoted_option(flag: &str, name: &str) -> String {
    let join = if name.starts_with('-') { '=' } else { ' ' };
    format!("{flag}{join}{}", shell_quote(name))
}
