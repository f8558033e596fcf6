//! Git calls that write files, each under its own holder, keyed by the effect that makes it.
//!
//! A daemon that exits leaves such a call to its holder. The next daemon waits for all of them
//! before it uses git for anything that changes or reads a checkout, so that no two calls run at
//! the same time. After that the repository itself shows the result: every effect looks there
//! first.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use provost_core::shortage::Shortage;
use provost_git::{
    Git,
    command::Exit,
    long::{self, LongCall, LongCalls, LongEnd},
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
};

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
    torn: Torn,
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
            torn: Torn::default(),
            settled: Arc::default(),
        }
    }

    /// Does the work of an effect that writes files, once no call of an earlier daemon runs.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        effect: EffectName,
        work: impl FnOnce(&Git) -> T + Send + 'static,
    ) -> T {
        self.settled().await;
        let git = self.writing(effect).await;
        blocking_write(move || work(&git)).await
    }

    async fn writing(&self, mut effect: EffectName) -> Git {
        effect.key.push_str(KEY_END);
        let short = match self.effects.was_cut_off(&effect).await {
            Ok(true) => {
                self.torn.add(&effect);
                None
            }
            Err(why) if why.is_shortage() => Some(chain(&why)),
            Ok(false) | Err(_) => None,
        };
        let calls = HeldCalls {
            effects: self.effects.clone(),
            effect,
            program: self.program.clone(),
            runtime: Runtime::current(),
            torn: self.torn.clone(),
            short,
        };
        self.git.clone().with_long_calls(Arc::new(calls))
    }

    /// Returns git for an effect that reads a checkout, once no call of an earlier daemon runs.
    pub(crate) async fn settled(&self) -> Git {
        self.settled.get_or_init(|| self.outwait_earlier()).await;
        self.git.clone()
    }

    async fn outwait_earlier(&self) {
        let limit = long::TIME_LIMIT.as_millis() as u64;
        // A call that can neither be observed nor ended may be writing: nothing is done beside it.
        while self.effects.outwait_all(KEY_END, limit).await.is_err() {
            held::pause(LOOK_AGAIN).await;
        }
        let scratch = self.scratch.clone();
        held::blocking(move || long::sweep(&scratch)).await;
    }
}

/// The effects of which a call was cut off or ran out of space. Kept besides the records of the
/// calls, which an attempt that meets a shortage may remove before it repairs anything.
#[derive(Clone, Default)]
struct Torn {
    effects: Arc<Mutex<BTreeSet<String>>>,
}

impl Torn {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, effect: &EffectName) {
        self.lock().insert(effect.to_string());
    }

    fn has(&self, effect: &EffectName) -> bool {
        self.lock().contains(&effect.to_string())
    }
}

/// Runs the long calls of one effect, one after the other.
#[derive(Clone)]
struct HeldCalls {
    effects: Effects,
    effect: EffectName,
    program: PathBuf,
    runtime: Runtime,
    torn: Torn,
    /// Why it is unknown whether an earlier call was cut off. Nothing is written until it is known.
    short: Option<String>,
}

impl LongCalls for HeldCalls {
    fn run(&self, call: LongCall) -> LongEnd {
        if let Some(why) = &self.short {
            return LongEnd::NotStarted(why.clone());
        }
        let (calls, (sender, ended)) = (self.clone(), oneshot::channel());
        self.runtime.spawn(async move { drop(sender.send(calls.hold(call).await)) });
        // The runtime drops its tasks when the daemon exits.
        ended.blocking_recv().unwrap_or(LongEnd::Abandoned)
    }

    fn was_cut_off(&self) -> bool {
        self.torn.has(&self.effect)
    }
}

impl HeldCalls {
    async fn hold(&self, call: LongCall) -> LongEnd {
        failpoint::pass("git.before");
        // The caller has already examined the remains of a call that was cut off.
        if let Err(why) = self.effects.end_and_discard(&self.effect).await {
            return LongEnd::NotStarted(chain(&why));
        }
        let ran = self.effects.run_while_room(&self.effect, self.spec(call)).await;
        failpoint::pass("git.after");
        match ran {
            Ok(Ran { finished: Finished::Ended { exit }, dir }) => self.take(&exit, dir).await,
            Ok(Ran { finished: Finished::Uncertain(why), .. }) => {
                self.torn.add(&self.effect);
                if is_short(&why) { LongEnd::NoRoom(why) } else { LongEnd::CutOff(why) }
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

    /// Takes the result of a call that ended, and removes its record. The call is made again
    /// whenever it is needed.
    async fn take(&self, exit: &ExitRecord, dir: PathBuf) -> LongEnd {
        let end = match (exit.ended_by, &exit.end) {
            (EndedBy::Itself, End::Exited { code }) => {
                let stderr = held::blocking(move || printed(&dir)).await;
                if *code != 0 && is_short(&String::from_utf8_lossy(&stderr)) {
                    self.torn.add(&self.effect);
                }
                LongEnd::Exited { exit: Exit::Code(*code), stderr }
            }
            (_, End::NotStarted { error }) => LongEnd::NotStarted(error.clone()),
            // Its record stays until it is made again: it may have left a file half written.
            (_, End::Exited { .. } | End::Signalled { .. }) => {
                self.torn.add(&self.effect);
                return LongEnd::CutOff(exit.to_string());
            }
        };
        // A record that stays is removed before the next call.
        self.effects.discard(&self.effect).await.ok();
        end
    }
}

fn is_short(why: &str) -> bool {
    Shortage::from_text(why).is_some()
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
