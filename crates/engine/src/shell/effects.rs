//! Runs the external commands of effects, each only once: checks, hooks, setups, pushes and calls
//! of `gh`.
//!
//! All of them go through [`Effects::run`]. A result counts only if Provost recorded the start
//! beforehand, and if the holder that was started for it wrote the result.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use provost_core::{ids::LaunchId, run, session, shortage::Shortage};
use provost_holder::{EndCause, ExitRecord, HoldSpec, LaunchState, ProcessEnd};
use tokio::sync::watch;

use super::{
    clock::wall_ms,
    handle::{Observation, ObservationSender},
    home::Home,
    start_record::{CutOffStart, LoadedRecord, StartRecord, StartRecords},
    supervised_command::{self, CommandEnd, Error, Holders, OnFullDisk, SURVIVOR_GRACE},
};

use crate::stream::Subject;

/// Whether a command completed its work, judging by its exit record and the directory of its holder.
type EndedCleanly = fn(&Path, &ExitRecord) -> bool;

/// An effect that runs an external command.
#[derive(Clone, Debug)]
pub(crate) struct EffectName {
    pub(crate) owner: Subject,
    pub(crate) key: String,
}

impl EffectName {
    pub(crate) fn new(owner: impl Into<Subject>, key: impl Into<String>) -> EffectName {
        EffectName { owner: owner.into(), key: key.into() }
    }

    fn name(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for EffectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.owner, self.key)
    }
}

/// A finished effect, and the directory of its holder.
#[derive(Debug)]
pub(crate) struct FinishedEffect {
    pub(crate) finished: CommandEnd,
    pub(crate) dir: PathBuf,
}

/// Runs the commands of effects.
#[derive(Clone)]
pub(crate) struct Effects {
    home: Home,
    records: StartRecords,
    holders: Holders,
    observations: ObservationSender,
}

impl Effects {
    pub(crate) fn new(
        home: &Home,
        key: &[u8; 32],
        holders: &Holders,
        observations: &ObservationSender,
    ) -> Effects {
        Effects {
            home: home.clone(),
            records: StartRecords::new(home, key),
            holders: holders.clone(),
            observations: observations.clone(),
        }
    }

    /// Returns the directory of an effect that Provost started, or was about to start.
    pub(crate) async fn started(&self, effect: &EffectName) -> Result<Option<PathBuf>, Error> {
        let record = self.load_record(effect).await?;
        Ok(record.map(|record| self.directory(&record)))
    }

    /// Like [`Effects::started`], but for callers that may block. A forged record counts as missing.
    pub(crate) fn started_blocking(&self, effect: &EffectName) -> Option<PathBuf> {
        match self.records.load(&effect.name()) {
            Ok(LoadedRecord::Valid(record)) => Some(self.directory(&record)),
            Ok(LoadedRecord::Missing | LoadedRecord::Forged) | Err(_) => None,
        }
    }

    /// Runs the command of an effect to completion. If it was already started, continues from
    /// there. `cancel` ends the command.
    pub(crate) async fn run(
        &self,
        effect: &EffectName,
        spec: HoldSpec,
        cancel: &mut watch::Receiver<bool>,
    ) -> Result<FinishedEffect, Error> {
        self.run_with(effect, spec, OnFullDisk::Wait, cancel).await
    }

    /// Runs a command that starts over on every try and may itself fill up the disk. If the disk is
    /// full, the command is ended instead of being made to wait, and its result is uncertain.
    /// Processes of an earlier try are ended, and the record keeps the information that the try was
    /// cut off.
    pub(crate) async fn run_anew(
        &self,
        effect: &EffectName,
        spec: HoldSpec,
        ended_cleanly: EndedCleanly,
    ) -> Result<FinishedEffect, Error> {
        if let Some(record) = self.load_record(effect).await? {
            supervised_command::end_all_processes(
                &self.holders.traces(&self.directory(&record)),
                SURVIVOR_GRACE,
            )
            .await?;
            let record = self.with_cut_off(record, ended_cleanly).await?;
            if record.cut_off.is_empty() {
                self.remove(record).await?;
            } else {
                self.replace(record, &spec).await?;
            }
        }
        let (_never, mut cancel) = watch::channel(false);
        self.run_with(effect, spec, OnFullDisk::End, &mut cancel).await
    }

    /// Replaces the record of a start that was cut off with the record of a new start, without ever
    /// losing the fact that the earlier one was cut off.
    async fn replace(&self, record: StartRecord, spec: &HoldSpec) -> Result<StartRecord, Error> {
        let record = self.store(record).await?;
        self.remove_unstarted(&self.directory(&record)).await?;
        let new = StartRecord::for_effect(record.name, spec);
        let mut new = new.map_err(|why| Error::Record(why.to_string()))?;
        new.cut_off = record.cut_off;
        self.store(new).await
    }

    /// Marks the start in this record as cut off, if it was cut off. The processes of the start must have ended.
    async fn with_cut_off(
        &self,
        mut record: StartRecord,
        ended_cleanly: EndedCleanly,
    ) -> Result<StartRecord, Error> {
        let dir = self.directory(&record);
        let ended_wall_ms = match supervised_command::read_launch(&dir).await? {
            LaunchState::Absent => return Ok(record),
            LaunchState::Ended { exit, .. } => {
                let wall_ms = exit.wall_ms;
                if supervised_command::blocking(move || ended_cleanly(&dir, &exit)).await {
                    return Ok(record);
                }
                // Include the last millisecond.
                wall_ms.saturating_add(1)
            }
            LaunchState::Starting { .. }
            | LaunchState::Alive { .. }
            | LaunchState::HolderDied { .. }
            | LaunchState::OtherBoot { .. } => wall_ms(),
        };
        let started_wall_ms = record.started_wall_ms;
        record.add_cut_off(CutOffStart { started_wall_ms, ended_wall_ms });
        Ok(record)
    }

    async fn run_with(
        &self,
        effect: &EffectName,
        spec: HoldSpec,
        on_full_disk: OnFullDisk,
        cancel: &mut watch::Receiver<bool>,
    ) -> Result<FinishedEffect, Error> {
        let record = match self.load_record(effect).await? {
            Some(record) => self.restart(record, &spec).await?,
            None => self.start(effect, &spec).await?,
        };
        let dir = self.directory(&record);
        if !record.has_argv(&spec.argv) {
            let why = "it was started with a different command".to_owned();
            return Ok(FinishedEffect { finished: CommandEnd::Uncertain(why), dir });
        }
        let spec = HoldSpec { key: record.directory(), ..spec };
        match self.holders.run(&dir, spec, &record, on_full_disk, cancel).await {
            Ok(CommandEnd::Ended {
                exit: ExitRecord { end: ProcessEnd::NotStarted { error }, .. },
            }) if Shortage::from_text(&error).is_some() => {
                self.remove_unstarted(&dir).await?;
                Err(Error::Start(error))
            }
            Err(why @ Error::Start(_)) if why.is_shortage() => {
                self.remove_unstarted(&dir).await?;
                Err(why)
            }
            finished => Ok(FinishedEffect { finished: finished?, dir }),
        }
    }

    /// Removes the directory of a command that was not started because of a shortage, so that the
    /// next attempt can use it.
    async fn remove_unstarted(&self, dir: &Path) -> Result<(), Error> {
        supervised_command::end_all_processes(&self.holders.traces(dir), SURVIVOR_GRACE).await?;
        let dir = dir.to_owned();
        let removed = supervised_command::blocking(move || match std::fs::remove_dir_all(&dir) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
            Ok(()) | Err(_) => Ok(()),
        });
        removed.await.map_err(|why| Error::Record(why.to_string()))
    }

    /// Waits until a command that was already started has finished. Does not start anything.
    pub(crate) async fn wait_for_end(&self, effect: &EffectName, limit_ms: u64) {
        let Ok(Some(record)) = self.load_record(effect).await else { return };
        let dir = self.directory(&record);
        let there = dir.clone();
        if supervised_command::blocking(move || there.exists()).await {
            // Only the state afterwards matters, not the result.
            drop(self.holders.wait_for_end(&dir, &record, limit_ms, OnFullDisk::Wait).await);
        }
    }

    /// Waits until all commands that an earlier daemon started under a key with this suffix have ended. Commands that
    /// were cut off stay recorded; the records of the other commands are removed. None of these commands waits for free
    /// disk space: see [`Effects::run_anew`]. `waiting` receives the process of each command before this function waits
    /// for the command.
    pub(crate) async fn wait_for_all(
        &self,
        key_end: &str,
        limit_ms: u64,
        ended_cleanly: EndedCleanly,
        waiting: &(dyn Fn(Option<u32>) + Sync),
    ) -> Result<(), Error> {
        let (records, key_end) = (self.records.clone(), key_end.to_owned());
        let names = supervised_command::blocking(move || records.names(&key_end)).await;
        for name in names.map_err(|why| Error::Record(why.to_string()))? {
            let records = self.records.clone();
            let loaded = supervised_command::blocking(move || records.load(&name)).await;
            // A forged record is moved aside later, when its effect is carried out.
            let Ok(LoadedRecord::Valid(record)) = loaded else { continue };
            let dir = self.directory(&record);
            let found = supervised_command::read_launch(&dir).await;
            waiting(found.as_ref().ok().and_then(child_pid));
            if found? == LaunchState::Absent {
                // A holder may be starting. A holder that is ended before it has created its directory has not started
                // a command.
                supervised_command::end_all_processes(&self.holders.traces(&dir), SURVIVOR_GRACE)
                    .await?;
            }
            let has_remains = !record.cut_off.is_empty();
            let done = if supervised_command::read_launch(&dir).await? == LaunchState::Absent {
                !has_remains
            } else {
                match self.holders.wait_for_end(&dir, &record, limit_ms, OnFullDisk::End).await? {
                    CommandEnd::Ended { exit } => {
                        let succeeded = has_succeeded(&exit);
                        succeeded
                            || !has_remains
                                && supervised_command::blocking({
                                    let dir = dir.clone();
                                    move || ended_cleanly(&dir, &exit)
                                })
                                .await
                    }
                    CommandEnd::Uncertain(_) => false,
                }
            };
            if done {
                self.remove(record).await?;
            } else {
                // The command has either finished by now or is ended here, so that it does not run
                // alongside later commands.
                supervised_command::end_all_processes(&self.holders.traces(&dir), SURVIVOR_GRACE)
                    .await?;
            }
        }
        Ok(())
    }

    /// Returns the starts of an effect's command that were cut off since it last succeeded. The processes of the
    /// command must have ended.
    pub(crate) async fn cut_off(
        &self,
        effect: &EffectName,
        ended_cleanly: EndedCleanly,
    ) -> Result<Vec<CutOffStart>, Error> {
        let Some(record) = self.load_record(effect).await? else { return Ok(Vec::new()) };
        Ok(self.with_cut_off(record, ended_cleanly).await?.cut_off)
    }

    /// Removes the record of a command that finished cleanly, unless the record also lists an
    /// earlier start that was cut off.
    pub(crate) async fn discard_clean(&self, effect: &EffectName) -> Result<(), Error> {
        match self.load_record(effect).await? {
            Some(record) if record.cut_off.is_empty() => self.remove(record).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Removes the record and the directory of an effect, so that it can run again.
    pub(crate) async fn discard(&self, effect: &EffectName) -> Result<(), Error> {
        match self.load_record(effect).await? {
            Some(record) => self.remove(record).await,
            None => Ok(()),
        }
    }

    async fn remove(&self, record: StartRecord) -> Result<(), Error> {
        let (records, dir) = (self.records.clone(), self.directory(&record));
        let removed = supervised_command::blocking(move || {
            match std::fs::remove_dir_all(&dir) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                Ok(()) | Err(_) => {}
            }
            records.remove(&record.name)
        });
        removed.await.map_err(|why| Error::Record(why.to_string()))
    }

    /// Verifies that a launch directory with records belongs to Provost before it is used.
    pub(crate) async fn verify_launch(&self, launch: LaunchId) -> Result<(), Error> {
        let (records, dir, name) =
            (self.records.clone(), self.home.launch(launch), launch.to_string());
        let moved = supervised_command::blocking(move || -> io::Result<Option<PathBuf>> {
            if let LoadedRecord::Valid(_) = records.load(&name)? {
                return Ok(None);
            }
            // An empty directory blocks the start of a launch that was stopped before it started.
            let is_empty = match std::fs::read_dir(&dir) {
                Ok(mut entries) => entries.next().is_none(),
                Err(why) if why.kind() == io::ErrorKind::NotFound => true,
                // During a shortage, it is unknown who wrote the directory.
                Err(why) if Shortage::from_text(&why.to_string()).is_some() => return Err(why),
                Err(_) => false,
            };
            if is_empty { Ok(None) } else { records.move_aside(&dir).map(Some) }
        });
        if let Some(moved) = moved.await.map_err(|why| Error::Record(why.to_string()))? {
            let effect = EffectName::new(launch.session, format!("l{}", launch.no));
            self.report_forged(&effect, moved).await;
        }
        Ok(())
    }

    /// Records that a launch is about to start.
    pub(crate) async fn begin_launch(
        &self,
        launch: LaunchId,
        spec: &HoldSpec,
    ) -> Result<(), Error> {
        let record = StartRecord::for_launch(launch.to_string(), spec);
        self.store(record).await.map(drop)
    }

    /// Whether a launch's record matches the command with which it was started.
    pub(crate) async fn matches_launch(
        &self,
        launch: LaunchId,
        held: &provost_holder::HeldRecord,
    ) -> bool {
        let (records, name) = (self.records.clone(), launch.to_string());
        match supervised_command::blocking(move || records.load(&name)).await {
            Ok(LoadedRecord::Valid(record)) => record.matches(held),
            Ok(LoadedRecord::Missing | LoadedRecord::Forged) | Err(_) => false,
        }
    }

    fn directory(&self, record: &StartRecord) -> PathBuf {
        self.home.checks().join(record.directory())
    }

    /// Reads the start record of an effect. If Provost did not write the record, it is moved aside.
    async fn load_record(&self, effect: &EffectName) -> Result<Option<StartRecord>, Error> {
        let (records, name) = (self.records.clone(), effect.name());
        let found = supervised_command::blocking(move || match records.load(&name)? {
            LoadedRecord::Missing => Ok((None, None)),
            LoadedRecord::Valid(record) => Ok((Some(record), None)),
            LoadedRecord::Forged => {
                records.move_record_aside(&name).map(|moved| (None, Some(moved)))
            }
        });
        let found: io::Result<_> = found.await;
        let (record, moved) = found.map_err(|why| Error::Record(why.to_string()))?;
        if let Some(moved) = moved {
            self.report_forged(effect, moved).await;
        }
        Ok(record)
    }

    /// Records a new start. Existing directories with this name do not belong to Provost and are
    /// moved aside.
    async fn start(&self, effect: &EffectName, spec: &HoldSpec) -> Result<StartRecord, Error> {
        let (records, name) = (self.records.clone(), effect.name());
        let moved =
            supervised_command::blocking(move || records.move_directories_aside(&name)).await;
        for moved in moved.map_err(|why| Error::Record(why.to_string()))? {
            self.report_forged(effect, moved).await;
        }
        let record = StartRecord::for_effect(effect.name(), spec);
        self.store(record.map_err(|why| Error::Record(why.to_string()))?).await
    }

    /// Continues a start that a crash interrupted, perhaps before the holder created its directory.
    /// The name stays the same, so that the new holder and one that is still starting cannot both
    /// run.
    async fn restart(
        &self,
        mut record: StartRecord,
        spec: &HoldSpec,
    ) -> Result<StartRecord, Error> {
        let dir = self.directory(&record);
        let absent = supervised_command::blocking(move || !dir.exists()).await;
        if absent && record.add_cwd(&spec.cwd) { self.store(record).await } else { Ok(record) }
    }

    async fn store(&self, record: StartRecord) -> Result<StartRecord, Error> {
        let records = self.records.clone();
        let stored =
            supervised_command::blocking(move || records.store(&record).map(|()| record)).await;
        stored.map_err(|why| Error::Record(why.to_string()))
    }

    async fn report_forged(&self, effect: &EffectName, moved: PathBuf) {
        let (effect, owner) = (effect.key.clone(), effect.owner);
        let moved_to = moved.display().to_string();
        match owner {
            Subject::Session(session) => {
                let command = session::SessionCommand::RecordForged { effect, moved_to };
                self.observations.send(session, command).await;
            }
            Subject::Run(run) => {
                let command = run::RunCommand::RecordForged { effect, moved_to };
                self.observations.observe(Observation::Run(run, command)).await;
            }
            // The ledger has no team event for a forged record, but the record that was moved aside is evidence of the
            // forgery.
            Subject::Team(_) => {}
        }
    }
}

/// Returns the pid of a command, if its holder recorded it.
fn child_pid(found: &LaunchState) -> Option<u32> {
    match found {
        LaunchState::Alive { held } => Some(held.child.pid),
        LaunchState::Ended { held, .. } | LaunchState::HolderDied { held, .. } => {
            held.as_ref().map(|held| held.child.pid)
        }
        LaunchState::Absent | LaunchState::Starting { .. } | LaunchState::OtherBoot { .. } => None,
    }
}

fn has_succeeded(exit: &ExitRecord) -> bool {
    exit.ended_by == EndCause::Itself && exit.end == ProcessEnd::Exited { code: 0 }
}
