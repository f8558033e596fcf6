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

use provost_agent::mcp;
pub use provost_agent_codex::home::SCRUBBED_VARIABLES;
use provost_agent_codex::home::{self, RepositoryTrust, SessionHome, ToolServer};
use provost_agent_codex::hooks;
use provost_agent_codex::protocol::{CodexVersion, LISTENS};
use provost_core::{
    ids::{LaunchId, SessionId},
    session::{AgentMode, AgentSettings, Approvals, Sandbox, Session},
};
use provost_holder::{HoldSpec, Relay, RelayListener, StdinMode, spec::MARK};

use super::{executor::cwd_of, home::Home, supervised_command::error_chain};

/// The variable with the directory for an agent's reports, in case its sandbox blocks all connections.
pub const DROP_VARIABLE: &str = "PROVOST_DROP";

/// The subcommand that runs the MCP server for a launch's tools.
pub const TOOLS_COMMAND: &str = "agent-tools";

/// The subcommand that receives events from Codex hooks.
pub const HOOK_COMMAND: &str = "agent-hook";

/// The environment variables that the tool server needs. Codex passes on only the variables that
/// are listed, and the token is never written to a file.
const TOOLS_VARIABLES: [&str; 4] = ["PROVOST_HOME", MARK, "PROVOST_TOKEN", DROP_VARIABLE];

/// Adds the settings for Codex to the spec of a launch. Calling this again for the same launch
/// yields the same result.
pub(crate) fn prepare_launch(
    home: &Home,
    program: &Path,
    session: &Session,
    launch: LaunchId,
    spec: &mut HoldSpec,
) -> Result<(), String> {
    let interface = &session.spec.agent.interface;
    if interface.adapter != provost_agent_codex::ADAPTER {
        return Ok(());
    }
    let place = home.agent(session.id);
    let temporary = place.join("tmp");
    let drop_box = home.agent_drop_box(session.id);
    for directory in [&temporary, &drop_box] {
        private_directory(directory)
            .map_err(|why| format!("cannot create {}: {why}", directory.display()))?;
    }
    let prepared = prepare_home(&place, session, program)?;
    spec.env.retain(|(name, _)| !SCRUBBED_VARIABLES.contains(&name.as_str()));
    set_variable(spec, "TMPDIR", &temporary);
    set_variable(spec, DROP_VARIABLE, &drop_box);
    for (name, value) in prepared.environment() {
        set_variable(spec, name, value);
    }
    match interface.mode {
        AgentMode::Once => {
            spec.argv.extend(exec_arguments(session));
            // Every user on the machine can read arguments, so pass the text on standard input.
            spec.stdin = StdinMode::Text(session.one_shot_text().to_owned());
            spec.journal_stdin = false;
        }
        AgentMode::Terminal => spec.argv.extend(terminal_arguments(program, session, launch)),
        AgentMode::Headless => listen_on_socket(home, session, launch, spec),
    }
    Ok(())
}

/// Returns the socket on which the holder of a launch lets users attach to Codex.
pub fn attach_socket(home: &Home, launch: LaunchId) -> PathBuf {
    home.agent(launch.session).join(format!("a{}.sock", launch.no))
}

/// Returns the path at which Codex starts to listen. The holder then removes the socket from this
/// path.
fn listen_socket(home: &Home, launch: LaunchId) -> PathBuf {
    home.agent(launch.session).join(format!("l{}.sock", launch.no))
}

/// Returns the variables that every Codex process of a session receives: its own home and temporary
/// directory.
pub fn session_environment(home: &Home, session: SessionId) -> [(&'static str, PathBuf); 2] {
    let place = home.agent(session);
    [("CODEX_HOME", place.join("codex")), ("TMPDIR", place.join("tmp"))]
}

/// Removes what a killed app-server left behind: the link, the socket that it points to, its lock,
/// and its holder's socket.
///
/// The agent can point the link anywhere, so a socket is removed only if it belongs to this user
/// and no process serves it, and a lock next to it is removed only if it is empty.
pub(crate) fn remove_remains(home: &Home, launch: LaunchId) {
    fs::remove_file(attach_socket(home, launch)).ok();
    let link = listen_socket(home, launch);
    let Ok(real) = fs::read_link(&link) else { return };
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

fn prepare_home(
    place: &Path,
    session: &Session,
    program: &Path,
) -> Result<home::PreparedHome, String> {
    let profile = &session.spec.agent.profile;
    let worktree = PathBuf::from(cwd_of(session));
    let root = provost_trust::find_top(&worktree).unwrap_or_else(|| worktree.clone());
    let wanted = SessionHome {
        dir: place.join("codex"),
        codex_home: profile.agent_home.as_ref().map(PathBuf::from),
        user_home: PathBuf::from(&profile.user_home),
        trust: worktree_trust(session, &root, &worktree),
        worktree,
        root,
        skill_roots: profile.skills.iter().map(PathBuf::from).collect(),
        tools: tool_server(session, program),
        settings: Default::default(),
    };
    home::prepare(&wanted)
        .map_err(|why| format!("cannot prepare a home for Codex: {}", error_chain(&why)))
}

/// Decides whether Codex should trust a worktree. If the worktree contains a `.codex` directory, it
/// is trusted only while its content is exactly what the user trusts. The content is compared
/// before each launch, because an agent may have changed it. A worktree without `.codex` contains
/// nothing that Codex would run because of the trust, and without trust Codex would ignore its
/// `AGENTS.md`.
fn worktree_trust(session: &Session, root: &Path, worktree: &Path) -> RepositoryTrust {
    let agent = &session.spec.agent;
    let found = provost_trust::agent_digest(root, worktree).ok().flatten();
    let found = found.map(|digest| digest.to_string());
    let agreed = agent.profile.trusted_files.is_some() && agent.profile.trusted_files == found;
    if agreed || agent.settings.accept_trust {
        return RepositoryTrust::Trusted;
    }
    // In this case, Codex asks the user on its own screen.
    let on_screen = agent.interface.has_terminal();
    match (provost_trust::has_agent_files(root, worktree), on_screen) {
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
fn listen_on_socket(home: &Home, session: &Session, launch: LaunchId, spec: &mut HoldSpec) {
    spec.argv.push("app-server".to_owned());
    if !supports_attach(session.spec.agent.version.as_deref()) {
        return;
    }
    let socket = listen_socket(home, launch);
    spec.argv.extend(["--listen".to_owned(), format!("unix://{}", socket.display())]);
    spec.stdin = StdinMode::Null;
    let door = RelayListener { socket: attach_socket(home, launch) };
    spec.relay = Some(Relay { socket, listener: Some(door) });
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
    if let Some(thread) = &session.thread {
        arguments.extend(to_strings(&["resume", thread]));
    }
    // The instruction is passed on standard input.
    arguments.push("-".to_owned());
    arguments
}

/// Returns the arguments for running Codex with its own screen, in a single process, with hooks
/// that report the events of this launch.
fn terminal_arguments(program: &Path, session: &Session, launch: LaunchId) -> Vec<String> {
    let settings = &session.spec.agent.settings;
    let approvals = match settings.approvals {
        Approvals::Untrusted => "untrusted",
        Approvals::OnRequest => "on-request",
        Approvals::Never => "never",
    };
    let mut arguments = Vec::new();
    // A conversation without any turn was never saved, so there is nothing to resume.
    let thread = if session.turns > 0 { session.thread.as_ref() } else { None };
    if let Some(thread) = thread {
        arguments.extend(to_strings(&["resume", thread]));
    }
    arguments.extend(to_strings(&["-c", "features.daemon_auto_start=false"]));
    arguments.extend(to_strings(&["--ask-for-approval", approvals]));
    arguments.extend(common_arguments(settings));
    let quoted = shell_quoted(&program.display().to_string());
    arguments.extend(hooks::launch_arguments(&format!("{quoted} {HOOK_COMMAND}")));
    if let Some(given) = session.command_line_message(launch) {
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

/// Quotes a text as one shell word.
pub(crate) fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn set_variable(spec: &mut HoldSpec, name: &str, value: &Path) {
    spec.env.retain(|(known, _)| known != name);
    spec.env.push((name.to_owned(), value.display().to_string()));
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
        let home = Home::new(dir.path());
        let launch: LaunchId = "01a1e323-29f4-7713-a950-131315b2a3b9.l1".parse().unwrap();
        fs::create_dir_all(home.agent(launch.session)).unwrap();
        let at = |name: &str| dir.path().join(name);
        let swept = |target: &Path| {
            symlink(target, listen_socket(&home, launch)).unwrap();
            remove_remains(&home, launch);
            assert!(
                fs::symlink_metadata(listen_socket(&home, launch)).is_err(),
                "the link is removed"
            );
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
