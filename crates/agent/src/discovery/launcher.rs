//! Distinguishes an agent's own process from the scripts that only start the agent.

use std::collections::BTreeMap;

use provost_api::{ApiError, ErrorCode};
use provost_sys::origin::MARK;

use super::DiscoveredAgent;
use crate::processes::{ObservedProcess, ProcessTree};

/// Explains why a process is not an agent. Usually, an agent started the process, which merely inherited the agent's
/// environment.
pub(super) fn not_an_agent(family: &ProcessTree<'_>, process: &ObservedProcess) -> ApiError {
    let pid = process.identity.pid;
    match family.agent_above(process).map(|above| above.identity.pid) {
        Some(above) => {
            let message = format!(
                "process {pid} is not an agent: it was started by the agent with process {above}"
            );
            ApiError::new(ErrorCode::Refused, message).next(format!("provost adopt --pid {above}"))
        }
        None => {
            let message = format!(
                "process {pid} is not a known agent: neither AI_AGENT nor its program identifies one"
            );
            ApiError::new(ErrorCode::Refused, message).next("provost discover")
        }
    }
}

/// Returns the agent to which a process belongs. If the process only launched an agent, returns
/// that agent.
pub(super) fn resolve_launcher(
    named: DiscoveredAgent,
    agents: &[DiscoveredAgent],
    parents: &BTreeMap<u32, u32>,
) -> Result<DiscoveredAgent, ApiError> {
    let begun: Vec<&DiscoveredAgent> =
        agents.iter().filter(|one| is_launcher_of(&named, one, parents)).collect();
    match begun.as_slice() {
        [] => Ok(named),
        [only] => resolve_launcher((*only).clone(), agents, parents),
        several => {
            let pids: Vec<String> = several.iter().filter_map(|one| pid_of(one)).collect();
            let (pid, pids) = (pid_of(&named).unwrap_or_default(), pids.join(", "));
            let message = format!("process {pid} started several agents: {pids}");
            Err(ApiError::new(ErrorCode::BadRequest, message).next("provost adopt --pid PID"))
        }
    }
}

/// Keeps only the process of an agent that is writing the rollout. If there is no rollout, removes
/// only launchers, such as the script that npm installs.
pub(super) fn dedup_agent_processes(
    agents: Vec<DiscoveredAgent>,
    parents: &BTreeMap<u32, u32>,
) -> Vec<DiscoveredAgent> {
    let writers: Vec<&DiscoveredAgent> = agents.iter().filter(|one| one.has_rollout()).collect();
    if let [only] = writers.as_slice() {
        return vec![(*only).clone()];
    }
    drop_launchers(agents, parents)
}

/// Drops processes that merely launched another process of the same agent, such as the script that npm installs.
pub(super) fn drop_launchers(
    agents: Vec<DiscoveredAgent>,
    parents: &BTreeMap<u32, u32>,
) -> Vec<DiscoveredAgent> {
    let only_starts =
        |one: &&DiscoveredAgent| agents.iter().any(|other| is_launcher_of(one, other, parents));
    agents.iter().filter(|one| !only_starts(one)).cloned().collect()
}

/// Whether `one` merely launched `other`.
pub(super) fn is_launcher_of(
    one: &DiscoveredAgent,
    other: &DiscoveredAgent,
    parents: &BTreeMap<u32, u32>,
) -> bool {
    let pid = |found: &DiscoveredAgent| found.process.as_ref().map(|process| process.pid);
    let parent = pid(other).and_then(|pid| parents.get(&pid).copied());
    let is_child = parent.is_some() && parent == pid(one);
    is_child && other.agent == one.agent && !one.own_program && !one.has_rollout()
}

pub(super) fn parents_in(all: &[ObservedProcess]) -> BTreeMap<u32, u32> {
    all.iter().map(|process| (process.identity.pid, process.parent)).collect()
}

/// Whether an agent is the process in a pane or a descendant of that process.
pub(super) fn runs_in_pane(
    found: &DiscoveredAgent,
    pane: u32,
    parents: &BTreeMap<u32, u32>,
) -> bool {
    let mut next = found.process.as_ref().map(|process| process.pid);
    // No real ancestry has 64 levels. The limit guards against cycles, which can appear if
    // processes change while they are being read.
    for _ in 0..64 {
        match next {
            Some(pid) if pid == pane => return true,
            Some(pid) if pid > 1 => next = parents.get(&pid).copied(),
            Some(_) | None => return false,
        }
    }
    false
}

/// Whether a process belongs to one of Provost's launches. All processes of a launch have a mark in
/// their environment.
pub(super) fn belongs_to_launch(pid: u32) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mark = format!("{}=", MARK);
    environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
}

pub(super) fn pid_of(found: &DiscoveredAgent) -> Option<String> {
    found.process.as_ref().map(|process| process.pid.to_string())
}

#[cfg(test)]
mod tests {
    use provost_sys::process::ProcessInstance;

    use super::{super::unknown_agent as found, *};

    #[test]
    fn launcher_script_is_not_another_agent() {
        let of = |pid| {
            let process = Some(ProcessInstance { pid, start_time: 1, boot_id: "b".to_owned() });
            DiscoveredAgent { process, ..found() }
        };
        let program = |pid| DiscoveredAgent { own_program: true, ..of(pid) };
        let parents = BTreeMap::from([(7, 1), (8, 7), (9, 8)]);
        assert_eq!(dedup_agent_processes(vec![of(7), program(8)], &parents), [program(8)]);
        let writes = DiscoveredAgent { rollout: Some("/r".into()), ..program(8) };
        assert_eq!(
            dedup_agent_processes(vec![of(7), writes.clone(), program(9)], &parents),
            [writes]
        );
        // A launcher script resolves to the agent it launched. An agent that runs another agent, however, is not a
        // launcher.
        let all = [of(7), program(8), program(9)];
        for named in [of(7), program(8)] {
            assert_eq!(resolve_launcher(named, &all, &parents), Ok(program(8)));
        }
        assert_eq!(drop_launchers(all.to_vec(), &parents), [program(8), program(9)]);
        let parents = BTreeMap::from([(7, 1), (8, 7), (9, 7)]);
        let several = resolve_launcher(of(7), &all, &parents).unwrap_err();
        assert!(several.message.contains("8, 9"), "{several:?}");
    }
}
