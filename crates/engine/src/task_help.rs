//! Hint commands: against a blocker of a team's completion, and after a refusal.

use provost_core::{
    ids::StandingId,
    task::{Actor, Blocker, Command, Epilogue, Insufficient, Needs, Rejected, Role, Task},
    text::shell_word,
};

/// Returns the command that helps the caller against a blocker of a team's completion. `None` if
/// only work or another member can help. It names the team by its whole id, which cannot be a name,
/// and the actor: an external member that left that out would act as the operator.
pub(crate) fn about_blocker(task: &Task, who: &Actor, blocker: &Blocker) -> Option<String> {
    let (id, by) = (task.id, said_by(who));
    Some(match blocker {
        Blocker::OpenCriterion { no, state, .. } => {
            match (state.as_str(), task.criterion(*no).map(|one| &one.needs)) {
                ("proposed", _) => format!("provost criteria accept {no} --task {id}{by}"),
                (_, Some(Needs::Verified { .. } | Needs::Pictures(_))) => {
                    format!("provost check --criterion {no} --task {id}{by}")
                }
                (_, Some(Needs::Asserted) | None) => {
                    format!("provost criteria satisfy {no} --evidence TEXT --task {id}{by}")
                }
            }
        }
        Blocker::ContractUnacknowledged { member, revision } => {
            let ack = format!("provost manager ack --revision {revision} --task {id}");
            by_member(task, who, member, &ack)
        }
        Blocker::EpilogueOpen { step } => {
            // A bound reviewer attests a review.
            let of_review = *step == Epilogue::SeparateReview;
            let reviewer = if of_review { task.bound(Role::Reviewer).next() } else { None };
            let step = step.word().replace('_', "-");
            let done = format!("provost manager epilogue {step} --evidence TEXT --task {id}");
            match reviewer {
                Some(reviewer) => by_member(task, who, &reviewer.name, &done),
                None => format!("{done}{by}"),
            }
        }
        Blocker::NotAttacked => format!(
            "provost manager attack --failure-mode TEXT --check TEXT --result TEXT --task {id}{by}"
        ),
        Blocker::LoopIncomplete { .. } => format!("provost loop status --task {id}{by}"),
        Blocker::LoopGaveUp { .. } => format!("provost loop stop --because TEXT --task {id}{by}"),
        // Only as the operator.
        Blocker::GateDropped { .. } if *who == Actor::Operator => {
            format!("provost finish {id} --because TEXT")
        }
        Blocker::GateDropped { .. } => to_operator(&id.to_string(), &by),
        Blocker::CriterionDropped { no, .. } => {
            format!("provost criteria reopen {no} --because TEXT --task {id}{by}")
        }
        Blocker::InstructionOpen { member, .. } => {
            format!("provost inbox ls {} --task {id}{by}", option("--to", member))
        }
        Blocker::NothingProved => {
            format!("provost criteria add TEXT --check COMMAND --task {id}{by}")
        }
        Blocker::CheckFailed { .. }
        | Blocker::MemberWorking { .. }
        | Blocker::NothingChanged { .. } => return None,
        Blocker::Paused => format!("provost task go-on {id}{by}"),
        Blocker::DecidedNotFinished => format!("provost finish {id} --because TEXT{by}"),
    })
}

/// Returns a command that only one member may run: for itself, and for the operator, who may act
/// for it. All other callers can only ask for it.
fn by_member(task: &Task, who: &Actor, member: &str, command: &str) -> String {
    match who {
        Actor::Member(name) if name != member => {
            let (to, by) = (option("--to", member), said_by(who));
            format!("provost send {to} TEXT --task {}{by}", task.id)
        }
        Actor::Member(_) | Actor::Operator | Actor::Policy | Actor::Provost => {
            format!("{command} {}", as_member(member))
        }
    }
}

/// Returns the command that asks the operator.
fn to_operator(id: &str, by: &str) -> String {
    format!("provost send --to operator TEXT --task {id}{by}")
}

/// Returns the option that names the actor. Empty for the operator.
pub(crate) fn said_by(who: &Actor) -> String {
    match who {
        Actor::Member(name) => format!(" {}", as_member(name)),
        Actor::Operator | Actor::Policy | Actor::Provost => String::new(),
    }
}

/// Returns the command that helps a caller after a refusal.
pub(crate) fn after_refusal(
    id: StandingId,
    who: &Actor,
    command: &Command,
    why: &Rejected,
) -> String {
    let (id, by) = (id.short(), said_by(who));
    let operates = *who == Actor::Operator;
    match (why, command) {
        (Rejected::NotAcknowledged(revision), _) => {
            format!("provost manager ack --revision {revision} --task {id}{by}")
        }
        (Rejected::NeedsConsent(_), _) if operates => format!("provost approve {id}"),
        (Rejected::NeedsConsent(_), _) => to_operator(&id, &by),
        (Rejected::NoMove(moves), _) => {
            let kind = moves.first().map_or("KIND", |kind| kind.word());
            format!("provost manager move {kind} --because TEXT --task {id}{by}")
        }
        (
            Rejected::MessageIs { standing: "offered", .. },
            Command::Acknowledge { no, lease, .. },
        ) => {
            format!("provost inbox accept {no} --lease {lease} --task {id}{by}")
        }
        (Rejected::StaleLease(_) | Rejected::NoLease { .. }, _)
        | (Rejected::MessageIs { standing: "stored", .. }, _) => {
            format!("provost inbox next --task {id}{by}")
        }
        // A caller that drafts from a message does not take one.
        (Rejected::NoMessage(_), Command::Draft { .. }) | (Rejected::MessageIs { .. }, _) => {
            format!("provost inbox ls --all --task {id}{by}")
        }
        (Rejected::NoMessage(_), _) => format!("provost inbox next --task {id}{by}"),
        (Rejected::Insufficient(Insufficient::NeedsCheck(_)), Command::Judge { no, .. }) => {
            format!("provost check --criterion {no} --task {id}{by}")
        }
        (Rejected::OperatorsLoop(_) | Rejected::NoWork, _) if !operates => to_operator(&id, &by),
        (Rejected::NoLoop | Rejected::OperatorsLoop(_), _) => {
            format!("provost loop start TEMPLATE --task {id}{by}")
        }
        (
            Rejected::LoopRuns(_)
            | Rejected::NoSuchEvidence(_)
            | Rejected::OtherIteration { .. }
            | Rejected::Unfit(_)
            | Rejected::Blocked(_),
            _,
        ) => format!("provost loop status --task {id}{by}"),
        (
            Rejected::NoCriterion(_)
            | Rejected::IllegalJudgement { .. }
            | Rejected::TooManyCriteria(_)
            | Rejected::NothingToCheck,
            _,
        ) => format!("provost criteria ls --task {id}{by}"),
        (Rejected::MessagesOpen { member, .. }, _) => {
            format!("provost inbox ls {} --task {id}{by}", option("--to", member))
        }
        (Rejected::OperatorAllows(_), _) => to_operator(&id, &by),
        (Rejected::NoWork, _) => format!("provost task bind {id} NAME --role worker"),
        (Rejected::Revision { .. }, _) => format!("provost manager show --task {id}{by}"),
        (Rejected::NoSession(member), _) => {
            let to = option("--to", member);
            format!("provost send {to} TEXT --task {id}{by}")
        }
        _ => format!("provost task show {id}{by}"),
    }
}

fn as_member(name: &str) -> String {
    option("--as", name)
}

/// Returns an option with a user-chosen name, quoted for a shell.
fn option(flag: &str, name: &str) -> String {
    let join = if name.starts_with('-') { '=' } else { ' ' };
    format!("{flag}{join}{}", shell_word(name))
}
