//! Whether an agent may trust the files that it reads from a repository itself.

use std::path::Path;

use provost_trust::find_top;

use super::{ProjectTrustState, project_trust, store};
use crate::{commit_trust::CommitContent, environment::Environment};

/// Where an agent works, and whether the project's files are ignored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgentWorkplace<'a> {
    pub(crate) cwd: &'a Path,
    /// The files of the commit that the agent's worktree starts from. `None` if it works in a checkout.
    pub(crate) committed: Option<&'a CommitContent>,
    pub(crate) ignores_project: bool,
}

/// Whether the files that an agent itself reads from a repository are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentTrust {
    /// The repository has no such files.
    None,
    /// The user trusts exactly this content, or trusts the directory in the agent's own configuration.
    Trusted(String),
    Untrusted,
}

/// Decides whether an agent may trust a repository. Provost never decides this on its own: the user
/// must trust the content with `provost trust`, or trust the directory in the agent's own
/// configuration, which `user_trusts` reads.
pub(crate) fn agent_trust(
    environment: &Environment,
    place: AgentWorkplace<'_>,
    user_trusts: impl Fn(&Path) -> bool,
) -> AgentTrust {
    let top = find_top(place.cwd).unwrap_or_else(|| place.cwd.to_owned());
    let has_files = match place.committed {
        Some(committed) => !committed.content.codex_part().is_empty(),
        None => provost_trust::has_agent_files(&top, place.cwd),
    };
    if !has_files {
        return AgentTrust::None;
    }
    let digest = match place.committed {
        Some(committed) => Ok(Some(committed.content.codex_part().digest())),
        None => provost_trust::agent_digest(&top, place.cwd),
    };
    let Ok(Some(digest)) = digest else { return AgentTrust::Untrusted };
    let by_store = !place.ignores_project
        && match place.committed {
            Some(committed) => store(environment)
                .is_ok_and(|store| store.includes(&top, &committed.content).unwrap_or(false)),
            None => project_trust(environment, place.cwd)
                .is_some_and(|project| matches!(project.state, ProjectTrustState::Trusted(_))),
        };
    let main = provost_trust::main_top(&top);
    let tops = [Some(top.as_path()), main.as_deref()];
    if by_store || tops.into_iter().flatten().any(user_trusts) {
        AgentTrust::Trusted(digest.to_string())
    } else {
        AgentTrust::Untrusted
    }
}
