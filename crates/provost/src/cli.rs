//! The command line: parses the arguments and calls the right command.

#[cfg(test)]
mod documents;
mod help;
pub(crate) mod hints;
mod intent;
mod options;

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand, ValueEnum, error::ErrorKind};
use provost_api::{AmbiguousId, ApiError};
use provost_config::Color;
use provost_core::text::shell_quote;
use serde_json::json;

use provost_agent::launch::TOOLS_COMMAND;
use provost_engine::shell::RUN_GIT;

use crate::{
    adapters::register_sections,
    commands::{
        adopt, agent_hook, agent_tools, answer, approve, attach, audit, cancel, compact,
        completions, config, daemon, demo_agent, discover, doctor, events, export, gc, graph,
        guide, import, interrupt, ledger, limit, logs, ls, monitor, plan, presets, rename, replay,
        report, resolve, resume, run, search, send, serve, skills, spawn, status, stop, summary,
        team, telemetry, tour, trust,
    },
    context::Context,
    error::{Error, usage},
    ui,
};

/// The subcommand that runs this program as a holder. Only the daemon calls this subcommand. It is
/// handled before anything else is set up, because thousands of holders can run at the same time.
pub(crate) const HOLD: &str = "hold";

/// The result of a command: its exit code, or an error.
pub(crate) type CliResult = Result<ExitCode, Error>;

/// Run coding agents, see what they are actually doing, and verify their work
#[derive(Debug, Parser)]
#[command(
    name = "provost",
    version,
    disable_help_subcommand = true,
    after_help = "Examples:\n  provost run 'Fix the flaky test' --check 'cargo test'\n  provost spawn -- make test\n  provost ls\n  provost status ID --why\n  provost help exit-codes"
)]
pub(crate) struct Cli {
    /// Output JSON
    #[arg(long, global = true)]
    json: bool,
    /// Do not suggest next commands
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Color the output: auto, always or never [default: auto]
    // Hidden, because the help of every command would list it. The main help mentions it.
    #[arg(long, global = true, hide = true, value_name = "WHEN")]
    color: Option<ColorArg>,
    #[command(subcommand)]
    command: CliCommand,
}

/// The value of `--color`, which overrides the configuration and `NO_COLOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColorArg {
    Auto,
    Always,
    Never,
}

impl From<ColorArg> for Color {
    fn from(arg: ColorArg) -> Color {
        match arg {
            ColorArg::Auto => Color::Auto,
            ColorArg::Always => Color::Always,
            ColorArg::Never => Color::Never,
        }
    }
}

#[derive(Debug, Subcommand)]
enum CliCommand {
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
    Team(Box<team::TeamArgs>),
    Summary(summary::SummaryArgs),
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
    Help(help::HelpArgs),
    #[command(hide = true, name = TOOLS_COMMAND)]
    AgentTools(agent_tools::AgentToolsArgs),
    #[command(hide = true)]
    AgentHook(agent_hook::AgentHookArgs),
    #[command(hide = true, name = demo_agent::DEMO_COMMAND)]
    DemoAgent(demo_agent::DemoAgentArgs),
}

/// Runs the command given on the command line.
pub(crate) fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let [_, command, dir] = arguments.as_slice()
        && command == OsStr::new(HOLD)
    {
        return provost_holder::hold(Path::new(dir), std::io::stdin());
    }
    if let [_, command, argv @ ..] = arguments.as_slice()
        && command == OsStr::new(attach::LEAD_TERMINAL)
    {
        return finish(&Context::new(false), attach::exec_as_terminal_leader(argv));
    }
    if let [_, command, rest @ ..] = arguments.as_slice()
        && command == OsStr::new(RUN_GIT)
    {
        return run_git(rest);
    }
    register_sections();
    match parse(&arguments) {
        Ok(cli) => start(cli, &arguments),
        Err(error) => report_parse_error(&error, &arguments),
    }
}

/// Parses the arguments. Most commands are parsed without the texts, aliases and choices that [`command`] adds, because
/// adding these takes longer than many commands take to run.
fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    if !begins_with_choices(arguments)
        && let Ok(matches) = Cli::command().try_get_matches_from(arguments)
        && !matches.subcommand_name().is_some_and(options::has_choices)
        && let Ok(cli) = Cli::from_arg_matches(&matches)
    {
        return Ok(cli);
    }
    let mut command = command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Whether the first argument that is not a flag is a command with choices.
fn begins_with_choices(arguments: &[OsString]) -> bool {
    let is_flag = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    let command = arguments.iter().skip(1).find(|word| !is_flag(word));
    command.and_then(|word| word.to_str()).is_some_and(options::has_choices)
}

/// Replaces this process with the git command after `--`. Git may execute only the programs listed
/// before `--`.
fn run_git(arguments: &[OsString]) -> ExitCode {
    let mut parts = arguments.splitn(2, |word| word == OsStr::new("--"));
    let programs = parts.next().unwrap_or_default().iter().map(PathBuf::from).collect();
    let why = match parts.next() {
        Some([program, args @ ..]) => provost_git::long_call::execute(programs, program, args),
        Some([]) | None => std::io::Error::other("no command given"),
    };
    // The holder records this message.
    drop(writeln!(std::io::stderr(), "cannot start git: {why}"));
    ExitCode::FAILURE
}

pub(crate) fn command() -> clap::Command {
    register_sections();
    help::decorate(Cli::command(), help::HelpExtent::Common)
}

fn start(cli: Cli, arguments: &[OsString]) -> ExitCode {
    let mut context = Context::with_color(cli.json, cli.color.map(Color::from));
    context.ui.hints = !cli.quiet && ui::wants_hints();
    let outcome = dispatch(&context, cli.command);
    finish(&context, outcome.map_err(|error| with_choices(error, arguments)))
}

/// If an ID is ambiguous, suggests one command for each session or run that the ID could refer to.
fn with_choices(error: Error, arguments: &[OsString]) -> Error {
    match error {
        Error::Api(error) => {
            let next = error.ambiguous.as_ref().and_then(|found| choices(found, arguments));
            Error::Api(match next {
                Some(next) => ApiError { next: Vec::new(), ..error }.next_all(next),
                None => error,
            })
        }
        Error::PipeClosed | Error::Output(_) => error,
    }
}

/// The maximum length of a command for which [`choices`] suggests unambiguous IDs.
const MAX_REPEATED: usize = 300;

/// Returns one copy of the command for each possible ID. Returns `None` if no argument contains the
/// ambiguous text, or if the command is long or has several lines.
fn choices(found: &AmbiguousId, arguments: &[OsString]) -> Option<Vec<String>> {
    let words: Vec<&str> =
        arguments.iter().skip(1).map(|word| word.to_str()).collect::<Option<_>>()?;
    // A request's ID consists of the session's ID, a dot and a number.
    let rest_of = |word: &str| {
        let rest = word.strip_prefix(&found.text)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| rest.to_owned())
    };
    // The first word is the command, even if a session has the same name.
    let mut arguments = words.iter().enumerate().skip(1);
    let (at, rest) = arguments.find_map(|(at, word)| Some((at, rest_of(word)?)))?;
    let command = |id: &String| {
        let word = |(no, word): (usize, &&str)| {
            if no == at { shell_quote(&format!("{id}{rest}")) } else { shell_quote(word) }
        };
        let words: Vec<String> = words.iter().enumerate().map(word).collect();
        format!("provost {}", words.join(" "))
    };
    let commands: Vec<String> = found.ids.iter().map(command).collect();
    let fits = |command: &String| command.len() <= MAX_REPEATED && !command.contains('\n');
    commands.iter().all(fits).then_some(commands)
}

fn finish(context: &Context, outcome: CliResult) -> ExitCode {
    outcome.unwrap_or_else(|error| ExitCode::from(context.ui.report_error(&error)))
}

fn dispatch(context: &Context, command: CliCommand) -> CliResult {
    match command {
        CliCommand::Run(args) => run::run(context, &args),
        CliCommand::Plan(args) => plan::run(context, *args),
        CliCommand::Graph(args) => graph::run(context, &args),
        CliCommand::Serve(args) => serve::run(context, &args),
        CliCommand::Spawn(args) => spawn::run(context, &args),
        CliCommand::Discover(args) => discover::run(context, &args),
        CliCommand::Adopt(args) => adopt::run(context, &args),
        CliCommand::Ls(args) => ls::run(context, &args),
        CliCommand::Status(args) => status::run(context, &args),
        CliCommand::Logs(args) => logs::run(context, &args),
        CliCommand::Events(args) => events::run(context, &args),
        CliCommand::Replay(args) => replay::run(context, &args),
        CliCommand::Audit(args) => audit::run(context, &args),
        CliCommand::Search(args) => search::run(context, &args),
        CliCommand::Telemetry(args) => telemetry::run(context, &args),
        CliCommand::Export(args) => export::run(context, &args),
        CliCommand::Import(args) => import::run(context, &args),
        CliCommand::Monitor(args) => monitor::run(context, &args),
        CliCommand::Send(args) => send::run(context, &args),
        CliCommand::Answer(args) => answer::run(context, &args),
        CliCommand::Approve(args) => approve::approve(context, &args),
        CliCommand::Deny(args) => approve::deny(context, &args),
        CliCommand::Attach(args) => attach::run(context, &args),
        CliCommand::Interrupt(args) => interrupt::run(context, &args),
        CliCommand::Compact(args) => compact::run(context, &args),
        CliCommand::Stop(args) => stop::run(context, &args),
        CliCommand::Cancel(args) => cancel::run(context, &args),
        CliCommand::Resume(args) => resume::run(context, &args),
        CliCommand::Resolve(args) => resolve::run(context, &args),
        CliCommand::Limit(args) => limit::run(context, &args),
        CliCommand::Rename(args) => rename::run(context, &args),
        CliCommand::Summary(args) => summary::run(context, &args),
        CliCommand::Report(args) => report::run(context, &args),
        CliCommand::Team(args) => team::run(context, &args),
        CliCommand::Gc(args) => gc::run(context, &args),
        CliCommand::Doctor(args) => doctor::run(context, &args),
        CliCommand::Guide(args) => guide::run(context, &args),
        CliCommand::Tour(args) => tour::run(context, &args),
        CliCommand::Skills(args) => skills::run(context, &args),
        CliCommand::Presets(args) => presets::run(context, &args),
        CliCommand::Config(args) => config::run(context, &args),
        CliCommand::Trust(args) => trust::run(context, &args),
        CliCommand::Ledger(args) => ledger::run(context, &args),
        CliCommand::Daemon(args) => daemon::run(context, &args),
        CliCommand::Completions(args) => completions::run(context, &args),
        CliCommand::Help(args) => help::run(context, &args),
        CliCommand::AgentTools(args) => agent_tools::run(context, &args),
        CliCommand::AgentHook(args) => agent_hook::run(context, &args),
        CliCommand::DemoAgent(args) => demo_agent::run(context, &args),
    }
}

/// Handles arguments that cannot be parsed. A request for help is handled here too, but is not an error.
fn report_parse_error(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let context = Context::new(wants_json(arguments));
    if let Some(asked) = help_of_group(error, arguments) {
        return report_parse_error(&asked, arguments);
    }
    let command = arguments.iter().skip(1).find(|word| !is_option(word));
    let outcome = match intent::explain(error, command.map(OsString::as_os_str)) {
        Some(error) if context.ui.json => Err(error.into()),
        // The message already mentions the command, so the list of next commands would only repeat it.
        Some(error) => Err(ApiError { next: Vec::new(), ..error }.into()),
        None => report_parsed(&context, error),
    };
    finish(&context, outcome)
}

/// Returns the help for `COMMAND` if the user typed `provost COMMAND help`, which is a common
/// habit.
fn help_of_group(error: &clap::Error, arguments: &[OsString]) -> Option<clap::Error> {
    let (last, before) = arguments.split_last()?;
    if error.kind() != ErrorKind::InvalidSubcommand || last != OsStr::new("help") {
        return None;
    }
    let asked = [before, &[OsString::from("--help")]].concat();
    parse(&asked).err().filter(is_help_request)
}

/// Prints clap's message: the requested help, or the parse error.
fn report_parsed(context: &Context, error: &clap::Error) -> CliResult {
    let help = is_help_request(error);
    if !context.ui.json {
        // The exit code does not depend on whether the message could be written.
        drop(ui::print_parser_error(error));
        return Ok(ExitCode::from(if help { 0 } else { 2 }));
    }
    let text = plain_parser_text(error.render().to_string());
    if help {
        context.ui.result(json!({"ok": true, "help": text.trim_end()}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    // The message repeats the user's input, which may contain terminal escape sequences.
    let text = ui::escape_block(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
    // The parser's list of commands includes hidden ones and aliases.
    let text = if error.kind() == ErrorKind::MissingSubcommand {
        let lines = text.lines().filter(|line| !line.starts_with("  [subcommands: "));
        lines.collect::<Vec<_>>().join("\n")
    } else {
        text
    };
    Err(usage(text).next("provost --help").into())
}

/// Replaces Rust's description of a text that is not a number.
pub(crate) fn plain_parser_text(text: String) -> String {
    text.replace("invalid digit found in string", "expected a whole number")
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}

fn is_help_request(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
}

fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_with_choices_are_recognized_before_parsing() {
        let begins = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            begins_with_choices(&words)
        };
        assert!(begins("provost spawn --agent codex") && begins("provost --json run goal"));
        assert!(!begins("provost ls spawn") && !begins("provost --json") && !begins("provost"));
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
    fn ambiguous_id_repeats_the_command_with_each_id() {
        let found = AmbiguousId {
            text: "15b2".to_owned(),
            ids: vec!["15b2a3b9".to_owned(), "77aa15b2".to_owned()],
        };
        let repeat = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            choices(&found, &words)
        };
        let sent = repeat(&["/bin/provost", "send", "15b2", "Go on."]).unwrap();
        assert_eq!(sent, ["provost send 15b2a3b9 'Go on.'", "provost send 77aa15b2 'Go on.'"]);
        let answered = repeat(&["provost", "answer", "15b2.q1", "x"]).unwrap();
        assert_eq!(answered[0], "provost answer 15b2a3b9.q1 x");
        assert_eq!(repeat(&["provost", "monitor", "other"]), None);
        assert_eq!(repeat(&["provost", "send", "15b2", "two\nlines"]), None);
    }

    #[test]
    fn json_after_double_dash_is_not_ours() {
        let arguments = |texts: &[&str]| texts.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&arguments(&["provost", "ls", "--json"])));
        assert!(!wants_json(&arguments(&["provost", "spawn", "--", "x", "--json"])));
    }
}
