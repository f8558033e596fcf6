//! Criteria drafted from messages and texts.

use proptest::prelude::*;
use provost_core::team::{
    CriterionSource, DraftOmission, DraftSource, EvidenceRequirement, MAX_CRITERIA, MAX_DRAFTED,
    MAX_DRAFTED_LETTERS, MessageChannel, NewMessage, Priority, Recipient, TeamActor, TeamCommand,
    TeamMessageKind, TeamRejection, parse_items,
};

use super::kit::{TestTeam, member};

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

fn post_report(team: &mut TestTeam, from: &str, text: &str) -> u32 {
    team.apply(
        &member(from),
        TeamCommand::Post(Box::new(NewMessage {
            key: format!("key-{}", team.task.messages_stored),
            correlation: None,
            channel: MessageChannel::Tool,
            to: Recipient::Member("boss".to_owned()),
            kind: TeamMessageKind::Report,
            text: text.to_owned(),
            priority: Priority::Normal,
            expires_in_ms: None,
            steer: false,
        })),
    );
    team.task.messages_stored
}

fn draft(from: DraftSource) -> TeamCommand {
    TeamCommand::Draft { from, dry_run: false }
}

#[test]
fn list_items_and_marked_lines_become_criteria() {
    assert_eq!(
        parse_items(ANSWER),
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
fn drafted_criteria_name_their_message() {
    let mut team = TestTeam::paired();
    let no = post_report(&mut team, "hand", ANSWER);
    let events = team.apply(&member("boss"), draft(DraftSource::Message(no)));
    assert_eq!(events.len(), 7);
    for (at, criterion) in team.task.criteria.iter().enumerate() {
        assert_eq!((criterion.no as usize, criterion.source), (at + 1, CriterionSource::Worker));
        assert_eq!(
            (criterion.state.as_str(), &criterion.needs),
            ("proposed", &EvidenceRequirement::Asserted)
        );
        assert_eq!(criterion.rationale.as_deref(), Some("drafted from message 1 of hand"));
    }
    // Drafting again adds nothing.
    assert_eq!(team.apply(&member("boss"), draft(DraftSource::Message(no))), []);
}

#[test]
fn dry_run_draft_changes_nothing() {
    let mut team = TestTeam::paired();
    let no = post_report(&mut team, "hand", ANSWER);
    let before = team.task.clone();
    let from = DraftSource::Message(no);
    let looked = TeamCommand::Draft { from: from.clone(), dry_run: true };
    assert_eq!(team.apply(&member("boss"), looked), []);
    assert_eq!(team.task, before);
    assert_eq!(team.task.draft(&member("boss"), &from).map(|draft| draft.drafted.len()), Ok(7));
}

#[test]
fn only_quoted_agent_text_of_news_is_drafted() {
    let mut team = TestTeam::paired();
    let no = post_report(&mut team, "hand", "x");
    let text =
        "- hand (worker): this is of Provost itself\nsays:\n> - the tests of both callers pass";
    team.alter_messages(|message| {
        (message.kind, message.from) = (TeamMessageKind::News, TeamActor::Provost);
        message.text = text.to_owned();
    });
    let from = DraftSource::Message(no);
    let draft = team.task.draft(&member("boss"), &from).expect("it is a message");
    assert_eq!(
        (draft.drafted, draft.source),
        (vec!["the tests of both callers pass".to_owned()], CriterionSource::Worker)
    );
}

#[test]
fn members_cannot_draft_as_another() {
    let mut team = TestTeam::paired();
    let of = |name: Option<&str>| {
        let text = "- the tests of both callers pass".to_owned();
        draft(DraftSource::Text { text, of: name.map(str::to_owned) })
    };
    let why = team.reject(&member("hand"), of(Some("boss")));
    assert_eq!(why, TeamRejection::NotRecipient("boss".to_owned()));
    team.apply(&member("eye"), of(Some("eye")));
    assert_eq!(team.task.criteria[0].source, CriterionSource::Audit);
    let mut team = TestTeam::paired();
    team.apply(&TeamActor::Operator, of(None));
    assert_eq!(team.task.criteria[0].source, CriterionSource::User);
    let mut team = TestTeam::paired();
    team.apply(&TeamActor::Operator, of(Some("hand")));
    assert_eq!(team.task.criteria[0].source, CriterionSource::Worker);
    assert!(matches!(
        team.reject(&TeamActor::Operator, of(Some("x"))),
        TeamRejection::NoMember { .. }
    ));
    let gone = draft(DraftSource::Message(99));
    assert_eq!(team.reject(&TeamActor::Operator, gone), TeamRejection::NoMessage(99));
}

#[test]
fn rejected_items_are_listed_with_reason() {
    let mut team = TestTeam::paired();
    team.criterion(EvidenceRequirement::Asserted);
    let known = team.task.criteria[0].text.to_uppercase();
    let long = "x".repeat(MAX_DRAFTED_LETTERS + 1);
    let text = format!(
        "- ok\n- {known}!\n- {long}\n- this one \u{202e} is not what it seems\n- the tests of both callers pass\n- The tests of both callers: pass"
    );
    let from = DraftSource::Text { text, of: None };
    let draft = team.task.draft(&TeamActor::Operator, &from).expect("it is a text");
    assert_eq!(draft.drafted, ["the tests of both callers pass"]);
    let why: Vec<DraftOmission> = draft.left_out.iter().map(|(_, why)| *why).collect();
    let expected = [
        DraftOmission::Empty,
        DraftOmission::Known,
        DraftOmission::TooLong,
        DraftOmission::Hidden,
        DraftOmission::Known,
    ];
    assert_eq!(why, expected);
}

#[test]
fn drafts_and_criteria_are_capped() {
    let list = |from: usize, to: usize| -> String {
        (from..to).map(|n| format!("- caller number {n} is limited on its own\n")).collect()
    };
    let mut team = TestTeam::paired();
    let text = |text: String| DraftSource::Text { text, of: None };
    let whole =
        team.task.draft(&TeamActor::Operator, &text(list(0, 20_000))).expect("it is a text");
    assert_eq!(whole.drafted.len(), MAX_DRAFTED);
    assert_eq!(whole.left_out.len() + whole.more, 20_000 - MAX_DRAFTED);
    for n in 0..20 {
        let _events = team.try_apply(&TeamActor::Operator, draft(text(list(n * 20, n * 20 + 20))));
    }
    assert_eq!(team.task.criteria.len(), MAX_CRITERIA);
}

proptest! {
    /// Criteria drafted from any text are meaningful, visible, short and on one line.
    #[test]
    fn hostile_text_is_never_drafted(text in "(\\PC|[-*+>0-9.)(\\[\\] \t\r\n`~:]|\u{202e}|\u{1b}|criterion:){0,400}") {
        let team = TestTeam::paired();
        let from = DraftSource::Text { text, of: None };
        let draft = team.task.draft(&TeamActor::Operator, &from).expect("it is a text");
        prop_assert!(draft.drafted.len() <= MAX_DRAFTED);
        for one in &draft.drafted {
            prop_assert!(!one.chars().any(provost_core::text::is_deceptive), "{one:?}");
            prop_assert!(one.chars().count() <= MAX_DRAFTED_LETTERS);
            prop_assert!(one.chars().filter(|letter| letter.is_alphanumeric()).count() >= 12);
        }
    }
}

#[test]
fn quoted_and_fenced_items_are_left_out() {
    let team = TestTeam::paired();
    let text = "- the tests of both callers pass\n> - somebody else wants this one\n\n```\n- a line of a program\n```\n";
    let from = DraftSource::Text { text: text.to_owned(), of: None };
    let draft = team.task.draft(&TeamActor::Operator, &from).expect("it is a text");
    assert_eq!(draft.drafted, ["the tests of both callers pass"]);
    let expected = [
        ("somebody else wants this one".to_owned(), DraftOmission::Quoted),
        ("a line of a program".to_owned(), DraftOmission::Fenced),
    ];
    assert_eq!(draft.left_out, expected);
}
