//! Discovers agents on this machine that Provost did not start, using processes, transcripts and tmux
//! panes.

mod launcher;
mod list;
mod search;

use std::path::{Path, PathBuf};

use provost_core::session::AgentInterface;
use provost_sys::process::ProcessInstance;
use provost_terminal::tmux::PaneListing;

use crate::{
    Adapters,
    processes::{OpenTranscript, TmuxOrigin},
};

/// What discovery needs to know about this program and its environment.
#[derive(Clone, Copy)]
pub struct Discovery<'a> {
    pub adapters: &'a Adapters,
    /// Returns a variable of the user's environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// The options that identify an agent.
#[derive(Debug, Default)]
pub struct AgentSelector {
    pub pid: Option<u32>,
    pub rollout: Option<PathBuf>,
    pub pane: Option<String>,
    pub thread: Option<String>,
}

/// An agent, and everything known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredAgent {
    pub agent: String,
    /// The evidence by which the kind of agent was recognized.
    pub evidence: &'static str,
    /// Whether the process is the agent's own program, and not a script that may only have started it.
    pub(super) own_program: bool,
    pub process: Option<ProcessInstance>,
    pub argv: Vec<String>,
    pub cwd: Option<PathBuf>,
    pub rollout: Option<PathBuf>,
    pub thread: Option<String>,
    pub version: Option<String>,
    /// The interface through which Provost can observe the agent, if an adapter reads the transcripts
    /// of such agents.
    pub(super) observed_by: Option<AgentInterface>,
    pub pane: Option<AgentPane>,
    /// The user-facing conversations that the process is writing, if there are several. The caller
    /// must select one of them.
    pub conversations: Vec<OpenTranscript>,
    /// The pane given in the environment of the process.
    pub env_pane: Option<TmuxOrigin>,
    /// Whether Provost could see which files the process has open.
    pub(super) open_files_visible: bool,
    /// The facts that could not be observed, with the reasons.
    pub unobservable: Vec<String>,
}

/// The tmux pane in which an agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPane {
    pub socket: String,
    pub id: String,
    pub server: u32,
}

impl DiscoveredAgent {
    pub(super) fn has_rollout(&self) -> bool {
        self.rollout.is_some() || !self.conversations.is_empty()
    }

    /// Whether the environment of the process refers to this pane.
    pub(super) fn env_names_pane(&self, socket: &Path, pane: &PaneListing) -> bool {
        self.env_pane.as_ref().is_some_and(|inside| {
            let same = inside.pane.as_deref() == Some(pane.id.as_str());
            same && inside.socket == socket && inside.server.is_none_or(|pid| pid == pane.server)
        })
    }

    /// Returns the interface through which Provost observes the agent.
    pub fn interface(&self) -> AgentInterface {
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
    pub fn limitations(&self) -> Vec<String> {
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

/// Merges two descriptions of the same agent, or reports how they disagree.
pub(super) fn merge(
    one: &DiscoveredAgent,
    other: &DiscoveredAgent,
) -> Result<DiscoveredAgent, String> {
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

/// Returns an agent of which nothing is known.
#[cfg(test)]
fn unknown_agent() -> DiscoveredAgent {
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

#[cfg(test)]
mod tests {
    use provost_terminal::tmux::PaneId;

    use super::{unknown_agent as found, *};

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
