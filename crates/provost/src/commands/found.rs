//! Discovers agents on this machine that Provost did not start, from processes, rollout files and tmux panes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use provost_api::{ApiError, Code};
use provost_core::session::Driver;
use provost_watch::{
    ThreadId,
    process::{self, AgentKind, Basis, Family, Identity, InTmux, Process, Seen, Told},
    rollout::{Places, Rollout, SessionMeta, meta},
    tmux::{self, Pane, PaneId, Server},
};

use crate::{context::Context, error::usage};

/// The number of newest conversations that are examined.
const NEWEST: usize = 50;

/// The options that identify an agent.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) pid: Option<u32>,
    pub(crate) rollout: Option<PathBuf>,
    pub(crate) pane: Option<String>,
    pub(crate) thread: Option<String>,
}

/// An agent and everything known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) agent: String,
    /// The evidence for the agent's kind.
    pub(crate) known_by: &'static str,
    /// Whether its process runs the agent's own program, not a script that may only have started it.
    own_program: bool,
    pub(crate) process: Option<Identity>,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) rollout: Option<PathBuf>,
    pub(crate) thread: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) pane: Option<FoundPane>,
    /// The conversations that its process writes, if there are several with users: the caller must pick one.
    pub(crate) several: Vec<Rollout>,
    /// The pane that its environment names.
    pub(crate) inside: Option<InTmux>,
    /// Whether the files that its process writes could be read.
    writes_seen: bool,
    /// Facts that could not be read, and why.
    pub(crate) hidden: Vec<String>,
}

/// The tmux pane that an agent runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundPane {
    pub(crate) socket: String,
    pub(crate) id: String,
    pub(crate) server: u32,
}

impl Found {
    fn has_record(&self) -> bool {
        self.rollout.is_some() || !self.several.is_empty()
    }

    /// Whether its environment names exactly this pane.
    fn says(&self, socket: &Path, pane: &Pane) -> bool {
        self.inside.as_ref().is_some_and(|inside| {
            let same = inside.pane.as_deref() == Some(pane.id.as_str());
            same && inside.socket == socket && inside.server.is_none_or(|pid| pid == pane.server)
        })
    }

    /// Returns the driver. Conversations can be read only for Codex.
    pub(crate) fn driver(&self) -> Driver {
        if self.rollout.is_some() || self.begins_later() {
            Driver::CodexTerminal
        } else {
            Driver::Terminal
        }
    }

    /// Whether it is a Codex without a rollout yet, which it creates with its first prompt. A shell that only inherited
    /// `AI_AGENT` does not count: it would execute the messages sent to it.
    fn begins_later(&self) -> bool {
        let codex = self.agent == kind(&AgentKind::Codex) && self.own_program;
        codex && self.process.is_some() && self.writes_seen
    }

    /// Returns the limits on observing and reaching it.
    pub(crate) fn lacks(&self) -> Vec<String> {
        let process = match self.process {
            None => "its process is unknown, so its exit cannot be seen",
            Some(_) => "its exit code cannot be seen: Provost did not start it",
        };
        let record = match self.rollout {
            Some(_) => None,
            None if self.begins_later() => {
                Some("it has no conversation yet: its turns are visible from its first prompt on")
            }
            None => Some(
                "it has no readable transcript, so its turns cannot be seen and it cannot be sent messages",
            ),
        };
        let own = [Some(process), record].into_iter().flatten().map(str::to_owned);
        own.chain(self.hidden.iter().cloned()).collect()
    }
}

/// Finds the one agent that the options identify.
pub(crate) fn one(context: &Context, given: &Given) -> Result<Found, ApiError> {
    let places = places(context)?;
    let mut named: Vec<(&'static str, Found)> = Vec::new();
    if let Some(rollout) = &given.rollout {
        named.push(("--rollout", by_rollout(rollout)?));
    }
    if let Some(thread) = &given.thread {
        named.push(("--thread", by_thread(&places, thread)?));
    }
    let mut found: Vec<(&'static str, Found)> = Vec::new();
    if let Some(pid) = given.pid {
        found.push(("--pid", narrowed(by_pid(pid)?, &named)?));
    }
    if let Some(pane) = &given.pane {
        let meant = found.first().and_then(|(_, found)| found.process.clone());
        found.push(("--tmux", narrowed(by_pane(context, pane, meant)?, &named)?));
    }
    found.extend(named);
    let mut found = found.into_iter();
    let Some(first) = found.next() else {
        return Err(usage("name an agent with --pid, --rollout, --tmux or --thread")
            .next("provost discover"));
    };
    let (_, agreed) = found.try_fold(first, |(by, one), (other_by, other)| {
        agree(&one, &other).map(|both| (other_by, both)).map_err(|why| {
            let message = format!("{by} and {other_by} name different agents: {why}");
            usage(message).next("provost discover")
        })
    })?;
    with_pane(context, with_process(agreed)?)
}

/// Selects the named conversation among those that a process writes. Without a name the choice is ambiguous.
fn narrowed(found: Found, named: &[(&str, Found)]) -> Result<Found, ApiError> {
    let is_named = |open: &&Rollout| {
        named.iter().any(|(_, one)| one.rollout.as_deref() == Some(open.path.as_path()))
    };
    match found.several.iter().find(is_named).cloned() {
        _ if found.several.is_empty() => Ok(found),
        Some(open) => Ok(writes(found, &open)),
        None => {
            let pid = pid_of(&found).unwrap_or_default();
            let open = found.several.iter().map(|open| open.path.display().to_string());
            let open = open.collect::<Vec<_>>().join(", ");
            let message = format!("process {pid} writes several conversations: {open}");
            Err(usage(message).next(format!("provost adopt --pid {pid} --rollout FILE")))
        }
    }
}

/// Adds the conversation that a process writes.
fn writes(found: Found, open: &Rollout) -> Found {
    let version = meta(&open.path).ok().flatten().and_then(|meta| meta.cli_version);
    Found {
        rollout: Some(open.path.clone()),
        thread: Some(open.thread.to_string()),
        version: version.or(found.version),
        several: Vec::new(),
        ..found
    }
}

/// Adds the tmux pane, if the agent runs in one on this user's tmux servers; no option is needed for that.
fn with_pane(context: &Context, found: Found) -> Result<Found, ApiError> {
    let mut found = [found];
    if found[0].process.is_some() && found[0].pane.is_none() {
        in_panes(context, &mut found)?;
    }
    let [found] = found;
    Ok(found)
}

/// Adds the process that writes the rollout, if it runs; no option is needed for that.
fn with_process(found: Found) -> Result<Found, ApiError> {
    let (None, Some(rollout)) = (&found.process, &found.rollout) else { return Ok(found) };
    let is_it = |open: &Rollout| open.path == *rollout;
    let writers: Vec<Found> = running()?
        .into_iter()
        .filter_map(|one| match one.several.iter().find(|open| is_it(open)).cloned() {
            Some(open) => Some(writes(one, &open)),
            None => Some(one).filter(|one| one.rollout.as_ref() == Some(rollout)),
        })
        .collect();
    match writers.as_slice() {
        [only] => agree(&found, only).map_err(usage),
        _ => Ok(found),
    }
}

/// Merges two descriptions of an agent, or reports where they disagree.
fn agree(one: &Found, other: &Found) -> Result<Found, String> {
    Ok(Found {
        agent: same("agent", &Some(one.agent.clone()), &Some(other.agent.clone()), String::clone)?
            .unwrap_or_default(),
        known_by: one.known_by,
        own_program: one.own_program || other.own_program,
        process: same("process", &one.process, &other.process, |one| one.pid.to_string())?,
        argv: if one.argv.is_empty() { other.argv.clone() } else { one.argv.clone() },
        cwd: one.cwd.clone().or_else(|| other.cwd.clone()),
        rollout: same("rollout", &one.rollout, &other.rollout, |one| one.display().to_string())?,
        thread: same("conversation", &one.thread, &other.thread, String::clone)?,
        version: one.version.clone().or_else(|| other.version.clone()),
        pane: same("pane", &one.pane, &other.pane, |one| format!("{}:{}", one.socket, one.id))?,
        several: Vec::new(),
        inside: one.inside.clone().or_else(|| other.inside.clone()),
        writes_seen: one.writes_seen || other.writes_seen,
        hidden: one.hidden.iter().chain(&other.hidden).cloned().collect(),
    })
}

fn same<T: Clone + PartialEq>(
    what: &str,
    one: &Option<T>,
    other: &Option<T>,
    words: impl Fn(&T) -> String,
) -> Result<Option<T>, String> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => {
            let (one, other) = (words(one), words(other));
            Err(format!("the {what} is {one} according to one and {other} according to the other"))
        }
        (one, other) => Ok(one.clone().or_else(|| other.clone())),
    }
}

fn by_pid(pid: u32) -> Result<Found, ApiError> {
    if is_ours(pid) {
        let message = format!("process {pid} was started by Provost, which already supervises it");
        return Err(ApiError::new(Code::Refused, message).next("provost ls"));
    }
    let looked = process::look(pid).map_err(|why| {
        ApiError::new(Code::Refused, format!("cannot inspect process {pid}: {why}"))
    })?;
    let all = processes()?;
    let family = Family::new(&all);
    let process = looked.and(family.get(pid)).ok_or_else(|| {
        ApiError::new(Code::NotFound, format!("there is no process {pid}")).next("provost discover")
    })?;
    let told = family.agent(process).or_else(|| family.named(process));
    match told {
        Some(told) => itself(of_process(process, &told), &agents(&family), &parents_in(&all)),
        None => Err(no_agent(&family, process)),
    }
}

/// Explains why a process is not an agent: usually an agent runs it, and it only inherited the environment.
fn no_agent(family: &Family<'_>, process: &Process) -> ApiError {
    let pid = process.identity.pid;
    match family.agent_above(process).map(|above| above.identity.pid) {
        Some(above) => {
            let message = format!(
                "process {pid} is not an agent: it is run by the agent with process {above}"
            );
            ApiError::new(Code::Refused, message).next(format!("provost adopt --pid {above}"))
        }
        None => {
            let message = format!(
                "process {pid} is not a known agent: neither AI_AGENT nor its program identifies one"
            );
            ApiError::new(Code::Refused, message).next("provost discover")
        }
    }
}

/// Resolves a process to its agent: the child agent, if this process is only its launcher.
fn itself(named: Found, agents: &[Found], parents: &BTreeMap<u32, u32>) -> Result<Found, ApiError> {
    let begun: Vec<&Found> = agents.iter().filter(|one| starts(&named, one, parents)).collect();
    match begun.as_slice() {
        [] => Ok(named),
        [only] => itself((*only).clone(), agents, parents),
        several => {
            let pids: Vec<String> = several.iter().filter_map(|one| pid_of(one)).collect();
            let (pid, pids) = (pid_of(&named).unwrap_or_default(), pids.join(", "));
            let message = format!("process {pid} started several agents: {pids}");
            Err(usage(message).next("provost adopt --pid PID"))
        }
    }
}

fn by_pane(context: &Context, text: &str, meant: Option<Identity>) -> Result<Found, ApiError> {
    let (socket, id) = match text.rsplit_once(':') {
        Some((socket, id)) => (PathBuf::from(socket), id),
        None => (default_socket(context), text),
    };
    let id = PaneId::parse(id).ok_or_else(|| {
        usage(format!("{text:?} is not a pane; expected a tmux pane id such as %3"))
            .next("tmux list-panes -a -F '#{pane_id} #{pane_title}'")
    })?;
    let pane = Server::new(&socket).pane(&id).map_err(|why| {
        ApiError::new(Code::Refused, format!("cannot query tmux on {}: {why}", socket.display()))
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
    let is_meant = |one: &&Found| meant.is_some() && one.process == meant;
    let agents = match agents.iter().find(is_meant) {
        Some(meant) => vec![meant.clone()],
        None => themselves(agents, &parents),
    };
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

/// Reduces the processes of an agent to the one that writes the rollout, or else drops launchers, such as the script
/// that npm installs.
fn themselves(agents: Vec<Found>, parents: &BTreeMap<u32, u32>) -> Vec<Found> {
    let writers: Vec<&Found> = agents.iter().filter(|one| one.has_record()).collect();
    if let [only] = writers.as_slice() {
        return vec![(*only).clone()];
    }
    without_starters(agents, parents)
}

/// Drops processes that only launched another process of the same agent, such as the script that npm installs.
fn without_starters(agents: Vec<Found>, parents: &BTreeMap<u32, u32>) -> Vec<Found> {
    let only_starts = |one: &&Found| agents.iter().any(|other| starts(one, other, parents));
    agents.iter().filter(|one| !only_starts(one)).cloned().collect()
}

/// Whether `one` is only the launcher of `other`.
fn starts(one: &Found, other: &Found, parents: &BTreeMap<u32, u32>) -> bool {
    let pid = |found: &Found| found.process.as_ref().map(|process| process.pid);
    let parent = pid(other).and_then(|pid| parents.get(&pid).copied());
    let is_child = parent.is_some() && parent == pid(one);
    is_child && other.agent == one.agent && !one.own_program && !one.has_record()
}

fn pid_of(found: &Found) -> Option<String> {
    found.process.as_ref().map(|process| process.pid.to_string())
}

/// Returns the parent of every process.
fn parents() -> Result<BTreeMap<u32, u32>, ApiError> {
    Ok(parents_in(&processes()?))
}

fn parents_in(all: &[Process]) -> BTreeMap<u32, u32> {
    all.iter().map(|process| (process.identity.pid, process.parent)).collect()
}

/// Whether an agent is the process of a pane or descends from it.
fn is_in(found: &Found, pane: u32, parents: &BTreeMap<u32, u32>) -> bool {
    let mut next = found.process.as_ref().map(|process| process.pid);
    // No ancestry is this long; the bound stops a cycle that appears if processes change while they are read.
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
    let meta = meta.ok_or_else(|| cannot(&"it is not a Codex conversation"))?;
    Ok(of_meta(&path, &meta))
}

/// Finds an agent by its conversation. Asks the writing process first, because an agent may have its own home.
fn by_thread(places: &Places, thread: &str) -> Result<Found, ApiError> {
    let id = ThreadId::parse(thread)
        .ok_or_else(|| usage(format!("{thread:?} is not a conversation id")))?;
    let writers: Vec<Found> = running()?.into_iter().filter_map(|one| wrote(one, &id)).collect();
    if let [only] = writers.as_slice() {
        return Ok(only.clone());
    }
    let found = places.find(&id);
    let newest = found.rollouts.last().ok_or_else(|| {
        ApiError::new(Code::NotFound, format!("no file found for conversation {thread}"))
            .next("provost adopt --rollout FILE")
    })?;
    by_rollout(&newest.path)
}

/// Returns the agent with this conversation, if its process writes it.
fn wrote(found: Found, thread: &ThreadId) -> Option<Found> {
    match found.several.iter().find(|open| open.thread == *thread).cloned() {
        Some(open) => Some(writes(found, &open)),
        None => Some(found).filter(|one| one.thread.as_deref() == Some(thread.as_str())),
    }
}

fn processes() -> Result<Vec<Process>, ApiError> {
    let all = process::all()
        .map_err(|why| ApiError::new(Code::Refused, format!("cannot list processes: {why}")))?;
    Ok(all.processes)
}

/// Returns every running agent once.
pub(crate) fn each() -> Result<Vec<Found>, ApiError> {
    Ok(without_starters(running()?, &parents()?))
}

/// Returns all agent processes.
fn running() -> Result<Vec<Found>, ApiError> {
    Ok(agents(&Family::new(&processes()?)))
}

fn agents(family: &Family<'_>) -> Vec<Found> {
    let of_others = family.agents().into_iter().filter(|(one, _)| !is_ours(one.identity.pid));
    of_others.map(|(process, told)| of_process(process, &told)).collect()
}

/// Whether a process belongs to one of Provost's launches, by the mark that all of its processes carry.
fn is_ours(pid: u32) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mark = format!("{}=", provost_holder::spec::MARK);
    environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
}

/// Returns the newest conversations that no process in `running` writes.
pub(crate) fn at_rest(context: &Context, running: &[Found]) -> Result<Vec<Found>, ApiError> {
    let newest = places(context)?.newest(NEWEST);
    let written = |path: &Path| {
        let several = |one: &Found| one.several.iter().any(|open| open.path == path);
        running.iter().any(|one| one.rollout.as_deref() == Some(path) || several(one))
    };
    let rest = newest.rollouts.iter().filter(|rollout| !written(&rollout.path));
    Ok(rest
        .filter_map(|rollout| Some((rollout, meta(&rollout.path).ok()??)))
        .filter(|(_, meta)| !meta.hidden)
        .map(|(rollout, meta)| of_meta(&rollout.path, &meta))
        .collect())
}

/// Adds the panes of this user's tmux servers to the agents that run in them. The servers are those in tmux's own
/// directory and those that an agent's environment names. A named server must show the agent in a pane.
pub(crate) fn in_panes(context: &Context, agents: &mut [Found]) -> Result<(), ApiError> {
    let parents = parents()?;
    for socket in sockets(context, agents) {
        // A path that is not UTF-8 cannot be stored.
        let Some(text) = socket.to_str() else { continue };
        for pane in Server::new(&socket).panes().unwrap_or_default() {
            for agent in agents.iter_mut().filter(|agent| is_in(agent, pane.pid, &parents)) {
                if agent.pane.is_none() || agent.says(&socket, &pane) {
                    let (socket, id) = (text.to_owned(), pane.id.to_string());
                    agent.pane = Some(FoundPane { socket, id, server: pane.server });
                }
            }
        }
    }
    Ok(())
}

/// Returns the sockets of this user on which a tmux may listen, each once.
fn sockets(context: &Context, agents: &[Found]) -> BTreeSet<PathBuf> {
    let directory =
        tmux::socket_directory(context.environment.get("TMUX_TMPDIR").map(AsRef::as_ref));
    let named = agents.iter().filter_map(|agent| Some(agent.inside.as_ref()?.socket.clone()));
    let named = named.filter(|socket| tmux::is_own_socket(socket));
    tmux::sockets(&directory).unwrap_or_default().into_iter().chain(named).collect()
}

fn of_process(process: &Process, told: &Told) -> Found {
    let known_by = match told.basis {
        Basis::Environment => "AI_AGENT",
        Basis::Executable => "its program",
        Basis::Arguments => "its arguments",
    };
    let arguments = process.arguments.seen().into_iter().flatten();
    let hidden = [
        hidden("its program", &process.executable),
        hidden("its directory", &process.cwd),
        hidden("its open files", &process.rollouts),
    ];
    let found = Found {
        agent: kind(&told.kind),
        known_by,
        own_program: told.own_program,
        process: Some(process.identity.clone()),
        argv: arguments.map(|word| word.to_string_lossy().into_owned()).collect(),
        cwd: process.cwd.seen().cloned(),
        rollout: None,
        thread: None,
        version: None,
        pane: None,
        several: Vec::new(),
        inside: process.tmux.seen().cloned().flatten(),
        writes_seen: process.rollouts.seen().is_some(),
        hidden: hidden.into_iter().flatten().collect(),
    };
    let open = conversations(process);
    match open.as_slice() {
        [only] => writes(found, only),
        _ => Found { several: open, ..found },
    }
}

/// Returns the conversations with users that a process writes, without those of its sub-agents.
fn conversations(process: &Process) -> Vec<Rollout> {
    let open = process.rollouts.seen().into_iter().flatten();
    let hidden = |rollout: &Rollout| {
        matches!(meta(&rollout.path), Ok(Some(SessionMeta { hidden: true, .. })))
    };
    open.filter(|rollout| !hidden(rollout)).cloned().collect()
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
        own_program: false,
        process: None,
        argv: Vec::new(),
        cwd: meta.cwd.clone(),
        rollout: Some(path.to_owned()),
        thread: Some(meta.thread.to_string()),
        version: meta.cli_version.clone(),
        pane: None,
        several: Vec::new(),
        inside: None,
        writes_seen: false,
        hidden: Vec::new(),
    }
}

fn places(context: &Context) -> Result<Places, ApiError> {
    let own = context.environment.get("CODEX_HOME").map(PathBuf::from);
    let usual = context.environment.get("HOME").map(|home| Path::new(home).join(".codex"));
    Ok(Places::new(own.into_iter().chain(usual).collect()))
}

/// The server that tmux itself would use.
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
            own_program: false,
            process: None,
            argv: Vec::new(),
            cwd: None,
            rollout: None,
            thread: None,
            version: None,
            pane: None,
            several: Vec::new(),
            inside: None,
            writes_seen: false,
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
        let why = agree(&one, &third).unwrap_err();
        assert_eq!(why, "the process is 7 according to one and 8 according to the other");
    }

    #[test]
    fn a_script_that_runs_the_agent_is_not_another_agent() {
        let of = |pid| {
            let process = Some(Identity { pid, start_time: 1, boot_id: "b".to_owned() });
            Found { process, ..found() }
        };
        let program = |pid| Found { own_program: true, ..of(pid) };
        let parents = BTreeMap::from([(7, 1), (8, 7), (9, 8)]);
        assert_eq!(themselves(vec![of(7), program(8)], &parents), [program(8)]);
        let writes = Found { rollout: Some("/r".into()), ..program(8) };
        assert_eq!(themselves(vec![of(7), writes.clone(), program(9)], &parents), [writes]);
        // The script resolves to its agent; an agent that runs another agent is one itself.
        let all = [of(7), program(8), program(9)];
        for named in [of(7), program(8)] {
            assert_eq!(itself(named, &all, &parents), Ok(program(8)));
        }
        assert_eq!(without_starters(all.to_vec(), &parents), [program(8), program(9)]);
        let parents = BTreeMap::from([(7, 1), (8, 7), (9, 7)]);
        let several = itself(of(7), &all, &parents).unwrap_err();
        assert!(several.message.contains("8, 9"), "{several:?}");
    }

    #[test]
    fn of_several_conversations_the_one_that_is_named_is_taken() {
        let open = |no: u32| {
            let path = format!(
                "/r/rollout-2026-11-15T18-49-53-01a1e08b-614a-7c61-a49a-00000000000{no}.jsonl"
            );
            Rollout::named(Path::new(&path), false).unwrap()
        };
        let several = || Found { several: vec![open(1), open(2)], ..found() };
        assert!(narrowed(several(), &[]).unwrap_err().message.contains("several conversations"));
        let named = Found { rollout: Some(open(2).path), ..found() };
        let taken = narrowed(several(), &[("--rollout", named)]).unwrap();
        assert_eq!((taken.rollout, taken.several), (Some(open(2).path), Vec::new()));
        assert_eq!(taken.thread, Some(open(2).thread.to_string()));
    }

    #[test]
    fn a_conversation_is_found_by_who_writes_it() {
        let thread = |no: u32| format!("01a1e08b-614a-7c61-a49a-00000000000{no}");
        let id = |no| ThreadId::parse(&thread(no)).unwrap();
        let one = Found { thread: Some(thread(1)), ..found() };
        assert_eq!(wrote(one.clone(), &id(1)), Some(one.clone()));
        assert_eq!(wrote(one, &id(2)), None);
        let path = format!("/r/rollout-2026-11-15T18-49-53-{}.jsonl", thread(2));
        let open = Rollout::named(Path::new(&path), false).unwrap();
        let several = Found { several: vec![open], ..found() };
        assert_eq!(wrote(several, &id(2)).unwrap().rollout, Some(path.into()));
    }

    #[test]
    fn the_pane_that_an_environment_names_is_known_by_all_that_it_says() {
        let pane = Pane {
            id: PaneId::parse("%3").unwrap(),
            session: provost_watch::tmux::SessionId::parse("$0").unwrap(),
            session_name: "s".to_owned(),
            server: 7,
            pid: 8,
            tty: "/dev/pts/1".into(),
            dead: false,
            dead_status: None,
            in_mode: false,
            clients: 0,
            rows: 24,
            columns: 80,
            title: String::new(),
        };
        let says = |server, id: &str| {
            let inside = InTmux { socket: "/s".into(), server, pane: Some(id.to_owned()) };
            Found { inside: Some(inside), ..found() }.says(Path::new("/s"), &pane)
        };
        assert!(says(Some(7), "%3") && says(None, "%3"));
        assert!(!says(Some(6), "%3") && !says(Some(7), "%4"));
        assert!(!found().says(Path::new("/s"), &pane));
    }

    #[test]
    fn what_cannot_be_seen_is_said() {
        assert_eq!(found().lacks().len(), 2);
        let seen = Found { rollout: Some("/r".into()), ..found() };
        assert_eq!((seen.driver(), found().driver()), (Driver::CodexTerminal, Driver::Terminal));
        let process = Some(Identity { pid: 7, start_time: 1, boot_id: "b".to_owned() });
        let fresh = Found { process, own_program: true, writes_seen: true, ..found() };
        assert_eq!(fresh.driver(), Driver::CodexTerminal);
        assert!(fresh.lacks()[1].contains("from its first prompt on"), "{:?}", fresh.lacks());
        let hidden = Found { writes_seen: false, ..fresh.clone() };
        let other = Found { agent: "aider".to_owned(), ..fresh };
        assert_eq!((hidden.driver(), other.driver()), (Driver::Terminal, Driver::Terminal));
        assert!(seen.lacks()[0].contains("process"));
    }
}
