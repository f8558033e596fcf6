//! Decisions of a run. When a user answers one agent's question, the answer applies to the whole run.

use super::{
    advance::RunStep,
    event::DecisionMade,
    prompt::describe_new_decision,
    state::{Run, RunDecision},
};
use crate::{
    lifecycle::State,
    request::{AgentRequest, Request, RequestKind, RequestQuestion, RequestReply, RequestStatus},
    rules::rules,
    session::{self, AgentMessage, SendMode, Session},
};

impl Run {
    /// Records a user's answer as a decision of the run.
    pub(super) fn record_decision(&self, session: &Session) -> Option<RunStep> {
        let answered = session.requests.iter().filter(|request| {
            request.asked.kind == RequestKind::Question && request.status == RequestStatus::Answered
        });
        answered
            .flat_map(|request| request.asked.questions.iter().map(move |q| (request, q)))
            .find_map(|(request, question)| {
                if rules().is_decided(self.decision(request, question).is_some()) {
                    return None;
                }
                let decision = RunDecision {
                    id: question.id.clone(),
                    question: wording(request, question).to_owned(),
                    answer: answer_of(session, request, question),
                    request: request.id,
                };
                Some(RunStep::Event(DecisionMade { decision }.into()))
            })
    }

    /// Answers a question that the user has already answered, either earlier in this run or in advance.
    pub(super) fn repeat_answer(&self, session: &Session) -> Option<RunStep> {
        session.open_requests().find_map(|request| {
            let asked = &request.asked;
            let fit = asked.kind == RequestKind::Question && !asked.is_secret();
            let known = |question: &RequestQuestion| {
                Some((question.id.clone(), self.known_answer(request, question)?))
            };
            if !fit || asked.questions.is_empty() {
                return None;
            }
            let answers = asked.questions.iter().map(known).collect::<Option<_>>()?;
            let (request, revision) = (request.id, request.revision);
            // If the request does not accept the earlier answer, the user must answer the request.
            let reply = Some(RequestReply::Answers(answers))
                .filter(|reply| asked.check_reply(reply).is_ok())?;
            Some(RunStep::Command(
                session.id,
                session::SessionCommand::Answer { request, revision, reply },
            ))
        })
    }

    fn known_answer(&self, request: &Request, question: &RequestQuestion) -> Option<Vec<String>> {
        let decided = self.decision(request, question).and_then(|one| one.answer.clone());
        decided.or_else(|| self.spec.answers.get(&question.id).cloned())
    }

    /// Returns the decision about a question with the same id and text.
    fn decision(&self, request: &Request, question: &RequestQuestion) -> Option<&RunDecision> {
        self.decisions.iter().find(|one| is_same_question(one, request, question))
    }

    /// Sends each decision once to a working session whose instruction did not include it. A
    /// session that asked the same question already has the answer.
    pub(super) fn send_decision(&self, session: &Session) -> Option<RunStep> {
        if session.attempt().shown != State::Working {
            return None;
        }
        let received = self.session(session.id)?.decisions_known;
        let known = |key: &str| session.input.messages.iter().any(|message| message.key == key);
        let decisions = self.decisions.iter().enumerate().skip(received);
        let (key, decision) = decisions
            .filter(|(_, decision)| decision.answer.is_some() && !has_asked(session, decision))
            .map(|(at, decision)| (format!("decision-{}", at + 1), decision))
            .find(|(key, _)| !known(key))?;
        let (text, mode) = (describe_new_decision(decision), SendMode::Continue);
        Some(RunStep::Command(session.id, session::SessionCommand::Send { key, text, mode }))
    }
}

fn has_asked(session: &Session, decision: &RunDecision) -> bool {
    let asks = |request: &Request| {
        request.asked.questions.iter().any(|question| is_same_question(decision, request, question))
    };
    session.requests.iter().any(asks)
}

/// Whether a decision is about a question with the same id and text.
fn is_same_question(decision: &RunDecision, request: &Request, question: &RequestQuestion) -> bool {
    decision.id == question.id && decision.question == wording(request, question)
}

fn wording<'a>(request: &'a Request, question: &'a RequestQuestion) -> &'a str {
    let AgentRequest { title, .. } = &request.asked;
    match (question.question.as_str(), question.header.as_str()) {
        ("", "") => title,
        ("", header) => header,
        (words, _) => words,
    }
}

/// Returns the answer to one question, or None if it is secret.
fn answer_of(
    session: &Session,
    request: &Request,
    question: &RequestQuestion,
) -> Option<Vec<String>> {
    let answers = |message: &&AgentMessage| message.request == Some(request.id);
    match session.input.messages.iter().rev().find(answers)?.reply.as_ref()? {
        RequestReply::Text(text) => Some(vec![text.clone()]),
        RequestReply::Answers(given) => given.get(&question.id).cloned(),
        RequestReply::Approve(_) | RequestReply::Deny => None,
    }
}
