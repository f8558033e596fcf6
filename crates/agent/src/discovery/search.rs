//! Finds the single agent that the user names.

use std::path::{Path, PathBuf};

use provost_api::{ApiError, ErrorCode};
use provost_sys::process::ProcessInstance;
use provost_terminal::tmux::{PaneId, TmuxServer};

use super::{
    AgentPane, AgentSelector, DiscoveredAgent, Discovery,
    launcher::{
        belongs_to_launch, dedup_agent_processes, not_an_agent, parents_in, pid_of,
        resolve_launcher, runs_in_pane,
    },
    list::from_meta,
    merge,
};
use crate::processes::{self, OpenTranscript, ProcessTree};

/// Returns an error for invalid user input.
fn usage(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

impl Discovery<'_> {
    /// Finds the single agent that the options identify.
    pub fn find_agent(&self, given: &AgentSelector) -> Result<DiscoveredAgent, ApiError> {
        let mut named: Vec<(&'static str, DiscoveredAgent)> = Vec::new();
        if let Some(rollout) = &given.rollout {
            named.push(("--rollout", self.by_rollout(rollout)?));
        }
        if let Some(thread) = &given.thread {
            named.push(("--thread", self.by_thread(thread)?));
        }
        let mut found: Vec<(&'static str, DiscoveredAgent)> = Vec::new();
        if let Some(pid) = given.pid {
            found.push(("--pid", self.select_conversation(self.by_pid(pid)?, &named)?));
        }
        if let Some(pane) = &given.pane {
            let meant = found.first().and_then(|(_, found)| found.process.clone());
            found.push(("--tmux", self.select_conversation(self.by_pane(pane, meant)?, &named)?));
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
        self.with_pane(self.with_process(agreed)?)
    }

    fn by_pid(&self, pid: u32) -> Result<DiscoveredAgent, ApiError> {
        if belongs_to_launch(pid) {
            let message =
                format!("process {pid} was started by Provost, which already supervises it");
            return Err(ApiError::new(ErrorCode::Refused, message).next("provost ls"));
        }
        let signatures = self.adapters.signatures();
        let recognize = |path: &Path| self.adapters.recognize_transcript(path);
        let looked = processes::inspect(pid, &recognize).map_err(|why| {
            ApiError::new(ErrorCode::Refused, format!("cannot inspect process {pid}: {why}"))
        })?;
        let all = self.processes()?;
        let family = ProcessTree::new(&all, &signatures);
        let process = looked.and(family.get(pid)).ok_or_else(|| {
            ApiError::new(ErrorCode::NotFound, format!("there is no process {pid}"))
                .next("provost discover")
        })?;
        let identified = family.agent(process).or_else(|| family.kind_from_environment(process));
        match identified {
            Some(identified) => resolve_launcher(
                self.from_process(process, &identified),
                &self.agents(&family),
                &parents_in(&all),
            ),
            None => Err(not_an_agent(&family, process)),
        }
    }

    fn by_pane(
        &self,
        text: &str,
        meant: Option<ProcessInstance>,
    ) -> Result<DiscoveredAgent, ApiError> {
        let (socket, id) = match text.rsplit_once(':') {
            Some((socket, id)) => (PathBuf::from(socket), id),
            None => (self.default_socket(), text),
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
            ApiError::new(
                ErrorCode::NotFound,
                format!("there is no pane {id} on {}", socket.display()),
            )
            .next("provost discover")
        })?;
        let place = AgentPane {
            socket: socket.display().to_string(),
            id: id.to_string(),
            server: pane.server,
        };
        let parents = self.parents()?;
        let agents: Vec<DiscoveredAgent> = self
            .agent_processes()?
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

    fn by_rollout(&self, path: &Path) -> Result<DiscoveredAgent, ApiError> {
        let cannot = |why: &dyn std::fmt::Display| {
            ApiError::new(ErrorCode::Refused, format!("cannot read {}: {why}", path.display()))
        };
        let path = std::fs::canonicalize(path).map_err(|why| cannot(&why))?;
        for adapter in self.adapters.iter() {
            let Some(store) = adapter.transcripts() else { continue };
            if let Some(meta) = store.read_meta(&path).map_err(|why| cannot(&why))? {
                return Ok(from_meta(&**adapter, &path, &meta));
            }
        }
        Err(cannot(&"the file is not a conversation of a known agent"))
    }

    /// Finds an agent by its conversation. First looks for a process that is writing the conversation,
    /// because the agent may have its own home.
    fn by_thread(&self, thread: &str) -> Result<DiscoveredAgent, ApiError> {
        let stores = self.stores();
        let mut stores = stores.iter().filter(|one| one.store.is_thread(thread)).peekable();
        if stores.peek().is_none() {
            return Err(usage(format!("{thread:?} is not a conversation id")));
        }
        let writers: Vec<DiscoveredAgent> = self
            .agent_processes()?
            .into_iter()
            .filter_map(|one| self.writing_conversation(one, thread))
            .collect();
        if let [only] = writers.as_slice() {
            return Ok(only.clone());
        }
        let mut newest = stores.filter_map(|one| one.store.files_of(&one.homes, thread).pop());
        let newest = newest.next().ok_or_else(|| {
            ApiError::new(ErrorCode::NotFound, format!("no file found for conversation {thread}"))
                .next("provost adopt --rollout FILE")
        })?;
        self.by_rollout(&newest.path)
    }

    /// If a process is writing several conversations, selects the one that the user chose. Fails if the
    /// user did not choose one.
    fn select_conversation(
        &self,
        found: DiscoveredAgent,
        named: &[(&str, DiscoveredAgent)],
    ) -> Result<DiscoveredAgent, ApiError> {
        let is_named = |open: &&OpenTranscript| {
            named.iter().any(|(_, one)| one.rollout.as_deref() == Some(open.file.path.as_path()))
        };
        match found.conversations.iter().find(is_named).cloned() {
            _ if found.conversations.is_empty() => Ok(found),
            Some(open) => Ok(self.with_conversation(found, &open)),
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

    /// If the agent runs in a pane of one of this user's tmux servers, adds that pane, even without `--tmux`.
    fn with_pane(&self, found: DiscoveredAgent) -> Result<DiscoveredAgent, ApiError> {
        let mut found = [found];
        if found[0].process.is_some() && found[0].pane.is_none() {
            self.add_panes(&mut found)?;
        }
        let [found] = found;
        Ok(found)
    }

    /// If a process is writing the rollout, adds that process, even without `--pid`.
    fn with_process(&self, found: DiscoveredAgent) -> Result<DiscoveredAgent, ApiError> {
        let (None, Some(rollout)) = (&found.process, &found.rollout) else { return Ok(found) };
        let is_it = |open: &OpenTranscript| open.file.path == *rollout;
        let writers: Vec<DiscoveredAgent> = self
            .agent_processes()?
            .into_iter()
            .filter_map(|one| match one.conversations.iter().find(|open| is_it(open)).cloned() {
                Some(open) => Some(self.with_conversation(one, &open)),
                None => Some(one).filter(|one| one.rollout.as_ref() == Some(rollout)),
            })
            .collect();
        match writers.as_slice() {
            [only] => merge(&found, only).map_err(usage),
            _ => Ok(found),
        }
    }

    /// Returns the agent with this conversation, if its process is writing it.
    fn writing_conversation(
        &self,
        found: DiscoveredAgent,
        thread: &str,
    ) -> Option<DiscoveredAgent> {
        match found.conversations.iter().find(|open| open.file.thread == thread).cloned() {
            Some(open) => Some(self.with_conversation(found, &open)),
            None => Some(found).filter(|one| one.thread.as_deref() == Some(thread)),
        }
    }

    /// Returns the socket of the server that tmux itself would use.
    fn default_socket(&self) -> PathBuf {
        let inside = (self.variable)("TMUX").unwrap_or_default();
        match inside.split(',').next().filter(|path| !path.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => self.socket_directory().join("default"),
        }
    }
}

#[cfg(test)]
mod tests {
    use provost_core::session::AdapterId;

    use super::{super::unknown_agent as found, *};
    use crate::{Adapters, transcript::TranscriptFile};

    fn transcript(no: u32) -> OpenTranscript {
        let (thread, path) = (no.to_string(), format!("/r/{no}.talk").into());
        OpenTranscript { adapter: AdapterId::COMMAND, file: TranscriptFile { thread, path } }
    }

    const NO_VARIABLES: fn(&str) -> Option<String> = |_| None;

    #[test]
    fn named_conversation_is_selected() {
        let adapters = Adapters::new([]);
        let discovery = Discovery { adapters: &adapters, variable: &NO_VARIABLES };
        let open = |no: u32| transcript(no);
        let several = || DiscoveredAgent { conversations: vec![open(1), open(2)], ..found() };
        assert!(
            discovery
                .select_conversation(several(), &[])
                .unwrap_err()
                .message
                .contains("several conversations")
        );
        let named = DiscoveredAgent { rollout: Some(open(2).file.path), ..found() };
        let taken = discovery.select_conversation(several(), &[("--rollout", named)]).unwrap();
        assert_eq!((taken.rollout, taken.conversations), (Some(open(2).file.path), Vec::new()));
        assert_eq!(taken.thread, Some(open(2).file.thread));
    }

    #[test]
    fn conversation_is_found_by_its_writer() {
        let adapters = Adapters::new([]);
        let discovery = Discovery { adapters: &adapters, variable: &NO_VARIABLES };
        let one = DiscoveredAgent { thread: Some("1".to_owned()), ..found() };
        assert_eq!(discovery.writing_conversation(one.clone(), "1"), Some(one.clone()));
        assert_eq!(discovery.writing_conversation(one, "2"), None);
        let open = transcript(2);
        let several = DiscoveredAgent { conversations: vec![open.clone()], ..found() };
        assert_eq!(
            discovery.writing_conversation(several, "2").unwrap().rollout,
            Some(open.file.path)
        );
    }
}
