//! Decisions: what a person answered to one agent holds for all of the run.

use super::{
    advance::Step,
    event::DecisionMade,
    prompt::decided_meanwhile,
    state::{Decision, Run},
};
use crate::{
    lifecycle::State,
    request::{Asked, Fate, Question, Reply, Request, RequestKind},
    session::{self, Message, SendMode, Session},
};

impl Run {
    /// An answer of a person becomes a decision of the run.
    pub(super) fn keep_decision(&self, session: &Session) -> Option<Step> {
        let answered = session.requests.iter().filter(|request| {
            request.asked.kind == RequestKind::Question && request.fate == Fate::Answered
        });
        answered
            .flat_map(|request| request.asked.questions.iter().map(move |q| (request, q)))
            .find_map(|(request, question)| {
                if self.decision(request, question).is_some() || bug!(DecisionLost) {
                    return None;
                }
                let decision = Decision {
                    id: question.id.clone(),
                    question: wording(request, question).to_owned(),
                    answer: answer_of(session, request, question),
                    request: request.id,
                };
                Some(Step::Event(DecisionMade { decision }.into()))
            })
    }

    /// What was decided before, or given beforehand, is not asked again.
    pub(super) fn answer_again(&self, session: &Session) -> Option<Step> {
        session.open_requests().find_map(|request| {
            let asked = &request.asked;
            let fit = asked.kind == RequestKind::Question && !asked.is_secret();
            let known = |question: &Question| {
                Some((question.id.clone(), self.known_answer(request, question)?))
            };
            let answers = asked.questions.iter().map(known).collect::<Option<_>>();
            let answers = answers.filter(|_| fit && !asked.questions.is_empty())?;
            let (request, revision) = (request.id, request.revision);
            // What is not offered is for a person to settle.
            let reply = Some(Reply::Answers(answers)).filter(|reply| asked.check(reply).is_ok())?;
            Some(Step::Tell(session.id, session::Command::Answer { request, revision, reply }))
        })
    }

    fn known_answer(&self, request: &Request, question: &Question) -> Option<Vec<String>> {
        let decided = self.decision(request, question).and_then(|one| one.answer.clone());
        decided.or_else(|| self.spec.answers.get(&question.id).cloned())
    }

    /// Gives what was decided about a question: the same words under the same name.
    fn decision(&self, request: &Request, question: &Question) -> Option<&Decision> {
        self.decisions.iter().find(|one| is_about(one, request, question))
    }

    /// What was decided since a session was instructed is told to it while it works, once. Whoever asked the same has
    /// the answer.
    pub(super) fn tell_decision(&self, session: &Session) -> Option<Step> {
        let told = self.session(session.id)?.told;
        let known = |key: &str| session.messages.iter().any(|message| message.key == key);
        let decisions = self.decisions.iter().enumerate().skip(told);
        let (key, decision) = decisions
            .filter(|(_, decision)| decision.answer.is_some() && !has_asked(session, decision))
            .map(|(at, decision)| (format!("decision-{}", at + 1), decision))
            .find(|(key, _)| !known(key))
            .filter(|_| session.attempt().shown == State::Working)?;
        let (text, mode) = (decided_meanwhile(decision), SendMode::Continue);
        Some(Step::Tell(session.id, session::Command::Send { key, text, mode }))
    }
}

fn has_asked(session: &Session, decision: &Decision) -> bool {
    let asks = |request: &Request| {
        request.asked.questions.iter().any(|question| is_about(decision, request, question))
    };
    session.requests.iter().any(asks)
}

/// Says whether a question is the one that was decided: the same words under the same name.
fn is_about(decision: &Decision, request: &Request, question: &Question) -> bool {
    decision.id == question.id && decision.question == wording(request, question)
}

fn wording<'a>(request: &'a Request, question: &'a Question) -> &'a str {
    let Asked { title, .. } = &request.asked;
    match (question.question.as_str(), question.header.as_str()) {
        ("", "") => title,
        ("", header) => header,
        (words, _) => words,
    }
}

/// Gives what was answered to one question; of a secret nothing.
fn answer_of(session: &Session, request: &Request, question: &Question) -> Option<Vec<String>> {
    let answers = |message: &&Message| message.request == Some(request.id);
    match session.messages.iter().rev().find(answers)?.reply.as_ref()? {
        Reply::Text(text) => Some(vec![text.clone()]),
        Reply::Answers(given) => given.get(&question.id).cloned(),
        Reply::Approve(_) | Reply::Deny => None,
    }
}
