//! Who is on the other side of the socket. Whoever descends from a holder *is* that launch, check, hook or setup.
//!
//! The operator is who none of this is said of: by its ancestors, by the mark in its environment, and while a
//! launch has lost its holder, by an ancestor that is older than that launch. What the daemon runs without a holder
//! (git) is nobody: should an agent find a way to have a program run by it, that program may nothing.

use std::path::Path;

use provost_api::{ApiError, Code};
use provost_core::ids::LaunchId;
use provost_engine::shell::{Home, World};
use provost_holder::{
    Identity, Looked, identity, launch_dir, look,
    origin::{held_directory, mark, same_place},
};
use serde::Deserialize;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Operator,
    /// A process below this launch's holder.
    Launch(LaunchId),
    /// A process that has this launch's mark, and not its holder above it.
    Stray(LaunchId),
    /// A process of a check, a hook or a setup: what it runs may be an agent's work.
    Held(String),
    /// A process below this daemon, and below no holder: no person typed it.
    Ours,
    /// A process that may have been this launch's, whose holder was killed.
    Unproven(LaunchId),
}

/// A launch whose processes may live.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Live {
    pub(crate) launch: LaunchId,
    pub(crate) holder: Option<Identity>,
}

/// What a process was started for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    Launch(LaunchId),
    Held(String),
}

impl Peer {
    /// Decides by the peer's ancestors and its mark. A process that cannot be looked at is nobody.
    pub(crate) fn of(pid: u32, home: &Home, live: &[Live]) -> Result<Peer, ApiError> {
        Origin::of(pid)
            .and_then(|origin| origin.peer(home, live))
            .map_err(|why| ApiError::new(Code::Forbidden, format!("cannot tell who asks: {why}")))
    }

    pub(crate) fn actor(&self) -> String {
        match self {
            Peer::Operator => "operator".to_owned(),
            Peer::Launch(launch) | Peer::Stray(launch) | Peer::Unproven(launch) => {
                format!("launch/{launch}")
            }
            Peer::Held(key) => format!("held/{key}"),
            Peer::Ours => "daemon".to_owned(),
        }
    }

    /// Refuses what an agent may not do for itself, nor have done by what is run for it.
    pub(crate) fn must_be_operator(&self) -> Result<(), ApiError> {
        match self {
            Peer::Operator => Ok(()),
            Peer::Launch(launch) | Peer::Stray(launch) => Err(ApiError::new(
                Code::Forbidden,
                format!(
                    "an agent may only report about itself; this process belongs to launch {launch}"
                ),
            )
            .next("provost report --help")),
            Peer::Held(key) => Err(ApiError::new(
                Code::Forbidden,
                format!("a check, hook or setup may only look; this process belongs to {key}"),
            )
            .next("provost status")),
            Peer::Ours => Err(ApiError::new(
                Code::Forbidden,
                "what the daemon runs may only look; this process is below it, and no person typed it",
            )
            .next("provost status")),
            Peer::Unproven(launch) => Err(unproven(*launch)),
        }
    }
}

fn unproven(launch: LaunchId) -> ApiError {
    let message = format!(
        "cannot tell who asks while the processes of launch {launch}, whose holder was killed, are being ended; try again"
    );
    ApiError::new(Code::Refused, message).next(format!("provost status {}", launch.session))
}

/// Where a process comes from, as far as the process table tells.
struct Origin {
    pid: u32,
    ancestors: Vec<Identity>,
    /// When the oldest ancestor began that is none of this daemon's too: to those the children of a killed
    /// holder fall, so they prove nothing.
    since: u64,
    /// Whether this daemon is an ancestor.
    ours: bool,
}

/// Why it cannot be told.
type Untold = Box<dyn std::error::Error + Send + Sync>;

impl Origin {
    fn of(pid: u32) -> Result<Origin, Untold> {
        let ancestors = identity::ancestors(pid)?;
        let ours = identity::ancestors(std::process::id())?;
        let proof = ancestors.iter().filter(|one| !ours.contains(one));
        let since = proof.map(|one| one.start_time).min().unwrap_or(u64::MAX);
        let daemon = Identity::own()?;
        let ours = ancestors.contains(&daemon);
        Ok(Origin { pid, ancestors, since, ours })
    }

    fn peer(&self, home: &Home, live: &[Live]) -> Result<Peer, Untold> {
        let mut lost = None;
        for Live { launch, holder } in live {
            let dir = home.launch(*launch);
            let holder = match holder {
                Some(holder) => Some(holder.clone()),
                None => starting(&dir)?,
            };
            let Some(holder) = holder else { continue };
            if self.ancestors.contains(&holder) {
                return Ok(Peer::Launch(*launch));
            }
            // Whoever has an ancestor that is older than a launch's holder is not of that launch.
            if self.since >= holder.start_time && has_lost_its_holder(&dir, &holder)? {
                lost = Some(*launch);
            }
        }
        Ok(match self.purpose(home, live) {
            Some(Purpose::Held(key)) => Peer::Held(key),
            Some(Purpose::Launch(launch)) => Peer::Stray(launch),
            None if self.ours => Peer::Ours,
            None => lost.map_or(Peer::Operator, Peer::Unproven),
        })
    }

    /// What the process or one above it was started for: told by a holder's command line, or by the mark that a
    /// holder gives. Both can be made up, by which one loses rights and wins none.
    fn purpose(&self, home: &Home, live: &[Live]) -> Option<Purpose> {
        let mut held = self.ancestors.iter().filter_map(|one| held_directory(one.pid));
        let family = std::iter::once(self.pid).chain(self.ancestors.iter().map(|one| one.pid));
        held.find_map(|dir| purpose_of(home, &dir))
            .or_else(|| family.filter_map(mark).find_map(|key| marked(home, live, &key)))
    }
}

/// Gives the holder of a launch that is not yet recorded as running: its agent may be quicker than the ledger.
fn starting(dir: &Path) -> Result<Option<Identity>, launch_dir::Error> {
    Ok(match look(dir)? {
        Looked::Starting { holder, .. } => holder,
        Looked::Alive { held } | Looked::Ended { held: Some(held), .. } => Some(held.holder),
        Looked::HolderDied { holder, .. } => Some(holder),
        Looked::Absent | Looked::Ended { held: None, .. } | Looked::OtherBoot { .. } => None,
    })
}

/// Whether the holder died before it saw the launch's last process end.
fn has_lost_its_holder(dir: &Path, holder: &Identity) -> Result<bool, Untold> {
    if holder.boot_id != identity::boot_id()? || holder.is_alive()? {
        return Ok(false);
    }
    Ok(!matches!(look(dir)?, Looked::Ended { gone: Some(gone), .. } if gone.verified))
}

/// Says what a holder's directory is for, if it is one of this home.
fn purpose_of(home: &Home, dir: &Path) -> Option<Purpose> {
    let (parent, key) = (dir.parent()?, dir.file_name()?.to_str()?);
    let is = |place: &Path| same_place(parent, place);
    if is(&home.launches()) {
        return key.parse().ok().map(Purpose::Launch);
    }
    is(&home.checks()).then(|| Purpose::Held(key.to_owned()))
}

/// Says what a mark is for, if it was given in this home.
fn marked(home: &Home, live: &[Live], key: &str) -> Option<Purpose> {
    if home.checks().join(key).exists() {
        return Some(Purpose::Held(key.to_owned()));
    }
    let launch: LaunchId = key.parse().ok()?;
    let known = home.launch(launch).exists() || live.iter().any(|one| one.launch == launch);
    known.then_some(Purpose::Launch(launch))
}

/// Checks a report's launch and token against who really asks.
pub(crate) fn reporter(
    peer: &Peer,
    world: &World,
    launch: Option<&str>,
    token: Option<&str>,
) -> Result<Option<LaunchId>, ApiError> {
    let forbidden = |message: &str| Err(ApiError::new(Code::Forbidden, message));
    let named: Option<LaunchId> = match launch {
        None => None,
        Some(text) => Some(text.parse().map_err(|why: provost_core::ids::BadId| {
            ApiError::new(Code::BadRequest, why.to_string())
        })?),
    };
    match (peer, named) {
        (Peer::Launch(own), None) => Ok(Some(*own)),
        (Peer::Launch(own), Some(named)) if *own == named => Ok(Some(named)),
        (Peer::Launch(_), Some(_)) => forbidden("a launch can speak only for itself"),
        (Peer::Held(_), _) => forbidden("a check, hook or setup speaks for nobody"),
        (Peer::Ours, _) => forbidden("what the daemon runs speaks for nobody"),
        (Peer::Stray(own), Some(named)) if *own != named => {
            forbidden("a launch can speak only for itself")
        }
        (Peer::Stray(_), None) => {
            forbidden("a report for a launch needs its token (PROVOST_TOKEN)")
        }
        (Peer::Unproven(launch), None) => Err(unproven(*launch)),
        (Peer::Operator, None) => Ok(None),
        (Peer::Operator | Peer::Stray(_) | Peer::Unproven(_), Some(named)) => match token {
            Some(token) if same(token, &world.token(named)) => Ok(Some(named)),
            Some(_) => forbidden("the token does not belong to this launch"),
            None => forbidden("a report for a launch needs its token (PROVOST_TOKEN)"),
        },
    }
}

/// Compares without telling by its time how much was right.
fn same(given: &str, right: &str) -> bool {
    given.len() == right.len()
        && given.bytes().zip(right.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
