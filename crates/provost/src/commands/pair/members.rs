//! The members of a new team: their names, and the sessions that are started for them.

use clap::Args;
use provost_api::{ApiError, Client};
use provost_core::{
    ids::{SessionId, StandingId},
    session::Membership,
    task::{
        Actor, Around, Caller, Command, Commands, Labels, Role, Task, TaskOpened, TaskSpec,
        Template, Via, contract,
    },
    time::Moment,
};
use provost_engine::shell::{NewMember, NewSession};

use crate::{
    clock,
    commands::{
        spawn::{label, spec_of},
        task::LabelFlags,
    },
    context::Context,
    error::usage,
};

/// The members of the team
#[derive(Debug, Args)]
pub(super) struct MemberArgs {
    /// Worker: an agent as in `spawn --agent`, NAME=AGENT or NAME=session:SESSION (repeatable). With --pull a name
    #[arg(long, value_name = "WORKER", required = true)]
    worker: Vec<String>,
    /// Manager: an agent, NAME=AGENT, NAME=session:SESSION, policy:NAME for a policy from the configuration, or `me`
    /// for yourself. With --pull a name
    #[arg(long, value_name = "MANAGER")]
    manager: Option<String>,
    /// Reviewer, in the same forms (repeatable)
    #[arg(long, value_name = "REVIEWER")]
    reviewer: Vec<String>,
    /// Start no agents: the members are opened elsewhere and pull their messages
    #[arg(long)]
    pull: bool,
    #[command(flatten)]
    labels: LabelFlags,
    /// Let workers work in the directory itself instead of in their own worktrees
    #[arg(long)]
    no_worktree: bool,
    /// Further options of `provost spawn` for every started agent, as one text such as '--model MODEL --budget 2M'
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    spawn: Option<String>,
}

/// The prefix of a policy's name.
const POLICY: &str = "policy:";

impl MemberArgs {
    /// Returns the policy that manages the team, if any.
    pub(super) fn policy(&self) -> Option<&str> {
        self.manager.as_deref().and_then(|manager| manager.strip_prefix(POLICY))
    }
}

/// A requested member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Meant {
    name: String,
    role: Role,
    who: Who,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Who {
    Agent(String),
    Session(String),
    /// A member opened elsewhere that pulls its messages.
    Elsewhere,
}

/// The inputs for opening a team.
pub(super) struct Opening<'a> {
    pub(super) context: &'a Context,
    pub(super) client: &'a Client,
    pub(super) id: StandingId,
    pub(super) spec: &'a TaskSpec,
    pub(super) args: &'a MemberArgs,
}

impl Opening<'_> {
    /// Returns the members, with the sessions to start for them.
    pub(super) fn members(&self, template: Option<&Template>) -> Result<Vec<NewMember>, ApiError> {
        let meant = meant(self.args)?;
        let labelled = labelled(self.args, &meant)?;
        let task = self.imagined(&meant, template)?;
        meant.iter().map(|one| self.member(&task, one, Some(&one.name) == labelled)).collect()
    }

    /// Returns the team as it will be, for the text of the contracts.
    fn imagined(&self, meant: &[Meant], template: Option<&Template>) -> Result<Task, ApiError> {
        let now = Moment { wall_ms: clock::now_ms(), mono_ms: 0 };
        let around = Around { now, look: &|_| None, caller: &Caller::default() };
        let opened = TaskOpened { spec: Box::new(self.spec.clone()) };
        let mut task = Task::open(self.id, now, &opened);
        let binds = meant.iter().map(|one| Command::Bind {
            name: one.name.clone(),
            role: one.role,
            session: None,
            labels: Labels::default(),
        });
        let looped =
            template.map(|template| Command::BeginLoop { template: Box::new(template.clone()) });
        for command in binds.chain(looped) {
            let events = task
                .decide(&Actor::Operator, &command, &around)
                .map_err(|why| usage(why.to_string()).next("provost pair --help"))?;
            events.iter().for_each(|event| task.evolve(now, event));
        }
        Ok(task)
    }

    fn member(&self, task: &Task, meant: &Meant, labelled: bool) -> Result<NewMember, ApiError> {
        let session = match &meant.who {
            Who::Elsewhere => None,
            Who::Session(named) => Some(NewSession::Existing(named.clone())),
            Who::Agent(agent) => Some(self.started(task, meant, agent)?),
        };
        let labels = if labelled { self.args.labels.labels() } else { Labels::default() };
        Ok(NewMember { name: meant.name.clone(), role: meant.role, labels, session })
    }

    /// Returns the session of a started agent: it stays open between messages, and only workers may edit.
    fn started(&self, task: &Task, meant: &Meant, agent: &str) -> Result<NewSession, ApiError> {
        let id = SessionId(clock::mint());
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let edits = meant.role == Role::Worker;
        let worktree = edits && !self.args.no_worktree && self.spec.project.is_some();
        let place = if worktree { "--worktree" } else { "--no-worktree" };
        let name = format!("{}-{}", self.spec.name, meant.name);
        let mut line = vec!["--agent".to_owned(), agent.to_owned(), "--name".to_owned(), name];
        line.extend(
            ["--role", meant.role.word(), "--cwd", &self.spec.cwd, place].map(str::to_owned),
        );
        line.extend(["--no-check", "--no-change-ok", "--keep"].map(str::to_owned));
        if !edits && agent == provost_config::BUILT_IN {
            line.extend(words("--sandbox read-only"));
        }
        line.extend(self.args.spawn.iter().flat_map(|more| words(more)));
        line.push(self.contract(task, &meant.name));
        let mut spec = spec_of(self.context, self.client, &line, id.0)?;
        spec.agent.settings.member = Some(Membership { role: meant.role });
        Ok(NewSession::New { id, spec: Box::new(spec) })
    }

    fn contract(&self, task: &Task, name: &str) -> String {
        let caller = Caller::default();
        let commands = Commands { caller: &caller, task, by: Some(name) };
        let member = task.member(name);
        member.map(|member| contract(&commands, member, Via::Tools)).unwrap_or_default()
    }
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

/// Returns the member that the conversation labels apply to, because they describe one conversation. It is the only
/// worker opened elsewhere, or the only member.
fn labelled<'a>(args: &MemberArgs, meant: &'a [Meant]) -> Result<Option<&'a String>, ApiError> {
    let labels = args.labels.labels();
    if labels.thread.is_none() && labels.title.is_none() {
        return Ok(None);
    }
    let elsewhere: Vec<&Meant> = meant.iter().filter(|one| one.who == Who::Elsewhere).collect();
    let workers: Vec<&Meant> =
        elsewhere.iter().copied().filter(|one| one.role == Role::Worker).collect();
    match (workers.as_slice(), elsewhere.as_slice()) {
        ([one], _) | ([], [one]) => Ok(Some(&one.name)),
        (_, all) => {
            let message = format!(
                "--thread and --title describe one conversation, but {} members could have it: label each member separately",
                all.len()
            );
            Err(usage(message).next("provost task label TASK MEMBER --thread ID --title TITLE"))
        }
    }
}

fn meant(args: &MemberArgs) -> Result<Vec<Meant>, ApiError> {
    let mut all = Vec::new();
    // A policy is not a member: it acts on the team itself.
    let manager = if args.policy().is_some() { None } else { args.manager.as_ref() };
    let roles = [
        (Role::Worker, args.worker.iter().collect::<Vec<_>>()),
        (Role::Manager, manager.into_iter().collect()),
        (Role::Reviewer, args.reviewer.iter().collect()),
    ];
    for (role, given) in roles {
        for (at, text) in given.iter().enumerate() {
            let usual = match at {
                0 => role.word().to_owned(),
                _ => format!("{}-{}", role.word(), at + 1),
            };
            all.push(read(text, role, usual, args.pull)?);
        }
    }
    Ok(all)
}

/// Parses a member, as in `codex`, `hand=codex`, `hand=session:1a2b3c4d` or `me`.
fn read(text: &str, role: Role, usual: String, pull: bool) -> Result<Meant, ApiError> {
    let named = |name: &str| label(name).map_err(|why| usage(format!("{text:?}: {why}")));
    if pull {
        if text.contains('=') {
            let message = format!("--pull starts no agents: {text:?} must be only a name");
            return Err(usage(message));
        }
        return Ok(Meant { name: named(text)?, role, who: Who::Elsewhere });
    }
    let (name, who) = match text.split_once('=') {
        Some((name, who)) => (named(name)?, who),
        None if text == "me" => (named(text)?, text),
        None => (usual, text),
    };
    let who = match (who, who.strip_prefix("session:")) {
        ("me", _) => Who::Elsewhere,
        ("", _) | (_, Some("")) => {
            return Err(
                usage(format!("{text:?} has no agent or session")).next("provost pair --help")
            );
        }
        (_, Some(session)) => Who::Session(session.to_owned()),
        (agent, None) => Who::Agent(agent.to_owned()),
    };
    Ok(Meant { name, role, who })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str, pull: bool) -> Result<(String, Who), String> {
        let read = read(text, Role::Worker, "worker".to_owned(), pull);
        read.map(|meant| (meant.name, meant.who)).map_err(|why| why.message)
    }

    #[test]
    fn a_member_is_an_agent_a_session_or_somebody_elsewhere() {
        let named = |name: &str, who| Ok((name.to_owned(), who));
        let agent = || Who::Agent("codex".to_owned());
        assert_eq!(one("codex", false), named("worker", agent()));
        assert_eq!(one("hand=codex", false), named("hand", agent()));
        assert_eq!(one("hand=session:1a2b", false), named("hand", Who::Session("1a2b".to_owned())));
        assert_eq!(one("me", false), named("me", Who::Elsewhere));
        assert_eq!(one("app", true), named("app", Who::Elsewhere));
        for bad in ["hand=", "hand=session:", "=codex", "a\u{1b}=codex"] {
            assert!(one(bad, false).is_err(), "{bad:?}");
        }
        assert!(one("app=codex", true).is_err());
    }
}
