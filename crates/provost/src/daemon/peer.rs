//! The permissions of a peer on the daemon's socket. Its origin is determined by [`provost_sys::origin`].

use std::{io, path::Path};

use provost_api::{ApiError, ErrorCode};
use provost_core::{ids::LaunchId, shortage::Shortage};
use provost_engine::shell::{EngineWorld, Home, LiveLaunch, error_chain};
use provost_holder::{LaunchState, ProcessInstance, inspect, launch_dir};
use provost_sys::{
    origin::{ProcessOrigin, is_same_file},
    peer::{self, PinnedPeer, Pinning},
    register::LaunchRegister,
};

/// The identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallerIdentity {
    Operator,
    /// A process below this launch's holder.
    Launch(LaunchId),
    /// A process that has this launch's mark but is not below the launch's holder.
    Detached(LaunchId),
    /// A process of a check, hook or setup command, which may run an agent's code.
    Supervised(String),
    /// A process below this daemon but not below a holder, so it was not started by the operator.
    DaemonChild,
    /// A process that may belong to this launch. Whether it does cannot be proved, because the holder was killed.
    Unproven(String),
}

impl CallerIdentity {
    pub(crate) fn actor(&self) -> String {
        match self {
            CallerIdentity::Operator => "operator".to_owned(),
            CallerIdentity::Launch(launch) | CallerIdentity::Detached(launch) => {
                format!("launch/{launch}")
            }
            CallerIdentity::Unproven(key) => format!("launch/{key}"),
            CallerIdentity::Supervised(key) => format!("held/{key}"),
            CallerIdentity::DaemonChild => "daemon".to_owned(),
        }
    }

    /// Rejects every caller except the operator: agents, and all processes that run for them.
    pub(crate) fn must_be_operator(&self) -> Result<(), ApiError> {
        match self {
            CallerIdentity::Operator => Ok(()),
            CallerIdentity::Launch(launch) | CallerIdentity::Detached(launch) => Err(ApiError::new(
                ErrorCode::Forbidden,
                format!(
                    "an agent can only report about itself; this process belongs to launch {launch}"
                ),
            )
            .next("provost report --help")),
            CallerIdentity::Supervised(key) => Err(ApiError::new(
                ErrorCode::Forbidden,
                format!("a check, hook or setup can only read; this process belongs to {key}"),
            )
            .next("provost status")),
            CallerIdentity::DaemonChild => Err(ApiError::new(
                ErrorCode::Forbidden,
                "a process that the daemon started can only read; run the command from a terminal",
            )
            .next("provost status")),
            CallerIdentity::Unproven(key) => Err(unproven_error(key)),
        }
    }
}

/// Returns the error for a caller that cannot be identified. If the cause is a shortage of a
/// resource, the caller may retry.
pub(crate) fn unidentified_error(why: &(dyn std::error::Error + 'static)) -> ApiError {
    let message = format!("cannot identify the caller: {why}");
    match Shortage::from_text(&error_chain(why)) {
        Some(shortage) => {
            let name = shortage.resource.name();
            let message = format!("{message}; the daemon is short of {name}, try again");
            ApiError::new(ErrorCode::Unreachable, message).next("provost daemon status")
        }
        None => ApiError::new(ErrorCode::Forbidden, message),
    }
}

pub(crate) fn peer_error(why: &peer::Error) -> ApiError {
    match why {
        peer::Error::OtherUser { own, peer } => {
            let message = format!("this is the daemon of user {own}; you are user {peer}");
            ApiError::new(ErrorCode::Forbidden, message)
        }
        peer::Error::Unknown | peer::Error::Ended(_) | peer::Error::Io(_) => {
            unidentified_error(why)
        }
    }
}

/// Returns the origin of this process. It is determined like that of a peer on a socket, but with
/// the register on disk, because no daemon is running.
pub(crate) fn own_origin(home: &Home) -> Result<ProcessOrigin, ApiError> {
    let boundary = home.boundary(Pinning::Best);
    read_register(&boundary.register)
        .map_err(peer::Error::from)
        .and_then(|register| boundary.identify(&PinnedPeer::own()?, &register))
        .map_err(|why| unidentified_error(&why))
}

/// Reads the register. It is replaced atomically, so only a power failure can damage it, and the
/// launches of an earlier boot do not matter.
fn read_register(path: &Path) -> io::Result<LaunchRegister> {
    match LaunchRegister::read(path) {
        Err(why)
            if matches!(why.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            Ok(LaunchRegister::default())
        }
        read => read,
    }
}

/// Checks that this process is permitted to become the daemon. An agent is not, because it would choose the daemon's
/// environment and own the daemon's socket.
pub(crate) fn must_start_as_operator(home: &Home) -> Result<(), ApiError> {
    let (code, why) = match own_origin(home)? {
        ProcessOrigin::Operator => return Ok(()),
        ProcessOrigin::Supervised { dir, .. } => (
            ErrorCode::Forbidden,
            format!(
                "this process belongs to {}, and only the operator is permitted to do this",
                dir.display()
            ),
        ),
        ProcessOrigin::Marked { key } => (
            ErrorCode::Forbidden,
            format!("this process belongs to {key}, and only the operator is permitted to do this"),
        ),
        ProcessOrigin::Unproven { key } => (ErrorCode::Refused, describe_unproven(&key)),
        ProcessOrigin::Daemon | ProcessOrigin::Helper => (
            ErrorCode::Refused,
            "a daemon already started this process, so it may be an agent's".to_owned(),
        ),
    };
    let message = format!(
        "cannot start the daemon: {why}; run the command from a terminal or a login session"
    );
    Err(ApiError::new(code, message).next("provost daemon run"))
}

fn describe_unproven(key: &str) -> String {
    format!(
        "cannot distinguish this process from an agent, because the holder of {key} was killed, \
         and this process is younger than {key} and has no older parent"
    )
}

fn unproven_error(key: &str) -> ApiError {
    let message =
        format!("{}; run the command from a terminal or a login session", describe_unproven(key));
    let error = ApiError::new(ErrorCode::Refused, message);
    match key.parse::<LaunchId>() {
        Ok(launch) => error.next(format!("provost status {}", launch.session)),
        Err(_) => error.next("provost daemon status"),
    }
}

/// The known launches, which are needed to identify a caller by the origin of its process.
pub(crate) struct KnownLaunches<'a> {
    pub(crate) home: &'a Home,
    pub(crate) live: &'a [LiveLaunch],
}

impl KnownLaunches<'_> {
    /// Returns the identity of a process with this origin.
    pub(crate) fn identify(
        &self,
        origin: ProcessOrigin,
    ) -> Result<CallerIdentity, launch_dir::Error> {
        Ok(match origin {
            ProcessOrigin::Operator => CallerIdentity::Operator,
            ProcessOrigin::Daemon | ProcessOrigin::Helper => CallerIdentity::DaemonChild,
            ProcessOrigin::Unproven { key } => CallerIdentity::Unproven(key),
            ProcessOrigin::Marked { key } => marked_peer(key),
            ProcessOrigin::Supervised { dir, holder, outermost: _ } => {
                match self.launch_of_holder(&holder)? {
                    Some(launch) => CallerIdentity::Launch(launch),
                    None => self.detached_peer(&dir),
                }
            }
        })
    }

    /// Returns the launch that this holder belongs to. The ledger or the launch's directory must
    /// confirm it, because a command line can be forged.
    fn launch_of_holder(
        &self,
        holder: &ProcessInstance,
    ) -> Result<Option<LaunchId>, launch_dir::Error> {
        for LiveLaunch { launch, holder: recorded } in self.live {
            let recorded = match recorded {
                Some(recorded) => Some(recorded.clone()),
                None => starting_holder(&self.home.launch(*launch))?,
            };
            if recorded.as_ref() == Some(holder) {
                return Ok(Some(*launch));
            }
        }
        Ok(None)
    }

    fn detached_peer(&self, dir: &Path) -> CallerIdentity {
        let key = dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let key = key.unwrap_or_default();
        let is_launch = dir.parent().is_some_and(|it| is_same_file(it, &self.home.launches()));
        if is_launch { marked_peer(key) } else { CallerIdentity::Supervised(key) }
    }
}

/// Identifies a process that has a mark but no holder. The key in the mark belongs to a launch, or else to a check,
/// hook or setup command.
fn marked_peer(key: String) -> CallerIdentity {
    key.parse().map_or(CallerIdentity::Supervised(key), CallerIdentity::Detached)
}

/// Returns the holder of a launch that is not recorded as running yet. Its agent may call before
/// the ledger contains the record.
fn starting_holder(dir: &Path) -> Result<Option<ProcessInstance>, launch_dir::Error> {
    Ok(match inspect(dir)? {
        LaunchState::Starting { holder, .. } => holder,
        LaunchState::Alive { held } | LaunchState::Ended { held: Some(held), .. } => {
            Some(held.holder)
        }
        LaunchState::HolderDied { holder, .. } => Some(holder),
        LaunchState::Absent
        | LaunchState::Ended { held: None, .. }
        | LaunchState::OtherBoot { .. } => None,
    })
}

/// Checks that the launch and token in a report match the actual caller.
pub(crate) fn verify_reporter(
    peer: &CallerIdentity,
    world: &EngineWorld,
    launch: Option<&str>,
    token: Option<&str>,
) -> Result<Option<LaunchId>, ApiError> {
    let forbidden = |message: &str| Err(ApiError::new(ErrorCode::Forbidden, message));
    let named: Option<LaunchId> = match launch {
        None => None,
        Some(text) => Some(text.parse().map_err(|why: provost_core::ids::ParseIdError| {
            ApiError::new(ErrorCode::BadRequest, why.to_string())
        })?),
    };
    match (peer, named) {
        (CallerIdentity::Launch(own), None) => Ok(Some(*own)),
        (CallerIdentity::Launch(own), Some(named)) if *own == named => Ok(Some(named)),
        (CallerIdentity::Launch(_), Some(_)) => forbidden("a launch can report only for itself"),
        (CallerIdentity::Supervised(_), _) => forbidden("a check, hook or setup cannot report"),
        (CallerIdentity::DaemonChild, _) => {
            forbidden("a process that the daemon started cannot report")
        }
        (CallerIdentity::Detached(own), Some(named)) if *own != named => {
            forbidden("a launch can report only for itself")
        }
        (CallerIdentity::Detached(_), None) => {
            forbidden("a report for a launch needs its token (PROVOST_TOKEN)")
        }
        (CallerIdentity::Unproven(key), None) => Err(unproven_error(key)),
        (CallerIdentity::Operator, None) => Ok(None),
        (
            CallerIdentity::Operator | CallerIdentity::Detached(_) | CallerIdentity::Unproven(_),
            Some(named),
        ) => match token {
            Some(token) if constant_time_eq(token, &world.token(named)) => Ok(Some(named)),
            Some(_) => forbidden("the token does not belong to this launch"),
            None => forbidden("a report for a launch needs its token (PROVOST_TOKEN)"),
        },
    }
}

/// Compares two texts in constant time, so that the timing does not reveal a partial match.
fn constant_time_eq(given: &str, right: &str) -> bool {
    given.len() == right.len()
        && given.bytes().zip(right.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f8_v4_caller_unknown_for_lack_of_fds_may_retry() {
        let short = peer::Error::Io(std::io::Error::from_raw_os_error(24));
        let error = peer_error(&short);
        assert_eq!(error.code.exit_code(), 6, "{error}");
        assert!(error.message.contains("try again"), "{error}");
        let denied = peer::Error::Io(std::io::Error::from_raw_os_error(13));
        assert_eq!(peer_error(&denied).code, ErrorCode::Forbidden);
    }
}
