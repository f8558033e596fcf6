//! Git calls that write files. Each call runs under its own holder, and the key of the call is derived from the effect
//! that makes the call.
//!
//! When a daemon exits, the call continues under its holder. The next daemon waits for all of these calls before it
//! uses git for anything that changes or reads a checkout, so that no two calls run at the same time. Every effect
//! first checks the repository, so it finds the result of a call that has finished.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use provost_core::shortage::Shortage;
use provost_git::{
    Git,
    command::GitExit,
    long_call::{self, CutOffCall, LongCall, LongCallResult, LongCalls},
};
use provost_holder::{
    EndCause, ExitRecord, HoldSpec, OnLimit, ProcessEnd,
    journal::{self, JournalChannel, JournalReader, OpenedJournal},
};
use tokio::{
    runtime::Handle as Runtime,
    sync::{OnceCell, oneshot},
};

use provost_sys::error_chain;

use super::{
    blocking::blocking_write,
    effects::{EffectName, Effects, FinishedEffect},
    engine_world::EngineWorld,
    failpoint,
    shortage::{EarlierGit, ShortageWaits},
    start_record::CutOffStart,
    supervised_command::{self, CommandEnd},
};
use crate::stream::Subject;

/// The subcommand that turns this program into a git that cannot execute any other program. Only
/// holders call it.
pub const RUN_GIT: &str = "run-git";

/// The suffix of the keys of git calls.
const KEY_SUFFIX: &str = ".git";

/// Maximum number of bytes that a call may print. A merge prints a line for each conflicting file.
const OUTPUT_LIMIT: u64 = 64 << 20;

/// Maximum number of bytes to keep from the end of the output.
const KEPT_BYTES: usize = 64 << 10;

/// How long to wait before retrying to observe a call from an earlier daemon.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Provides effects with a git whose long calls outlive the daemon.
#[derive(Clone)]
pub(crate) struct GitCalls {
    git: Git,
    effects: Effects,
    program: PathBuf,
    scratch: PathBuf,
    waits: ShortageWaits,
    /// Set once no call from an earlier daemon is running anymore.
    settled: Arc<OnceCell<()>>,
}

impl GitCalls {
    pub(crate) fn new(world: &EngineWorld, effects: &Effects) -> GitCalls {
        GitCalls {
            git: world.git.clone(),
            effects: effects.clone(),
            program: world.program.clone(),
            scratch: world.home.scratch(),
            waits: world.waits.clone(),
            settled: Arc::default(),
        }
    }

    /// Carries out an effect that writes files, once no call from an earlier daemon is running anymore.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        effect: EffectName,
        work: impl FnOnce(&Git) -> T + Send + 'static,
    ) -> T {
        self.settled_git(effect.owner).await;
        let git = self.git_for_effect(effect).await;
        blocking_write(move || work(&git)).await
    }

    async fn git_for_effect(&self, mut effect: EffectName) -> Git {
        effect.key.push_str(KEY_SUFFIX);
        let calls = SupervisedCalls {
            effects: self.effects.clone(),
            effect,
            program: self.program.clone(),
            runtime: Runtime::current(),
            cut_off: Arc::new(Mutex::new(Ok(Vec::new()))),
        };
        calls.take_cut_off().await;
        self.git.clone().with_long_calls(Arc::new(calls))
    }

    /// Returns git for an effect that depends on the content of a checkout, once no call from an
    /// earlier daemon is running anymore. Until then, the effect's subject is shown as waiting.
    pub(crate) async fn settled_git(&self, subject: Subject) -> Git {
        let _shown = self.waits.for_git(subject);
        self.settled.get_or_init(|| self.wait_for_earlier_calls()).await;
        self.git.clone()
    }

    async fn wait_for_earlier_calls(&self) {
        let limit = long_call::TIME_LIMIT.as_millis() as u64;
        // A call that can be neither inspected nor ended may still be writing, so nothing else may
        // run next to it.
        let waiting = |pid| self.waits.set_earlier_git(Some(EarlierGit { pid }));
        while self.effects.wait_for_all(KEY_SUFFIX, limit, ended_cleanly, &waiting).await.is_err() {
            supervised_command::sleep(RETRY_DELAY).await;
        }
        self.waits.set_earlier_git(None);
        let scratch = self.scratch.clone();
        supervised_command::blocking(move || long_call::sweep(&scratch)).await;
    }
}

/// Runs the long calls of one effect, one after another.
#[derive(Clone)]
struct SupervisedCalls {
    effects: Effects,
    effect: EffectName,
    program: PathBuf,
    runtime: Runtime,
    /// The calls that were cut off according to the start record, or why these calls are unknown. As long as they are
    /// unknown, nothing is written.
    cut_off: Arc<Mutex<Result<Vec<CutOffCall>, String>>>,
}

impl LongCalls for SupervisedCalls {
    fn run(&self, call: LongCall) -> LongCallResult {
        if let Err(why) = self.known_cut_off() {
            return LongCallResult::NotStarted(why);
        }
        let (calls, (sender, ended)) = (self.clone(), oneshot::channel());
        self.runtime.spawn(async move { drop(sender.send(calls.run_supervised(call).await)) });
        // The runtime drops its tasks when the daemon exits.
        ended.blocking_recv().unwrap_or(LongCallResult::Abandoned)
    }

    fn cut_off_calls(&self) -> Vec<CutOffCall> {
        self.known_cut_off().unwrap_or_default()
    }
}

impl SupervisedCalls {
    fn known_cut_off(&self) -> Result<Vec<CutOffCall>, String> {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads from the start record which calls were cut off.
    async fn take_cut_off(&self) {
        let found = match self.effects.cut_off(&self.effect, ended_cleanly).await {
            Ok(starts) => Ok(starts.into_iter().map(call_of).collect()),
            Err(why) if why.is_shortage() => Err(error_chain(&why)),
            Err(_) => return,
        };
        *self.cut_off.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    async fn run_supervised(&self, call: LongCall) -> LongCallResult {
        failpoint::pass("git.before");
        let ran = self.effects.run_anew(&self.effect, self.spec(call), ended_cleanly).await;
        failpoint::pass("git.after");
        match ran {
            Ok(FinishedEffect { finished: CommandEnd::Ended { exit }, dir }) => {
                self.take_result(&exit, dir).await
            }
            Ok(FinishedEffect { finished: CommandEnd::Uncertain(why), .. }) => {
                self.take_cut_off().await;
                let is_short = Shortage::from_text(&why).is_some();
                if is_short {
                    LongCallResult::DiskFull(why)
                } else {
                    LongCallResult::Interrupted(why)
                }
            }
            Err(why) => LongCallResult::NotStarted(error_chain(&why)),
        }
    }

    fn spec(&self, call: LongCall) -> HoldSpec {
        let argv = match call.programs {
            None => call.argv,
            Some(programs) => {
                let own = [self.program.display().to_string(), RUN_GIT.to_owned()].into_iter();
                let allowed = programs.iter().map(|path| path.display().to_string());
                own.chain(allowed).chain(["--".to_owned()]).chain(call.argv).collect()
            }
        };
        HoldSpec {
            env: call.env,
            output_limit: OUTPUT_LIMIT,
            on_limit: OnLimit::End,
            time_limit_ms: Some(long_call::TIME_LIMIT.as_millis() as u64),
            ..HoldSpec::new(String::new(), argv, call.cwd)
        }
    }

    /// Handles the result of a call that has finished. Its record is removed, because a new one is created whenever the
    /// call is needed again. A call that was cut off stays recorded until another call succeeds.
    async fn take_result(&self, exit: &ExitRecord, dir: PathBuf) -> LongCallResult {
        let end = match (exit.ended_by, &exit.end) {
            (EndCause::Itself, ProcessEnd::Exited { code }) => {
                let stderr = supervised_command::blocking(move || read_stderr(&dir)).await;
                let ran_out = *code != 0 && ran_out(&stderr);
                let end = LongCallResult::Exited { exit: GitExit::Code(*code), stderr };
                if ran_out {
                    self.take_cut_off().await;
                    return end;
                }
                if *code == 0 {
                    // A record that is left here is removed before the next call.
                    self.effects.discard(&self.effect).await.ok();
                    return end;
                }
                end
            }
            (_, ProcessEnd::NotStarted { error }) => LongCallResult::NotStarted(error.clone()),
            (_, ProcessEnd::Exited { .. } | ProcessEnd::Signalled { .. }) => {
                self.take_cut_off().await;
                return LongCallResult::Interrupted(exit.to_string());
            }
        };
        self.effects.discard_clean(&self.effect).await.ok();
        end
    }
}

/// Whether a call left no half-written file, because git exited on its own and the disk was not
/// full.
fn ended_cleanly(dir: &Path, exit: &ExitRecord) -> bool {
    match (exit.ended_by, &exit.end) {
        (_, ProcessEnd::NotStarted { .. }) | (EndCause::Itself, ProcessEnd::Exited { code: 0 }) => {
            true
        }
        (EndCause::Itself, ProcessEnd::Exited { .. }) => !ran_out(&read_stderr(dir)),
        (_, ProcessEnd::Exited { .. } | ProcessEnd::Signalled { .. }) => false,
    }
}

fn call_of(start: CutOffStart) -> CutOffCall {
    let time = |wall_ms| SystemTime::UNIX_EPOCH + Duration::from_millis(wall_ms);
    CutOffCall { began: time(start.started_wall_ms), ended: time(start.ended_wall_ms) }
}

/// Whether git's output shows that a resource was short.
fn ran_out(stderr: &[u8]) -> bool {
    Shortage::from_git(&String::from_utf8_lossy(stderr)).is_some()
}

/// Returns the end of a call's standard error.
fn read_stderr(dir: &Path) -> Vec<u8> {
    let Ok(OpenedJournal::Ready(reader)) = JournalReader::open(&dir.join(journal::JOURNAL_FILE), 0)
    else {
        return Vec::new();
    };
    let mut stderr = Vec::new();
    for frame in reader.flatten().filter(|frame| frame.channel == JournalChannel::Stderr) {
        stderr.extend_from_slice(&frame.payload);
        stderr.drain(..stderr.len().saturating_sub(KEPT_BYTES));
    }
    stderr
}
