//! A simulated holder and its agent.

use std::collections::{BTreeSet, VecDeque};

use provost_core::{
    ids::LaunchId,
    session::{ProcessExit, ReportBody, StoppedBy, StreamSignal, TurnEnd},
};

use super::{MAX_AFTERLIFE, MAX_LINES, Unobservable};
use crate::{
    goal::{self, SessionPart},
    run::Faults,
    screen::{self, ScreenEntry},
    script::{self, AgentAction, AgentScript},
};

impl SimHolder {
    pub(super) fn new(
        launch: LaunchId,
        temper: AgentScript,
        acts: Vec<AgentAction>,
        now: u64,
    ) -> SimHolder {
        SimHolder {
            launch,
            life: HolderLife::Reachable,
            unobservable: None,
            journal: Vec::new(),
            screen_entries: Vec::new(),
            suspended: false,
            on_screen: false,
            obedient: false,
            last_activity_ms: now,
            exit: None,
            gone: false,
            at_limit: false,
            full_until: None,
            inputs: BTreeSet::new(),
            script: temper,
            report: None,
            reporting: false,
            part: None,
            own_turn: false,
            acts: acts.into(),
            wake_ms: now,
            closed: false,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.life == HolderLife::Reachable && self.exit.is_none()
    }

    /// Whether input can be written to the agent.
    pub(crate) fn is_listening(&self) -> bool {
        self.is_running() && self.unobservable.is_none()
    }

    /// Whether the follower can end the launch. If the leader has exited, what remains of its process tree is reported
    /// as leftovers.
    pub(super) fn can_be_stopped(&self) -> bool {
        self.script.can_be_killed || self.exit.is_some()
    }

    /// Whether the agent can act. An agent without pending actions only listens. If the agent has exited, the next
    /// action is the end of its process tree.
    pub(super) fn can_act(&self, now: u64) -> bool {
        let something = match self.acts.front() {
            Some(AgentAction::AwaitAnswer) => false,
            Some(_) => true,
            None => self.exit.is_some(),
        };
        let free = self.report.is_none() && !self.reporting && !self.at_limit && !self.gone;
        let observable = self.unobservable.is_none();
        self.life == HolderLife::Reachable && observable && free && something && self.wake_ms <= now
    }

    pub(super) fn begin_own_turn(&mut self, turn: String, now: u64) {
        self.print(StreamSignal::TurnStarted { turn: Some(turn) }, now);
        self.own_turn = true;
    }

    pub(super) fn print(&mut self, signal: StreamSignal, now: u64) {
        self.own_turn &= !matches!(signal, StreamSignal::TurnEnded { .. });
        if !self.closed && self.journal.len() < MAX_LINES {
            self.journal.push(SimJournalEntry::Out(signal));
            self.last_activity_ms = now;
        }
    }

    /// Shows an entry. Only transcript entries count as activity.
    pub(super) fn show(&mut self, shown: ScreenEntry, now: u64) {
        if self.screen_entries.len() < MAX_LINES {
            if matches!(shown, ScreenEntry::Transcript(..)) {
                self.last_activity_ms = now;
            }
            self.screen_entries.push(shown);
        }
    }

    pub(super) fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.journal.push(SimJournalEntry::Closed);
        }
    }

    pub(super) fn leave(&mut self) {
        self.close();
        self.gone = true;
    }

    pub(super) fn receive(
        &mut self,
        seed: u64,
        draws: (u64, u32),
        key: &str,
        text: &str,
        faults: &Faults,
    ) {
        if key.starts_with("answer-") {
            let waits = self.acts.iter().position(|act| *act == AgentAction::AwaitAnswer);
            if let Some(at) = waits {
                self.acts.remove(at);
                return;
            }
        }
        if self.obedient {
            return self.acts.extend(script::obedient_turn());
        }
        if self.on_screen {
            return self.acts.extend(screen::reaction(seed, draws.0, draws.1, key, text, faults));
        }
        if self.journal.len() < MAX_LINES {
            self.acts.extend(match self.part {
                None => script::reaction(seed, draws.0, draws.1, key, faults),
                Some(part) => goal::reaction(seed, draws.0, draws.1, key, part, faults),
            });
        }
    }

    pub(super) fn interrupt(&mut self, now: u64) {
        self.acts.clear();
        self.wake_ms = now;
        self.at_limit = false;
        if self.on_screen {
            return self.acts.extend(screen::interrupted());
        }
        self.acts.push_back(AgentAction::Line(StreamSignal::TurnEnded {
            turn: None,
            end: TurnEnd::Interrupted,
            usage: None,
            says: None,
        }));
    }

    /// Makes the agent exit. Its remaining actions belong to grandchildren, which neither wait nor exit.
    pub(super) fn exit_by_itself(&mut self, end: ProcessExit) {
        self.exit = Some((end, StoppedBy::Itself));
        self.acts.retain(|act| match act {
            AgentAction::Line(_)
            | AgentAction::Edit { .. }
            | AgentAction::Revert
            | AgentAction::Report(_)
            | AgentAction::Sleep(_) => true,
            AgentAction::AwaitAnswer
            | AgentAction::CloseStream
            | AgentAction::Flood
            | AgentAction::Exit(_) => false,
            AgentAction::Show(_) | AgentAction::Suspend(_) | AgentAction::BeginOwnTurn(_) => false,
        });
        self.acts.truncate(MAX_AFTERLIFE);
    }

    pub(super) fn kill_with(&mut self, signal: i32) {
        self.acts.clear();
        (self.report, self.reporting) = (None, false);
        self.at_limit = false;
        self.wake_ms = 0;
        self.exit = Some((ProcessExit::Signal(signal), StoppedBy::Provost));
    }
}

/// The actual state of one launch.
#[derive(Clone, Debug)]
pub(crate) struct SimHolder {
    pub(crate) launch: LaunchId,
    pub(crate) life: HolderLife,
    pub(crate) unobservable: Option<Unobservable>,
    pub(crate) journal: Vec<SimJournalEntry>,
    /// Entries of the agent's transcript and screen, in order. The position after each is its index plus one.
    pub(crate) screen_entries: Vec<ScreenEntry>,
    pub(crate) suspended: bool,
    /// Whether the agent runs in a terminal.
    pub(super) on_screen: bool,
    pub(super) obedient: bool,
    pub(crate) last_activity_ms: u64,
    pub(crate) exit: Option<(ProcessExit, StoppedBy)>,
    pub(crate) gone: bool,
    pub(crate) at_limit: bool,
    /// The time until which the disk is full.
    pub(crate) full_until: Option<u64>,
    pub(crate) inputs: BTreeSet<String>,
    pub(crate) script: AgentScript,
    pub(crate) report: Option<ReportBody>,
    /// Whether the agent has reported and waits until the report is recorded.
    pub(crate) reporting: bool,
    pub(super) part: Option<SessionPart>,
    /// Whether the agent is in a turn that it began on its own.
    pub(super) own_turn: bool,
    pub(super) acts: VecDeque<AgentAction>,
    pub(super) wake_ms: u64,
    pub(super) closed: bool,
}

/// Whether the holder itself can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderLife {
    Reachable,
    Died,
    OtherBoot,
}

/// An entry of a holder's journal. The position after an entry is its index plus one.
#[derive(Clone, Debug)]
pub(crate) enum SimJournalEntry {
    Out(StreamSignal),
    In(String),
    Closed,
}
