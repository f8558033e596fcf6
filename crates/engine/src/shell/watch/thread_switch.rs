//! Detects that the user switched to a new conversation on an agent's screen. The new conversation
//! was created after the watch began, and not by Codex for its own purposes.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use provost_agent_codex::processes;
use provost_agent_codex::{
    ThreadId,
    rollout::{CodexHomes, Rollout, read_meta},
};
use provost_core::ids::LaunchId;
use tokio::sync::Notify;

/// How many of the newest conversations in a home to examine.
const NEWEST: usize = 20;

/// Notifies readers when a hook reports that a launch switched to another conversation. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ThreadSwitches(Arc<Mutex<BTreeMap<LaunchId, Arc<Notify>>>>);

impl ThreadSwitches {
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

/// Where to find an agent's conversations.
#[derive(Clone, Debug)]
pub(super) enum ConversationPlace {
    /// A home that only this agent uses.
    Home(PathBuf),
    /// The files that exactly this process writes, in a home that others may use as well.
    Process(processes::PidIdentity),
    Nowhere,
}

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConversationSearch {
    Nothing,
    /// There is a file that does not contain its owner yet.
    Unclear,
    Another(Rollout),
}

/// Searches for a conversation that is not among the known ones. Blocks.
pub(super) fn find_other(
    place: &ConversationPlace,
    since_ms: u64,
    known: &[String],
) -> ConversationSearch {
    let Ok(mut all) = open_rollouts(place) else { return ConversationSearch::Nothing };
    // An older conversation may also belong to the user, but was not started now.
    let new = |thread: &ThreadId| thread.created_at_ms().is_some_and(|made| made >= since_ms);
    all.retain(|one| new(&one.thread) && !known.iter().any(|known| known == one.thread.as_str()));
    all.sort_by_key(|one| one.thread.created_at_ms());
    let mut unclear = false;
    for rollout in all.into_iter().rev() {
        match read_meta(&rollout.path) {
            Ok(Some(meta)) if !meta.hidden && meta.thread == rollout.thread => {
                return ConversationSearch::Another(rollout);
            }
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => unclear = true,
        }
    }
    if unclear { ConversationSearch::Unclear } else { ConversationSearch::Nothing }
}

fn open_rollouts(place: &ConversationPlace) -> io::Result<Vec<Rollout>> {
    match place {
        ConversationPlace::Home(home) => {
            Ok(CodexHomes::new(vec![home.clone()]).newest(NEWEST).rollouts)
        }
        ConversationPlace::Process(identity) => {
            let open = processes::open_rollouts_of(identity.pid)?;
            // The pid may have been reused, so the files count only if it is still the same process.
            Ok(if processes::process_state(identity)?.is_some() { open } else { Vec::new() })
        }
        ConversationPlace::Nowhere => Ok(Vec::new()),
    }
}

/// Finds the file of a conversation.
pub(super) fn find_rollout(
    place: &ConversationPlace,
    file: &Path,
    thread: &ThreadId,
) -> Option<Rollout> {
    let open =
        open_rollouts(place).unwrap_or_default().into_iter().find(|one| one.thread == *thread);
    let stored = || {
        let homes = sessions_directory(file).and_then(Path::parent).map(Path::to_owned);
        CodexHomes::new(homes.into_iter().collect()).find(thread).rollouts.pop()
    };
    open.or_else(stored)
}

/// Returns the directory in which the files of new conversations appear next to this one.
pub(super) fn sessions_directory(file: &Path) -> Option<&Path> {
    let named = file.ancestors().find(|above| above.file_name().is_some_and(|n| n == "sessions"));
    named.or_else(|| file.parent())
}

/// Whether a thread in this home was started by a user.
pub(super) fn is_user_thread(home: PathBuf, thread: &ThreadId) -> bool {
    let newest = CodexHomes::new(vec![home]).find(thread).rollouts.pop();
    let read = newest.and_then(|rollout| read_meta(&rollout.path).ok().flatten());
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
        ThreadId::parse(thread).unwrap().created_at_ms().unwrap()
    }

    fn found(home: &Path, since: &str, known: &[&str]) -> Option<String> {
        let known: Vec<String> = known.iter().map(|one| (*one).to_owned()).collect();
        match find_other(&ConversationPlace::Home(home.to_owned()), made(since), &known) {
            ConversationSearch::Another(rollout) => Some(rollout.thread.to_string()),
            ConversationSearch::Unclear => Some("unclear".to_owned()),
            ConversationSearch::Nothing => None,
        }
    }

    #[test]
    fn t08_user_thread_is_found_and_sub_agent_is_not() {
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
    fn empty_rollout_file_is_unclear() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), SECOND, "-");
        assert_eq!(found(home.path(), FIRST, &[]).as_deref(), Some("unclear"));
    }

    #[test]
    fn sessions_directory_of_a_rollout_file() {
        let file = Path::new("/h/sessions/2026/11/16/rollout.jsonl");
        assert_eq!(sessions_directory(file), Some(Path::new("/h/sessions")));
        assert_eq!(
            sessions_directory(Path::new("/elsewhere/rollout.jsonl")),
            Some(Path::new("/elsewhere"))
        );
    }
}
