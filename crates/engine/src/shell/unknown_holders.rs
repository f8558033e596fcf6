//! Processes that Provost started but that are unknown to the ledger, because their events were
//! lost.
//!
//! A launch, check or hook is recorded before its holder starts, so a directory whose owner or
//! launch is missing from the ledger belongs to lost events. Provost does not resume these
//! processes. It lists them, and stops them if the operator asks for that.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use provost_api::{ApiError, ErrorCode, Hint, UnknownHolder};
use provost_core::{
    ids::{LaunchId, SessionId},
    session::Session,
};
use provost_holder::{HeldRecord, LaunchState, ProcessInstance, inspect, tree, wire::HolderOp};
use provost_ledger::{Error, ReadLedger, SqliteReader, StreamId};
use provost_sys::register::RegisteredLaunch;

use super::{
    home::Home,
    start_record::{RANDOM_SEPARATOR, random_hex},
    supervised_command::{self, HolderConnection, Holders},
};
use crate::stream;

/// How long a command has between TERM and KILL.
const GRACE_MS: u64 = 2_000;

/// How long a holder may take to end its command.
const ENDING: Duration = Duration::from_secs(15);

/// The subject of a holder, from the name of its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HolderDirName {
    Launch(LaunchId),
    /// A check, hook or setup, with the UUID of its session, run or team, and the effect's key.
    Effect {
        owner: SessionId,
        key: String,
    },
}

impl HolderDirName {
    /// Parses a name. `None` for directories that belong to no session, run or team.
    fn parse(name: &str) -> Option<HolderDirName> {
        if let Ok(launch) = name.parse() {
            return Some(HolderDirName::Launch(launch));
        }
        let name = name.split(RANDOM_SEPARATOR).next().unwrap_or(name);
        let (owner, key) = name.split_once('.')?;
        Some(HolderDirName::Effect { owner: owner.parse().ok()?, key: key.to_owned() })
    }

    fn owner(&self) -> SessionId {
        match self {
            HolderDirName::Launch(launch) => launch.session,
            HolderDirName::Effect { owner, .. } => *owner,
        }
    }

    fn directory(&self, home: &Home, name: &str) -> PathBuf {
        match self {
            HolderDirName::Launch(_) => home.launches().join(name),
            HolderDirName::Effect { .. } => home.checks().join(name),
        }
    }
}

/// Whether the ledger contains the owner of a holder's directory and, in the case of a launch, the
/// launch itself.
fn is_known(ledger: &dyn ReadLedger, name: &str) -> Result<bool, Error> {
    match HolderDirName::parse(name) {
        None => Ok(true),
        Some(HolderDirName::Launch(launch)) => has_launch(ledger, launch),
        Some(HolderDirName::Effect { owner, .. }) => Ok(owner_stream(ledger, owner)?.is_some()),
    }
}

fn has_launch(ledger: &dyn ReadLedger, launch: LaunchId) -> Result<bool, Error> {
    let id = stream::stream_id(launch.session);
    if ledger.stream(&id)?.is_none() {
        return Ok(false);
    }
    let records = ledger.read_stream(&id, 0)?;
    Ok(match stream::fold::<Session>(&id, None, &records) {
        Ok(session) => session.launches.iter().any(|own| own.id == launch),
        // A session that cannot be folded is damaged, but not lost.
        Err(_) => true,
    })
}

/// Returns the stream of the session, run or team with this UUID.
fn owner_stream(ledger: &dyn ReadLedger, owner: SessionId) -> Result<Option<StreamId>, Error> {
    for kind in [stream::SESSION, stream::RUN, stream::TEAM] {
        let id = StreamId::new(format!("{kind}/{owner}")).ok();
        if let Some(id) = id
            && ledger.stream(&id)?.is_some()
        {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Returns the owner of a holder's directory, and its launch if it has one.
pub(super) fn owner_of(name: &str) -> Option<(SessionId, Option<LaunchId>)> {
    HolderDirName::parse(name).map(|key| match key {
        HolderDirName::Launch(launch) => (launch.session, Some(launch)),
        HolderDirName::Effect { owner, .. } => (owner, None),
    })
}

/// Returns the registered holders that are running but unknown to the ledger.
pub fn living_unknown(
    home: &Home,
    ledger: &SqliteReader,
    registered: &[RegisteredLaunch],
) -> Result<Vec<UnknownHolder>, Error> {
    let mut found = Vec::new();
    for launched in registered {
        let name = &launched.key;
        let lives = |holder: &ProcessInstance| holder.is_alive().unwrap_or(false);
        let Some(key) = HolderDirName::parse(name) else { continue };
        if launched.holder.as_ref().is_some_and(lives) && !is_known(ledger, name)? {
            let mut holder = describe_holder(name, &key, &key.directory(home, name));
            holder.owner_known = owner_stream(ledger, key.owner())?.is_some();
            found.push(holder);
        }
    }
    Ok(found)
}

/// Returns every launch, check and hook in the home that has running processes. Used if the ledger
/// cannot be read.
pub fn living(home: &Home) -> Vec<UnknownHolder> {
    let mut found = Vec::new();
    for parent in [home.launches(), home.checks()] {
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Some(key) = HolderDirName::parse(&name) else { continue };
            found.push(describe_holder(&name, &key, &entry.path()));
        }
    }
    found.retain(|holder| holder.alive);
    found.sort_by(|one, other| one.key.cmp(&other.key));
    found
}

/// Adds to an error about a damaged ledger how many processes are still running, and the command
/// that stops them.
pub fn name_living(home: &Home, mut error: ApiError) -> ApiError {
    let count = living(home).len();
    if count == 0 {
        return error;
    }
    let processes = if count == 1 { "1 process is" } else { &format!("{count} processes are") };
    error.message = format!("{}; {processes} still running", error.message);
    error.next.insert(0, Hint::StopUnknown);
    error
}

/// Reads all directories of holders. Returns those that are unknown to the ledger, with the running
/// ones first.
///
/// If the ledger lost its end, effects of known sessions that began after the last event are
/// included as well, unless they are still pending, because they belong to the lost events.
pub fn survey(home: &Home, ledger: &SqliteReader) -> Result<Vec<UnknownHolder>, Error> {
    let last = match ledger.loss() {
        Some(_) => ledger.newest_record()?.map(|record| record.at.wall_ms),
        None => None,
    };
    let mut found = Vec::new();
    for parent in [home.launches(), home.checks()] {
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Some(key) = HolderDirName::parse(&name) else { continue };
            let mut holder = describe_holder(&name, &key, &entry.path());
            let known = is_known(ledger, &name)?;
            if known && !last.is_some_and(|last| began_after(ledger, &key, &holder, last)) {
                continue;
            }
            holder.owner_known = owner_stream(ledger, key.owner())?.is_some();
            found.push(holder);
        }
    }
    found.sort_by(|one, other| (other.alive, &one.key).cmp(&(one.alive, &other.key)));
    Ok(found)
}

/// Whether an effect was started after a given time and is not pending.
fn began_after(
    ledger: &SqliteReader,
    key: &HolderDirName,
    holder: &UnknownHolder,
    last: i64,
) -> bool {
    let HolderDirName::Effect { owner, key } = key else { return false };
    let is_pending = owner_stream(ledger, *owner)
        .ok()
        .flatten()
        .and_then(|id| ledger.stream(&id).ok().flatten())
        .is_some_and(|state| state.pending.iter().any(|pending| pending.key == *key));
    !is_pending && holder.started_at.is_some_and(|at| at > last)
}

fn describe_holder(name: &str, key: &HolderDirName, dir: &Path) -> UnknownHolder {
    let looked = inspect(dir);
    let (held, alive) = match &looked {
        Ok(LaunchState::Alive { held }) => (Some(held), true),
        Ok(LaunchState::Ended { held, gone, .. }) => {
            (held.as_ref(), gone.is_none() && holder_lives(held))
        }
        Ok(LaunchState::HolderDied { held, .. }) => (held.as_ref(), has_survivors(name)),
        Ok(LaunchState::Starting { holder, .. }) => {
            (None, holder.as_ref().is_some_and(|holder| holder.is_alive().unwrap_or(true)))
        }
        Ok(LaunchState::OtherBoot { held, .. }) => (held.as_ref(), false),
        Ok(LaunchState::Absent) => (None, has_survivors(name)),
        // If the directory cannot be read, processes may still be running.
        Err(_) => (None, has_survivors(name)),
    };
    UnknownHolder {
        key: name.to_owned(),
        owner: key.owner().to_string(),
        owner_known: false,
        alive,
        pid: held.map(|held| held.child.pid),
        command: held.map(|held| held.argv.join(" ")).unwrap_or_default(),
        directory: held.map(|held| held.cwd.display().to_string()).unwrap_or_default(),
        started_at: held.and_then(|held| i64::try_from(held.started_wall_ms).ok()),
    }
}

fn holder_lives(held: &Option<HeldRecord>) -> bool {
    held.as_ref().is_some_and(|held| held.holder.is_alive().unwrap_or(false))
}

fn has_survivors(name: &str) -> bool {
    tree::survivors(name).is_ok_and(|left| !left.is_empty())
}

/// Ends a launch, check or hook that is unknown to the ledger. Returns when none of its processes is left.
pub async fn stop(home: &Home, holders: &Holders, holder: &UnknownHolder) -> Result<(), ApiError> {
    let failed = |why: String| {
        ApiError::new(ErrorCode::Failed, format!("{} cannot be stopped: {why}", holder.key))
            .next(Hint::StopUnknown)
    };
    let key =
        HolderDirName::parse(&holder.key).ok_or_else(|| failed("it has no owner".to_owned()))?;
    let dir = key.directory(home, &holder.key);
    ask_to_end(holders, &dir).await;
    let traces = holders.traces(&dir);
    let ended =
        supervised_command::end_all_processes(&traces, supervised_command::SURVIVOR_GRACE).await;
    ended.map(drop).map_err(|why| failed(why.to_string()))
}

/// Asks the holder to end its command itself, so that this appears in its records. If the holder
/// does not, it is ended together with the command.
async fn ask_to_end(holders: &Holders, dir: &Path) {
    let Ok(mut link) = HolderConnection::follow(dir).await else { return };
    if link.send(HolderOp::Stop { grace_ms: GRACE_MS }).await.is_ok()
        && tokio::time::timeout(ENDING, link.wait_gone()).await.is_ok()
    {
        holders.record_end(&link);
        holders.reap();
    }
}

/// Moves aside the directory and the start record of a finished launch, check or hook that is
/// unknown to the ledger, so that a new one with the same name does not use its result. Returns the
/// new location.
pub fn set_aside(home: &Home, holder: &UnknownHolder) -> io::Result<PathBuf> {
    let Some(key) = HolderDirName::parse(&holder.key) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let lost = home.lost();
    provost_sys::private::make_private_dir(&lost).map_err(io::Error::other)?;
    let to = free_name(&lost, &holder.key)?;
    fs::rename(key.directory(home, &holder.key), &to)?;
    let name = holder.key.split(RANDOM_SEPARATOR).next().unwrap_or(&holder.key);
    match fs::rename(home.start(name), to.join("start.json")) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        Ok(()) | Err(_) => Ok(to),
    }
}

fn free_name(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let plain = parent.join(name);
    if plain.symlink_metadata().is_err() {
        return Ok(plain);
    }
    Ok(parent.join(format!("{name}-{}", &random_hex()?[..8])))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "0199aa11-0000-7000-8000-0000deadbeef";

    #[test]
    fn directory_name_has_owner_and_effect() {
        let owner: SessionId = SESSION.parse().unwrap();
        let launch: LaunchId = format!("{SESSION}.l2").parse().unwrap();
        assert_eq!(
            HolderDirName::parse(&format!("{SESSION}.l2")),
            Some(HolderDirName::Launch(launch))
        );
        let effect = HolderDirName::Effect { owner, key: "c1-1-0".to_owned() };
        assert_eq!(HolderDirName::parse(&format!("{SESSION}.c1-1-0~0a1b")), Some(effect.clone()));
        assert_eq!(owner_of(&format!("{SESSION}.c1-1-0~0a1b")), Some((owner, None)));
        let home = Home::new("/pv");
        let dir = effect.directory(&home, "name");
        assert_eq!(dir, Path::new("/pv/checks/name"));
        // The command of a verifier belongs to no session.
        assert_eq!(HolderDirName::parse("verify-0199aa11"), None);
    }
}
