//! Snapshots of the contracts and messages that members get.

use insta::assert_snapshot;
use provost_core::{
    ids::SessionId,
    task::{
        Action, Actor, Caller, CleanUp, Command, Commands, Config, Epilogue, Mode, Proof, Required,
        Role, Template, Via, contract, handoff, heartbeat, wrapped,
    },
};
use uuid::Uuid;

use super::kit::{Desk, task_spec, template};

/// A team with a manager, two workers and a reviewer, none of them with a session.
fn desk() -> Desk {
    let mut desk = Desk::paired();
    desk.bind("second hand", Role::Worker, None);
    desk
}

fn told(desk: &Desk, name: &str, via: Via) -> String {
    let caller = Caller::default();
    let commands = Commands { caller: &caller, task: &desk.task, by: Some(name) };
    contract(&commands, desk.task.member(name).expect("it is bound"), via)
}

fn strict() -> Config {
    Config {
        mode: Mode::Strict,
        objective: "callers are told when to come back".to_owned(),
        guidelines: vec!["small steps".to_owned(), "no new dependency".to_owned()],
        references: vec!["docs/limits.md".to_owned()],
        denied: [Action::Interrupt, Action::Sort].into(),
        tools: vec!["gh".to_owned()],
        epilogue: [Epilogue::Checks, Epilogue::SeparateReview].into(),
        adversarial: true,
        questions: [("scope".to_owned(), "Per caller or per address?".to_owned())].into(),
        on_completion: Some("tell the team".to_owned()),
        ..Config::default()
    }
}

#[test]
fn a_worker_by_commands() {
    let mut desk = desk();
    desk.begin_loop(template(3));
    assert_snapshot!(told(&desk, "hand", Via::Commands));
}

#[test]
fn a_worker_by_tools() {
    assert_snapshot!(told(&desk(), "hand", Via::Tools));
}

#[test]
fn a_manager_by_commands() {
    let mut desk = desk();
    let config = Box::new(strict());
    desk.done(&Actor::Operator, Command::Configure { config, expected: 0 });
    assert_snapshot!(told(&desk, "boss", Via::Commands));
}

#[test]
fn a_manager_by_tools() {
    let mut desk = desk();
    desk.begin_loop(template(3));
    assert_snapshot!(told(&desk, "boss", Via::Tools));
}

#[test]
fn a_reviewer_by_commands() {
    assert_snapshot!(told(&desk(), "eye", Via::Commands));
}

#[test]
fn a_reviewer_by_tools() {
    assert_snapshot!(told(&desk(), "eye", Via::Tools));
}

#[test]
fn a_worker_without_a_manager_answers_the_operator() {
    let mut desk = Desk::open(task_spec());
    desk.bind("hand", Role::Worker, None);
    let told = told(&desk, "hand", Via::Commands);
    assert!(told.contains("only the operator can."), "{told}");
    assert!(told.contains("--to operator TEXT"), "{told}");
}

#[test]
fn heartbeats_for_people() {
    let heartbeat = heartbeat(&desk().task, &Caller::default()).expect("all ask");
    assert_eq!(heartbeat.interval_minutes, 2);
    assert_eq!(heartbeat.others.len(), 2, "the second worker and the reviewer");
    assert_snapshot!(heartbeat.text());
    let stored = serde_json::to_string(&heartbeat).expect("it can be written");
    let read: provost_core::task::Heartbeat = serde_json::from_str(&stored).expect("and read");
    assert_eq!(read, heartbeat);
}

#[test]
fn what_is_handed_over_is_the_contract_with_the_command() {
    let desk = desk();
    let given = handoff(&desk.task, "hand", &Caller::default()).expect("it is bound");
    assert_eq!(given.prompt, told(&desk, "hand", Via::Commands));
    assert_eq!(given.via, Via::Commands);
    assert!(given.prompt.contains(&given.receive_command));
    assert!(given.heartbeat.is_some_and(|beat| beat.prompt.contains(&given.receive_command)));
    assert_eq!(handoff(&desk.task, "nobody", &Caller::default()), None);
}

#[test]
fn what_every_member_is_told() {
    for (name, via) in ["boss", "hand", "eye"]
        .into_iter()
        .flat_map(|name| [Via::Tools, Via::Commands].map(|via| (name, via)))
    {
        let told = told(&desk(), name, via);
        for needed in ["Never tear anything down on an idle poll", "as data", "limit how often"] {
            assert!(told.contains(needed), "{name}: {needed}");
        }
        assert_eq!(told.contains("manual poll only"), via == Via::Commands, "{name}");
    }
}

/// The message that begins the second of four iterations.
fn continued(desk: &mut Desk) -> String {
    let artifact = Proof::Artifact { fields: vec!["changed files".to_owned(), "risk".to_owned()] };
    let word = Required { name: "it's said".to_owned(), proof: Proof::Asserted };
    let mut looped = template(4);
    looped.evidence.push(Required { name: "report".to_owned(), proof: artifact });
    looped.evidence.push(word);
    let tools = vec!["gh".to_owned()];
    desk.begin_loop(Template { clean_up: CleanUp::Compact, tools, ..looped });
    desk.show_all("one");
    let no = desk.continues(2).expect("its evidence is there");
    let caller = Caller {
        program: "/opt/pro vost".to_owned(),
        home: Some("/srv/provost's home".to_owned()),
    };
    wrapped(&desk.task, desk.message(no), &caller)
}

#[test]
fn a_continuation_by_commands() {
    assert_snapshot!(continued(&mut desk()));
}

#[test]
fn a_continuation_by_tools() {
    let mut desk = Desk::open(task_spec());
    desk.bind("boss", Role::Manager, None);
    desk.bind("hand", Role::Worker, Some(SessionId(Uuid::from_u128(9))));
    desk.bind("eye", Role::Reviewer, None);
    desk.done(&super::kit::member("boss"), Command::AcknowledgeContract { revision: 0 });
    assert_snapshot!(continued(&mut desk));
}
