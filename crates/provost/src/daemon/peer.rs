//! Who is on the other side of the socket. Whoever descends from a holder *is* that launch.

use std::path::Path;

use provost_api::{ApiError, Code};
use provost_core::ids::LaunchId;
use provost_engine::shell::{Home, World};
use provost_holder::{Identity, Looked, identity, launch_dir, look};
use serde::Deserialize;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Operator,
    /// A process below this launch's holder.
    Launch(LaunchId),
}

/// A launch whose processes may live.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Live {
    pub(crate) launch: LaunchId,
    pub(crate) holder: Option<Identity>,
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

impl Peer {
    /// Decides by the process ancestry of the peer. A process that cannot be looked at is nobody.
    pub(crate) fn of(pid: u32, home: &Home, live: &[Live]) -> Result<Peer, ApiError> {
        let unknown =
            |why: String| ApiError::new(Code::Forbidden, format!("cannot tell who asks: {why}"));
        if live.is_empty() {
            return Ok(Peer::Operator);
        }
        let ancestors = identity::ancestors(pid).map_err(|why| unknown(why.to_string()))?;
        for Live { launch, holder } in live {
            let holder = match holder {
                Some(holder) => Some(holder.clone()),
                None => starting(&home.launch(*launch)).map_err(|why| unknown(why.to_string()))?,
            };
            if holder.is_some_and(|holder| ancestors.contains(&holder)) {
                return Ok(Peer::Launch(*launch));
            }
        }
        Ok(Peer::Operator)
    }

    pub(crate) fn actor(&self) -> String {
        match self {
            Peer::Operator => "operator".to_owned(),
            Peer::Launch(launch) => format!("launch/{launch}"),
        }
    }

    /// Refuses what an agent may not do for itself.
    pub(crate) fn must_be_operator(&self) -> Result<(), ApiError> {
        match self {
            Peer::Operator => Ok(()),
            Peer::Launch(launch) => Err(ApiError::new(
                Code::Forbidden,
                format!(
                    "an agent may only report about itself; this process belongs to launch {launch}"
                ),
            )
            .next("provost report completed")),
        }
    }
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
        (Peer::Operator, None) => Ok(None),
        (Peer::Operator, Some(named)) => match token {
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
