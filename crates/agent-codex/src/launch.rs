//! Prepares everything that a Codex launch needs besides its command: its own home, a socket, and a
//! temporary directory.

use std::{
    fs, io,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};

use provost_agent::{
    launch::{DROP_VARIABLE, HOOK_COMMAND, LaunchInput, LaunchPlan, LaunchRequest, TOOLS_COMMAND},
    mcp,
};
use provost_core::session::{AgentMode, AgentSettings, Approvals, Sandbox, Session};
use provost_sys::origin::MARK;

use crate::{
    home::{self, PreparedHome, RepositoryTrust, SCRUBBED_VARIABLES, SessionHome, ToolServer},
    hooks,
    protocol::{CodexVersion, LISTENS},
};

/// The environment variables that the tool server needs. Codex passes on only the variables that
/// are listed, and the token is never written to a file.
const TOOLS_VARIABLES: [&str; 4] = ["PROVOST_HOME", MARK, "PROVOST_TOKEN", DROP_VARIABLE];

/// Returns the home of a session's Codex. The argument is the directory that belongs to the agent.
pub fn codex_home(dir: &Path) -> PathBuf {
    dir.join("codex")
}

/// Returns the variables that every Codex process of a session receives: its own home and temporary
/// directory.
pub fn session_environment(dir: &Path) -> [(&'static str, PathBuf); 2] {
    [("CODEX_HOME", codex_home(dir)), ("TMPDIR", dir.join("tmp"))]
}

/// Prepares the home and the directories of a session, and returns what a launch needs.
pub(crate) fn plan(request: &LaunchRequest<'_>) -> Result<LaunchPlan, String> {
    let session = request.session;
    let temporary = request.dir.join("tmp");
    for directory in [temporary.as_path(), request.drop_box] {
        private_directory(directory)
            .map_err(|why| format!("cannot create {}: {why}", directory.display()))?;
    }
    let prepared = prepare_home(request)?;
    let mut variables = vec![
        ("TMPDIR".to_owned(), temporary),
        (DROP_VARIABLE.to_owned(), request.drop_box.to_owned()),
    ];
    let own = prepared.environment();
    variables.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let (arguments, input) = match session.spec.agent.interface.mode {
        // Every user on the machine can read arguments, so pass the text on standard input.
        AgentMode::Once => {
            (exec_arguments(session), LaunchInput::Text(session.one_shot_text().to_owned()))
        }
        AgentMode::Terminal => (terminal_arguments(request), LaunchInput::Usual),
        AgentMode::Headless => app_server_arguments(request),
    };
    let removed_variables = SCRUBBED_VARIABLES.to_vec();
    Ok(LaunchPlan { arguments, removed_variables, variables, input })
}

/// Removes the files that a killed app-server left behind: the link, the link's target (a socket),
/// and the lock of the socket.
///
/// The agent can point the link anywhere, so a socket is removed only if it belongs to this user
/// and no process serves it, and a lock next to it is removed only if it is empty.
pub(crate) fn remove_socket(link: &Path) {
    let Ok(real) = fs::read_link(link) else { return };
    fs::remove_file(link).ok();
    let own = |path: &Path, is: fn(&fs::Metadata) -> bool| {
        fs::symlink_metadata(path).is_ok_and(|found| found.uid() == own_uid() && is(&found))
    };
    let is_dead = own(&real, |found| found.file_type().is_socket())
        && UnixStream::connect(&real)
            .is_err_and(|why| why.kind() == io::ErrorKind::ConnectionRefused);
    if is_dead {
        let lock = real.with_extension("lock");
        fs::remove_file(&real).ok();
        if own(&lock, |found| found.is_file() && found.len() == 0) {
            fs::remove_file(lock).ok();
        }
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn prepare_home(request: &LaunchRequest<'_>) -> Result<PreparedHome, String> {
    let profile = &request.session.spec.agent.profile;
    let wanted = SessionHome {
        dir: codex_home(request.dir),
        codex_home: profile.agent_home.as_ref().map(PathBuf::from),
        user_home: PathBuf::from(&profile.user_home),
        trust: worktree_trust(request),
        worktree: request.files.worktree.clone(),
        root: request.files.root.clone(),
        skill_roots: profile.skills.iter().map(PathBuf::from).collect(),
        tools: tool_server(request.session, request.program),
        settings: Default::default(),
    };
    home::prepare(&wanted).map_err(|why| {
        format!("cannot prepare a home for Codex: {}", provost_sys::error_chain(&why))
    })
}

/// Decides whether Codex should trust a worktree. If the worktree contains a `.codex` directory, it
/// is trusted only while its content is exactly what the user trusts. The content is compared
/// before each launch, because an agent may have changed it. A worktree without `.codex` contains
/// nothing that Codex would run because of the trust, and without trust Codex would ignore its
/// `AGENTS.md`.
fn worktree_trust(request: &LaunchRequest<'_>) -> RepositoryTrust {
    let agent = &request.session.spec.agent;
    if request.files.trusted || agent.settings.accept_trust {
        return RepositoryTrust::Trusted;
    }
    // A Codex with a terminal asks the user about trust on its own screen.
    let on_screen = agent.interface.has_terminal();
    match (request.files.exist, on_screen) {
        (true, true) => RepositoryTrust::AskUser,
        (true, false) => RepositoryTrust::Untrusted,
        (false, true) => RepositoryTrust::UserDefault,
        (false, false) => RepositoryTrust::Trusted,
    }
}

/// Returns the MCP server for the modes that accept tools only through MCP. All supported versions of
/// the app-server accept tools when a thread starts.
fn tool_server(session: &Session, program: &Path) -> Option<ToolServer> {
    let member = session.spec.agent.settings.member;
    let role = member.map(|member| member.role.as_str());
    let role = role.into_iter().flat_map(|role| ["--role".to_owned(), role.to_owned()]);
    match session.spec.agent.interface.mode {
        AgentMode::Once | AgentMode::Terminal => Some(ToolServer {
            name: mcp::NAME.to_owned(),
            command: program.to_owned(),
            arguments: [TOOLS_COMMAND.to_owned()].into_iter().chain(role).collect(),
            variables: TOOLS_VARIABLES.map(str::to_owned).to_vec(),
            instructions: mcp::instructions(member),
        }),
        AgentMode::Headless => None,
    }
}

/// Makes Codex listen on a socket, so that users can attach to the thread. Older versions use their
/// standard streams.
fn app_server_arguments(request: &LaunchRequest<'_>) -> (Vec<String>, LaunchInput) {
    if !supports_attach(request.session.spec.agent.version.as_deref()) {
        return (to_strings(&["app-server"]), LaunchInput::Usual);
    }
    let address = format!("unix://{}", request.listen_socket.display());
    (to_strings(&["app-server", "--listen", &address]), LaunchInput::Socket)
}

/// Whether users can attach to this version of Codex.
pub fn supports_attach(version: Option<&str>) -> bool {
    version.and_then(CodexVersion::parse).is_some_and(|version| version >= LISTENS)
}

fn exec_arguments(session: &Session) -> Vec<String> {
    let settings = &session.spec.agent.settings;
    debug_assert!(settings.approvals == Approvals::Never, "exec never asks");
    let mut arguments = to_strings(&["exec", "--json", "--skip-git-repo-check"]);
    arguments.extend(common_arguments(settings));
    if let Some(thread) = &session.conversation.thread {
        arguments.extend(to_strings(&["resume", thread]));
    }
    // The instruction is passed on standard input.
    arguments.push("-".to_owned());
    arguments
}

/// Returns the arguments for running Codex with its own screen, in a single process, with hooks
/// that report the events of this launch.
fn terminal_arguments(request: &LaunchRequest<'_>) -> Vec<String> {
    let session = request.session;
    let settings = &session.spec.agent.settings;
    let approvals = match settings.approvals {
        Approvals::Untrusted => "untrusted",
        Approvals::OnRequest => "on-request",
        Approvals::Never => "never",
    };
    let mut arguments = Vec::new();
    // A conversation without any turn was never saved, so there is nothing to resume.
    let thread =
        if session.spending.turns > 0 { session.conversation.thread.as_ref() } else { None };
    if let Some(thread) = thread {
        arguments.extend(to_strings(&["resume", thread]));
    }
    arguments.extend(to_strings(&["-c", "features.daemon_auto_start=false"]));
    arguments.extend(to_strings(&["--ask-for-approval", approvals]));
    arguments.extend(common_arguments(settings));
    let quoted = provost_text::shell_quote(&request.program.display().to_string());
    arguments.extend(hooks::launch_arguments(&format!("{quoted} {HOOK_COMMAND}")));
    if let Some(given) = session.command_line_message(request.launch) {
        arguments.extend(to_strings(&["--", &given.text]));
    }
    arguments
}

fn common_arguments(settings: &AgentSettings) -> Vec<String> {
    let sandbox = match settings.sandbox {
        Sandbox::ReadOnly => "read-only",
        Sandbox::WorkspaceWrite => "workspace-write",
        Sandbox::FullAccess => "danger-full-access",
    };
    let mut arguments = to_strings(&["--sandbox", sandbox]);
    if let Some(model) = &settings.model {
        arguments.extend(to_strings(&["--model", model]));
    }
    if let Some(effort) = &settings.effort {
        arguments.extend(to_strings(&["-c", &format!("model_reasoning_effort={effort:?}")]));
    }
    if settings.network {
        arguments.extend(to_strings(&["-c", "sandbox_workspace_write.network_access=true"]));
    }
    arguments
}

fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    #[test]
    fn sweep_removes_only_dead_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let swept = |target: &Path| {
            symlink(target, at("link.sock")).unwrap();
            remove_socket(&at("link.sock"));
            assert!(fs::symlink_metadata(at("link.sock")).is_err(), "the link is removed");
            !target.exists()
        };
        fs::write(at("thesis.txt"), "text").unwrap();
        fs::write(at("thesis.lock"), "").unwrap();
        assert!(!swept(&at("thesis.txt")) && at("thesis.lock").exists());
        let serving = UnixListener::bind(at("live.sock")).unwrap();
        assert!(!swept(&at("live.sock")));
        drop(serving);
        fs::write(at("live.lock"), "").unwrap();
        assert!(swept(&at("live.sock")) && !at("live.lock").exists());
    }
}
