//! Git calls that write files, each under its own holder, keyed by the effect that makes it.
//!
//! A daemon that exits leaves such a call to its holder. The next daemon waits for all of them
//! before it uses git for anything that changes or reads a checkout, so that no two calls run at
//! the same time. After that the repository itself shows the result: every effect looks there
//! first.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use provost_core::shortage::Shortage;
use provost_git::{
    Git,
    command::Exit,
    long::{self, CutOffCall, LongCall, LongCalls, LongEnd},
};
use provost_holder::{
    End, EndedBy, ExitRecord, HoldSpec, OnLimit,
    journal::{self, Channel, Opened, Reader},
};
use tokio::{
    runtime::Handle as Runtime,
    sync::{OnceCell, oneshot},
};

use super::{
    blocking::blocking_write,
    effects::{EffectName, Effects, Ran},
    executor::World,
    failpoint,
    held::{self, Finished, chain},
    shortage::{EarlierGit, Waits},
    start_record::CutOffStart,
};
use crate::stream::Subject;

/// The subcommand by which this program becomes a git that may execute nothing else. Only holders
/// call it.
pub const RUN_GIT: &str = "run-git";

/// The suffix of the key of a git call.
const KEY_END: &str = ".git";

/// How many bytes a call may print: a line for each conflicting file.
const OUTPUT_LIMIT: u64 = 64 << 20;

/// How many bytes of the end of that are kept.
const KEPT: usize = 64 << 10;

/// The wait before a call of an earlier daemon that could not be observed is tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Provides effects with a git whose long calls outlive the daemon.
#[derive(Clone)]
pub(crate) struct GitCalls {
    git: Git,
    effects: Effects,
    program: PathBuf,
    scratch: PathBuf,
    waits: Waits,
    /// Set once no call of an earlier daemon runs.
    settled: Arc<OnceCell<()>>,
}

impl GitCalls {
    pub(crate) fn new(world: &World, effects: &Effects) -> GitCalls {
        GitCalls {
            git: world.git.clone(),
            effects: effects.clone(),
            program: world.program.clone(),
            scratch: world.home.scratch(),
            waits: world.waits.clone(),
            settled: Arc::default(),
        }
    }

    /// Does the work of an effect that writes files, once no call of an earlier daemon runs.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        effect: EffectName,
        work: impl FnOnce(&Git) -> T + Send + 'static,
    ) -> T {
        self.settled(effect.owner.into()).await;
        let git = self.writing(effect).await;
        blocking_write(move || work(&git)).await
    }

    async fn writing(&self, mut effect: EffectName) -> Git {
        effect.key.push_str(KEY_END);
        let calls = HeldCalls {
            effects: self.effects.clone(),
            effect,
            program: self.program.clone(),
            runtime: Runtime::current(),
            cut_off: Arc::new(Mutex::new(Ok(Vec::new()))),
        };
        calls.take_cut_off().await;
        self.git.clone().with_long_calls(Arc::new(calls))
    }

    /// Returns git for an effect that depends on what is in a checkout, once no call of an earlier daemon runs. Until
    /// then its subject is shown as waiting.
    pub(crate) async fn settled(&self, subject: Subject) -> Git {
        let _shown = self.waits.for_git(subject);
        self.settled.get_or_init(|| self.outwait_earlier()).await;
        self.git.clone()
    }

    async fn outwait_earlier(&self) {
        let limit = long::TIME_LIMIT.as_millis() as u64;
        // A call that can neither be looked at nor ended may be writing: nothing is done beside it.
        let waiting = |pid| self.waits.set_earlier_git(Some(EarlierGit { pid }));
        while self.effects.outwait_all(KEY_END, limit, ended_cleanly, &waiting).await.is_err() {
            held::pause(LOOK_AGAIN).await;
        }
        self.waits.set_earlier_git(None);
        let scratch = self.scratch.clone();
        held::blocking(move || long::sweep(&scratch)).await;
    }
}

/// Runs the long calls of one effect, one after the other.
#[derive(Clone)]
struct HeldCalls {
    effects: Effects,
    effect: EffectName,
    program: PathBuf,
    runtime: Runtime,
    /// The calls that were cut off, as the start record has them; or why that is not known. Nothing is written before
    /// it is.
    cut_off: Arc<Mutex<Result<Vec<CutOffCall>, String>>>,
}

impl LongCalls for HeldCalls {
    fn run(&self, call: LongCall) -> LongEnd {
        if let Err(why) = self.known_cut_off() {
            return LongEnd::NotStarted(why);
        }
        let (calls, (sender, ended)) = (self.clone(), oneshot::channel());
        self.runtime.spawn(async move { drop(sender.send(calls.hold(call).await)) });
        // The runtime drops its tasks when the daemon exits.
        ended.blocking_recv().unwrap_or(LongEnd::Abandoned)
    }

    fn cut_off_calls(&self) -> Vec<CutOffCall> {
        self.known_cut_off().unwrap_or_default()
    }
}

impl HeldCalls {
    fn known_cut_off(&self) -> Result<Vec<CutOffCall>, String> {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes from the start record which calls were cut off.
    async fn take_cut_off(&self) {
        let found = match self.effects.cut_off(&self.effect, ended_cleanly).await {
            Ok(starts) => Ok(starts.into_iter().map(call_of).collect()),
            Err(why) if why.is_shortage() => Err(chain(&why)),
            Err(_) => return,
        };
        *self.cut_off.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    async fn hold(&self, call: LongCall) -> LongEnd {
        failpoint::pass("git.before");
        let ran = self.effects.run_anew(&self.effect, self.spec(call), ended_cleanly).await;
        failpoint::pass("git.after");
        match ran {
            Ok(Ran { finished: Finished::Ended { exit }, dir }) => self.take(&exit, dir).await,
            Ok(Ran { finished: Finished::Uncertain(why), .. }) => {
                self.take_cut_off().await;
                let is_short = Shortage::from_text(&why).is_some();
                if is_short { LongEnd::NoRoom(why) } else { LongEnd::CutOff(why) }
            }
            Err(why) => LongEnd::NotStarted(chain(&why)),
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
            time_limit_ms: Some(long::TIME_LIMIT.as_millis() as u64),
            ..HoldSpec::new(String::new(), argv, call.cwd)
        }
    }

    /// Takes the result of a call that ended. Its record is removed, as it is made anew whenever it is needed again;
    /// that a call was cut off stays recorded until one succeeds.
    async fn take(&self, exit: &ExitRecord, dir: PathBuf) -> LongEnd {
        let end = match (exit.ended_by, &exit.end) {
            (EndedBy::Itself, End::Exited { code }) => {
                let stderr = held::blocking(move || printed(&dir)).await;
                let ran_out = *code != 0 && ran_out(&stderr);
                let end = LongEnd::Exited { exit: Exit::Code(*code), stderr };
                if ran_out {
                    self.take_cut_off().await;
                    return end;
                }
                if *code == 0 {
                    // A record that stays is removed before the next call.
                    self.effects.discard(&self.effect).await.ok();
                    return end;
                }
                end
            }
            (_, End::NotStarted { error }) => LongEnd::NotStarted(error.clone()),
            (_, End::Exited { .. } | End::Signalled { .. }) => {
                self.take_cut_off().await;
                return LongEnd::CutOff(exit.to_string());
            }
        };
        self.effects.discard_clean(&self.effect).await.ok();
        end
    }
}

/// Whether a call left no file half written: git ended by itself, and it did not run out of room.
fn ended_cleanly(dir: &Path, exit: &ExitRecord) -> bool {
    match (exit.ended_by, &exit.end) {
        (_, End::NotStarted { .. }) | (EndedBy::Itself, End::Exited { code: 0 }) => true,
        (EndedBy::Itself, End::Exited { .. }) => !ran_out(&printed(dir)),
        (_, End::Exited { .. } | End::Signalled { .. }) => false,
    }
}

fn call_of(start: CutOffStart) -> CutOffCall {
    let time = |wall_ms| SystemTime::UNIX_EPOCH + Duration::from_millis(wall_ms);
    CutOffCall { began: time(start.started_wall_ms), ended: time(start.ended_wall_ms) }
}

/// Whether git ran out of something, by what it printed.
fn ran_out(stderr: &[u8]) -> bool {
    Shortage::from_git(&String::from_utf8_lossy(stderr)).is_some()
}

/// Returns the end of a call's standard error.
fn printed(dir: &Path) -> Vec<u8> {
    let Ok(Opened::At(reader)) = Reader::open(&dir.join(journal::JOURNAL_FILE), 0) else {
        return Vec::new();
    };
    let mut stderr = Vec::new();
    for frame in reader.flatten().filter(|frame| frame.channel == Channel::Stderr) {
        stderr.extend_from_slice(&frame.payload);
        stderr.drain(..stderr.len().saturating_sub(KEPT));
    }
    stderr
}
