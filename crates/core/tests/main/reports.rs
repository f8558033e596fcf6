//! Reports and their status, questions and their answers.

use provost_core::{
    ids::RequestId,
    lifecycle::{Cause, ClaimKind, Flag, State},
    limits::MAX_OPEN_REQUESTS,
    request::{AgentRequest, BlockingMode, RequestReply, RequestStatus},
    session::{
        AgentMessageKind, ClaimSource, Cursor, FactKind, ProcessExit, Progress, ReportBody,
        ReportStatus, Reporter, SessionCommand, SessionRejection, StoppedBy, StreamSignal,
        report_status_of,
    },
};

use crate::kit::{TURN_ENDED_OK, TestSession, command_spec, question, spec};

fn claim_report(from: Reporter, kind: ClaimKind) -> SessionCommand {
    SessionCommand::Report { from, testimony: ReportBody::Claim { kind, text: None } }
}

fn fact_report(from: Reporter) -> SessionCommand {
    let testimony = ReportBody::Fact { kind: FactKind::Branch, value: "topic".to_owned() };
    SessionCommand::Report { from, testimony }
}

fn report_status(harness: &TestSession, command: &SessionCommand) -> ReportStatus {
    report_status_of(&harness.decide(command).expect("testimony is never refused"))
        .expect("testimony has a standing")
}

fn answer(request: RequestId, revision: u32) -> SessionCommand {
    SessionCommand::Answer { request, revision, reply: RequestReply::Text("yes".to_owned()) }
}

fn withdrawn(native: &str) -> StreamSignal {
    StreamSignal::RequestWithdrawn { native: native.to_owned() }
}

#[test]
fn report_status_depends_on_reporter_and_time() {
    use ClaimKind::{Completed, Failed, NeedsInput, Working};
    let mut harness = TestSession::running(command_spec());
    let agent = Reporter::Launch(harness.launch());
    for kind in [Working, NeedsInput, Completed, Failed] {
        assert_eq!(
            report_status(&harness, &claim_report(agent, kind)),
            ReportStatus::Applied,
            "it is alive"
        );
    }
    harness.end(ProcessExit::Exit(0));
    assert_eq!(
        report_status(&harness, &claim_report(agent, Working)),
        ReportStatus::Recorded,
        "it has ended"
    );
    assert_eq!(report_status(&harness, &claim_report(agent, Completed)), ReportStatus::Applied);
    harness.settle();
    assert!(harness.sealed());
    assert_eq!(report_status(&harness, &claim_report(agent, Working)), ReportStatus::Recorded);
    for kind in [NeedsInput, Completed, Failed] {
        assert_eq!(report_status(&harness, &claim_report(agent, kind)), ReportStatus::RecordedLate);
    }
    assert_eq!(
        report_status(&harness, &fact_report(agent)),
        ReportStatus::Applied,
        "a fact is not an outcome"
    );
    assert_eq!(report_status_of(&[]), None);
}

#[test]
fn working_claim_after_seal_is_only_recorded() {
    let mut harness = TestSession::running(spec());
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).advance_clock(50);
    assert!(harness.sealed() && harness.session.launches[0].may_be_running());
    let agent = Reporter::Launch(harness.launch());
    assert_eq!(
        report_status(&harness, &claim_report(agent, ClaimKind::Working)),
        ReportStatus::Recorded
    );
}

#[test]
fn report_of_older_launch_is_only_recorded() {
    let mut harness = TestSession::resumed();
    let old = Reporter::Launch(harness.session.launches[0].id);
    for report in [claim_report(old, ClaimKind::Failed), fact_report(old)] {
        assert_eq!(report_status(&harness, &report), ReportStatus::Recorded);
        harness.apply(report);
    }
    assert!(harness.session.attempt().claim.is_none() && harness.session.reported.facts.is_empty());
    harness.apply(fact_report(Reporter::Launch(harness.launch())));
    assert_eq!(harness.session.reported.facts[0].value, "topic");
}

#[test]
fn progress_outside_stream_keeps_the_cursor() {
    let mut harness = TestSession::resumed();
    let (old, launch) = (harness.session.launches[0].id, harness.launch());
    let report = |from, done| SessionCommand::Report {
        from,
        testimony: ReportBody::Progress(Progress { done, total: 3 }),
    };
    let before = harness.session.launch(launch).unwrap().cursor;
    assert_eq!(
        report_status(&harness, &report(Reporter::Launch(launch), 1)),
        ReportStatus::Applied
    );
    harness.apply(report(Reporter::Launch(launch), 1));
    assert_eq!(harness.session.reported.progress, Some(Progress { done: 1, total: 3 }));
    assert_eq!(harness.session.launch(launch).unwrap().cursor, before);
    assert_eq!(
        harness.decide(&report(Reporter::Launch(old), 0)),
        Err(SessionRejection::NothingNew)
    );
    harness.apply(report(Reporter::Operator, 2));
    assert_eq!(harness.session.reported.progress, Some(Progress { done: 2, total: 3 }));
    let none = TestSession::new(spec());
    assert!(none.decide(&report(Reporter::Operator, 1)).is_err(), "nothing runs");
}

#[test]
fn operator_reports_without_a_launch() {
    let mut harness = TestSession::new(spec());
    assert_eq!(
        report_status(&harness, &claim_report(Reporter::Operator, ClaimKind::Failed)),
        ReportStatus::Applied
    );
    harness.apply(claim_report(Reporter::Operator, ClaimKind::Failed));
    let claim = harness.session.attempt().claim.clone().unwrap();
    assert_eq!((claim.source, claim.launch), (ClaimSource::Operator, None));
    let running = TestSession::running(spec());
    let report = claim_report(Reporter::Operator, ClaimKind::Failed);
    assert_eq!(report_status(&running, &report), ReportStatus::Applied);
}

#[test]
fn stream_report_is_applied_once() {
    let mut harness = TestSession::running(spec());
    let testimony = ReportBody::Claim { kind: ClaimKind::Working, text: Some("on it".to_owned()) };
    let (launch, cursor) = (harness.launch(), Cursor { offset: 10, skip: 0 });
    let report =
        SessionCommand::Observed { launch, signal: StreamSignal::Reported(testimony), cursor };
    harness.apply(report.clone());
    let claim = harness.session.attempt().claim.clone().unwrap();
    assert_eq!((claim.source, claim.text.as_deref()), (ClaimSource::Agent, Some("on it")));
    assert_eq!(harness.session.launches[0].cursor, cursor);
    assert_eq!(harness.try_apply(report), Err(SessionRejection::NothingNew));
}

#[test]
fn repeated_question_gets_next_revision() {
    let mut harness = TestSession::running(spec());
    for native in ["a", "b", "a"] {
        harness.signal(StreamSignal::RequestOpened(question(native)));
    }
    let mut asked: Vec<(u32, u32)> =
        harness.session.requests.iter().map(|r| (r.id.no, r.revision)).collect();
    asked.sort_unstable();
    assert_eq!(asked, [(1, 2), (2, 1)]);
}

#[test]
fn next_launch_has_its_own_questions() {
    let mut harness = TestSession::resumed();
    harness.signal(StreamSignal::RequestOpened(question("q")));
    let numbers: Vec<u32> = harness.session.requests.iter().map(|r| r.id.no).collect();
    assert_eq!(numbers, [1, 2]);
    let (launch, signal) = (harness.session.launches[0].id, withdrawn("q"));
    let cursor = Cursor { offset: 10_000, skip: 0 };
    let late = SessionCommand::Observed { launch, signal, cursor };
    assert_eq!(harness.try_apply(late), Err(SessionRejection::NothingNew), "it is not the asker");
    assert_eq!(harness.state(), State::NeedsInput);
}

#[test]
fn withdrawal_closes_only_its_question() {
    let mut harness = TestSession::running(spec());
    harness
        .signal(StreamSignal::RequestOpened(question("a")))
        .signal(StreamSignal::RequestOpened(question("b")));
    harness.signal(withdrawn("b"));
    let open: Vec<&str> =
        harness.session.open_requests().map(|r| r.asked.native.as_str()).collect();
    assert_eq!(open, ["a"]);
    assert_eq!(harness.session.requests[1].status, RequestStatus::Withdrawn);
    let cursor = Cursor { offset: 10_000, skip: 0 };
    let again =
        SessionCommand::Observed { launch: harness.launch(), signal: withdrawn("b"), cursor };
    assert_eq!(harness.try_apply(again), Err(SessionRejection::NothingNew));
}

#[test]
fn non_blocking_question_does_not_stop_work() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::RequestOpened(AgentRequest {
        waiting: BlockingMode::NonBlocking,
        ..question("q")
    }));
    assert_eq!(harness.state(), State::Working);
    assert_eq!(harness.session.open_requests().count(), 1);
    harness.end(ProcessExit::Exit(0));
    assert_eq!(harness.state(), State::ExitedWithoutClaim, "nor does it keep the session open");
}

#[test]
fn question_overrides_claim_after_asker_exits() {
    let mut harness = TestSession::running(spec());
    harness.claim(ClaimKind::Working).signal(StreamSignal::RequestOpened(question("q")));
    assert_eq!(harness.session.claim(), ClaimKind::Working);
    harness.end(ProcessExit::Exit(0));
    assert_eq!(harness.session.claim(), ClaimKind::NeedsInput);
    assert!(harness.has_flag(Flag::AnswerResumes));
}

#[test]
fn crash_with_open_question_fails() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::RequestOpened(question("q"))).end(ProcessExit::Exit(1));
    assert_eq!((harness.state(), harness.cause()), (State::Failed, Some(Cause::Crash)));
    assert!(harness.has_flag(Flag::OpenQuestion));
}

#[test]
fn question_repeated_by_older_launch_stays_answered() {
    let mut harness = TestSession::resumed();
    let launch = harness.session.launches[0].id;
    let cursor = Cursor { offset: 10_000, skip: 0 };
    harness.apply(SessionCommand::Observed {
        launch,
        signal: StreamSignal::RequestOpened(question("q")),
        cursor,
    });
    let asked: Vec<(u32, RequestStatus)> =
        harness.session.requests.iter().map(|r| (r.revision, r.status)).collect();
    assert_eq!(asked, [(1, RequestStatus::Answered)]);
}

#[test]
fn questions_beyond_limit_are_ignored() {
    let mut harness = TestSession::running(spec());
    for no in 0..MAX_OPEN_REQUESTS {
        harness.signal(StreamSignal::RequestOpened(question(&no.to_string())));
    }
    let cursor = Cursor { offset: 10_000, skip: 0 };
    let signal = StreamSignal::RequestOpened(question("one more"));
    let more = SessionCommand::Observed { launch: harness.launch(), signal, cursor };
    assert_eq!(harness.decide(&more), Err(SessionRejection::NothingNew));
    harness.signal(withdrawn("7")).apply(more);
    assert_eq!(harness.session.open_requests().count(), MAX_OPEN_REQUESTS);
}

#[test]
fn answer_reaches_only_its_question() {
    let mut harness = TestSession::running(spec());
    harness
        .signal(StreamSignal::RequestOpened(question("a")))
        .signal(StreamSignal::RequestOpened(question("b")));
    let (a, b) = (harness.session.requests[0].id, harness.session.requests[1].id);
    harness.apply(answer(b, 1));
    let fate = |id| harness.session.requests.iter().find(|r| r.id == id).unwrap().status;
    assert_eq!((fate(a), fate(b)), (RequestStatus::Open, RequestStatus::Answered));
    let message = harness.session.input.messages.last().unwrap();
    assert_eq!((message.kind, message.key.as_str()), (AgentMessageKind::Answer, "answer-2-1"));
    let reply = Some(RequestReply::Text("yes".to_owned()));
    assert_eq!((message.request, message.reply.clone()), (Some(b), reply));
    assert_eq!(harness.session.launches.len(), 1, "the agent is alive");
}

#[test]
fn answer_to_closed_question_is_rejected_with_reason() {
    let mut harness = TestSession::running(spec());
    for native in ["answered", "withdrawn", "open"] {
        harness.signal(StreamSignal::RequestOpened(question(native)));
    }
    let id = |no| RequestId { session: harness.session.id, no };
    let (answered, taken_back, open, unknown) = (id(1), id(2), id(3), id(4));
    harness.apply(answer(answered, 1)).signal(withdrawn("withdrawn"));
    assert_eq!(
        harness.try_apply(answer(unknown, 1)),
        Err(SessionRejection::UnknownRequest(unknown))
    );
    let settled = |id, why: &str| Err(SessionRejection::RequestSettled(id, why.to_owned()));
    assert_eq!(harness.try_apply(answer(answered, 1)), settled(answered, "it was answered"));
    assert_eq!(
        harness.try_apply(answer(taken_back, 1)),
        settled(taken_back, "the agent withdrew it")
    );
    let cancel = SessionCommand::Cancel { because: "no".to_owned() };
    harness.apply(cancel);
    assert_eq!(harness.try_apply(answer(open, 1)), settled(open, "the session was ended"));
    harness.end_by(ProcessExit::Exit(0), StoppedBy::Provost).settle();
    assert_eq!(harness.try_apply(answer(open, 1)), settled(open, "the session was cancelled"));
}
