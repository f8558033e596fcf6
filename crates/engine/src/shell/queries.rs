//! Queries that the owner answers from durable state.

use provost_api::{
    ApiError, ArchiveReply, GraphReply, HandoffReply, LookedUpName, OverviewReply, RunReply,
    SessionReply, SessionRow, ShortageRow, TeamMessagesReply, TeamReply, TeamWaitReply, WhyReply,
};
use provost_core::{
    ids::{LaunchId, SessionId},
    team::TeamWaitTarget,
};
use provost_holder::ProcessInstance;

use super::{
    handle::EngineHandle,
    listing::{Listing, ListingExtent},
    team_requests::TeamCaller,
};

/// A launch that may have running processes.
#[derive(Clone, Debug)]
pub struct LiveLaunch {
    pub launch: LaunchId,
    /// The holder's process, if known.
    pub holder: Option<ProcessInstance>,
}

/// The status of the engine.
#[derive(Clone, Debug)]
pub struct EngineStatus {
    pub live_sessions: usize,
    pub running_agents: usize,
    /// Why the ledger is read-only, if it is.
    pub read_only: Option<String>,
    pub ledger_loss: Option<String>,
    /// Holder directories that belong to no session or run on the board.
    pub off_board: Vec<String>,
    pub shortages: Vec<ShortageRow>,
}

/// Rows as JSON, as the ledger stores them.
#[derive(Clone, Debug, Default)]
pub struct ListedRows {
    pub rows: Vec<String>,
    /// Whether there are further rows.
    pub more: bool,
}

/// Sessions, and the runs in the same listing.
#[derive(Clone, Debug)]
pub struct SessionListing {
    pub sessions: ListedRows,
    pub runs: Vec<String>,
    pub shortages: Vec<ShortageRow>,
}

/// Rows that differ from the ledger because it currently cannot be written, and the machine's
/// shortages.
#[derive(Clone, Debug)]
pub struct LedgerPreview {
    pub rows: Vec<SessionRow>,
    pub shortages: Vec<ShortageRow>,
}

/// A session that is bound to an open team, and the team's name.
#[derive(Clone, Debug)]
pub struct BoundSession {
    pub session: SessionId,
    pub team: String,
}

impl EngineHandle {
    /// Returns a session, given by its id, part of its id, or its name.
    pub async fn session(&self, named: impl Into<String>) -> Result<SessionReply, ApiError> {
        let named = named.into();
        self.query(move |owner| owner.session_reply(&named)).await
    }

    /// Returns what an id, part of an id, or name refers to.
    pub async fn look_up(&self, named: String, by: TeamCaller) -> Result<LookedUpName, ApiError> {
        self.query(move |owner| owner.look_up(&named, &by)).await
    }

    /// Explains the state of a session.
    pub async fn explain(&self, session: String) -> Result<WhyReply, ApiError> {
        self.query(move |owner| owner.explain(&session)).await
    }

    /// Lists sessions, and the runs that match the same filter.
    pub async fn sessions(&self, listing: Listing) -> Result<SessionListing, ApiError> {
        self.query(move |owner| owner.list_sessions(&listing)).await
    }

    /// Returns the launches that may be running.
    pub async fn live_launches(&self) -> Result<Vec<LiveLaunch>, ApiError> {
        self.query(|owner| Ok(owner.live_launches())).await
    }

    /// Returns the status of the engine, and which of the given holder directories belong to no
    /// session or run on the board.
    pub async fn status(&self, registered: Vec<String>) -> Result<EngineStatus, ApiError> {
        self.query(move |owner| Ok(owner.status(registered))).await
    }

    /// Returns the rows that cannot be written to the ledger at the moment.
    pub async fn preview(&self) -> Result<LedgerPreview, ApiError> {
        self.query(|owner| {
            let rows = owner.overlaid_rows().collect();
            Ok(LedgerPreview { rows, shortages: owner.shortages() })
        })
        .await
    }

    /// Moves closed streams into the archive, or only counts them.
    pub async fn archive(&self, before_ms: i64, apply: bool) -> Result<ArchiveReply, ApiError> {
        self.query(move |owner| owner.archive(before_ms, apply)).await
    }

    /// Returns a run, given by its id, part of its id, or its name.
    pub async fn run(&self, named: String) -> Result<RunReply, ApiError> {
        self.query(move |owner| owner.run_reply(&named)).await
    }

    /// Returns the plan of a run, with the progress of each task.
    pub async fn run_graph(&self, run: String) -> Result<GraphReply, ApiError> {
        self.query(move |owner| owner.graph_reply(&run)).await
    }

    /// Lists the live runs, and at most this many others.
    pub async fn runs(&self, limit: usize) -> Result<ListedRows, ApiError> {
        let listing = Listing { extent: ListingExtent::LiveAnd(limit), ..Listing::default() };
        self.query(move |owner| owner.list_runs(&listing)).await
    }

    /// Returns a team as the caller sees it.
    pub async fn team(&self, team: String, by: TeamCaller) -> Result<TeamReply, ApiError> {
        self.query(move |owner| owner.team_reply(&team, &by)).await
    }

    /// Lists the open teams, and at most this many others.
    pub async fn teams(&self, limit: usize) -> Result<ListedRows, ApiError> {
        self.query(move |owner| owner.list_teams(limit)).await
    }

    /// Returns the messages of a team.
    pub async fn team_messages(
        &self,
        team: String,
        by: TeamCaller,
    ) -> Result<TeamMessagesReply, ApiError> {
        self.query(move |owner| owner.messages_reply(&team, &by)).await
    }

    /// Returns everything that the caller needs to decide on the next step.
    pub async fn team_overview(
        &self,
        team: String,
        by: TeamCaller,
    ) -> Result<OverviewReply, ApiError> {
        self.query(move |owner| owner.overview_reply(&team, &by)).await
    }

    /// Returns whether an awaited event has happened, or can no longer happen.
    pub async fn team_wait(
        &self,
        team: String,
        by: TeamCaller,
        awaited: TeamWaitTarget,
    ) -> Result<TeamWaitReply, ApiError> {
        self.query(move |owner| owner.wait_reply(&team, &by, awaited)).await
    }

    /// Returns the handoff for one member or for all of them, with the heartbeats of the team.
    pub async fn team_handoff(
        &self,
        team: String,
        by: TeamCaller,
        member: Option<String>,
    ) -> Result<HandoffReply, ApiError> {
        self.query(move |owner| owner.handoff_reply(&team, &by, member.as_deref())).await
    }

    /// Returns the sessions that are bound to open teams.
    pub async fn bound_sessions(&self) -> Result<Vec<BoundSession>, ApiError> {
        self.query(|owner| Ok(owner.bound_sessions())).await
    }
}
