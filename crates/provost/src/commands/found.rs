//! Agents on this machine that Provost did not start: what can be known of each, and from where.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use provost_api::{ApiError, Code};
use provost_core::session::Driver;
use provost_watch::{
    ThreadId,
    process::{self, AgentKind, Basis, Identity, Process, Seen},
    rollout::{Fold, Next, Places, SessionMeta, Tail, Told},
    tmux::{self, PaneId, Server},
};

use crate::{context::Context, error::usage};

/// How many of the newest conversations are looked at.
const NEWEST: usize = 50;

/// How an agent was named.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) pid: Option<u32>,
    pub(crate) rollout: Option<PathBuf>,
    pub(crate) pane: Option<String>,
    pub(crate) thread: Option<String>,
}

/// An agent, by all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) agent: String,
    /// What the agent's kind was told by.
    pub(crate) known_by: &'static str,
    pub(crate) process: Option<Identity>,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) rollout: Option<PathBuf>,
    pub(crate) thread: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) pane: Option<FoundPane>,
    /// What could not be seen, and why.
    pub(crate) hidden: Vec<String>,
}

/// The pane of tmux that an agent runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundPane {
    pub(crate) socket: String,
    pub(crate) id: String,
    pub(crate) server: u32,
}

impl Found {
    /// Only of Codex it is known how it writes down its conversation.
    pub(crate) fn driver(&self) -> Driver {
        match self.rollout.is_some() {
            true => Driver::CodexTerminal,
            false => Driver::Terminal,
        }
    }

    /// Says what cannot be known about it.
    pub(crate) fn lacks(&self) -> Vec<String> {
        let process = match self.process {
            None => "its process is not known, so that its end cannot be seen",
            Some(_) => "its exit code cannot be seen: somebody else started it",
        };
        let record = match self.rollout {
            None => Some(
                "it has no record that can be read, so that its turns cannot be seen and nothing can be sent to it",
            ),
            Some(_) => None,
        };
        let own = [Some(process), record].into_iter().flatten().map(str::to_owned);
        own.chain(self.hidden.iter().cloned()).collect()
    }
}

/// Finds the one agent that is meant.
pub(crate) fn one(context: &Context, given: &Given) -> Result<Found, ApiError> {
    let places = places(context)?;
    let mut found: Vec<(&'static str, Found)> = Vec::new();
    if let Some(pid) = given.pid {
        found.push(("--pid", by_pid(pid)?));
    }
    if let Some(pane) = &given.pane {
        found.push(("--tmux", by_pane(context, pane)?));
    }
    if let Some(rollout) = &given.rollout {
        found.push(("--rollout", by_rollout(rollout)?));
    }
    if let Some(thread) = &given.thread {
        found.push(("--thread", by_thread(&places, thread)?));
    }
    let mut found = found.into_iter();
    let Some(first) = found.next() else {
        return Err(
            usage("say which agent: --pid, --rollout, --tmux or --thread").next("provost discover")
        );
    };
    let (_, agreed) = found.try_fold(first, |(by, one), (other_by, other)| {
        agree(&one, &other).map(|both| (other_by, both)).map_err(|why| {
            let message = format!("{by} and {other_by} are not about the same agent: {why}");
            usage(message).next("provost discover")
        })
    })?;
    with_pane(context, with_process(agreed)?)
}

/// An agent that runs in a pane of one of this user's tmux servers is watched there too, without being asked for that.
fn with_pane(context: &Context, found: Found) -> Result<Found, ApiError> {
    let mut found = [found];
    if found[0].process.is_some() && found[0].pane.is_none() {
        in_panes(context, &mut found)?;
    }
    let [found] = found;
    Ok(found)
}

/// A record whose writer runs is watched by its process too, without being asked for that.
fn with_process(found: Found) -> Result<Found, ApiError> {
    let (None, Some(rollout)) = (&found.process, &found.rollout) else { return Ok(found) };
    let writers: Vec<Found> =
        running()?.into_iter().filter(|one| one.rollout.as_ref() == Some(rollout)).collect();
    match writers.as_slice() {
        [only] => agree(&found, only).map_err(usage),
        _ => Ok(found),
    }
}

/// Puts together what is known in two ways, or says where they disagree.
fn agree(one: &Found, other: &Found) -> Result<Found, String> {
    Ok(Found {
        agent: same("agent", &Some(one.agent.clone()), &Some(other.agent.clone()))?
            .unwrap_or_default(),
        known_by: one.known_by,
        process: same("process", &one.process, &other.process)?,
        argv: if one.argv.is_empty() { other.argv.clone() } else { one.argv.clone() },
        cwd: one.cwd.clone().or_else(|| other.cwd.clone()),
        rollout: same("rollout", &one.rollout, &other.rollout)?,
        thread: same("conversation", &one.thread, &other.thread)?,
        version: one.version.clone().or_else(|| other.version.clone()),
        pane: one.pane.clone().or_else(|| other.pane.clone()),
        hidden: one.hidden.iter().chain(&other.hidden).cloned().collect(),
    })
}

fn same<T: Clone + PartialEq + std::fmt::Debug>(
    what: &str,
    one: &Option<T>,
    other: &Option<T>,
) -> Result<Option<T>, String> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => {
            Err(format!("the {what} is {one:?} by one and {other:?} by the other"))
        }
        (one, other) => Ok(one.clone().or_else(|| other.clone())),
    }
}

fn by_pid(pid: u32) -> Result<Found, ApiError> {
    if is_ours(pid) {
        let message = format!("process {pid} was started by Provost, which supervises it already");
        return Err(ApiError::new(Code::Refused, message).next("provost ls"));
    }
    let looked = process::look(pid)
        .map_err(|why| ApiError::new(Code::Refused, format!("cannot look at {pid}: {why}")))?;
    let process = looked.ok_or_else(|| {
        ApiError::new(Code::NotFound, format!("there is no process {pid}")).next("provost discover")
    })?;
    let found = of_process(&process).ok_or_else(|| {
        let message = format!(
            "process {pid} is no agent that is known: neither AI_AGENT nor its program says so"
        );
        ApiError::new(Code::Refused, message).next("provost discover")
    })?;
    match process.rollouts.seen().map(Vec::as_slice) {
        Some([_, _, ..]) if found.rollout.is_none() => {
            let open: Vec<String> = process
                .rollouts
                .seen()
                .into_iter()
                .flatten()
                .map(|rollout| rollout.path.display().to_string())
                .collect();
            let message =
                format!("process {pid} writes several conversations: {}", open.join(", "));
            Err(usage(message).next(format!("provost adopt --pid {pid} --rollout FILE")))
        }
        _ => Ok(found),
    }
}

fn by_pane(context: &Context, text: &str) -> Result<Found, ApiError> {
    let (socket, id) = match text.rsplit_once(':') {
        Some((socket, id)) => (PathBuf::from(socket), id),
        None => (default_socket(context), text),
    };
    let id = PaneId::parse(id).ok_or_else(|| {
        usage(format!("{text:?} is no pane; expected an id as tmux gives it, like %3"))
            .next("tmux list-panes -a -F '#{pane_id} #{pane_title}'")
    })?;
    let pane = Server::new(&socket).pane(&id).map_err(|why| {
        ApiError::new(Code::Refused, format!("cannot ask the tmux on {}: {why}", socket.display()))
    })?;
    let pane = pane.ok_or_else(|| {
        ApiError::new(Code::NotFound, format!("there is no pane {id} on {}", socket.display()))
            .next("provost discover")
    })?;
    let place =
        FoundPane { socket: socket.display().to_string(), id: id.to_string(), server: pane.server };
    let parents = parents()?;
    let agents: Vec<Found> =
        running()?.into_iter().filter(|one| is_in(one, pane.pid, &parents)).collect();
    let agents = themselves(agents, &parents);
    match agents.as_slice() {
        [only] => Ok(Found { pane: Some(place), ..only.clone() }),
        [] => Err(ApiError::new(Code::NotFound, format!("no agent runs in pane {id}"))
            .next("provost discover")),
        several => {
            let pids: Vec<String> = several.iter().filter_map(pid_of).collect();
            let message = format!("several agents run in pane {id}: {}", pids.join(", "));
            Err(usage(message).next(format!("provost adopt --tmux {text} --pid PID")))
        }
    }
}

/// Of processes that are one agent, takes the one that writes the record, or else none that only started another: what
/// npm installs is a script that runs the program.
fn themselves(agents: Vec<Found>, parents: &BTreeMap<u32, u32>) -> Vec<Found> {
    let writers: Vec<&Found> = agents.iter().filter(|one| one.rollout.is_some()).collect();
    if let [only] = writers.as_slice() {
        return vec![(*only).clone()];
    }
    let pid = |found: &Found| found.process.as_ref().map(|process| process.pid);
    let parent = |found: &Found| pid(found).and_then(|pid| parents.get(&pid).copied());
    let started =
        |one: &&Found, other: &Found| parent(other).is_some() && parent(other) == pid(one);
    let starts = |one: &&Found| agents.iter().any(|other| started(one, other));
    agents.iter().filter(|one| !starts(one)).cloned().collect()
}

fn pid_of(found: &Found) -> Option<String> {
    found.process.as_ref().map(|process| process.pid.to_string())
}

/// Gives the parent of every process.
fn parents() -> Result<BTreeMap<u32, u32>, ApiError> {
    let parent = |process: &Process| (process.identity.pid, process.parent);
    Ok(processes()?.iter().map(parent).collect())
}

/// Says whether an agent is the process of a pane or descends from it.
fn is_in(found: &Found, pane: u32, parents: &BTreeMap<u32, u32>) -> bool {
    let mut next = found.process.as_ref().map(|process| process.pid);
    // No line of ancestors is this long; one that is seen while it changes could go round.
    for _ in 0..64 {
        match next {
            Some(pid) if pid == pane => return true,
            Some(pid) if pid > 1 => next = parents.get(&pid).copied(),
            Some(_) | None => return false,
        }
    }
    false
}

fn by_rollout(path: &Path) -> Result<Found, ApiError> {
    let cannot = |why: &dyn std::fmt::Display| {
        ApiError::new(Code::Refused, format!("cannot read {}: {why}", path.display()))
    };
    let path = std::fs::canonicalize(path).map_err(|why| cannot(&why))?;
    let meta = meta(&path).map_err(|why| cannot(&why))?;
    let meta = meta.ok_or_else(|| cannot(&"it is no conversation of Codex"))?;
    Ok(of_meta(&path, &meta))
}

fn by_thread(places: &Places, thread: &str) -> Result<Found, ApiError> {
    let id = ThreadId::parse(thread)
        .ok_or_else(|| usage(format!("{thread:?} is no id of a conversation")))?;
    let found = places.find(&id);
    let newest = found.rollouts.last().ok_or_else(|| {
        ApiError::new(Code::NotFound, format!("no file of conversation {thread} was found"))
            .next("provost adopt --rollout FILE")
    })?;
    by_rollout(&newest.path)
}

fn processes() -> Result<Vec<Process>, ApiError> {
    let all = process::all().map_err(|why| {
        ApiError::new(Code::Refused, format!("cannot look at the processes: {why}"))
    })?;
    Ok(all.processes)
}

/// Gives all agents of which a process runs.
pub(crate) fn running() -> Result<Vec<Found>, ApiError> {
    let all = processes()?;
    let others = |one: &&Process| one.is_agent_itself() && !is_ours(one.identity.pid);
    Ok(all.iter().filter(others).filter_map(of_process).collect())
}

/// Says whether a process belongs to a launch of Provost's, by the mark that all of its processes carry.
fn is_ours(pid: u32) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mark = format!("{}=", provost_holder::spec::MARK);
    environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
}

/// Gives the newest conversations that no process of `running` writes.
pub(crate) fn at_rest(context: &Context, running: &[Found]) -> Result<Vec<Found>, ApiError> {
    let newest = places(context)?.newest(NEWEST);
    let written = |path: &Path| running.iter().any(|one| one.rollout.as_deref() == Some(path));
    let rest = newest.rollouts.iter().filter(|rollout| !written(&rollout.path));
    Ok(rest
        .filter_map(|rollout| Some(of_meta(&rollout.path, &meta(&rollout.path).ok()??)))
        .collect())
}

/// Adds the panes of all tmux servers of this user to the agents that run in them.
pub(crate) fn in_panes(context: &Context, agents: &mut [Found]) -> Result<(), ApiError> {
    let parents = parents()?;
    let directory =
        tmux::socket_directory(context.environment.get("TMUX_TMPDIR").map(AsRef::as_ref));
    for socket in tmux::sockets(&directory).unwrap_or_default() {
        for pane in Server::new(&socket).panes().unwrap_or_default() {
            for agent in agents.iter_mut().filter(|agent| is_in(agent, pane.pid, &parents)) {
                let (socket, id) = (socket.display().to_string(), pane.id.to_string());
                agent.pane = Some(FoundPane { socket, id, server: pane.server });
            }
        }
    }
    Ok(())
}

fn of_process(process: &Process) -> Option<Found> {
    let told = process::agent_kind(process)?;
    let known_by = match told.basis {
        Basis::Environment => "AI_AGENT",
        Basis::Executable => "its program",
        Basis::Arguments => "its arguments",
    };
    let rollout = match process.rollouts.seen().map(Vec::as_slice) {
        Some([only]) => Some(only),
        Some(_) | None => None,
    };
    let arguments = process.arguments.seen().into_iter().flatten();
    let hidden = [
        hidden("its program", &process.executable),
        hidden("its directory", &process.cwd),
        hidden("its open files", &process.rollouts),
    ];
    let meta = rollout.and_then(|rollout| meta(&rollout.path).ok().flatten());
    Some(Found {
        agent: kind(&told.kind),
        known_by,
        process: Some(process.identity.clone()),
        argv: arguments.map(|word| word.to_string_lossy().into_owned()).collect(),
        cwd: process.cwd.seen().cloned(),
        rollout: rollout.map(|rollout| rollout.path.clone()),
        thread: rollout.map(|rollout| rollout.thread.to_string()),
        version: meta.and_then(|meta| meta.cli_version),
        pane: None,
        hidden: hidden.into_iter().flatten().collect(),
    })
}

fn hidden<T>(what: &str, seen: &Seen<T>) -> Option<String> {
    match seen {
        Seen::Yes(_) => None,
        Seen::Hidden(why) => Some(format!("{what} cannot be seen: {why}")),
    }
}

fn kind(kind: &AgentKind) -> String {
    match kind {
        AgentKind::Codex => "codex",
        AgentKind::Claude => "claude",
        AgentKind::Gemini => "gemini",
        AgentKind::OpenCode => "opencode",
        AgentKind::Copilot => "copilot",
        AgentKind::Other(name) => name,
    }
    .to_owned()
}

fn of_meta(path: &Path, meta: &SessionMeta) -> Found {
    Found {
        agent: kind(&AgentKind::Codex),
        known_by: "its record",
        process: None,
        argv: Vec::new(),
        cwd: meta.cwd.clone(),
        rollout: Some(path.to_owned()),
        thread: Some(meta.thread.to_string()),
        version: meta.cli_version.clone(),
        pane: None,
        hidden: Vec::new(),
    }
}

/// Reads whose conversation a file is, which its first line says.
fn meta(path: &Path) -> std::io::Result<Option<SessionMeta>> {
    let (mut tail, mut fold) = (Tail::open(path, 0)?, Fold::new());
    let Next::Line(line) = tail.next_line()? else { return Ok(None) };
    let mut found = None;
    fold.line(&line, |told| {
        if let Told::Session(meta) = told {
            found = Some(meta);
        }
    });
    Ok(found)
}

fn places(context: &Context) -> Result<Places, ApiError> {
    let own = context.environment.get("CODEX_HOME").map(PathBuf::from);
    let usual = context.environment.get("HOME").map(|home| Path::new(home).join(".codex"));
    Ok(Places::new(own.into_iter().chain(usual).collect()))
}

/// The server that tmux itself would speak to.
fn default_socket(context: &Context) -> PathBuf {
    let inside = context.environment.get("TMUX").and_then(|value| value.split(',').next());
    let directory =
        || tmux::socket_directory(context.environment.get("TMUX_TMPDIR").map(AsRef::as_ref));
    inside
        .filter(|path| !path.is_empty())
        .map_or_else(|| directory().join("default"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        Found {
            agent: "codex".to_owned(),
            known_by: "its program",
            process: None,
            argv: Vec::new(),
            cwd: None,
            rollout: None,
            thread: None,
            version: None,
            pane: None,
            hidden: Vec::new(),
        }
    }

    #[test]
    fn what_two_ways_know_is_put_together_and_a_contradiction_is_none() {
        let pid = |pid| Some(Identity { pid, start_time: 1, boot_id: "b".to_owned() });
        let one = Found { process: pid(7), ..found() };
        let other = Found { thread: Some("t".to_owned()), ..found() };
        let both = agree(&one, &other).unwrap();
        assert_eq!((both.process, both.thread), (pid(7), Some("t".to_owned())));
        let third = Found { process: pid(8), ..found() };
        assert!(agree(&one, &third).unwrap_err().contains("process"));
    }

    #[test]
    fn a_script_that_runs_the_agent_is_not_another_agent() {
        let of = |pid| {
            let process = Some(Identity { pid, start_time: 1, boot_id: "b".to_owned() });
            Found { process, ..found() }
        };
        let parents = BTreeMap::from([(7, 1), (8, 7), (9, 8)]);
        assert_eq!(themselves(vec![of(7), of(8)], &parents), [of(8)]);
        let writes = Found { rollout: Some("/r".into()), ..of(8) };
        assert_eq!(themselves(vec![of(7), writes.clone(), of(9)], &parents), [writes]);
    }

    #[test]
    fn what_cannot_be_seen_is_said() {
        assert_eq!(found().lacks().len(), 2);
        let seen = Found { rollout: Some("/r".into()), ..found() };
        assert_eq!((seen.driver(), found().driver()), (Driver::CodexTerminal, Driver::Terminal));
        assert!(seen.lacks()[0].contains("process"));
    }
}
