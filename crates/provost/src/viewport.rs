//! The private tmux server: windows that show the terminals of sessions.
//!
//! A window runs `provost attach` and nothing else, so that whatever becomes of it, of its pane or of the whole server
//! says nothing about the session. The server has a socket and a configuration of its own in Provost's home, and windows
//! are known by their ids and by the session that is written down with them, never by a name.
//!
//! A window is there also when nobody looks at it, so its `attach` says of itself whether somebody does. What changes
//! that is a hook of tmux, which sends it the signal of a window that changed its size: nobody dies of that one.

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _, stdin, stdout},
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use provost_api::{ApiError, Code};

use crate::{context::Context, environment::Environment, error::usage, home::Home};

/// The one session of the server.
const SESSION: &str = "provost";
const SOCKET: &str = "tmux.sock";
const CONFIGURATION: &str = "tmux.conf";

/// The longest path that a socket can have.
const LONGEST_SOCKET: usize = 107;

/// The option by which `provost attach` is told that it is in a window of this server.
pub(crate) const IN_WINDOW: &str = "in-window";

/// Where a window is known by: the session that it shows.
const SHOWS: &str = "@provost_session";

/// The server's own settings; those of the user are not read.
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

/// The hooks of what may change who looks at which window.
const LOOKS: [&str; 4] =
    ["client-attached", "client-detached", "client-session-changed", "session-window-changed"];

/// Has every window look again at whether somebody is before it.
const LOOK_AGAIN: &str =
    r#"run-shell -b "kill -WINCH #{S:#{W:#{P:#{pane_pid} }}} 2>/dev/null; true""#;

/// Gives how many clients of tmux show a window now.
const SHOWN_BY: &str = "#{window_active_clients}";

/// The server of a home.
pub(crate) struct Viewport {
    home: PathBuf,
    program: PathBuf,
}

/// A window, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window(String);

/// The window in which this process runs.
pub(crate) struct OwnWindow {
    viewport: Viewport,
    pane: Option<String>,
}

impl OwnWindow {
    pub(crate) fn around(home: &Home, environment: &Environment) -> OwnWindow {
        let viewport = Viewport { home: home.path.clone(), program: PathBuf::new() };
        OwnWindow { viewport, pane: environment.get("TMUX_PANE").map(str::to_owned) }
    }

    /// Says whether somebody looks at it. If tmux does not tell, somebody may.
    pub(crate) fn is_shown(&self) -> bool {
        let Some(pane) = &self.pane else { return true };
        let asked = ["display-message", "-p", "-t", pane, SHOWN_BY].map(OsString::from);
        match self.viewport.run(&asked) {
            Ok(Ran::Done(clients)) => clients.trim() != "0",
            Ok(Ran::Refused(_)) | Err(_) => true,
        }
    }
}

impl Viewport {
    /// Finds the server's place, and writes its settings there.
    pub(crate) fn prepare(context: &Context) -> Result<Viewport, ApiError> {
        let home = context.home()?;
        home.prepare()?;
        let cannot = |why: io::Error| {
            ApiError::new(Code::Storage, format!("cannot prepare a window of tmux: {why}"))
        };
        let program = std::env::current_exe().map_err(cannot)?;
        let version = Command::new("tmux").arg("-V").stdin(Stdio::null()).output();
        version.map_err(|why| missing(&why))?;
        provost_sys::private::write(&home.path.join(CONFIGURATION), settings().as_bytes())
            .map_err(cannot)?;
        Ok(Viewport { home: home.path, program })
    }

    /// Gives the window that shows a session, and makes it if there is none.
    pub(crate) fn window(&self, id: &str, name: &str) -> Result<Window, ApiError> {
        if let Some(window) = self.find(id)? {
            return Ok(window);
        }
        let program = self.program.clone().into_os_string();
        let attach = [program, "attach".into(), id.into(), format!("--{IN_WINDOW}").into()];
        let mut home = OsString::from("PROVOST_HOME=");
        home.push(&self.home);
        let name = shown_name(name);
        let common: Vec<OsString> =
            ["-d", "-P", "-F", "#{window_id}", "-n", &name, "-e"].map(OsString::from).to_vec();
        let common = [common, vec![home], attach.to_vec()].concat();
        let first = ["new-session", "-s", SESSION, "-x", "120", "-y", "40"].map(OsString::from);
        let more = ["new-window", "-t", &format!("={SESSION}:")].map(OsString::from);
        let made = match self.exists()? {
            true => {
                // One that an older Provost started has older settings.
                let settings = self.home.join(CONFIGURATION).into_os_string();
                self.run(&["source-file".into(), settings])?;
                self.run(&[more.as_slice(), &common].concat())?
            }
            // Another may have made the session meanwhile; then a window is made in it.
            false => match self.run(&[first.as_slice(), &common].concat())? {
                Ran::Refused(_) => self.run(&[more.as_slice(), &common].concat())?,
                done @ Ran::Done(_) => done,
            },
        };
        let window = match made {
            Ran::Done(window) => window.trim().to_owned(),
            Ran::Refused(why) => {
                let message = format!("tmux cannot open a window: {why}");
                return Err(
                    ApiError::new(Code::Refused, message).next(format!("provost attach {id}"))
                );
            }
        };
        // A window whose session has ended at once is gone by now, which is no fault.
        self.run(&["set-option", "-w", "-t", &window, SHOWS, id].map(OsString::from))?;
        Ok(Window(window))
    }

    /// Gives the command that shows the server, or one window of it, in a person's terminal.
    pub(crate) fn attach_command(&self, window: Option<&Window>) -> Vec<OsString> {
        let target = match window {
            Some(Window(id)) => format!("={SESSION}:{id}"),
            None => format!("={SESSION}"),
        };
        let attach = ["attach-session", "-t", &target].map(OsString::from);
        [vec!["tmux".into()], self.place(), attach.to_vec()].concat()
    }

    /// Becomes tmux in this terminal. To detach is tmux's own.
    pub(crate) fn attach(&self, window: Option<&Window>, id: Option<&str>) -> ApiError {
        if !(stdin().is_terminal() && stdout().is_terminal()) {
            let error = usage("tmux needs a terminal, and this is none");
            return match id {
                Some(id) => error.next(format!("provost attach --tmux {id} --print")),
                None => error.next("provost attach --tmux --print"),
            };
        }
        if window.is_none() && !matches!(self.exists(), Ok(true)) {
            return ApiError::new(Code::NotFound, "no window is open")
                .next("provost attach --tmux ID");
        }
        let words = self.attach_command(window);
        missing(&self.command(&words[1..]).exec())
    }

    fn find(&self, id: &str) -> Result<Option<Window>, ApiError> {
        let session = format!("={SESSION}:");
        let format = format!("#{{window_id}} #{{{SHOWS}}}");
        let listed =
            self.run(&["list-windows", "-t", &session, "-F", &format].map(OsString::from))?;
        let Ran::Done(listed) = listed else { return Ok(None) };
        let shows = |line: &&str| line.split_once(' ').is_some_and(|(_, shown)| shown == id);
        let found = listed.lines().find(shows).and_then(|line| line.split(' ').next());
        Ok(found.map(|window| Window(window.to_owned())))
    }

    fn exists(&self) -> Result<bool, ApiError> {
        let asked = ["has-session", "-t", &format!("={SESSION}")].map(OsString::from);
        Ok(matches!(self.run(&asked)?, Ran::Done(_)))
    }

    /// A path that is too long for a socket is given as seen from the home, in which tmux is run.
    fn place(&self) -> Vec<OsString> {
        let absolute = self.home.join(SOCKET);
        let fits = absolute.as_os_str().as_bytes().len() <= LONGEST_SOCKET;
        let socket = if fits { absolute } else { PathBuf::from(SOCKET) };
        let settings = self.home.join(CONFIGURATION);
        vec!["-u".into(), "-S".into(), socket.into(), "-f".into(), settings.into()]
    }

    fn command(&self, words: &[OsString]) -> Command {
        let mut command = Command::new("tmux");
        // Inside of another tmux it would refuse, or mean that one.
        for name in ["TMUX", "TMUX_PANE", "TMUX_TMPDIR"] {
            command.env_remove(name);
        }
        command.current_dir(&self.home).args(words);
        command
    }

    fn run(&self, words: &[OsString]) -> Result<Ran, ApiError> {
        let mut command = self.command(&[self.place(), words.to_vec()].concat());
        let ran = command.stdin(Stdio::null()).output().map_err(|why| missing(&why))?;
        Ok(match ran.status.success() {
            true => Ran::Done(String::from_utf8_lossy(&ran.stdout).into_owned()),
            false => Ran::Refused(crate::ui::clean(String::from_utf8_lossy(&ran.stderr).trim())),
        })
    }
}

fn settings() -> String {
    let hooks = LOOKS.map(|hook| format!("set-hook -g {hook} '{LOOK_AGAIN}'\n"));
    format!("{SETTINGS}{}", hooks.concat())
}

/// What came of a command to tmux.
enum Ran {
    Done(String),
    Refused(String),
}

fn missing(why: &io::Error) -> ApiError {
    let message = match why.kind() == io::ErrorKind::NotFound {
        true => "tmux is not installed, and --tmux needs it".to_owned(),
        false => format!("cannot run tmux: {why}"),
    };
    ApiError::new(Code::Refused, message).next("provost attach ID")
}

/// A name in tmux's line of windows must not be one of its formats.
fn shown_name(name: &str) -> String {
    let harmless = |char: &char| !matches!(char, '#' | ':' | '.') && !char.is_control();
    name.chars().filter(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewport(home: &str) -> Viewport {
        Viewport { home: home.into(), program: "/bin/provost".into() }
    }

    #[test]
    fn a_window_is_meant_exactly() {
        let words = viewport("/state/provost").attach_command(Some(&Window("@3".to_owned())));
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "tmux -u -S /state/provost/tmux.sock -f /state/provost/tmux.conf attach-session -t =provost:@3"
        );
    }

    #[test]
    fn a_home_with_a_long_path_has_a_socket_all_the_same() {
        let long = format!("/{}", "x".repeat(120));
        assert_eq!(viewport(&long).place()[2], "tmux.sock");
    }

    #[test]
    fn a_name_is_no_format() {
        assert_eq!(shown_name("a#(rm -rf)b:c.d"), "a(rm -rf)bcd");
    }
}
