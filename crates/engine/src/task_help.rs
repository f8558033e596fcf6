//! The command that helps: against what keeps a task from being finished, and after a refusal.

use provost_core::{
    ids::StandingId,
    task::{Actor, Blocker, Command, Epilogue, Insufficient, Needs, Rejected, Role, Task},
    text::shell_word,
};

/// Gives the command that helps against what keeps a task from being finished; none if only work does. It names the task
/// by its whole id, which is nobody's name.
pub(crate) fn about_blocker(task: &Task, blocker: &Blocker) -> Option<String> {
    let id = task.id;
    Some(match blocker {
        Blocker::OpenCriterion { no, state, .. } => {
            match (state.as_str(), task.criterion(*no).map(|one| &one.needs)) {
                ("proposed", _) => format!("provost criteria accept {no} --task {id}"),
                (_, Some(Needs::Verified { .. } | Needs::Pictures(_))) => {
                    format!("provost check --criterion {no} --task {id}")
                }
                (_, Some(Needs::Asserted) | None) => {
                    format!("provost criteria satisfy {no} --evidence TEXT --task {id}")
                }
            }
        }
        Blocker::ContractUnacknowledged { member, revision } => {
            format!("provost manager ack --revision {revision} --task {id} {}", as_member(member))
        }
        Blocker::EpilogueOpen { step } => {
            // A review is said by who reviews, where somebody does.
            let of_review = *step == Epilogue::SeparateReview;
            let reviewer = task.bound(Role::Reviewer).next().filter(|_| of_review);
            let by = reviewer.map(|one| format!(" {}", as_member(&one.name))).unwrap_or_default();
            let step = step.word().replace('_', "-");
            format!("provost manager epilogue {step} --evidence TEXT --task {id}{by}")
        }
        Blocker::NotAttacked => format!(
            "provost manager attack --failure-mode TEXT --check TEXT --result TEXT --task {id}"
        ),
        Blocker::LoopIncomplete { .. } => format!("provost loop status --task {id}"),
        Blocker::LoopGaveUp { .. } => format!("provost loop stop --because TEXT --task {id}"),
        // As the operator, and as nobody else.
        Blocker::GateDropped { .. } => format!("provost finish {id} --because TEXT"),
        Blocker::CriterionDropped { no, .. } => {
            format!("provost criteria reopen {no} --because TEXT --task {id}")
        }
        Blocker::CheckFailed { .. } => return None,
        Blocker::Paused => format!("provost task go-on {id}"),
        Blocker::DecidedNotFinished => format!("provost finish {id} --because TEXT"),
    })
}

/// Gives the command that helps whoever was refused something.
pub(crate) fn after_refusal(
    id: StandingId,
    (who, command): (&Actor, &Command),
    why: &Rejected,
) -> String {
    let id = id.short();
    let by = match who {
        Actor::Member(name) => format!(" {}", as_member(name)),
        Actor::Operator | Actor::Policy | Actor::Provost => String::new(),
    };
    match (why, command) {
        (Rejected::NotAcknowledged(revision), _) => {
            format!("provost manager ack --revision {revision} --task {id}{by}")
        }
        (Rejected::NoMove(moves), _) => {
            let kind = moves.first().map_or("KIND", |kind| kind.word());
            format!("provost manager move {kind} --because TEXT --task {id}{by}")
        }
        (Rejected::StaleLease(_) | Rejected::NoLease { .. } | Rejected::NoMessage(_), _)
        | (Rejected::MessageIs { standing: "stored", .. }, _) => {
            format!("provost inbox next --task {id}{by}")
        }
        (Rejected::MessageIs { .. }, _) => format!("provost inbox ls --all --task {id}"),
        (Rejected::Insufficient(Insufficient::NeedsCheck(_)), Command::Judge { no, .. }) => {
            format!("provost check --criterion {no} --task {id}{by}")
        }
        (Rejected::NoLoop | Rejected::OperatorsLoop(_), _) => {
            format!("provost loop start TEMPLATE --task {id}")
        }
        (
            Rejected::LoopRuns(_)
            | Rejected::NoSuchEvidence(_)
            | Rejected::OtherIteration { .. }
            | Rejected::Unfit(_)
            | Rejected::Blocked(_),
            _,
        ) => format!("provost loop status --task {id}"),
        (
            Rejected::NoCriterion(_)
            | Rejected::IllegalJudgement { .. }
            | Rejected::TooManyCriteria(_)
            | Rejected::NothingToCheck,
            _,
        ) => format!("provost criteria ls --task {id}"),
        (Rejected::NoWork, _) => format!("provost task bind {id} NAME --role worker"),
        (Rejected::Revision { .. }, _) => format!("provost manager show --task {id}"),
        (Rejected::NoSession(member), _) => {
            let to = option("--to", member);
            format!("provost send {to} TEXT --task {id}{by}")
        }
        _ => format!("provost task show {id}"),
    }
}

fn as_member(name: &str) -> String {
    option("--as", name)
}

/// Gives an option with a name that somebody chose, for a shell.
fn option(flag: &str, name: &str) -> String {
    let join = if name.starts_with('-') { '=' } else { ' ' };
    format!("{flag}{join}{}", shell_word(name))
}
