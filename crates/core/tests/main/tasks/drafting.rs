//! Criteria drafted from messages and texts.

use proptest::prelude::*;
use provost_core::task::{
    Actor, Address, Channel, Command, DraftFrom, Kind, LeftOut, MAX_CRITERIA, MAX_DRAFTED,
    MAX_DRAFTED_LETTERS, Needs, Post, Priority, Rejected, Source, items,
};

use super::kit::{Desk, member};

const ANSWER: &str = "\
I looked at it. Before it is done:

- Both callers are limited on their own
* [ ] An answer says how long to wait,
  in whole seconds
1. **The tests** of both callers pass
2) No caller is told of another
(3) The limit can be changed without a restart
Criterion: nothing is written to the disk for each call
**Acceptance criteria:**
+ criterion 7: a clock that is set back does no harm

In 2024. this was otherwise
-not an item, and neither is
--option
> - what somebody else wrote is not mine
```
- this is code and no list at all
```
1234. neither is a year that begins a line
";

fn said(desk: &mut Desk, from: &str, text: &str) -> u32 {
    desk.done(
        &member(from),
        Command::Post(Box::new(Post {
            key: format!("key-{}", desk.task.messages_stored),
            correlation: None,
            channel: Channel::Tool,
            to: Address::Member("boss".to_owned()),
            kind: Kind::Report,
            text: text.to_owned(),
            priority: Priority::Normal,
            expires_in_ms: None,
            steer: false,
        })),
    );
    desk.task.messages_stored
}

fn draft(from: DraftFrom) -> Command {
    Command::Draft { from, dry_run: false }
}

#[test]
fn items_of_lists_and_lines_that_say_so_are_criteria_and_nothing_else_is() {
    assert_eq!(
        items(ANSWER),
        [
            "Both callers are limited on their own",
            "An answer says how long to wait, in whole seconds",
            "The tests of both callers pass",
            "No caller is told of another",
            "The limit can be changed without a restart",
            "nothing is written to the disk for each call",
            "a clock that is set back does no harm",
        ]
    );
}

#[test]
fn what_a_worker_listed_is_proposed_with_its_message_as_the_reason() {
    let mut desk = Desk::paired();
    let no = said(&mut desk, "hand", ANSWER);
    let events = desk.done(&member("boss"), draft(DraftFrom::Message(no)));
    assert_eq!(events.len(), 7);
    for (at, criterion) in desk.task.criteria.iter().enumerate() {
        assert_eq!((criterion.no as usize, criterion.source), (at + 1, Source::Worker));
        assert_eq!((criterion.state.word(), &criterion.needs), ("proposed", &Needs::Asserted));
        assert_eq!(criterion.rationale.as_deref(), Some("drafted from message 1 of hand"));
    }
    // Drafting again adds nothing.
    assert_eq!(desk.done(&member("boss"), draft(DraftFrom::Message(no))), []);
}

#[test]
fn a_draft_that_is_only_looked_at_changes_nothing() {
    let mut desk = Desk::paired();
    let no = said(&mut desk, "hand", ANSWER);
    let before = desk.task.clone();
    let from = DraftFrom::Message(no);
    let looked = Command::Draft { from: from.clone(), dry_run: true };
    assert_eq!(desk.done(&member("boss"), looked), []);
    assert_eq!(desk.task, before);
    assert_eq!(desk.task.draft(&member("boss"), &from).map(|draft| draft.drafted.len()), Ok(7));
}

#[test]
fn of_news_only_what_the_agent_says_is_drafted() {
    let mut desk = Desk::paired();
    let no = said(&mut desk, "hand", "x");
    let text =
        "- hand (worker): this is of Provost itself\nsays:\n> - the tests of both callers pass";
    desk.alter_messages(|message| {
        (message.kind, message.from) = (Kind::News, Actor::Provost);
        message.text = text.to_owned();
    });
    let from = DraftFrom::Message(no);
    let draft = desk.task.draft(&member("boss"), &from).expect("it is a message");
    assert_eq!(
        (draft.drafted, draft.source),
        (vec!["the tests of both callers pass".to_owned()], Source::Worker)
    );
}

#[test]
fn nobody_who_works_says_whose_words_others_are() {
    let mut desk = Desk::paired();
    let of = |name: Option<&str>| {
        let text = "- the tests of both callers pass".to_owned();
        draft(DraftFrom::Text { text, of: name.map(str::to_owned) })
    };
    let why = desk.refused(&member("hand"), of(Some("boss")));
    assert_eq!(why, Rejected::NotYours("boss".to_owned()));
    desk.done(&member("eye"), of(Some("eye")));
    assert_eq!(desk.task.criteria[0].source, Source::Audit);
    let mut desk = Desk::paired();
    desk.done(&Actor::Operator, of(None));
    assert_eq!(desk.task.criteria[0].source, Source::User);
    let mut desk = Desk::paired();
    desk.done(&Actor::Operator, of(Some("hand")));
    assert_eq!(desk.task.criteria[0].source, Source::Worker);
    assert!(matches!(desk.refused(&Actor::Operator, of(Some("x"))), Rejected::NoMember { .. }));
    let gone = draft(DraftFrom::Message(99));
    assert_eq!(desk.refused(&Actor::Operator, gone), Rejected::NoMessage(99));
}

#[test]
fn what_is_no_criterion_is_left_out_with_its_reason() {
    let mut desk = Desk::paired();
    desk.criterion(Needs::Asserted);
    let known = desk.task.criteria[0].text.to_uppercase();
    let long = "x".repeat(MAX_DRAFTED_LETTERS + 1);
    let text = format!(
        "- ok\n- {known}!\n- {long}\n- this one \u{202e} is not what it seems\n- the tests of both callers pass\n- The tests of both callers: pass"
    );
    let from = DraftFrom::Text { text, of: None };
    let draft = desk.task.draft(&Actor::Operator, &from).expect("it is a text");
    assert_eq!(draft.drafted, ["the tests of both callers pass"]);
    let why: Vec<LeftOut> = draft.left_out.iter().map(|(_, why)| *why).collect();
    let expected =
        [LeftOut::SaysNothing, LeftOut::Known, LeftOut::TooLong, LeftOut::Hidden, LeftOut::Known];
    assert_eq!(why, expected);
}

#[test]
fn a_text_gives_so_many_and_a_task_has_so_many() {
    let list = |from: usize, to: usize| -> String {
        (from..to).map(|n| format!("- caller number {n} is limited on its own\n")).collect()
    };
    let mut desk = Desk::paired();
    let text = |text: String| DraftFrom::Text { text, of: None };
    let whole = desk.task.draft(&Actor::Operator, &text(list(0, 20_000))).expect("it is a text");
    assert_eq!(whole.drafted.len(), MAX_DRAFTED);
    assert_eq!(whole.left_out.len() + whole.more, 20_000 - MAX_DRAFTED);
    for n in 0..20 {
        let _events = desk.does(&Actor::Operator, draft(text(list(n * 20, n * 20 + 20))));
    }
    assert_eq!(desk.task.criteria.len(), MAX_CRITERIA);
}

proptest! {
    /// Criteria drafted from any text are meaningful, visible, short and on one line.
    #[test]
    fn nothing_hostile_is_drafted(text in "(\\PC|[-*+>0-9.)(\\[\\] \t\r\n`~:]|\u{202e}|\u{1b}|criterion:){0,400}") {
        let desk = Desk::paired();
        let from = DraftFrom::Text { text, of: None };
        let draft = desk.task.draft(&Actor::Operator, &from).expect("it is a text");
        prop_assert!(draft.drafted.len() <= MAX_DRAFTED);
        for one in &draft.drafted {
            prop_assert!(!one.chars().any(provost_core::text::is_deceptive), "{one:?}");
            prop_assert!(one.chars().count() <= MAX_DRAFTED_LETTERS);
            prop_assert!(one.chars().filter(|letter| letter.is_alphanumeric()).count() >= 12);
        }
    }
}

#[test]
fn what_is_quoted_or_fenced_is_left_out_and_said_to_be() {
    let desk = Desk::paired();
    let text = "- the tests of both callers pass\n> - somebody else wants this one\n\n```\n- a line of a program\n```\n";
    let from = DraftFrom::Text { text: text.to_owned(), of: None };
    let draft = desk.task.draft(&Actor::Operator, &from).expect("it is a text");
    assert_eq!(draft.drafted, ["the tests of both callers pass"]);
    let expected = [
        ("somebody else wants this one".to_owned(), LeftOut::Quoted),
        ("a line of a program".to_owned(), LeftOut::Fenced),
    ];
    assert_eq!(draft.left_out, expected);
}
