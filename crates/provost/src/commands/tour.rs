//! `provost tour`

mod script;

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::{Args, ValueEnum};
use provost_api::{ApiError, ErrorCode};
use provost_core::text::shell_quote;

use self::script::TourStep;
use super::spawn::ctrl_c;
use crate::{
    cli::CliResult,
    clock,
    context::Context,
    error::{Error, usage},
    ui::{Tone, escape_block, escape_line},
};

/// Watch a guided demo in a throwaway directory
///
/// The tour runs every command that it displays, and stops if a command does not end as expected.
/// The tour needs git and a shell, but no agent and no account; your own files are not touched.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost tour dispatch\n  provost tour dispatch --keep\n  provost tour dispatch | less -R"
)]
pub(crate) struct TourArgs {
    /// Topic of the tour
    tour: Tour,
    /// Keep the directory after the tour
    #[arg(long)]
    keep: bool,
}

/// The available tours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tour {
    /// A team with a manager and two workers: inboxes, criteria, a gated loop, crashes, an audited finish
    Dispatch,
}

impl Tour {
    fn text(self) -> &'static str {
        match self {
            Tour::Dispatch => include_str!("../tour/dispatch.txt"),
        }
    }
}

/// The check script in the initial repository of the tour.
const CHECK_SCRIPT: &str = "grep -q . limits || exit 1\n! grep -v '^[a-z]* [0-9]' limits\n";

pub(crate) fn run(context: &Context, args: &TourArgs) -> CliResult {
    if context.ui.json {
        return Err(usage("a tour has no JSON output: leave out --json".to_owned()).into());
    }
    // Ctrl-C ends the running command, but the directory is still removed.
    let interrupted = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&interrupted);
    ctrl_c::handle_interrupt(move || heard.store(true, Ordering::Relaxed))
        .map_err(|why| failed("handle Ctrl-C", &why))?;
    let place = TourDir::create(context)?;
    let result = play(context, &place, script::parse(args.tour.text()), &interrupted);
    if args.keep {
        context.ui.line(&format!(
            "\nThe tour's files are in {}; to look around:",
            place.root.display()
        ))?;
        let home = place.home();
        context
            .ui
            .line(&format!("  export PROVOST_HOME={}", shell_quote(&home.to_string_lossy())))?;
    } else {
        place.remove()?;
    }
    result
}

fn play(
    context: &Context,
    place: &TourDir,
    lines: impl Iterator<Item = TourStep>,
    interrupted: &AtomicBool,
) -> CliResult {
    for line in lines {
        match line {
            TourStep::Narration(text) => {
                context.ui.line(&format!("\n{}", context.ui.paint.paint(Tone::Bold, &text)))?;
            }
            TourStep::Command { command, exits } => {
                context.ui.line(&context.ui.paint.paint(Tone::Live, &format!("$ {command}")))?;
                let ended = place.run(context, &command)?;
                if interrupted.load(Ordering::Relaxed) {
                    return Ok(ExitCode::from(INTERRUPTED));
                }
                if ended != Some(exits) {
                    let how = ended.map_or("a signal".to_owned(), |code| format!("{code}"));
                    let message = format!("the command ended with {how}, but {exits} was expected");
                    return Err(ApiError::new(ErrorCode::Internal, message)
                        .next("provost tour dispatch --keep")
                        .into());
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code of a tour that was interrupted with Ctrl-C.
const INTERRUPTED: u8 = 130;

/// The directory of a tour, which contains a repository, a Provost home, and a second home that imports the bundle.
struct TourDir {
    root: PathBuf,
}

impl TourDir {
    fn create(context: &Context) -> Result<Self, Error> {
        let temporary = context.environment.path("TMPDIR").unwrap_or_else(|| "/tmp".into());
        let root = temporary.join(format!("provost-tour-{}", clock::new_id().simple()));
        let place = TourDir { root };
        place.fill().map_err(|why| failed(&format!("set up {}", place.root.display()), &why))?;
        for words in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["add", "--all"],
            &["commit", "--quiet", "-m", "Begin"],
        ] {
            let done = place.command(context, "git").args(words).status();
            match done {
                Ok(status) if status.success() => {}
                Ok(_) | Err(_) => {
                    place.remove()?;
                    let message = "the tour needs git, and a git command failed";
                    return Err(ApiError::new(ErrorCode::Unreachable, message)
                        .next("git --version")
                        .into());
                }
            }
        }
        Ok(place)
    }

    fn fill(&self) -> std::io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(&self.root)?;
        for dir in [self.repository(), self.root.join("bin")] {
            fs::create_dir(dir)?;
        }
        symlink(std::env::current_exe()?, self.root.join("bin/provost"))?;
        fs::write(self.repository().join("check.sh"), CHECK_SCRIPT)
    }

    fn repository(&self) -> PathBuf {
        self.root.join("shop")
    }

    /// Runs a line in a shell, shows its output, and returns its exit code.
    fn run(&self, context: &Context, line: &str) -> Result<Option<u8>, Error> {
        let output = self
            .command(context, "sh")
            .args(["-c", &format!("exec 2>&1; {line}")])
            .stdin(Stdio::null())
            .output()
            .map_err(|why| failed("start a shell", &why))?;
        for shown in escape_block(&String::from_utf8_lossy(&output.stdout)).lines() {
            context.ui.line(&format!("  {shown}"))?;
        }
        Ok(output.status.code().and_then(|code| u8::try_from(code).ok()))
    }

    /// Returns a command that runs in the repository with the tour's own homes and without the user's configuration.
    fn command(&self, context: &Context, program: &str) -> Command {
        let path = context.environment.get("PATH").unwrap_or("/usr/bin:/bin");
        let mut command = Command::new(program);
        command.current_dir(self.repository());
        for (name, _) in
            context.environment.variables().iter().filter(|(name, _)| points_outside_tour(name))
        {
            command.env_remove(name);
        }
        command
            .env("PATH", format!("{}:{path}", self.root.join("bin").display()))
            .env("PROVOST_HOME", self.home())
            .env("XDG_CONFIG_HOME", self.root.join("config"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "Tour");
            command.env(format!("GIT_{role}_EMAIL"), "tour@example.invalid");
        }
        command
    }

    fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Stops the tour's daemons, and removes its directory.
    fn remove(&self) -> Result<(), Error> {
        for home in [self.home(), self.repository().join("elsewhere")] {
            if home.exists() {
                self.stop_daemon(&home);
            }
        }
        fs::remove_dir_all(&self.root)
            .map_err(|why| failed(&format!("remove {}", self.root.display()), &why).into())
    }

    fn stop_daemon(&self, home: &Path) {
        let mut stop = Command::new(self.root.join("bin/provost"));
        stop.args(["daemon", "stop"]).env("PROVOST_HOME", home);
        // Stopping the daemon may fail because no daemon is running. This error is ignored. A home that is still in use
        // cannot be removed, and that error is reported.
        drop(stop.stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}

/// Whether a variable could refer to something outside the tour's directory.
fn points_outside_tour(name: &str) -> bool {
    name.starts_with("PROVOST_") || name.starts_with("GIT_")
}

fn failed(what: &str, why: &std::io::Error) -> ApiError {
    ApiError::new(ErrorCode::Internal, format!("cannot {what}: {}", escape_line(&why.to_string())))
        .next("provost doctor")
}
