//! Builds the complete spec of a run from the flags and the configuration.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use provost_api::{ApiError, ErrorCode};
use provost_config::{self as config, FlagSetting, Prompt, Resolved, Switchable};
use provost_core::{
    ids::{CommitId, RunId, TreeId},
    plan::Plan,
    run::{
        CommentAuthors, LandMode, PlanMode, PlanningSpec, PromptTemplate, ReviewMode, ReviewModes,
        RunOrigin, RunRemote, RunSpec, RunTarget, TokenPrices,
    },
    session::{AgentMode, AgentSpec},
    verdict::Snapshot,
};
use provost_git::{Git, GitHead, Oid, Project, remote_of, tree_of, uncommitted};
use uuid::Uuid;

use super::{
    RunArgs,
    goal::{self, RunGoal},
    plan_file,
};
use crate::{
    commands::{
        config::ignored_project_file,
        prompt_user,
        spawn::{
            agents,
            built_in::{self, BuiltInAgent},
            policy,
            spec::directory,
            spec_from_config::{
                bounds, budget, checks, keep, ms, no_change, protected, run_hooks, shell_line,
            },
            variables::VariableArgs,
            worktree::{self, WorktreeRequest},
        },
    },
    commit_trust::{self, CommitTerms, StartCommit},
    context::Context,
    error::{chain, usage},
    settings::{self, ProjectFile, flag_list, flag_text},
    trust::{AgentWorkplace, TrustPrompt},
};

/// The settings requested for a run, before they are completed from the configuration.
pub(crate) struct RunRequest<'a> {
    pub(crate) cwd: Option<&'a Path>,
    /// The flags, which are the highest layer of the configuration.
    pub(crate) flags: Vec<FlagSetting>,
    pub(crate) preset: Option<&'a str>,
    pub(crate) goal: RunGoal,
    pub(crate) name: Option<&'a str>,
    pub(crate) agent: &'a str,
    /// An option of the request that only built-in agents support, if any.
    pub(crate) settings_flag: Option<&'static str>,
    pub(crate) variables: &'a VariableArgs,
    /// Prepared answers, by question ID.
    pub(crate) answers: BTreeMap<String, Vec<String>>,
    pub(crate) origin: Option<RunOrigin>,
    /// A plan written by the user.
    pub(crate) plan: Option<Plan>,
    /// Files that were read from the command line. Their contents are part of the run.
    pub(crate) files: Vec<&'a Path>,
    /// Whether the run ends when its plan is ready.
    pub(crate) plan_only: bool,
    /// Whether the project's file is ignored.
    pub(crate) ignore_project_config: bool,
    /// The project's file as the operator trusted it when `serve` started.
    pub(crate) pinned: Option<&'a ProjectFile>,
    /// Whether to prompt the operator to trust the project.
    pub(crate) asking: TrustPrompt,
    pub(crate) checks: CheckSource,
}

/// The origin of a run's checks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckSource {
    Configuration,
    CommandLine,
    /// No checks run, not even those in a plan.
    None,
}

impl CheckSource {
    fn from_args(args: &RunArgs) -> CheckSource {
        match (args.common.no_check, args.common.check.is_empty()) {
            (true, _) => CheckSource::None,
            (false, true) => CheckSource::Configuration,
            (false, false) => CheckSource::CommandLine,
        }
    }
}

/// Reads the request from the command line.
pub(super) fn request_from_args(args: &RunArgs) -> Result<RunRequest<'_>, ApiError> {
    let goal = goal::read_goal(args.common.goal.as_deref(), args.common.spec.as_deref())?;
    let answers = args.common.answers.as_deref().map(prompt_user::from_file).transpose()?;
    Ok(RunRequest {
        cwd: args.common.cwd.as_deref(),
        flags: flags(args),
        preset: args.common.preset.as_deref(),
        goal,
        name: args.common.name.as_deref(),
        agent: &args.common.agent,
        settings_flag: args.common.settings.first_given(),
        variables: &args.common.variables,
        answers: answers.unwrap_or_default(),
        origin: None,
        plan: args.plan.as_deref().map(plan_file::read).transpose()?,
        files: [&args.plan, &args.common.spec, &args.common.answers]
            .into_iter()
            .filter_map(|file| file.as_deref())
            .collect(),
        plan_only: args.plan_only,
        ignore_project_config: args.common.ignore_project_config,
        pinned: None,
        asking: TrustPrompt::AtTerminal,
        checks: CheckSource::from_args(args),
    })
}

/// Builds the spec, and warnings about it.
pub(super) fn build(
    context: &Context,
    wish: RunRequest<'_>,
    id: Uuid,
) -> Result<RunSpec, ApiError> {
    let cwd = directory(context, wish.cwd)?;
    let wanted = settings::ConfigInputs {
        flags: wish.flags.clone(),
        preset: wish.preset,
        ignores_project: wish.ignore_project_config,
        pinned: wish.pinned,
    };
    let config = settings::load_to_start(context, &cwd, wanted, wish.asking)?;
    let (git, project) = worktree::project_at(context, &cwd).map_err(|why| no_project(&why))?;
    let land = land(&config);
    let commit = project.commit(&git).map_err(|why| no_project(&why))?;
    let start = StartCommit { git, project, commit };
    let ignores_project = wish.ignore_project_config;
    let terms = CommitTerms { cwd: &cwd, ignores_project, asking: wish.asking };
    let committed = commit_trust::judge(context, &start, terms)?;
    let StartCommit { git, project, commit } = start;
    let target = target(&git, &project, &commit, land)?;
    let place = AgentWorkplace { cwd: &cwd, committed: committed.as_ref(), ignores_project };
    let (agent, agent_warnings) = agent(context, &wish, place, &config)?;
    let short = RunId(id).short();
    let about = wish.name.unwrap_or(&wish.goal.about);
    let wanted = WorktreeRequest { cwd: &cwd, config: &config, short: &short, about };
    let worktrees = worktree::below_home(context, &wanted, &project)?;
    let warnings = config.warnings.iter().map(ToString::to_string);
    let warnings = warnings
        .chain(ignored_project_file(&cwd, settings::project_top(&cwd).as_deref()))
        .chain(agent_warnings)
        .chain(worktree::missing_submodules(&git, &project, "the run's worktrees and checks")?)
        .chain(uncommitted_warning(&git, &project, &wish.files)?)
        .collect();
    Ok(RunSpec {
        name: wish.name.map_or_else(|| format!("run-{short}"), str::to_owned),
        preset: wish.preset.map(str::to_owned),
        project: worktree::path_text(&project.top)?,
        cwd: worktree::path_text(&cwd)?,
        target,
        // The session number 0 is a placeholder, because relative paths are resolved in the
        // worktree of each session.
        policy: policy::build(context, &config, &worktrees.join("0"))?,
        worktrees: worktree::path_text(&worktrees)?,
        branch: worktree::branch(&wanted)?,
        goal: wish.goal.goal,
        spec: wish.goal.spec,
        agent,
        triage: config.run.triage,
        planning: planning(wish.plan, wish.plan_only, &config),
        reviews: reviews(&config),
        land,
        checks: checks(&config),
        configured_checks: wish.checks == CheckSource::Configuration,
        no_checks: wish.checks == CheckSource::None,
        keep: keep(&config),
        protected: protected(&config),
        setup: config.worktree.setup.on().map(shell_line),
        copy: config.worktree.copy.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
        empty_diff: no_change(&config),
        bounds: bounds(&config),
        budget: budget(&config),
        questions: config.run.questions,
        answers: wish.answers,
        templates: templates(&config),
        hooks: run_hooks(&config)?,
        pull_every_ms: ms(config.run.pull_every),
        pull_checks_ms: ms(config.run.pull_checks),
        comments_from: comments_from(&config)?,
        prices: prices(&config)?,
        origin: wish.origin,
        warnings,
    })
}

/// Returns which users' comments are sent to the agents. A repository's file must not extend this
/// to everyone.
fn comments_from(config: &Resolved) -> Result<CommentAuthors, ApiError> {
    const KEY: &str = "run.comments_from";
    let of_project = |entry: &config::ConfigEntry| {
        entry.key == KEY && matches!(entry.source, config::ValueSource::Project(_))
    };
    match config.run.comments_from {
        config::CommentAuthors::Write => Ok(CommentAuthors::Write),
        config::CommentAuthors::Everyone if config.explain().iter().any(of_project) => {
            let message = format!(
                "the project's file sets {KEY} = \"everyone\"; only your own configuration may do that"
            );
            Err(usage(message).next("provost config show"))
        }
        config::CommentAuthors::Everyone => Ok(CommentAuthors::Everyone),
    }
}

/// Converts the flags to the highest configuration layer, so that they are validated and explained
/// like all other settings.
fn flags(args: &RunArgs) -> Vec<FlagSetting> {
    let switch =
        |on: bool, flag: &str, key: &str, value: &str| on.then(|| flag_text(flag, key, value));
    let text = |given: &Option<String>, flag: &str, key: &str| {
        given.as_deref().map(|text| flag_text(flag, key, text))
    };
    let checks = (!args.common.check.is_empty())
        .then(|| flag_list("--check", "verify.checks", &args.common.check));
    [
        switch(args.allow_empty_diff, "--allow-empty-diff", "session.allow_empty_diff", "true"),
        text(&args.land, "--land", "run.land"),
        text(&args.plan_mode, "--plan-mode", "run.plan"),
        switch(args.no_plan, "--no-plan", "run.plan", "never"),
        switch(args.common.approve_plan, "--approve-plan", "run.approve_plan", "true"),
        text(&args.parallel, "--parallel", "run.parallel"),
        text(&args.batch, "--batch", "run.batch"),
        text(&args.common.review_plan, "--review-plan", "review.plan"),
        text(&args.review_task, "--review-task", "review.task"),
        text(&args.review_final, "--review-final", "review.final"),
        text(&args.cycles, "--cycles", "review.cycles"),
        switch(args.common.triage, "--triage", "run.triage", "true"),
        switch(args.common.no_triage, "--no-triage", "run.triage", "false"),
        switch(args.common.no_questions, "--no-questions", "run.questions", "false"),
        text(&args.common.time_limit, "--time-limit", "session.time_limit"),
        text(&args.common.budget, "--budget", "budget.tokens"),
        text(&args.common.turns, "--turns", "budget.turns"),
        args.common.no_check.then(|| flag_list("--no-check", "verify.checks", &[])),
        checks,
    ]
    .into_iter()
    .flatten()
    .chain(args.common.settings.flags(Some(&args.common.agent)))
    .collect()
}

fn no_project(why: &provost_git::project::Error) -> ApiError {
    let mut error = worktree::no_project(why);
    error.message.push_str("\na run needs a git repository with files and a commit");
    error
}

/// Returns the commit from which the run starts. Merging requires a target branch.
fn target(
    git: &Git,
    project: &Project,
    commit: &Oid,
    land: LandMode,
) -> Result<RunTarget, ApiError> {
    worktree::refuse_filtered(git, project, commit)?;
    let tree = tree_of(git, project, commit.as_str())
        .map_err(|why| chain(ErrorCode::BadRequest, "cannot read the newest commit", &why))?
        .ok_or_else(|| usage(format!("the commit {commit} has no files")))?;
    let base = Snapshot {
        commit: CommitId(commit.as_str().to_owned()),
        tree: TreeId(tree.as_str().to_owned()),
    };
    let head = provost_git::read_head(git, project)
        .map_err(|why| chain(ErrorCode::BadRequest, "cannot read HEAD", &why))?;
    let branch = branch(&head);
    match (land, &branch) {
        (LandMode::Branch, _) | (LandMode::Merge, Some(_)) => {
            Ok(RunTarget { branch, base, remote: None })
        }
        (LandMode::Pr, Some(name)) => {
            let remote = Some(remote(git, project, name)?);
            Ok(RunTarget { branch, base, remote })
        }
        (LandMode::Merge | LandMode::Pr, None) => Err(usage(format!(
            "no branch is checked out, so --land {} has no branch to merge into",
            land.as_str()
        ))
        .next("git switch BRANCH")
        .next("provost run --land branch …")),
    }
}

/// The maximum number of uncommitted files to list in the warning.
const MAX_NAMED_FILES: usize = 3;

/// Warns about uncommitted changes in the user's checkout. A run starts from the last commit, so the run does not
/// include uncommitted changes. The files in `read` are left out, because their contents are part of the run.
fn uncommitted_warning(
    git: &Git,
    project: &Project,
    read: &[&Path],
) -> Result<Option<String>, ApiError> {
    let mut files = uncommitted(git, project).map_err(|why| {
        chain(ErrorCode::BadRequest, "cannot read the status of your checkout", &why)
    })?;
    let read: Vec<PathBuf> = read.iter().filter_map(|file| file.canonicalize().ok()).collect();
    files.retain(|file| {
        let full = project.top.join(file.as_path()).canonicalize();
        !full.is_ok_and(|full| read.contains(&full))
    });
    let named: Vec<String> = files.iter().take(MAX_NAMED_FILES).map(ToString::to_string).collect();
    let more = match files.len().saturating_sub(MAX_NAMED_FILES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Ok((!files.is_empty()).then(|| {
        format!(
            "the run starts from your last commit, without your uncommitted changes: {}{more}",
            named.join(", ")
        )
    }))
}

/// Returns the remote to which the run pushes its branch. The run stores the remote, because an
/// agent could later change the repository's configuration.
fn remote(git: &Git, project: &Project, branch: &str) -> Result<RunRemote, ApiError> {
    let found = remote_of(git, project, Some(branch)).map_err(|why| {
        chain(ErrorCode::BadRequest, "cannot read the remotes of the repository", &why)
    })?;
    let found = found.ok_or_else(|| {
        usage("the repository has no remote, so --land pr has nowhere to push")
            .next("git remote add origin URL")
            .next("provost run --land branch …")
    })?;
    Ok(RunRemote { name: found.name, url: found.url, settings: found.settings })
}

fn branch(head: &GitHead) -> Option<String> {
    let full = head.branch()?.as_os_str().to_str()?;
    full.strip_prefix("refs/heads/").map(str::to_owned)
}

fn land(config: &Resolved) -> LandMode {
    match config.run.land {
        config::Land::Branch => LandMode::Branch,
        config::Land::Merge => LandMode::Merge,
        config::Land::Pr => LandMode::Pr,
    }
}

fn reviews(config: &Resolved) -> ReviewModes {
    let mode = |mode: config::ReviewMode| match mode {
        config::ReviewMode::Off => ReviewMode::Off,
        config::ReviewMode::Report => ReviewMode::Report,
        config::ReviewMode::Repair => ReviewMode::Repair,
    };
    let review = &config.review;
    ReviewModes {
        plan: mode(review.plan),
        task: mode(review.task),
        whole: mode(review.whole),
        cycles: review.cycles,
    }
}

/// Returns how the goal is planned. Agents do not review a plan that the user wrote.
fn planning(given: Option<Plan>, only: bool, config: &Resolved) -> PlanningSpec {
    let run = &config.run;
    let of_machine = std::thread::available_parallelism().map_or(1, usize::from);
    let of_machine = u32::try_from(of_machine).unwrap_or(u32::MAX).clamp(2, 8);
    let parallel = run.parallel.on().copied().unwrap_or(of_machine);
    let machine_parallel = run.machine_parallel.on().copied().unwrap_or(parallel.saturating_mul(2));
    PlanningSpec {
        mode: match run.plan {
            _ if only => PlanMode::Always,
            config::PlanMode::Auto => PlanMode::Auto,
            config::PlanMode::Always => PlanMode::Always,
            config::PlanMode::Never => PlanMode::Never,
        },
        given,
        approve: run.approve_plan,
        only,
        parallel,
        machine_parallel,
        batch: run.batch,
        retries: run.retries,
    }
}

/// Returns the agent, and warnings about it.
fn agent(
    context: &Context,
    wish: &RunRequest<'_>,
    place: AgentWorkplace<'_>,
    config: &Resolved,
) -> Result<(AgentSpec, Vec<String>), ApiError> {
    if let Some(built_in) = BuiltInAgent::find(wish.agent) {
        let (mut agent, warnings) =
            built_in.spec(context, wish.variables, AgentMode::Headless, config, place)?;
        // The prompts describe the agent's own tools, so the agent's settings must be known.
        agent.settings.multi_agent = built_in.multi_agent(context, config, &agent.argv)?;
        return Ok((agent, warnings));
    }
    if let Some(flag) = wish.settings_flag {
        return Err(built_in::only_built_in(flag, "provost run --agent AGENT …"));
    }
    let agent = agents::configured(context, Some(wish.agent), &[], wish.variables, config)?;
    check_agent_capabilities(&agent, wish, config)?;
    Ok((agent, Vec::new()))
}

/// Rejects an agent that cannot receive instructions, or that cannot return the structured results
/// that triage, planning and reviews need.
fn check_agent_capabilities(
    agent: &AgentSpec,
    wish: &RunRequest<'_>,
    config: &Resolved,
) -> Result<(), ApiError> {
    if !agent.interface.takes_instructions() {
        let message = format!(
            "agent {:?} uses the adapter \"command\", which takes no instructions, so it cannot work for a run",
            agent.name
        );
        return Err(usage(message).next("provost spawn --check COMMAND -- PROGRAM"));
    }
    let reviews = reviews(config);
    let reviewed = reviews.task != ReviewMode::Off || reviews.whole != ReviewMode::Off;
    // If a plan was given, no triage is needed.
    let planned =
        config.run.triage || wish.plan_only || config.run.plan == config::PlanMode::Always;
    let needed = reviewed || (planned && wish.plan.is_none());
    if !needed {
        return Ok(());
    }
    Err(usage(format!(
        "triage, plans and reviews need an agent with structured results, which {:?} does not have",
        agent.name
    ))
    .next(format!(
        "provost run --agent {} --no-triage --no-plan --review-task off --review-final off …",
        agent.name
    ))
    .next(format!(
        "provost run --agent {} --plan FILE --review-task off --review-final off …",
        agent.name
    )))
}

fn templates(config: &Resolved) -> BTreeMap<PromptTemplate, String> {
    let prompts = &config.prompts;
    let own = |template: PromptTemplate| -> &Switchable<Prompt> {
        match template {
            PromptTemplate::Triage => &prompts.triage,
            PromptTemplate::Plan => &prompts.plan,
            PromptTemplate::PlanReview => &prompts.plan_review,
            PromptTemplate::PlanFaults => &prompts.plan_faults,
            PromptTemplate::Next => &prompts.next,
            PromptTemplate::Broken => &prompts.broken,
            PromptTemplate::Work => &prompts.work,
            PromptTemplate::Review => &prompts.review,
            PromptTemplate::Repair => &prompts.repair,
            PromptTemplate::Resume => &prompts.resume,
            PromptTemplate::Merge => &prompts.merge,
            PromptTemplate::ReviewComments => &prompts.review_comments,
        }
    };
    let worded = PromptTemplate::ALL.into_iter().filter_map(|template| {
        own(template).on().map(|prompt| (template, prompt.as_str().to_owned()))
    });
    worded.collect()
}

/// Returns the prices. The input and output prices must be set together, because with only one of
/// them the cost would be wrong.
fn prices(config: &Resolved) -> Result<Option<TokenPrices>, ApiError> {
    let prices = &config.prices;
    match (prices.input.on(), prices.output.on()) {
        (None, None) => Ok(None),
        (Some(input), Some(output)) => Ok(Some(TokenPrices {
            currency: prices.currency.as_str().to_owned(),
            input: input.millionths(),
            output: output.millionths(),
        })),
        (Some(_), None) | (None, Some(_)) => {
            Err(usage("prices.input and prices.output must be set together")
                .next("provost config show"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_knows_prompt_placeholders() {
        assert_eq!(config::PLACEHOLDERS, provost_core::run::placeholders());
    }
}
