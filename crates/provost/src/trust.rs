//! Whether a project's files are trusted, and how to ask the operator to trust them.
//!
//! Every configuration is loaded through `settings`, which uses this module. Values that are not
//! trusted although they need trust are left out, so a command that forgets to ask the operator
//! still runs no programs from the repository. Commands that start something call [`require`]
//! first, which asks the operator if there is a terminal, and otherwise fails.

mod agent;
mod describe;

use std::{
    io::{BufRead as _, IsTerminal as _},
    path::{Path, PathBuf},
};

use provost_api::{ApiError, ErrorCode};
use provost_core::text::shell_quote;
use provost_sys::{agent_file, origin, process};
use provost_trust::{
    ContentPart, OwnershipError, ProjectSnapshot, ReadError, TrustContent, TrustDigest, TrustStore,
    UnsafeProject, check_owner, find_top, read_workflow, snapshot,
};

use crate::{
    commit_trust::{self, CommitContent},
    context::Context,
    daemon,
    environment::Environment,
    error::{chain, usage},
    settings,
    ui::escape_line,
};

pub(crate) use agent::{AgentTrust, AgentWorkplace, agent_trust};
use describe::untrusted_error;
pub(crate) use describe::{describe, describe_effect};

/// The maximum size of a workflow, which is the same as in `serve`.
const MAX_WORKFLOW: u64 = 256 << 10;

/// A project, and whether its files are trusted.
#[derive(Debug)]
pub(crate) struct ProjectTrust {
    pub(crate) top: PathBuf,
    /// The working directory, relative to the top.
    pub(crate) directory: PathBuf,
    pub(crate) state: ProjectTrustState,
}

/// Whether a project's files are trusted.
#[derive(Debug)]
pub(crate) enum ProjectTrustState {
    /// The user trusts exactly this content, or no part of the content needs trust.
    Trusted(ProjectSnapshot),
    Untrusted(ProjectSnapshot),
    /// Another user could have written the files, so they are not read and cannot be trusted.
    Unsafe(ReadError),
}

/// The subject of a trust decision: a project, or a workflow file that is not at a project's top.
#[derive(Debug)]
pub(crate) struct TrustSubject {
    pub(crate) path: PathBuf,
    /// The working directory, relative to the path.
    pub(crate) directory: PathBuf,
    pub(crate) content: TrustContent,
    /// The files of the commit that worktrees start from, if at least one of them differs from the
    /// checkout.
    pub(crate) committed: Option<CommitContent>,
}

impl TrustSubject {
    pub(crate) fn of_checkout(path: PathBuf, directory: PathBuf, content: TrustContent) -> Self {
        TrustSubject { path, directory, content, committed: None }
    }

    /// Returns the digest of everything that needs trust.
    pub(crate) fn digest(&self) -> TrustDigest {
        let digest = self.content.digest();
        match &self.committed {
            None => digest,
            Some(committed) => digest.with(&committed.content.digest()),
        }
    }

    /// Whether nothing needs trust.
    pub(crate) fn is_empty(&self) -> bool {
        self.content.is_empty() && self.committed.is_none()
    }

    /// Returns the argument of `provost trust` that covers these files.
    pub(crate) fn argument(&self) -> String {
        let committed = self.committed.as_ref().map(|committed| &committed.content);
        let is_nested =
            std::iter::once(&self.content).chain(committed).any(TrustContent::is_nested);
        trust_argument(&self.path, &self.directory, is_nested)
    }

    /// Returns the files in the commit that differ from those in the checkout.
    fn committed_parts(&self) -> impl Iterator<Item = (&str, &ContentPart)> {
        self.committed.iter().flat_map(|committed| {
            let differs = |part: &&ContentPart| !self.content.parts.contains(part);
            let parts = committed.content.parts.iter().filter(differs);
            parts.map(|part| (committed.commit.as_str(), part))
        })
    }
}

/// Whether a command may prompt the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustPrompt {
    AtTerminal,
    Never,
}

/// Opens the user's trust store.
pub(crate) fn store(environment: &Environment) -> Result<TrustStore, ApiError> {
    let config = environment.path("XDG_CONFIG_HOME");
    let config = config.or_else(|| Some(environment.path("HOME")?.join(".config")));
    let config = config.ok_or_else(|| {
        usage("cannot find the trust store: neither XDG_CONFIG_HOME nor HOME is set")
            .next("export HOME=DIRECTORY")
    })?;
    Ok(TrustStore::open(&config.join("provost")))
}

/// Checks the project that contains a directory, without running anything or asking the user.
pub(crate) fn project_trust(environment: &Environment, cwd: &Path) -> Option<ProjectTrust> {
    let top = find_top(cwd)?;
    let directory = relative(cwd, &top);
    let state = match snapshot(&top, cwd) {
        Err(why) => ProjectTrustState::Unsafe(why),
        Ok(snapshot) => {
            let content = &snapshot.content;
            let trusted = content.is_empty()
                || store(environment).is_ok_and(|store| {
                    store.is_trusted(&top, &directory, content).unwrap_or(false)
                });
            if trusted {
                ProjectTrustState::Trusted(snapshot)
            } else {
                ProjectTrustState::Untrusted(snapshot)
            }
        }
    };
    Some(ProjectTrust { top, directory, state })
}

fn relative(cwd: &Path, top: &Path) -> PathBuf {
    cwd.strip_prefix(top).unwrap_or(Path::new("")).to_owned()
}

/// Returns the argument of `provost trust`: the working directory if it has its own files that need
/// trust, otherwise the top of the project.
fn trust_argument(top: &Path, directory: &Path, is_nested: bool) -> String {
    let path = if is_nested { top.join(directory) } else { top.to_owned() };
    shell_quote(&path.display().to_string())
}

/// Requires that a project's files be trusted before a command starts something in a directory. If
/// they are not trusted yet, asks the operator.
pub(crate) fn require(context: &Context, cwd: &Path, asking: TrustPrompt) -> Result<(), ApiError> {
    match project_trust(&context.environment, cwd) {
        None => Ok(()),
        Some(project) => require_project(context, project, asking),
    }
}

/// Checks a project that has already been read, in the same way as [`require`].
pub(crate) fn require_project(
    context: &Context,
    project: ProjectTrust,
    asking: TrustPrompt,
) -> Result<(), ApiError> {
    match project.state {
        ProjectTrustState::Trusted(_) => Ok(()),
        ProjectTrustState::Unsafe(why) => Err(unsafe_project_error(&project.top, &why)),
        ProjectTrustState::Untrusted(snapshot) => {
            let ProjectTrust { top, directory, .. } = project;
            let subject = TrustSubject::of_checkout(top, directory, snapshot.content);
            ask_or_refuse(context, &subject, asking)
        }
    }
}

/// Checks that a workflow may be used: the user must trust all parts that need trust.
pub(crate) fn require_workflow(
    context: &Context,
    path: &Path,
    text: &str,
    asking: TrustPrompt,
) -> Result<(), ApiError> {
    let subject = workflow_subject(path, text)?;
    if is_trusted(&context.environment, &subject)? {
        return Ok(());
    }
    ask_or_refuse(context, &subject, asking)
}

/// Returns what `provost trust PATH` applies to: a workflow file, or the files in the checkout and
/// in the commit that worktrees start from.
pub(crate) fn trust_subject(context: &Context, path: &Path) -> Result<TrustSubject, ApiError> {
    let path = std::fs::canonicalize(path)
        .map_err(|why| usage(format!("cannot open {}: {why}", path.display())))?;
    if path.is_file() {
        let text = agent_file::read_text(&path, MAX_WORKFLOW)
            .map_err(|why| usage(format!("cannot read {why}")))?;
        return workflow_subject(&path, &text);
    }
    let Some(project) = project_trust(&context.environment, &path) else {
        let message =
            format!("{} is not in a git repository, so there is nothing to trust", path.display());
        return Err(ApiError::new(ErrorCode::NotFound, message).next("git init"));
    };
    match project.state {
        ProjectTrustState::Trusted(snapshot) | ProjectTrustState::Untrusted(snapshot) => {
            check_config(context, &project.top, &snapshot)?;
            let committed = commit_trust::read_head(context, &path)?;
            let committed =
                committed.filter(|committed| !snapshot.content.includes(&committed.content));
            let ProjectTrust { top, directory, .. } = project;
            Ok(TrustSubject { path: top, directory, content: snapshot.content, committed })
        }
        ProjectTrustState::Unsafe(why) => Err(unsafe_project_error(&project.top, &why)),
    }
}

/// Rejects a project whose `provost.toml` has errors, because the user would have to trust the
/// project again after each correction.
fn check_config(context: &Context, top: &Path, snapshot: &ProjectSnapshot) -> Result<(), ApiError> {
    let problems = settings::project_problems(&context.environment, top, snapshot);
    let Some(why) = problems else { return Ok(()) };
    let shown = escape_line(&top.display().to_string());
    let message = format!("cannot trust {shown}: {why}\ncorrect the file, then trust it");
    let argument = shell_quote(&top.display().to_string());
    Err(usage(message).next(format!("provost trust {argument}")))
}

/// Returns the trust subject for a workflow file. A workflow at a project's top is part of the
/// project. Fails if the file no longer contains `text`, because exactly the text that is used must
/// be checked.
fn workflow_subject(path: &Path, text: &str) -> Result<TrustSubject, ApiError> {
    let directory = path.parent().unwrap_or(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read = read_workflow(path).map_err(|why| unsafe_project_error(directory, &why))?;
    let followed = TrustContent::from_workflow(&name, text.as_bytes());
    if read != followed {
        let message = format!("{} changed while it was being read; try again", path.display());
        return Err(ApiError::new(ErrorCode::Refused, message));
    }
    let top = find_top(directory).filter(|top| top.join("WORKFLOW.md") == path);
    let Some(top) = top else {
        return Ok(TrustSubject::of_checkout(path.to_owned(), PathBuf::new(), followed));
    };
    let snapshot = snapshot(&top, &top).map_err(|why| unsafe_project_error(&top, &why))?;
    Ok(TrustSubject::of_checkout(top, PathBuf::new(), snapshot.content))
}

/// Returns an error if the caller is an agent or one of its processes. A process that descends from
/// a holder belongs to an agent. If the daemon is running, it also identifies processes that have
/// left their holder.
pub(crate) fn must_be_operator(context: &Context) -> Result<(), ApiError> {
    let family = process::family(std::process::id()).map_err(|why| {
        ApiError::new(ErrorCode::Forbidden, format!("cannot identify this process: {why}"))
    })?;
    let is_held = |pid| origin::holder_directory(pid).is_some() || origin::mark(pid).is_some();
    if family.iter().any(|one| is_held(one.pid)) {
        let message = "only the operator is permitted to trust a project; this process belongs to an agent, or to a check, hook or setup";
        return Err(ApiError::new(ErrorCode::Forbidden, message).next("provost report --help"));
    }
    let home = context.home()?;
    match daemon::connect_only(&home).and_then(|client| daemon::must_be_operator(&client)) {
        Err(error) if error.code != ErrorCode::Unreachable => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether the operator trusts everything that needs trust.
pub(crate) fn is_trusted(
    environment: &Environment,
    subject: &TrustSubject,
) -> Result<bool, ApiError> {
    if subject.is_empty() {
        return Ok(true);
    }
    let store = store(environment)?;
    let TrustSubject { path, directory, content, committed } = subject;
    Ok(store.is_trusted(path, directory, content).map_err(store_error)?
        && match committed {
            None => true,
            Some(committed) => store.includes(path, &committed.content).map_err(store_error)?,
        })
}

/// Records that the operator trusts the content, including that of the commit.
pub(crate) fn record(environment: &Environment, subject: &TrustSubject) -> Result<(), ApiError> {
    let store = store(environment)?;
    let committed = subject.committed.as_ref().map(|committed| &committed.content);
    // The content of the checkout is recorded last, because later changes are compared with the
    // most recent record.
    for content in committed.into_iter().chain([&subject.content]) {
        if !content.is_empty() {
            store.trust(&subject.path, content).map_err(store_error)?;
        }
    }
    Ok(())
}

pub(crate) fn store_error(why: provost_trust::StoreError) -> ApiError {
    chain(ErrorCode::Refused, "cannot use the trust store", &why)
        .next("ls -ld ~/.config/provost/trust")
}

/// Asks the operator on the terminal. Without a terminal, returns an error that suggests the
/// command to run.
pub(crate) fn ask_or_refuse(
    context: &Context,
    subject: &TrustSubject,
    asking: TrustPrompt,
) -> Result<(), ApiError> {
    let refused = || untrusted_error(&context.environment, subject);
    if asking == TrustPrompt::Never || !can_ask(context) {
        return Err(refused());
    }
    must_be_operator(context)?;
    if !ask(context, subject)? {
        return Err(refused());
    }
    record(&context.environment, subject)
}

/// Whether it is possible to ask the user.
pub(crate) fn can_ask(context: &Context) -> bool {
    !context.ui.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Shows the content that needs trust, and asks for confirmation.
pub(crate) fn ask(context: &Context, subject: &TrustSubject) -> Result<bool, ApiError> {
    let shown = |path: &Path| escape_line(&path.display().to_string());
    context.ui.notice(&format!(
        "These files of {} run programs or widen permissions:",
        shown(&subject.path)
    ));
    for line in describe(subject, &last_trusted(&context.environment, subject)) {
        context.ui.notice(&line);
    }
    context.ui.notice("Trust exactly this? [y/N]");
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|why| usage(format!("cannot read the answer: {why}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Returns the content that was most recently trusted.
pub(crate) fn last_trusted(environment: &Environment, subject: &TrustSubject) -> TrustContent {
    let last =
        store(environment).ok().and_then(|store| store.last_agreed(&subject.path).ok().flatten());
    last.unwrap_or_default().down_to(&subject.directory)
}

/// Returns the error for starting something in a project that other users could have written to.
fn unsafe_project_error(top: &Path, why: &ReadError) -> ApiError {
    let top = escape_line(&top.display().to_string());
    let message =
        format!("{}, so the files of {top} cannot be trusted", escape_line(&why.to_string()));
    let error = ApiError::new(ErrorCode::Refused, message);
    why.fix().into_iter().fold(error, |error, fix| error.next(fix))
}

/// Why files in a project are ignored.
#[derive(Debug)]
pub(crate) struct TrustWarning {
    pub(crate) problem: String,
    /// The command that resolves the problem, if there is one.
    pub(crate) command: Option<String>,
}

impl TrustWarning {
    /// Returns the problem and the command as a single sentence.
    pub(crate) fn sentence(&self) -> String {
        match &self.command {
            Some(command) => format!("{}: `{command}`", self.problem),
            None => self.problem.clone(),
        }
    }
}

/// Returns a warning if files in a project are ignored.
pub(crate) fn warning(environment: &Environment, cwd: &Path) -> Option<TrustWarning> {
    let project = project_trust(environment, cwd)?;
    match project.state {
        ProjectTrustState::Trusted(_) => None,
        ProjectTrustState::Unsafe(why) => Some(TrustWarning {
            problem: format!("{why}, so the files in {} cannot be trusted", project.top.display()),
            command: why.fix(),
        }),
        ProjectTrustState::Untrusted(snapshot) => {
            let files: Vec<&str> =
                snapshot.content.parts.iter().map(|part| part.file.as_str()).collect();
            let is_nested = snapshot.content.is_nested();
            let argument = trust_argument(&project.top, &project.directory, is_nested);
            let problem = format!(
                "not trusted yet: {} of {}; values that run programs or widen permissions are ignored, and nothing is started here until you trust them",
                files.join(", "),
                project.top.display(),
            );
            Some(TrustWarning { problem, command: Some(format!("provost trust {argument}")) })
        }
    }
}

/// Whether a directory belongs to another user, according to Provost's own check.
pub(crate) fn is_foreign(top: &Path) -> bool {
    matches!(check_owner(top), Err(UnsafeProject::Unowned(OwnershipError::OtherUser { .. })))
}
