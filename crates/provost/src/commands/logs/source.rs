//! Reads frames from a journal, and keeps following it while the holder that writes it is running.

use std::path::{Path, PathBuf};

use provost_api::{ApiError, ErrorCode};
use provost_holder::{
    HeldRecord, HolderLink, LaunchState, inspect,
    journal::{JournalFrame, JournalReader, OpenedJournal},
    wire::{HolderNotice, HolderOp},
};

use crate::error::chain;

/// The name of the journal file in the directory of a launch.
const JOURNAL: &str = "journal";

/// The journal of one launch, which is read from its beginning.
pub(super) struct JournalSource {
    dir: PathBuf,
    /// The label of the launch in JSON output, such as `l1` or `check1`.
    pub(super) label: String,
    reader: Option<JournalReader>,
    started: Option<ClockOrigin>,
}

/// A moment for which both the monotonic and the wall-clock time are known.
#[derive(Clone, Copy)]
struct ClockOrigin {
    wall_ms: i64,
    mono_ms: u64,
}

/// A connection to the holder, over which the holder reports new output. None if the holder is not running.
pub(super) struct HolderFollower(Option<HolderLink>);

impl JournalSource {
    pub(super) fn new(dir: &Path, label: String) -> Self {
        JournalSource { dir: dir.to_owned(), label, reader: None, started: None }
    }

    /// Whether the journal exists. An empty journal means that the command has not printed
    /// anything.
    pub(super) fn exists(&self) -> bool {
        self.reader.is_some() || self.dir.join(JOURNAL).exists()
    }

    /// Returns the next frame, or `None` if the frame or the journal does not exist yet.
    pub(super) fn next(&mut self) -> Result<Option<JournalFrame>, ApiError> {
        if self.reader.is_none() {
            self.reader = open(&self.dir.join(JOURNAL))?;
        }
        let frame = self.reader.as_mut().and_then(Iterator::next).transpose();
        frame.map_err(|why| chain(ErrorCode::Storage, "cannot read the output", &why))
    }

    /// Returns the wall-clock time of a frame, in milliseconds since the epoch.
    pub(super) fn at_ms(&mut self, frame: &JournalFrame) -> Option<i64> {
        if self.started.is_none() {
            self.started = started(&self.dir);
        }
        let started = self.started?;
        let since = i64::try_from(frame.mono_ms).ok()? - i64::try_from(started.mono_ms).ok()?;
        Some(started.wall_ms.saturating_add(since))
    }

    /// Subscribes to the holder's notifications about new output.
    pub(super) fn follow(&self) -> HolderFollower {
        let link = HolderLink::connect(&self.dir).ok();
        let following = link.and_then(|mut link| {
            link.request(HolderOp::Follow).ok()?;
            Some(link)
        });
        HolderFollower(following)
    }
}

impl HolderFollower {
    /// Whether the holder is running. If so, there may be more output.
    pub(super) fn is_live(&self) -> bool {
        self.0.is_some()
    }

    /// Waits for more output. Returns `false` if there will be none.
    pub(super) fn wait(&mut self) -> bool {
        let notice = self.0.as_mut().and_then(|link| link.notice().ok());
        match notice {
            Some(
                HolderNotice::Journal { .. }
                | HolderNotice::Limit { .. }
                | HolderNotice::Viewers { .. }
                | HolderNotice::Suspended { .. }
                | HolderNotice::Exited,
            ) => true,
            Some(HolderNotice::Gone) | None => false,
        }
    }
}

fn open(journal: &Path) -> Result<Option<JournalReader>, ApiError> {
    match JournalReader::open(journal, 0) {
        Ok(OpenedJournal::Ready(reader)) => Ok(Some(reader)),
        Ok(OpenedJournal::Lost { .. }) => Ok(None),
        Err(provost_holder::journal::Error::Io(why))
            if why.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(why) => Err(chain(ErrorCode::Storage, "cannot open the output", &why)),
    }
}

fn started(dir: &Path) -> Option<ClockOrigin> {
    let held = match inspect(dir).ok()? {
        LaunchState::Alive { held } => Some(held),
        LaunchState::Ended { held, .. }
        | LaunchState::HolderDied { held, .. }
        | LaunchState::OtherBoot { held, .. } => held,
        LaunchState::Absent | LaunchState::Starting { .. } => None,
    };
    held.and_then(|held: HeldRecord| {
        Some(ClockOrigin {
            wall_ms: held.started_wall_ms.try_into().ok()?,
            mono_ms: held.started_mono_ms,
        })
    })
}
