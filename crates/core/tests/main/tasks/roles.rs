//! Role permissions, enforced in the core for every channel.

use provost_core::task::{
    Action, Actor, Command, Config, Epilogue, Event, Judgement, Mode, MoveKind, Needs, Rejected,
    Role, Shown,
};

use super::kit::{A_REASON, Desk, attack, go_on, member, post, template};

fn because() -> String {
    A_REASON.to_owned()
}

fn configured(config: Config) -> Desk {
    let mut desk = Desk::paired();
    let config = Box::new(config);
    desk.done(&Actor::Operator, Command::Configure { config, expected: 0 });
    desk
}

#[test]
fn d14_d22_a_worker_ends_nothing_and_judges_nothing() {
    let mut desk = Desk::paired();
    desk.begin_loop(template(3));
    let no = desk.criterion(Needs::Asserted);
    for (command, action) in [
        (Command::StopLoop { because: because() }, Action::Loop),
        (Command::BeginLoop { template: Box::new(template(1)) }, Action::Loop),
        (go_on(2, "k"), Action::Continue),
        (Command::Finish { because: because(), allow: Vec::new() }, Action::End),
        (Command::Cancel { because: because() }, Action::End),
        (Command::Fail { because: because() }, Action::End),
        (Command::Pause { because: because() }, Action::End),
        (
            Command::Retire {
                name: "boss".to_owned(),
                because: because(),
                to: None,
                dead_letter: true,
            },
            Action::Bind,
        ),
        (Command::Judge { no, judgement: Judgement::Accept }, Action::Judge),
        (Command::Configure { config: Box::default(), expected: 0 }, Action::Configure),
        (Command::RecordMove { kind: MoveKind::Stop, because: because() }, Action::RecordMove),
        (Command::Bury { no: 1, reason: because() }, Action::Sort),
    ] {
        for (name, role) in [("hand", Role::Worker), ("eye", Role::Reviewer)] {
            let why = Rejected::NotForRole { role, action };
            assert_eq!(desk.refused(&member(name), command.clone()), why);
        }
    }
}

#[test]
fn whoever_is_not_bound_does_nothing() {
    let mut desk = Desk::paired();
    let why = Rejected::NoMember { who: "stranger".to_owned() };
    assert_eq!(desk.refused(&member("stranger"), post("hand", "a")), why);
    desk.done(
        &Actor::Operator,
        Command::Retire {
            name: "boss".to_owned(),
            because: because(),
            to: None,
            dead_letter: true,
        },
    );
    let why = Rejected::NoMember { who: "boss".to_owned() };
    assert_eq!(desk.refused(&member("boss"), post("hand", "a")), why);
}

#[test]
fn a_manager_does_not_write_its_own_contract() {
    let mut desk = Desk::paired();
    for (command, action) in [
        (Command::Configure { config: Box::default(), expected: 0 }, Action::Configure),
        (
            Command::Retire {
                name: "hand".to_owned(),
                because: because(),
                to: None,
                dead_letter: true,
            },
            Action::Bind,
        ),
    ] {
        let why = Rejected::NotForRole { role: Role::Manager, action };
        assert_eq!(desk.refused(&member("boss"), command), why);
    }
}

#[test]
fn what_is_denied_is_denied_on_every_way() {
    let denied = [Action::Message].into();
    let mut desk = configured(Config { denied, ..Config::default() });
    let why = Rejected::NotGranted(Action::Message);
    assert_eq!(desk.refused(&member("boss"), post("hand", "a")), why);
    assert_eq!(desk.refused(&Actor::Policy, post("hand", "a")), why);
    desk.post(&Actor::Operator, "hand", "a person is no manager");
}

#[test]
fn a_changed_contract_is_read_before_anything_is_done() {
    let mut desk = configured(Config::default());
    assert_eq!(desk.refused(&member("boss"), post("hand", "a")), Rejected::NotAcknowledged(1));
    let stale = Command::AcknowledgeContract { revision: 0 };
    let why = Rejected::Revision { now: 1, given: 0 };
    assert_eq!(desk.refused(&member("boss"), stale), why);
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 1 });
    desk.post(&member("boss"), "hand", "a");
}

#[test]
fn two_who_change_the_contract_do_not_overwrite_each_other() {
    let mut desk = configured(Config::default());
    let late = Command::Configure { config: Box::default(), expected: 0 };
    let why = Rejected::Revision { now: 1, given: 0 };
    assert_eq!(desk.refused(&Actor::Operator, late), why);
}

#[test]
fn a_light_manager_needs_neither_contract_nor_move() {
    let mut desk = configured(Config { mode: Mode::Light, ..Config::default() });
    desk.post(&member("boss"), "hand", "a");
}

#[test]
fn a_strict_manager_says_first_what_it_will_do_and_does_that_once() {
    let mut desk = configured(Config { mode: Mode::Strict, ..Config::default() });
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 1 });
    let why = Rejected::NoMove(&[MoveKind::Nudge]);
    assert_eq!(desk.refused(&member("boss"), post("hand", "a")), why);
    let record = |kind| Command::RecordMove { kind, because: because() };
    desk.done(&member("boss"), record(MoveKind::Wait));
    assert_eq!(desk.refused(&member("boss"), post("hand", "a")), why, "it said otherwise");
    desk.done(&member("boss"), record(MoveKind::Nudge));
    desk.post(&member("boss"), "hand", "a");
    assert_eq!(desk.refused(&member("boss"), post("hand", "b")), why, "one move allows one action");
    desk.done(
        &member("boss"),
        Command::Propose {
            text: "what only proposes needs no move".to_owned(),
            rationale: None,
            needs: Needs::Asserted,
        },
    );
}

#[test]
fn a_refused_continuation_uses_up_no_move() {
    let mut desk = configured(Config { mode: Mode::Strict, ..Config::default() });
    desk.begin_loop(template(3));
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 1 });
    let record = Command::RecordMove { kind: MoveKind::Nudge, because: because() };
    desk.done(&member("boss"), record);
    desk.continues(2).expect_err("its evidence is missing");
    desk.show_all("one");
    desk.continues(2).expect("the move is still there");
}

#[test]
fn every_action_is_open_to_somebody_or_to_the_operator_alone() {
    let alone: Vec<Action> = Action::ALL
        .into_iter()
        .filter(|action| !Role::ALL.into_iter().any(|role| action.is_open_to(role)))
        .collect();
    assert_eq!(alone, [Action::Bind, Action::Configure]);
}

#[test]
fn the_end_of_a_task_is_the_last_that_happens_to_it_also_under_a_move() {
    let mut desk = configured(Config { mode: Mode::Strict, ..Config::default() });
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 1 });
    desk.prove();
    let record = Command::RecordMove { kind: MoveKind::Stop, because: because() };
    desk.done(&member("boss"), record);
    let finish = Command::Finish { because: because(), allow: Vec::new() };
    let events = desk.done(&member("boss"), finish.clone());
    let ends = matches!(events.last(), Some(Event::PhaseChanged(e)) if e.phase.is_over());
    assert!(ends, "{events:?}");
    assert!(events.iter().any(|event| matches!(event, Event::MoveUsed(_))), "{events:?}");
    assert_eq!(desk.done(&member("boss"), finish), [], "it is done, and stays as it is");
}

#[test]
fn a_strict_manager_begins_a_loop_without_deciding_to_stop() {
    let mut desk = configured(Config { mode: Mode::Strict, ..Config::default() });
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 1 });
    desk.done(&member("boss"), Command::BeginLoop { template: Box::new(template(2)) });
    let why = Rejected::NoMove(&[MoveKind::Stop]);
    let stop = Command::StopLoop { because: because() };
    assert_eq!(desk.refused(&member("boss"), stop.clone()), why, "to stop one is to stop");
    let record = Command::RecordMove { kind: MoveKind::Stop, because: because() };
    desk.done(&member("boss"), record.clone());
    desk.done(&member("boss"), stop);
    // Starting a loop revokes the recorded stop.
    desk.done(&member("boss"), record);
    desk.done(&member("boss"), Command::BeginLoop { template: Box::new(template(2)) });
    let finish = Command::Finish { because: because(), allow: Vec::new() };
    assert_eq!(desk.refused(&member("boss"), finish), why);
}

#[test]
fn a_separate_review_is_the_word_of_somebody_else_than_who_did_or_led_the_work() {
    let evidence = || "read line by line, two remarks".to_owned();
    let step = |step| Command::DoEpilogue { step, evidence: evidence() };
    let mut desk = Desk::paired();
    for by in [member("hand"), member("boss"), Actor::Operator] {
        let why = desk.refused(&by, step(Epilogue::SeparateReview));
        assert_eq!(why.code(), "not_for_role", "{by:?}");
    }
    for other in [Epilogue::DraftPullRequest, Epilogue::Handover] {
        for by in ["hand", "eye"] {
            assert_eq!(desk.refused(&member(by), step(other)).code(), "not_for_role", "{by}");
        }
        desk.done(&member("boss"), step(other));
    }
    desk.done(&member("eye"), step(Epilogue::SeparateReview));
    let mut desk = Desk::paired();
    desk.done(
        &Actor::Operator,
        Command::Retire { name: "eye".to_owned(), because: because(), to: None, dead_letter: true },
    );
    assert_eq!(
        desk.refused(&member("hand"), step(Epilogue::SeparateReview)).code(),
        "not_for_role"
    );
    desk.done(&member("boss"), step(Epilogue::SeparateReview));
}

#[test]
fn who_did_the_work_does_not_say_that_it_was_attacked() {
    let whole = || Command::AttackWork { attack: attack() };
    let shown = || Command::Show {
        iteration: 1,
        name: "attack".to_owned(),
        shown: Shown::Attack(attack()),
    };
    let mut desk = Desk::paired();
    desk.begin_loop(template(2));
    for command in [whole(), shown()] {
        assert_eq!(desk.refused(&member("hand"), command).code(), "not_for_role");
    }
    for by in ["boss", "eye"] {
        desk.done(&member(by), whole());
        desk.done(&member(by), shown());
    }
    // Without a reviewer, a worker may challenge its own iterations, but never the whole work.
    desk.done(
        &Actor::Operator,
        Command::Retire { name: "eye".to_owned(), because: because(), to: None, dead_letter: true },
    );
    desk.done(&member("hand"), shown());
    assert_eq!(desk.refused(&member("hand"), whole()).code(), "not_for_role");
}
