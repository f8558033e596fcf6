//! The command line: the list of commands, and the dispatch to them.

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use serde_json::json;

use provost_engine::shell::{RUN_GIT, codex::TOOLS_COMMAND};

use crate::{
    commands::{
        adopt, agent_hook, agent_tools, answer, approve, attach, audit, cancel, check, compact,
        completions, config, criteria, cycle, daemon, discover, doctor, events, exit_codes, export,
        finish, gc, graph, guide, handoff, import, inbox, interrupt, ledger, limit, logs, looping,
        ls, manager, monitor, pair, plan, presets, rename, replay, report, report_card, resolve,
        resume, run, search, send, serve, skills, spawn, status, stop, task, telemetry, tour,
        trust,
    },
    context::Context,
    error::{Error, usage},
    ui,
};

/// The subcommand that runs this program as a holder. Only the daemon calls it. It is handled
/// before anything else is set up, because there may be very many holders.
pub(crate) const HOLD: &str = "hold";

/// The result of a command: its exit code, or an error.
pub(crate) type Outcome = Result<ExitCode, Error>;

/// Run coding agents, see what they are really doing, and verify their work
#[derive(Debug, Parser)]
#[command(
    name = "provost",
    version,
    disable_help_subcommand = false,
    after_help = "Examples:\n  provost run 'Fix the flaky test' --check 'cargo test'\n  provost spawn -- make test\n  provost ls\n  provost status ID --why\n  provost help exit-codes"
)]
pub(crate) struct Cli {
    /// Output JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunArgs>),
    Plan(Box<plan::PlanArgs>),
    Graph(graph::GraphArgs),
    Serve(serve::ServeArgs),
    Spawn(Box<spawn::SpawnArgs>),
    Discover(discover::DiscoverArgs),
    Adopt(adopt::AdoptArgs),
    Ls(ls::LsArgs),
    Status(status::StatusArgs),
    Logs(logs::LogsArgs),
    Events(events::EventsArgs),
    Replay(replay::ReplayArgs),
    Audit(audit::AuditArgs),
    Search(search::SearchArgs),
    Telemetry(telemetry::TelemetryArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Monitor(Box<monitor::MonitorArgs>),
    Send(send::SendArgs),
    Answer(answer::AnswerArgs),
    Approve(approve::ApproveArgs),
    Deny(approve::DenyArgs),
    Attach(attach::AttachArgs),
    Interrupt(interrupt::InterruptArgs),
    Compact(compact::CompactArgs),
    Stop(stop::StopArgs),
    Cancel(cancel::CancelArgs),
    Resume(resume::ResumeArgs),
    Resolve(resolve::ResolveArgs),
    Limit(limit::LimitArgs),
    Rename(rename::RenameArgs),
    Report(report::ReportArgs),
    Pair(Box<pair::PairArgs>),
    Task(task::TaskArgs),
    Handoff(handoff::HandoffArgs),
    Inbox(inbox::InboxArgs),
    Criteria(criteria::CriteriaArgs),
    Check(check::CheckArgs),
    Loop(looping::LoopArgs),
    Manager(manager::ManagerArgs),
    Cycle(cycle::CycleArgs),
    Finish(finish::FinishArgs),
    ReportCard(report_card::ReportCardArgs),
    Gc(gc::GcArgs),
    Doctor(doctor::DoctorArgs),
    Guide(guide::GuideArgs),
    Tour(tour::TourArgs),
    Skills(skills::SkillsArgs),
    Presets(presets::PresetsArgs),
    Config(config::ConfigArgs),
    Trust(trust::TrustArgs),
    Ledger(ledger::LedgerArgs),
    Daemon(daemon::DaemonArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true, name = TOOLS_COMMAND)]
    AgentTools(agent_tools::AgentToolsArgs),
    #[command(hide = true)]
    AgentHook(agent_hook::AgentHookArgs),
    #[command(hide = true)]
    ExitCodes(exit_codes::ExitCodesArgs),
}

/// Runs the command that this process was called with.
pub(crate) fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let [_, command, dir] = arguments.as_slice()
        && command == OsStr::new(HOLD)
    {
        return provost_holder::hold(Path::new(dir), std::io::stdin());
    }
    if let [_, command, argv @ ..] = arguments.as_slice()
        && command == OsStr::new(attach::LEAD)
    {
        return finish(&Context::new(false), attach::lead(argv));
    }
    if let [_, command, rest @ ..] = arguments.as_slice()
        && command == OsStr::new(RUN_GIT)
    {
        return run_git(rest);
    }
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => start(cli),
        Err(error) => not_parsed(&error, &arguments),
    }
}

/// Replaces this process with the git command after `--`. That git may execute only the programs
/// listed before `--`.
fn run_git(arguments: &[OsString]) -> ExitCode {
    let mut parts = arguments.splitn(2, |word| word == OsStr::new("--"));
    let programs = parts.next().unwrap_or_default().iter().map(PathBuf::from).collect();
    let why = match parts.next() {
        Some([program, args @ ..]) => provost_git::long::execute(programs, program, args),
        Some([]) | None => std::io::Error::other("no command given"),
    };
    // The holder records this message.
    drop(writeln!(std::io::stderr(), "cannot start git: {why}"));
    ExitCode::FAILURE
}

pub(crate) fn command() -> clap::Command {
    Cli::command()
}

fn start(cli: Cli) -> ExitCode {
    let context = Context::new(cli.json);
    let outcome = dispatch(&context, cli.command);
    finish(&context, outcome)
}

fn finish(context: &Context, outcome: Outcome) -> ExitCode {
    outcome.unwrap_or_else(|error| ExitCode::from(context.ui.fail(&error)))
}

fn dispatch(context: &Context, command: Command) -> Outcome {
    match command {
        Command::Run(args) => run::run(context, &args),
        Command::Plan(args) => plan::run(context, *args),
        Command::Graph(args) => graph::run(context, &args),
        Command::Serve(args) => serve::run(context, &args),
        Command::Spawn(args) => spawn::run(context, &args),
        Command::Discover(args) => discover::run(context, &args),
        Command::Adopt(args) => adopt::run(context, &args),
        Command::Ls(args) => ls::run(context, &args),
        Command::Status(args) => status::run(context, &args),
        Command::Logs(args) => logs::run(context, &args),
        Command::Events(args) => events::run(context, &args),
        Command::Replay(args) => replay::run(context, &args),
        Command::Audit(args) => audit::run(context, &args),
        Command::Search(args) => search::run(context, &args),
        Command::Telemetry(args) => telemetry::run(context, &args),
        Command::Export(args) => export::run(context, &args),
        Command::Import(args) => import::run(context, &args),
        Command::Monitor(args) => monitor::run(context, &args),
        Command::Send(args) => send::run(context, &args),
        Command::Answer(args) => answer::run(context, &args),
        Command::Approve(args) => approve::approve(context, &args),
        Command::Deny(args) => approve::deny(context, &args),
        Command::Attach(args) => attach::run(context, &args),
        Command::Interrupt(args) => interrupt::run(context, &args),
        Command::Compact(args) => compact::run(context, &args),
        Command::Stop(args) => stop::run(context, &args),
        Command::Cancel(args) => cancel::run(context, &args),
        Command::Resume(args) => resume::run(context, &args),
        Command::Resolve(args) => resolve::run(context, &args),
        Command::Limit(args) => limit::run(context, &args),
        Command::Rename(args) => rename::run(context, &args),
        Command::ReportCard(args) => report_card::run(context, &args),
        Command::Report(args) => report::run(context, &args),
        Command::Pair(args) => pair::run(context, &args),
        Command::Handoff(args) => handoff::run(context, &args),
        Command::Task(args) => task::run(context, &args),
        Command::Inbox(args) => inbox::run(context, &args),
        Command::Criteria(args) => criteria::run(context, &args),
        Command::Check(args) => check::run(context, &args),
        Command::Loop(args) => looping::run(context, &args),
        Command::Cycle(args) => cycle::run(context, &args),
        Command::Manager(args) => manager::run(context, &args),
        Command::Finish(args) => finish::run(context, &args),
        Command::Gc(args) => gc::run(context, &args),
        Command::Doctor(args) => doctor::run(context, &args),
        Command::Guide(args) => guide::run(context, &args),
        Command::Tour(args) => tour::run(context, &args),
        Command::Skills(args) => skills::run(context, &args),
        Command::Presets(args) => presets::run(context, &args),
        Command::Config(args) => config::run(context, &args),
        Command::Trust(args) => trust::run(context, &args),
        Command::Ledger(args) => ledger::run(context, &args),
        Command::Daemon(args) => daemon::run(context, &args),
        Command::Completions(args) => completions::run(context, &args),
        Command::AgentTools(args) => agent_tools::run(context, &args),
        Command::AgentHook(args) => agent_hook::run(context, &args),
        Command::ExitCodes(args) => exit_codes::run(context, &args),
    }
}

/// Handles arguments that do not parse. A request for help is not an error.
fn not_parsed(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if wants_json(arguments) {
        return not_parsed_json(error, arguments);
    }
    // The exit code is the same if the message cannot be written.
    drop(ui::parser_says(error));
    ExitCode::from(if asked_for(error) { 0 } else { 2 })
}

/// The same as JSON. `help` accepts no options, so the arguments are parsed again without `--json`.
fn not_parsed_json(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let context = Context::new(true);
    let plain: Vec<_> = arguments.iter().filter(|argument| *argument != "--json").collect();
    if plain.get(1..) == Some(&[&OsString::from("help"), &OsString::from("exit-codes")]) {
        return finish(&context, exit_codes::run(&context, &exit_codes::ExitCodesArgs {}));
    }
    match Cli::try_parse_from(&plain) {
        Err(help) if asked_for(&help) => {
            let text = help.render().to_string();
            let said = json!({"ok": true, "help": text.trim_end()});
            finish(&context, context.ui.result(said, &[]).map(|()| ExitCode::SUCCESS))
        }
        Ok(_) | Err(_) => {
            let text = error.render().to_string();
            // The message repeats the user's input, which may contain terminal escapes.
            let text = ui::clean_block(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
            finish(&context, Err(usage(text).next("provost --help").into()))
        }
    }
}

fn asked_for(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
}

/// Whether a command shown as a hint parses. Words in capitals are placeholders for values.
/// Commands of other programs are not checked.
pub(crate) fn takes(hint: &str) -> bool {
    let words: Vec<String> = shell_words(hint)
        .into_iter()
        .skip_while(|word| word.contains('=') && !word.starts_with('-'))
        .take_while(|word| !matches!(word.as_str(), "<" | ">" | "|" | "…"))
        .collect();
    if words.first().map(String::as_str) != Some("provost") {
        return true;
    }
    let stand_ins = [ErrorKind::ValueValidation, ErrorKind::InvalidValue];
    let to_be_said =
        [ErrorKind::MissingRequiredArgument, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    Cli::try_parse_from(&words).err().is_none_or(|error| {
        asked_for(&error)
            || stand_ins.contains(&error.kind())
            || (hint.ends_with('…') && to_be_said.contains(&error.kind()))
    })
}

/// Splits a command like a shell, as far as [`provost_core::text::shell_word`] quotes it.
fn shell_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if !quoted => word.get_or_insert_default().extend(letters.next()),
            letter if letter.is_whitespace() && !quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn walk(command: &clap::Command, path: &str) {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.starts_with("Examples:\n  provost"), "{path} has no examples");
            assert!(command.get_about().is_some(), "{path} has no description");
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                walk(sub, &format!("{path} {}", sub.get_name()));
            }
        }
        walk(&Cli::command(), "provost");
    }

    #[test]
    fn a_hint_is_a_command_that_is_taken() {
        for good in [
            "provost ls --all",
            "provost ledger archive --older-than AGE --apply",
            "PROVOST_HOME=EMPTY_DIRECTORY provost ledger import FILE",
            "provost spawn --agent codex - < FILE",
            "provost spawn --no-worktree --no-check …",
            "provost help",
            "provost manager ack --revision 0 --as 'a b'\\''s'",
            "git commit --allow-empty -m first",
        ] {
            assert!(takes(good), "{good}");
        }
        for bad in [
            "provost ledger import FILE  (487 records)",
            "provost ledger archive",
            "provost lst",
            "provost ls --everything",
        ] {
            assert!(!takes(bad), "{bad}");
        }
    }

    /// Covers hints that no other test shows.
    #[test]
    fn every_hint_that_is_written_down_is_a_command() {
        fn sources(dir: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    sources(&path, found);
                } else {
                    found.push(std::fs::read_to_string(path).unwrap());
                }
            }
        }
        /// Replaces every format argument with a word.
        fn filled(text: &str) -> String {
            let mut parts = text.split('{');
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |text, part| {
                let rest = part.split_once('}').map_or("", |(_, rest)| rest);
                format!("{text}WORD{rest}")
            })
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut texts = Vec::new();
        sources(&root.join("src"), &mut texts);
        sources(&root.join("../engine/src"), &mut texts);
        let mut hints = 0;
        for text in &texts {
            for begin in [".next(\"provost", ".next(format!(\"provost"] {
                for rest in text.split(begin).skip(1) {
                    let Some((rest, _)) = rest.split_once('"') else { continue };
                    let hint = filled(&format!("provost{rest}"));
                    // The command itself is a format argument, so it is unknown here.
                    if hint.starts_with("provost WORD") {
                        continue;
                    }
                    assert!(takes(&hint), "{hint}");
                    hints += 1;
                }
            }
        }
        assert!(hints > 50, "only {hints} hints found");
    }

    #[test]
    fn json_behind_the_double_dash_is_the_commands_own() {
        let arguments = |texts: &[&str]| texts.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&arguments(&["provost", "ls", "--json"])));
        assert!(!wants_json(&arguments(&["provost", "spawn", "--", "x", "--json"])));
    }
}
