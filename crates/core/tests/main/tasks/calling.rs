//! Tool calls of members: authorised by role, with the result of slow actions reported later.

use provost_core::{
    session::{Afterwards, MessageFate, MessageKind, Signal, Spec},
    task::{
        Action, Actor, Call, Channel, Checked, Command, Event, JudgementKind, Kind, Needs,
        Rejected, Role, SentKind, TaskSpec, Trust,
    },
    verdict::CheckEnd,
};

use super::kit::{A_REASON, Desk, member, task_spec};
use crate::kit::{Bench, OVER, receipt, spec};

/// A team with a worker that has a session and a manager without one.
fn driven(task: TaskSpec) -> (Desk, Bench) {
    let bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    let mut desk = Desk::open(task);
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.bind("hand", Role::Worker, Some(bench.session.id));
    desk.bind("boss", Role::Manager, None);
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 0 });
    (desk, bench)
}

fn send(to: &str, key: Option<&str>) -> Call {
    Call::Send {
        to: to.to_owned(),
        text: "some text".to_owned(),
        kind: SentKind::Instruction,
        key: key.map(str::to_owned),
        correlation: None,
        steer: false,
    }
}

fn command(call: &Call, name: &str) -> Command {
    call.command(name, "call-7").expect("it is well formed").expect("it asks for something")
}

#[test]
fn a_call_is_a_command_of_the_task_by_a_tool_and_its_key_is_the_members_own() {
    let Command::Post(post) = command(&send("hand", Some("k")), "boss") else { panic!("a post") };
    assert_eq!((post.key.as_str(), post.channel), ("boss/k", Channel::Tool));
    let Command::Post(post) = command(&send("hand", None), "boss") else { panic!("a post") };
    assert_eq!(post.key, "call-7");
    let look = Call::Look {};
    assert_eq!(look.command("boss", "call-7"), Ok(None));
}

#[test]
fn d14_d22_what_a_workers_tools_do_not_offer_is_refused_by_its_role() {
    let (desk, _) = driven(task_spec());
    let because = A_REASON.to_owned();
    let calls = [
        Call::StopLoop { because: because.clone() },
        Call::Finish { because: because.clone() },
        Call::Interrupt { member: "boss".to_owned(), text: None },
        Call::Compact { member: "boss".to_owned() },
        Call::Continue { iteration: 2, to: "hand".to_owned(), text: because.clone(), key: None },
        Call::JudgeCriterion {
            criterion: 1,
            judgement: JudgementKind::Satisfy,
            because: Some(because),
        },
    ];
    for call in calls {
        let command = command(&call, "hand");
        let why = desk.decide(&member("hand"), &command).expect_err("it may not");
        assert_eq!(why.code(), "not_for_role", "{call:?}");
        let kept = desk.task.keep_refusal(&member("hand"), &command, &why);
        let Some(Event::ActionRefused(kept)) = kept else { panic!("a refusal is kept") };
        assert_eq!((kept.by, kept.code.as_str()), (member("hand"), "not_for_role"));
        assert_eq!(Some(kept.action), command.action());
    }
}

#[test]
fn a_refusal_of_a_person_or_of_nothing_new_is_not_kept() {
    let (desk, _) = driven(task_spec());
    let look = Command::StopLoop { because: A_REASON.to_owned() };
    let denied = Rejected::NotGranted(Action::Loop);
    assert_eq!(desk.task.keep_refusal(&Actor::Operator, &look, &denied), None);
    assert_eq!(desk.task.keep_refusal(&member("boss"), &look, &Rejected::Nothing), None);
    let kept = desk.task.keep_refusal(&member("boss"), &look, &denied);
    let Some(Event::ActionRefused(kept)) = kept else { panic!("a refusal is kept") };
    assert_eq!((kept.action, kept.code.as_str()), (Action::Loop, "not_granted"));
}

#[test]
fn a_manager_has_a_member_leave_its_turn_and_is_told_why_if_it_cannot() {
    let (mut desk, mut bench) = driven(task_spec());
    bench.signal(Signal::TurnStarted { turn: None });
    desk.sessions.insert(bench.session.id, bench.session.clone());
    let call = Call::Interrupt { member: "hand".to_owned(), text: Some("try it so".to_owned()) };
    desk.done(&member("boss"), command(&call, "boss"));
    let told = &desk.sessions[&bench.session.id].messages;
    let kinds: Vec<MessageKind> =
        told.iter().filter(|m| m.fate == MessageFate::Queued).map(|m| m.kind).collect();
    assert!(kinds.contains(&MessageKind::Interrupt) && kinds.contains(&MessageKind::Steer));
    let said = told.iter().find(|m| m.kind == MessageKind::Steer).map(|m| m.text.as_str());
    let head = "[provost message of team \"limits\": instruction from boss, who interrupted you]";
    assert_eq!(said, Some(format!("{head}\ntry it so").as_str()));
    let again = desk.refused(&member("boss"), command(&call, "boss"));
    assert_eq!(again, Rejected::Nothing, "it leaves its turn already");
    bench.signal(OVER).signal(OVER);
    desk.sessions.insert(bench.session.id, bench.session.clone());
    let why = desk.refused(&member("boss"), command(&call, "boss"));
    assert_eq!(why.code(), "not_taken", "{why}");
    let own = Call::Interrupt { member: "boss".to_owned(), text: None };
    assert_eq!(desk.refused(&member("boss"), command(&own, "boss")).code(), "not_taken");
}

#[test]
fn whoever_has_a_check_run_is_told_once_what_came_of_it() {
    let (mut desk, _) = driven(task_spec());
    let no = desk.criterion(Needs::Verified { check: "test".to_owned() });
    desk.done(&member("hand"), Command::Check { what: Checked::Criterion(no) });
    let mut failed = receipt("tree", "test", CheckEnd::Exit(3));
    failed.tail = "two tests failed".to_owned();
    let done = Command::CheckDone { no: 1, receipt: Box::new(failed), compared: None };
    desk.done(&Actor::Provost, done.clone());
    assert_eq!(desk.refused(&Actor::Provost, done), Rejected::Nothing);
    let told: Vec<_> = desk.task.messages.iter().filter(|m| m.to.name() == "hand").collect();
    let [told] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((told.kind, told.trust, &told.from), (Kind::News, Trust::Claims, &Actor::Provost));
    assert!(told.text.contains("`test` exited with 3"), "{}", told.text);
    assert!(told.text.contains("two tests failed"), "{}", told.text);
}

#[test]
fn whoever_asks_for_a_finish_is_told_what_the_audit_found() {
    let checked = TaskSpec { checks: vec!["test".to_owned()], ..task_spec() };
    let (mut desk, mut bench) = driven(checked);
    let finish = || Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() };
    let end = |end, no| {
        let receipt = Box::new(receipt("tree", "test", end));
        Command::CheckDone { no, receipt, compared: None }
    };
    let refused = desk.done(&member("boss"), finish());
    let [Event::FinishRefused(refused)] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!(refused.blockers[0].code(), "member_working");
    bench.signal(OVER).signal(OVER);
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.done(&member("boss"), finish());
    desk.done(&Actor::Provost, end(CheckEnd::Exit(1), 1));
    let told: Vec<_> = desk.task.messages.iter().filter(|m| m.kind == Kind::News).collect();
    let [told] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(told.to.name(), "boss");
    assert!(told.text.contains("check_failed"), "{}", told.text);
    // A manager with a session is notified of the successful finish too, although the team is done by then.
    let (from, to) = ("hand".to_owned(), "idle".to_owned());
    let handover = "the worker goes on elsewhere".to_owned();
    desk.done(&Actor::Operator, Command::Rotate { from, to, session: None, handover });
    desk.bind("third", Role::Manager, Some(bench.session.id));
    desk.done(&member("third"), Command::AcknowledgeContract { revision: 0 });
    desk.done(&member("third"), finish());
    desk.done(&Actor::Provost, end(CheckEnd::Exit(0), 2));
    assert_eq!(desk.task.phase.word(), "done");
    let sent = &desk.sessions[&bench.session.id].messages;
    assert!(sent.iter().any(|sent| sent.text.contains("the team is done")), "{sent:?}");
}
