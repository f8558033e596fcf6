//! Fixtures for teams: a team under test and shorthands for its events.

use std::{collections::BTreeMap, sync::Arc};

use provost_core::{
    ids::{SessionId, StandingId},
    session::{self, Session},
    task::{
        Actor, Address, Around, Attack, Blocked, Caller, Channel, Command, Event, Evidence,
        Judgement, Kind, Labels, Lease, Message, Messages, Needs, Post, Priority, Proof, Rejected,
        Required, Role, Shown, Standing, Step, Task, TaskBounds, TaskOpened, TaskSpec, Template,
    },
    time::Moment,
    verdict::CheckEnd,
};
use uuid::Uuid;

use crate::kit::receipt;

pub(crate) fn task_spec() -> TaskSpec {
    TaskSpec {
        name: "limits".to_owned(),
        goal: "limit how often each caller may call".to_owned(),
        summary: None,
        project: None,
        cwd: "/project".to_owned(),
        checks: Vec::new(),
        consent: Default::default(),
        config: Default::default(),
        policy: None,
        bounds: TaskBounds { offer_ms: 10, lease_ms: 100, ..TaskBounds::default() },
    }
}

/// A team with its members' sessions and a clock.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) task: Task,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) now: u64,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn member(name: &str) -> Actor {
    Actor::Member(name.to_owned())
}

pub(crate) const A_REASON: &str = "because the work needs it";

impl Desk {
    pub(crate) fn open(spec: TaskSpec) -> Desk {
        let opened = TaskOpened { spec: Box::new(spec) };
        let task = Task::open(StandingId(Uuid::from_u128(7)), Moment::default(), &opened);
        Desk { task, sessions: BTreeMap::new(), now: 0, events: Vec::new() }
    }

    /// A team with a manager, a worker and a reviewer, all of whom pull their messages.
    pub(crate) fn paired() -> Desk {
        let mut desk = Desk::open(task_spec());
        for (name, role) in
            [("boss", Role::Manager), ("hand", Role::Worker), ("eye", Role::Reviewer)]
        {
            desk.bind(name, role, None);
        }
        desk.done(&member("boss"), Command::AcknowledgeContract { revision: 0 });
        desk
    }

    pub(crate) fn bind(&mut self, name: &str, role: Role, session: Option<SessionId>) {
        let (name, labels) = (name.to_owned(), Labels::default());
        self.done(&Actor::Operator, Command::Bind { name, role, session, labels });
    }

    pub(crate) fn at(&self) -> Moment {
        Moment { wall_ms: self.now as i64, mono_ms: self.now }
    }

    pub(crate) fn decide(&self, actor: &Actor, command: &Command) -> Result<Vec<Event>, Rejected> {
        let look = |id| self.sessions.get(&id);
        self.task.decide(
            actor,
            command,
            &Around { now: self.at(), look: &look, caller: &Caller::default() },
        )
    }

    pub(crate) fn fold(&mut self, events: Vec<Event>) {
        for event in events {
            let stored = Event::decode(event.kind().0, event.kind().1, &event.encode());
            assert_eq!(stored.expect("what is written can be read"), event);
            let said = self.task.said_by(&event);
            self.task.evolve(self.at(), &event);
            let read = Messages::from(Vec::from(self.task.messages.clone()));
            assert_eq!(read, self.task.messages, "the message index matches the messages");
            for (id, command) in said {
                self.say(id, &command);
            }
            self.events.push(event);
        }
    }

    /// Changes stored messages directly, bypassing events.
    pub(crate) fn alter_messages(&mut self, alter: impl Fn(&mut Message)) {
        let mut all = Vec::from(self.task.messages.clone());
        all.iter_mut().for_each(|message| alter(Arc::make_mut(message)));
        self.task.messages = Messages::from(all);
    }

    /// Applies a command to a session, like the board does.
    fn say(&mut self, id: SessionId, command: &session::Command) {
        let at = self.at();
        let session = self.sessions.get_mut(&id).expect("the session exists");
        // Only sessions opened for a team accept a dismissal.
        if matches!(command, session::Command::Dismiss { .. }) {
            let told = session.decide(command, at).unwrap_or_default();
            return told.iter().for_each(|event| session.evolve(at, event));
        }
        for told in session.decide(command, at).expect("the session takes it") {
            session.evolve(at, &told);
        }
    }

    /// Applies a command of an actor and returns its events.
    pub(crate) fn does(&mut self, actor: &Actor, command: Command) -> Result<Vec<Event>, Rejected> {
        let events = self.decide(actor, &command)?;
        self.fold(events.clone());
        Ok(events)
    }

    #[track_caller]
    pub(crate) fn done(&mut self, actor: &Actor, command: Command) -> Vec<Event> {
        let told = format!("{command:?}");
        self.does(actor, command).unwrap_or_else(|why| panic!("{told}: {why}"))
    }

    #[track_caller]
    pub(crate) fn refused(&mut self, actor: &Actor, command: Command) -> Rejected {
        match self.decide(actor, &command) {
            Ok(events) => panic!("{command:?} gave {events:?}"),
            Err(why) => why,
        }
    }

    /// Advances the team until it is idle.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100 {
            let step = {
                let look = |id| self.sessions.get(&id);
                self.task.advance(&Around {
                    now: self.at(),
                    look: &look,
                    caller: &Caller::default(),
                })
            };
            match step {
                None => return,
                Some(Step::Events(events)) => self.fold(events),
                Some(Step::Send(send)) => {
                    let (offered, id, command) = *send;
                    self.say(id, &command);
                    self.fold(vec![offered.into()]);
                }
            }
        }
        panic!("the rules of the team do not terminate");
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.settle();
    }

    #[track_caller]
    pub(crate) fn post(&mut self, from: &Actor, to: &str, key: &str) -> u32 {
        self.done(from, post(to, key));
        self.task.messages_stored
    }

    /// Offers the consumer's next message, if any, and returns its number and lease.
    pub(crate) fn next(&mut self, consumer: &str) -> Option<(u32, u32)> {
        let command = Command::Next { consumer: consumer.to_owned() };
        match self.does(&actor_of(consumer), command) {
            Ok(events) => events.iter().find_map(offered),
            Err(Rejected::Nothing) => None,
            Err(why) => panic!("{consumer} asked for its next message: {why}"),
        }
    }

    #[track_caller]
    pub(crate) fn take(&mut self, consumer: &str) -> (u32, u32) {
        let (no, lease) = self.next(consumer).expect("there is a message");
        self.done(&actor_of(consumer), Command::Accept { no, lease, polls: 3 });
        (no, lease)
    }

    #[track_caller]
    pub(crate) fn handle(&mut self, consumer: &str) -> u32 {
        let (no, lease) = self.take(consumer);
        self.done(&actor_of(consumer), Command::Acknowledge { no, lease, note: None });
        no
    }

    pub(crate) fn standing(&self, no: u32) -> &Standing {
        &self.message(no).standing
    }

    pub(crate) fn message(&self, no: u32) -> &Message {
        self.task.message(no).expect("a message that is remembered")
    }

    /// Proposes and accepts a criterion.
    pub(crate) fn criterion(&mut self, needs: Needs) -> u32 {
        let text = "callers get an answer that tells them to wait".to_owned();
        self.done(&Actor::Operator, Command::Propose { text, rationale: None, needs });
        let no = self.task.criteria.len() as u32;
        self.done(&Actor::Operator, Command::Judge { no, judgement: Judgement::Accept });
        no
    }

    /// Satisfies a criterion by the operator's assertion, so that the team may finish.
    pub(crate) fn prove(&mut self) {
        let no = self.criterion(Needs::Asserted);
        let text = "read aloud with the support team".to_owned();
        let evidence = Evidence::Asserted { text, by: "operator".to_owned() };
        self.done(
            &Actor::Operator,
            Command::Judge { no, judgement: Judgement::Satisfy { evidence } },
        );
    }

    pub(crate) fn begin_loop(&mut self, template: Template) {
        self.done(&Actor::Operator, Command::BeginLoop { template: Box::new(template) });
    }

    /// Shows all evidence that the loop requires.
    pub(crate) fn show_all(&mut self, tree: &str) {
        let looped = self.task.looped.clone().expect("a loop runs");
        for required in &looped.template.evidence {
            self.show(required, tree);
        }
    }

    pub(crate) fn show(&mut self, required: &Required, tree: &str) {
        let iteration = self.task.looped.as_ref().expect("a loop runs").iteration;
        let (shown, actor) = fitting(&required.proof, tree);
        let name = required.name.clone();
        self.done(&actor, Command::Show { iteration, name, shown });
    }

    pub(crate) fn continues(&mut self, iteration: u32) -> Result<u32, Blocked> {
        let command = go_on(iteration, &format!("next-{iteration}-{}", self.events.len()));
        let events = self.done(&member("boss"), command);
        match events.first() {
            Some(Event::MessageStored(stored)) => Ok(stored.no),
            Some(Event::ContinuationRefused(refused)) => Err(refused.why.clone()),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn go_on(iteration: u32, key: &str) -> Command {
    let (to, key, text) = ("hand".to_owned(), key.to_owned(), "go on".to_owned());
    Command::Continue { iteration, to, key, text, channel: Channel::Tool }
}

pub(crate) fn offered(event: &Event) -> Option<(u32, u32)> {
    let Event::MessageOffered(offered) = event else { return None };
    Some((offered.no, offered.lease.no))
}

pub(crate) fn actor_of(consumer: &str) -> Actor {
    if consumer == "operator" { Actor::Operator } else { member(consumer) }
}

pub(crate) fn post(to: &str, key: &str) -> Command {
    let to = match to {
        "operator" => Address::Operator,
        name => Address::Member(name.to_owned()),
    };
    Command::Post(Box::new(Post {
        key: key.to_owned(),
        correlation: None,
        channel: Channel::Cli,
        to,
        kind: Kind::Instruction,
        text: format!("the text of {key}"),
        priority: Priority::Normal,
        expires_in_ms: None,
        steer: false,
    }))
}

/// Returns evidence that satisfies the proof, and an actor who may show it.
pub(crate) fn fitting(proof: &Proof, tree: &str) -> (Shown, Actor) {
    match proof {
        Proof::Verified { check } => {
            let receipt = Box::new(receipt(tree, check, CheckEnd::Exit(0)));
            (Shown::Evidence(Evidence::Verified(receipt)), Actor::Provost)
        }
        Proof::Asserted => {
            let (text, by) = (format!("looked at it, it holds on {tree}"), "hand".to_owned());
            (Shown::Evidence(Evidence::Asserted { text, by }), member("hand"))
        }
        Proof::Adversarial => (Shown::Attack(attack()), member("eye")),
        Proof::Artifact { fields } => {
            let filled = fields.iter().map(|field| (field.clone(), "there it is".to_owned()));
            (Shown::Artifact(filled.collect()), member("hand"))
        }
        Proof::Pictures { differing, .. } => {
            let compared = provost_core::task::Compared {
                expected: "a.png".to_owned(),
                actual: "b.png".to_owned(),
                differing: *differing,
                tolerance: 0,
                expected_is: Default::default(),
                actual_is: Default::default(),
            };
            (Shown::Pictures(compared), Actor::Provost)
        }
    }
}

pub(crate) fn attack() -> Attack {
    Attack {
        failure_mode: "two callers at the same moment".to_owned(),
        check: "a thousand calls from two threads".to_owned(),
        result: "each was counted exactly once".to_owned(),
    }
}

pub(crate) fn template(max: u32) -> Template {
    Template {
        name: "build".to_owned(),
        max,
        evidence: vec![
            Required {
                name: "tests".to_owned(),
                proof: Proof::Verified { check: "test".to_owned() },
            },
            Required { name: "attack".to_owned(), proof: Proof::Adversarial },
        ],
        clean_up: Default::default(),
        plateau: None,
        tokens: None,
        tools: Vec::new(),
    }
}

pub(crate) fn lease_of(standing: &Standing) -> &Lease {
    standing.lease().expect("the message is leased")
}
