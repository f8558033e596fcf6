//! Detects that the user switched to a new conversation on an agent's screen: one that was created
//! since the agent is watched, and not by Codex for itself.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use provost_core::ids::LaunchId;
use provost_watch::{
    ThreadId, process,
    rollout::{Places, Rollout, meta},
};
use tokio::sync::Notify;

/// How many of the newest conversations of a home are examined.
const NEWEST: usize = 20;

/// Notifies when a hook reports that a launch moved to another conversation. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Moves(Arc<Mutex<BTreeMap<LaunchId, Arc<Notify>>>>);

impl Moves {
    pub(super) fn bell(&self, launch: LaunchId) -> Arc<Notify> {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bells.entry(launch).or_default().clone()
    }

    /// Wakes the reader of a launch's transcript, if there is one.
    pub(super) fn ring(&self, launch: LaunchId) {
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(&launch) {
            bell.notify_one();
        }
    }

    pub(crate) fn forget(&self, launch: LaunchId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&launch);
    }
}

/// Where conversations of an agent are.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A home that only this agent uses.
    Home(PathBuf),
    /// The files that this very process writes, in a home that others may use too.
    Process(process::Identity),
    Nowhere,
}

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// There is a file that does not name its owner yet.
    Unclear,
    Another(Rollout),
}

/// Looks for a conversation other than these. Blocks.
pub(super) fn look(place: &Place, since_ms: u64, known: &[String]) -> Found {
    let Ok(mut all) = written(place) else { return Found::Nothing };
    // An older conversation may be the user's too, but was not started now.
    let new = |thread: &ThreadId| thread.made_at_ms().is_some_and(|made| made >= since_ms);
    all.retain(|one| new(&one.thread) && !known.iter().any(|known| known == one.thread.as_str()));
    all.sort_by_key(|one| one.thread.made_at_ms());
    let mut unclear = false;
    for rollout in all.into_iter().rev() {
        match meta(&rollout.path) {
            Ok(Some(meta)) if !meta.hidden && meta.thread == rollout.thread => {
                return Found::Another(rollout);
            }
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => unclear = true,
        }
    }
    if unclear { Found::Unclear } else { Found::Nothing }
}

fn written(place: &Place) -> io::Result<Vec<Rollout>> {
    match place {
        Place::Home(home) => Ok(Places::new(vec![home.clone()]).newest(NEWEST).rollouts),
        Place::Process(identity) => {
            let open = process::written(identity.pid)?;
            // Only now it is certain that these were its own: the pid may have been reused.
            Ok(if process::state(identity)?.is_some() { open } else { Vec::new() })
        }
        Place::Nowhere => Ok(Vec::new()),
    }
}

/// Finds the file of a conversation.
pub(super) fn find(place: &Place, file: &Path, thread: &ThreadId) -> Option<Rollout> {
    let open = written(place).unwrap_or_default().into_iter().find(|one| one.thread == *thread);
    let stored = || {
        let homes = sessions_of(file).and_then(Path::parent).map(Path::to_owned);
        Places::new(homes.into_iter().collect()).find(thread).rollouts.pop()
    };
    open.or_else(stored)
}

/// Returns the directory below which the files of new conversations appear beside this one.
pub(super) fn sessions_of(file: &Path) -> Option<&Path> {
    let named = file.ancestors().find(|above| above.file_name().is_some_and(|n| n == "sessions"));
    named.or_else(|| file.parent())
}

/// Whether a thread in this home was started by a user.
pub(super) fn is_of_people(home: PathBuf, thread: &ThreadId) -> bool {
    let newest = Places::new(vec![home]).find(thread).rollouts.pop();
    let read = newest.and_then(|rollout| meta(&rollout.path).ok().flatten());
    read.is_some_and(|meta| !meta.hidden && meta.thread == *thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that contain their creation time, in ascending order.
    const FIRST: &str = "01a1e08b-614a-7c61-a49a-d6ec86726bf8";
    const SECOND: &str = "01a1e08c-614a-7c61-a49a-d6ec86726bf8";
    const THIRD: &str = "01a1e08d-614a-7c61-a49a-d6ec86726bf8";

    fn write(home: &Path, thread: &str, more: &str) {
        let directory = home.join("sessions/2026/11/16");
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("rollout-2026-11-16T10-00-00-{thread}.jsonl"));
        let meta = format!(r#"{{"id":"{thread}","source":"cli"{more}}}"#);
        let line = format!(r#"{{"timestamp":"T","type":"session_meta","payload":{meta}}}"#);
        std::fs::write(path, if more == "-" { String::new() } else { line + "\n" }).unwrap();
    }

    fn made(thread: &str) -> u64 {
        ThreadId::parse(thread).unwrap().made_at_ms().unwrap()
    }

    fn found(home: &Path, since: &str, known: &[&str]) -> Option<String> {
        let known: Vec<String> = known.iter().map(|one| (*one).to_owned()).collect();
        match look(&Place::Home(home.to_owned()), made(since), &known) {
            Found::Another(rollout) => Some(rollout.thread.to_string()),
            Found::Unclear => Some("unclear".to_owned()),
            Found::Nothing => None,
        }
    }

    #[test]
    fn t08_a_conversation_of_people_is_found_and_one_of_a_sub_agent_is_not() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), FIRST, "");
        assert_eq!(found(home.path(), FIRST, &[FIRST]), None);
        write(home.path(), THIRD, r#","thread_source":"subagent""#);
        assert_eq!(found(home.path(), FIRST, &[FIRST]), None);
        write(home.path(), THIRD, &format!(r#","parent_thread_id":"{FIRST}""#));
        assert_eq!(found(home.path(), FIRST, &[FIRST]), None);
        write(home.path(), SECOND, r#","thread_source":"user""#);
        assert_eq!(found(home.path(), FIRST, &[FIRST]).as_deref(), Some(SECOND));
        assert_eq!(found(home.path(), FIRST, &[FIRST, SECOND]), None, "it was left");
        assert_eq!(found(home.path(), THIRD, &[]), None, "it was there before");
    }

    #[test]
    fn a_file_that_says_nothing_yet_is_looked_at_again() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), SECOND, "-");
        assert_eq!(found(home.path(), FIRST, &[]).as_deref(), Some("unclear"));
    }

    #[test]
    fn new_files_appear_beside_the_old_one() {
        let file = Path::new("/h/sessions/2026/11/16/rollout.jsonl");
        assert_eq!(sessions_of(file), Some(Path::new("/h/sessions")));
        assert_eq!(
            sessions_of(Path::new("/elsewhere/rollout.jsonl")),
            Some(Path::new("/elsewhere"))
        );
    }
}
