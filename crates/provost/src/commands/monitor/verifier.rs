//! The verifier of a workflow, which is resolved from the configuration and run in a worktree.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use provost_api::{ApiError, ErrorCode, VerifyEnd, VerifyReply, VerifyRequest};
use provost_bmad::BmadWorkflow as BuiltIn;
use provost_config::{
    CommandSpec, Escalation, Resolved, Switchable, TextLine, Verifier as Settings, Workflow,
};
use provost_sys::program::{ProgramEnd, ProgramRun};
use provost_verify::{
    CommandRun, ProgramExit, RetryPolicy, Urgency, Verifier, VerifierProgram, VerifierSpec,
    VerifierVerdict, WorkKey,
};

use crate::{
    commands::spawn::agents,
    context::Context,
    error::{unknown_name, usage},
};

/// The shell that runs single-line commands.
const SHELL: &str = "/bin/sh";

/// The additional time that the daemon has to terminate a verifier's command and reply.
const DAEMON_GRACE: Duration = Duration::from_secs(60);

/// The verifier that decides whether work is complete.
pub(super) struct WorkflowVerifier {
    pub(super) workflow: String,
    /// The verifier's name.
    pub(super) name: String,
    pub(super) policy: RetryPolicy,
    verifier: Verifier,
    key: WorkKey,
    limits: VerifierLimits,
    environment: BTreeMap<String, String>,
    /// The directory of the file that configures the verifier's command. Relative programs are resolved there.
    base: PathBuf,
}

/// The limits of a command.
struct VerifierLimits {
    time: Duration,
    output: usize,
}

impl WorkflowVerifier {
    /// Finds the workflow and its verifier. Both come from the configuration of the monitor's
    /// directory, not from the agent's directory, so that no agent can change the verifier of its
    /// own work.
    pub(super) fn resolve(
        context: &Context,
        resolved: &Resolved,
        workflow: &str,
        key: &WorkKey,
    ) -> Result<Self, ApiError> {
        let known = resolved.workflows.get(bmad_name(workflow));
        let settings = known.ok_or_else(|| {
            unknown_name("workflow", workflow, &names(resolved)).next("provost config show")
        })?;
        let name = settings.verifier.as_str().to_owned();
        let (verifier, limits) = verifier(resolved, workflow, &name)?;
        let base = resolved.directory_of(&format!("verifiers.{name}.command")).map(Path::to_owned);
        let here = context.environment.current_dir()?;
        // An invalid key cannot become valid later, so fail immediately.
        verifier.check_key(key).map_err(|why| {
            usage(format!("{why}, for the workflow {workflow:?}"))
                .next(format!("provost monitor ID --workflow {workflow} --item ITEM"))
        })?;
        for agent in &settings.fallback {
            agents::find_outline(agent.as_str(), resolved).map_err(|why| {
                let message = format!("workflows.{workflow}.fallback: {}", why.message);
                ApiError { message, ..why }
            })?;
        }
        let variables = context.environment.variables().iter();
        let passed = variables.filter(|(name, _)| resolved.environment.passes(name));
        Ok(Self {
            workflow: workflow.to_owned(),
            name,
            policy: policy(settings),
            verifier,
            key: key.clone(),
            limits,
            environment: passed.map(|(name, value)| (name.clone(), value.clone())).collect(),
            base: base.unwrap_or(here),
        })
    }

    /// Runs the verifier in a worktree.
    pub(super) fn verify(&self, context: &Context, place: &Path) -> VerifierVerdict {
        self.verifier.check(place, &self.key, |program| self.run(context, place, program))
    }

    /// Runs a command. The daemon runs the command under a holder, so that no code written by the agent runs as the
    /// operator. A caller that is not the operator, such as an agent, runs the command directly with its own
    /// permissions.
    fn run(&self, context: &Context, place: &Path, program: &VerifierProgram) -> CommandRun {
        let silent = |ended| CommandRun { ended, output: String::new() };
        let mut argv = program.argv.clone();
        let Some(first) = argv.first_mut() else {
            return silent(ProgramExit::NotStarted(
                "the command does not specify a program".to_owned(),
            ));
        };
        if first.contains('/') {
            *first = self.base.join(first.as_str()).display().to_string();
        }
        let request = VerifyRequest {
            argv,
            directory: place.display().to_string(),
            environment: self.environment.clone(),
            time_limit_ms: u64::try_from(self.limits.time.as_millis()).unwrap_or(u64::MAX),
            output_limit: self.limits.output as u64,
        };
        match self.run_by_daemon(context, &request) {
            Ok(reply) => CommandRun { ended: ended(reply.end), output: reply.printed },
            Err(why) if why.code == ErrorCode::Forbidden => self.run_here(place, &request.argv),
            Err(why) => silent(ProgramExit::NotStarted(why.message)),
        }
    }

    fn run_by_daemon(
        &self,
        context: &Context,
        request: &VerifyRequest,
    ) -> Result<VerifyReply, ApiError> {
        let time = self.limits.time.saturating_add(DAEMON_GRACE);
        context.daemon()?.with_timeout(time).post(
            "/v1/verify",
            request,
            &context.idempotency_key(None),
        )
    }

    fn run_here(&self, place: &Path, argv: &[String]) -> CommandRun {
        let silent = |ended| CommandRun { ended, output: String::new() };
        let Some((first, args)) = argv.split_first() else {
            return silent(ProgramExit::NotStarted(
                "the command does not specify a program".to_owned(),
            ));
        };
        let os = |(name, value): (&String, &String)| (OsString::from(name), OsString::from(value));
        let run = ProgramRun {
            program: PathBuf::from(first),
            args: args.iter().map(OsString::from).collect(),
            directory: place.to_owned(),
            environment: self.environment.iter().map(os).collect(),
            limit: self.limits.time,
            output_limit: self.limits.output,
        };
        let finished = match run.finish() {
            Ok(finished) => finished,
            Err(why) => return silent(ProgramExit::NotStarted(why.to_string())),
        };
        let ended = match finished.end {
            ProgramEnd::Code(code) => ProgramExit::Code(code),
            ProgramEnd::Signal(signal) => ProgramExit::Signal(signal),
            ProgramEnd::TimedOut => ProgramExit::TimedOut,
            ProgramEnd::TooMuchOutput => ProgramExit::TooMuchOutput,
        };
        let printed = [&finished.stderr, &finished.stdout].map(|bytes| last_line(bytes));
        let output = printed.into_iter().flatten().next().unwrap_or_default();
        CommandRun { ended, output }
    }
}

fn ended(end: VerifyEnd) -> ProgramExit {
    match end {
        VerifyEnd::Exit(code) => ProgramExit::Code(code),
        VerifyEnd::Signal(signal) => ProgramExit::Signal(signal),
        VerifyEnd::TimeLimit => ProgramExit::TimedOut,
        VerifyEnd::OutputLimit => ProgramExit::TooMuchOutput,
        VerifyEnd::Unfinished(why) => ProgramExit::NotStarted(why),
    }
}

/// Returns the last line that is not blank. Most programs print the reason for a failure there.
fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map(str::to_owned)
}

/// Converts story-automator's name for a workflow to BMAD's.
fn bmad_name(workflow: &str) -> &str {
    if workflow == "auto" { "automate" } else { workflow }
}

fn names(resolved: &Resolved) -> Vec<&str> {
    resolved.workflows.keys().map(String::as_str).collect()
}

fn verifier(
    resolved: &Resolved,
    workflow: &str,
    name: &str,
) -> Result<(Verifier, VerifierLimits), ApiError> {
    let no_command = VerifierLimits { time: Duration::ZERO, output: 0 };
    let Some(settings) = resolved.verifiers.get(name) else {
        let built_in = BuiltIn::from_verifier_name(name);
        let known = resolved.verifiers.keys().map(String::as_str);
        let known: Vec<&str> =
            known.chain(BuiltIn::ALL.iter().map(|workflow| workflow.verifier())).collect();
        let what = format!("verifier for workflow {workflow:?} called");
        return built_in
            .map(|built_in| (Verifier::Workflow(Arc::new(built_in)), no_command))
            .ok_or_else(|| unknown_name(&what, name, &known).next("provost config show"));
    };
    if let Switchable::On(CommandSpec::Shell(line)) = &settings.command
        && let Some(program) = relative_program(line)
    {
        let message = format!(
            "verifier {name:?} runs {program:?} from the agent's directory, where the agent can change it; to run the program next to the configuration file instead, write the command as a list: command = [{program:?}, …]"
        );
        return Err(usage(message).next("provost config show"));
    }
    let made = declared(settings).verifier().map_err(|why| {
        usage(format!("cannot use verifier {name:?}: {why}")).next("provost config show")
    })?;
    let output = usize::try_from(settings.output_limit.get()).unwrap_or(usize::MAX);
    Ok((made, VerifierLimits { time: settings.time_limit, output }))
}

/// Returns the program at the start of a shell command, if it is a relative path.
fn relative_program(line: &str) -> Option<&str> {
    let first = line.split_whitespace().next()?;
    (first.contains('/') && !first.starts_with('/')).then_some(first)
}

fn declared(settings: &Settings) -> VerifierSpec {
    let text = |line: &Option<TextLine>| line.as_ref().map(|line| line.as_str().to_owned());
    let command = match &settings.command {
        Switchable::On(CommandSpec::Shell(line)) => {
            Some(vec![SHELL.to_owned(), "-c".to_owned(), line.clone()])
        }
        Switchable::On(CommandSpec::Argv(argv)) => Some(argv.as_slice().to_vec()),
        Switchable::Off | Switchable::Unset => None,
    };
    VerifierSpec {
        command,
        file: text(&settings.file),
        matches: text(&settings.matches),
        field: text(&settings.field),
        equals: text(&settings.equals),
    }
}

fn policy(settings: &Workflow) -> RetryPolicy {
    RetryPolicy {
        retries: settings.retries,
        urgency: match settings.escalate {
            Escalation::Critical => Urgency::Critical,
            Escalation::Preference => Urgency::Preference,
        },
        defer_on_plateau: settings.defer_on_plateau,
        fallback: settings.fallback.iter().map(|name| name.as_str().to_owned()).collect(),
    }
}
