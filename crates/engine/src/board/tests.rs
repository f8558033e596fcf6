//! Tests for effects that encounter a shortage.

use provost_core::{
    ids::{LaunchId, SessionId},
    lifecycle::ClaimKind,
    request::{AgentRequest, BlockingMode, RequestKind},
    session::{
        Cursor, ProcessIdentity, ReportBody, Reporter, SessionCommand, SessionEffect, SessionSpec,
        StreamSignal, TurnEnd,
    },
    shortage::{Resource, Shortage},
};
use provost_ledger::{Ledger, MemLedger};

use super::*;

/// A board with one session. Only the test's commands change anything.
struct ShortageTestBoard {
    board: Board,
    ledger: MemLedger,
    id: SessionId,
    cursor: u64,
}

impl ShortageTestBoard {
    /// Opens a session whose agent claims that its checked work is complete.
    fn with_claim() -> ShortageTestBoard {
        let id = "00000000-0000-7000-8000-000000000007".parse().expect("it is a UUID");
        let (board, ledger) = (Board::default(), MemLedger::default());
        let mut test_board = ShortageTestBoard { board, ledger, id, cursor: 0 };
        test_board.commit(|turn| _ = turn.open(id, spec(), "test"));
        let process = || ProcessIdentity { pid: 1, start_time: 1, boot_id: "b".to_owned() };
        let (launch, from) = (test_board.launch(), Reporter::Launch(test_board.launch()));
        let claim = ReportBody::Claim { kind: ClaimKind::Completed, text: None };
        test_board.apply(&[
            SessionCommand::WorkPrepared { cwd: "/".to_owned(), base: None },
            SessionCommand::LaunchStarted { launch, holder: process(), child: process() },
            SessionCommand::Report { from, testimony: claim },
        ]);
        test_board
    }

    fn launch(&self) -> LaunchId {
        LaunchId { session: self.id, no: 1 }
    }

    fn signal(&mut self, signal: StreamSignal) -> SessionCommand {
        self.cursor += 1;
        let cursor = Cursor { offset: self.cursor, skip: 0 };
        SessionCommand::Observed { launch: self.launch(), signal, cursor }
    }

    fn turn_ended(&mut self) -> SessionCommand {
        let end = TurnEnd::Ok;
        self.signal(StreamSignal::TurnEnded { turn: None, end, usage: None, says: None })
    }

    /// Returns a blocking question from the agent, and its withdrawal.
    fn question(&mut self) -> (SessionCommand, SessionCommand) {
        let native = "q".to_owned();
        let asked = AgentRequest {
            native: native.clone(),
            kind: RequestKind::Question,
            waiting: BlockingMode::Blocking,
            title: String::new(),
            questions: Vec::new(),
            subject: None,
        };
        let asked = self.signal(StreamSignal::RequestOpened(asked));
        (asked, self.signal(StreamSignal::RequestWithdrawn { native }))
    }

    /// Commits several commands together. The session accepts all of the commands, except a report of a shortage for an
    /// effect that is not pending.
    fn apply(&mut self, commands: &[SessionCommand]) -> CommitChanges {
        let id = self.id;
        self.commit(|turn| {
            for command in commands {
                let outcome = turn.command(id, command, "test").expect("the board holds it");
                let is_shortage = matches!(command, SessionCommand::EffectShortage { .. });
                assert_eq!(outcome.is_err(), is_shortage, "{command:?}: {outcome:?}");
            }
        })
    }

    fn commit(&mut self, change: impl FnOnce(&mut BoardTransaction<'_>)) -> CommitChanges {
        let mut turn = self.board.begin(Moment { wall_ms: 1_000, mono_ms: 1_000 });
        change(&mut turn);
        let (batch, staged) = turn.stage().expect("something changed");
        let committed = self.ledger.append(batch).expect("memory takes all");
        self.board.commit(staged, &committed)
    }
}

pub(super) fn spec() -> SessionSpec {
    serde_json::from_value(serde_json::json!({
        "name": "s", "role": null, "project": null, "cwd": "/",
        "agent": {
            "name": "a", "argv": ["a"], "env": {}, "pass_env": [],
            "adapter": "jsonl", "mode": "headless", "capabilities": {"conversation": {}},
        },
        "instruction": "do it", "work": "plain", "setup": null, "checks": ["check"], "keep": [],
        "empty_diff": "accepted", "exit_zero": "not_a_claim", "on_finish": "close", "bounds": {}, "hooks": {},
    }))
    .expect("it is a spec")
}

/// While a question is open, the agent's turn is not over, so no snapshot of its work is pending.
/// Here, one commit opens a question, reports a shortage for the snapshot, and withdraws the
/// question. Afterwards, the snapshot is pending under the same key as before. Because of the
/// shortage, it must be started again.
#[test]
fn effect_restarts_after_shortage_while_not_pending() {
    let mut test_board = ShortageTestBoard::with_claim();
    let ended = test_board.turn_ended();
    let snapshot = SessionEffect::TakeSnapshot { attempt: 1, no: 1 };
    let changes = test_board.apply(&[ended]);
    assert!(changes.sessions.start.contains(&(test_board.id, snapshot.clone())), "{changes:?}");

    let (asked, withdrawn) = test_board.question();
    let shortage = Shortage::new(Resource::DiskSpace, "no space left");
    let short = SessionCommand::EffectShortage { effect: snapshot.key(), tries: 0, shortage };
    let changes = test_board.apply(&[asked, short, withdrawn]);
    assert_eq!(changes.sessions.start, [(test_board.id, snapshot)]);
}

/// The same case without a shortage: the question is asked and withdrawn in one commit, so the
/// snapshot was pending before and after it. The effect stays in progress.
#[test]
fn effect_in_progress_is_not_started_twice() {
    let mut test_board = ShortageTestBoard::with_claim();
    let ended = test_board.turn_ended();
    test_board.apply(&[ended]);
    let (asked, withdrawn) = test_board.question();
    let changes = test_board.apply(&[asked, withdrawn]);
    assert_eq!((changes.sessions.start, changes.sessions.cancel), (Vec::new(), Vec::new()));
}
