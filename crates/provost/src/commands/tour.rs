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
use provost_api::{ApiError, Code};
use provost_core::text::shell_word;

use self::script::Line;
use super::spawn::parting;
use crate::{
    cli::Outcome,
    clock,
    context::Context,
    error::{Error, usage},
    ui::{Tone, clean, clean_block},
};

/// Play a story with this very program, in a place of its own that is removed afterwards
///
/// Every command that is shown is run as it is shown, and the tour ends where one ends otherwise than told. It needs
/// git and a shell, no agent and no account; nothing of yours is touched.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost tour dispatch\n  provost tour dispatch --keep\n  provost tour dispatch | less -R"
)]
pub(crate) struct TourArgs {
    /// What it is to be about
    tour: Tour,
    /// Leave the place there, to look around in
    #[arg(long)]
    keep: bool,
}

/// The stories that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tour {
    /// A task with a manager and two workers: inboxes, criteria, a loop behind a gate, deaths, an audited end
    Dispatch,
}

impl Tour {
    fn text(self) -> &'static str {
        match self {
            Tour::Dispatch => include_str!("../tour/dispatch.txt"),
        }
    }
}

/// What the repository of a tour begins with.
const CHECK: &str = "grep -q . limits || exit 1\n! grep -v '^[a-z]* [0-9]' limits\n";

pub(crate) fn run(context: &Context, args: &TourArgs) -> Outcome {
    if context.ui.json {
        return Err(usage("a tour is told to people: there is no JSON of it".to_owned()).into());
    }
    // Ctrl-C ends the command that runs; what is to be removed is removed.
    let interrupted = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&interrupted);
    parting::hear_interrupt(move || heard.store(true, Ordering::Relaxed))
        .map_err(|why| failed("hear Ctrl-C", &why))?;
    let place = Place::make(context)?;
    let told = play(context, &place, script::parse(args.tour.text()), &interrupted);
    if args.keep {
        context.ui.line(&format!("\nIt is all in {}; to look around:", place.root.display()))?;
        let home = place.home();
        context
            .ui
            .line(&format!("  export PROVOST_HOME={}", shell_word(&home.to_string_lossy())))?;
    } else {
        place.remove()?;
    }
    told
}

fn play(
    context: &Context,
    place: &Place,
    lines: impl Iterator<Item = Line>,
    interrupted: &AtomicBool,
) -> Outcome {
    for line in lines {
        match line {
            Line::Said(text) => {
                context.ui.line(&format!("\n{}", context.ui.paint.paint(Tone::Bold, &text)))?;
            }
            Line::Typed { command, exits } => {
                context.ui.line(&context.ui.paint.paint(Tone::Live, &format!("$ {command}")))?;
                let ended = place.run(context, &command)?;
                if interrupted.load(Ordering::Relaxed) {
                    return Ok(ExitCode::from(INTERRUPTED));
                }
                if ended != Some(exits) {
                    let how = ended.map_or("a signal".to_owned(), |code| format!("{code}"));
                    let message = format!("that ended with {how}, and should with {exits}");
                    return Err(ApiError::new(Code::Internal, message)
                        .next("provost tour dispatch --keep")
                        .into());
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code of a tour that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Where a tour plays: a repository, a home of Provost, and another that takes the bundle.
struct Place {
    root: PathBuf,
}

impl Place {
    fn make(context: &Context) -> Result<Self, Error> {
        let temporary = context.environment.path("TMPDIR").unwrap_or_else(|| "/tmp".into());
        let root = temporary.join(format!("provost-tour-{}", clock::mint().simple()));
        let place = Place { root };
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
                    let message = "git is needed for this, and did not do what it was asked";
                    return Err(ApiError::new(Code::Unreachable, message)
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
        fs::write(self.repository().join("check.sh"), CHECK)
    }

    fn repository(&self) -> PathBuf {
        self.root.join("shop")
    }

    /// Runs a line in a shell and shows what it prints; gives its exit code.
    fn run(&self, context: &Context, line: &str) -> Result<Option<u8>, Error> {
        let output = self
            .command(context, "sh")
            .args(["-c", &format!("exec 2>&1; {line}")])
            .stdin(Stdio::null())
            .output()
            .map_err(|why| failed("start a shell", &why))?;
        for shown in clean_block(&String::from_utf8_lossy(&output.stdout)).lines() {
            context.ui.line(&format!("  {shown}"))?;
        }
        Ok(output.status.code().and_then(|code| u8::try_from(code).ok()))
    }

    /// A program in the repository that knows the tour's own homes and nothing of the person's configuration.
    fn command(&self, context: &Context, program: &str) -> Command {
        let path = context.environment.get("PATH").unwrap_or("/usr/bin:/bin");
        let mut command = Command::new(program);
        command.current_dir(self.repository());
        for (name, _) in context.environment.variables().iter().filter(|(name, _)| is_ours(name)) {
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

    /// Ends the daemons of the tour, and removes all of it.
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
        // Where none runs there is nothing to stop; a home that stays in use cannot be removed, which is told.
        drop(stop.stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}

/// Says whether a variable would lead away from the tour's own place.
fn is_ours(name: &str) -> bool {
    name.starts_with("PROVOST_") || name.starts_with("GIT_")
}

fn failed(what: &str, why: &std::io::Error) -> ApiError {
    ApiError::new(Code::Internal, format!("cannot {what}: {}", clean(&why.to_string())))
        .next("provost doctor")
}
