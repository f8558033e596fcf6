//! Answered questions become decisions: kept once and never asked again, except for secrets.

use std::collections::BTreeMap;

use provost_core::{
    request::{
        AgentRequest, AnswerOption, ApprovalSubject, RequestKind, RequestQuestion, RequestReply,
        RequestStatus,
    },
    run::{RunCommand, RunSpec, RunStage},
    session::StreamSignal,
};

use super::kit::{TestRun, one_question, question_request, run_spec, triage_result, triaged_spec};

fn answers(given: &[(&str, &str)]) -> RequestReply {
    RequestReply::Answers(
        given.iter().map(|(id, a)| ((*id).to_owned(), vec![(*a).to_owned()])).collect(),
    )
}

fn decided(harness: &TestRun) -> Vec<(&str, &str, Option<Vec<String>>)> {
    let decisions = harness.run.decisions.iter();
    decisions.map(|one| (one.id.as_str(), one.question.as_str(), one.answer.clone())).collect()
}

fn secret(native: &str) -> AgentRequest {
    let mut asked = question_request(native, "key", "Which key?");
    asked.questions[0].secret = true;
    asked
}

#[test]
fn answer_is_kept_once_and_in_later_prompts() {
    let mut harness = TestRun::open(triaged_spec());
    harness.start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "scope",
        "Per user or per address?",
    )));
    assert_eq!(harness.hooks(), ["run.opened", "run.question"]);
    harness.answer(RequestReply::Text("per user".to_owned()));
    let kept = ("scope", "Per user or per address?", Some(vec!["per user".to_owned()]));
    assert_eq!(decided(&harness), std::slice::from_ref(&kept));
    harness.finish_session("old", Some(triage_result("per user")));
    assert_eq!(decided(&harness), [kept], "the end adds nothing");
    assert!(harness.instruction().contains("- Per user or per address?\n  Decided: per user"));
}

#[test]
fn repeated_question_is_answered_automatically() {
    let mut harness = TestRun::open(triaged_spec());
    harness.start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "scope",
        "Per user?",
    )));
    harness.answer(answers(&[("scope", "yes")]));
    harness.finish_session("old", Some(triage_result("per user")));
    harness.start().signal(StreamSignal::RequestOpened(question_request(
        "n9",
        "scope",
        "Per user?",
    )));
    let request = &harness.session(2).requests[0];
    assert_eq!(request.status, RequestStatus::Answered);
    assert_eq!(
        harness.session(2).input.messages.last().unwrap().reply,
        Some(answers(&[("scope", "yes")]))
    );
    assert_eq!(harness.run.decisions.len(), 1);
    let questions = harness.hooks().iter().filter(|name| *name == "run.question").count();
    assert_eq!(questions, 1, "no hook fires for a question that needs no answer");
}

#[test]
fn other_question_with_same_id_is_asked() {
    let mut harness = TestRun::open(run_spec());
    harness.start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "scope",
        "Per user?",
    )));
    harness.answer(answers(&[("scope", "yes")]));
    harness.signal(StreamSignal::RequestOpened(question_request("n2", "scope", "Per address?")));
    assert_eq!(harness.session(1).open_requests().count(), 1);
    harness.signal(StreamSignal::RequestOpened(question_request("n3", "other", "Per user?")));
    assert_eq!(harness.session(1).open_requests().count(), 2, "another name is another question");
}

#[test]
fn revised_question_is_a_new_decision() {
    let mut harness = TestRun::open(run_spec());
    harness.start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "scope",
        "Per user?",
    )));
    harness.answer(answers(&[("scope", "no")]));
    harness.signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "scope",
        "Per address then?",
    )));
    assert_eq!(harness.session(1).requests[0].revision, 2);
    harness.answer(answers(&[("scope", "yes")]));
    let words: Vec<&str> = decided(&harness).into_iter().map(|(_, words, _)| words).collect();
    assert_eq!(words, ["Per user?", "Per address then?"]);
}

#[test]
fn request_hook_fires_once_per_revision() {
    let mut harness = TestRun::open(run_spec());
    harness.start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "scope",
        "Per user?",
    )));
    harness.advance_clock(10).signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "scope",
        "Per address?",
    )));
    let approval = AgentRequest {
        kind: RequestKind::Approval,
        subject: Some(Box::new(ApprovalSubject {
            command: Some("rm".to_owned()),
            ..ApprovalSubject::default()
        })),
        questions: Vec::new(),
        ..question_request("a1", "-", "-")
    };
    harness.signal(StreamSignal::RequestOpened(approval));
    let seen: Vec<u32> = harness.run.seen.iter().map(|(_, revision)| *revision).collect();
    assert_eq!(seen, [1, 2, 1]);
    assert_eq!(harness.hooks().iter().filter(|name| *name == "run.question").count(), 3);
    harness.answer(RequestReply::Text("yes".to_owned()));
    assert_eq!(harness.run.decisions.len(), 1);
}

#[test]
fn approval_is_not_a_decision() {
    let mut harness = TestRun::open(run_spec());
    let approval =
        AgentRequest { kind: RequestKind::Approval, ..question_request("a1", "ok", "May I?") };
    harness.start().signal(StreamSignal::RequestOpened(approval.clone()));
    harness.answer(RequestReply::Deny);
    assert!(harness.run.decisions.is_empty());
    harness
        .signal(StreamSignal::RequestOpened(AgentRequest { native: "a2".to_owned(), ..approval }));
    assert_eq!(harness.session(1).open_requests().count(), 1, "each is asked for");
}

#[test]
fn secret_answer_is_not_kept_and_is_asked_again() {
    let mut spec = triaged_spec();
    spec.answers.insert("key".to_owned(), vec!["beforehand".to_owned()]);
    let mut harness = TestRun::open(spec);
    harness.start().signal(StreamSignal::RequestOpened(secret("n1")));
    assert_eq!(harness.session(1).open_requests().count(), 1, "no secret is given by itself");
    harness.answer(RequestReply::Text("hunter2".to_owned()));
    assert_eq!(decided(&harness), [("key", "Which key?", None)]);
    harness.finish_session("old", Some(triage_result("it")));
    assert!(harness.instruction().contains("Decided: given, and kept secret"));
    harness.start().signal(StreamSignal::RequestOpened(secret("n2")));
    assert_eq!(harness.session(2).open_requests().count(), 1);
    let record = format!("{:?}{:?}", harness.log, harness.run);
    assert!(!record.contains("hunter2"));
}

#[test]
fn request_with_secret_is_not_auto_answered() {
    let spec = RunSpec {
        answers: BTreeMap::from([
            ("key".to_owned(), vec!["k".to_owned()]),
            ("scope".to_owned(), vec!["s".to_owned()]),
        ]),
        ..run_spec()
    };
    let mut asked = secret("n1");
    asked.questions.push(one_question("scope", "Which?"));
    let mut harness = TestRun::open(spec);
    harness.start().signal(StreamSignal::RequestOpened(asked));
    assert_eq!(harness.session(1).open_requests().count(), 1);
}

#[test]
fn preset_answers_apply_if_they_cover_the_request() {
    let spec = RunSpec {
        answers: BTreeMap::from([("scope".to_owned(), vec!["per user".to_owned()])]),
        ..run_spec()
    };
    let mut harness = TestRun::open(spec);
    harness.start().signal(StreamSignal::RequestOpened(question_request("n1", "scope", "Which?")));
    assert_eq!(harness.session(1).requests[0].status, RequestStatus::Answered);
    assert_eq!(decided(&harness), [("scope", "Which?", Some(vec!["per user".to_owned()]))]);
    let mut two = question_request("n2", "scope", "Which?");
    two.questions.push(one_question("size", "How many?"));
    harness.signal(StreamSignal::RequestOpened(two));
    assert_eq!(
        harness.session(1).open_requests().count(),
        1,
        "the user has to answer a part of it"
    );
    assert_eq!(harness.hooks(), ["run.opened", "run.question"]);
}

#[test]
fn preset_answer_outside_options_is_not_used() {
    let spec = RunSpec {
        answers: BTreeMap::from([("scope".to_owned(), vec!["nobody".to_owned()])]),
        budget: provost_core::session::Budget { tokens: Some(100), turns: None },
        ..run_spec()
    };
    let label = |label: &str| AnswerOption { label: label.to_owned(), description: String::new() };
    let mut asked = question_request("n1", "scope", "Which?");
    asked.questions[0] = RequestQuestion {
        options: vec![label("user"), label("address")],
        only_options: true,
        ..asked.questions[0].clone()
    };
    let mut harness = TestRun::open(spec);
    harness.start().signal(StreamSignal::RequestOpened(asked));
    assert_eq!(harness.hooks(), ["run.opened", "run.question"]);
    harness.apply(RunCommand::RaiseBudget { tokens: Some(200), turns: None });
    let budget = harness.session(1).spending.budget.tokens;
    assert_eq!(budget, Some(200), "the rest continues meanwhile");
    harness.answer(answers(&[("scope", "user")]));
    assert_eq!(harness.run.decisions.len(), 1);
}

#[test]
fn question_without_text_uses_header_or_title() {
    let mut harness = TestRun::open(run_spec());
    let mut asked = question_request("n1", "a", "");
    asked.questions.push(RequestQuestion { header: "Size".to_owned(), ..one_question("b", "") });
    harness.start().signal(StreamSignal::RequestOpened(asked));
    harness.answer(answers(&[("a", "1"), ("b", "2")]));
    let words: Vec<&str> = decided(&harness).into_iter().map(|(_, words, _)| words).collect();
    assert_eq!(words, ["A question", "Size"]);
}

#[test]
fn withdrawn_question_is_not_a_decision() {
    let mut harness = TestRun::open(run_spec());
    harness.start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "scope",
        "Per user?",
    )));
    harness.signal(StreamSignal::RequestWithdrawn { native: "n1".to_owned() });
    assert!(harness.run.decisions.is_empty());
    assert_eq!(harness.run.stage, RunStage::Work);
}

#[test]
fn stopping_run_fires_no_question_hook() {
    let mut harness = TestRun::open(run_spec());
    harness.start().cancel();
    harness.signal(StreamSignal::RequestOpened(question_request("n1", "scope", "Per user?")));
    assert_eq!(harness.hooks(), ["run.opened"]);
    assert!(harness.run.seen.is_empty());
}
