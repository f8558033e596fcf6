//! Discovers agents on this machine that Provost did not start, using processes, transcripts and tmux panes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use provost_agent::{
    Adapter,
    processes::{
        self, AgentIdentification, Basis, ObservedProcess, OpenTranscript, ProcessProperty,
        ProcessTree, TmuxOrigin,
    },
    transcript::{ConversationMeta, TranscriptStore},
};
use provost_api::{ApiError, ErrorCode};
use provost_core::session::{AgentInterface, AgentMode};
use provost_sys::process::ProcessInstance;
use provost_terminal::tmux::{self, PaneId, PaneListing, TmuxServer};

use crate::{adapters::adapters, context::Context, error::usage};

/// The maximum number of recent conversations to examine.
const MAX_CONVERSATIONS: usize = 50;

/// The options that identify an agent.
#[derive(Debug, Default)]
pub(crate) struct AgentSelector {
    pub(crate) pid: Option<u32>,
    pub(crate) rollout: Option<PathBuf>,
    pub(crate) pane: Option<String>,
    pub(crate) thread: Option<String>,
}

/// An agent, and everything known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiscoveredAgent {
    pub(crate) agent: String,
    /// The evidence by which the kind of agent was recognized.
    pub(crate) evidence: &'static str,
    /// Whether the process is the agent's own program, and not a script that may only have started it.
    own_program: bool,
    pub(crate) process: Option<ProcessInstance>,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) rollout: Option<PathBuf>,
    pub(crate) thread: Option<String>,
    pub(crate) version: Option<String>,
    /// The interface through which Provost can observe the agent, if an adapter reads the transcripts
    /// of such agents.
    observed_by: Option<AgentInterface>,
    pub(crate) pane: Option<AgentPane>,
    /// The user-facing conversations that the process is writing, if there are several. The caller
    /// must select one of them.
    pub(crate) conversations: Vec<OpenTranscript>,
    /// The pane given in the environment of the process.
    pub(crate) env_pane: Option<TmuxOrigin>,
    /// Whether Provost could see which files the process has open.
    open_files_visible: bool,
    /// The facts that could not be observed, with the reasons.
    pub(crate) unobservable: Vec<String>,
}

/// The tmux pane in which an agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentPane {
    pub(crate) socket: String,
    pub(crate) id: String,
    pub(crate) server: u32,
}

impl DiscoveredAgent {
    fn has_rollout(&self) -> bool {
        self.rollout.is_some() || !self.conversations.is_empty()
    }

    /// Whether the environment of the process refers to this pane.
    fn env_names_pane(&self, socket: &Path, pane: &PaneListing) -> bool {
        self.env_pane.as_ref().is_some_and(|inside| {
            let same = inside.pane.as_deref() == Some(pane.id.as_str());
            same && inside.socket == socket && inside.server.is_none_or(|pid| pid == pane.server)
        })
    }

    /// Returns the interface through which Provost observes the agent.
    pub(crate) fn interface(&self) -> AgentInterface {
        let is_readable = self.rollout.is_some() || self.is_unstarted();
        match &self.observed_by {
            Some(interface) if is_readable => interface.clone(),
            Some(_) | None => AgentInterface::terminal_command(),
        }
    }

    /// Whether the process has no transcript yet, because its agent creates the transcript on the first prompt. A shell
    /// that merely inherited `AI_AGENT` does not count, because the shell would execute messages as commands.
    fn is_unstarted(&self) -> bool {
        let is_readable = self.observed_by.is_some() && self.own_program;
        is_readable && self.process.is_some() && self.open_files_visible
    }

    /// Returns the reasons why Provost can only partly observe or reach the agent.
    pub(crate) fn limitations(&self) -> Vec<String> {
        let process = match self.process {
            None => "the process is unknown, so Provost cannot see it exit",
            Some(_) => {
                "the exit code will stay unknown, because Provost did not start the \
                process"
            }
        };
        let record = match self.rollout {
            Some(_) => None,
            None if self.is_unstarted() => Some(
                "the conversation does not exist yet; turns will be visible after the first prompt",
            ),
            None => Some(
                "there is no readable transcript, so turns are invisible and messages cannot be \
                 sent",
            ),
        };
        let own = [Some(process), record].into_iter().flatten().map(str::to_owned);
        own.chain(self.unobservable.iter().cloned()).collect()
    }
}

/// Finds the single agent that the options identify.
pub(crate) fn find_agent(
    context: &Context,
    given: &AgentSelector,
) -> Result<DiscoveredAgent, ApiError> {
    let mut named: Vec<(&'static str, DiscoveredAgent)> = Vec::new();
    if let Some(rollout) = &given.rollout {
        named.push(("--rollout", by_rollout(rollout)?));
    }
    if let Some(thread) = &given.thread {
        named.push(("--thread", by_thread(context, thread)?));
    }
    let mut found: Vec<(&'static str, DiscoveredAgent)> = Vec::new();
    if let Some(pid) = given.pid {
        found.push(("--pid", select_conversation(by_pid(pid)?, &named)?));
    }
    if let Some(pane) = &given.pane {
        let meant = found.first().and_then(|(_, found)| found.process.clone());
        found.push(("--tmux", select_conversation(by_pane(context, pane, meant)?, &named)?));
    }
    found.extend(named);
    let mut found = found.into_iter();
    let Some(first) = found.next() else {
        return Err(usage("no agent given: use --pid, --rollout, --tmux or --thread")
            .next("provost discover"));
    };
    let (_, agreed) = found.try_fold(first, |(by, one), (other_by, other)| {
        merge(&one, &other).map(|both| (other_by, both)).map_err(|why| {
            let message = format!("{by} and {other_by} refer to different agents: {why}");
            usage(message).next("provost discover")
        })
    })?;
    with_pane(context, with_process(agreed)?)
}

/// If a process is writing several conversations, selects the one that the user chose. Fails if the
/// user did not choose one.
fn select_conversation(
    found: DiscoveredAgent,
    named: &[(&str, DiscoveredAgent)],
) -> Result<DiscoveredAgent, ApiError> {
    let is_named = |open: &&OpenTranscript| {
        named.iter().any(|(_, one)| one.rollout.as_deref() == Some(open.file.path.as_path()))
    };
    match found.conversations.iter().find(is_named).cloned() {
        _ if found.conversations.is_empty() => Ok(found),
        Some(open) => Ok(with_conversation(found, &open)),
        None => {
            let pid = pid_of(&found).unwrap_or_default();
            let open = found.conversations.iter();
            let open = open.map(|open| open.file.path.display().to_string());
            let open = open.collect::<Vec<_>>().join(", ");
            let message = format!("process {pid} is writing several conversations: {open}");
            Err(usage(message).next(format!("provost adopt --pid {pid} --rollout FILE")))
        }
    }
}

/// Adds the conversation that a process is writing.
fn with_conversation(found: DiscoveredAgent, open: &OpenTranscript) -> DiscoveredAgent {
    let adapter = adapters().with_id(open.adapter.as_str()).ok();
    let version = read_meta(adapter, &open.file.path).and_then(|meta| meta.version);
    DiscoveredAgent {
        observed_by: adapter.and_then(|adapter| adapter.interface(AgentMode::Terminal)),
        rollout: Some(open.file.path.clone()),
        thread: Some(open.file.thread.clone()),
        version: version.or(found.version),
        conversations: Vec::new(),
        ..found
    }
}

/// If the agent runs in a pane of one of this user's tmux servers, adds that pane, even without `--tmux`.
fn with_pane(context: &Context, found: DiscoveredAgent) -> Result<DiscoveredAgent, ApiError> {
    let mut found = [found];
    if found[0].process.is_some() && found[0].pane.is_none() {
        add_panes(context, &mut found)?;
    }
    let [found] = found;
    Ok(found)
}

/// If a process is writing the rollout, adds that process, even without `--pid`.
fn with_process(found: DiscoveredAgent) -> Result<DiscoveredAgent, ApiError> {
    let (None, Some(rollout)) = (&found.process, &found.rollout) else { return Ok(found) };
    let is_it = |open: &OpenTranscript| open.file.path == *rollout;
    let writers: Vec<DiscoveredAgent> = agent_processes()?
        .into_iter()
        .filter_map(|one| match one.conversations.iter().find(|open| is_it(open)).cloned() {
            Some(open) => Some(with_conversation(one, &open)),
            None => Some(one).filter(|one| one.rollout.as_ref() == Some(rollout)),
        })
        .collect();
    match writers.as_slice() {
        [only] => merge(&found, only).map_err(usage),
        _ => Ok(found),
    }
}

/// Merges two descriptions of the same agent, or reports how they disagree.
fn merge(one: &DiscoveredAgent, other: &DiscoveredAgent) -> Result<DiscoveredAgent, String> {
    Ok(DiscoveredAgent {
        agent: merge_field(
            "agent",
            &Some(one.agent.clone()),
            &Some(other.agent.clone()),
            String::clone,
        )?
        .unwrap_or_default(),
        evidence: one.evidence,
        own_program: one.own_program || other.own_program,
        process: merge_field("process", &one.process, &other.process, |one| one.pid.to_string())?,
        argv: if one.argv.is_empty() { other.argv.clone() } else { one.argv.clone() },
        cwd: one.cwd.clone().or_else(|| other.cwd.clone()),
        rollout: merge_field("rollout", &one.rollout, &other.rollout, |one| {
            one.display().to_string()
        })?,
        thread: merge_field("conversation", &one.thread, &other.thread, String::clone)?,
        version: one.version.clone().or_else(|| other.version.clone()),
        observed_by: one.observed_by.clone().or_else(|| other.observed_by.clone()),
        pane: merge_field("pane", &one.pane, &other.pane, |one| {
            format!("{}:{}", one.socket, one.id)
        })?,
        conversations: Vec::new(),
        env_pane: one.env_pane.clone().or_else(|| other.env_pane.clone()),
        open_files_visible: one.open_files_visible || other.open_files_visible,
        unobservable: one.unobservable.iter().chain(&other.unobservable).cloned().collect(),
    })
}

fn merge_field<T: Clone + PartialEq>(
    what: &str,
    one: &Option<T>,
    other: &Option<T>,
    words: impl Fn(&T) -> String,
) -> Result<Option<T>, String> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => {
            let (one, other) = (words(one), words(other));
            Err(format!("the first has {what} {one}, the second {what} {other}"))
        }
        (one, other) => Ok(one.clone().or_else(|| other.clone())),
    }
}

fn by_pid(pid: u32) -> Result<DiscoveredAgent, ApiError> {
    if belongs_to_launch(pid) {
        let message = format!("process {pid} was started by Provost, which already supervises it");
        return Err(ApiError::new(ErrorCode::Refused, message).next("provost ls"));
    }
    let signatures = adapters().signatures();
    let recognize = |path: &Path| adapters().recognize_transcript(path);
    let looked = processes::inspect(pid, &recognize).map_err(|why| {
        ApiError::new(ErrorCode::Refused, format!("cannot inspect process {pid}: {why}"))
    })?;
    let all = processes()?;
    let family = ProcessTree::new(&all, &signatures);
    let process = looked.and(family.get(pid)).ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, format!("there is no process {pid}"))
            .next("provost discover")
    })?;
    let identified = family.agent(process).or_else(|| family.kind_from_environment(process));
    match identified {
        Some(identified) => resolve_launcher(
            from_process(process, &identified),
            &agents(&family),
            &parents_in(&all),
        ),
        None => Err(not_an_agent(&family, process)),
    }
}

/// Explains why a process is not an agent. Usually, an agent started the process, which merely inherited the agent's
/// environment.
fn not_an_agent(family: &ProcessTree<'_>, process: &ObservedProcess) -> ApiError {
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
fn resolve_launcher(
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
            Err(usage(message).next("provost adopt --pid PID"))
        }
    }
}

fn by_pane(
    context: &Context,
    text: &str,
    meant: Option<ProcessInstance>,
) -> Result<DiscoveredAgent, ApiError> {
    let (socket, id) = match text.rsplit_once(':') {
        Some((socket, id)) => (PathBuf::from(socket), id),
        None => (default_socket(context), text),
    };
    let id = PaneId::parse(id).ok_or_else(|| {
        usage(format!("{text:?} is not a pane; expected a tmux pane id such as %3"))
            .next("tmux list-panes -a -F '#{pane_id} #{pane_title}'")
    })?;
    let pane = TmuxServer::new(&socket).pane(&id).map_err(|why| {
        ApiError::new(
            ErrorCode::Refused,
            format!("cannot query tmux on {}: {why}", socket.display()),
        )
    })?;
    let pane = pane.ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, format!("there is no pane {id} on {}", socket.display()))
            .next("provost discover")
    })?;
    let place =
        AgentPane { socket: socket.display().to_string(), id: id.to_string(), server: pane.server };
    let parents = parents()?;
    let agents: Vec<DiscoveredAgent> = agent_processes()?
        .into_iter()
        .filter(|one| runs_in_pane(one, pane.pid, &parents))
        .collect();
    let is_meant = |one: &&DiscoveredAgent| meant.is_some() && one.process == meant;
    let agents = match agents.iter().find(is_meant) {
        Some(meant) => vec![meant.clone()],
        None => dedup_agent_processes(agents, &parents),
    };
    match agents.as_slice() {
        [only] => Ok(DiscoveredAgent { pane: Some(place), ..only.clone() }),
        [] => Err(ApiError::new(ErrorCode::NotFound, format!("no agent runs in pane {id}"))
            .next("provost discover")),
        several => {
            let pids: Vec<String> = several.iter().filter_map(pid_of).collect();
            let message = format!("several agents run in pane {id}: {}", pids.join(", "));
            Err(usage(message).next(format!("provost adopt --tmux {text} --pid PID")))
        }
    }
}

/// Keeps only the process of an agent that is writing the rollout. If there is no rollout, removes
/// only launchers, such as the script that npm installs.
fn dedup_agent_processes(
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
fn drop_launchers(
    agents: Vec<DiscoveredAgent>,
    parents: &BTreeMap<u32, u32>,
) -> Vec<DiscoveredAgent> {
    let only_starts =
        |one: &&DiscoveredAgent| agents.iter().any(|other| is_launcher_of(one, other, parents));
    agents.iter().filter(|one| !only_starts(one)).cloned().collect()
}

/// Whether `one` merely launched `other`.
fn is_launcher_of(
    one: &DiscoveredAgent,
    other: &DiscoveredAgent,
    parents: &BTreeMap<u32, u32>,
) -> bool {
    let pid = |found: &DiscoveredAgent| found.process.as_ref().map(|process| process.pid);
    let parent = pid(other).and_then(|pid| parents.get(&pid).copied());
    let is_child = parent.is_some() && parent == pid(one);
    is_child && other.agent == one.agent && !one.own_program && !one.has_rollout()
}

fn pid_of(found: &DiscoveredAgent) -> Option<String> {
    found.process.as_ref().map(|process| process.pid.to_string())
}

/// Returns the parent of each process.
fn parents() -> Result<BTreeMap<u32, u32>, ApiError> {
    Ok(parents_in(&processes()?))
}

fn parents_in(all: &[ObservedProcess]) -> BTreeMap<u32, u32> {
    all.iter().map(|process| (process.identity.pid, process.parent)).collect()
}

/// Whether an agent is the process in a pane or a descendant of that process.
fn runs_in_pane(found: &DiscoveredAgent, pane: u32, parents: &BTreeMap<u32, u32>) -> bool {
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

fn by_rollout(path: &Path) -> Result<DiscoveredAgent, ApiError> {
    let cannot = |why: &dyn std::fmt::Display| {
        ApiError::new(ErrorCode::Refused, format!("cannot read {}: {why}", path.display()))
    };
    let path = std::fs::canonicalize(path).map_err(|why| cannot(&why))?;
    for adapter in adapters().iter() {
        let Some(store) = adapter.transcripts() else { continue };
        if let Some(meta) = store.read_meta(&path).map_err(|why| cannot(&why))? {
            return Ok(from_meta(&**adapter, &path, &meta));
        }
    }
    Err(cannot(&"the file is not a conversation of a known agent"))
}

/// Finds an agent by its conversation. First looks for a process that is writing the conversation,
/// because the agent may have its own home.
fn by_thread(context: &Context, thread: &str) -> Result<DiscoveredAgent, ApiError> {
    let stores = stores(context);
    let mut stores = stores.iter().filter(|one| one.store.is_thread(thread)).peekable();
    if stores.peek().is_none() {
        return Err(usage(format!("{thread:?} is not a conversation id")));
    }
    let writers: Vec<DiscoveredAgent> = agent_processes()?
        .into_iter()
        .filter_map(|one| writing_conversation(one, thread))
        .collect();
    if let [only] = writers.as_slice() {
        return Ok(only.clone());
    }
    let mut newest = stores.filter_map(|one| one.store.files_of(&one.homes, thread).pop());
    let newest = newest.next().ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, format!("no file found for conversation {thread}"))
            .next("provost adopt --rollout FILE")
    })?;
    by_rollout(&newest.path)
}

/// The transcripts of one kind of agent, and the homes in which the user's own agents store them.
struct UserTranscripts {
    adapter: Arc<dyn Adapter>,
    store: Arc<dyn TranscriptStore>,
    homes: Vec<PathBuf>,
}

fn stores(context: &Context) -> Vec<UserTranscripts> {
    let variable = |name: &str| context.environment.get(name).map(str::to_owned);
    let found = adapters().iter().filter_map(|adapter| {
        let store = adapter.transcripts()?;
        let homes = store.user_homes(&variable);
        Some(UserTranscripts { adapter: Arc::clone(adapter), store, homes })
    });
    found.collect()
}

fn read_meta(adapter: Option<&Arc<dyn Adapter>>, path: &Path) -> Option<ConversationMeta> {
    adapter?.transcripts()?.read_meta(path).ok().flatten()
}

/// Returns the agent with this conversation, if its process is writing it.
fn writing_conversation(found: DiscoveredAgent, thread: &str) -> Option<DiscoveredAgent> {
    match found.conversations.iter().find(|open| open.file.thread == thread).cloned() {
        Some(open) => Some(with_conversation(found, &open)),
        None => Some(found).filter(|one| one.thread.as_deref() == Some(thread)),
    }
}

fn processes() -> Result<Vec<ObservedProcess>, ApiError> {
    let all = processes::list_processes(&|path| adapters().recognize_transcript(path));
    let all = all.map_err(|why| {
        ApiError::new(ErrorCode::Refused, format!("cannot list processes: {why}"))
    })?;
    Ok(all.processes)
}

/// Returns every running agent once.
pub(crate) fn running_agents() -> Result<Vec<DiscoveredAgent>, ApiError> {
    Ok(drop_launchers(agent_processes()?, &parents()?))
}

/// Returns all agent processes.
fn agent_processes() -> Result<Vec<DiscoveredAgent>, ApiError> {
    let (all, signatures) = (processes()?, adapters().signatures());
    Ok(agents(&ProcessTree::new(&all, &signatures)))
}

fn agents(family: &ProcessTree<'_>) -> Vec<DiscoveredAgent> {
    let of_others =
        family.agents().into_iter().filter(|(one, _)| !belongs_to_launch(one.identity.pid));
    of_others.map(|(process, identified)| from_process(process, &identified)).collect()
}

/// Whether a process belongs to one of Provost's launches. All processes of a launch have a mark in
/// their environment.
fn belongs_to_launch(pid: u32) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mark = format!("{}=", provost_holder::spec::MARK);
    environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
}

/// Returns the most recent conversations that no process in `running` is writing.
pub(crate) fn idle_conversations(
    context: &Context,
    running: &[DiscoveredAgent],
) -> Vec<DiscoveredAgent> {
    let written = |path: &Path| {
        let several =
            |one: &DiscoveredAgent| one.conversations.iter().any(|open| open.file.path == path);
        running.iter().any(|one| one.rollout.as_deref() == Some(path) || several(one))
    };
    let idle = |one: &UserTranscripts| {
        let newest = one.store.newest(&one.homes, MAX_CONVERSATIONS).into_iter();
        let rest = newest.filter(|file| !written(&file.path));
        let read = rest.filter_map(|file| {
            let meta = one.store.read_meta(&file.path).ok()??;
            (!meta.hidden).then(|| from_meta(&*one.adapter, &file.path, &meta))
        });
        read.collect::<Vec<_>>()
    };
    stores(context).iter().flat_map(idle).collect()
}

/// Adds the tmux pane to each agent that runs in a pane. Considers the servers of this user that are in tmux's own
/// directory, and the servers named in the environment of an agent, provided that the agent really runs in one of their
/// panes.
pub(crate) fn add_panes(context: &Context, agents: &mut [DiscoveredAgent]) -> Result<(), ApiError> {
    let parents = parents()?;
    for socket in sockets(context, agents) {
        // A path that is not UTF-8 cannot be stored.
        let Some(text) = socket.to_str() else { continue };
        for pane in TmuxServer::new(&socket).panes().unwrap_or_default() {
            for agent in agents.iter_mut().filter(|agent| runs_in_pane(agent, pane.pid, &parents)) {
                if agent.pane.is_none() || agent.env_names_pane(&socket, &pane) {
                    let (socket, id) = (text.to_owned(), pane.id.to_string());
                    agent.pane = Some(AgentPane { socket, id, server: pane.server });
                }
            }
        }
    }
    Ok(())
}

/// Returns this user's sockets on which a tmux server may be listening, without duplicates.
fn sockets(context: &Context, agents: &[DiscoveredAgent]) -> BTreeSet<PathBuf> {
    let directory =
        tmux::socket_directory(context.environment.get("TMUX_TMPDIR").map(AsRef::as_ref));
    let named = agents.iter().filter_map(|agent| Some(agent.env_pane.as_ref()?.socket.clone()));
    let named = named.filter(|socket| tmux::is_own_socket(socket));
    tmux::sockets(&directory).unwrap_or_default().into_iter().chain(named).collect()
}

fn from_process(process: &ObservedProcess, identified: &AgentIdentification) -> DiscoveredAgent {
    let known_by = match identified.basis {
        Basis::Environment => "AI_AGENT",
        Basis::Executable => "its program",
        Basis::Arguments => "its arguments",
    };
    let arguments = process.arguments.seen().into_iter().flatten();
    let hidden = [
        unobservable("the program", &process.executable),
        unobservable("the directory", &process.cwd),
        unobservable("the open files", &process.transcripts),
    ];
    let found = DiscoveredAgent {
        agent: identified.kind.clone(),
        evidence: known_by,
        own_program: identified.own_program,
        process: Some(process.identity.clone()),
        argv: arguments.map(|word| word.to_string_lossy().into_owned()).collect(),
        cwd: process.cwd.seen().cloned(),
        rollout: None,
        thread: None,
        version: None,
        observed_by: observing_interface(&identified.kind),
        pane: None,
        conversations: Vec::new(),
        env_pane: process.tmux.seen().cloned().flatten(),
        open_files_visible: process.transcripts.seen().is_some(),
        unobservable: hidden.into_iter().flatten().collect(),
    };
    let open = conversations(process);
    match open.as_slice() {
        [only] => with_conversation(found, only),
        _ => DiscoveredAgent { conversations: open, ..found },
    }
}

/// Returns the user-facing conversations that a process is writing, without those of its sub-agents.
fn conversations(process: &ObservedProcess) -> Vec<OpenTranscript> {
    let open = process.transcripts.seen().into_iter().flatten();
    let hidden = |open: &OpenTranscript| {
        let adapter = adapters().with_id(open.adapter.as_str()).ok();
        read_meta(adapter, &open.file.path).is_some_and(|meta| meta.hidden)
    };
    open.filter(|open| !hidden(open)).cloned().collect()
}

fn unobservable<T>(what: &str, seen: &ProcessProperty<T>) -> Option<String> {
    match seen {
        ProcessProperty::Visible(_) => None,
        ProcessProperty::Hidden(why) => Some(format!("{what} cannot be seen: {why}")),
    }
}

/// Returns the interface of the adapter that reads the transcripts of this kind of agent.
fn observing_interface(kind: &str) -> Option<AgentInterface> {
    let is_it = |adapter: &&Arc<dyn Adapter>| {
        adapter.signature().is_some_and(|signature| signature.name == kind)
    };
    let adapter = adapters().iter().find(is_it)?;
    adapter.transcripts()?;
    adapter.interface(AgentMode::Terminal)
}

fn from_meta(adapter: &dyn Adapter, path: &Path, meta: &ConversationMeta) -> DiscoveredAgent {
    let name = adapter.signature().map(|signature| signature.name.to_owned());
    DiscoveredAgent {
        agent: name.unwrap_or_else(|| adapter.id().to_string()),
        evidence: "its transcript",
        own_program: false,
        process: None,
        argv: Vec::new(),
        cwd: meta.cwd.clone(),
        rollout: Some(path.to_owned()),
        thread: Some(meta.thread.clone()),
        version: meta.version.clone(),
        observed_by: adapter.interface(AgentMode::Terminal),
        pane: None,
        conversations: Vec::new(),
        env_pane: None,
        open_files_visible: false,
        unobservable: Vec::new(),
    }
}

/// Returns the socket of the server that tmux itself would use.
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
    use provost_agent::transcript::TranscriptFile;
    use provost_core::session::AdapterId;

    use super::*;

    fn found() -> DiscoveredAgent {
        DiscoveredAgent {
            agent: "talker".to_owned(),
            evidence: "its program",
            own_program: false,
            process: None,
            argv: Vec::new(),
            cwd: None,
            rollout: None,
            thread: None,
            version: None,
            observed_by: None,
            pane: None,
            conversations: Vec::new(),
            env_pane: None,
            open_files_visible: false,
            unobservable: Vec::new(),
        }
    }

    fn transcript(no: u32) -> OpenTranscript {
        let (thread, path) = (no.to_string(), format!("/r/{no}.talk").into());
        OpenTranscript { adapter: AdapterId::COMMAND, file: TranscriptFile { thread, path } }
    }

    #[test]
    fn merge_combines_facts_and_rejects_conflicts() {
        let pid = |pid| Some(ProcessInstance { pid, start_time: 1, boot_id: "b".to_owned() });
        let one = DiscoveredAgent { process: pid(7), ..found() };
        let other = DiscoveredAgent { thread: Some("t".to_owned()), ..found() };
        let both = merge(&one, &other).unwrap();
        assert_eq!((both.process, both.thread), (pid(7), Some("t".to_owned())));
        let third = DiscoveredAgent { process: pid(8), ..found() };
        let why = merge(&one, &third).unwrap_err();
        assert_eq!(why, "the first has process 7, the second process 8");
    }

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

    #[test]
    fn named_conversation_is_selected() {
        let open = |no: u32| transcript(no);
        let several = || DiscoveredAgent { conversations: vec![open(1), open(2)], ..found() };
        assert!(
            select_conversation(several(), &[])
                .unwrap_err()
                .message
                .contains("several conversations")
        );
        let named = DiscoveredAgent { rollout: Some(open(2).file.path), ..found() };
        let taken = select_conversation(several(), &[("--rollout", named)]).unwrap();
        assert_eq!((taken.rollout, taken.conversations), (Some(open(2).file.path), Vec::new()));
        assert_eq!(taken.thread, Some(open(2).file.thread));
    }

    #[test]
    fn conversation_is_found_by_its_writer() {
        let one = DiscoveredAgent { thread: Some("1".to_owned()), ..found() };
        assert_eq!(writing_conversation(one.clone(), "1"), Some(one.clone()));
        assert_eq!(writing_conversation(one, "2"), None);
        let open = transcript(2);
        let several = DiscoveredAgent { conversations: vec![open.clone()], ..found() };
        assert_eq!(writing_conversation(several, "2").unwrap().rollout, Some(open.file.path));
    }

    #[test]
    fn env_pane_matches_only_if_all_parts_match() {
        let pane = PaneListing {
            id: PaneId::parse("%3").unwrap(),
            session: provost_terminal::tmux::TmuxSessionId::parse("$0").unwrap(),
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
            let inside = TmuxOrigin { socket: "/s".into(), server, pane: Some(id.to_owned()) };
            DiscoveredAgent { env_pane: Some(inside), ..found() }
                .env_names_pane(Path::new("/s"), &pane)
        };
        assert!(says(Some(7), "%3") && says(None, "%3"));
        assert!(!says(Some(6), "%3") && !says(Some(7), "%4"));
        assert!(!found().env_names_pane(Path::new("/s"), &pane));
    }

    #[test]
    fn limitations_are_listed() {
        assert_eq!(found().limitations().len(), 2);
        let talker = AgentInterface::json_lines();
        let known = || DiscoveredAgent { observed_by: Some(talker.clone()), ..found() };
        let seen = DiscoveredAgent { rollout: Some("/r".into()), ..known() };
        let plain = AgentInterface::terminal_command();
        assert_eq!((&seen.interface(), &known().interface()), (&talker, &plain));
        let process = Some(ProcessInstance { pid: 7, start_time: 1, boot_id: "b".to_owned() });
        let fresh =
            DiscoveredAgent { process, own_program: true, open_files_visible: true, ..known() };
        assert_eq!(fresh.interface(), talker);
        assert!(
            fresh.limitations()[1].contains("after the first prompt"),
            "{:?}",
            fresh.limitations()
        );
        let hidden = DiscoveredAgent { open_files_visible: false, ..fresh.clone() };
        let other = DiscoveredAgent { observed_by: None, ..fresh };
        assert_eq!((&hidden.interface(), &other.interface()), (&plain, &plain));
        assert!(seen.limitations()[0].contains("process"));
    }
}
