//! Orders the resumption of sessions that are waiting for the usage limit of the same account.
//!
//! A limit belongs to the account, so the account's sessions resume one after another: the first at
//! the reset time plus the account's jitter, and each further one after another spacing interval.
//! If a session hits the limit again, sessions that were already waiting when it resumed move
//! behind the new reset time. The slots are stored only in the sessions' own events, so a restart
//! changes nothing:
//!
//! - a new slot is at least one spacing interval in the future, so it keeps that distance from
//!   every earlier resume;
//! - when a session resumes, late or not, slots within the spacing after it move in the same
//!   commit.

use std::collections::BTreeSet;

use provost_core::{
    ids::SessionId,
    session::{LimitWait, Session},
    time::Moment,
};

/// A session and the time at which it may resume, in monotonic milliseconds.
pub(crate) type ResumeSlot = (SessionId, u64);

/// The sessions of one account that are waiting for its limit.
pub(crate) struct LimitQueue<'s> {
    now: Moment,
    /// The session that changed.
    subject: &'s Session,
    others: Vec<&'s Session>,
    spacing_ms: u64,
}

impl<'s> LimitQueue<'s> {
    /// Collects the waiting sessions of the subject's account. `None` if the subject does not share
    /// its limits with other sessions.
    pub(crate) fn for_subject(
        subject: &'s Session,
        all: impl Iterator<Item = &'s Session>,
        now: Moment,
    ) -> Option<LimitQueue<'s>> {
        let account = account(subject)?;
        let waits = |session: &&Session| {
            session.id != subject.id
                && session.limit_wait().is_some()
                && self::account(session) == Some(account)
        };
        let others: Vec<&Session> = all.filter(waits).collect();
        let spacings = others.iter().chain([&subject]).map(|s| s.spec.bounds.limit_spacing_ms);
        let spacing_ms = spacings.max().unwrap_or_default();
        Some(LimitQueue { now, subject, others, spacing_ms })
    }

    /// Returns the slots that change because the subject hit the limit, with the subject's own slot last.
    pub(crate) fn slots_after_limit(&self) -> Vec<ResumeSlot> {
        let Some(wait) = self.subject.limit_wait() else { return Vec::new() };
        let from = wait.until_mono_ms.max(self.now.deadline(self.spacing_ms));
        let outdated = |other: &LimitWait| {
            let found_out = self.subject.spending.released_ms > Some(other.since.mono_ms);
            found_out && other.until_mono_ms < from
        };
        self.reassign(from, outdated, Some(self.subject.id))
    }

    /// Returns the slots that change because the subject is resuming now.
    pub(crate) fn slots_after_resume(&self) -> Vec<ResumeSlot> {
        let from = self.now.deadline(self.spacing_ms);
        self.reassign(from, |other| other.until_mono_ms < from, None)
    }

    /// Assigns the earliest free slots at or after `from` to the sessions that have to move, in
    /// their current order.
    fn reassign(
        &self,
        from: u64,
        to_move: impl Fn(&LimitWait) -> bool,
        last: Option<SessionId>,
    ) -> Vec<ResumeSlot> {
        let waits = self.others.iter().filter_map(|other| Some((other.id, other.limit_wait()?)));
        let (moving, staying): (Vec<_>, Vec<_>) = waits.partition(|(_, wait)| to_move(wait));
        let mut taken: BTreeSet<u64> =
            staying.into_iter().map(|(_, wait)| wait.until_mono_ms).collect();
        let mut moving: Vec<(u64, SessionId)> =
            moving.into_iter().map(|(id, wait)| (wait.until_mono_ms, id)).collect();
        moving.sort();
        let in_order = moving.into_iter().map(|(_, id)| id).chain(last);
        in_order
            .map(|id| {
                let at = first_free(&taken, from, self.spacing_ms);
                taken.insert(at);
                (id, at)
            })
            .collect()
    }
}

fn account(session: &Session) -> Option<&str> {
    session.spec.agent.profile.account.as_deref()
}

/// Returns the earliest time at or after `from` that keeps the spacing to all slots that are taken.
fn first_free(taken: &BTreeSet<u64>, from: u64, spacing_ms: u64) -> u64 {
    taken.iter().fold(from, |at, taken| {
        if taken.abs_diff(at) < spacing_ms { taken.saturating_add(spacing_ms) } else { at }
    })
}

#[cfg(test)]
mod tests {
    use provost_core::{
        ids::LaunchId,
        session::{Cursor, ProcessIdentity, SessionCommand, SessionSpec, StreamSignal, TurnEnd},
    };
    use provost_ledger::{Ledger, MemLedger, ReadLedger};

    use super::*;
    use crate::{board::Board, stream};

    const RESET: u64 = 3_600_000;

    /// A board with its ledger. Only the test's commands change anything.
    #[derive(Default)]
    struct LimitTestBoard {
        board: Board,
        ledger: MemLedger,
        now: u64,
        cursor: u64,
    }

    impl LimitTestBoard {
        fn now(&self) -> Moment {
            Moment { wall_ms: self.now as i64, mono_ms: self.now }
        }

        /// Opens one working session for each of the accounts.
        fn with(accounts: &[Option<&str>]) -> (LimitTestBoard, Vec<SessionId>) {
            let mut test_board = LimitTestBoard { now: 1_000, ..LimitTestBoard::default() };
            let ids =
                accounts.iter().enumerate().map(|(no, account)| test_board.open(no, *account));
            let ids = ids.collect();
            (test_board, ids)
        }

        fn open(&mut self, no: usize, account: Option<&str>) -> SessionId {
            let id = SessionId(serde_json::from_str(&format!("\"{:032x}\"", no + 1)).unwrap());
            let mut turn = self.board.begin(self.now());
            turn.open(id, spec(account), "test");
            let (batch, staged) = turn.stage().unwrap();
            let committed = self.ledger.append(batch).unwrap();
            self.board.commit(staged, &committed);
            let who = || ProcessIdentity { pid: 1, start_time: 1, boot_id: "b".to_owned() };
            self.command(id, SessionCommand::WorkPrepared { cwd: "/".to_owned(), base: None });
            let launch = LaunchId { session: id, no: 1 };
            self.command(id, SessionCommand::LaunchStarted { launch, holder: who(), child: who() });
            self.signal(id, StreamSignal::Ready { thread: Some("t".to_owned()) });
            id
        }

        fn signal(&mut self, id: SessionId, signal: StreamSignal) {
            self.cursor += 1;
            let launch = LaunchId { session: id, no: 1 };
            let cursor = Cursor { offset: self.cursor, skip: 0 };
            self.command(id, SessionCommand::Observed { launch, signal, cursor });
        }

        fn limit(&mut self, id: SessionId, until_ms: Option<u64>) {
            let end = TurnEnd::Limited { until_ms, detail: "used up".to_owned() };
            self.signal(id, StreamSignal::TurnEnded { turn: None, end, usage: None, says: None });
        }

        fn command(&mut self, id: SessionId, command: SessionCommand) {
            let mut turn = self.board.begin(self.now());
            turn.command(id, &command, "test").unwrap().unwrap();
            if let Some((batch, staged)) = turn.stage() {
                let committed = self.ledger.append(batch).unwrap();
                self.board.commit(staged, &committed);
            }
        }

        /// Advances the clock as the owner does, and returns the sessions that resumed.
        fn at(&mut self, now: u64) -> Vec<SessionId> {
            self.now = now;
            let waited = self.waiting();
            let mut turn = self.board.begin(self.now());
            for id in self.board.sessions.due(self.now().mono_ms) {
                turn.apply_deadline(id, |_| Some(now));
            }
            if let Some((batch, staged)) = turn.stage() {
                let committed = self.ledger.append(batch).unwrap();
                self.board.commit(staged, &committed);
            }
            let waits = self.waiting();
            waited.into_iter().filter(|id| !waits.contains(id)).collect()
        }

        fn waiting(&self) -> Vec<SessionId> {
            self.board.sessions.iter().filter(|s| s.limit_wait().is_some()).map(|s| s.id).collect()
        }

        fn slot(&self, id: SessionId) -> u64 {
            self.board.session(id).unwrap().limit_wait().unwrap().until_mono_ms
        }

        /// Rebuilds the board from the ledger alone.
        fn restart(&mut self) {
            self.board = Board::default();
            for state in self.ledger.open_streams().unwrap() {
                let name = state.head.stream;
                let subject = stream::parse_subject(name.as_str()).unwrap();
                self.board.load(&self.ledger, subject).unwrap();
            }
        }
    }

    fn spec(account: Option<&str>) -> SessionSpec {
        let mut spec: SessionSpec = serde_json::from_value(serde_json::json!({
            "name": "s", "role": null, "project": null, "cwd": "/",
            "agent": {
                "name": "talker", "argv": ["talker"], "env": {}, "pass_env": [],
                "adapter": "sample", "mode": "headless",
                "capabilities": {"conversation": {"handshake": true, "resume": true, "confirms_input": true}},
            },
            "instruction": "do it", "work": "plain", "setup": null, "checks": [], "keep": [],
            "empty_diff": "refused", "exit_zero": "not_a_claim", "on_finish": "close", "bounds": {}, "hooks": {},
        }))
        .unwrap();
        assert_eq!(spec.agent.profile.account, None);
        spec.agent.profile.account = account.map(str::to_owned);
        spec.bounds.limit_jitter_ms = 0;
        spec.bounds.stale_ms = 100 * RESET;
        spec
    }

    fn spacing() -> u64 {
        spec(None).bounds.limit_spacing_ms
    }

    #[test]
    fn a09_account_sessions_resume_in_turn_over_restarts() {
        let (mut test_board, ids) = LimitTestBoard::with(&[Some("a"); 3]);
        for id in ids.iter().rev() {
            test_board.limit(*id, Some(RESET));
            test_board.now += 1;
        }
        let slots = [2, 1, 0].map(|at| test_board.slot(ids[at]));
        assert_eq!(slots, [RESET, RESET + spacing(), RESET + 2 * spacing()]);
        test_board.restart();
        assert_eq!(slots, [2, 1, 0].map(|at| test_board.slot(ids[at])));
        assert_eq!(test_board.at(RESET - 1), []);
        assert_eq!(test_board.at(RESET), [ids[2]]);
        assert_eq!(test_board.at(RESET + spacing() - 1), []);
        assert_eq!(test_board.at(RESET + spacing()), [ids[1]]);
        assert_eq!(test_board.at(RESET + 2 * spacing()), [ids[0]]);
    }

    #[test]
    fn a09_repeated_limit_moves_others_behind_reset() {
        let (mut test_board, ids) = LimitTestBoard::with(&[Some("a"); 4]);
        ids[..3].iter().for_each(|id| test_board.limit(*id, Some(RESET)));
        assert_eq!(test_board.at(RESET), [ids[0]]);
        test_board.limit(ids[0], Some(2 * RESET));
        let slots = [1, 2, 0].map(|at| test_board.slot(ids[at]));
        assert_eq!(slots, [2 * RESET, 2 * RESET + spacing(), 2 * RESET + 2 * spacing()]);
        assert_eq!(
            test_board.board.session(ids[1]).unwrap().attempt().limit_waits,
            1,
            "it probed once"
        );
        test_board.limit(ids[3], Some(RESET));
        let soon = RESET + spacing();
        assert_eq!(test_board.slot(ids[3]), soon, "a free slot before them is used");
        assert_eq!(
            test_board.slot(ids[1]),
            2 * RESET,
            "a session without newer facts moves no other"
        );
        assert_eq!(test_board.at(soon), [ids[3]]);
        test_board.limit(ids[3], None);
        let default = soon + spec(None).bounds.limit_wait_ms;
        assert_eq!(test_board.slot(ids[3]), default, "no slot comes before that");
        assert_eq!(test_board.slot(ids[1]), 2 * RESET);
    }

    #[test]
    fn a09_missed_slots_are_spaced_out() {
        let (mut test_board, ids) = LimitTestBoard::with(&[Some("a"); 3]);
        ids.iter().for_each(|id| test_board.limit(*id, Some(RESET)));
        test_board.restart();
        let late = 10 * RESET;
        assert_eq!(test_board.at(late), [ids[0]]);
        assert_eq!(test_board.at(late + spacing() - 1), []);
        assert_eq!(test_board.at(late + spacing()), [ids[1]]);
        assert_eq!(test_board.at(late + 2 * spacing()), [ids[2]]);
    }

    #[test]
    fn a09_wait_is_at_least_the_spacing() {
        let (mut test_board, ids) = LimitTestBoard::with(&[Some("a"), Some("a"), None]);
        test_board.limit(ids[0], Some(0));
        assert_eq!(
            test_board.slot(ids[0]),
            test_board.now + spacing(),
            "not even if the reset is past"
        );
        let first = test_board.slot(ids[0]);
        assert_eq!(test_board.at(first), [ids[0]]);
        test_board.limit(ids[1], Some(0));
        assert_eq!(test_board.slot(ids[1]), first + spacing());
        test_board.limit(ids[2], Some(0));
        assert_eq!(test_board.waiting(), [ids[1]], "a session without an account does not wait");
    }

    #[test]
    fn a09_accounts_are_independent() {
        let (mut test_board, ids) = LimitTestBoard::with(&[Some("a"), Some("b"), None]);
        ids.iter().for_each(|id| test_board.limit(*id, Some(RESET)));
        assert_eq!(test_board.at(RESET), ids);
    }

    #[test]
    fn a09_cancelled_session_frees_its_slot() {
        let (mut test_board, ids) = LimitTestBoard::with(&[Some("a"); 2]);
        test_board.limit(ids[0], Some(RESET));
        test_board.command(ids[0], SessionCommand::Cancel { because: "enough".to_owned() });
        test_board.limit(ids[1], Some(RESET));
        assert_eq!(test_board.slot(ids[1]), RESET);
    }
}
