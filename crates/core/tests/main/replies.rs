//! Replies must match the request: its question ids, and a decision for approvals or an answer for questions.

use std::collections::BTreeMap;

use provost_core::request::{
    AgentRequest, AnswerOption, ApprovalScope, BlockingMode, ReplyError, RequestKind,
    RequestQuestion, RequestReply,
};

fn request_with_ids(kind: RequestKind, ids: &[&str]) -> AgentRequest {
    let question = |id: &&str| RequestQuestion {
        id: (*id).to_owned(),
        header: String::new(),
        question: String::new(),
        options: Vec::new(),
        only_options: false,
        secret: false,
    };
    AgentRequest {
        native: "q".to_owned(),
        kind,
        waiting: BlockingMode::Blocking,
        title: String::new(),
        questions: ids.iter().map(question).collect(),
        subject: None,
    }
}

fn answers(ids: &[(&str, &[&str])]) -> RequestReply {
    let one = |(id, given): &(&str, &[&str])| {
        ((*id).to_owned(), given.iter().map(|text| (*text).to_owned()).collect())
    };
    RequestReply::Answers(ids.iter().map(one).collect::<BTreeMap<_, _>>())
}

#[test]
fn r02_answer_ids_must_match_question_ids() {
    let two = request_with_ids(RequestKind::Question, &["a", "b"]);
    assert_eq!(two.check_reply(&answers(&[("a", &["1"]), ("b", &["2", "3"])])), Ok(()));
    let misfit = two.check_reply(&answers(&[("a", &["1"]), ("c", &["2"])])).unwrap_err();
    let message = misfit.to_string();
    for part in ["a, b", "missing: b", "unknown: c"] {
        assert!(message.contains(part), "{message}");
    }
    let empty = two.check_reply(&answers(&[("a", &[]), ("b", &["2"])]));
    assert_eq!(empty, Err(ReplyError::Empty("a".to_owned())));
}

#[test]
fn r03_plain_text_answers_only_a_single_question() {
    let text = RequestReply::Text("{\"answers\": not json".to_owned());
    assert_eq!(request_with_ids(RequestKind::Question, &["a"]).check_reply(&text), Ok(()));
    assert_eq!(request_with_ids(RequestKind::Question, &[]).check_reply(&text), Ok(()));
    let several = request_with_ids(RequestKind::Question, &["a", "b"]).check_reply(&text);
    assert_eq!(several, Err(ReplyError::WantsAnswers(vec!["a".to_owned(), "b".to_owned()])));
}

#[test]
fn approvals_take_decisions_questions_take_answers() {
    let approval = request_with_ids(RequestKind::Approval, &[]);
    for reply in [
        RequestReply::Approve(ApprovalScope::Once),
        RequestReply::Approve(ApprovalScope::Session),
        RequestReply::Deny,
    ] {
        assert_eq!(approval.check_reply(&reply), Ok(()));
        let question = request_with_ids(RequestKind::Question, &["a"]);
        assert_eq!(question.check_reply(&reply), Err(ReplyError::WantsAnswer));
    }
    assert_eq!(
        approval.check_reply(&RequestReply::Text("yes".to_owned())),
        Err(ReplyError::WantsDecision)
    );
}

#[test]
fn dialog_can_be_denied_but_not_approved() {
    let dialog = request_with_ids(RequestKind::Dialog, &["a"]);
    assert_eq!(dialog.check_reply(&RequestReply::Deny), Ok(()));
    assert_eq!(
        dialog.check_reply(&RequestReply::Approve(ApprovalScope::Once)),
        Err(ReplyError::WantsAnswer)
    );
}

#[test]
fn unlisted_option_is_rejected_only_if_exclusive() {
    let text = |text: &str| RequestReply::Text(text.to_owned());
    let mut one = request_with_ids(RequestKind::Question, &["a"]);
    let choice = |label: &str| AnswerOption { label: label.to_owned(), description: String::new() };
    one.questions[0].options = vec![choice("red"), choice("blue")];
    assert_eq!(
        one.check_reply(&text("green")),
        Ok(()),
        "any text is accepted unless the options are exclusive"
    );
    one.questions[0].only_options = true;
    assert_eq!(one.check_reply(&text("blue")), Ok(()));
    let refused = one.check_reply(&text("green")).unwrap_err();
    assert_eq!(refused.to_string(), "the answer for a must be one of these: red | blue");
    assert_eq!(one.check_reply(&answers(&[("a", &["red", "blue"])])), Ok(()));
    assert_eq!(one.check_reply(&answers(&[("a", &["red", "green"])])), Err(refused));
    assert!(matches!(one.check_reply(&answers(&[])), Err(ReplyError::WrongIds { .. })));
    let stored = serde_json::to_value(&one.questions[0]).unwrap();
    assert_eq!(stored["only_options"], true);
    let old = serde_json::json!({"id": "a", "options": [{"label": "red"}]});
    let old: RequestQuestion = serde_json::from_value(old).unwrap();
    assert!(!old.only_options, "as it was kept before");
    assert_eq!(serde_json::to_value(old).unwrap().get("only_options"), None);
}
