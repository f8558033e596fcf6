//! Provost's own tmux server, whose windows show the terminals of sessions.
//!
//! A window only runs `provost attach`, so closing the window, its pane or the whole server does
//! not affect the session. The server has its own socket and configuration in Provost's home.
//! Windows are identified by their ids and by the session stored with them, never by name.
//!
//! A window exists even if no client displays it, so the `attach` process in the window checks whether a client does.
//! tmux hooks trigger this check by sending SIGWINCH, which has no other effect.

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _, stdin, stdout},
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use provost_api::{ApiError, ErrorCode};

use crate::{context::Context, environment::Environment, error::usage, home::ProvostHome};

/// The only tmux session on the server.
const SESSION: &str = "provost";
const SOCKET: &str = "tmux.sock";
const CONFIGURATION: &str = "tmux.conf";

/// The maximum length of a socket path.
const MAX_SOCKET_PATH: usize = 107;

/// The option that marks a `provost attach` process as running in a window of this server.
pub(crate) const IN_WINDOW: &str = "in-window";

/// The tmux option that stores which session a window shows.
const SESSION_OPTION: &str = "@provost_session";

/// The server's settings. The user's own tmux settings are not loaded.
const SETTINGS: &str = "\
# Written by Provost whenever a window is opened; changes are lost.
set -s escape-time 10
set -g history-limit 20000
set -g remain-on-exit off
set -g automatic-rename off
set -g allow-rename off
set -g set-titles off
set -g update-environment ''
set -g status-style default
set -g status-left ''
set -g status-right ''
set -g default-terminal screen-256color
";

/// The tmux events that can change which windows are displayed.
const VIEW_HOOKS: [&str; 4] =
    ["client-attached", "client-detached", "client-session-changed", "session-window-changed"];

/// Makes every window check again whether a client is displaying it.
const RECHECK_VIEWERS: &str =
    r#"run-shell -b "kill -WINCH #{S:#{W:#{P:#{pane_pid} }}} 2>/dev/null; true""#;

/// The number of tmux clients that are displaying a window.
const CLIENT_COUNT: &str = "#{window_active_clients}";

/// The tmux server of a home.
pub(crate) struct TmuxViewport {
    home: PathBuf,
    program: PathBuf,
}

/// The id of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TmuxWindow(String);

/// The window that this process runs in.
pub(crate) struct CurrentWindow {
    viewport: TmuxViewport,
    pane: Option<String>,
}

impl CurrentWindow {
    pub(crate) fn from_environment(home: &ProvostHome, environment: &Environment) -> CurrentWindow {
        let viewport = TmuxViewport { home: home.path.clone(), program: PathBuf::new() };
        CurrentWindow { viewport, pane: environment.get("TMUX_PANE").map(str::to_owned) }
    }

    /// Whether a client is displaying the window. True if tmux does not respond.
    pub(crate) fn is_displayed(&self) -> bool {
        let Some(pane) = &self.pane else { return true };
        let asked = ["display-message", "-p", "-t", pane, CLIENT_COUNT].map(OsString::from);
        match self.viewport.run(&asked) {
            Ok(TmuxResult::Done(clients)) => clients.trim() != "0",
            Ok(TmuxResult::Refused(_)) | Err(_) => true,
        }
    }
}

impl TmuxViewport {
    /// Finds the server's directory, and writes the settings to it.
    pub(crate) fn prepare(context: &Context) -> Result<TmuxViewport, ApiError> {
        let home = context.home()?;
        home.prepare()?;
        let cannot = |why: io::Error| {
            ApiError::new(ErrorCode::Storage, format!("cannot prepare a tmux window: {why}"))
        };
        let program = std::env::current_exe().map_err(cannot)?;
        let version = Command::new("tmux").arg("-V").stdin(Stdio::null()).output();
        version.map_err(|why| tmux_error(&why))?;
        provost_sys::private::write(&home.path.join(CONFIGURATION), settings().as_bytes())
            .map_err(cannot)?;
        Ok(TmuxViewport { home: home.path, program })
    }

    /// Returns a session's window, opening it if necessary.
    pub(crate) fn open_window(&self, id: &str, name: &str) -> Result<TmuxWindow, ApiError> {
        if let Some(window) = self.find(id)? {
            return Ok(window);
        }
        let program = self.program.clone().into_os_string();
        let attach = [program, "attach".into(), id.into(), format!("--{IN_WINDOW}").into()];
        let mut home = OsString::from("PROVOST_HOME=");
        home.push(&self.home);
        let name = window_name(name);
        let common: Vec<OsString> =
            ["-d", "-P", "-F", "#{window_id}", "-n", &name, "-e"].map(OsString::from).to_vec();
        let common = [common, vec![home], attach.to_vec()].concat();
        let first = ["new-session", "-s", SESSION, "-x", "120", "-y", "40"].map(OsString::from);
        let more = ["new-window", "-t", &format!("={SESSION}:")].map(OsString::from);
        let made = if self.exists()? {
            // A server that was started by an older version of Provost has older settings, so load the current ones.
            let settings = self.home.join(CONFIGURATION).into_os_string();
            self.run(&["source-file".into(), settings])?;
            self.run(&[more.as_slice(), &common].concat())?
        } else {
            // If another process has created the tmux session in the meantime, a window is added to it.
            match self.run(&[first.as_slice(), &common].concat())? {
                TmuxResult::Refused(_) => self.run(&[more.as_slice(), &common].concat())?,
                done @ TmuxResult::Done(_) => done,
            }
        };
        let window = match made {
            TmuxResult::Done(window) => window.trim().to_owned(),
            TmuxResult::Refused(why) => {
                let message = format!("tmux cannot open a window: {why}");
                return Err(
                    ApiError::new(ErrorCode::Refused, message).next(format!("provost attach {id}"))
                );
            }
        };
        // If the session ended immediately, the window is already closed, which is not an error.
        self.run(&["set-option", "-w", "-t", &window, SESSION_OPTION, id].map(OsString::from))?;
        Ok(TmuxWindow(window))
    }

    /// Returns the command that shows the server or one of its windows in the user's terminal.
    pub(crate) fn attach_command(&self, window: Option<&TmuxWindow>) -> Vec<OsString> {
        let target = match window {
            Some(TmuxWindow(id)) => format!("={SESSION}:{id}"),
            None => format!("={SESSION}"),
        };
        let attach = ["attach-session", "-t", &target].map(OsString::from);
        [vec!["tmux".into()], self.server_args(), attach.to_vec()].concat()
    }

    /// Replaces this process with tmux. To detach, the user presses tmux's own key.
    pub(crate) fn attach(&self, window: Option<&TmuxWindow>, id: Option<&str>) -> ApiError {
        if !(stdin().is_terminal() && stdout().is_terminal()) {
            let error = usage("tmux needs a terminal; standard input or output is not one");
            return match id {
                Some(id) => error.next(format!("provost attach --tmux {id} --print")),
                None => error.next("provost attach --tmux --print"),
            };
        }
        if window.is_none() && !matches!(self.exists(), Ok(true)) {
            return ApiError::new(ErrorCode::NotFound, "no window is open")
                .next("provost attach --tmux ID");
        }
        let words = self.attach_command(window);
        tmux_error(&self.command(&words[1..]).exec())
    }

    fn find(&self, id: &str) -> Result<Option<TmuxWindow>, ApiError> {
        let session = format!("={SESSION}:");
        let format = format!("#{{window_id}} #{{{SESSION_OPTION}}}");
        let listed =
            self.run(&["list-windows", "-t", &session, "-F", &format].map(OsString::from))?;
        let TmuxResult::Done(listed) = listed else { return Ok(None) };
        let shows = |line: &&str| line.split_once(' ').is_some_and(|(_, shown)| shown == id);
        let found = listed.lines().find(shows).and_then(|line| line.split(' ').next());
        Ok(found.map(|window| TmuxWindow(window.to_owned())))
    }

    fn exists(&self) -> Result<bool, ApiError> {
        let asked = ["has-session", "-t", &format!("={SESSION}")].map(OsString::from);
        Ok(matches!(self.run(&asked)?, TmuxResult::Done(_)))
    }

    /// Returns the tmux arguments that select the server. If the socket path is too long, it is
    /// given relative to the home, which is the directory that tmux runs in.
    fn server_args(&self) -> Vec<OsString> {
        let absolute = self.home.join(SOCKET);
        let fits = absolute.as_os_str().as_bytes().len() <= MAX_SOCKET_PATH;
        let socket = if fits { absolute } else { PathBuf::from(SOCKET) };
        let settings = self.home.join(CONFIGURATION);
        vec!["-u".into(), "-S".into(), socket.into(), "-f".into(), settings.into()]
    }

    fn command(&self, words: &[OsString]) -> Command {
        let mut command = Command::new("tmux");
        // Inside another tmux, this command would be refused or would be sent to that other tmux server.
        for name in ["TMUX", "TMUX_PANE", "TMUX_TMPDIR"] {
            command.env_remove(name);
        }
        command.current_dir(&self.home).args(words);
        command
    }

    fn run(&self, words: &[OsString]) -> Result<TmuxResult, ApiError> {
        let mut command = self.command(&[self.server_args(), words.to_vec()].concat());
        let ran = command.stdin(Stdio::null()).output().map_err(|why| tmux_error(&why))?;
        Ok(if ran.status.success() {
            TmuxResult::Done(String::from_utf8_lossy(&ran.stdout).into_owned())
        } else {
            TmuxResult::Refused(crate::ui::escape_line(String::from_utf8_lossy(&ran.stderr).trim()))
        })
    }
}

fn settings() -> String {
    let hooks = VIEW_HOOKS.map(|hook| format!("set-hook -g {hook} '{RECHECK_VIEWERS}'\n"));
    format!("{SETTINGS}{}", hooks.concat())
}

/// The result of a tmux command.
enum TmuxResult {
    Done(String),
    Refused(String),
}

fn tmux_error(why: &io::Error) -> ApiError {
    let message = if why.kind() == io::ErrorKind::NotFound {
        "tmux is not installed, and --tmux needs it".to_owned()
    } else {
        format!("cannot run tmux: {why}")
    };
    ApiError::new(ErrorCode::Refused, message).next("provost attach ID")
}

/// Removes characters that tmux would interpret in the name of a window.
fn window_name(name: &str) -> String {
    let harmless = |char: &char| !matches!(char, '#' | ':' | '.') && !char.is_control();
    name.chars().filter(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewport(home: &str) -> TmuxViewport {
        TmuxViewport { home: home.into(), program: "/bin/provost".into() }
    }

    #[test]
    fn attach_command_targets_one_window() {
        let words = viewport("/state/provost").attach_command(Some(&TmuxWindow("@3".to_owned())));
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "tmux -u -S /state/provost/tmux.sock -f /state/provost/tmux.conf attach-session -t =provost:@3"
        );
    }

    #[test]
    fn long_home_path_uses_a_relative_socket() {
        let long = format!("/{}", "x".repeat(120));
        assert_eq!(viewport(&long).server_args()[2], "tmux.sock");
    }

    #[test]
    fn window_name_drops_tmux_formats() {
        assert_eq!(window_name("a#(rm -rf)b:c.d"), "a(rm -rf)bcd");
    }
}
