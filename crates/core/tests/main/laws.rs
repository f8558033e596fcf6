//! The session laws under random commands at random times, and limits tested at N and N+1.

use proptest::prelude::*;
use provost_core::{
    aggregate::Aggregate,
    ids::SessionId,
    lifecycle::{ClaimKind, State},
    session::{
        DeadlineKind, Event, Session, SessionCommand, SessionOpened, SessionRejection, StopStep,
        StreamSignal, TurnEnd,
    },
    time::Moment,
    verdict::CheckEnd,
};

use crate::{
    kit::{TestSession, checked_spec, question, snapshot},
    random::{random_command, random_spec},
    rng::Rng,
    watched::SessionWatch,
};

/// Maximum number of automatic events in a row; more mean that a rule never settles.
const MAX_FOLLOW_UPS: usize = 64;

/// A session with its log and the law checker.
struct LawSession {
    session: Session,
    log: Vec<(Moment, Event)>,
    watch: SessionWatch,
    now: Moment,
}

impl LawSession {
    fn open(rng: &mut Rng) -> LawSession {
        let now = Moment { wall_ms: 1_000_000, mono_ms: 1_000 };
        let opened = SessionOpened { spec: Box::new(random_spec(rng)) };
        let session = Session::open(SessionId(uuid::Uuid::from_u128(7)), now, &opened);
        let watch = SessionWatch::start(&session);
        let mut story = LawSession { session, log: vec![(now, opened.into())], watch, now };
        story.advance_fully();
        story
    }

    fn advance_clock(&mut self, ms: u64) {
        self.now.mono_ms += ms;
        self.now.wall_ms += ms as i64;
        self.advance_fully();
        self.report_due_silence();
    }

    /// Reports silence whenever its deadline is reached. A reaction to silence with no delay can make the next one due
    /// at once; each report must change something, and the sequence must end.
    fn report_due_silence(&mut self) {
        for _ in 0..MAX_FOLLOW_UPS {
            let Some((at, DeadlineKind::Silence(launch))) = self.session.deadline() else { return };
            if at > self.now.mono_ms {
                return;
            }
            let heard_ms =
                self.session.launch(launch).expect("it is due").stream.last_heard.mono_ms;
            let result = self.apply(&SessionCommand::Silence { launch, heard_ms });
            result.unwrap_or_else(|why| {
                panic!("a due silence changed nothing: {why}\n{}", self.describe_log())
            });
        }
        panic!("silence is due without end\n{}", self.describe_log());
    }

    fn apply(&mut self, command: &SessionCommand) -> Result<(), SessionRejection> {
        let events = self.session.decide(command, self.now)?;
        assert_eq!(Ok(&events), self.session.decide(command, self.now).as_ref(), "decide is pure");
        for event in events {
            self.fold(event);
        }
        self.advance_fully();
        Ok(())
    }

    fn advance_fully(&mut self) {
        for _ in 0..MAX_FOLLOW_UPS {
            match self.session.advance(self.now) {
                Some(event) => self.fold(event),
                None => {
                    let judged = self.watch.check_settled(&self.session, self.now);
                    return judged.unwrap_or_else(|why| panic!("{why}\n{}", self.describe_log()));
                }
            }
        }
        panic!("the rules do not terminate\n{}", self.describe_log());
    }

    fn fold(&mut self, event: Event) {
        let before = self.session.clone();
        self.session.evolve(self.now, &event);
        let judged = self.watch.check_event(&before, self.now, &event, &self.session);
        self.log.push((self.now, event));
        judged.unwrap_or_else(|why| panic!("{why}\n{}", self.describe_log()));
    }

    /// Encodes, decodes and replays the log.
    fn replay(&self) -> Session {
        let stored: Vec<(Moment, Event)> = self
            .log
            .iter()
            .map(|(at, event)| {
                let (kind, v) = event.kind();
                (*at, Event::decode(kind, v, &event.encode()).expect("it was encoded"))
            })
            .collect();
        Session::fold(self.session.id, stored.iter().map(|(at, event)| (*at, event)))
            .expect("the log begins with the opening")
    }

    fn describe_log(&self) -> String {
        let lines = self.log.iter().skip(1);
        lines.map(|(at, event)| format!("{:>6} {event:?}\n", at.mono_ms)).collect()
    }
}

/// Number of random stories per law. Mutation testing lowers it through `PROVOST_LAW_CASES`.
#[expect(clippy::disallowed_methods, reason = "the environment sets how long the test may take")]
fn cases() -> u32 {
    std::env::var("PROVOST_LAW_CASES").map_or(3_000, |count| count.parse().expect("a number"))
}

/// Runs one random story and returns the session.
fn run_story(seed: u64, steps: &[(u64, u64)]) -> LawSession {
    let mut story = LawSession::open(&mut Rng::new(seed));
    let prepared =
        SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: Some(snapshot("t0")) };
    story.apply(&prepared).expect("its work was not prepared before");
    for (ms, choice) in steps {
        story.advance_clock(*ms);
        let command = random_command(&story.session, &mut Rng::new(*choice));
        // Rejections are fine: every state must only have some answer to every command.
        story.apply(&command).ok();
    }
    story
}

#[test]
fn repeated_immediate_silence_terminates() {
    let steps = [
        (0, 16742028077054982946),
        (0, 18359678874734624810),
        (0, 14595272101732001039),
        (1000, 0),
    ];
    run_story(263541352987311100, &steps);
}

#[test]
fn late_input_receipt_after_exit_is_dropped() {
    let choices = [
        11917896876356801562,
        9273596332230913304,
        19474138365063201,
        1723975758710,
        16652501408687803809,
        12573329800197463450,
        9648202843563986892,
        15815240178567507825,
        0,
    ];
    run_story(14232340575187791461, &choices.map(|choice| (0, choice)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laws_hold_for_random_commands(
        seed in any::<u64>(),
        steps in proptest::collection::vec((prop_oneof![Just(0), 0u64..120, 0u64..3_000], any::<u64>()), 1..60),
    ) {
        let story = run_story(seed, &steps);
        prop_assert_eq!(&story.replay(), &story.session);
        let text = serde_json::to_string(&story.session).unwrap();
        prop_assert_eq!(serde_json::from_str::<Session>(&text).unwrap(), story.session);
    }

    #[test]
    fn closed_imported_session_has_no_effects(
        seed in any::<u64>(),
        steps in proptest::collection::vec((0u64..400, any::<u64>()), 0..40),
    ) {
        let mut story = LawSession::open(&mut Rng::new(seed));
        let prepared = SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: Some(snapshot("t0")) };
        if seed % 4 > 0 {
            story.apply(&prepared).unwrap();
        }
        for (ms, choice) in steps {
            story.advance_clock(ms);
            story.apply(&random_command(&story.session, &mut Rng::new(choice))).ok();
        }
        let (before, at) = (story.session.clone(), Moment { mono_ms: story.now.mono_ms + 1, ..story.now });
        for event in before.close_imported(at) {
            story.session.evolve(at, &event);
        }
        prop_assert!(story.session.is_closed(), "{}", story.describe_log());
        prop_assert_eq!(story.session.effects(), vec![]);
        prop_assert_eq!(story.session.deadline(), None);
        prop_assert_eq!(story.session.advance(Moment { mono_ms: u64::MAX, ..at }), None);
        prop_assert_eq!(story.session.close_imported(at), vec![]);
        prop_assert!(!story.session.launches.iter().any(|launch| launch.may_be_running()));
        match &before.attempt().sealed {
            Some(sealed) => prop_assert_eq!(story.session.attempt().sealed.as_ref(), Some(sealed)),
            None => {
                let state = story.session.state();
                prop_assert!(state != State::Succeeded && state != State::Completed, "{:?}", state);
            }
        }
    }

    #[test]
    fn decide_ignores_wall_clock(seed in any::<u64>(), wall in any::<i32>(), choice in any::<u64>()) {
        let story = LawSession::open(&mut Rng::new(seed));
        let command = random_command(&story.session, &mut Rng::new(choice));
        let later = Moment { wall_ms: i64::from(wall), ..story.now };
        prop_assert_eq!(story.session.decide(&command, story.now), story.session.decide(&command, later));
    }
}

#[test]
fn rework_is_requested_at_most_n_times() {
    for bound in 0..=3 {
        let mut spec = checked_spec();
        spec.bounds.rework = bound;
        let mut harness = TestSession::running(spec);
        for sent in 0..=bound {
            assert_eq!(harness.session.attempt().reworks, sent);
            assert!(harness.session.launches[0].stop.is_none(), "bound {bound}, sent {sent}");
            harness.signal(StreamSignal::TurnStarted { turn: None }).claim(ClaimKind::Completed);
            harness.signal(StreamSignal::TurnEnded {
                turn: None,
                end: TurnEnd::Ok,
                usage: None,
                says: None,
            });
            harness.verify("new", CheckEnd::Exit(1));
        }
        assert_eq!(harness.session.attempt().reworks, bound);
        assert!(harness.session.launches[0].stop.is_some(), "at N+1 the process is ended");
    }
}

#[test]
fn moving_tree_is_snapshotted_at_most_n_times() {
    for bound in 0..=3 {
        let mut spec = checked_spec();
        spec.bounds.snapshots = bound;
        let mut harness = TestSession::running(spec);
        harness.claim(ClaimKind::Completed).end(provost_core::session::ProcessExit::Exit(0));
        for moved in 0..=bound {
            let tree = format!("tree-{moved}");
            harness.snapshot(&tree);
            assert_eq!(harness.state(), State::Verifying, "bound {bound}, moved {moved}");
            harness.check(&tree, CheckEnd::Exit(0));
        }
        harness.snapshot("tree-again");
        assert_eq!(harness.state(), State::Disputed, "at N+1 the tree is disputed");
    }
}

#[test]
fn stop_escalates_when_each_grace_ends() {
    let mut harness = TestSession::running(checked_spec());
    harness.apply(SessionCommand::Stop);
    let step = |harness: &TestSession| harness.session.launches[0].stop.unwrap().step;
    for next in [StopStep::Terminate, StopStep::Kill, StopStep::GivenUp] {
        let before = step(&harness);
        harness.advance_clock(9_999);
        assert_eq!(step(&harness), before);
        harness.advance_clock(1);
        assert_eq!(step(&harness), next);
    }
    harness.advance_clock(1_000_000);
    assert_eq!(step(&harness), StopStep::GivenUp);
}

#[test]
fn time_limit_excludes_waiting_for_user() {
    let mut spec = checked_spec();
    spec.bounds.time_limit_ms = Some(1_000);
    let mut harness = TestSession::running(spec);
    harness.advance_clock(600);
    harness.signal(StreamSignal::RequestOpened(question("q"))).advance_clock(100_000);
    harness.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() }).advance_clock(399);
    assert_eq!(harness.state(), State::Working);
    harness.advance_clock(1);
    assert_eq!(harness.state(), State::Failed);
}
