//! `provost ledger`

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use provost_api::{ApiError, ArchiveReply, ArchiveRequest, ErrorCode};
use provost_engine::{
    shell::{self, Clock, unknown_holders},
    stream,
};
use provost_ledger::{
    Durability, ExportCounts, ImportCounts, ImportError, LedgerMismatch, OpenError, OpenOptions,
    OpenStreamPolicy, RecordedEvent, SqliteLedger, SqliteReader, StreamId,
};
use serde_json::{Value, json};

use super::{
    input,
    mutation::KeyArgs,
    recover::{self, RecoverArgs},
};
use crate::{
    cli::CliResult,
    context::Context,
    error::{Error, chain, usage},
    ui,
};

/// Verify, copy or archive the ledger, which records all events
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost ledger verify\n  provost ledger export > ledger.jsonl\n  provost ledger backup ~/backups/provost"
)]
pub(crate) struct LedgerArgs {
    #[command(subcommand)]
    what: LedgerCommand,
}

#[derive(Debug, Subcommand)]
enum LedgerCommand {
    /// Check that every session can be rebuilt from its events
    #[command(after_help = "Examples:\n  provost ledger verify\n  provost ledger verify --json")]
    Verify,
    /// Export the whole ledger as JSON lines
    #[command(
        after_help = "Examples:\n  provost ledger export > ledger.jsonl\n  provost ledger export --to ledger.jsonl"
    )]
    Export(LedgerExportArgs),
    /// Import an export into an empty home that has no daemon
    ///
    /// If the export comes from another home, its open sessions are closed here, because their
    /// processes belong to the other home. The other home also completes the pending work of these
    /// sessions. With --take-over, the sessions continue here instead; use this option only if the
    /// other home no longer exists.
    #[command(
        after_help = "Examples:\n  provost ledger import ledger.jsonl\n  PROVOST_HOME=/new/home provost ledger import ledger.jsonl\n  provost ledger export | PROVOST_HOME=/new/home provost ledger import -\n  provost ledger import ledger.jsonl --take-over"
    )]
    Import(LedgerImportArgs),
    /// Copy the current ledger into a new directory
    #[command(after_help = "Examples:\n  provost ledger backup ~/backups/provost-monday")]
    Backup(BackupArgs),
    /// Move events of closed sessions into an archive file
    ///
    /// Closed runs and teams are archived, too. A closed session of a member of an open team is not
    /// archived. Archived events can still be read.
    #[command(
        after_help = "Examples:\n  provost ledger archive --older-than 90d\n  provost ledger archive --older-than 90d --apply"
    )]
    Archive(ArchiveArgs),
    /// List events that the ledger lost, and accept the loss
    ///
    /// If the newest events are missing, or the ledger was replaced by an older copy, Provost does
    /// not write to the ledger. This command lists the lost events, and the running processes that
    /// the ledger does not contain. You can either restore a newer copy of the files or accept the
    /// loss.
    #[command(
        after_help = "Examples:\n  provost ledger recover\n  provost ledger recover --stop-unknown\n  provost ledger recover --accept-loss"
    )]
    Recover(RecoverArgs),
    /// Print the path of the ledger
    #[command(after_help = "Examples:\n  provost ledger path")]
    Path,
}

#[derive(Debug, Args)]
struct LedgerExportArgs {
    /// File to create [default: standard output]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct LedgerImportArgs {
    /// File to import, as written by `export`; `-` reads standard input
    file: PathBuf,
    /// Continue the open sessions of the other home here, including their pending work
    #[arg(long)]
    take_over: bool,
}

#[derive(Debug, Args)]
struct BackupArgs {
    /// Directory to create
    directory: PathBuf,
}

#[derive(Debug, Args)]
struct ArchiveArgs {
    /// Only sessions that were closed longer ago than this, such as 90d
    #[arg(long, value_name = "DURATION", value_parser = input::parse_age)]
    older_than: u64,
    /// Move the events instead of only counting them
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// The command that lists lost events and lets the user accept the loss.
const RECOVER: &str = "provost ledger recover";

/// The command that imports an export, which requires an empty home.
const IMPORT: &str = "PROVOST_HOME=EMPTY_DIRECTORY provost ledger import FILE";

pub(crate) fn run(context: &Context, args: &LedgerArgs) -> CliResult {
    match &args.what {
        LedgerCommand::Verify => verify(context),
        LedgerCommand::Export(args) => export(context, args),
        LedgerCommand::Import(args) => import(context, args),
        LedgerCommand::Backup(args) => backup(context, &args.directory),
        LedgerCommand::Archive(args) => archive(context, args),
        LedgerCommand::Recover(args) => recover::run(context, args),
        LedgerCommand::Path => {
            let path = context.home()?.ledger().display().to_string();
            let value = json!({"ok": true, "path": path});
            show_done(context, value, &path, &["provost ledger verify"])
        }
    }
}

fn verify(context: &Context) -> CliResult {
    let reader = reader(context)?;
    let mut report =
        provost_ledger::verify(&reader, &mut stream::refold).map_err(|why| read_error(&why))?;
    if let Some(loss) = reader.loss() {
        let what = loss.to_string();
        report.differences.insert(0, LedgerMismatch { stream: None, what, next: RECOVER });
    }
    let differences: Vec<Value> = report
        .differences
        .iter()
        .map(|found| json!({"stream": found.stream.as_ref().map(ToString::to_string), "what": found.what, "next": found.next}))
        .collect();
    let clean = report.is_clean();
    let mut value = json!({
        "ok": clean, "streams": report.streams, "records": report.records,
        "stale_snapshots": report.stale_snapshots, "differences": differences,
    });
    if clean {
        let text =
            format!("the ledger is intact: {} streams, {} records", report.streams, report.records);
        return show_done(context, value, &text, &["provost ledger backup DIRECTORY"]);
    }
    let message = format!("the ledger has {} differences", report.differences.len());
    let error = ApiError::new(ErrorCode::Failed, message);
    let error = report.differences.first().map_or(error.clone(), |found| error.next(found.next));
    if context.ui.json {
        value["error"] = json!(error);
        let next: Vec<String> = error.next.iter().map(ToString::to_string).collect();
        context.ui.result(value, &next)?;
        return Ok(ExitCode::from(error.code.exit_code()));
    }
    let lines = report.differences.iter().map(|found| {
        let stream =
            found.stream.as_ref().map_or_else(|| "the file".to_owned(), ToString::to_string);
        format!("{stream}: {}", ui::escape_line(&found.what))
    });
    context.ui.lines(&lines.collect::<Vec<_>>())?;
    Err(error.into())
}

/// Writes the export. With --json but no file, prints only the export itself, which already
/// consists of JSON lines.
fn export(context: &Context, args: &LedgerExportArgs) -> CliResult {
    super::export::refuse_agents(context)?;
    let (reader, home) = (warning_reader(context)?, context.trusted_home()?.id());
    let Some(path) = &args.to else {
        let mut out = std::io::stdout().lock();
        let exported =
            provost_ledger::export(&reader, home.as_deref(), &mut out).map_err(export_error)?;
        out.flush().map_err(Error::from_write_error)?;
        context.ui.notice(&describe_export(&exported));
        context.ui.next(&[IMPORT.to_owned()]);
        return Ok(ExitCode::SUCCESS);
    };
    // The export contains all text written by agents and users, so only its owner may read it,
    // regardless of the umask.
    let created = File::options().write(true).create_new(true).mode(0o600).open(path);
    let mut file =
        created.map_err(|why| usage(format!("cannot create {}: {why}", path.display())))?;
    let exported =
        provost_ledger::export(&reader, home.as_deref(), &mut file).map_err(export_error)?;
    file.sync_all().map_err(|why| chain(ErrorCode::Storage, "cannot write the export", &why))?;
    let value = json!({
        "ok": true, "file": path.display().to_string(), "streams": exported.streams,
        "records": exported.records, "replies": exported.replies,
    });
    show_done(context, value, &describe_export(&exported), &[IMPORT])
}

fn describe_export(exported: &ExportCounts) -> String {
    format!("exported {} streams, {} records", exported.streams, exported.records)
}

fn export_error(why: provost_ledger::ExportError) -> Error {
    match why {
        provost_ledger::ExportError::Write(why) => Error::from_write_error(why),
        provost_ledger::ExportError::Read(why) => read_error(&why).into(),
    }
}

fn import(context: &Context, args: &LedgerImportArgs) -> CliResult {
    let mut input = open_export(&args.file)?;
    let (imported, mut value) = import_into_empty(context, &mut input, args.take_over)
        .map_err(|why| why.into_api_error(IMPORT))?;
    value["replies"] = json!(imported.replies);
    let closed = match imported.closed {
        0 => String::new(),
        closed => format!(", {closed} open streams of another home closed"),
    };
    let text =
        format!("imported {} streams, {} records{closed}", imported.streams, imported.records);
    show_done(context, value, &text, &["provost ledger verify", "provost ls"])
}

/// The reason why an export was not imported.
pub(super) enum ImportFailure {
    /// The home or its ledger is not usable.
    Home(ApiError),
    Import(ImportError),
}

impl From<ApiError> for ImportFailure {
    fn from(error: ApiError) -> Self {
        ImportFailure::Home(error)
    }
}

impl From<ImportError> for ImportFailure {
    fn from(error: ImportError) -> Self {
        ImportFailure::Import(error)
    }
}

impl ImportFailure {
    /// Converts the failure to an API error. `again` is the command that imports the export into
    /// another home.
    pub(super) fn into_api_error(self, again: &str) -> ApiError {
        match self {
            ImportFailure::Home(error) => error,
            ImportFailure::Import(why) => import_error(&why).next(again),
        }
    }
}

/// Imports an export into an empty home. Returns the summary, and the first fields of the JSON result.
pub(super) fn import_into_empty(
    context: &Context,
    input: &mut dyn BufRead,
    take_over: bool,
) -> Result<(ImportCounts, Value), ImportFailure> {
    let home = context.home()?;
    home.prepare()?;
    let options = OpenOptions {
        known: &stream::is_known,
        software: env!("CARGO_PKG_VERSION"),
        durability: Durability::Full,
    };
    let mut ledger =
        SqliteLedger::open(&home.ledger(), &options).map_err(|why| open_error(&why))?;
    let id = home.id();
    let mut close_imported = |stream: &StreamId, records: &[RecordedEvent]| {
        stream::close_imported(stream, records, |last| Clock::after(last).now())
    };
    let open = if take_over {
        OpenStreamPolicy::KeepOpen
    } else {
        OpenStreamPolicy::CloseForeign { home: id.as_deref(), close: &mut close_imported }
    };
    let imported = ledger.import(input, &stream::is_known, &mut stream::refold, open)?;
    let value = json!({
        "ok": true, "streams": imported.streams, "records": imported.records, "closed": imported.closed,
    });
    Ok((imported, value))
}

/// Opens an export. `-` means standard input.
fn open_export(file: &Path) -> Result<Box<dyn BufRead>, ApiError> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let input = File::open(file).map_err(|why| {
        let code = if why.kind() == std::io::ErrorKind::NotFound {
            ErrorCode::NotFound
        } else {
            ErrorCode::BadRequest
        };
        ApiError::new(code, format!("cannot open {}: {why}", file.display()))
    })?;
    Ok(Box::new(BufReader::new(input)))
}

fn import_error(why: &ImportError) -> ApiError {
    let code = match why {
        ImportError::NotEmpty => ErrorCode::Refused,
        ImportError::Line(_) | ImportError::Fold { .. } => ErrorCode::BadRequest,
        ImportError::Storage(_) => ErrorCode::Storage,
    };
    chain(code, "nothing was imported", why)
}

fn backup(context: &Context, to: &Path) -> CliResult {
    super::export::refuse_agents(context)?;
    warning_reader(context)?.backup(to).map_err(|why| {
        let code = match why {
            provost_ledger::BackupError::Exists { .. } => ErrorCode::Refused,
            provost_ledger::BackupError::Storage(_) => ErrorCode::Storage,
        };
        chain(code, "cannot back up the ledger", &why)
    })?;
    let path = to.display().to_string();
    let text = format!("copied the ledger to {path}");
    show_done(context, json!({"ok": true, "directory": path}), &text, &["provost ledger verify"])
}

fn archive(context: &Context, args: &ArchiveArgs) -> CliResult {
    let older_than_ms = Some(i64::try_from(args.older_than).unwrap_or(i64::MAX));
    let request = ArchiveRequest { apply: args.apply, older_than_ms };
    let reply: ArchiveReply =
        context.daemon()?.post("/v1/ledger/archive", &request, &args.key.get(context))?;
    let verb = if args.apply { "archived" } else { "would archive" };
    let kept = match reply.kept {
        0 => String::new(),
        kept => format!("; kept {kept} sessions that work for an open team"),
    };
    let text = format!("{verb} {} streams, {} records{kept}", reply.streams, reply.records);
    let next: &[&str] = if args.apply {
        &["provost ledger verify"]
    } else {
        &["provost ledger archive --older-than DURATION --apply"]
    };
    show_done(context, json!(reply), &text, next)
}

pub(super) fn show_done(context: &Context, value: Value, text: &str, next: &[&str]) -> CliResult {
    let next: Vec<String> = next.iter().map(|command| (*command).to_owned()).collect();
    if context.ui.json {
        context.ui.result(value, &next)?;
    } else {
        context.ui.line(&ui::escape_line(text))?;
        context.ui.next(&next);
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn reader(context: &Context) -> Result<SqliteReader, ApiError> {
    let home = context.trusted_home()?;
    SqliteReader::open(&home.ledger()).map_err(|why| {
        let error = open_error(&why);
        if why.is_damage() {
            unknown_holders::name_living(&shell::Home::new(&home.path), error)
        } else {
            error
        }
    })
}

/// Opens the ledger. Warns if the ledger has lost events, because a copy would lack the lost events too.
fn warning_reader(context: &Context) -> Result<SqliteReader, ApiError> {
    let reader = reader(context)?;
    if let Some(loss) = reader.loss() {
        context.ui.warn(&format!("{loss}: {RECOVER}"));
    }
    Ok(reader)
}

pub(super) fn open_error(why: &OpenError) -> ApiError {
    let (code, next) = match why {
        OpenError::Missing { .. } => (ErrorCode::NotFound, "provost spawn -- COMMAND"),
        OpenError::Locked { .. } => (ErrorCode::Refused, "provost daemon stop"),
        OpenError::Vanished { .. } | OpenError::NotALedger { .. } => {
            (ErrorCode::Storage, "provost ledger path")
        }
        OpenError::Unreleased { .. } | OpenError::Older { .. } | OpenError::Newer { .. } => {
            (ErrorCode::ReadOnly, "provost --version")
        }
        OpenError::Storage(_) => (ErrorCode::Storage, "provost ledger verify"),
    };
    chain(code, "cannot open the ledger", why).next(next)
}

pub(super) fn read_error(why: &provost_ledger::Error) -> ApiError {
    chain(ErrorCode::Storage, "cannot read the ledger", why).next("provost ledger verify")
}
