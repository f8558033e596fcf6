//! Reports and their status, questions and their answers.

use provost_core::{
    ids::RequestId,
    lifecycle::{Cause, ClaimKind, Flag, State},
    limits::MAX_OPEN_REQUESTS,
    request::{Asked, Fate, Reply, Waiting},
    session::{
        ClaimSource, Command, Cursor, End, EndedBy, FactKind, MessageKind, Progress, Rejected,
        Reporter, Signal, Standing, Testimony, standing_of,
    },
};

use crate::kit::{Bench, OVER, command_spec, question, spec};

fn claims(from: Reporter, kind: ClaimKind) -> Command {
    Command::Report { from, testimony: Testimony::Claim { kind, text: None } }
}

fn tells(from: Reporter) -> Command {
    let testimony = Testimony::Fact { kind: FactKind::Branch, value: "topic".to_owned() };
    Command::Report { from, testimony }
}

fn standing(bench: &Bench, command: &Command) -> Standing {
    standing_of(&bench.decide(command).expect("testimony is never refused"))
        .expect("testimony has a standing")
}

fn answer(request: RequestId, revision: u32) -> Command {
    Command::Answer { request, revision, reply: Reply::Text("yes".to_owned()) }
}

fn withdrawn(native: &str) -> Signal {
    Signal::Withdrawn { native: native.to_owned() }
}

#[test]
fn a_report_stands_by_who_makes_it_and_when() {
    use ClaimKind::{Completed, Failed, NeedsInput, Working};
    let mut bench = Bench::running(command_spec());
    let agent = Reporter::Launch(bench.launch());
    for kind in [Working, NeedsInput, Completed, Failed] {
        assert_eq!(standing(&bench, &claims(agent, kind)), Standing::Applied, "it is alive");
    }
    bench.end(End::Exit(0));
    assert_eq!(standing(&bench, &claims(agent, Working)), Standing::Recorded, "it has ended");
    assert_eq!(standing(&bench, &claims(agent, Completed)), Standing::Applied);
    bench.settle();
    assert!(bench.sealed());
    assert_eq!(standing(&bench, &claims(agent, Working)), Standing::Recorded);
    for kind in [NeedsInput, Completed, Failed] {
        assert_eq!(standing(&bench, &claims(agent, kind)), Standing::RecordedLate);
    }
    assert_eq!(standing(&bench, &tells(agent)), Standing::Applied, "a fact is not an outcome");
    assert_eq!(standing_of(&[]), None);
}

#[test]
fn a_sealed_session_takes_no_working_claim_though_its_process_lives() {
    let mut bench = Bench::running(spec());
    bench.claim(ClaimKind::Completed).signal(OVER).pass(50);
    assert!(bench.sealed() && bench.session.launches[0].may_live());
    let agent = Reporter::Launch(bench.launch());
    assert_eq!(standing(&bench, &claims(agent, ClaimKind::Working)), Standing::Recorded);
}

#[test]
fn what_an_older_launch_says_is_recorded_and_changes_nothing() {
    let mut bench = Bench::resumed();
    let old = Reporter::Launch(bench.session.launches[0].id);
    for report in [claims(old, ClaimKind::Failed), tells(old)] {
        assert_eq!(standing(&bench, &report), Standing::Recorded);
        bench.tell(report);
    }
    assert!(bench.session.attempt().claim.is_none() && bench.session.facts.is_empty());
    bench.tell(tells(Reporter::Launch(bench.launch())));
    assert_eq!(bench.session.facts[0].value, "topic");
}

#[test]
fn progress_told_beside_the_stream_leaves_the_place_in_the_stream_alone() {
    let mut bench = Bench::resumed();
    let (old, launch) = (bench.session.launches[0].id, bench.launch());
    let tells = |from, done| Command::Report {
        from,
        testimony: Testimony::Progress(Progress { done, total: 3 }),
    };
    let before = bench.session.launch(launch).unwrap().cursor;
    assert_eq!(standing(&bench, &tells(Reporter::Launch(launch), 1)), Standing::Applied);
    bench.tell(tells(Reporter::Launch(launch), 1));
    assert_eq!(bench.session.progress, Some(Progress { done: 1, total: 3 }));
    assert_eq!(bench.session.launch(launch).unwrap().cursor, before);
    assert_eq!(bench.decide(&tells(Reporter::Launch(old), 0)), Err(Rejected::Nothing));
    bench.tell(tells(Reporter::Operator, 2));
    assert_eq!(bench.session.progress, Some(Progress { done: 2, total: 3 }));
    let none = Bench::new(spec());
    assert!(none.decide(&tells(Reporter::Operator, 1)).is_err(), "nothing runs");
}

#[test]
fn an_operator_speaks_without_a_launch() {
    let mut bench = Bench::new(spec());
    assert_eq!(standing(&bench, &claims(Reporter::Operator, ClaimKind::Failed)), Standing::Applied);
    bench.tell(claims(Reporter::Operator, ClaimKind::Failed));
    let claim = bench.session.attempt().claim.clone().unwrap();
    assert_eq!((claim.source, claim.launch), (ClaimSource::Operator, None));
    let running = Bench::running(spec());
    let report = claims(Reporter::Operator, ClaimKind::Failed);
    assert_eq!(standing(&running, &report), Standing::Applied);
}

#[test]
fn a_report_in_the_stream_is_folded_once() {
    let mut bench = Bench::running(spec());
    let testimony = Testimony::Claim { kind: ClaimKind::Working, text: Some("on it".to_owned()) };
    let (launch, cursor) = (bench.launch(), Cursor { offset: 10, skip: 0 });
    let said = Command::Observed { launch, signal: Signal::Said(testimony), cursor };
    bench.tell(said.clone());
    let claim = bench.session.attempt().claim.clone().unwrap();
    assert_eq!((claim.source, claim.text.as_deref()), (ClaimSource::Agent, Some("on it")));
    assert_eq!(bench.session.launches[0].cursor, cursor);
    assert_eq!(bench.try_tell(said), Err(Rejected::Nothing));
}

#[test]
fn a_question_asked_again_is_the_same_one_at_the_next_revision() {
    let mut bench = Bench::running(spec());
    for native in ["a", "b", "a"] {
        bench.signal(Signal::Asked(question(native)));
    }
    let mut asked: Vec<(u32, u32)> =
        bench.session.requests.iter().map(|r| (r.id.no, r.revision)).collect();
    asked.sort_unstable();
    assert_eq!(asked, [(1, 2), (2, 1)]);
}

#[test]
fn the_next_launch_asks_its_own_questions() {
    let mut bench = Bench::resumed();
    bench.signal(Signal::Asked(question("q")));
    let numbers: Vec<u32> = bench.session.requests.iter().map(|r| r.id.no).collect();
    assert_eq!(numbers, [1, 2]);
    let (launch, signal) = (bench.session.launches[0].id, withdrawn("q"));
    let cursor = Cursor { offset: 10_000, skip: 0 };
    let late = Command::Observed { launch, signal, cursor };
    assert_eq!(bench.try_tell(late), Err(Rejected::Nothing), "it is not the asker");
    assert_eq!(bench.state(), State::NeedsInput);
}

#[test]
fn a_withdrawal_takes_back_the_question_of_that_name() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Asked(question("a"))).signal(Signal::Asked(question("b")));
    bench.signal(withdrawn("b"));
    let open: Vec<&str> = bench.session.open_requests().map(|r| r.asked.native.as_str()).collect();
    assert_eq!(open, ["a"]);
    assert_eq!(bench.session.requests[1].fate, Fate::Withdrawn);
    let cursor = Cursor { offset: 10_000, skip: 0 };
    let again = Command::Observed { launch: bench.launch(), signal: withdrawn("b"), cursor };
    assert_eq!(bench.try_tell(again), Err(Rejected::Nothing));
}

#[test]
fn a_question_beside_the_work_does_not_stop_it() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Asked(Asked { waiting: Waiting::Beside, ..question("q") }));
    assert_eq!(bench.state(), State::Working);
    assert_eq!(bench.session.open_requests().count(), 1);
    bench.end(End::Exit(0));
    assert_eq!(bench.state(), State::EndedUnclaimed, "nor does it keep the session open");
}

#[test]
fn a_question_takes_the_agents_word_only_when_its_asker_has_ended() {
    let mut bench = Bench::running(spec());
    bench.claim(ClaimKind::Working).signal(Signal::Asked(question("q")));
    assert_eq!(bench.session.claim(), ClaimKind::Working);
    bench.end(End::Exit(0));
    assert_eq!(bench.session.claim(), ClaimKind::NeedsInput);
    assert!(bench.has(Flag::AnswerResumes));
}

#[test]
fn a_crash_with_an_open_question_is_a_crash() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Asked(question("q"))).end(End::Exit(1));
    assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Crash)));
    assert!(bench.has(Flag::OpenQuestion));
}

#[test]
fn what_an_older_launch_asks_again_stays_answered() {
    let mut bench = Bench::resumed();
    let launch = bench.session.launches[0].id;
    let cursor = Cursor { offset: 10_000, skip: 0 };
    bench.tell(Command::Observed { launch, signal: Signal::Asked(question("q")), cursor });
    let asked: Vec<(u32, Fate)> =
        bench.session.requests.iter().map(|r| (r.revision, r.fate)).collect();
    assert_eq!(asked, [(1, Fate::Answered)]);
}

#[test]
fn questions_beyond_the_bound_are_only_output() {
    let mut bench = Bench::running(spec());
    for no in 0..MAX_OPEN_REQUESTS {
        bench.signal(Signal::Asked(question(&no.to_string())));
    }
    let cursor = Cursor { offset: 10_000, skip: 0 };
    let signal = Signal::Asked(question("one more"));
    let more = Command::Observed { launch: bench.launch(), signal, cursor };
    assert_eq!(bench.decide(&more), Err(Rejected::Nothing));
    bench.signal(withdrawn("7")).tell(more);
    assert_eq!(bench.session.open_requests().count(), MAX_OPEN_REQUESTS);
}

#[test]
fn an_answer_goes_to_the_question_that_was_answered() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Asked(question("a"))).signal(Signal::Asked(question("b")));
    let (a, b) = (bench.session.requests[0].id, bench.session.requests[1].id);
    bench.tell(answer(b, 1));
    let fate = |id| bench.session.requests.iter().find(|r| r.id == id).unwrap().fate;
    assert_eq!((fate(a), fate(b)), (Fate::Open, Fate::Answered));
    let message = bench.session.messages.last().unwrap();
    assert_eq!((message.kind, message.key.as_str()), (MessageKind::Answer, "answer-2-1"));
    let said = Some(Reply::Text("yes".to_owned()));
    assert_eq!((message.request, message.reply.clone()), (Some(b), said));
    assert_eq!(bench.session.launches.len(), 1, "the agent is alive");
}

#[test]
fn an_answer_to_nothing_open_is_refused_with_the_reason() {
    let mut bench = Bench::running(spec());
    for native in ["answered", "withdrawn", "open"] {
        bench.signal(Signal::Asked(question(native)));
    }
    let id = |no| RequestId { session: bench.session.id, no };
    let (answered, taken_back, open, unknown) = (id(1), id(2), id(3), id(4));
    bench.tell(answer(answered, 1)).signal(withdrawn("withdrawn"));
    assert_eq!(bench.try_tell(answer(unknown, 1)), Err(Rejected::UnknownRequest(unknown)));
    let settled = |id, why| Err(Rejected::RequestSettled(id, why));
    assert_eq!(bench.try_tell(answer(answered, 1)), settled(answered, "it was answered"));
    assert_eq!(bench.try_tell(answer(taken_back, 1)), settled(taken_back, "the agent withdrew it"));
    let cancel = Command::Cancel { because: "no".to_owned() };
    bench.tell(cancel);
    assert_eq!(bench.try_tell(answer(open, 1)), settled(open, "the session was ended"));
    bench.end_by(End::Exit(0), EndedBy::Provost).settle();
    assert_eq!(bench.try_tell(answer(open, 1)), settled(open, "the session was cancelled"));
}
