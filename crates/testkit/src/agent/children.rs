//! Grandchildren that try to outlive or to escape the agent. They run this same program in another
//! role.
//!
//! Each grandchild prints its pid on its stderr, a pipe to the agent, once the grandchild is set
//! up. A scenario's next step therefore starts only when the grandchild is in its requested state.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::args::GRANDCHILD;
use super::play::MAX_LIFE;
use super::{Error, files};
use crate::clock::pause;
use crate::scenario::{GrandchildKind, SpawnStep, render};

/// A shell line that starts a program with TERM ignored. An ignored signal stays ignored across
/// `exec`.
const TRAP_TERM: &str = r#"trap "" TERM; exec "$@""#;

/// The settings of a grandchild.
pub(super) struct Grandchild {
    pub(super) stance: GrandchildMode,
    pub(super) life: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrandchildMode {
    Sleep,
    Setsid,
    /// The intermediate process: starts the real grandchild and exits immediately.
    Middle,
}

/// Starts the grandchildren and waits until each is set up.
pub(super) fn spawn(
    spawn: &SpawnStep,
    known: &BTreeMap<String, String>,
) -> Result<Vec<Child>, Error> {
    let mut children = Vec::new();
    for _ in 0..spawn.count {
        let (pid, child) = spawn_one(spawn.kind, spawn.life())?;
        children.extend(child);
        if let Some(path) = &spawn.pids {
            files::append(&render(path, known), &format!("{pid}\n"))?;
        }
    }
    Ok(children)
}

/// Runs a grandchild.
pub(super) fn run_grandchild(grandchild: &Grandchild) -> Result<(), Error> {
    match grandchild.stance {
        GrandchildMode::Middle => return start_orphan(grandchild.life),
        GrandchildMode::Setsid => {
            rustix::process::setsid()
                .map_err(|error| Error::io("leave the process session")(error.into()))?;
        }
        GrandchildMode::Sleep => {}
    }
    io::stderr()
        .write_all(format!("{}\n", std::process::id()).as_bytes())
        .map_err(Error::io("print the pid"))?;
    pause(grandchild.life.min(MAX_LIFE));
    Ok(())
}

/// Returns a command for this program with these arguments and with TERM ignored.
pub(super) fn ignoring_term<S: AsRef<OsStr>>(args: &[S]) -> Result<Command, Error> {
    let this = std::env::current_exe().map_err(Error::io("find its own program"))?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", TRAP_TERM, "sh"]).arg(this).args(args);
    Ok(command)
}

/// Starts one grandchild. Returns its pid, and its handle if it is a child of this process.
fn spawn_one(kind: GrandchildKind, life: Duration) -> Result<(u32, Option<Child>), Error> {
    let mut command = command(kind, life)?;
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command.stdout(if kind == GrandchildKind::HoldStdout {
        Stdio::inherit()
    } else {
        Stdio::null()
    });
    let mut child = command.spawn().map_err(Error::io("start a grandchild"))?;
    let pid = read_pid(&mut child)?;
    if kind == GrandchildKind::DoubleFork {
        child.wait().map_err(Error::io("reap the intermediate process"))?;
        return Ok((pid, None));
    }
    Ok((pid, Some(child)))
}

fn command(kind: GrandchildKind, life: Duration) -> Result<Command, Error> {
    let stance = match kind {
        GrandchildKind::Sleep | GrandchildKind::IgnoreTerm | GrandchildKind::HoldStdout => {
            GrandchildMode::Sleep
        }
        GrandchildKind::Setsid => GrandchildMode::Setsid,
        GrandchildKind::DoubleFork => GrandchildMode::Middle,
    };
    let args = [GRANDCHILD.to_owned(), stance.name().to_owned(), life.as_secs().to_string()];
    if kind == GrandchildKind::IgnoreTerm {
        return ignoring_term(&args);
    }
    let mut command =
        Command::new(std::env::current_exe().map_err(Error::io("find its own program"))?);
    command.args(args);
    Ok(command)
}

fn read_pid(child: &mut Child) -> Result<u32, Error> {
    let mut line = String::new();
    if let Some(stderr) = child.stderr.take() {
        BufReader::new(stderr).read_line(&mut line).map_err(Error::io("read from a grandchild"))?;
    }
    line.trim()
        .parse()
        .map_err(|_| Error::Step(format!("start a grandchild: it said `{}`", line.trim())))
}

/// Starts the real grandchild, which prints its pid on the same pipe, and detaches it.
fn start_orphan(life: Duration) -> Result<(), Error> {
    let orphan =
        command(GrandchildKind::Sleep, life)?.spawn().map_err(Error::io("start an orphan"))?;
    drop(orphan);
    Ok(())
}

impl GrandchildMode {
    const ALL: [Self; 3] = [Self::Sleep, Self::Setsid, Self::Middle];

    fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Setsid => "setsid",
            Self::Middle => "middle",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stance| stance.name() == name)
    }
}
