//! Hints: commands that remove what blocks a team from finishing, or that help after a refusal.

use provost_api::RequestRow;
use provost_core::{
    ids::{SessionId, TeamId},
    session::Session,
    team::{
        EpilogueStep, EvidenceRequirement, FinishBlocker, InsufficientEvidence, MemberRole, Team,
        TeamActor, TeamCommand, TeamRejection,
    },
    text::shell_quote,
};

use crate::projection::session::request_rows;

/// Returns a command that lets the caller remove something that blocks the team from finishing.
/// `None` if only further work or another member can remove it. The command contains the team's
/// full id, which cannot be mistaken for a name. It also contains the actor, because an external
/// member would otherwise act as the operator.
pub(crate) fn hint_for_blocker(
    task: &Team,
    who: &TeamActor,
    blocker: &FinishBlocker,
) -> Option<String> {
    let (id, by) = (task.id, actor_option(who));
    Some(match blocker {
        FinishBlocker::OpenCriterion { no, state, .. } => {
            match (state.as_str(), task.criterion(*no).map(|one| &one.needs)) {
                ("proposed", _) => format!("provost team criterion accept {no} -t {id}{by}"),
                (
                    _,
                    Some(EvidenceRequirement::Verified { .. } | EvidenceRequirement::Pictures(_)),
                ) => {
                    format!("provost team prove --criterion {no} -t {id}{by}")
                }
                (_, Some(EvidenceRequirement::Asserted) | None) => {
                    format!("provost team criterion satisfy {no} --evidence TEXT -t {id}{by}")
                }
            }
        }
        FinishBlocker::ContractNotAccepted { member, revision } => {
            let ack = format!("provost team contract accept --revision {revision} -t {id}");
            member_command(task, who, member, &ack)
        }
        FinishBlocker::EpilogueOpen { step } => {
            // If a reviewer is bound, that reviewer must attest the review.
            let of_review = *step == EpilogueStep::SeparateReview;
            let reviewer = if of_review { task.bound(MemberRole::Reviewer).next() } else { None };
            let step = step.as_str().replace('_', "-");
            let done = format!("provost team contract epilogue {step} --evidence TEXT -t {id}");
            match reviewer {
                Some(reviewer) => member_command(task, who, &reviewer.name, &done),
                None => format!("{done}{by}"),
            }
        }
        FinishBlocker::NotChallenged => format!(
            "provost team contract challenge --failure-mode TEXT --check TEXT --result TEXT -t {id}{by}"
        ),
        FinishBlocker::LoopIncomplete { .. } => format!("provost team loop status -t {id}{by}"),
        FinishBlocker::LoopGaveUp { .. } => {
            format!("provost team loop stop --because TEXT -t {id}{by}")
        }
        // Only the operator can run this command.
        FinishBlocker::GateDropped { .. } if *who == TeamActor::Operator => {
            format!("provost team done {id} --because TEXT")
        }
        FinishBlocker::GateDropped { .. } => ask_operator(&id.to_string(), &by),
        FinishBlocker::CriterionDropped { no, .. } => {
            format!("provost team criterion reopen {no} --because TEXT -t {id}{by}")
        }
        FinishBlocker::InstructionOpen { member, .. } => {
            format!("provost team inbox ls {} -t {id}{by}", quoted_option("--to", member))
        }
        FinishBlocker::NothingProved => {
            format!("provost team criterion add TEXT --check COMMAND -t {id}{by}")
        }
        FinishBlocker::NothingChanged { .. } if *who == TeamActor::Operator => {
            format!("provost team done {id} --because TEXT --allow nothing_changed")
        }
        FinishBlocker::CheckFailed { .. }
        | FinishBlocker::MemberWorking { .. }
        | FinishBlocker::NothingChanged { .. } => return None,
        FinishBlocker::Paused => format!("provost team resume {id}{by}"),
        FinishBlocker::DecidedNotFinished => format!("provost team done {id} --because TEXT{by}"),
    })
}

/// Like [`hint_for_blocker`], but also suggests to answer a worker that waits for an answer. `look`
/// returns a session's current state.
pub(crate) fn hint_for_open_blocker<'s>(
    task: &Team,
    who: &TeamActor,
    blocker: &FinishBlocker,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<String> {
    if let FinishBlocker::MemberWorking { member, .. } = blocker
        && may_answer(task, who)
    {
        return answer_hint(task, member, look);
    }
    hint_for_blocker(task, who, blocker)
}

/// Whether the caller may answer the requests of members. Provost refuses answers from agents, but
/// a member without a session acts from the operator's own shell.
pub(crate) fn may_answer(task: &Team, who: &TeamActor) -> bool {
    match who {
        TeamActor::Operator => true,
        TeamActor::Member(name) => task.member(name).is_none_or(|member| member.session.is_none()),
        TeamActor::Policy | TeamActor::Provost => false,
    }
}

/// Returns the command that answers a member's oldest request.
pub(crate) fn answer_hint<'s>(
    task: &Team,
    member: &str,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<String> {
    let session = look(task.member(member)?.session?)?;
    request_rows(session).first().map(RequestRow::answer_command)
}

/// Returns a command that only one member may run. It is shown to that member, and to the operator,
/// who may act on its behalf. All other callers can only ask the member to run it.
fn member_command(task: &Team, who: &TeamActor, member: &str, command: &str) -> String {
    match who {
        TeamActor::Member(name) if name != member => {
            send_command(&task.id.to_string(), &actor_option(who), member)
        }
        TeamActor::Member(_) | TeamActor::Operator | TeamActor::Policy | TeamActor::Provost => {
            format!("{command} {}", as_option(member))
        }
    }
}

/// Returns the command that asks the operator.
fn ask_operator(id: &str, by: &str) -> String {
    send_command(id, by, "operator")
}

/// Returns the command that sends a text to a member. A name with a leading dash is placed after
/// `--`, so that it is not parsed as an option.
fn send_command(id: &str, by: &str, to: &str) -> String {
    let name = shell_quote(to);
    if to.starts_with('-') {
        format!("provost team send -t {id}{by} -- {name} TEXT")
    } else {
        format!("provost team send {name} TEXT -t {id}{by}")
    }
}

/// Returns the option that specifies the actor. Empty for the operator.
pub(crate) fn actor_option(who: &TeamActor) -> String {
    match who {
        TeamActor::Member(name) => format!(" {}", as_option(name)),
        TeamActor::Operator | TeamActor::Policy | TeamActor::Provost => String::new(),
    }
}

/// Returns the command that helps a caller after a refusal, if there is one.
pub(crate) fn hint_after_refusal(
    id: TeamId,
    who: &TeamActor,
    command: &TeamCommand,
    why: &TeamRejection,
) -> String {
    let (id, by) = (id.short(), actor_option(who));
    let operates = *who == TeamActor::Operator;
    match (why, command) {
        (TeamRejection::ContractNotAccepted(revision), _) => {
            format!("provost team contract accept --revision {revision} -t {id}{by}")
        }
        (TeamRejection::NeedsConsent(_), _) if operates => format!("provost approve {id}"),
        (TeamRejection::NeedsConsent(_), _) => ask_operator(&id, &by),
        (TeamRejection::NoMove(moves), _) => {
            let kind = moves.first().map_or("KIND", |kind| kind.as_str());
            format!("provost team contract move {kind} --because TEXT -t {id}{by}")
        }
        (
            TeamRejection::MessageIs { status: "offered", .. },
            TeamCommand::Acknowledge { no, lease, .. },
        ) => {
            format!("provost team inbox accept {no} --lease {lease} -t {id}{by}")
        }
        (TeamRejection::StaleLease(_) | TeamRejection::NoLease { .. }, _)
        | (TeamRejection::MessageIs { status: "stored", .. }, _) => {
            format!("provost team next -t {id}{by}")
        }
        // A draft refers to its message by number, so polling for the next message would not help.
        (TeamRejection::NoMessage(_), TeamCommand::Draft { .. })
        | (TeamRejection::MessageIs { .. }, _) => {
            format!("provost team inbox ls --all -t {id}{by}")
        }
        (TeamRejection::NoMessage(_), _) => format!("provost team next -t {id}{by}"),
        (
            TeamRejection::Insufficient(InsufficientEvidence::NeedsCheck(_)),
            TeamCommand::Judge { no, .. },
        ) => {
            format!("provost team prove --criterion {no} -t {id}{by}")
        }
        (TeamRejection::OperatorsLoop(_) | TeamRejection::NoWorkToCheck, _) if !operates => {
            ask_operator(&id, &by)
        }
        (TeamRejection::NoLoop | TeamRejection::OperatorsLoop(_), _) => {
            format!("provost team loop start TEMPLATE -t {id}{by}")
        }
        (
            TeamRejection::LoopRuns(_)
            | TeamRejection::NoSuchEvidence(_)
            | TeamRejection::OtherIteration { .. }
            | TeamRejection::EvidenceMismatch(_)
            | TeamRejection::Blocked(_),
            _,
        ) => format!("provost team loop status -t {id}{by}"),
        (
            TeamRejection::NoCriterion(_)
            | TeamRejection::IllegalJudgement { .. }
            | TeamRejection::TooManyCriteria(_)
            | TeamRejection::NothingToCheck,
            _,
        ) => format!("provost team criterion ls -t {id}{by}"),
        (TeamRejection::MessagesOpen { member, .. }, _) => {
            format!("provost team inbox ls {} -t {id}{by}", quoted_option("--to", member))
        }
        (TeamRejection::OperatorAllows(_), _) => ask_operator(&id, &by),
        (TeamRejection::NoWorkToCheck, _) => format!("provost team bind {id} NAME --role worker"),
        (TeamRejection::StaleRevision { .. }, _) => {
            format!("provost team contract show -t {id}{by}")
        }
        (TeamRejection::NoSession(member), _) => send_command(&id, &by, member),
        (
            TeamRejection::TextTooShort(_),
            TeamCommand::Propose { .. } | TeamCommand::ProposeAccepted { .. },
        ) => "provost team criterion add --help".to_owned(),
        _ => format!("provost team show {id}{by}"),
    }
}

fn as_option(name: &str) -> String {
    quoted_option("--as", name)
}

/// Formats an option with a user-chosen name, quoted for a shell.
fn quoted_option(flag: &str, name: &str) -> String {
    let join = if name.starts_with('-') { '=' } else { ' ' };
    format!("{flag}{join}{}", shell_quote(name))
}
