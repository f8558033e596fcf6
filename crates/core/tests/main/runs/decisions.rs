//! Answered questions become decisions: kept once and never asked again, except for secrets.

use std::collections::BTreeMap;

use provost_core::{
    request::{Asked, Choice, Fate, Question, Reply, RequestKind, Subject},
    run::{Command, RunSpec, Stage},
    session::Signal,
};

use super::kit::{RunBench, asks, one_question, run_spec, triaged, understood};

fn answers(given: &[(&str, &str)]) -> Reply {
    Reply::Answers(given.iter().map(|(id, a)| ((*id).to_owned(), vec![(*a).to_owned()])).collect())
}

fn decided(bench: &RunBench) -> Vec<(&str, &str, Option<Vec<String>>)> {
    let told = bench.run.decisions.iter();
    told.map(|one| (one.id.as_str(), one.question.as_str(), one.answer.clone())).collect()
}

fn secret(native: &str) -> Asked {
    let mut asked = asks(native, "key", "Which key?");
    asked.questions[0].secret = true;
    asked
}

#[test]
fn an_answer_is_kept_once_and_reaches_every_later_prompt() {
    let mut bench = RunBench::open(triaged());
    bench.start().signal(Signal::Asked(asks("n1", "scope", "Per user or per address?")));
    assert_eq!(bench.hooks(), ["run.opened", "run.question"]);
    bench.answer(Reply::Text("per user".to_owned()));
    let kept = ("scope", "Per user or per address?", Some(vec!["per user".to_owned()]));
    assert_eq!(decided(&bench), std::slice::from_ref(&kept));
    bench.does("old", Some(understood("per user")));
    assert_eq!(decided(&bench), [kept], "the end adds nothing");
    assert!(bench.instruction().contains("- Per user or per address?\n  Decided: per user"));
}

#[test]
fn the_same_question_is_answered_by_itself_and_seen_by_nobody() {
    let mut bench = RunBench::open(triaged());
    bench.start().signal(Signal::Asked(asks("n1", "scope", "Per user?")));
    bench.answer(answers(&[("scope", "yes")]));
    bench.does("old", Some(understood("per user")));
    bench.start().signal(Signal::Asked(asks("n9", "scope", "Per user?")));
    let request = &bench.session(2).requests[0];
    assert_eq!(request.fate, Fate::Answered);
    assert_eq!(bench.session(2).messages.last().unwrap().reply, Some(answers(&[("scope", "yes")])));
    assert_eq!(bench.run.decisions.len(), 1);
    let questions = bench.hooks().iter().filter(|name| *name == "run.question").count();
    assert_eq!(questions, 1, "no hook fires for a question that needs no answer");
}

#[test]
fn another_question_under_the_same_name_is_asked() {
    let mut bench = RunBench::open(run_spec());
    bench.start().signal(Signal::Asked(asks("n1", "scope", "Per user?")));
    bench.answer(answers(&[("scope", "yes")]));
    bench.signal(Signal::Asked(asks("n2", "scope", "Per address?")));
    assert_eq!(bench.session(1).open_requests().count(), 1);
    bench.signal(Signal::Asked(asks("n3", "other", "Per user?")));
    assert_eq!(bench.session(1).open_requests().count(), 2, "another name is another question");
}

#[test]
fn what_is_asked_anew_in_the_place_of_an_answered_question_is_a_decision_too() {
    let mut bench = RunBench::open(run_spec());
    bench.start().signal(Signal::Asked(asks("n1", "scope", "Per user?")));
    bench.answer(answers(&[("scope", "no")]));
    bench.signal(Signal::Asked(asks("n1", "scope", "Per address then?")));
    assert_eq!(bench.session(1).requests[0].revision, 2);
    bench.answer(answers(&[("scope", "yes")]));
    let words: Vec<&str> = decided(&bench).into_iter().map(|(_, words, _)| words).collect();
    assert_eq!(words, ["Per user?", "Per address then?"]);
}

#[test]
fn a_request_is_seen_once_per_revision_approvals_too() {
    let mut bench = RunBench::open(run_spec());
    bench.start().signal(Signal::Asked(asks("n1", "scope", "Per user?")));
    bench.pass(10).signal(Signal::Asked(asks("n1", "scope", "Per address?")));
    let approval = Asked {
        kind: RequestKind::Approval,
        subject: Some(Box::new(Subject { command: Some("rm".to_owned()), ..Subject::default() })),
        questions: Vec::new(),
        ..asks("a1", "-", "-")
    };
    bench.signal(Signal::Asked(approval));
    let seen: Vec<u32> = bench.run.seen.iter().map(|(_, revision)| *revision).collect();
    assert_eq!(seen, [1, 2, 1]);
    assert_eq!(bench.hooks().iter().filter(|name| *name == "run.question").count(), 3);
    bench.answer(Reply::Text("yes".to_owned()));
    assert_eq!(bench.run.decisions.len(), 1);
}

#[test]
fn an_approval_is_no_decision() {
    let mut bench = RunBench::open(run_spec());
    let approval = Asked { kind: RequestKind::Approval, ..asks("a1", "ok", "May I?") };
    bench.start().signal(Signal::Asked(approval.clone()));
    bench.answer(Reply::Deny);
    assert!(bench.run.decisions.is_empty());
    bench.signal(Signal::Asked(Asked { native: "a2".to_owned(), ..approval }));
    assert_eq!(bench.session(1).open_requests().count(), 1, "each is asked for");
}

#[test]
fn of_a_secret_only_the_fact_is_kept_and_it_is_asked_again() {
    let mut spec = triaged();
    spec.answers.insert("key".to_owned(), vec!["beforehand".to_owned()]);
    let mut bench = RunBench::open(spec);
    bench.start().signal(Signal::Asked(secret("n1")));
    assert_eq!(bench.session(1).open_requests().count(), 1, "no secret is given by itself");
    bench.answer(Reply::Text("hunter2".to_owned()));
    assert_eq!(decided(&bench), [("key", "Which key?", None)]);
    bench.does("old", Some(understood("it")));
    assert!(bench.instruction().contains("Decided: given, and kept secret"));
    bench.start().signal(Signal::Asked(secret("n2")));
    assert_eq!(bench.session(2).open_requests().count(), 1);
    let record = format!("{:?}{:?}", bench.log, bench.run);
    assert!(!record.contains("hunter2"));
}

#[test]
fn a_request_with_a_secret_in_it_is_given_nothing_by_itself() {
    let spec = RunSpec {
        answers: BTreeMap::from([
            ("key".to_owned(), vec!["k".to_owned()]),
            ("scope".to_owned(), vec!["s".to_owned()]),
        ]),
        ..run_spec()
    };
    let mut asked = secret("n1");
    asked.questions.push(one_question("scope", "Which?"));
    let mut bench = RunBench::open(spec);
    bench.start().signal(Signal::Asked(asked));
    assert_eq!(bench.session(1).open_requests().count(), 1);
}

#[test]
fn answers_given_beforehand_are_given_if_they_cover_all_that_is_asked() {
    let spec = RunSpec {
        answers: BTreeMap::from([("scope".to_owned(), vec!["per user".to_owned()])]),
        ..run_spec()
    };
    let mut bench = RunBench::open(spec);
    bench.start().signal(Signal::Asked(asks("n1", "scope", "Which?")));
    assert_eq!(bench.session(1).requests[0].fate, Fate::Answered);
    assert_eq!(decided(&bench), [("scope", "Which?", Some(vec!["per user".to_owned()]))]);
    let mut two = asks("n2", "scope", "Which?");
    two.questions.push(one_question("size", "How many?"));
    bench.signal(Signal::Asked(two));
    assert_eq!(bench.session(1).open_requests().count(), 1, "the user has to answer a part of it");
    assert_eq!(bench.hooks(), ["run.opened", "run.question"]);
}

#[test]
fn an_answer_that_is_not_offered_is_not_given_and_the_question_is_seen() {
    let spec = RunSpec {
        answers: BTreeMap::from([("scope".to_owned(), vec!["nobody".to_owned()])]),
        budget: provost_core::session::Budget { tokens: Some(100), turns: None },
        ..run_spec()
    };
    let label = |label: &str| Choice { label: label.to_owned(), description: String::new() };
    let mut asked = asks("n1", "scope", "Which?");
    asked.questions[0] = Question {
        options: vec![label("user"), label("address")],
        only_options: true,
        ..asked.questions[0].clone()
    };
    let mut bench = RunBench::open(spec);
    bench.start().signal(Signal::Asked(asked));
    assert_eq!(bench.hooks(), ["run.opened", "run.question"]);
    bench.tell(Command::RaiseBudget { tokens: Some(200), turns: None });
    let budget = bench.session(1).budget.tokens;
    assert_eq!(budget, Some(200), "the rest continues meanwhile");
    bench.answer(answers(&[("scope", "user")]));
    assert_eq!(bench.run.decisions.len(), 1);
}

#[test]
fn a_question_without_words_is_known_by_its_header_or_title() {
    let mut bench = RunBench::open(run_spec());
    let mut asked = asks("n1", "a", "");
    asked.questions.push(Question { header: "Size".to_owned(), ..one_question("b", "") });
    bench.start().signal(Signal::Asked(asked));
    bench.answer(answers(&[("a", "1"), ("b", "2")]));
    let words: Vec<&str> = decided(&bench).into_iter().map(|(_, words, _)| words).collect();
    assert_eq!(words, ["A question", "Size"]);
}

#[test]
fn a_question_that_is_withdrawn_is_no_decision() {
    let mut bench = RunBench::open(run_spec());
    bench.start().signal(Signal::Asked(asks("n1", "scope", "Per user?")));
    bench.signal(Signal::Withdrawn { native: "n1".to_owned() });
    assert!(bench.run.decisions.is_empty());
    assert_eq!(bench.run.stage, Stage::Work);
}

#[test]
fn a_run_that_is_being_ended_tells_nobody_of_questions() {
    let mut bench = RunBench::open(run_spec());
    bench.start().cancel();
    bench.signal(Signal::Asked(asks("n1", "scope", "Per user?")));
    assert_eq!(bench.hooks(), ["run.opened"]);
    assert!(bench.run.seen.is_empty());
}
