//! Decisions: an answer given to one agent applies to the whole run.

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
    /// Records a user's answer as a decision of the run.
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

    /// Answers a question that was decided before, or whose answer was given in advance.
    pub(super) fn answer_again(&self, session: &Session) -> Option<Step> {
        session.open_requests().find_map(|request| {
            let asked = &request.asked;
            let fit = asked.kind == RequestKind::Question && !asked.is_secret();
            let known = |question: &Question| {
                Some((question.id.clone(), self.known_answer(request, question)?))
            };
            if !fit || asked.questions.is_empty() {
                return None;
            }
            let answers = asked.questions.iter().map(known).collect::<Option<_>>()?;
            let (request, revision) = (request.id, request.revision);
            // An answer that the request does not offer is left to the user.
            let reply = Some(Reply::Answers(answers)).filter(|reply| asked.check(reply).is_ok())?;
            Some(Step::Tell(session.id, session::Command::Answer { request, revision, reply }))
        })
    }

    fn known_answer(&self, request: &Request, question: &Question) -> Option<Vec<String>> {
        let decided = self.decision(request, question).and_then(|one| one.answer.clone());
        decided.or_else(|| self.spec.answers.get(&question.id).cloned())
    }

    /// Returns the decision about a question: the same text under the same id.
    fn decision(&self, request: &Request, question: &Question) -> Option<&Decision> {
        self.decisions.iter().find(|one| is_about(one, request, question))
    }

    /// Sends decisions made since a session was instructed to that session while it works, once
    /// each. A session that asked the same question has the answer already.
    pub(super) fn tell_decision(&self, session: &Session) -> Option<Step> {
        if session.attempt().shown != State::Working {
            return None;
        }
        let told = self.session(session.id)?.told;
        let known = |key: &str| session.messages.iter().any(|message| message.key == key);
        let decisions = self.decisions.iter().enumerate().skip(told);
        let (key, decision) = decisions
            .filter(|(_, decision)| decision.answer.is_some() && !has_asked(session, decision))
            .map(|(at, decision)| (format!("decision-{}", at + 1), decision))
            .find(|(key, _)| !known(key))?;
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

/// Whether a decision is about this question: the same text under the same id.
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

/// Returns the answer to one question; none for a secret.
fn answer_of(session: &Session, request: &Request, question: &Question) -> Option<Vec<String>> {
    let answers = |message: &&Message| message.request == Some(request.id);
    match session.messages.iter().rev().find(answers)?.reply.as_ref()? {
        Reply::Text(text) => Some(vec![text.clone()]),
        Reply::Answers(given) => given.get(&question.id).cloned(),
        Reply::Approve(_) | Reply::Deny => None,
    }
}
