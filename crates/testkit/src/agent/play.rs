//! Plays a scenario step by step, and owns the values that it collects.

use std::collections::BTreeMap;
use std::io::PipeWriter;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use super::args::{FROM_STEP, PlayArgs, VARS};
use super::input::ScriptInput;
use super::{Error, children, files, output, report, screen};
use crate::clock::pause;
use crate::scenario::{
    self, AgentScenario, ExpectedExit, OnEof, RepeatStep, RunCommandStep, ScenarioStep, StepAction,
};

/// The maximum life of an agent or a grandchild, so that a forgotten one exits by itself.
pub(super) const MAX_LIFE: Duration = Duration::from_secs(3600);

pub(super) fn play(play: &PlayArgs) -> Result<u8, Error> {
    let scenario = load(play)?;
    // An agent that reads keys needs raw mode from the start, before it appears ready for input.
    if scenario.steps.iter().any(|step| matches!(step.action, StepAction::ReadKeys(_))) {
        screen::enter_raw_mode()?;
    }
    let mut player = ScenarioPlayer::new(play);
    for (index, step) in scenario.steps.iter().enumerate().skip(play.from_step) {
        player.next_step = index + 1;
        if let StepFlow::End(code) = player.step(step)? {
            return Ok(code);
        }
    }
    Ok(0)
}

fn load(play: &PlayArgs) -> Result<AgentScenario, Error> {
    let name = &play.scenario;
    let text = match name.strip_prefix("sample:") {
        Some(sample) => {
            let known = || {
                format!(
                    "the samples are {}",
                    scenario::sample_names().collect::<Vec<_>>().join(", ")
                )
            };
            scenario::sample(sample)
                .map(str::to_owned)
                .ok_or_else(|| std::io::Error::other(known()))
        }
        None => std::fs::read_to_string(name),
    };
    let text = text.map_err(|source| Error::Unreadable { name: name.clone(), source })?;
    scenario::parse(&text, &play.vars)
        .map_err(|source| Error::Scenario { name: name.clone(), source })
}

enum StepFlow {
    Next,
    End(u8),
}

struct ScenarioPlayer<'a> {
    play: &'a PlayArgs,
    next_step: usize,
    launch_no: u32,
    /// The values of the runtime placeholders.
    known: BTreeMap<String, String>,
    input: ScriptInput,
    /// Children that are not reaped, as with real agents.
    children: Vec<Child>,
    /// Pipes that close when this process exits, which notifies the late reporters.
    lifelines: Vec<PipeWriter>,
}

impl<'a> ScenarioPlayer<'a> {
    fn new(play: &'a PlayArgs) -> Self {
        let launch_no = launch_no();
        let known = [
            ("input", String::new()),
            ("input_key", String::new()),
            ("launch_no", launch_no.to_string()),
        ];
        let mut known: BTreeMap<_, _> = known.map(|(name, value)| (name.to_owned(), value)).into();
        known.insert("pid".to_owned(), std::process::id().to_string());
        known.insert("n".to_owned(), "1".to_owned());
        let (input, children, lifelines) = (ScriptInput::default(), Vec::new(), Vec::new());
        Self { play, next_step: 0, launch_no, known, input, children, lifelines }
    }

    fn step(&mut self, step: &ScenarioStep) -> Result<StepFlow, Error> {
        match step.if_launch {
            Some(launch) if launch != self.launch_no => Ok(StepFlow::Next),
            _ => self.act(&step.action),
        }
    }

    fn act(&mut self, action: &StepAction) -> Result<StepFlow, Error> {
        let known = &self.known;
        let text = |text: &str| scenario::render(text, known);
        match action {
            StepAction::Say(line) => output::say(&text(line))?,
            StepAction::Err(line) => output::err(&text(line))?,
            StepAction::Raw(bytes) => output::raw(&bytes.0)?,
            StepAction::Emit(object) => output::emit(object, known)?,
            StepAction::Forge(forgery) => output::forge(*forgery)?,
            StepAction::Flood(flood) => output::flood(flood)?,
            StepAction::OneLine(line) => output::one_line(line)?,
            StepAction::CloseStdout(_) => output::close_stdout()?,
            StepAction::Report(wanted) => report::report(wanted, known)?,
            StepAction::ReportAfterExit(late) => {
                let (child, lifeline) = report::report_after_exit(late, known)?;
                self.children.push(child);
                self.lifelines.push(lifeline);
            }
            StepAction::Write(file) => files::write(&text(&file.path), &text(&file.content))?,
            StepAction::Append(file) => files::append(&text(&file.path), &text(&file.content))?,
            StepAction::Delete(path) => files::delete(&text(path))?,
            StepAction::Mkdir(path) => files::mkdir(&text(path))?,
            StepAction::Touch(path) => files::append(&text(path), "")?,
            StepAction::EnvDump(path) => files::env_dump(&text(path))?,
            StepAction::GitCommit(message) => files::git_commit(&text(message))?,
            StepAction::Run(run) => run_command(run, known)?,
            StepAction::SleepMs(ms) => pause(Duration::from_millis(*ms).min(MAX_LIFE)),
            StepAction::WaitFile(wait) => {
                files::wait_file(&text(&wait.path), Duration::from_millis(wait.within_ms))?
            }
            StepAction::WaitInput(wait) => return self.wait_input(&wait.wanted.kind, wait.on_eof),
            StepAction::ReadLine(read) => return self.read_line(read.on_eof),
            StepAction::Record(line) => screen::record(line, known)?,
            StepAction::Hook(input) => screen::hook(input, known)?,
            StepAction::ReadKeys(_) => return self.read_keys(),
            StepAction::Spawn(spawn) => self.children.extend(children::spawn(spawn, known)?),
            StepAction::IgnoreTerm(_) => return Err(self.replace_self()),
            StepAction::Hang(_) => pause(MAX_LIFE),
            StepAction::Exit(code) => return Ok(StepFlow::End(*code)),
            StepAction::Die(signal) => return Err(die(*signal)),
            StepAction::Repeat(repeat) => return self.repeat(repeat),
        }
        Ok(StepFlow::Next)
    }

    fn repeat(&mut self, repeat: &RepeatStep) -> Result<StepFlow, Error> {
        for n in 1..=repeat.times {
            for step in &repeat.steps {
                self.known.insert("n".to_owned(), n.to_string());
                if let StepFlow::End(code) = self.step(step)? {
                    return Ok(StepFlow::End(code));
                }
            }
        }
        Ok(StepFlow::Next)
    }

    fn wait_input(&mut self, kind: &str, on_eof: OnEof) -> Result<StepFlow, Error> {
        match self.input.next_of(kind)? {
            Some(message) => {
                self.known.insert("input".to_owned(), message.text);
                self.known.insert("input_key".to_owned(), message.key);
                Ok(StepFlow::Next)
            }
            None => Ok(at_eof(on_eof)),
        }
    }

    fn read_line(&mut self, on_eof: OnEof) -> Result<StepFlow, Error> {
        match self.input.next_line()? {
            Some(line) => {
                self.known.insert("input".to_owned(), line);
                Ok(StepFlow::Next)
            }
            None => Ok(at_eof(on_eof)),
        }
    }

    fn read_keys(&mut self) -> Result<StepFlow, Error> {
        let Some(keys) = screen::read_keys()? else { return Ok(StepFlow::End(0)) };
        self.known.insert("input".to_owned(), keys);
        Ok(StepFlow::Next)
    }

    /// Replaces this process with the same agent, which ignores TERM and continues with the next
    /// step. Returns only on failure.
    ///
    /// A shell sets the disposition, because it survives `exec` and safe code cannot set it.
    fn replace_self(&self) -> Error {
        let mut args =
            vec![self.play.scenario.clone(), FROM_STEP.to_owned(), self.next_step.to_string()];
        if !self.play.vars.is_empty() {
            args.push(VARS.to_owned());
        }
        args.extend(self.play.vars.iter().map(|(name, value)| format!("{name}={value}")));
        match children::ignoring_term(&args) {
            Ok(mut command) => Error::io("replace itself")(command.exec()),
            Err(error) => error,
        }
    }
}

fn at_eof(on_eof: OnEof) -> StepFlow {
    match on_eof {
        OnEof::Exit(code) => StepFlow::End(code),
        OnEof::Continue => StepFlow::Next,
    }
}

fn run_command(run: &RunCommandStep, known: &BTreeMap<String, String>) -> Result<(), Error> {
    let argv: Vec<String> = run.argv.iter().map(|word| scenario::render(word, known)).collect();
    let [program, args @ ..] = argv.as_slice() else {
        return Err(Error::Step("run a command: `run` is empty".to_owned()));
    };
    let status =
        Command::new(program).args(args).status().map_err(Error::io(format!("run {program}")))?;
    expect_exit(program, status.code(), run.expect_exit)
}

/// Compares an exit code with the one that the scenario expects.
pub(super) fn expect_exit(
    program: &str,
    code: Option<i32>,
    expected: ExpectedExit,
) -> Result<(), Error> {
    match expected {
        ExpectedExit::Code(wanted) if code != Some(wanted) => {
            let was = code.map_or_else(
                || "was killed by a signal".to_owned(),
                |code| format!("exited with {code}"),
            );
            Err(Error::Step(format!("see {program} exit with {wanted}: it {was}")))
        }
        ExpectedExit::Code(_) | ExpectedExit::Any => Ok(()),
    }
}

/// Kills this process with a signal. Returns only if the signal did not kill it.
fn die(signal: i32) -> Error {
    let Some(named) = Signal::from_named_raw(signal) else {
        return Error::Step(format!("die: unknown signal {signal}"));
    };
    // The signal is sent twice, because Rust's own handler of SEGV and BUS only restores the
    // default action the first time.
    for _ in 0..2 {
        if let Err(error) = kill_process(getpid(), named) {
            return Error::io("die")(error.into());
        }
    }
    Error::Step(format!("die: signal {signal} did not kill the process"))
}

#[expect(clippy::disallowed_methods, reason = "the agent reads the environment that Provost set")]
fn launch_no() -> u32 {
    std::env::var("PROVOST_LAUNCH_NO").ok().and_then(|number| number.parse().ok()).unwrap_or(1)
}
