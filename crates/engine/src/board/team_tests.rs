//! Tests of teams on the board.

use provost_core::{
    ids::{LaunchId, SessionId, TeamId},
    session::{Cursor, ProcessIdentity, SessionCommand, StreamSignal, TeamMembership, TurnEnd},
    team::{
        Event, MemberLabels, MemberRole, MessageChannel, MessageStatus, NewMessage, Priority,
        Recipient, Team, TeamActor, TeamCommand, TeamLimits, TeamMessageKind, TeamSpec,
    },
    time::Moment,
};
use provost_ledger::{Ledger, MemLedger, ReadLedger};

use super::{Board, BoardTransaction};
use crate::{projection, stream};

fn id() -> TeamId {
    "00000000-0000-7000-8000-000000000007".parse().expect("it is a UUID")
}

/// A board with its ledger. Only the test's commands change anything.
#[derive(Default)]
struct TeamTestBoard {
    board: Board,
    ledger: MemLedger,
    now: u64,
}

impl TeamTestBoard {
    fn paired() -> TeamTestBoard {
        let mut test_board = TeamTestBoard::default();
        let spec = TeamSpec {
            name: "limits".to_owned(),
            goal: "limit how often each caller may call".to_owned(),
            summary: None,
            project: None,
            cwd: "/project".to_owned(),
            checks: Vec::new(),
            consent: Default::default(),
            config: Default::default(),
            policy: None,
            bounds: TeamLimits { offer_ms: 10, lease_ms: 100, ..TeamLimits::default() },
        };
        test_board.turn(|turn| drop(turn.open_team(id(), spec, &[], "operator").cloned()));
        let (name, labels) = ("hand".to_owned(), MemberLabels::default());
        test_board.command(TeamCommand::Bind {
            name,
            role: MemberRole::Worker,
            session: None,
            labels,
        });
        test_board
    }

    fn turn(&mut self, change: impl FnOnce(&mut BoardTransaction<'_>)) {
        let at = Moment { wall_ms: self.now as i64, mono_ms: self.now };
        let mut turn = self.board.begin(at);
        for task in self.board.teams.due(self.now) {
            turn.advance_team(task);
        }
        change(&mut turn);
        if let Some((batch, staged)) = turn.stage() {
            let committed = self.ledger.append(batch).expect("memory takes all");
            self.board.commit(staged, &committed);
        }
    }

    fn command(&mut self, command: TeamCommand) -> Vec<Event> {
        let mut came = Vec::new();
        self.turn(|turn| {
            let done = turn.command_team(id(), &TeamActor::Operator, &command, "operator");
            came = done.expect("the board holds it").expect("it is allowed").1;
        });
        came
    }

    fn post(&mut self, key: &str) {
        self.command(TeamCommand::Post(Box::new(NewMessage {
            key: key.to_owned(),
            correlation: None,
            channel: MessageChannel::Cli,
            to: Recipient::Member("hand".to_owned()),
            kind: TeamMessageKind::Instruction,
            text: "do it".to_owned(),
            priority: Priority::Normal,
            expires_in_ms: None,
            steer: false,
        })));
    }

    fn task(&self) -> &Team {
        self.board.team(id()).expect("it is open")
    }
}

#[test]
fn stored_team_folds_to_board_state() {
    let mut test_board = TeamTestBoard::paired();
    test_board.post("first");
    test_board.command(TeamCommand::Next { consumer: "hand".to_owned() });
    let stream = stream::stream_id(id());
    let records = test_board.ledger.read_stream(&stream, 0).expect("memory can be read");
    let folded = stream::fold::<Team>(&stream, None, &records).expect("it was written by us");
    assert_eq!(&folded, test_board.task());
    let kept = stream::refold(&stream, &records).expect("it folds");
    assert_eq!((kept.open, kept.pending), (true, stream::pending_items(test_board.task())));
    assert_eq!(kept.projection, Some(projection::team::to_json(test_board.task())));
}

#[test]
fn offered_message_returns_at_its_deadline() {
    let mut test_board = TeamTestBoard::paired();
    test_board.post("first");
    test_board.command(TeamCommand::Next { consumer: "hand".to_owned() });
    assert_eq!(test_board.board.next_deadline(), Some(10));
    test_board.now = 10;
    test_board.turn(|_| ());
    assert_eq!(test_board.task().messages[0].status, MessageStatus::Stored);
    assert_eq!(test_board.board.next_deadline(), None);
}

/// Counts how often the rules of a team read a session when a paused team resumes, and each of
/// its idle workers receives a message.
fn look_ups_on_resume(workers: usize) -> usize {
    let mut test_board = TeamTestBoard::paired();
    test_board.command(TeamCommand::Pause { because: "the plan changes".to_owned() });
    test_board.turn(|turn| {
        for n in 0..workers {
            let session = idle_session(turn, n);
            let (name, labels) = (format!("hand-{n}"), MemberLabels::default());
            let (role, session) = (MemberRole::Worker, Some(session));
            let bind = TeamCommand::Bind { name, role, session, labels };
            command(turn, &bind);
        }
    });
    let mut look_ups = 0;
    test_board.turn(|turn| {
        command(turn, &TeamCommand::Resume);
        look_ups = turn.look_ups.get();
    });
    let pushed = test_board.task().messages.iter().filter(|one| one.status.lease().is_some());
    assert_eq!(pushed.count(), workers);
    look_ups
}

fn command(turn: &mut BoardTransaction<'_>, command: &TeamCommand) {
    let done = turn.command_team(id(), &TeamActor::Operator, command, "operator");
    done.expect("the board holds it").expect("it is allowed");
}

/// Opens a session whose agent has ended its first turn.
fn idle_session(turn: &mut BoardTransaction<'_>, n: usize) -> SessionId {
    let id: SessionId = format!("00000000-0000-7000-8000-{n:012}").parse().expect("it is a UUID");
    let mut spec = super::tests::spec();
    spec.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    turn.open(id, spec, "test");
    let process = || ProcessIdentity { pid: 1, start_time: 1, boot_id: "b".to_owned() };
    let (launch, end) = (LaunchId { session: id, no: 1 }, TurnEnd::Ok);
    let ended = StreamSignal::TurnEnded { turn: None, end, usage: None, says: None };
    let cursor = Cursor { offset: 1, skip: 0 };
    for command in [
        SessionCommand::WorkPrepared { cwd: "/".to_owned(), base: None },
        SessionCommand::LaunchStarted { launch, holder: process(), child: process() },
        SessionCommand::Observed { launch, signal: ended, cursor },
    ] {
        turn.command(id, &command, "test").expect("it is open").expect("it is allowed");
    }
    id
}

#[test]
fn effort_of_resuming_is_proportional_to_the_members() {
    let (few, many) = (look_ups_on_resume(50), look_ups_on_resume(200));
    assert!(many <= 4 * few, "{few} look-ups for 50 workers, {many} for 200");
    assert!(many <= 12 * 200, "{many} look-ups for 200 workers");
}

#[test]
fn closed_team_is_evicted() {
    let mut test_board = TeamTestBoard::paired();
    test_board.command(TeamCommand::Cancel { because: "it is not needed any more".to_owned() });
    assert_eq!(test_board.board.team(id()), None);
    assert_eq!(test_board.board.teams.len(), 0);
}
