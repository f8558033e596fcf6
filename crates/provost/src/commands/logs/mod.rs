//! `provost logs`

mod hook;
mod run;
mod show;
mod sink;
mod source;

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use provost_agent::MessageRenderer;
use provost_api::{ApiError, CheckRow, ErrorCode, LaunchPhaseName, SessionRow, SetupResultName};
use provost_core::lifecycle::Flag;
use provost_engine::shell::output_directory;

use self::{
    show::{ChannelFilter, LinePrinter, LineStyle},
    sink::{LineFilter, LineSink},
    source::JournalSource,
};
use super::{
    mutation::{launch_advice, launch_failure, next_commands, setup_failed},
    past_time::{PastTime, parse_past_time},
};
use crate::{
    adapters::adapters,
    cli::CliResult,
    clock,
    context::Context,
    error::Error,
    follow::{self, EventFilter, EventFollower},
    home::ProvostHome,
    target::{self, SessionOrRun},
    ui,
};

/// Show the output of a session's or run's processes
///
/// By default, output is made readable: Codex's protocol is converted to text, its routine log
/// lines are hidden, colors are removed, and control characters are escaped. Input is shown only as
/// "→ KEY (N bytes)". --raw prints all output unchanged. With --json, each line is an object
/// {at_ms, channel, text, launch} that contains the original line.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost logs 1a2b3c4d\n  provost logs 1a2b3c4d -f --tail 20\n  provost logs 1a2b3c4d --since 10m --timestamps\n  provost logs fixer --check 1\n  provost logs limiter --verification 2\n  provost logs fixer --setup\n  provost logs fixer --hook session.failed\n  provost logs fixer --launch 2 --stderr"
)]
pub(crate) struct LogsArgs {
    /// Session or run ID or name
    id: String,
    /// Wait for more output, including that of later launches and sessions, until the outcome is
    /// final; then show the outcome
    #[arg(short, long)]
    follow: bool,
    /// Only the last N lines; for a run, the last N lines of each session
    #[arg(long, value_name = "N", conflicts_with = "raw")]
    tail: Option<usize>,
    /// Only output since a time: an age such as 10m, or a local time such as 14:30 or "2026-02-28 14:30"
    #[arg(long, value_name = "DURATION|TIME", value_parser = parse_past_time)]
    since: Option<PastTime>,
    /// Start each line with the local time at which it was written
    #[arg(long, conflicts_with_all = ["raw", "json"])]
    timestamps: bool,
    /// Show the output of the N-th check instead
    #[arg(long, value_name = "N", conflicts_with_all = ["follow", "launch"])]
    check: Option<usize>,
    /// Show the output of a run's N-th merge check instead. If the merge check has several
    /// commands, --check selects one of them [default: the last command that ran]
    #[arg(long, value_name = "N", conflicts_with_all = ["follow", "launch", "setup"])]
    verification: Option<u32>,
    /// Show the output of the worktree's setup command instead
    #[arg(long, conflicts_with_all = ["follow", "launch", "check"])]
    setup: bool,
    /// Show the output of a hook instead. HOOK is its number in `status --json`, or an event, which
    /// selects the newest hook for that event [default: the newest failed hook]
    #[arg(
        long,
        value_name = "N|EVENT",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["follow", "launch", "check", "verification", "setup"]
    )]
    hook: Option<String>,
    /// Only the N-th launch
    #[arg(long, value_name = "N")]
    launch: Option<usize>,
    /// Only standard output
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only standard error
    #[arg(long)]
    stderr: bool,
    /// Print the original bytes, which may contain terminal control sequences
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

pub(crate) fn run(context: &Context, args: &LogsArgs) -> CliResult {
    let home = context.trusted_home()?;
    let found = context.find_session_or_run(&args.id)?;
    let client = context.daemon()?;
    let filter = LineFilter {
        tail: args.tail,
        since_ms: args.since.map(|since| since.at_ms(clock::now_ms())),
        timestamps: args.timestamps,
    };
    let sink = LineSink::new(filter, clock::local_zone());
    let shown = LinePrinter::new(channels(args), style(context, args), sink);
    let mut logs = Logs { context, home, shown, missing: Vec::new() };
    match found {
        SessionOrRun::Session(row) => logs.of_session(args, &row)?,
        SessionOrRun::Run(row) => run::show(&mut logs, args, &client, &row)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn channels(args: &LogsArgs) -> ChannelFilter {
    match (args.stdout, args.stderr) {
        (true, _) => ChannelFilter::Stdout,
        (false, true) => ChannelFilter::Stderr,
        (false, false) => ChannelFilter::All,
    }
}

fn style(context: &Context, args: &LogsArgs) -> LineStyle {
    match (context.ui.json, args.raw) {
        (true, _) => LineStyle::Json,
        (false, true) => LineStyle::Raw,
        (false, false) => LineStyle::People,
    }
}

struct Logs<'a> {
    context: &'a Context,
    home: ProvostHome,
    shown: LinePrinter,
    /// Descriptions of commands that ran but have no journal.
    missing: Vec<String>,
}

/// Returns the error for an adopted agent, whose output goes to its own terminal.
fn no_output_here(row: &SessionRow) -> ApiError {
    let id = ui::short_id(&row.id);
    let message = format!(
        "session {id} has no output here, because its agent prints to its own \
        terminal"
    );
    let screen = if row.terminal { None } else { row.screen.clone() };
    let error = ApiError::new(ErrorCode::Refused, message);
    screen.into_iter().chain([format!("provost events {id}")]).fold(error, ApiError::next)
}

fn no_merge_checks(row: &SessionRow) -> ApiError {
    let id = ui::short_id(&row.id);
    let message = format!("{id} is a session; only runs have merge checks");
    let error = ApiError::new(ErrorCode::BadRequest, message);
    let of_run = row.run.iter().map(|run| format!("provost status {}", ui::short_id(run)));
    of_run.fold(error, ApiError::next)
}

impl Logs<'_> {
    fn of_session(&mut self, args: &LogsArgs, row: &SessionRow) -> Result<(), Error> {
        if args.verification.is_some() {
            return Err(no_merge_checks(row).into());
        }
        let own = args.hook.is_none() && args.check.is_none() && !args.setup;
        if own && row.has_flag(Flag::Adopted) {
            return Err(no_output_here(row).into());
        }
        self.shown.sink.restart();
        match (&args.hook, args.check, args.setup, args.follow) {
            (Some(which), _, _, _) => self.hook(row, which)?,
            (None, Some(no), _, _) => self.check(row, no)?,
            (None, None, true, _) => self.setup(row)?,
            (None, None, false, false) => self.launches(row, args.launch)?,
            (None, None, false, true) => self.follow(row, args.launch)?,
        }
        self.shown.sink.release(&self.context.ui)?;
        let id = ui::short_id(&row.id);
        Ok(self.check_nothing_missing(&format!("session {id}"), &id)?)
    }

    fn check(&mut self, row: &SessionRow, no: usize) -> Result<(), Error> {
        let id = ui::short_id(&row.id);
        self.check_of(&format!("session {id}"), &id, &row.checks, no)
    }

    /// Shows the output of one of these checks. `owner` names the session, run or merge check.
    fn check_of(
        &mut self,
        owner: &str,
        id: &str,
        checks: &[CheckRow],
        no: usize,
    ) -> Result<(), Error> {
        let check = no.checked_sub(1).and_then(|at| checks.get(at)).ok_or_else(|| {
            let message = format!("{owner} has no check {no}; number of checks: {}", checks.len());
            ApiError::new(ErrorCode::NotFound, message).next(format!("provost status {id}"))
        })?;
        let output = check.output.as_deref().filter(|output| is_below(output));
        let output = output.ok_or_else(|| {
            let message =
                format!("check {no} of {owner} has no output yet: it is {}", check.result);
            ApiError::new(ErrorCode::Refused, message).next(format!("provost status {id}"))
        })?;
        self.output(output, &format!("check {no}"))
    }

    fn setup(&mut self, row: &SessionRow) -> Result<(), Error> {
        let id = ui::short_id(&row.id);
        let setup = row.setup.as_ref().ok_or_else(|| {
            let message = format!("session {id} has no setup command");
            ApiError::new(ErrorCode::NotFound, message).next("provost config show")
        })?;
        if setup.result == SetupResultName::NotRun || !is_below(&setup.output) {
            let message = format!("the setup command of session {id} was not run");
            return Err(ApiError::new(ErrorCode::Refused, message)
                .next(format!("provost status {id}"))
                .into());
        }
        let there = self.output_source(&setup.output, "setup").exists();
        if !there && setup.result == SetupResultName::Pending {
            let message = format!("the setup command of session {id} has not started yet");
            return Err(ApiError::new(ErrorCode::Refused, message)
                .next(format!("provost status {id}"))
                .into());
        }
        self.output(&setup.output, "setup")?;
        let ended = setup.detail.clone();
        let ended = ended.unwrap_or_else(|| format!("setup `{}`: {}", setup.command, setup.result));
        self.context.ui.notice(&ui::escape_line(&ended));
        Ok(())
    }

    fn hook(&mut self, row: &SessionRow, which: &str) -> Result<(), Error> {
        let (at, hook) = hook::find(row, which)?;
        let id = ui::short_id(&row.id);
        let output = hook.output.as_deref().filter(|output| is_below(output)).ok_or_else(|| {
            let message = format!("hook {} of session {id} has not ended yet", hook.event);
            ApiError::new(ErrorCode::Refused, message).next(format!("provost status {id}"))
        })?;
        self.output(output, &format!("hook {}", at + 1))?;
        let ended = hook.detail.as_deref().unwrap_or(&hook.result);
        self.context.ui.notice(&format!(
            "{} `{}`: {}",
            hook.event,
            ui::escape_line(&hook.command),
            ui::escape_line(ended)
        ));
        Ok(())
    }

    /// Shows the output of a command that is not a launch.
    fn output(&mut self, output: &str, what: &str) -> Result<(), Error> {
        self.shown.begin(None);
        let mut source = self.output_source(output, what);
        if !source.exists() {
            self.missing.push(what.to_owned());
        }
        self.drain(&mut source)?;
        self.shown.flush(&self.context.ui)?;
        self.shown.sink.release(&self.context.ui)
    }

    fn output_source(&self, output: &str, what: &str) -> JournalSource {
        let place = journal_dir(output.into());
        let dir = output_directory(&self.home.path, &place.display().to_string());
        JournalSource::new(&dir, what.replace(' ', ""))
    }

    /// Returns an error if any output is missing. Otherwise, missing output would look like a
    /// command that printed nothing.
    fn check_nothing_missing(&self, owner: &str, id: &str) -> Result<(), ApiError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let what = self.missing.join(", ");
        let message = format!(
            "the output of {what} of {owner} is missing: it was removed, by `provost gc` or by hand, or is in the home it was imported from"
        );
        Err(ApiError::new(ErrorCode::NotFound, message)
            .next(format!("provost status {id}"))
            .next(format!("provost events {id}")))
    }

    fn launches(&mut self, row: &SessionRow, only: Option<usize>) -> Result<(), Error> {
        let (first, last) = range(row, only)?;
        for at in first..last {
            let mut source = self.source(row, at);
            self.drain(&mut source)?;
            self.shown.flush(&self.context.ui)?;
        }
        self.shown.sink.release(&self.context.ui)?;
        if !self.missing.is_empty() {
            return Ok(());
        }
        if row.launches.is_empty() {
            let yet = if row.terminal { "" } else { " yet" };
            self.context.ui.notice(&format!("no command has started{yet}"));
        }
        let never_ran = row.launches.iter().all(|launch| launch.phase == LaunchPhaseName::Failed);
        if never_ran && let Some(why) = launch_failure(row) {
            self.context.ui.notice(&format!("no output: {}", ui::escape_line(&why)));
            launch_advice(row).iter().for_each(|line| self.context.ui.notice(line));
        }
        let id = ui::short_id(&row.id);
        let follow = (!row.terminal).then(|| format!("provost logs {id} -f"));
        let setup = setup_failed(row).then(|| format!("provost logs {id} --setup"));
        self.context.ui.next(
            &[setup, Some(format!("provost status {id}")), follow]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>(),
        );
        Ok(())
    }

    /// Shows each launch, and waits for the next one as long as the session may have another.
    fn follow(&mut self, row: &SessionRow, only: Option<usize>) -> Result<(), Error> {
        let newest = follow::newest(self.context)?;
        let mut events =
            EventFollower::new(self.context, EventFilter::Session(row.id.clone()), Some(newest));
        // The row is read after the newest event was determined, so it includes all changes up to
        // that event.
        let mut row = target::find_session(&self.context.daemon()?, &row.id)?;
        let mut at = only.map_or(0, |no| no.saturating_sub(1));
        loop {
            while at < row.launches.len() && has_started(&row, at) {
                self.follow_launch(&row, at)?;
                at += 1;
                if only.is_some() {
                    return Ok(());
                }
            }
            self.shown.sink.release(&self.context.ui)?;
            if row.sealed && at >= row.launches.len() {
                self.show_outcome(&row);
                return Ok(());
            }
            events.next()?;
            row = target::find_session(&self.context.daemon()?, &row.id)?;
        }
    }

    /// Shows the outcome of a session after following its output to the end, but not in JSON output.
    fn show_outcome(&self, row: &SessionRow) {
        let (ui, shown) = (&self.context.ui, format!("provost logs {}", ui::short_id(&row.id)));
        if !ui.json {
            ui.notice(&ui::outcome_line(ui.notice_paint, row));
            let next = next_commands(row).into_iter().filter(|command| *command != shown);
            ui.next(&next.collect::<Vec<_>>());
        }
    }

    fn follow_launch(&mut self, row: &SessionRow, at: usize) -> Result<(), Error> {
        let mut source = self.source(row, at);
        let mut link = source.follow();
        loop {
            self.drain(&mut source)?;
            if link.is_live() {
                self.shown.sink.release(&self.context.ui)?;
            }
            // The holder writes all output before it reports that it has finished, so one more read
            // returns the rest.
            if !link.wait() {
                self.drain(&mut source)?;
                return self.shown.flush(&self.context.ui);
            }
        }
    }

    fn drain(&mut self, source: &mut JournalSource) -> Result<(), Error> {
        while let Some(frame) = source.next().map_err(Error::Api)? {
            self.shown.frame(&self.context.ui, source, &frame)?;
        }
        Ok(())
    }

    /// Starts reading the output of a launch.
    fn source(&mut self, row: &SessionRow, at: usize) -> JournalSource {
        self.shown.begin(renderer(row));
        let source =
            JournalSource::new(&self.home.launch(&row.launches[at].id), format!("l{}", at + 1));
        if has_run(row, at) && !source.exists() {
            self.missing.push(format!("launch {}", at + 1));
        }
        source
    }
}

/// Returns the renderer for the messages of the session's agent. The output of an unknown adapter is shown verbatim.
fn renderer(row: &SessionRow) -> Option<MessageRenderer> {
    adapters().with_id(&row.adapter).ok()?.renderer(row.mode.known()?)
}

fn range(row: &SessionRow, only: Option<usize>) -> Result<(usize, usize), ApiError> {
    let count = row.launches.len();
    match only {
        None => Ok((0, count)),
        Some(no) if (1..=count).contains(&no) => Ok((no - 1, no)),
        Some(no) => {
            let id = ui::short_id(&row.id);
            let message = format!("session {id} has no launch {no}; it has {count} launches");
            Err(ApiError::new(ErrorCode::NotFound, message).next(format!("provost logs {id}")))
        }
    }
}

/// Whether a launch has started. A pending launch has no journal yet.
fn has_started(row: &SessionRow, at: usize) -> bool {
    row.launches.get(at).is_some_and(|launch| launch.phase != LaunchPhaseName::Pending)
}

/// Whether a launch has run. The holder creates the journal before it starts the command, so a
/// missing journal was removed later.
fn has_run(row: &SessionRow, at: usize) -> bool {
    let phase = row.launches.get(at).and_then(|launch| launch.phase.known());
    matches!(
        phase,
        Some(LaunchPhaseName::Running | LaunchPhaseName::Ended | LaunchPhaseName::Unobserved)
    )
}

/// Returns the directory of the journal. `path` is either that directory or the journal in it.
fn journal_dir(path: PathBuf) -> PathBuf {
    if path.file_name().is_some_and(|name| name == "journal") {
        path.with_file_name("")
    } else {
        path
    }
}

fn is_below(output: &str) -> bool {
    let plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
    std::path::Path::new(output).components().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_outside_home_is_rejected() {
        assert!(is_below("checks/abc"));
        assert!(!is_below("/etc/passwd"));
        assert!(!is_below("checks/../../x"));
    }

    #[test]
    fn journal_is_found_by_directory() {
        assert_eq!(journal_dir("/h/checks/k/journal".into()), PathBuf::from("/h/checks/k/"));
        assert_eq!(journal_dir("/h/checks/k".into()), PathBuf::from("/h/checks/k"));
    }
}
