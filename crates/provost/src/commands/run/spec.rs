//! The whole spec of a run, resolved once from flags and configuration.

use std::collections::BTreeMap;

use provost_api::{ApiError, Code};
use provost_config::{self as config, Choice, Flag, Prompt, Resolved};
use provost_core::{
    ids::{CommitId, RunId, TreeId},
    run::{LandMode, Prices, ReviewMode, Reviews, RunSpec, Target, Template},
    session::{Agent, Driver},
    verdict::Snapshot,
};
use provost_git::{Git, Head, Project, tree_of};
use uuid::Uuid;

use super::{RunArgs, goal};
use crate::{
    codex::Setup,
    commands::{
        asking,
        config::unread,
        spawn::{
            agents,
            chosen::{
                bounds, budget, checks, keep, ms, no_change, protected, run_hooks, shell_line,
            },
            codex::{self, Way},
            place::{self, Wanted},
            policy,
            spec::directory,
        },
    },
    context::Context,
    error::{chain, usage},
    settings::{self, flag_list, flag_text},
};

/// Builds the spec, with what is worth a warning in it.
pub(super) fn build(context: &Context, args: &RunArgs, id: Uuid) -> Result<RunSpec, ApiError> {
    let cwd = directory(context, args.cwd.as_deref())?;
    let preset = args.preset.as_deref();
    let config = settings::load_with(&context.environment, &cwd, flags(args), preset)?;
    let goal = goal::take(args.goal.as_deref(), args.spec.as_deref())?;
    let answers = args.answers.as_deref().map(asking::from_file).transpose()?;
    let (git, project) = place::project_at(context, &cwd).map_err(|why| no_project(&why))?;
    let land = land(&config);
    let target = target(&git, &project, land)?;
    let (agent, agent_warnings) = agent(context, args, &config)?;
    let short = RunId(id).short();
    let about = args.name.as_deref().unwrap_or(&goal.about);
    let wanted = Wanted { cwd: &cwd, config: &config, short: &short, about };
    let worktrees = place::below_home(context, &wanted, &project)?;
    let warnings = config.warnings.iter().map(ToString::to_string);
    let warnings = warnings
        .chain(unread(&cwd, settings::project_top(&cwd).as_deref()))
        .chain(agent_warnings)
        .chain(place::absent(&git, &project, "the run's worktrees and checks")?)
        .collect();
    Ok(RunSpec {
        name: args.name.clone().unwrap_or_else(|| format!("run-{short}")),
        goal: goal.goal,
        preset: args.preset.clone(),
        spec: goal.spec,
        project: place::text(&project.top)?,
        cwd: place::text(&cwd)?,
        target,
        // No session has number 0: what begins there begins in each session's own worktree.
        policy: policy::build(context, &config, &worktrees.join("0"))?,
        worktrees: place::text(&worktrees)?,
        branch: place::branch(&wanted)?,
        agent,
        triage: config.run.triage,
        reviews: reviews(&config),
        land,
        checks: checks(&config),
        keep: keep(&config),
        protected: protected(&config),
        setup: config.worktree.setup.on().map(shell_line),
        copy: config.worktree.copy.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
        empty_diff: no_change(&config),
        bounds: bounds(&config),
        budget: budget(&config),
        questions: config.run.questions,
        answers: answers.unwrap_or_default(),
        templates: templates(&config),
        hooks: run_hooks(&config)?,
        pull_every_ms: ms(config.run.pull_every),
        pull_checks_ms: ms(config.run.pull_checks),
        prices: prices(&config)?,
        warnings,
    })
}

/// Flags are the highest layer of the configuration, so they are checked and explained as it is.
fn flags(args: &RunArgs) -> Vec<Flag> {
    let switch =
        |on: bool, flag: &str, key: &str, value: &str| on.then(|| flag_text(flag, key, value));
    let text = |given: &Option<String>, flag: &str, key: &str| {
        given.as_deref().map(|text| flag_text(flag, key, text))
    };
    let checks =
        (!args.check.is_empty()).then(|| flag_list("--check", "verify.checks", &args.check));
    [
        switch(args.no_change_ok, "--no-change-ok", "session.no_change_ok", "true"),
        text(&args.land, "--land", "run.land"),
        text(&args.review_task, "--review-task", "review.task"),
        text(&args.review_final, "--review-final", "review.final"),
        text(&args.cycles, "--cycles", "review.cycles"),
        switch(args.triage, "--triage", "run.triage", "true"),
        switch(args.no_triage, "--no-triage", "run.triage", "false"),
        switch(args.no_questions, "--no-questions", "run.questions", "false"),
        text(&args.time_limit, "--time-limit", "session.time_limit"),
        text(&args.budget, "--budget", "budget.tokens"),
        text(&args.turns, "--turns", "budget.turns"),
        args.no_check.then(|| flag_list("--no-check", "verify.checks", &[])),
        checks,
    ]
    .into_iter()
    .flatten()
    .chain(args.codex.flags())
    .collect()
}

fn no_project(why: &provost_git::project::Error) -> ApiError {
    let mut error = place::no_project(why);
    error.message.push_str("\na run needs a git repository with files and a commit");
    error
}

/// Looks where the run begins. What is to be merged needs a branch to be merged into.
fn target(git: &Git, project: &Project, land: LandMode) -> Result<Target, ApiError> {
    let commit = project.commit().map_err(|why| no_project(&why))?;
    let tree = tree_of(git, project, commit.as_str())
        .map_err(|why| chain(Code::BadRequest, "cannot read the newest commit", &why))?
        .ok_or_else(|| usage(format!("the commit {commit} has no files")))?;
    let base = Snapshot {
        commit: CommitId(commit.as_str().to_owned()),
        tree: TreeId(tree.as_str().to_owned()),
    };
    let branch = branch(&project.head);
    match (land, &branch) {
        (LandMode::Branch, _) | (LandMode::Merge | LandMode::Pr, Some(_)) => {
            Ok(Target { branch, base })
        }
        (LandMode::Merge | LandMode::Pr, None) => Err(usage(format!(
            "no branch is checked out, so there is none that the work could be merged into by --land {}",
            land.word()
        ))
        .next("git switch BRANCH")
        .next("provost run --land branch …")),
    }
}

fn branch(head: &Head) -> Option<String> {
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

fn reviews(config: &Resolved) -> Reviews {
    let mode = |mode: config::ReviewMode| match mode {
        config::ReviewMode::Off => ReviewMode::Off,
        config::ReviewMode::Report => ReviewMode::Report,
        config::ReviewMode::Repair => ReviewMode::Repair,
    };
    let review = &config.review;
    Reviews { task: mode(review.task), whole: mode(review.whole), cycles: review.cycles }
}

/// Gives the agent, with what is worth a warning about it.
fn agent(
    context: &Context,
    args: &RunArgs,
    config: &Resolved,
) -> Result<(Agent, Vec<String>), ApiError> {
    if args.agent == config::BUILT_IN {
        let (mut agent, warnings) =
            codex::agent(context, &args.variables, Way::Conversation, config)?;
        // Its prompts say how to use them, so it has to be known.
        let setup = Setup::new(&context.environment, config)?;
        agent.settings.multi_agent = setup.multi_agent(&agent.argv)?;
        return Ok((agent, warnings));
    }
    if let Some(flag) = args.codex.given() {
        return Err(usage(format!("{flag} is for Codex")).next("provost run --agent codex …"));
    }
    let agent = agents::configured(context, Some(&args.agent), &[], &args.variables, config)?;
    refuse_what_it_cannot(&agent, config)?;
    Ok((agent, Vec::new()))
}

/// A run tells its agent what to do, and its reviewers have to tell what they found in a given form.
fn refuse_what_it_cannot(agent: &Agent, config: &Resolved) -> Result<(), ApiError> {
    if agent.driver == Driver::Command {
        let message = format!(
            "the agent {:?} is run by the driver \"command\", which takes no instruction, so it cannot work for a run",
            agent.name
        );
        return Err(usage(message).next("provost spawn --check COMMAND -- PROGRAM"));
    }
    let reviews = reviews(config);
    let none =
        !config.run.triage && reviews.task == ReviewMode::Off && reviews.whole == ReviewMode::Off;
    match none {
        true => Ok(()),
        false => Err(usage(format!(
            "triage and reviews need an agent that tells its result in a given form, and {:?} does not",
            agent.name
        ))
        .next(format!(
            "provost run --agent {} --no-triage --review-task off --review-final off …",
            agent.name
        ))),
    }
}

fn templates(config: &Resolved) -> BTreeMap<Template, String> {
    let prompts = &config.prompts;
    let own = |template: Template| -> &Choice<Prompt> {
        match template {
            Template::Triage => &prompts.triage,
            Template::Work => &prompts.work,
            Template::Review => &prompts.review,
            Template::Repair => &prompts.repair,
            Template::Resume => &prompts.resume,
            Template::Merge => &prompts.merge,
            Template::Remarks => &prompts.remarks,
        }
    };
    let worded = Template::ALL.into_iter().filter_map(|template| {
        own(template).on().map(|prompt| (template, prompt.as_str().to_owned()))
    });
    worded.collect()
}

/// Half a price would show half a cost.
fn prices(config: &Resolved) -> Result<Option<Prices>, ApiError> {
    let prices = &config.prices;
    match (prices.input.on(), prices.output.on()) {
        (None, None) => Ok(None),
        (Some(input), Some(output)) => Ok(Some(Prices {
            currency: prices.currency.as_str().to_owned(),
            input: input.millionths(),
            output: output.millionths(),
        })),
        (Some(_), None) | (None, Some(_)) => {
            Err(usage("prices.input and prices.output are set together or not at all")
                .next("provost config show"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_knows_the_placeholders_of_prompts() {
        assert_eq!(config::PLACEHOLDERS, provost_core::run::placeholders());
    }
}
