//! Replies must match the request: its question ids, and a decision for approvals or an answer for questions.

use std::collections::BTreeMap;

use provost_core::request::{Asked, Choice, Misfit, Question, Reply, RequestKind, Scope, Waiting};

fn asked(kind: RequestKind, ids: &[&str]) -> Asked {
    let question = |id: &&str| Question {
        id: (*id).to_owned(),
        header: String::new(),
        question: String::new(),
        options: Vec::new(),
        only_options: false,
        secret: false,
    };
    Asked {
        native: "q".to_owned(),
        kind,
        waiting: Waiting::Blocking,
        title: String::new(),
        questions: ids.iter().map(question).collect(),
        subject: None,
    }
}

fn answers(ids: &[(&str, &[&str])]) -> Reply {
    let one = |(id, given): &(&str, &[&str])| {
        ((*id).to_owned(), given.iter().map(|text| (*text).to_owned()).collect())
    };
    Reply::Answers(ids.iter().map(one).collect::<BTreeMap<_, _>>())
}

#[test]
fn r02_answers_are_for_exactly_the_ids_that_were_asked() {
    let two = asked(RequestKind::Question, &["a", "b"]);
    assert_eq!(two.check(&answers(&[("a", &["1"]), ("b", &["2", "3"])])), Ok(()));
    let misfit = two.check(&answers(&[("a", &["1"]), ("c", &["2"])])).unwrap_err();
    let message = misfit.to_string();
    for part in ["a, b", "missing: b", "unknown: c"] {
        assert!(message.contains(part), "{message}");
    }
    let empty = two.check(&answers(&[("a", &[]), ("b", &["2"])]));
    assert_eq!(empty, Err(Misfit::Empty("a".to_owned())));
}

#[test]
fn r03_a_single_question_takes_any_text_and_several_do_not() {
    let text = Reply::Text("{\"answers\": not json".to_owned());
    assert_eq!(asked(RequestKind::Question, &["a"]).check(&text), Ok(()));
    assert_eq!(asked(RequestKind::Question, &[]).check(&text), Ok(()));
    let several = asked(RequestKind::Question, &["a", "b"]).check(&text);
    assert_eq!(several, Err(Misfit::WantsAnswers(vec!["a".to_owned(), "b".to_owned()])));
}

#[test]
fn approvals_are_decided_and_questions_are_answered() {
    let approval = asked(RequestKind::Approval, &[]);
    for reply in [Reply::Approve(Scope::Once), Reply::Approve(Scope::Session), Reply::Deny] {
        assert_eq!(approval.check(&reply), Ok(()));
        let question = asked(RequestKind::Question, &["a"]);
        assert_eq!(question.check(&reply), Err(Misfit::WantsAnswer));
    }
    assert_eq!(approval.check(&Reply::Text("yes".to_owned())), Err(Misfit::WantsDecision));
}

#[test]
fn a_dialog_can_be_declined_and_not_approved() {
    let dialog = asked(RequestKind::Dialog, &["a"]);
    assert_eq!(dialog.check(&Reply::Deny), Ok(()));
    assert_eq!(dialog.check(&Reply::Approve(Scope::Once)), Err(Misfit::WantsAnswer));
}

#[test]
fn what_is_not_offered_is_refused_only_where_nothing_else_is_taken() {
    let text = |text: &str| Reply::Text(text.to_owned());
    let mut one = asked(RequestKind::Question, &["a"]);
    let choice = |label: &str| Choice { label: label.to_owned(), description: String::new() };
    one.questions[0].options = vec![choice("red"), choice("blue")];
    assert_eq!(
        one.check(&text("green")),
        Ok(()),
        "any text is accepted unless the options are exclusive"
    );
    one.questions[0].only_options = true;
    assert_eq!(one.check(&text("blue")), Ok(()));
    let refused = one.check(&text("green")).unwrap_err();
    assert_eq!(refused.to_string(), "the answer for a must be one of these: red | blue");
    assert_eq!(one.check(&answers(&[("a", &["red", "blue"])])), Ok(()));
    assert_eq!(one.check(&answers(&[("a", &["red", "green"])])), Err(refused));
    assert!(matches!(one.check(&answers(&[])), Err(Misfit::Ids { .. })));
    let stored = serde_json::to_value(&one.questions[0]).unwrap();
    assert_eq!(stored["only_options"], true);
    let old = serde_json::json!({"id": "a", "options": [{"label": "red"}]});
    let old: Question = serde_json::from_value(old).unwrap();
    assert!(!old.only_options, "as it was kept before");
    assert_eq!(serde_json::to_value(old).unwrap().get("only_options"), None);
}
