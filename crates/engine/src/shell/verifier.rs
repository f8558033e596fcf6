//! Runs the command of a verifier for `provost monitor`. Like a check, it runs under a holder in `checks/`. Every
//! process that the command starts has the holder's mark in its environment and never counts as the operator.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use provost_core::verdict::CheckEnd;
use provost_holder::{
    HoldSpec, OnLimit,
    journal::{self, JournalChannel, JournalReader, OpenedJournal},
};

use provost_sys::error_chain;

use super::{
    check::check_end,
    engine_world::EngineWorld,
    start_record::StartRecord,
    supervised_command::{self, CommandEnd, OnFullDisk},
};

/// The time between TERM and KILL for a command that takes too long or writes too much.
const GRACE_MS: u64 = 500;

/// How many bytes from the end of each output stream to keep for finding the last line.
const TAIL: usize = 4 << 10;

/// A verifier's command.
#[derive(Clone, Debug)]
pub struct VerifierCommand {
    pub argv: Vec<String>,
    pub directory: PathBuf,
    /// The complete environment.
    pub environment: Vec<(String, String)>,
    pub time_limit: Duration,
    /// The maximum number of bytes on both output streams together.
    pub output_limit: u64,
}

/// The result of a verifier's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierEnd {
    pub end: CheckEnd,
    /// The last line that the command printed, on standard error if the command printed anything there, and otherwise
    /// on standard output.
    pub printed: String,
}

/// Runs a command to completion. The command is ended if `cancel` is set or its sender is dropped.
/// The key must be new.
pub async fn run_verifier(
    world: &EngineWorld,
    key: &str,
    command: VerifierCommand,
    mut cancel: tokio::sync::watch::Receiver<bool>,
) -> VerifierEnd {
    let output_limit = command.output_limit;
    let spec = HoldSpec {
        env: command.environment,
        output_limit,
        on_limit: OnLimit::End,
        time_limit_ms: Some(u64::try_from(command.time_limit.as_millis()).unwrap_or(u64::MAX)),
        grace_ms: GRACE_MS,
        ..HoldSpec::new(key.to_owned(), command.argv, command.directory)
    };
    // The start is recorded only in memory, because the request ends together with the daemon.
    let start = match StartRecord::for_effect(key.to_owned(), &spec) {
        Ok(start) => start,
        Err(why) => {
            let end = CheckEnd::Unfinished(format!("cannot name its directory: {why}"));
            return VerifierEnd { end, printed: String::new() };
        }
    };
    let dir = world.home.checks().join(start.directory());
    let spec = HoldSpec { key: start.directory(), ..spec };
    let finished = world.holders.run(&dir, spec, &start, OnFullDisk::Wait, &mut cancel).await;
    let end = match finished {
        Ok(CommandEnd::Ended { exit, .. }) => check_end(&exit),
        Ok(CommandEnd::Uncertain(why)) => CheckEnd::Unfinished(why),
        Err(why) => CheckEnd::Unfinished(error_chain(&why)),
    };
    let printed = supervised_command::blocking(move || {
        let printed = VerifierOutput::read(&dir.join(journal::JOURNAL_FILE));
        // Nothing refers to the directory, because the reply contains the result.
        std::fs::remove_dir_all(&dir).ok();
        printed
    });
    let VerifierOutput { last_line, bytes } = printed.await;
    // A command may exit on its own before its holder notices that it wrote too much.
    let end = if bytes > output_limit { CheckEnd::OutputLimit } else { end };
    VerifierEnd { end, printed: last_line }
}

/// The parts of a command's output that are needed.
#[derive(Debug, Default)]
struct VerifierOutput {
    /// The last line of standard error if there is one, because programs print there why they failed.
    last_line: String,
    bytes: u64,
}

impl VerifierOutput {
    fn read(journal: &Path) -> VerifierOutput {
        let Ok(OpenedJournal::Ready(reader)) = JournalReader::open(journal, 0) else {
            return VerifierOutput::default();
        };
        let (mut errors, mut output, mut bytes) = (Vec::new(), Vec::new(), 0);
        for frame in reader.flatten() {
            let tail = match frame.channel {
                JournalChannel::Stderr => &mut errors,
                JournalChannel::Stdout => &mut output,
                JournalChannel::Note | JournalChannel::Stdin => continue,
            };
            bytes += frame.payload.len() as u64;
            keep_tail(tail, &frame.payload);
        }
        let last_line = last_line(&errors).or_else(|| last_line(&output)).unwrap_or_default();
        VerifierOutput { last_line, bytes }
    }
}

fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(bytes);
    tail.drain(..tail.len().saturating_sub(TAIL));
}

fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map(str::to_owned)
}
