//! Rare behavior that the other scenarios almost never reach: unreachable agents, one-shot work at a usage limit,
//! reports beyond the budget, agents that withdraw a claim, and forged records.
//!
//! The rare behavior depends only on the seed and on names, and draws its own random numbers, so
//! it does not change any other scenario.

use provost_core::{
    lifecycle::ClaimKind,
    limits::MAX_REPORT_BYTES,
    session::{
        AgentInterface, FactKind, ProcessExit, ReportBody, SessionSpec, StreamSignal,
        TeamMembership, TurnEnd, Usage,
    },
};

use crate::interfaces;
use crate::{repo::hash_words, rng::Rng, run::Faults, script::AgentAction, team::SimTeam};

/// Makes some sessions one-shot work.
pub(crate) fn one_shot(mut spec: SessionSpec, seed: u64, no: u64, faults: &Faults) -> SessionSpec {
    let chosen = Rng::from_names(seed, &[61, no]).percent(4);
    if chosen && !faults.calm && spec.agent.interface.has_handshake() {
        spec.agent.interface = interfaces::one_shot();
    }
    spec
}

/// Marks some of the sessions that are bound to a team as opened for that team. These sessions are idle between
/// messages, and are dismissed when the team ends.
pub(crate) fn open_for_team(spec: &mut SessionSpec, seed: u64, no: u64, teams: &[SimTeam]) {
    let id = crate::script::session_id(seed, no);
    let bound = teams.iter().flat_map(|team| &team.members);
    let role =
        bound.filter(|(_, _, session)| *session == Some(id)).map(|(_, role, _)| *role).next();
    if let Some(role) = role
        && Rng::from_names(seed, &[62, no]).percent(40)
        && spec.agent.interface.takes_instructions()
        && spec.adopted.is_none()
    {
        spec.agent.settings.member = Some(TeamMembership { role });
    }
}

/// Returns what one-shot work does after its start. It may exit at the usage limit.
pub(crate) fn one_shot_opening(seed: u64, session: u64, launch: u32) -> Vec<AgentAction> {
    let mut rng = Rng::from_names(seed, &[63, session, u64::from(launch)]);
    let thread = Some(format!("thread-{session}"));
    let mut acts = vec![
        AgentAction::Line(StreamSignal::Ready { thread }),
        AgentAction::Line(StreamSignal::TurnStarted { turn: None }),
        AgentAction::Edit { good: rng.percent(80) },
        AgentAction::Sleep(rng.pick(&[0, 30, 700])),
    ];
    let until_ms = rng.pick(&[None, Some(0)]);
    let limited = TurnEnd::Limited { until_ms, detail: "used up".to_owned() };
    acts.push(turn_ended(if rng.percent(50) { limited } else { TurnEnd::Ok }));
    acts.push(AgentAction::Exit(rng.pick(&[ProcessExit::Exit(0), ProcessExit::Exit(1)])));
    acts
}

/// Returns the actions of an agent that Provost cannot connect to, if the seed selects this launch.
pub(crate) fn unreachable(
    seed: u64,
    session: u64,
    launch: u32,
    interface: &AgentInterface,
    faults: &Faults,
) -> Option<Vec<AgentAction>> {
    let mut rng = Rng::from_names(seed, &[64, session, u64::from(launch)]);
    let chosen = rng.percent(4) && interface.has_handshake() && !faults.calm;
    chosen.then(|| {
        let reason = "cannot connect".to_owned();
        let ends = rng.percent(30).then_some(AgentAction::Exit(ProcessExit::Exit(1)));
        let says = AgentAction::Line(StreamSignal::Unreachable { reason });
        [says].into_iter().chain(ends).collect()
    })
}

/// Returns a turn with rare behavior, if the seed selects one for this agent.
pub(crate) fn turn(names: &[u64], seed: u64, faults: &Faults) -> Option<Vec<AgentAction>> {
    let mut rng = Rng::from_names(seed, &[&[65], names].concat());
    match rng.below(1000) {
        _ if faults.calm => None,
        0..=29 => Some(recanting(&mut rng)),
        30 => Some(vec![excessive_report()]),
        _ => None,
    }
}

/// Returns a turn that completes the work and, after the work was verified, withdraws the claim.
fn recanting(rng: &mut Rng) -> Vec<AgentAction> {
    let claim = |kind| ReportBody::Claim { kind, text: None };
    let used = AgentAction::Line(StreamSignal::Usage(Usage { input: 1, output: 1 }));
    let mut acts = vec![
        AgentAction::Line(StreamSignal::TurnStarted { turn: None }),
        AgentAction::Edit { good: true },
        AgentAction::Line(StreamSignal::Reported(claim(ClaimKind::Completed))),
        turn_ended(TurnEnd::Ok),
        AgentAction::Sleep(1_200),
        AgentAction::Report(claim(ClaimKind::None)),
    ];
    acts.extend(std::iter::repeat_n(used, 4));
    acts.extend([
        AgentAction::Sleep(50),
        AgentAction::Exit(rng.pick(&[ProcessExit::Exit(1), ProcessExit::Signal(9)])),
    ]);
    acts
}

/// A report that exceeds the budget of its launch.
fn excessive_report() -> AgentAction {
    let value = "x".repeat(MAX_REPORT_BYTES as usize + 1);
    AgentAction::Line(StreamSignal::Reported(ReportBody::Fact { kind: FactKind::Branch, value }))
}

/// Whether the record of an effect is forged before Provost starts the effect.
pub(crate) fn is_forged(seed: u64, effect: &str, faults: &Faults) -> bool {
    let chosen = Rng::from_names(seed, &[66, hash_words(&[effect])]).permille(8);
    chosen && !faults.calm
}

fn turn_ended(end: TurnEnd) -> AgentAction {
    AgentAction::Line(StreamSignal::TurnEnded { turn: None, end, usage: None, says: None })
}
