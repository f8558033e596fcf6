//! Pull requests via `gh`. Every call is a command under a holder, in a directory named after its
//! purpose, so that after a crash the recorded result is used and nothing is requested twice.

use std::{path::Path, time::Duration};

use provost_core::{
    ids::CommitId,
    run::{LandingState, PullRequest, PullRequestChecks, Run, RunCommand, RunEffect, RunRemote},
};
use provost_git::{Project, push_environment};
use provost_holder::{
    HoldSpec, OnLimit, ProcessEnd, StdinMode,
    journal::{self, JournalChannel, JournalReader, OpenedJournal},
};
use tokio::sync::watch;

use provost_sys::error_chain;

use super::{
    effect_gate::Permit,
    effects::{EffectName, Effects, FinishedEffect},
    engine_world::EngineWorld,
    landing::parse_oid,
    supervised_command::{self, CommandEnd},
};
use crate::{
    forge::{self, ListedPullRequest},
    run_summary,
};

/// The time limit for one call.
const TIME_LIMIT_MS: u64 = 120_000;

/// The maximum size of one call's output.
const OUTPUT_LIMIT: u64 = 8 << 20;

/// How many consecutive queries of a pull request may fail.
const MAX_FAILED_QUERIES: u32 = 100;

/// The maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 72;

/// Variables that identify the user to the forge. `gh` and `git push` receive them in addition to
/// the variables of every command.
const IDENTITY_VARIABLES: &[&str] = &[
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GH_HOST",
    "GH_REPO",
    "GH_CONFIG_DIR",
    "XDG_CONFIG_HOME",
    "SSH_AUTH_SOCK",
    "GIT_SSH_COMMAND",
];

/// Pushes the newest work, and finds or creates its pull request.
pub(crate) async fn request_pull(forge: ForgeClient<'_>, key: &str) -> RunCommand {
    forge.request(key).await.unwrap_or_else(|reason| land_failed(forge.run, reason))
}

/// Polls the pull request until it changes.
pub(crate) async fn watch_pull(
    forge: ForgeClient<'_>,
    key: &str,
    mut cancel: watch::Receiver<bool>,
) -> RunCommand {
    let run = forge.run;
    let over = RunCommand::LandingAborted { attempt: run.attempt().no, pull: None };
    tokio::select! {
        seen = forge.watch(key) => seen.unwrap_or_else(|reason| land_failed(run, reason)),
        _ = cancel.wait_for(|cancelled| *cancelled) => over,
    }
}

fn land_failed(run: &Run, reason: String) -> RunCommand {
    RunCommand::LandingFailed { attempt: run.attempt().no, reason }
}

/// Determines whether a pull request was created for a run that was stopped.
pub(crate) async fn check_requested(forge: ForgeClient<'_>, attempt: u32, key: &str) -> RunCommand {
    let run = forge.run;
    forge.wait_for_earlier_calls(attempt).await;
    let pull = match &run.landing {
        LandingState::Open => forge.find_pull(&format!("{key}.list")).await.ok().flatten(),
        LandingState::Requested(_) | LandingState::Done(_) => None,
    };
    let commit = run.head.as_ref().map(|head| head.commit.clone());
    let pull = pull.zip(commit).map(|(ListedPullRequest { number, url, .. }, commit)| {
        PullRequest { number, url, commit, seen: None }
    });
    RunCommand::LandingAborted { attempt, pull }
}

/// Communicates with the forge on behalf of one run.
#[derive(Clone, Copy)]
pub(crate) struct ForgeClient<'a> {
    pub(crate) world: &'a EngineWorld,
    pub(crate) effects: &'a Effects,
    pub(crate) run: &'a Run,
}

impl ForgeClient<'_> {
    fn effect(&self, key: &str) -> EffectName {
        EffectName::new(self.run.id, key)
    }

    async fn request(&self, key: &str) -> Result<RunCommand, String> {
        let head = self.run.head.as_ref().ok_or("there is nothing to land")?;
        self.push(&format!("{key}.push"), &head.commit).await?;
        let found = match self.find_pull(&format!("{key}.list")).await? {
            Some(found) => {
                self.list_guarded_files(key, &found).await?;
                found
            }
            None => self.create_pull(key).await?,
        };
        let (number, url, commit) = (found.number, found.url, head.commit.clone());
        Ok(RunCommand::PullRequestOpened { number, url, commit })
    }

    /// Waits for calls that an earlier daemon made and that are still running, because their results are needed.
    async fn wait_for_earlier_calls(&self, attempt: u32) {
        let key = RunEffect::Land { attempt, step: self.run.steps.len() }.key();
        for call in ["push", "create"] {
            let effect = self.effect(&format!("{key}.{call}"));
            self.effects.wait_for_end(&effect, TIME_LIMIT_MS).await;
        }
    }

    async fn push(&self, key: &str, commit: &CommitId) -> Result<(), String> {
        let target = format!("{}:refs/heads/{}", commit.0, self.run.spec.branch);
        let url = &self.remote()?.url;
        let line = ["git", "push", "--no-verify", "--quiet", "--", url, &target];
        self.act(self.permit(key), &line, "").await.map(drop)
    }

    /// Returns the remote as it was when the run was opened.
    fn remote(&self) -> Result<&RunRemote, String> {
        self.run.spec.target.remote.as_ref().ok_or_else(|| {
            "no remote was known when the run was opened; push its work yourself".to_owned()
        })
    }

    /// Returns variables that configure git wherever it runs for the user, so that neither git nor
    /// `gh` reads anything from the repository that an agent could have written.
    async fn guarded_environment(&self) -> Result<Vec<(String, String)>, String> {
        let (git, project) = (self.world.git.clone(), self.run.spec.project.clone());
        let settings = self.remote()?.settings.clone();
        let place = self.world.home.run(self.run.id).join("remote");
        let base = parse_oid(&self.run.spec.target.base.commit)?;
        let found = supervised_command::blocking(move || {
            let project = Project::find(&git, Path::new(&project))?;
            push_environment(&git, &project, &place, &base, &settings)
        });
        found.await.map_err(|why| error_chain(&why))
    }

    async fn find_pull(&self, key: &str) -> Result<Option<ListedPullRequest>, String> {
        let branch = self.run.spec.branch.as_str();
        let what = ["--state", "all", "--json", "number,url,state", "--limit", "20"];
        let line = [&["gh", "pr", "list", "--head", branch][..], &what].concat();
        let listed = forge::parse_list(&self.recorded_query(key, &line).await?)?;
        Ok(listed.into_iter().find(ListedPullRequest::is_open_or_merged))
    }

    /// Rewrites the description of an existing pull request if the work changes files that must be
    /// listed first, because later work may have changed them after the description was written.
    async fn list_guarded_files(&self, key: &str, pull: &ListedPullRequest) -> Result<(), String> {
        let (git, run) = (self.world.git.clone(), self.run.clone());
        let body = supervised_command::blocking(move || {
            run_summary::changes_guarded_files(&git, &run)
                .then(|| run_summary::render_for_pull_request(&git, &run))
        });
        let Some(body) = body.await else { return Ok(()) };
        let number = pull.number.to_string();
        let line = ["gh", "pr", "edit", &number, "--body-file", "-"];
        self.act(self.permit(&format!("{key}.edit")), &line, &body).await.map(drop)
    }

    async fn create_pull(&self, key: &str) -> Result<ListedPullRequest, String> {
        let spec = &self.run.spec;
        let title = pull_request_title(&spec.goal);
        let mut line = vec!["gh", "pr", "create", "--head", &spec.branch, "--title", &title];
        if let Some(base) = &spec.target.branch {
            line.extend(["--base", base]);
        }
        line.extend(["--body-file", "-"]);
        let (git, run) = (self.world.git.clone(), self.run.clone());
        let body =
            supervised_command::blocking(move || run_summary::render_for_pull_request(&git, &run))
                .await;
        self.act(self.permit(&format!("{key}.create")), &line, &body).await?;
        let made = self.find_pull(&format!("{key}.made")).await?;
        made.ok_or_else(|| "gh created a pull request but does not list it".to_owned())
    }

    async fn watch(&self, key: &str) -> Result<RunCommand, String> {
        let LandingState::Requested(pull) = &self.run.landing else {
            return Err("there is no pull request to watch".to_owned());
        };
        let every = Duration::from_millis(self.run.spec.pull_every_ms);
        let patience = self.run.spec.pull_checks_ms / self.run.spec.pull_every_ms.max(1);
        let (mut failed, mut looks) = (0, 0);
        loop {
            match self.fetch_state(key, pull).await {
                Ok((state, comments)) => {
                    failed = 0;
                    looks += 1;
                    // External checks start some time after a push.
                    let early = state.checks == PullRequestChecks::None && looks <= patience;
                    let new = pull.seen.as_ref() != Some(&state)
                        || !self.run.new_comments(&comments).is_empty();
                    if new && !early {
                        let look = self.run.pull_request_changes;
                        return Ok(RunCommand::PullRequestObserved { look, state, comments });
                    }
                }
                Err(why) if failed >= MAX_FAILED_QUERIES => return Err(why),
                Err(_) => failed += 1,
            }
            supervised_command::sleep(every).await;
        }
    }

    async fn fetch_state(
        &self,
        key: &str,
        pull: &PullRequest,
    ) -> Result<(provost_core::run::PullRequestState, Vec<provost_core::run::ReviewComment>), String>
    {
        let number = pull.number.to_string();
        let view = ["gh", "pr", "view", &number, "--json", forge::VIEW_FIELDS];
        let view = self.query(&format!("{key}.view"), &view).await?;
        let path = format!("repos/{{owner}}/{{repo}}/pulls/{number}/comments?per_page=100");
        let api = ["gh", "api", &path, "--paginate"];
        let lines = self.query(&format!("{key}.lines"), &api).await?;
        forge::parse_view(&view, &lines, &pull.commit.0, self.run.spec.comments_from)
    }

    fn permit(&self, key: &str) -> Permit {
        self.world.gate.permit(self.effect(key))
    }

    /// Makes a call that changes something at the remote or the forge.
    async fn act(&self, permit: Permit, line: &[&str], input: &str) -> Result<String, String> {
        self.call(permit.effect(), line, input).await
    }

    /// Makes a read-only call whose recorded result is used again after a restart.
    async fn recorded_query(&self, key: &str, line: &[&str]) -> Result<String, String> {
        self.call(&self.effect(key), line, "").await
    }

    /// Makes a read-only call. The call is not recorded, because it can be repeated.
    async fn query(&self, key: &str, line: &[&str]) -> Result<String, String> {
        // A daemon that exited during a query left a record behind.
        self.discard(key).await?;
        let seen = self.recorded_query(key, line).await;
        self.discard(key).await?;
        seen
    }

    async fn discard(&self, key: &str) -> Result<(), String> {
        let discarded = self.effects.discard(&self.effect(key)).await;
        discarded
            .map_err(|why| format!("cannot remove the record of a query: {}", error_chain(&why)))
    }

    /// Makes a call, or uses its recorded result, and returns its output.
    async fn call(
        &self,
        effect: &EffectName,
        line: &[&str],
        input: &str,
    ) -> Result<String, String> {
        let (_never, mut cancel) = watch::channel(false);
        let argv: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let mut env =
            self.world.environment.for_agent_with(&self.run.spec.agent, IDENTITY_VARIABLES);
        env.extend(self.guarded_environment().await?);
        let spec = HoldSpec {
            env,
            stdin: StdinMode::Text(input.to_owned()),
            output_limit: OUTPUT_LIMIT,
            on_limit: OnLimit::End,
            time_limit_ms: Some(TIME_LIMIT_MS),
            journal_stdin: false,
            ..HoldSpec::new(String::new(), argv, self.run.spec.project.clone())
        };
        let ended = self.effects.run(effect, spec, &mut cancel).await;
        let name = line.iter().take(3).copied().collect::<Vec<_>>().join(" ");
        match ended {
            Ok(FinishedEffect { finished: CommandEnd::Ended { exit }, dir })
                if exit.end == (ProcessEnd::Exited { code: 0 }) =>
            {
                read_output(&dir, JournalChannel::Stdout).await
            }
            Ok(FinishedEffect { finished: CommandEnd::Ended { .. }, dir }) => {
                let printed = read_output(&dir, JournalChannel::Stderr).await?;
                let printed = provost_git::printable(printed.trim().as_bytes());
                Err(format!("`{name}` failed: {printed}"))
            }
            Ok(FinishedEffect { finished: CommandEnd::Uncertain(why), .. }) => {
                Err(format!("`{name}`: {why}"))
            }
            Err(why) => Err(format!("`{name}`: {}", error_chain(&why))),
        }
    }
}

async fn read_output(dir: &Path, channel: JournalChannel) -> Result<String, String> {
    let journal = dir.join(journal::JOURNAL_FILE);
    let bytes = supervised_command::blocking(move || match JournalReader::open(&journal, 0) {
        Ok(OpenedJournal::Ready(reader)) => {
            let frames = reader.flatten().filter(|frame| frame.channel == channel);
            Ok(frames.flat_map(|frame| frame.payload).collect::<Vec<u8>>())
        }
        Ok(OpenedJournal::Lost { .. }) => Err("its output is lost".to_owned()),
        Err(why) => Err(error_chain(&why)),
    });
    Ok(String::from_utf8_lossy(&bytes.await?).into_owned())
}

fn pull_request_title(goal: &str) -> String {
    let line = goal.lines().next().unwrap_or_default();
    if line.chars().count() > MAX_TITLE_CHARS {
        line.chars().take(MAX_TITLE_CHARS - 1).chain(['…']).collect()
    } else {
        line.to_owned()
    }
}
