//! A manager implemented by rules instead of an agent.
//!
//! On each `advance`, the first rule with something to do acts as [`Actor::Policy`], with a
//! manager's rights. All actions are recorded with the team and checked first, so that each
//! occasion is handled once and the number of actions is limited.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    advance::{Around, Step, takes},
    command::{Checked, Command, Post, Rejected},
    criterion::{Criterion, CriterionState, Judgement},
    event::*,
    finish::Blocker,
    gate::{Proof, Required},
    member::{Actor, Member, Role, Told},
    message::{Address, Channel, Kind, Priority, Standing},
    news::seen_of,
    state::{Phase, Task},
};
use crate::{
    lifecycle::ClaimKind,
    session::Session,
    text::{in_quotes, named, quoted, visible},
    time::Moment,
    verdict::{CheckEnd, Receipt},
};

/// Minimum and maximum number of actions of a policy in one team. The last one reports that the
/// limit is reached.
pub const MIN_ACTS: u32 = 2;
pub const MAX_ACTS: u32 = 1_000;

/// Maximum number of bytes of a failed check's output that are sent back.
const MAX_TAIL: usize = 8 << 10;

/// The rules of a managing policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    pub name: String,
    /// Maximum number of actions in one team. The last one reports to the operator that the limit
    /// is reached.
    pub acts: u32,
    /// Whether checks run when the workers report that they are done.
    pub check: bool,
    /// How often work is sent back because a check failed or evidence is missing.
    pub rework: u32,
    pub rework_text: Option<String>,
    /// Whether proposals of members are accepted; otherwise the operator is notified.
    pub accept: bool,
    /// How long a worker may be idle without a report before it is nudged.
    pub nudge_after_ms: Option<u64>,
    pub nudges: u32,
    pub nudge_text: Option<String>,
    /// Whether the next iteration of a loop is requested while something is still open.
    pub go_on: bool,
    /// Whether the team is finished when nothing is open; otherwise the operator is notified.
    pub finish: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            name: "policy".to_owned(),
            acts: 50,
            check: true,
            rework: 3,
            rework_text: None,
            accept: false,
            nudge_after_ms: None,
            nudges: 3,
            nudge_text: None,
            go_on: true,
            finish: true,
        }
    }
}

/// A worker's progress counters. A different mark means different work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    pub turns: u32,
    pub attempts: u32,
    /// The newest message that it acknowledged, if it has no session.
    pub handled: u32,
}

/// An idle worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    pub mark: Mark,
    /// Whether it reports that it is done.
    pub done: bool,
}

/// A failed check that was not sent back yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub no: u32,
    pub command: String,
    pub end: CheckEnd,
    pub tail: String,
}

/// An action of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Accepted a proposed criterion.
    Accepted {
        criterion: u32,
    },
    /// Ran checks on this generation of the work.
    Checked {
        generation: u32,
    },
    /// Sent work back with the output of its checks.
    SentBack {
        to: String,
    },
    /// Requested evidence that no command can provide.
    AskedFor {
        generation: u32,
    },
    Continued {
        iteration: u32,
    },
    Nudged {
        to: String,
    },
    /// Notified the operator.
    Escalated(About),
    /// Requested the finish.
    Finished {
        generation: u32,
    },
    /// Notified the operator that the action limit is reached.
    GaveUp,
}

/// The subject of a notification to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A worker asks a question.
    Question {
        member: String,
        request: String,
        revision: u32,
    },
    /// A check did not complete, so that its result is unknown.
    Unfinished {
        check: u32,
    },
    /// The rework limit is reached.
    ReworkSpent,
    NudgesSpent,
    /// The blockers of the finish are beyond the policy's powers.
    Stuck {
        generation: u32,
    },
    /// Nothing blocks the finish, but the policy may not finish, or nothing proves the work.
    Ready {
        generation: u32,
    },
    /// An action of the policy was refused.
    Refused {
        act: u32,
    },
}

/// The observations and actions of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyState {
    pub acts: Vec<Act>,
    /// Why the newest action was refused.
    pub refused: Option<String>,
    /// The idle workers, and since when.
    pub resting: BTreeMap<String, (Rest, Moment)>,
    /// The mark at which each worker last reported that it was done, and the number of such
    /// reports.
    pub counted: BTreeMap<String, Mark>,
    pub generation: u32,
    pub failed: Vec<Failure>,
}

/// A summary of a member's messages.
#[derive(Clone, Copy, Default)]
struct Inbox {
    /// Whether a message is unsettled.
    open: bool,
    /// The newest message that was handled.
    handled: Option<u32>,
}

/// An action that a rule requests.
struct Want {
    act: Act,
    commands: Vec<Command>,
}

impl PolicyState {
    fn has(&self, act: &Act) -> bool {
        self.acts.contains(act)
    }

    fn count(&self, of: impl Fn(&Act) -> bool) -> u32 {
        u32::try_from(self.acts.iter().filter(|act| of(act)).count()).unwrap_or(u32::MAX)
    }

    fn reworks(&self) -> u32 {
        self.count(|act| matches!(act, Act::SentBack { .. } | Act::AskedFor { .. }))
    }

    fn nudges(&self) -> u32 {
        self.count(|act| matches!(act, Act::Nudged { .. }))
    }

    pub(super) fn see(&mut self, e: &PolicySaw, at: Moment) {
        let Some(rest) = e.rest else {
            self.resting.remove(&e.worker);
            return;
        };
        self.resting.insert(e.worker.clone(), (rest, at));
        if rest.done && self.counted.get(&e.worker) != Some(&rest.mark) {
            self.counted.insert(e.worker.clone(), rest.mark);
            self.generation += 1;
        }
    }

    pub(super) fn act(&mut self, e: &PolicyActed) {
        // Failed checks were passed to the worker who has to fix them, or are run again.
        let settled = match e.act {
            Act::SentBack { .. }
            | Act::Continued { .. }
            | Act::Checked { .. }
            | Act::Finished { .. } => e.refused.is_none(),
            Act::Accepted { .. }
            | Act::AskedFor { .. }
            | Act::Nudged { .. }
            | Act::Escalated(_)
            | Act::GaveUp => false,
        };
        if settled {
            self.failed.clear();
        }
        self.acts.push(e.act.clone());
        self.refused = e.refused.clone();
    }

    /// Records the result of a check. A pass clears earlier failures of the same command.
    pub(super) fn take_in(&mut self, no: u32, receipt: &Receipt) {
        self.failed.retain(|failure| failure.command != receipt.command);
        if receipt.end != CheckEnd::Exit(0) {
            let (command, end) = (receipt.command.clone(), receipt.end.clone());
            self.failed.push(Failure { no, command, end, tail: receipt.tail.clone() });
        }
    }
}

impl Task {
    /// Returns the policy's next observation or action. None while the team is paused or over.
    pub(super) fn manage(&self, around: &Around<'_>) -> Option<Step> {
        let policy = self.spec.policy.as_ref()?;
        if self.phase != Phase::Active {
            return None;
        }
        if let Some(saw) = self.watch_workers(around) {
            return Some(Step::Events(vec![saw.into()]));
        }
        let done = u32::try_from(self.policy.acts.len()).unwrap_or(u32::MAX);
        let left = policy.acts.saturating_sub(done);
        let want = (left > 0).then(|| self.wants(policy, around)).flatten()?;
        let want = if left == 1 { self.gives_up(policy, &want) } else { want };
        Some(Step::Events(self.carry_out(want, around)))
    }

    /// Returns the next time at which time alone triggers the policy.
    pub(super) fn policy_deadline(&self) -> Option<u64> {
        if self.phase != Phase::Active {
            return None;
        }
        let policy = self.spec.policy.as_ref()?;
        let acts = u32::try_from(self.policy.acts.len()).unwrap_or(u32::MAX);
        let spent = self.policy.has(&Act::Escalated(About::NudgesSpent)) || acts >= policy.acts;
        if spent {
            return None;
        }
        let after = policy.nudge_after_ms?;
        let silent = self.policy.resting.values().filter(|(rest, _)| !rest.done);
        silent.map(|(_, since)| since.deadline(after)).min()
    }

    /// Observes which workers are idle. Each change is recorded once.
    fn watch_workers(&self, around: &Around<'_>) -> Option<PolicySaw> {
        let inboxes = self.inboxes();
        let changed = self.bound(Role::Worker).find_map(|worker| {
            let seen = self.policy.resting.get(&worker.name).map(|(rest, _)| *rest);
            let inbox = inboxes.get(worker.name.as_str()).copied().unwrap_or_default();
            let now = self.rest_of(worker, inbox, around)?;
            (now != seen).then(|| PolicySaw { worker: worker.name.clone(), rest: now })
        });
        let gone = || {
            let name = self.policy.resting.keys().find(|name| self.member(name).is_none())?;
            Some(PolicySaw { worker: name.clone(), rest: None })
        };
        changed.or_else(gone)
    }

    /// Returns a worker's idle state. None if the session cannot be read: then the last observation
    /// holds.
    fn rest_of(&self, worker: &Member, inbox: Inbox, around: &Around<'_>) -> Option<Option<Rest>> {
        if inbox.open {
            return Some(None);
        }
        let Some(session) = worker.session else {
            let mark = inbox.handled.map(|handled| Mark { handled, ..Mark::default() });
            // Settled messages are evicted in time, but the observation remains.
            let seen = self.policy.resting.get(&worker.name).map(|(rest, _)| rest.mark);
            return Some(mark.or(seen).map(|mark| Rest { mark, done: true }));
        };
        let session = (around.look)(session)?;
        Some(takes(session).then(|| rest_in(session)))
    }

    /// Summarizes the messages of each member in one pass.
    fn inboxes(&self) -> BTreeMap<&str, Inbox> {
        let mut inboxes: BTreeMap<&str, Inbox> = BTreeMap::new();
        for message in &self.messages {
            let inbox = inboxes.entry(message.to.name()).or_default();
            inbox.open |= !message.standing.is_over();
            if matches!(message.standing, Standing::Acknowledged { .. }) {
                inbox.handled = inbox.handled.max(Some(message.no));
            }
        }
        inboxes
    }

    /// Returns the first action that a rule requests.
    fn wants(&self, policy: &Policy, around: &Around<'_>) -> Option<Want> {
        self.asks_of_workers(around)
            .or_else(|| self.refused_act())
            .or_else(|| self.failed_checks(policy, around))
            .or_else(|| self.work_that_is_done(policy, around))
            .or_else(|| self.silent_worker(policy, around.now))
    }

    /// Passes questions of workers to the operator.
    fn asks_of_workers(&self, around: &Around<'_>) -> Option<Want> {
        self.bound(Role::Worker).find_map(|worker| {
            let session = (around.look)(worker.session?)?;
            session.open_requests().find_map(|request| {
                let about = About::Question {
                    member: worker.name.clone(),
                    request: request.id.to_string(),
                    revision: request.revision,
                };
                let verb = if session.is_settled_there(request) { "attach" } else { "answer" };
                let text = format!(
                    "{} asks: {}\nAnswer it with: provost {verb} {}",
                    named(&worker.name),
                    in_quotes(&request.asked.title),
                    session.id.short()
                );
                self.escalates(about, text)
            })
        })
    }

    /// Notifies the operator of a refused action.
    fn refused_act(&self) -> Option<Want> {
        let why = self.policy.refused.as_ref()?;
        let newest = self.policy.acts.last()?;
        if matches!(newest, Act::Escalated(_) | Act::GaveUp) {
            return None;
        }
        let act = u32::try_from(self.policy.acts.len()).unwrap_or(u32::MAX);
        let text = format!("Action {act} of the policy was refused: {}", visible(why));
        self.escalates(About::Refused { act }, text)
    }

    /// Sends back failed checks, once all requested checks have completed.
    fn failed_checks(&self, policy: &Policy, around: &Around<'_>) -> Option<Want> {
        let failed = &self.policy.failed;
        if failed.is_empty() || !self.checks.is_empty() || self.audit.is_some() {
            return None;
        }
        let unfinished = failed.iter().find(|one| matches!(one.end, CheckEnd::Unfinished(_)));
        if let Some(failure) = unfinished {
            let text = format!("A check did not complete: {}", told(failure));
            return self.escalates(About::Unfinished { check: failure.no }, text);
        }
        let worker = self.checked_worker().ok()?;
        let found = failed.iter().map(told).collect::<Vec<_>>().join("\n\n");
        let intro = policy.rework_text.as_deref().unwrap_or(REWORK);
        let text = format!("{intro}\n\n{found}");
        let next = self.running_loop().map(|looped| looped.iteration + 1);
        let gate = |iteration: &u32| {
            let looped = self.running_loop();
            looped.is_some_and(|looped| looped.may_ask(*iteration, around.used(self)).is_ok())
        };
        match next.filter(gate) {
            Some(iteration) if policy.go_on => Some(Want {
                act: Act::Continued { iteration },
                commands: vec![Command::Continue {
                    iteration,
                    to: worker.name.clone(),
                    key: self.free_key(),
                    text,
                    channel: Channel::Rule,
                }],
            }),
            Some(_) | None => {
                self.sends_back(policy, Act::SentBack { to: worker.name.clone() }, text)
            }
        }
    }

    /// Sends work back to the worker within the rework limit; beyond it, notifies the operator
    /// once.
    fn sends_back(&self, policy: &Policy, act: Act, text: String) -> Option<Want> {
        if self.policy.reworks() >= policy.rework {
            let text = format!(
                "Work was sent back {} times, the limit of the policy {}. Still open:\n{text}",
                policy.rework,
                named(&policy.name)
            );
            return self.escalates(About::ReworkSpent, text);
        }
        let to = Address::Member(self.checked_worker().ok()?.name.clone());
        let post = self.post_of(to, Kind::Instruction, Priority::Normal, text);
        Some(Want { act, commands: vec![post] })
    }

    /// Handles the case that all workers are idle and report that they are done.
    fn work_that_is_done(&self, policy: &Policy, around: &Around<'_>) -> Option<Want> {
        let mut workers = self.bound(Role::Worker).peekable();
        workers.peek()?;
        let done = |worker: &Member| {
            self.policy.resting.get(&worker.name).is_some_and(|(rest, _)| rest.done)
        };
        if !workers.all(done) || !self.checks.is_empty() || self.audit.is_some() {
            return None;
        }
        self.accepts(policy)
            .or_else(|| self.checks_work(policy))
            .or_else(|| self.asks_for_evidence(policy))
            .or_else(|| self.ends(policy, around))
    }

    fn accepts(&self, policy: &Policy) -> Option<Want> {
        let proposed = |criterion: &&Criterion| matches!(criterion.state, CriterionState::Proposed);
        if !policy.accept {
            return None;
        }
        let criterion = self.criteria.iter().find(proposed)?.no;
        let act = Act::Accepted { criterion };
        let judged = Command::Judge { no: criterion, judgement: Judgement::Accept };
        (!self.policy.has(&act)).then_some(Want { act, commands: vec![judged] })
    }

    /// Runs all checks that a command can prove, once per generation of the work.
    fn checks_work(&self, policy: &Policy) -> Option<Want> {
        let act = Act::Checked { generation: self.policy.generation };
        if !policy.check || self.policy.has(&act) {
            return None;
        }
        let accepted = |criterion: &&Criterion| {
            let check = criterion.needs.check();
            check.is_some_and(|check| self.may_check(&check).is_ok())
                && matches!(criterion.state, CriterionState::Accepted)
        };
        let criteria = self.criteria.iter().filter(accepted);
        let criteria = criteria.map(|criterion| Checked::Criterion(criterion.no));
        let evidence = self.missing_evidence(is_checked);
        let evidence =
            evidence.into_iter().map(|required| Checked::Evidence(required.name.clone()));
        let commands: Vec<Command> =
            criteria.chain(evidence).map(|what| Command::Check { what }).collect();
        (!commands.is_empty()).then_some(Want { act, commands })
    }

    fn missing_evidence(&self, of: impl Fn(&Proof) -> bool) -> Vec<&Required> {
        let Some(looped) = self.running_loop() else { return Vec::new() };
        let missing = looped.missing();
        let wanted = |required: &&Required| missing.contains(&required.name) && of(&required.proof);
        looped.template.evidence.iter().filter(wanted).collect()
    }

    /// Requests evidence from the worker that no command can provide.
    fn asks_for_evidence(&self, policy: &Policy) -> Option<Want> {
        let missing = self.missing_evidence(|proof| !is_checked(proof));
        let act = Act::AskedFor { generation: self.policy.generation };
        if missing.is_empty() || self.policy.has(&act) {
            return None;
        }
        let asked: Vec<String> = missing
            .iter()
            .map(|required| format!("- {}: {}", required.name, required.proof.words()))
            .collect();
        let text =
            format!("Before this continues, show the missing evidence:\n{}", asked.join("\n"));
        self.sends_back(policy, act, text)
    }

    /// Finishes the team, or reports the blockers.
    fn ends(&self, policy: &Policy, around: &Around<'_>) -> Option<Want> {
        let generation = self.policy.generation;
        let mut blockers = self.blockers(around.look);
        // Work without a proving check is left to the operator, which is reported below.
        blockers.retain(|blocker| *blocker != Blocker::NothingProved);
        let unchanged = |one: &&Blocker| matches!(one, Blocker::NothingChanged { .. });
        blockers.extend(self.blockers.iter().filter(unchanged).cloned());
        if !blockers.is_empty() {
            // Failed checks were reported already.
            if !self.policy.failed.is_empty() {
                return None;
            }
            let open: Vec<String> = blockers.iter().map(|blocker| format!("- {blocker}")).collect();
            let text = format!(
                "The workers report that they are done, but these are open:\n{}",
                open.join("\n")
            );
            return self.escalates(About::Stuck { generation }, text);
        }
        // An assertion alone finishes nothing.
        let proved = !self.audited().is_empty() || self.looped.is_some();
        if !policy.finish || !proved {
            let why = if proved { "you can finish the team" } else { "no check proves the work" };
            let text =
                format!("The workers report that they are done, and nothing is open; {why}.");
            return self.escalates(About::Ready { generation }, text);
        }
        let act = Act::Finished { generation };
        let because = format!("the policy {} found every criterion satisfied", named(&policy.name));
        let finish = Command::Finish { because, allow: Vec::new() };
        (!self.policy.has(&act)).then(|| Want { act, commands: vec![finish] })
    }

    fn silent_worker(&self, policy: &Policy, now: Moment) -> Option<Want> {
        let after = policy.nudge_after_ms?;
        let silent = |(rest, since): &(Rest, Moment)| !rest.done && now.is_past(*since, after);
        let (name, _) = self.policy.resting.iter().find(|(_, rested)| silent(rested))?;
        if self.policy.nudges() >= policy.nudges {
            let text = format!(
                "{} is idle without a report, and was nudged {} times.",
                named(name),
                policy.nudges
            );
            return self.escalates(About::NudgesSpent, text);
        }
        let text = policy.nudge_text.as_deref().unwrap_or(NUDGE).to_owned();
        let to = Address::Member(name.clone());
        let post = self.post_of(to, Kind::Instruction, Priority::Normal, text);
        Some(Want { act: Act::Nudged { to: name.clone() }, commands: vec![post] })
    }

    /// Notifies the operator, once.
    fn escalates(&self, about: About, text: String) -> Option<Want> {
        let act = Act::Escalated(about);
        let post = || self.post_of(Address::Operator, Kind::Note, Priority::High, text);
        (!self.policy.has(&act)).then(|| Want { act, commands: vec![post()] })
    }

    /// Reports as the last action that the limit is reached.
    fn gives_up(&self, policy: &Policy, wanted: &Want) -> Want {
        let text = format!(
            "The policy {} has reached its limit of {} actions. Its next action would have been: {}",
            named(&policy.name),
            policy.acts.saturating_sub(1),
            wanted.act.words()
        );
        let post = self.post_of(Address::Operator, Kind::Note, Priority::High, text);
        Want { act: Act::GaveUp, commands: vec![post] }
    }

    fn post_of(&self, to: Address, kind: Kind, priority: Priority, text: String) -> Command {
        Command::Post(Box::new(Post {
            key: self.free_key(),
            correlation: None,
            channel: Channel::Rule,
            to,
            kind,
            text,
            priority,
            expires_in_ms: None,
            steer: false,
        }))
    }

    /// Returns a key that no message has, so that guessing the next key cannot suppress a message.
    fn free_key(&self) -> String {
        let act = self.policy.acts.len() + 1;
        let taken = |key: &String| self.messages.iter().any(|message| message.key == *key);
        let mut keys = (0_u32..).map(|n| format!("policy-{act}-{n}"));
        keys.find(|key| !taken(key)).unwrap_or_default()
    }

    /// Executes the requested commands under the same rules as for everyone, and records the
    /// result.
    fn carry_out(&self, want: Want, around: &Around<'_>) -> Vec<Event> {
        let mut after = self.clone();
        let (mut events, mut refused) = (Vec::new(), None);
        for command in &want.commands {
            match after.decide(&Actor::Policy, command, around) {
                Ok(more) => {
                    more.iter().for_each(|event| after.evolve(around.now, event));
                    events.extend(more);
                }
                Err(Rejected::Nothing) => {}
                Err(why) => refused = Some(why.to_string()),
            }
        }
        // The action comes first, so that the end of the team stays its last event.
        [PolicyActed { act: want.act, refused }.into()].into_iter().chain(events).collect()
    }
}

/// Whether a policy can run the check: everything it needs is known.
fn is_checked(proof: &Proof) -> bool {
    match proof {
        Proof::Verified { .. } | Proof::Pictures { files: Some(_), .. } => true,
        Proof::Asserted
        | Proof::Adversarial
        | Proof::Artifact { .. }
        | Proof::Pictures { files: None, .. } => false,
    }
}

const REWORK: &str =
    "Checks of your work failed. Fix the problems, and report again that you are done.";

const NUDGE: &str =
    "You are idle and have not reported that you are done. Continue; if you are stuck, say why.";

/// Returns the idle state of a session.
fn rest_in(session: &Session) -> Rest {
    let Told { turns_ended, attempts_sealed, .. } = seen_of(session);
    let claim = session.attempt().claim.as_ref();
    let done = claim.is_some_and(|claim| claim.kind == ClaimKind::Completed);
    Rest { mark: Mark { turns: turns_ended, attempts: attempts_sealed, handled: 0 }, done }
}

/// Describes a failed check. Its output is quoted, because it comes from the work.
fn told(failure: &Failure) -> String {
    let head = format!("`{}`: {}", visible(&failure.command), failure.end.words());
    let tail = failure.tail.trim_end();
    let cut = tail.len().saturating_sub(MAX_TAIL);
    let start = (cut..tail.len()).find(|at| tail.is_char_boundary(*at)).unwrap_or(tail.len());
    match &tail[start..] {
        "" => head,
        tail => format!("{head}\n{}", quoted(tail)),
    }
}

impl Act {
    /// Describes the action.
    pub fn words(&self) -> String {
        match self {
            Act::Accepted { criterion } => format!("accepted criterion {criterion}"),
            Act::Checked { .. } => "ran the open checks".to_owned(),
            Act::SentBack { to } => format!("sent work back to {}", named(to)),
            Act::AskedFor { .. } => "asked for missing evidence".to_owned(),
            Act::Continued { iteration } => format!("asked for iteration {iteration}"),
            Act::Nudged { to } => format!("nudged {}", named(to)),
            Act::Escalated(about) => format!("notified the operator: {}", about.words()),
            Act::Finished { .. } => "asked for the finish".to_owned(),
            Act::GaveUp => "notified the operator that its limit is reached".to_owned(),
        }
    }
}

impl About {
    pub fn words(&self) -> String {
        match self {
            About::Question { member, .. } => format!("{} asks something", named(member)),
            About::Unfinished { check } => format!("check {check} could not be run"),
            About::ReworkSpent => "the rework limit is reached".to_owned(),
            About::NudgesSpent => "a worker is idle and the nudge limit is reached".to_owned(),
            About::Stuck { .. } => "something is open that the policy cannot resolve".to_owned(),
            About::Ready { .. } => "nothing is open".to_owned(),
            About::Refused { act } => format!("act {act} was refused"),
        }
    }
}
