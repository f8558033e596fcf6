//! The permissions of a peer of the daemon's socket. [`provost_sys::origin`] decides its origin.

use std::path::Path;

use provost_api::{ApiError, Code};
use provost_core::{ids::LaunchId, shortage::Shortage};
use provost_engine::shell::{Home, World, chain};
use provost_holder::{Identity, Looked, launch_dir, look};
use provost_sys::{
    origin::{Origin, same_place},
    peer,
};
use serde::Deserialize;

/// The identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Operator,
    /// A process below this launch's holder.
    Launch(LaunchId),
    /// A process with this launch's mark, but without its holder above it.
    Stray(LaunchId),
    /// A process of a check, a hook or a setup, which may run an agent's code.
    Held(String),
    /// A process below this daemon but below no holder, so the operator did not start it.
    Ours,
    /// A process that may belong to this launch, whose holder was killed.
    Unproven(String),
}

/// A launch that may have running processes.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Live {
    pub(crate) launch: LaunchId,
    pub(crate) holder: Option<Identity>,
}

impl Peer {
    pub(crate) fn actor(&self) -> String {
        match self {
            Peer::Operator => "operator".to_owned(),
            Peer::Launch(launch) | Peer::Stray(launch) => format!("launch/{launch}"),
            Peer::Unproven(key) => format!("launch/{key}"),
            Peer::Held(key) => format!("held/{key}"),
            Peer::Ours => "daemon".to_owned(),
        }
    }

    /// Refuses callers other than the operator: agents, and everything that runs for them.
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
                format!("a check, hook or setup may only read; this process belongs to {key}"),
            )
            .next("provost status")),
            Peer::Ours => Err(ApiError::new(
                Code::Forbidden,
                "a process that the daemon started may only read; run the command from a terminal",
            )
            .next("provost status")),
            Peer::Unproven(key) => Err(unproven(key)),
        }
    }
}

/// Refuses a caller that cannot be identified. If a resource is short, the caller may retry.
pub(crate) fn unidentified(why: &(dyn std::error::Error + 'static)) -> ApiError {
    let message = format!("cannot identify the caller: {why}");
    match Shortage::from_text(&chain(why)) {
        Some(shortage) => {
            let name = shortage.resource.name();
            let message = format!("{message}; the daemon is short of {name}, try again");
            ApiError::new(Code::Unreachable, message).next("provost daemon status")
        }
        None => ApiError::new(Code::Forbidden, message),
    }
}

pub(crate) fn refused(why: &peer::Error) -> ApiError {
    match why {
        peer::Error::OtherUser { own, peer } => {
            let message = format!("this is the daemon of user {own}; you are user {peer}");
            ApiError::new(Code::Forbidden, message)
        }
        peer::Error::Unknown | peer::Error::Ended(_) | peer::Error::Io(_) => unidentified(why),
    }
}

fn unproven(key: &str) -> ApiError {
    let message = format!(
        "cannot tell you from an agent: the holder of {key} was killed, and this process is younger than {key} and has \
         no older parent; run the command from a terminal or a login session"
    );
    let error = ApiError::new(Code::Refused, message);
    match key.parse::<LaunchId>() {
        Ok(launch) => error.next(format!("provost status {}", launch.session)),
        Err(_) => error.next("provost daemon status"),
    }
}

/// The known launches, by which an origin is resolved to a peer.
pub(crate) struct Known<'a> {
    pub(crate) home: &'a Home,
    pub(crate) live: &'a [Live],
}

impl Known<'_> {
    /// Resolves the origin of a process to a peer.
    pub(crate) fn peer(&self, origin: Origin) -> Result<Peer, launch_dir::Error> {
        Ok(match origin {
            Origin::Operator => Peer::Operator,
            Origin::Daemon | Origin::Helper => Peer::Ours,
            Origin::Unproven { key } => Peer::Unproven(key),
            Origin::Marked { key } => marked(key),
            Origin::Held { dir, holder, outermost: _ } => match self.launch(&holder)? {
                Some(launch) => Peer::Launch(launch),
                None => self.stray(&dir),
            },
        })
    }

    /// Returns the launch of this holder. The ledger or the launch's own directory must confirm it,
    /// because a command line can be forged.
    fn launch(&self, holder: &Identity) -> Result<Option<LaunchId>, launch_dir::Error> {
        for Live { launch, holder: recorded } in self.live {
            let recorded = match recorded {
                Some(recorded) => Some(recorded.clone()),
                None => starting(&self.home.launch(*launch))?,
            };
            if recorded.as_ref() == Some(holder) {
                return Ok(Some(*launch));
            }
        }
        Ok(None)
    }

    fn stray(&self, dir: &Path) -> Peer {
        let key = dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let key = key.unwrap_or_default();
        let is_launch = dir.parent().is_some_and(|it| same_place(it, &self.home.launches()));
        if is_launch { marked(key) } else { Peer::Held(key) }
    }
}

/// Identifies a process with a mark and no holder: a launch by its key, otherwise a check, hook or setup.
fn marked(key: String) -> Peer {
    key.parse().map_or(Peer::Held(key), Peer::Stray)
}

/// Returns the holder of a launch that is not recorded as running yet: its agent may be faster than
/// the ledger.
fn starting(dir: &Path) -> Result<Option<Identity>, launch_dir::Error> {
    Ok(match look(dir)? {
        Looked::Starting { holder, .. } => holder,
        Looked::Alive { held } | Looked::Ended { held: Some(held), .. } => Some(held.holder),
        Looked::HolderDied { holder, .. } => Some(holder),
        Looked::Absent | Looked::Ended { held: None, .. } | Looked::OtherBoot { .. } => None,
    })
}

/// Checks a report's launch and token against the actual caller.
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
        (Peer::Launch(_), Some(_)) => forbidden("a launch can report only for itself"),
        (Peer::Held(_), _) => forbidden("a check, hook or setup cannot report"),
        (Peer::Ours, _) => forbidden("a process that the daemon started cannot report"),
        (Peer::Stray(own), Some(named)) if *own != named => {
            forbidden("a launch can report only for itself")
        }
        (Peer::Stray(_), None) => {
            forbidden("a report for a launch needs its token (PROVOST_TOKEN)")
        }
        (Peer::Unproven(key), None) => Err(unproven(key)),
        (Peer::Operator, None) => Ok(None),
        (Peer::Operator | Peer::Stray(_) | Peer::Unproven(_), Some(named)) => match token {
            Some(token) if same(token, &world.token(named)) => Ok(Some(named)),
            Some(_) => forbidden("the token does not belong to this launch"),
            None => forbidden("a report for a launch needs its token (PROVOST_TOKEN)"),
        },
    }
}

/// Compares in constant time, so that timing does not reveal a partial match.
fn same(given: &str, right: &str) -> bool {
    given.len() == right.len()
        && given.bytes().zip(right.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f8_v4_caller_unknown_for_lack_of_descriptors_may_try_again() {
        let short = peer::Error::Io(std::io::Error::from_raw_os_error(24));
        let error = refused(&short);
        assert_eq!(error.code.exit_code(), 6, "{error}");
        assert!(error.message.contains("try again"), "{error}");
        let denied = peer::Error::Io(std::io::Error::from_raw_os_error(13));
        assert_eq!(refused(&denied).code, Code::Forbidden);
    }
}
