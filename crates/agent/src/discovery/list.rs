//! Lists the agents of this machine and their conversations.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use provost_api::{ApiError, ErrorCode};
use provost_core::session::{AgentInterface, AgentMode};
use provost_terminal::tmux::{self, TmuxServer};

use super::{
    AgentPane, DiscoveredAgent, Discovery,
    launcher::{belongs_to_launch, drop_launchers, parents_in, runs_in_pane},
};
use crate::{
    Adapter,
    processes::{
        self, AgentIdentification, Basis, ObservedProcess, OpenTranscript, ProcessProperty,
        ProcessTree,
    },
    transcript::{ConversationMeta, TranscriptStore},
};

/// The maximum number of recent conversations to examine.
const MAX_CONVERSATIONS: usize = 50;

/// The transcripts of one kind of agent, and the homes in which the user's own agents store them.
pub(super) struct UserTranscripts {
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) store: Arc<dyn TranscriptStore>,
    pub(super) homes: Vec<PathBuf>,
}

impl Discovery<'_> {
    pub(super) fn socket_directory(&self) -> PathBuf {
        tmux::socket_directory((self.variable)("TMUX_TMPDIR").as_deref().map(AsRef::as_ref))
    }

    /// Returns every running agent once.
    pub fn running_agents(&self) -> Result<Vec<DiscoveredAgent>, ApiError> {
        Ok(drop_launchers(self.agent_processes()?, &self.parents()?))
    }

    /// Returns the most recent conversations that no process in `running` is writing.
    pub fn idle_conversations(&self, running: &[DiscoveredAgent]) -> Vec<DiscoveredAgent> {
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
        self.stores().iter().flat_map(idle).collect()
    }

    /// Adds the tmux pane to each agent that runs in a pane. Considers the servers of this user that are in tmux's own
    /// directory, and the servers named in the environment of an agent, provided that the agent really runs in one of
    /// their panes.
    pub fn add_panes(&self, agents: &mut [DiscoveredAgent]) -> Result<(), ApiError> {
        let parents = self.parents()?;
        for socket in self.sockets(agents) {
            // A path that is not UTF-8 cannot be stored.
            let Some(text) = socket.to_str() else { continue };
            for pane in TmuxServer::new(&socket).panes().unwrap_or_default() {
                for agent in
                    agents.iter_mut().filter(|agent| runs_in_pane(agent, pane.pid, &parents))
                {
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
    pub(super) fn sockets(&self, agents: &[DiscoveredAgent]) -> BTreeSet<PathBuf> {
        let named = agents.iter().filter_map(|agent| Some(agent.env_pane.as_ref()?.socket.clone()));
        let named = named.filter(|socket| tmux::is_own_socket(socket));
        tmux::sockets(&self.socket_directory())
            .unwrap_or_default()
            .into_iter()
            .chain(named)
            .collect()
    }

    pub(super) fn processes(&self) -> Result<Vec<ObservedProcess>, ApiError> {
        let all = processes::list_processes(&|path| self.adapters.recognize_transcript(path));
        let all = all.map_err(|why| {
            ApiError::new(ErrorCode::Refused, format!("cannot list processes: {why}"))
        })?;
        Ok(all.processes)
    }

    /// Returns the parent of each process.
    pub(super) fn parents(&self) -> Result<BTreeMap<u32, u32>, ApiError> {
        Ok(parents_in(&self.processes()?))
    }

    /// Returns all agent processes.
    pub(super) fn agent_processes(&self) -> Result<Vec<DiscoveredAgent>, ApiError> {
        let (all, signatures) = (self.processes()?, self.adapters.signatures());
        Ok(self.agents(&ProcessTree::new(&all, &signatures)))
    }

    pub(super) fn agents(&self, family: &ProcessTree<'_>) -> Vec<DiscoveredAgent> {
        let of_others =
            family.agents().into_iter().filter(|(one, _)| !belongs_to_launch(one.identity.pid));
        of_others.map(|(process, identified)| self.from_process(process, &identified)).collect()
    }

    pub(super) fn from_process(
        &self,
        process: &ObservedProcess,
        identified: &AgentIdentification,
    ) -> DiscoveredAgent {
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
            observed_by: self.observing_interface(&identified.kind),
            pane: None,
            conversations: Vec::new(),
            env_pane: process.tmux.seen().cloned().flatten(),
            open_files_visible: process.transcripts.seen().is_some(),
            unobservable: hidden.into_iter().flatten().collect(),
        };
        let open = self.conversations(process);
        match open.as_slice() {
            [only] => self.with_conversation(found, only),
            _ => DiscoveredAgent { conversations: open, ..found },
        }
    }

    /// Returns the user-facing conversations that a process is writing, without those of its sub-agents.
    pub(super) fn conversations(&self, process: &ObservedProcess) -> Vec<OpenTranscript> {
        let open = process.transcripts.seen().into_iter().flatten();
        let hidden = |open: &OpenTranscript| {
            let adapter = self.adapters.with_id(open.adapter.as_str()).ok();
            read_meta(adapter, &open.file.path).is_some_and(|meta| meta.hidden)
        };
        open.filter(|open| !hidden(open)).cloned().collect()
    }

    /// Adds the conversation that a process is writing.
    pub(super) fn with_conversation(
        &self,
        found: DiscoveredAgent,
        open: &OpenTranscript,
    ) -> DiscoveredAgent {
        let adapter = self.adapters.with_id(open.adapter.as_str()).ok();
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

    /// Returns the interface of the adapter that reads the transcripts of this kind of agent.
    pub(super) fn observing_interface(&self, kind: &str) -> Option<AgentInterface> {
        let is_it = |adapter: &&Arc<dyn Adapter>| {
            adapter.signature().is_some_and(|signature| signature.name == kind)
        };
        let adapter = self.adapters.iter().find(is_it)?;
        adapter.transcripts()?;
        adapter.interface(AgentMode::Terminal)
    }

    pub(super) fn stores(&self) -> Vec<UserTranscripts> {
        let variable = |name: &str| (self.variable)(name);
        let found = self.adapters.iter().filter_map(|adapter| {
            let store = adapter.transcripts()?;
            let homes = store.user_homes(&variable);
            Some(UserTranscripts { adapter: Arc::clone(adapter), store, homes })
        });
        found.collect()
    }
}

fn read_meta(adapter: Option<&Arc<dyn Adapter>>, path: &Path) -> Option<ConversationMeta> {
    adapter?.transcripts()?.read_meta(path).ok().flatten()
}

fn unobservable<T>(what: &str, seen: &ProcessProperty<T>) -> Option<String> {
    match seen {
        ProcessProperty::Visible(_) => None,
        ProcessProperty::Hidden(why) => Some(format!("{what} cannot be seen: {why}")),
    }
}

pub(super) fn from_meta(
    adapter: &dyn Adapter,
    path: &Path,
    meta: &ConversationMeta,
) -> DiscoveredAgent {
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
