//! Fixtures for teams: a team under test and shorthands for its events.

use std::{collections::BTreeMap, sync::Arc};

use provost_core::{
    ids::{SessionId, TeamId},
    session::{self, Session},
    team::{
        ContinuationBlocked, CriterionEvidence, CriterionJudgement, Event, EvidenceRequirement,
        LoopEvent, LoopProof, LoopRequirement, LoopTemplate, MemberLabels, MemberRole,
        MessageChannel, MessageEvent, MessageLease, MessageStatus, NewMessage, Priority,
        ProvostInvocation, Recipient, ShownEvidence, Team, TeamActor, TeamAdvanceContext,
        TeamCommand, TeamLimits, TeamMessage, TeamMessageKind, TeamMessages, TeamOpened,
        TeamRejection, TeamSpec, TeamStep, WorkChallenge,
    },
    time::Moment,
    verdict::CheckEnd,
};
use uuid::Uuid;

use crate::kit::receipt;

pub(crate) fn team_spec() -> TeamSpec {
    TeamSpec {
        name: "limits".to_owned(),
        goal: "limit how often each caller may call".to_owned(),
        summary: None,
        project: None,
        cwd: "/project".to_owned(),
        checks: Vec::new(),
        consent: Default::default(),
        config: Default::default(),
        policy: None,
        bounds: TeamLimits { offer_ms: 10, lease_ms: 100, ..TeamLimits::default() },
    }
}

/// A team with its members' sessions and a clock.
#[derive(Clone)]
pub(crate) struct TestTeam {
    pub(crate) task: Team,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) now: u64,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn member(name: &str) -> TeamActor {
    TeamActor::Member(name.to_owned())
}

pub(crate) const A_REASON: &str = "because the work needs it";

impl TestTeam {
    pub(crate) fn open(spec: TeamSpec) -> TestTeam {
        let opened = TeamOpened { spec: Box::new(spec) };
        let task = Team::open(TeamId(Uuid::from_u128(7)), Moment::default(), &opened);
        TestTeam { task, sessions: BTreeMap::new(), now: 0, events: Vec::new() }
    }

    /// A team with a manager, a worker and a reviewer, which all pull their messages.
    pub(crate) fn paired() -> TestTeam {
        let mut team = TestTeam::open(team_spec());
        for (name, role) in [
            ("boss", MemberRole::Manager),
            ("hand", MemberRole::Worker),
            ("eye", MemberRole::Reviewer),
        ] {
            team.bind(name, role, None);
        }
        team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
        team
    }

    pub(crate) fn bind(&mut self, name: &str, role: MemberRole, session: Option<SessionId>) {
        let (name, labels) = (name.to_owned(), MemberLabels::default());
        self.apply(&TeamActor::Operator, TeamCommand::Bind { name, role, session, labels });
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { wall_ms: self.now as i64, mono_ms: self.now }
    }

    pub(crate) fn decide(
        &self,
        actor: &TeamActor,
        command: &TeamCommand,
    ) -> Result<Vec<Event>, TeamRejection> {
        let look = |id| self.sessions.get(&id);
        self.task.decide(
            actor,
            command,
            &TeamAdvanceContext {
                now: self.moment(),
                session: &look,
                caller: &ProvostInvocation::default(),
            },
        )
    }

    pub(crate) fn fold(&mut self, events: Vec<Event>) {
        for event in events {
            let stored = Event::decode(event.kind().0, event.kind().1, &event.encode());
            assert_eq!(stored.expect("what is written can be read"), event);
            let commands = self.task.session_commands(&event);
            self.task.evolve(self.moment(), &event);
            let read = TeamMessages::from(Vec::from(self.task.messages.clone()));
            assert_eq!(read, self.task.messages, "the message index matches the messages");
            for (id, command) in commands {
                self.apply_to_session(id, &command);
            }
            self.events.push(event);
        }
    }

    /// Changes stored messages directly, bypassing events.
    pub(crate) fn alter_messages(&mut self, alter: impl Fn(&mut TeamMessage)) {
        let mut all = Vec::from(self.task.messages.clone());
        all.iter_mut().for_each(|message| alter(Arc::make_mut(message)));
        self.task.messages = TeamMessages::from(all);
    }

    /// Applies a command to a session, like the board does.
    fn apply_to_session(&mut self, id: SessionId, command: &session::SessionCommand) {
        let at = self.moment();
        let session = self.sessions.get_mut(&id).expect("the session exists");
        // Only sessions opened for a team accept a dismissal.
        if matches!(command, session::SessionCommand::Dismiss { .. }) {
            let events = session.decide(command, at).unwrap_or_default();
            return events.iter().for_each(|event| session.evolve(at, event));
        }
        for event in session.decide(command, at).expect("the session takes it") {
            session.evolve(at, &event);
        }
    }

    /// Applies a command of an actor and returns its events.
    pub(crate) fn try_apply(
        &mut self,
        actor: &TeamActor,
        command: TeamCommand,
    ) -> Result<Vec<Event>, TeamRejection> {
        let events = self.decide(actor, &command)?;
        self.fold(events.clone());
        Ok(events)
    }

    #[track_caller]
    pub(crate) fn apply(&mut self, actor: &TeamActor, command: TeamCommand) -> Vec<Event> {
        let shown = format!("{command:?}");
        self.try_apply(actor, command).unwrap_or_else(|why| panic!("{shown}: {why}"))
    }

    #[track_caller]
    pub(crate) fn reject(&mut self, actor: &TeamActor, command: TeamCommand) -> TeamRejection {
        match self.decide(actor, &command) {
            Ok(events) => panic!("{command:?} gave {events:?}"),
            Err(why) => why,
        }
    }

    /// Advances the team until it is idle.
    pub(crate) fn advance(&mut self) {
        for _ in 0..100 {
            let step = {
                let look = |id| self.sessions.get(&id);
                self.task.advance(&TeamAdvanceContext {
                    now: self.moment(),
                    session: &look,
                    caller: &ProvostInvocation::default(),
                })
            };
            match step {
                None => return,
                Some(TeamStep::Events(events)) => self.fold(events),
                Some(TeamStep::Send(send)) => {
                    let (offered, id, command) = *send;
                    self.apply_to_session(id, &command);
                    self.fold(vec![offered.into()]);
                }
            }
        }
        panic!("the rules of the team do not terminate");
    }

    pub(crate) fn advance_clock(&mut self, ms: u64) {
        self.now += ms;
        self.advance();
    }

    #[track_caller]
    pub(crate) fn post(&mut self, from: &TeamActor, to: &str, key: &str) -> u32 {
        self.apply(from, post(to, key));
        self.task.messages_stored
    }

    /// Offers the consumer's next message, if any, and returns its number and lease.
    pub(crate) fn next(&mut self, consumer: &str) -> Option<(u32, u32)> {
        let command = TeamCommand::Next { consumer: consumer.to_owned() };
        match self.try_apply(&consumer_actor(consumer), command) {
            Ok(events) => events.iter().find_map(offered_lease),
            Err(TeamRejection::NothingNew) => None,
            Err(why) => panic!("{consumer} asked for its next message: {why}"),
        }
    }

    #[track_caller]
    pub(crate) fn take(&mut self, consumer: &str) -> (u32, u32) {
        let (no, lease) = self.next(consumer).expect("there is a message");
        self.apply(&consumer_actor(consumer), TeamCommand::Accept { no, lease, polls: 3 });
        (no, lease)
    }

    #[track_caller]
    pub(crate) fn handle(&mut self, consumer: &str) -> u32 {
        let (no, lease) = self.take(consumer);
        self.apply(&consumer_actor(consumer), TeamCommand::Acknowledge { no, lease, note: None });
        no
    }

    pub(crate) fn message_status(&self, no: u32) -> &MessageStatus {
        &self.message(no).status
    }

    pub(crate) fn message(&self, no: u32) -> &TeamMessage {
        self.task.message(no).expect("a message that is remembered")
    }

    /// Proposes and accepts a criterion.
    pub(crate) fn criterion(&mut self, needs: EvidenceRequirement) -> u32 {
        let text = "callers get an answer that tells them to wait".to_owned();
        self.apply(&TeamActor::Operator, TeamCommand::Propose { text, rationale: None, needs });
        let no = self.task.criteria.len() as u32;
        self.apply(
            &TeamActor::Operator,
            TeamCommand::Judge { no, judgement: CriterionJudgement::Accept },
        );
        no
    }

    /// Satisfies a criterion by the operator's assertion, so that the team may finish.
    pub(crate) fn satisfy_by_operator(&mut self) {
        let no = self.criterion(EvidenceRequirement::Asserted);
        let text = "read aloud with the support team".to_owned();
        let evidence = CriterionEvidence::Asserted { text, by: "operator".to_owned() };
        self.apply(
            &TeamActor::Operator,
            TeamCommand::Judge { no, judgement: CriterionJudgement::Satisfy { evidence } },
        );
    }

    pub(crate) fn begin_loop(&mut self, template: LoopTemplate) {
        self.apply(&TeamActor::Operator, TeamCommand::BeginLoop { template: Box::new(template) });
    }

    /// Shows all evidence that the loop requires.
    pub(crate) fn show_all_evidence(&mut self, tree: &str) {
        let looped = self.task.loop_state.clone().expect("a loop runs");
        for required in &looped.template.evidence {
            self.show_evidence(required, tree);
        }
    }

    pub(crate) fn show_evidence(&mut self, required: &LoopRequirement, tree: &str) {
        let iteration = self.task.loop_state.as_ref().expect("a loop runs").iteration;
        let (shown, actor) = matching_evidence(&required.proof, tree);
        let name = required.name.clone();
        self.apply(&actor, TeamCommand::Show { iteration, name, shown });
    }

    pub(crate) fn continue_loop(&mut self, iteration: u32) -> Result<u32, ContinuationBlocked> {
        let command =
            continue_command(iteration, &format!("next-{iteration}-{}", self.events.len()));
        let events = self.apply(&member("boss"), command);
        match events.first() {
            Some(Event::Message(MessageEvent::MessageStored(stored))) => Ok(stored.no),
            Some(Event::Loop(LoopEvent::ContinuationRefused(refused))) => Err(refused.why.clone()),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn continue_command(iteration: u32, key: &str) -> TeamCommand {
    let (to, key, text) = ("hand".to_owned(), key.to_owned(), "go on".to_owned());
    TeamCommand::Continue { iteration, to, key, text, channel: MessageChannel::Tool }
}

pub(crate) fn offered_lease(event: &Event) -> Option<(u32, u32)> {
    let Event::Message(MessageEvent::MessageOffered(offered)) = event else { return None };
    Some((offered.no, offered.lease.no))
}

pub(crate) fn consumer_actor(consumer: &str) -> TeamActor {
    if consumer == "operator" { TeamActor::Operator } else { member(consumer) }
}

pub(crate) fn post(to: &str, key: &str) -> TeamCommand {
    let to = match to {
        "operator" => Recipient::Operator,
        name => Recipient::Member(name.to_owned()),
    };
    TeamCommand::Post(Box::new(NewMessage {
        key: key.to_owned(),
        correlation: None,
        channel: MessageChannel::Cli,
        to,
        kind: TeamMessageKind::Instruction,
        text: format!("the text of {key}"),
        priority: Priority::Normal,
        expires_in_ms: None,
        steer: false,
    }))
}

/// Returns evidence that satisfies the proof, and an actor who may show it.
pub(crate) fn matching_evidence(proof: &LoopProof, tree: &str) -> (ShownEvidence, TeamActor) {
    match proof {
        LoopProof::Verified { check } => {
            let receipt = Box::new(receipt(tree, check, CheckEnd::Exit(0)));
            (ShownEvidence::Evidence(CriterionEvidence::Verified(receipt)), TeamActor::Provost)
        }
        LoopProof::Asserted => {
            let (text, by) = (format!("looked at it, it holds on {tree}"), "hand".to_owned());
            (ShownEvidence::Evidence(CriterionEvidence::Asserted { text, by }), member("hand"))
        }
        LoopProof::Adversarial => (ShownEvidence::Challenge(challenge()), member("eye")),
        LoopProof::Artifact { fields } => {
            let filled = fields.iter().map(|field| (field.clone(), "there it is".to_owned()));
            (ShownEvidence::Artifact(filled.collect()), member("hand"))
        }
        LoopProof::Pictures { differing, .. } => {
            let compared = provost_core::team::PictureComparison {
                expected: "a.png".to_owned(),
                actual: "b.png".to_owned(),
                differing: *differing,
                tolerance: 0,
                expected_is: Default::default(),
                actual_is: Default::default(),
            };
            (ShownEvidence::Pictures(compared), TeamActor::Provost)
        }
    }
}

pub(crate) fn challenge() -> WorkChallenge {
    WorkChallenge {
        failure_mode: "two callers at the same moment".to_owned(),
        check: "a thousand calls from two threads".to_owned(),
        result: "each was counted exactly once".to_owned(),
    }
}

pub(crate) fn template(max: u32) -> LoopTemplate {
    LoopTemplate {
        name: "build".to_owned(),
        max,
        evidence: vec![
            LoopRequirement {
                name: "tests".to_owned(),
                proof: LoopProof::Verified { check: "test".to_owned() },
            },
            LoopRequirement { name: "challenge".to_owned(), proof: LoopProof::Adversarial },
        ],
        clean_up: Default::default(),
        plateau: None,
        tokens: None,
        tools: Vec::new(),
    }
}

pub(crate) fn lease_of(status: &MessageStatus) -> &MessageLease {
    status.lease().expect("the message is leased")
}
