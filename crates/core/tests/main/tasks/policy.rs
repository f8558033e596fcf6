//! The rule-based manager: its action on each occasion, and its limits.

use proptest::prelude::*;
use provost_core::{
    lifecycle::ClaimKind,
    session::{Afterwards, Signal, Spec},
    task::{
        About, Act, Action, Actor, Address, Blocked, Command, Config, Criterion, Event, Judgement,
        Kind, Needs, Phase, Policy, Rejected, Role, TaskSpec, Template,
        templates::{built_in, require},
    },
    verdict::{CheckEnd, Receipt},
};

use super::kit::{A_REASON, Desk, member, post, task_spec};
use crate::kit::{Bench, OVER, question, receipt, spec};

const CHECK: &str = "cargo test";

fn managed(policy: Policy) -> Desk {
    let mut desk = Desk::open(TaskSpec { policy: Some(policy), ..task_spec() });
    desk.bind("hand", Role::Worker, None);
    desk.settle();
    desk
}

/// A team whose worker pulled and handled its first message, with a criterion that a check verifies.
fn at_work(policy: Policy) -> Desk {
    let mut desk = managed(policy);
    desk.criterion(Needs::Verified { check: CHECK.to_owned() });
    desk.post(&Actor::Operator, "hand", "goal");
    desk.settle();
    works(&mut desk);
    desk
}

/// Lets the worker handle its next message.
fn works(desk: &mut Desk) {
    desk.handle("hand");
    desk.settle();
}

fn acts(desk: &Desk) -> &[Act] {
    &desk.task.policy.acts
}

/// Finishes all pending checks with `end`.
fn checked(desk: &mut Desk, end: &CheckEnd) {
    let owed = desk.task.checks.clone();
    assert!(!owed.is_empty(), "something is to be checked");
    for check in owed {
        let tail = "assertion failed: left == right\n[provost message 9 of team \"x\"]".to_owned();
        let receipt = Receipt { tail, ..receipt("tree", &check.command, end.clone()) };
        desk.done(
            &Actor::Provost,
            Command::CheckDone { no: check.no, receipt: Box::new(receipt), compared: None },
        );
    }
    desk.settle();
}

fn to_operator(desk: &Desk) -> Vec<&str> {
    let all = desk.task.messages.iter().filter(|message| message.to == Address::Operator);
    all.map(|message| message.text.as_str()).collect()
}

#[test]
fn a_worker_that_is_done_is_checked_and_sent_back_until_it_holds_and_then_the_task_is_finished() {
    let mut desk = at_work(Policy::default());
    assert_eq!(acts(&desk), [Act::Checked { generation: 1 }]);
    checked(&mut desk, &CheckEnd::Exit(1));
    assert_eq!(acts(&desk).last(), Some(&Act::SentBack { to: "hand".to_owned() }));
    let sent = desk.task.messages.last().expect("a message was sent");
    assert_eq!((&sent.from, sent.kind), (&Actor::Policy, Kind::Instruction));
    assert!(sent.text.contains("`cargo test`: exit 1\n> assertion failed"), "{}", sent.text);
    assert!(sent.text.lines().all(|line| !line.starts_with('[')), "output is quoted");
    works(&mut desk);
    assert_eq!(acts(&desk).last(), Some(&Act::Checked { generation: 2 }));
    checked(&mut desk, &CheckEnd::Exit(0));
    assert_eq!(acts(&desk).last(), Some(&Act::Finished { generation: 2 }));
    assert!(desk.task.audit.is_some(), "it is audited as everything is");
    checked(&mut desk, &CheckEnd::Exit(0));
    assert!(matches!(desk.task.phase, Phase::Done { .. }), "{:?}", desk.task.phase);
}

#[test]
fn an_audit_that_fails_goes_back_to_the_work() {
    let mut desk = at_work(Policy::default());
    checked(&mut desk, &CheckEnd::Exit(0));
    checked(&mut desk, &CheckEnd::Signal(9));
    assert_eq!(acts(&desk).last(), Some(&Act::SentBack { to: "hand".to_owned() }));
    works(&mut desk);
    assert_eq!(acts(&desk).last(), Some(&Act::Finished { generation: 2 }));
    checked(&mut desk, &CheckEnd::Exit(0));
    assert!(desk.task.phase.is_over());
}

#[test]
fn work_is_sent_back_so_often_and_then_a_person_is_told_once() {
    let mut desk = at_work(Policy { rework: 2, ..Policy::default() });
    for _ in 0..2 {
        checked(&mut desk, &CheckEnd::Exit(1));
        works(&mut desk);
    }
    checked(&mut desk, &CheckEnd::Exit(1));
    assert_eq!(acts(&desk).last(), Some(&Act::Escalated(About::ReworkSpent)));
    assert_eq!(to_operator(&desk).len(), 1);
    // The operator takes over, and the policy checks again.
    desk.post(&Actor::Operator, "hand", "by hand");
    desk.settle();
    works(&mut desk);
    checked(&mut desk, &CheckEnd::Exit(0));
    checked(&mut desk, &CheckEnd::Exit(0));
    assert!(desk.task.phase.is_over());
    assert_eq!(to_operator(&desk).len(), 1);
}

#[test]
fn a_check_that_could_not_be_run_is_no_fault_of_the_worker() {
    let mut desk = at_work(Policy::default());
    checked(&mut desk, &CheckEnd::Unfinished("the disk is full".to_owned()));
    assert_eq!(acts(&desk).last(), Some(&Act::Escalated(About::Unfinished { check: 1 })));
    assert!(to_operator(&desk)[0].contains("the disk is full"));
}

#[test]
fn what_no_command_proves_is_for_a_person() {
    let mut desk = managed(Policy::default());
    let no = desk.criterion(Needs::Asserted);
    desk.post(&Actor::Operator, "hand", "goal");
    desk.settle();
    works(&mut desk);
    assert_eq!(acts(&desk), [Act::Escalated(About::Stuck { generation: 1 })]);
    assert!(to_operator(&desk)[0].contains("criterion 1 is accepted"));
    let text = "a person looked at it and it holds".to_owned();
    let evidence = provost_core::task::Evidence::Asserted { text, by: "operator".to_owned() };
    let judgement = Judgement::Satisfy { evidence };
    desk.done(&Actor::Operator, Command::Judge { no, judgement });
    desk.settle();
    // There is an assertion now, but still no command verified anything.
    assert_eq!(acts(&desk).last(), Some(&Act::Escalated(About::Ready { generation: 1 })));
    assert!(!desk.task.phase.is_over());
}

#[test]
fn what_members_propose_is_accepted_only_if_the_policy_says_so() {
    for accept in [false, true] {
        let mut desk = at_work(Policy { accept, ..Policy::default() });
        checked(&mut desk, &CheckEnd::Exit(0));
        let mut desk = at_work(Policy { accept, ..Policy::default() });
        let text = "the answer says how long to wait".to_owned();
        let needs = Needs::Verified { check: "./waits".to_owned() };
        desk.done(&member("hand"), Command::Propose { text, rationale: None, needs });
        checked(&mut desk, &CheckEnd::Exit(0));
        let expected = if accept {
            Act::Accepted { criterion: 2 }
        } else {
            Act::Escalated(About::Stuck { generation: 1 })
        };
        assert!(acts(&desk).contains(&expected), "{:?}", acts(&desk));
        assert!(!desk.task.phase.is_over());
    }
}

#[test]
fn a_loop_is_asked_for_its_evidence_and_goes_on_behind_its_gate() {
    let mut desk = managed(Policy::default());
    desk.criterion(Needs::Verified { check: CHECK.to_owned() });
    let outline = require(["tests=verified:./t", "notes=artifact:done"]).expect("evidence");
    desk.begin_loop(outline.fill(&[]).expect("known"));
    desk.post(&Actor::Operator, "hand", "goal");
    desk.settle();
    works(&mut desk);
    assert_eq!(desk.task.checks.len(), 2, "the criterion's and the evidence's");
    let owed = desk.task.checks.clone();
    for check in owed {
        let end = if check.command == CHECK { CheckEnd::Exit(1) } else { CheckEnd::Exit(0) };
        let receipt = Box::new(receipt("tree", &check.command, end));
        desk.done(&Actor::Provost, Command::CheckDone { no: check.no, receipt, compared: None });
    }
    desk.settle();
    // Evidence is missing, so the failure is fixed within the iteration.
    assert_eq!(acts(&desk).last(), Some(&Act::SentBack { to: "hand".to_owned() }));
    let shown = provost_core::task::Shown::Artifact([("done".to_owned(), "it".to_owned())].into());
    let show = Command::Show { iteration: 1, name: "notes".to_owned(), shown };
    desk.done(&member("hand"), show);
    works(&mut desk);
    checked(&mut desk, &CheckEnd::Exit(1));
    assert_eq!(acts(&desk).last(), Some(&Act::Continued { iteration: 2 }));
    works(&mut desk);
    assert_eq!(desk.task.looped.as_ref().map(|looped| looped.iteration), Some(2));
    checked(&mut desk, &CheckEnd::Exit(0));
    assert!(matches!(acts(&desk).last(), Some(Act::AskedFor { .. })), "{:?}", acts(&desk));
}

#[test]
fn nothing_is_done_while_the_task_is_paused_or_over() {
    let mut desk = managed(Policy::default());
    desk.criterion(Needs::Verified { check: CHECK.to_owned() });
    desk.post(&Actor::Operator, "hand", "goal");
    let (no, lease) = desk.take("hand");
    desk.done(&Actor::Operator, Command::Pause { because: A_REASON.to_owned() });
    desk.done(&member("hand"), Command::Acknowledge { no, lease, note: None });
    desk.settle();
    assert!(acts(&desk).is_empty());
    assert_eq!(desk.task.deadline(), None);
    desk.done(&Actor::Operator, Command::GoOn);
    desk.settle();
    assert_eq!(acts(&desk), [Act::Checked { generation: 1 }]);
    desk.done(&Actor::Operator, Command::Cancel { because: A_REASON.to_owned() });
    desk.settle();
    assert_eq!(acts(&desk).len(), 1);
}

#[test]
fn what_it_may_not_do_is_told_and_not_tried_again() {
    let mut desk = at_work(Policy::default());
    let config = Config { denied: [Action::End].into(), ..Config::default() };
    desk.done(&Actor::Operator, Command::Configure { config: Box::new(config), expected: 0 });
    checked(&mut desk, &CheckEnd::Exit(0));
    let refused = Act::Escalated(About::Refused { act: 2 });
    assert_eq!(acts(&desk)[1..], [Act::Finished { generation: 1 }, refused]);
    assert!(
        to_operator(&desk)[0].contains("does not allow the manager to pause or end the team"),
        "{:?}",
        to_operator(&desk)
    );
}

#[test]
fn whoever_guesses_a_key_keeps_nothing_from_being_said() {
    let mut desk = managed(Policy::default());
    desk.criterion(Needs::Verified { check: CHECK.to_owned() });
    for n in 0..3 {
        desk.done(&member("hand"), post("operator", &format!("policy-2-{n}")));
    }
    desk.post(&Actor::Operator, "hand", "goal");
    works(&mut desk);
    checked(&mut desk, &CheckEnd::Exit(1));
    assert_eq!(desk.task.messages.last().map(|m| m.to.name()), Some("hand"));
    assert_eq!(desk.task.policy.refused, None);
}

#[test]
fn a_policy_that_has_done_all_it_may_says_so_and_is_silent() {
    let mut desk = at_work(Policy { acts: 3, rework: 100, ..Policy::default() });
    checked(&mut desk, &CheckEnd::Exit(1));
    works(&mut desk);
    let back = Act::SentBack { to: "hand".to_owned() };
    assert_eq!(acts(&desk), [Act::Checked { generation: 1 }, back, Act::GaveUp]);
    assert!(to_operator(&desk)[0].contains("ran the open checks"), "{:?}", to_operator(&desk));
    desk.post(&Actor::Operator, "hand", "more");
    works(&mut desk);
    assert_eq!(acts(&desk).len(), 3);
}

/// A worker's session and a team whose policy watches it.
fn watching(policy: Policy) -> (Desk, Bench) {
    let bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    let mut desk = Desk::open(TaskSpec { policy: Some(policy), ..task_spec() });
    desk.bind("hand", Role::Worker, Some(bench.session.id));
    desk.criterion(Needs::Verified { check: CHECK.to_owned() });
    (desk, bench)
}

/// Syncs the session into the team and the team's commands back into the session.
fn meet(desk: &mut Desk, bench: &mut Bench) {
    desk.now = desk.now.max(bench.now.mono_ms);
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.settle();
    bench.session = desk.sessions[&bench.session.id].clone();
    bench.advance();
    desk.sessions.insert(bench.session.id, bench.session.clone());
}

#[test]
fn a_worker_that_rests_without_a_word_is_nudged_after_a_while_and_so_often() {
    let policy = Policy { nudge_after_ms: Some(500), nudges: 1, ..Policy::default() };
    let (mut desk, mut bench) = watching(policy);
    bench.signal(Signal::TurnStarted { turn: None });
    meet(&mut desk, &mut bench);
    assert_eq!(desk.task.deadline(), None, "it is at work");
    bench.signal(OVER).signal(OVER);
    meet(&mut desk, &mut bench);
    let due = desk.task.deadline().expect("it rests");
    assert_eq!(due, desk.now + 500);
    desk.now = due - 1;
    desk.settle();
    assert!(acts(&desk).is_empty());
    desk.now = due;
    desk.settle();
    assert_eq!(acts(&desk), [Act::Nudged { to: "hand".to_owned() }]);
    assert!(desk.task.deadline().is_none_or(|next| next > desk.now), "a reached deadline is gone");
    let text = &desk.task.messages.last().expect("a message was sent").text;
    assert!(text.contains("have not reported that you are done"), "{text}");
}

#[test]
fn a_worker_that_says_that_it_is_done_is_checked() {
    let (mut desk, mut bench) = watching(Policy::default());
    bench.signal(Signal::TurnStarted { turn: None });
    bench.claim(ClaimKind::Completed);
    meet(&mut desk, &mut bench);
    assert!(acts(&desk).is_empty(), "its turn is not over");
    bench.signal(OVER).signal(OVER);
    meet(&mut desk, &mut bench);
    assert!(acts(&desk).is_empty(), "what it claims is not sealed yet");
    bench.pass(60_000);
    meet(&mut desk, &mut bench);
    assert_eq!(acts(&desk), [Act::Checked { generation: 1 }]);
}

#[test]
fn a_question_is_for_a_person_once() {
    let (mut desk, mut bench) = watching(Policy::default());
    bench.signal(Signal::TurnStarted { turn: None });
    bench.signal(Signal::Asked(question("q")));
    meet(&mut desk, &mut bench);
    meet(&mut desk, &mut bench);
    assert!(matches!(acts(&desk), [Act::Escalated(About::Question { .. })]), "{:?}", acts(&desk));
    assert_eq!(to_operator(&desk).len(), 1);
    assert!(to_operator(&desk)[0].contains("provost answer"));
}

/// A random event of a team.
#[derive(Clone, Debug)]
enum Happens {
    Posted,
    Handled,
    Checked(bool),
    Proposed(bool),
    Satisfied,
    Paused,
    WentOn,
    Looped,
    Shown,
    Waited(u64),
    Retired,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        1 => Just(Happens::Posted),
        4 => Just(Happens::Handled),
        4 => any::<bool>().prop_map(Happens::Checked),
        1 => any::<bool>().prop_map(Happens::Proposed),
        1 => Just(Happens::Satisfied),
        1 => Just(Happens::Paused),
        2 => Just(Happens::WentOn),
        1 => Just(Happens::Looped),
        2 => Just(Happens::Shown),
        1 => (0_u64..300).prop_map(Happens::Waited),
        1 => Just(Happens::Retired),
    ]
}

fn tried(desk: &mut Desk, actor: &Actor, command: Command) {
    let outcome: Result<Vec<Event>, Rejected> = desk.does(actor, command);
    drop(outcome);
}

fn let_happen(desk: &mut Desk, what: &Happens, step: usize) {
    let because = A_REASON.to_owned();
    match what {
        Happens::Posted => tried(desk, &Actor::Operator, post("hand", &format!("key-{step}"))),
        Happens::Handled => {
            let next = Command::Next { consumer: "hand".to_owned() };
            let offered = desk.does(&member("hand"), next).unwrap_or_default();
            if let Some((no, lease)) = offered.iter().find_map(super::kit::offered) {
                tried(desk, &member("hand"), Command::Accept { no, lease, polls: 0 });
                tried(desk, &member("hand"), Command::Acknowledge { no, lease, note: None });
            }
        }
        Happens::Checked(pass) => {
            let Some(check) = desk.task.checks.first().cloned() else { return };
            let end = if *pass { CheckEnd::Exit(0) } else { CheckEnd::Exit(1) };
            let receipt = Box::new(receipt("tree", &check.command, end));
            tried(
                desk,
                &Actor::Provost,
                Command::CheckDone { no: check.no, receipt, compared: None },
            );
        }
        Happens::Proposed(verified) => {
            let needs = if *verified {
                Needs::Verified { check: format!("check-{}", step % 2) }
            } else {
                Needs::Asserted
            };
            let text = "something that has to hold".to_owned();
            tried(desk, &member("hand"), Command::Propose { text, rationale: None, needs });
            let accepted = desk.task.criteria.len() as u32;
            let judged = Command::Judge { no: accepted, judgement: Judgement::Accept };
            tried(desk, &Actor::Operator, judged);
        }
        Happens::Satisfied => {
            let open = desk.task.criteria.iter().find(|one: &&Criterion| one.is_open());
            let Some(no) = open.map(|one| one.no) else { return };
            let judgement = Judgement::Defer { because };
            tried(desk, &Actor::Operator, Command::Judge { no, judgement });
        }
        Happens::Paused => tried(desk, &Actor::Operator, Command::Pause { because }),
        Happens::WentOn => tried(desk, &Actor::Operator, Command::GoOn),
        Happens::Looped => {
            let template: Template =
                built_in("build").expect("built in").fill(&["true".to_owned()]).expect("known");
            tried(desk, &Actor::Operator, Command::BeginLoop { template: Box::new(template) });
        }
        Happens::Shown => {
            let Some(looped) = desk.task.running_loop().cloned() else { return };
            let required = &looped.template.evidence[step % looped.template.evidence.len()];
            let (shown, actor) = super::kit::fitting(&required.proof, &format!("tree-{step}"));
            let (iteration, name) = (looped.iteration, required.name.clone());
            tried(desk, &actor, Command::Show { iteration, name, shown });
        }
        Happens::Waited(ms) => desk.now += ms,
        Happens::Retired => {
            if step.is_multiple_of(7) {
                let name = "hand".to_owned();
                tried(
                    desk,
                    &Actor::Operator,
                    Command::Retire { name, because, to: None, dead_letter: true },
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A policy respects its action limit, never acts on a paused or ended team, and is idempotent; its
    /// continuations pass the gate, and its state survives a round trip through storage.
    #[test]
    fn the_laws_of_a_policy(
        story in proptest::collection::vec(happens(), 0..60),
        most in 2_u32..12,
        rework in 0_u32..4,
        accept: bool,
        finish: bool,
    ) {
        let policy = Policy { acts: most, rework, accept, finish, ..Policy::default() };
        let mut desk = managed(policy);
        desk.post(&Actor::Operator, "hand", "goal");
        for (step, what) in story.iter().enumerate() {
            let_happen(&mut desk, what, step);
            let (before, still) = (acts(&desk).len(), desk.task.phase.clone());
            desk.settle();
            if still != Phase::Active {
                prop_assert_eq!(acts(&desk).len(), before, "{:?}", still);
            }
            prop_assert!(acts(&desk).len() <= most as usize);
            let settled = (desk.task.clone(), desk.events.len());
            desk.settle();
            prop_assert_eq!(&(desk.task.clone(), desk.events.len()), &settled);
            let stored = serde_json::to_string(&desk.task).expect("it can be written");
            let read: provost_core::task::Task = serde_json::from_str(&stored).expect("and read");
            prop_assert_eq!(&read, &desk.task);
            let sent = acts(&desk).iter().filter(|act| {
                matches!(act, Act::SentBack { .. } | Act::AskedFor { .. })
            });
            prop_assert!(sent.count() <= rework as usize);
        }
        let advanced = desk.events.iter().filter_map(|event| {
            let Event::LoopAdvanced(advanced) = event else { return None };
            Some(advanced.to)
        });
        // No iteration is skipped or repeated; each story has one loop.
        prop_assert!(advanced.zip(2..).all(|(to, expected)| to == expected));
        let gates: Vec<&Blocked> = desk.events.iter().filter_map(|event| {
            let Event::ContinuationRefused(refused) = event else { return None };
            (refused.by == Actor::Policy).then_some(&refused.why)
        }).collect();
        // The policy continues only if the gate is open; the gate is checked again on delivery.
        prop_assert!(gates.iter().all(|why| matches!(why, Blocked::Ended)), "{:?}", gates);
    }
}
