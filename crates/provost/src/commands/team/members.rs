//! The members of a new team: their names, and the sessions to start for them.

use clap::Args;
use provost_api::{ApiError, Client};
use provost_core::{
    ids::{SessionId, TeamId},
    session::{AgentMode, TeamMembership},
    team::{
        LoopTemplate, MemberLabels, MemberMode, MemberRole, ProvostInvocation, Team, TeamActor,
        TeamAdvanceContext, TeamCommand, TeamCommandLines, TeamOpened, TeamSpec, contract,
    },
    time::Moment,
};
use provost_engine::shell::{NewMember, NewSession};

use super::binding::LabelFlags;
use crate::{
    clock,
    commands::spawn::{build_spec, built_in::BuiltInAgent, label},
    context::Context,
    error::usage,
};

/// The members of the team
#[derive(Debug, Args)]
pub(super) struct StartMemberArgs {
    /// Worker, given as AGENT (see `spawn --agent`), NAME=AGENT or NAME=session:SESSION; with
    /// --pull, given as a name only (repeatable)
    #[arg(long, value_name = "WORKER", required = true)]
    worker: Vec<String>,
    /// Manager, given as AGENT, NAME=AGENT, NAME=session:SESSION, policy:NAME for a policy from the
    /// configuration, or `me` for yourself; with --pull, given as a name only [default: none; you
    /// act as the operator]
    #[arg(long, value_name = "MANAGER")]
    manager: Option<String>,
    /// Reviewer, in the same formats as --worker (repeatable)
    #[arg(long, value_name = "REVIEWER")]
    reviewer: Vec<String>,
    /// Start no agents; external members pull their messages
    #[arg(long)]
    pub(super) pull: bool,
    #[command(flatten)]
    labels: LabelFlags,
    /// Let workers work in the directory itself instead of in their own worktrees
    #[arg(long)]
    no_worktree: bool,
    /// Options of `provost spawn` to use for every agent, in quotes, such as '--model MODEL
    /// --budget 2M'
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    spawn: Option<String>,
}

/// The prefix that marks the name of a policy.
const POLICY: &str = "policy:";

impl StartMemberArgs {
    /// Returns the name of the policy that manages the team, if any.
    pub(super) fn policy(&self) -> Option<&str> {
        self.manager.as_deref().and_then(|manager| manager.strip_prefix(POLICY))
    }
}

/// A member that the user requested.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestedMember {
    name: String,
    role: MemberRole,
    source: MemberSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MemberSource {
    Agent(String),
    Session(String),
    /// An external member, which pulls its messages.
    External,
}

/// Everything needed to build the members of a new team.
pub(super) struct MemberBuilder<'a> {
    pub(super) context: &'a Context,
    pub(super) client: &'a Client,
    pub(super) id: TeamId,
    pub(super) spec: &'a TeamSpec,
    pub(super) args: &'a StartMemberArgs,
}

impl MemberBuilder<'_> {
    /// Returns the members and the sessions to start for them.
    pub(super) fn members(
        &self,
        template: Option<&LoopTemplate>,
    ) -> Result<Vec<NewMember>, ApiError> {
        let meant = requested_members(self.args)?;
        let labelled = labelled_member(self.args, &meant)?;
        let task = self.preview_team(&meant, template)?;
        meant.iter().map(|one| self.member(&task, one, Some(&one.name) == labelled)).collect()
    }

    /// Returns the team as it will be with its members, to produce the text of the contracts.
    fn preview_team(
        &self,
        meant: &[RequestedMember],
        template: Option<&LoopTemplate>,
    ) -> Result<Team, ApiError> {
        let now = Moment { wall_ms: clock::now_ms(), mono_ms: 0 };
        let around =
            TeamAdvanceContext { now, session: &|_| None, caller: &ProvostInvocation::default() };
        let opened = TeamOpened { spec: Box::new(self.spec.clone()) };
        let mut task = Team::open(self.id, now, &opened);
        let binds = meant.iter().map(|one| TeamCommand::Bind {
            name: one.name.clone(),
            role: one.role,
            session: None,
            labels: MemberLabels::default(),
        });
        let looped = template
            .map(|template| TeamCommand::BeginLoop { template: Box::new(template.clone()) });
        for command in binds.chain(looped) {
            let events = task
                .decide(&TeamActor::Operator, &command, &around)
                .map_err(|why| usage(why.to_string()).next("provost team start --help"))?;
            events.iter().for_each(|event| task.evolve(now, event));
        }
        Ok(task)
    }

    fn member(
        &self,
        task: &Team,
        meant: &RequestedMember,
        labelled: bool,
    ) -> Result<NewMember, ApiError> {
        let session = match &meant.source {
            MemberSource::External => None,
            MemberSource::Session(named) => Some(NewSession::Existing(named.clone())),
            MemberSource::Agent(agent) => Some(self.new_session(task, meant, agent)?),
        };
        let labels = if labelled { self.args.labels.labels() } else { MemberLabels::default() };
        Ok(NewMember { name: meant.name.clone(), role: meant.role, labels, session })
    }

    /// Returns the spec of an agent's session. The session stays open between messages, and only
    /// workers may edit files.
    fn new_session(
        &self,
        task: &Team,
        meant: &RequestedMember,
        agent: &str,
    ) -> Result<NewSession, ApiError> {
        let id = SessionId(clock::new_id());
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let edits = meant.role == MemberRole::Worker;
        let worktree = edits && !self.args.no_worktree && self.spec.project.is_some();
        let place = if worktree { "--worktree" } else { "--no-worktree" };
        let name = format!("{}-{}", self.spec.name, meant.name);
        let mut line = vec!["--agent".to_owned(), agent.to_owned(), "--name".to_owned(), name];
        line.extend(
            ["--role", meant.role.as_str(), "--cwd", &self.spec.cwd, place].map(str::to_owned),
        );
        line.extend(["--no-check", "--allow-empty-diff", "--keep"].map(str::to_owned));
        if !edits && BuiltInAgent::find(agent).is_some_and(has_own_sandbox) {
            line.extend(words("--sandbox read-only"));
        }
        line.extend(self.args.spawn.iter().flat_map(|more| words(more)));
        line.push(self.contract(task, &meant.name));
        let mut spec = build_spec(self.context, self.client, &line, id.0)?;
        spec.agent.settings.member = Some(TeamMembership { role: meant.role });
        Ok(NewSession::New { id, spec: Box::new(spec) })
    }

    fn contract(&self, task: &Team, name: &str) -> String {
        let caller = ProvostInvocation::default();
        let commands = TeamCommandLines { caller: &caller, task, member: Some(name) };
        let member = task.member(name);
        member.map(|member| contract(&commands, member, MemberMode::Tools)).unwrap_or_default()
    }
}

/// Whether the agent's program confines the commands that it runs.
fn has_own_sandbox(agent: BuiltInAgent) -> bool {
    let interface = agent.adapter.interface(AgentMode::Headless);
    interface.is_some_and(|interface| interface.capabilities.own_sandbox)
}

/// Returns warnings about the sessions to start.
pub(super) fn warnings(members: &[NewMember]) -> Vec<String> {
    let specs = members.iter().filter_map(|member| match &member.session {
        Some(NewSession::New { spec, .. }) => Some(&spec.warnings),
        Some(NewSession::Existing(_)) | None => None,
    });
    let mut all: Vec<String> = specs.flatten().cloned().collect();
    all.dedup();
    all
}

/// Returns the member whose conversation `--thread` and `--title` describe: the only external
/// worker or, if there is none, the only member.
fn labelled_member<'a>(
    args: &StartMemberArgs,
    meant: &'a [RequestedMember],
) -> Result<Option<&'a String>, ApiError> {
    let labels = args.labels.labels();
    if labels.thread.is_none() && labels.title.is_none() {
        return Ok(None);
    }
    let elsewhere: Vec<&RequestedMember> =
        meant.iter().filter(|one| one.source == MemberSource::External).collect();
    let workers: Vec<&RequestedMember> =
        elsewhere.iter().copied().filter(|one| one.role == MemberRole::Worker).collect();
    match (workers.as_slice(), elsewhere.as_slice()) {
        ([one], _) | ([], [one]) => Ok(Some(&one.name)),
        (_, all) => {
            let message = format!(
                "--thread and --title describe one conversation, but {} members are external: \
                 label each member separately",
                all.len()
            );
            Err(usage(message).next("provost team label TEAM MEMBER --thread ID --title TITLE"))
        }
    }
}

fn requested_members(args: &StartMemberArgs) -> Result<Vec<RequestedMember>, ApiError> {
    let mut all = Vec::new();
    // A policy is not a member, because it acts directly on the team.
    let manager = if args.policy().is_some() { None } else { args.manager.as_ref() };
    let roles = [
        (MemberRole::Worker, args.worker.iter().collect::<Vec<_>>()),
        (MemberRole::Manager, manager.into_iter().collect()),
        (MemberRole::Reviewer, args.reviewer.iter().collect()),
    ];
    for (role, given) in roles {
        for (at, text) in given.iter().enumerate() {
            let usual = match at {
                0 => role.as_str().to_owned(),
                _ => format!("{}-{}", role.as_str(), at + 1),
            };
            all.push(parse_member(text, role, usual, args.pull)?);
        }
    }
    Ok(all)
}

/// Parses a member given as `codex`, `hand=codex`, `hand=session:1a2b3c4d` or `me`.
fn parse_member(
    text: &str,
    role: MemberRole,
    usual: String,
    pull: bool,
) -> Result<RequestedMember, ApiError> {
    let named = |name: &str| label(name).map_err(|why| usage(format!("{text:?}: {why}")));
    if pull {
        if text.contains('=') {
            let message = format!("{text:?} must be only a name, because --pull starts no agents");
            return Err(usage(message));
        }
        return Ok(RequestedMember { name: named(text)?, role, source: MemberSource::External });
    }
    let (name, who) = match text.split_once('=') {
        Some((name, who)) => (named(name)?, who),
        None if text == "me" => (named(text)?, text),
        None => (usual, text),
    };
    let who = match (who, who.strip_prefix("session:")) {
        ("me", _) => MemberSource::External,
        ("", _) | (_, Some("")) => {
            return Err(usage(format!("no agent or session given in {text:?}"))
                .next("provost team start --help"));
        }
        (_, Some(session)) => MemberSource::Session(session.to_owned()),
        (agent, None) => MemberSource::Agent(agent.to_owned()),
    };
    Ok(RequestedMember { name, role, source: who })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str, pull: bool) -> Result<(String, MemberSource), String> {
        let read = parse_member(text, MemberRole::Worker, "worker".to_owned(), pull);
        read.map(|meant| (meant.name, meant.source)).map_err(|why| why.message)
    }

    #[test]
    fn member_is_agent_session_or_external() {
        let named = |name: &str, who| Ok((name.to_owned(), who));
        let agent = || MemberSource::Agent("codex".to_owned());
        assert_eq!(one("codex", false), named("worker", agent()));
        assert_eq!(one("hand=codex", false), named("hand", agent()));
        assert_eq!(
            one("hand=session:1a2b", false),
            named("hand", MemberSource::Session("1a2b".to_owned()))
        );
        assert_eq!(one("me", false), named("me", MemberSource::External));
        assert_eq!(one("app", true), named("app", MemberSource::External));
        for bad in ["hand=", "hand=session:", "=codex", "a\u{1b}=codex"] {
            assert!(one(bad, false).is_err(), "{bad:?}");
        }
        assert!(one("app=codex", true).is_err());
    }
}
