//! Observations outside a protocol: records, and signals inferred from a terminal.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    request::{Asked, Fate, Reply, RequestKind, Scope, Waiting},
    session::{
        Adopted, Command, Driver, Effect, End, Event, Glimpse, HeldBack, Hinted, Identity,
        MessageFate, Pane, Record, Recorded, Rejected, Reporter, Said, SendMode, Signal, Spec,
        Testimony, TurnEnd, Way, again,
    },
};

use crate::kit::{Bench, spec};

pub(crate) fn terminal() -> Spec {
    let mut spec = spec();
    spec.agent.driver = Driver::CodexTerminal;
    spec.instruction = None;
    spec.afterwards = provost_core::session::Afterwards::Park;
    spec
}

pub(crate) fn adopted(pane: bool) -> Spec {
    let pane =
        pane.then(|| Pane { socket: "/tmux".to_owned(), id: "%1".to_owned(), server: Some(3) });
    let adopted = Adopted { pane, ..Adopted::default() };
    Spec { adopted: Some(Box::new(adopted)), ..terminal() }
}

pub(crate) fn identity() -> Identity {
    Identity { pid: 7, start_time: 8, boot_id: "boot".to_owned() }
}

/// A session that adopted an external agent.
pub(crate) fn watching(spec: Spec) -> Bench {
    let mut bench = Bench::new(spec);
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    bench.tell(Command::LaunchAdopted { launch, child: Some(identity()) });
    bench
}

/// Shorthands for observations, each at its own position.
pub(crate) trait Says {
    fn records(&mut self, place: u64, what: Recorded) -> &mut Bench;
    fn shows(&mut self, by: Glimpse, place: u64, what: Hinted) -> &mut Bench;
    fn begins(&mut self, place: u64, turn: &str) -> &mut Bench;
    fn ends(&mut self, place: u64, turn: &str) -> &mut Bench;
}

impl Says for Bench {
    fn records(&mut self, place: u64, what: Recorded) -> &mut Bench {
        let launch = self.launch();
        self.tell(Command::Recorded { launch, by: Record::Rollout, place, what })
    }

    fn shows(&mut self, by: Glimpse, place: u64, what: Hinted) -> &mut Bench {
        let launch = self.launch();
        self.tell(Command::Hinted { launch, by, place, what })
    }

    fn begins(&mut self, place: u64, turn: &str) -> &mut Bench {
        self.records(place, Recorded::TurnStarted { turn: Some(turn.to_owned()) })
    }

    fn ends(&mut self, place: u64, turn: &str) -> &mut Bench {
        self.records(
            place,
            Recorded::TurnEnded { turn: Some(turn.to_owned()), end: TurnEnd::Ok, says: None },
        )
    }
}

pub(crate) fn send(key: &str, text: &str) -> Command {
    let (key, text) = (key.to_owned(), text.to_owned());
    Command::Send { key, text, mode: SendMode::Continue }
}

pub(crate) fn approval() -> Asked {
    Asked {
        native: "hook-1".to_owned(),
        kind: RequestKind::Approval,
        waiting: Waiting::Blocking,
        title: "run it".to_owned(),
        questions: Vec::new(),
        subject: None,
    }
}

pub(crate) fn delivery(bench: &Bench) -> Option<String> {
    bench.session.effects().into_iter().find_map(|effect| match effect {
        Effect::Deliver { message, .. } => Some(message),
        Effect::PrepareWork { .. }
        | Effect::RunSetup { .. }
        | Effect::StartLaunch(_)
        | Effect::Follow(_)
        | Effect::StopLaunch(..)
        | Effect::PressAgain { .. }
        | Effect::TakeSnapshot { .. }
        | Effect::RunCheck { .. }
        | Effect::RunHook(_) => None,
    })
}

pub(crate) fn held_back(bench: &Bench) -> Option<HeldBack> {
    let message = bench.session.messages.last().expect("something was sent");
    let launch = bench.session.current_launch().expect("it runs");
    bench.session.held_back(launch, message)
}

#[test]
fn a_terminal_that_was_given_nothing_waits_at_its_prompt_and_is_neither_asked_nor_closed() {
    let mut bench = Bench::running(terminal());
    bench.pass(3_600_000);
    assert_eq!(bench.state(), State::Idle);
    assert!(bench.session.current_launch().is_some_and(|launch| launch.stop.is_none()));
    assert!(bench.session.attempt().result_asked.is_none());
}

#[test]
fn a_turn_is_begun_and_ended_once_though_two_records_tell_of_it() {
    let mut bench = Bench::running(terminal());
    let launch = bench.launch();
    let begin = Recorded::TurnStarted { turn: Some("a".to_owned()) };
    bench.tell(Command::Recorded { launch, by: Record::Hook, place: 0, what: begin.clone() });
    assert_eq!((bench.state(), bench.session.turns), (State::Working, 1));
    bench.records(10, begin);
    assert_eq!(bench.session.turns, 1);
    bench.ends(20, "a");
    assert_eq!(bench.state(), State::Idle);
    let end =
        Recorded::TurnEnded { turn: Some("a".to_owned()), end: TurnEnd::Interrupted, says: None };
    let late = Command::Recorded { launch, by: Record::Hook, place: 0, what: end };
    assert_eq!(bench.try_tell(late), Err(Rejected::Nothing));
    let before = Recorded::TurnStarted { turn: Some("b".to_owned()) };
    let read = Command::Recorded { launch, by: Record::Rollout, place: 20, what: before };
    assert_eq!(bench.try_tell(read), Err(Rejected::Nothing), "that place was read");
}

#[test]
fn the_end_of_another_turn_does_not_end_this_one() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "ours").ends(20, "hidden");
    assert_eq!(bench.state(), State::Working);
    bench.ends(30, "ours");
    assert_eq!(bench.state(), State::Idle);
}

#[test]
fn whatever_a_terminal_shows_ends_no_turn_and_moves_no_window() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a");
    let shown = [Hinted::Rests, Hinted::AtPrompt, Hinted::Working, Hinted::Rests];
    for (place, what) in (20..).zip(shown) {
        bench.pass(60_000).shows(Glimpse::Osc, place, what);
        assert_eq!(bench.state(), State::Working);
    }
    let (at, due) = bench.session.deadline().expect("the window runs");
    assert_eq!(due, provost_core::session::Due::Silence(bench.launch()));
    assert_eq!(at, bench.now.mono_ms + 60_000, "it began with the turn");
}

#[test]
fn what_a_terminal_shows_again_is_not_recorded_again() {
    let mut bench = Bench::running(terminal());
    bench.shows(Glimpse::Title, 10, Hinted::Working);
    let launch = bench.launch();
    let again = |place, what| Command::Hinted { launch, by: Glimpse::Title, place, what };
    assert_eq!(bench.try_tell(again(20, Hinted::Working)), Err(Rejected::Nothing));
    assert_eq!(bench.try_tell(again(10, Hinted::Rests)), Err(Rejected::Nothing));
    assert_eq!(bench.try_tell(again(30, Hinted::Rests)), Ok(()));
}

#[test]
fn an_approval_that_a_hook_and_the_screen_tell_of_is_one_request_and_is_gone_when_it_works_again() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").records(20, Recorded::Asked(approval()));
    bench.shows(Glimpse::Osc, 30, Hinted::Asks(approval()));
    assert_eq!((bench.state(), bench.session.requests.len()), (State::NeedsInput, 1));
    bench.shows(Glimpse::Osc, 40, Hinted::Working);
    assert_eq!(bench.session.requests[0].fate, Fate::AnsweredElsewhere);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn a_question_of_a_record_is_not_settled_by_what_the_terminal_shows() {
    let mut bench = Bench::running(terminal());
    let asked = Asked { kind: RequestKind::Question, ..approval() };
    bench.begins(10, "a").records(20, Recorded::Asked(asked));
    bench.shows(Glimpse::Osc, 30, Hinted::Working).shows(Glimpse::Osc, 40, Hinted::AtPrompt);
    assert_eq!(bench.state(), State::NeedsInput);
    bench.records(50, Recorded::WentOn);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn a_dialog_on_the_screen_needs_a_person_and_is_gone_with_it() {
    let mut bench = Bench::running(terminal());
    let dialog = Asked { kind: RequestKind::Dialog, ..approval() };
    bench.shows(Glimpse::Screen, 10, Hinted::Asks(dialog));
    assert_eq!(bench.state(), State::NeedsInput);
    bench.shows(Glimpse::Screen, 20, Hinted::AtPrompt);
    assert_eq!(bench.state(), State::Idle);
}

#[test]
fn text_is_typed_at_an_empty_prompt_only() {
    let mut bench = Bench::running(terminal());
    bench.tell(send("one", "hello"));
    assert_eq!(held_back(&bench), Some(HeldBack::NotAtPrompt));
    assert_eq!(delivery(&bench), None);
    bench.begins(10, "a").shows(Glimpse::Osc, 20, Hinted::AtPrompt);
    assert_eq!(held_back(&bench), Some(HeldBack::TurnOpen), "a forged prompt unlocks nothing");
    bench.ends(30, "a").shows(Glimpse::Screen, 40, Hinted::Asks(approval()));
    assert_eq!(held_back(&bench), Some(HeldBack::Asks));
    bench.shows(Glimpse::Screen, 50, Hinted::AtPrompt);
    let launch = bench.launch();
    bench.tell(Command::PeopleAttached { launch, people: 1 });
    assert_eq!(held_back(&bench), Some(HeldBack::Attended));
    bench.tell(Command::PeopleAttached { launch, people: 0 });
    bench.tell(Command::ProcessSuspended { launch, suspended: true });
    assert_eq!(held_back(&bench), Some(HeldBack::Suspended));
    bench.tell(Command::ProcessSuspended { launch, suspended: false });
    assert_eq!((held_back(&bench), delivery(&bench).as_deref()), (None, Some("one")));
}

/// A terminal session with "hello" typed at its prompt.
pub(crate) fn typed() -> Bench {
    let mut bench = Bench::running(terminal());
    bench.shows(Glimpse::Osc, 10, Hinted::AtPrompt).tell(send("one", "hello"));
    bench.signal(Signal::InputSeen { key: "one".to_owned() });
    bench
}

pub(crate) fn fate(bench: &Bench) -> &MessageFate {
    &bench.session.messages[0].fate
}

#[test]
fn the_next_instruction_and_a_rework_are_typed_though_a_turn_is_expected() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").ends(20, "a").shows(Glimpse::Screen, 5, Hinted::AtPrompt);
    bench.tell(Command::Report {
        from: Reporter::Operator,
        testimony: Testimony::Claim { kind: ClaimKind::Completed, text: None },
    });
    bench.pass(60_000);
    assert!(bench.session.attempt().is_sealed());
    bench.tell(send("next", "next instruction"));
    assert_eq!((bench.state(), bench.session.attempt().no), (State::Working, 2));
    assert_eq!(held_back(&bench), None, "no turn is open by its own record");
    assert_eq!(delivery(&bench).as_deref(), Some("instruction-2"));
    bench.begins(30, "b");
    bench.tell(send("more", "and more"));
    assert_eq!(held_back(&bench), Some(HeldBack::TurnOpen));
    let (key, text) = ("other".to_owned(), "something else".to_owned());
    bench.tell(Command::Send { key, text, mode: SendMode::Supersede });
    assert_eq!(bench.session.attempt().no, 3);
    assert_eq!(held_back(&bench), Some(HeldBack::TurnOpen), "the turn of before is still open");
    bench.ends(40, "b");
    assert_eq!(held_back(&bench), None);
}

#[test]
fn a_turn_is_over_when_the_file_says_so_and_not_at_a_hook_that_may_send_it_on() {
    let mut bench = Bench::running(terminal());
    let launch = bench.launch();
    let stop = |turn: &str| Command::Recorded {
        launch,
        by: Record::Hook,
        place: 0,
        what: Recorded::TurnEnded { turn: Some(turn.to_owned()), end: TurnEnd::Ok, says: None },
    };
    bench.begins(10, "a");
    assert_eq!(bench.try_tell(stop("a")), Err(Rejected::Nothing));
    assert_eq!(bench.state(), State::Working);
    bench.ends(20, "a");
    assert_eq!(bench.state(), State::Idle);
    // The oldest versions record no turns in the rollout; there, only the hook reports them.
    let mut old = Bench::running(terminal());
    let begin = Recorded::TurnStarted { turn: Some("a".to_owned()) };
    old.tell(Command::Recorded { launch, by: Record::Hook, place: 0, what: begin });
    old.tell(stop("a"));
    assert_eq!(old.state(), State::Idle);
}

#[test]
fn a_screen_that_shows_the_same_after_the_codes_told_of_an_error_is_news() {
    let mut bench = Bench::running(terminal());
    bench.shows(Glimpse::Screen, 5, Hinted::AtPrompt).shows(Glimpse::Osc, 7, Hinted::Rests);
    bench.tell(send("k", "text"));
    assert_eq!(held_back(&bench), Some(HeldBack::NotAtPrompt), "the screen was not read since");
    bench.shows(Glimpse::Screen, 9, Hinted::AtPrompt);
    assert_eq!(held_back(&bench), None);
}

#[test]
fn a_screen_that_shows_the_same_after_codes_that_told_of_work_is_news_for_their_last_one_may_be_missed()
 {
    let mut bench = Bench::running(terminal());
    bench.shows(Glimpse::Screen, 5, Hinted::AtPrompt).shows(Glimpse::Osc, 7, Hinted::Working);
    bench.tell(send("k", "text"));
    assert_eq!(held_back(&bench), Some(HeldBack::NotAtPrompt));
    bench.shows(Glimpse::Screen, 9, Hinted::AtPrompt);
    assert_eq!(held_back(&bench), None);
    let launch = bench.launch();
    let again = Command::Hinted { launch, by: Glimpse::Screen, place: 11, what: Hinted::AtPrompt };
    assert_eq!(bench.try_tell(again), Err(Rejected::Nothing), "nothing was said between");
}

#[test]
fn what_was_typed_is_delivered_when_the_agents_own_record_shows_it() {
    let mut bench = typed();
    assert_eq!(*fate(&bench), MessageFate::Queued, "it reached the terminal, not yet the agent");
    assert_eq!(delivery(&bench), None, "it is not typed twice");
    bench.records(20, Recorded::Prompted { text: "something else".to_owned() });
    assert_eq!(*fate(&bench), MessageFate::Queued);
    bench.records(30, Recorded::Prompted { text: " hello \n".to_owned() });
    assert!(matches!(fate(&bench), MessageFate::Delivered { .. }));
}

#[test]
fn what_is_not_proved_is_sent_off_once_more_and_then_waits_with_the_reason() {
    let mut bench = typed();
    bench.pass(2_999);
    assert_eq!(bench.session.messages[0].typed.map(|typed| typed.way), Some(Way::Keys));
    bench.pass(1);
    let (launch, message) = (bench.launch(), "one".to_owned());
    let press = Effect::PressAgain { launch, message };
    assert!(bench.session.effects().contains(&press));
    bench.signal(Signal::InputSeen { key: again("one") });
    assert!(!bench.session.effects().contains(&press));
    bench.pass(3_000);
    assert_eq!(*fate(&bench), MessageFate::Queued);
    assert!(bench.session.messages[0].unproved.is_some());
    assert_eq!(delivery(&bench), None, "it may already be at the prompt");
}

#[test]
fn an_instruction_on_the_command_line_is_proved_whenever_the_agent_takes_it() {
    let instruction = Some("do it".to_owned());
    let mut bench = Bench::running(Spec { instruction, ..terminal() });
    assert_eq!(delivery(&bench), None);
    bench.pass(60_000);
    assert_eq!(*fate(&bench), MessageFate::Queued);
    bench.records(10, Recorded::Prompted { text: "do it".to_owned() });
    assert!(matches!(fate(&bench), MessageFate::Delivered { .. }));
}

#[test]
fn an_answer_is_typed_while_the_terminal_is_seen_to_ask_and_is_proved_by_its_going_on() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Screen, 20, Hinted::Asks(approval()));
    let request = bench.session.requests[0].id;
    bench.tell(Command::Answer { request, revision: 1, reply: Reply::Approve(Scope::Once) });
    let key = delivery(&bench).expect("it is seen to ask");
    bench.signal(Signal::InputSeen { key });
    bench.shows(Glimpse::Screen, 30, Hinted::Working);
    assert!(matches!(fate(&bench), MessageFate::Delivered { .. }));
}

#[test]
fn an_answer_waits_until_the_question_is_drawn_and_a_screen_that_never_showed_it_proves_nothing() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").records(20, Recorded::Asked(approval()));
    bench.shows(Glimpse::Osc, 30, Hinted::Asks(approval()));
    let request = bench.session.requests[0].id;
    bench.tell(Command::Answer { request, revision: 1, reply: Reply::Approve(Scope::Once) });
    assert_eq!(held_back(&bench), Some(HeldBack::AsksNoMore), "a key would go elsewhere");
    bench.shows(Glimpse::Screen, 40, Hinted::Asks(approval()));
    let key = delivery(&bench).expect("it is drawn now");
    bench.signal(Signal::InputSeen { key });
    bench.shows(Glimpse::Title, 50, Hinted::Working);
    assert_eq!(*fate(&bench), MessageFate::Queued, "the title never showed a question");
    bench.shows(Glimpse::Osc, 60, Hinted::Working);
    assert!(matches!(fate(&bench), MessageFate::Delivered { .. }));
}

#[test]
fn an_interrupt_waits_for_an_answer_whose_question_is_not_drawn_yet() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").records(20, Recorded::Asked(approval()));
    let request = bench.session.open_requests().next().unwrap().id;
    bench.tell(Command::Interrupt { key: "leave".to_owned(), text: None });
    assert_eq!(delivery(&bench), None);
    bench.tell(Command::Answer { request, revision: 1, reply: Reply::Approve(Scope::Once) });
    assert_eq!(delivery(&bench), None, "neither the answer nor what would call it off");
    bench.shows(Glimpse::Screen, 5, Hinted::Asks(approval()));
    assert!(delivery(&bench).is_some_and(|key| key.starts_with("answer")));
}

#[test]
fn a_turns_beginning_that_is_read_late_does_not_settle_what_is_asked_in_it() {
    let mut bench = Bench::running(terminal());
    bench.shows(Glimpse::Screen, 10, Hinted::Asks(approval()));
    assert_eq!(bench.state(), State::NeedsInput);
    bench.begins(20, "a");
    assert_eq!(bench.state(), State::NeedsInput, "it is still on the screen");
    bench.shows(Glimpse::Screen, 30, Hinted::Working);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn a_screen_that_is_behind_does_not_settle_an_approval() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").records(20, Recorded::Asked(approval()));
    bench.shows(Glimpse::Osc, 30, Hinted::Asks(approval()));
    bench.shows(Glimpse::Screen, 40, Hinted::Working);
    assert_eq!(bench.state(), State::NeedsInput, "its question is yet to be drawn");
    bench.shows(Glimpse::Osc, 50, Hinted::Working);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn a_screen_that_is_behind_does_not_settle_what_the_codes_let_guess() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Osc, 20, Hinted::Asks(approval()));
    bench.shows(Glimpse::Screen, 30, Hinted::Working);
    assert_eq!(bench.state(), State::NeedsInput, "its question is yet to be drawn");
    bench.shows(Glimpse::Screen, 40, Hinted::Asks(approval()));
    assert_eq!(bench.session.requests.len(), 1);
    bench.shows(Glimpse::Screen, 50, Hinted::Working);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn an_answer_does_not_wait_for_a_text_that_waits_for_it() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Screen, 20, Hinted::Asks(approval()));
    bench.tell(send("one", "hello"));
    assert_eq!(delivery(&bench), None);
    let request = bench.session.requests[0].id;
    bench.tell(Command::Answer { request, revision: 1, reply: Reply::Deny });
    assert_eq!(delivery(&bench).as_deref(), Some("answer-1-1"));
}

#[test]
fn an_answer_that_nothing_shows_is_not_followed_by_the_key_that_would_confirm() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Screen, 20, Hinted::Asks(approval()));
    let request = bench.session.requests[0].id;
    bench.tell(Command::Answer { request, revision: 1, reply: Reply::Deny });
    let key = delivery(&bench).expect("it is seen to ask");
    bench.signal(Signal::InputSeen { key }).pass(3_000);
    let presses = |effect: &Effect| matches!(effect, Effect::PressAgain { .. });
    assert!(!bench.session.effects().iter().any(presses));
    assert!(bench.session.messages[0].unproved.is_some());
}

#[test]
fn an_answer_to_what_is_not_asked_any_more_is_held_back() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").records(20, Recorded::Asked(approval()));
    let request = bench.session.requests[0].id;
    bench.tell(Command::Answer { request, revision: 1, reply: Reply::Deny });
    assert_eq!(held_back(&bench), Some(HeldBack::AsksNoMore));
    assert_eq!(delivery(&bench), None);
}

#[test]
fn a_stopped_process_is_suspended_and_not_stalled() {
    let mut bench = Bench::running(terminal());
    let launch = bench.launch();
    bench.begins(10, "a").tell(Command::ProcessSuspended { launch, suspended: true });
    assert!(bench.has(Flag::Suspended));
    assert_eq!(bench.session.deadline(), None, "nothing is expected of it");
    bench.tell(Command::ProcessSuspended { launch, suspended: false });
    assert!(!bench.has(Flag::Suspended));
    assert!(bench.session.deadline().is_some());
}

#[test]
fn retrying_is_shown_and_the_window_goes_on_from_what_was_recorded_last() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").pass(200_000);
    let detail = "Reconnecting".to_owned();
    bench.shows(Glimpse::Screen, 20, Hinted::Retrying { detail });
    assert!(bench.has(Flag::Retrying));
    assert_eq!(bench.session.deadline().map(|(at, _)| at), Some(bench.now.mono_ms + 100_000));
}

#[test]
fn an_adopted_agent_is_watched_and_its_end_has_no_code() {
    let mut bench = watching(adopted(false));
    assert_eq!(bench.state(), State::Idle);
    bench.begins(10, "a").pass(1_000);
    assert_eq!(bench.state(), State::Working);
    let launch = bench.launch();
    bench.tell(Command::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    bench.settle();
    assert_eq!(bench.state(), State::EndedUnclaimed);
    assert!(bench.has(Flag::ExitCodeUnobserved) && bench.has(Flag::Adopted));
    assert_eq!(bench.session.launches.len(), 1, "it is not started again");
}

#[test]
fn of_an_adopted_agent_without_a_record_it_is_known_that_its_turns_are_not_seen() {
    let mut spec = adopted(true);
    let later = spec.clone();
    spec.adopted.as_mut().unwrap().rollout = Some("/r".to_owned());
    let bench = watching(spec.clone());
    assert!(!bench.has(Flag::TurnsUnseen), "its record tells of them");
    let mut bench = watching(later);
    assert!(bench.has(Flag::TurnsUnseen), "it has written nothing yet");
    let launch = bench.launch();
    let (by, what) = (Record::Rollout, Recorded::Named { thread: "t".to_owned() });
    bench.tell(Command::Recorded { launch, by, place: 1, what });
    bench.begins(10, "a");
    assert_eq!((bench.state(), bench.has(Flag::TurnsUnseen)), (State::Working, false));
    spec.agent.driver = Driver::Terminal;
    let mut bench = watching(spec);
    assert_eq!((bench.state(), bench.has(Flag::TurnsUnseen)), (State::Idle, true));
    let launch = bench.launch();
    bench.tell(Command::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    bench.settle();
    assert!(!bench.has(Flag::TurnsUnseen), "it has ended");
}

#[test]
fn what_an_adopted_agent_asked_is_over_with_its_process_for_nobody_goes_on_with_it() {
    let mut bench = watching(adopted(true));
    bench.begins(10, "a").shows(Glimpse::Screen, 20, Hinted::Asks(approval()));
    assert_eq!(bench.state(), State::NeedsInput);
    let request = bench.session.requests[0].id;
    let launch = bench.launch();
    bench.tell(Command::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    bench.settle();
    assert_eq!(bench.state(), State::EndedUnclaimed);
    assert!(bench.session.attempt().is_sealed());
    let answer = Command::Answer { request, revision: 1, reply: Reply::Approve(Scope::Once) };
    let why = "the process that asked has ended";
    assert_eq!(bench.try_tell(answer), Err(Rejected::RequestSettled(request, why)));
}

#[test]
fn an_adopted_agent_is_never_ended_by_provost() {
    let mut bench = watching(adopted(true));
    assert_eq!(bench.try_tell(Command::Stop), Err(Rejected::NotOurs));
    bench.tell(Command::Cancel { because: "enough".to_owned() });
    bench.settle();
    assert_eq!(bench.state(), State::Cancelled);
    assert!(bench.session.attempt().is_sealed(), "its process need not end for that");
    let follows = |effect: &Effect| matches!(effect, Effect::Follow(_));
    assert!(!bench.session.effects().iter().any(follows), "it is no longer watched");
    assert!(bench.log.iter().all(|(_, event)| !matches!(event, Event::StopAsked(_))));
}

#[test]
fn who_has_no_pane_cannot_be_told_anything() {
    let mut bench = watching(adopted(false));
    assert_eq!(bench.try_tell(send("one", "hello")), Err(Rejected::NoWayIn));
    let mut bench = watching(adopted(true));
    assert_eq!(bench.try_tell(send("one", "hello")), Ok(()));
    let launch = bench.launch();
    bench.tell(Command::ProcessUnobserved { launch, why: "it left".to_owned() });
    assert_eq!(bench.try_tell(send("two", "hello")), Err(Rejected::EndedElsewhere));
}

#[test]
fn losing_sight_of_an_adopted_agent_ends_nothing() {
    let mut bench = watching(adopted(false));
    let launch = bench.launch();
    bench.tell(Command::ProcessUnknown { launch, why: "could not look".to_owned() });
    bench.pass(24 * 3_600_000);
    assert!(!bench.state().is_terminal());
    let mut unseen = Bench::new(adopted(false));
    unseen.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = unseen.launch();
    unseen.tell(Command::LaunchAdopted { launch, child: None });
    unseen.pass(24 * 3_600_000);
    assert!(!unseen.state().is_terminal(), "it was adopted by its record alone");
    unseen.begins(10, "a");
    assert_eq!(unseen.state(), State::Working);
}

#[test]
fn what_was_said_last_by_whom_and_where_is_kept() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Title, 20, Hinted::Working);
    let watch = &bench.session.current_launch().expect("it runs").watch;
    let record = watch.records.get(&Record::Rollout).expect("it spoke");
    assert_eq!((record.said, record.place), (Said::TurnStarted, 10));
    let hint = watch.hints.get(&Glimpse::Title).expect("it showed");
    assert_eq!((hint.said, hint.place), (Said::Working, 20));
}

#[test]
fn a_dead_terminal_shows_nothing_any_more() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Osc, 20, Hinted::Working).end(End::Signal(9));
    assert_eq!(bench.state(), State::Failed);
    let launch = bench.launch();
    let what = Hinted::AtPrompt;
    let late = Command::Hinted { launch, by: Glimpse::Osc, place: 30, what };
    assert_eq!(bench.try_tell(late), Err(Rejected::Nothing));
}

#[test]
fn an_answer_to_somebody_elses_agent_is_refused_without_a_pane_and_after_its_end() {
    for pane in [false, true] {
        let mut bench = watching(adopted(pane));
        bench.begins(10, "a").records(20, Recorded::Asked(approval()));
        let (launch, request) = (bench.launch(), bench.session.requests[0].id);
        let answer = || Command::Answer { request, revision: 1, reply: Reply::Deny };
        if !pane {
            assert_eq!(bench.try_tell(answer()), Err(Rejected::NoWayIn));
        }
        bench.tell(Command::ProcessUnobserved { launch, why: "it left".to_owned() });
        let why = "the process that asked has ended";
        assert_eq!(bench.try_tell(answer()), Err(Rejected::RequestSettled(request, why)));
        assert_eq!(bench.session.launches.len(), 1, "it is not started again");
    }
}

#[test]
fn a_contradiction_that_lasts_is_shown_with_both_sides_and_changes_nothing() {
    let mut bench = Bench::running(terminal());
    let launch = bench.launch();
    let started = Recorded::TurnStarted { turn: Some("u".to_owned()) };
    bench.tell(Command::Recorded { launch, by: Record::Rollout, place: 1, what: started });
    let by = Glimpse::Osc;
    bench.tell(Command::Hinted { launch, by, place: 1, what: Hinted::Working });
    let found = |bench: &Bench| bench.session.launches[0].contradiction(bench.now.mono_ms);
    bench.pass(10_000);
    assert_eq!(found(&bench), None);
    bench.tell(Command::Hinted { launch, by, place: 2, what: Hinted::AtPrompt });
    bench.pass(1_999);
    assert_eq!(found(&bench), None, "one source is often later than the other");
    bench.pass(1);
    let told = found(&bench).expect("it lasts");
    assert_eq!((told.shows, told.by, told.in_turn), (Said::AtPrompt, by, true));
    assert_eq!(bench.state(), State::Working);
    let ended = Recorded::TurnEnded { turn: Some("u".to_owned()), end: TurnEnd::Ok, says: None };
    bench.tell(Command::Recorded { launch, by: Record::Rollout, place: 2, what: ended });
    assert_eq!(found(&bench), None);
    bench.tell(Command::Hinted { launch, by, place: 3, what: Hinted::Working });
    bench.pass(2_000);
    assert_eq!(found(&bench).map(|told| told.in_turn), Some(false));
    assert_eq!(bench.state(), State::Idle);
}
