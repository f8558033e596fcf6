//! The newest events of a team. The events are read from the end of the team's stream, so the length of the stream does
//! not matter.

use provost_api::{ApiError, RecentEventsRow};
use provost_core::{ids::TeamId, team::Team};
use provost_ledger::ReadLedger;

use super::{
    ALL_KINDS, fold_error, not_found,
    replay::{TeamHistory, redact},
};
use crate::{shell::read_error, stream};

/// The maximum number of events to show in one news reply.
const MAX_NEWS: u64 = 20;

/// Returns the events of a team that follow an event of the ledger, without any text written by
/// users or agents. The result contains only the newest of these events and the number of all of
/// them. Nothing is marked as read.
///
/// Reads the newest events and those after the last snapshot. An event about a message that the
/// team no longer keeps lacks its correlation id, unless the message was stored among these events.
pub fn news(
    ledger: &dyn ReadLedger,
    id: TeamId,
    since: Option<u64>,
) -> Result<RecentEventsRow, ApiError> {
    let seq = ledger.last_seq().map_err(|why| read_error(&why))?;
    let stream = stream::stream_id(id);
    let state = ledger.stream(&stream).map_err(|why| read_error(&why))?;
    let state = state.ok_or_else(|| not_found(ledger, &ALL_KINDS, stream.key()))?;
    let (version, created_seq) = (state.head.version, state.head.created_seq);
    let seen = match since {
        Some(since) if since >= created_seq => {
            ledger.stream_version_at(&stream, since).map_err(|why| read_error(&why))?
        }
        Some(_) | None => 0,
    };
    let before = version.saturating_sub(MAX_NEWS).max(seen);
    let folded = stream::usable_snapshot_version::<Team>(state.snapshot.as_ref());
    let mut records =
        ledger.read_stream(&stream, folded.min(before)).map_err(|why| read_error(&why))?;
    // Events that were recorded in the meantime are part of the next reply.
    records.retain(|record| record.version <= version);
    let after = records.iter().position(|record| record.version > folded);
    let tail = after.map_or(&[][..], |at| &records[at..]);
    let snapshot = if folded > 0 { state.snapshot.as_ref() } else { None };
    let team = stream::fold::<Team>(&stream, snapshot, tail).map_err(|why| fold_error(&why))?;
    let mut rows = TeamHistory::describe_events(team, records)?;
    rows.drain(..rows.len().saturating_sub((version - before) as usize));
    rows.iter_mut().for_each(redact);
    Ok(RecentEventsRow { since, seq, total: (version - seen) as usize, events: rows })
}

#[cfg(test)]
mod tests {
    use provost_core::{
        team::{
            MemberLabels, MemberRole, MessageChannel, NewMessage, Priority, Recipient, TeamActor,
            TeamCommand, TeamLimits, TeamMessageKind, TeamSpec,
        },
        time::Moment,
    };
    use provost_ledger::{Ledger, MemLedger};

    use super::{
        super::replay::{ReplayForm, replay},
        *,
    };
    use crate::board::Board;

    fn id() -> TeamId {
        "00000000-0000-7000-8000-000000000007".parse().expect("it is a UUID")
    }

    fn spec() -> TeamSpec {
        TeamSpec {
            name: "limits".to_owned(),
            goal: "limit how often each caller may call".to_owned(),
            summary: None,
            project: None,
            cwd: "/project".to_owned(),
            checks: Vec::new(),
            consent: Default::default(),
            config: Default::default(),
            policy: None,
            bounds: TeamLimits::default(),
        }
    }

    fn message(no: u32) -> TeamCommand {
        TeamCommand::Post(Box::new(NewMessage {
            key: format!("sent-{no}"),
            correlation: Some(format!("story-{no}")),
            channel: MessageChannel::Cli,
            to: Recipient::Member("hand".to_owned()),
            kind: TeamMessageKind::Instruction,
            text: "do it".to_owned(),
            priority: Priority::Normal,
            expires_in_ms: None,
            steer: false,
        }))
    }

    /// A team with a worker that has handled this many messages, and one further message that waits.
    fn team_with_messages(messages: u32) -> MemLedger {
        let (mut board, mut ledger) = (Board::default(), MemLedger::default());
        for no in 0..=messages {
            let mut turn = board.begin(Moment { wall_ms: 1_000, mono_ms: 1_000 });
            if no == 0 {
                let (name, labels) = ("hand".to_owned(), MemberLabels::default());
                let role = MemberRole::Worker;
                let bind = TeamCommand::Bind { name, role, session: None, labels };
                turn.open_team(id(), spec(), &[bind], "operator").expect("it can be opened");
            } else {
                let hand = TeamActor::Member("hand".to_owned());
                for (actor, command) in [
                    (&hand, TeamCommand::Next { consumer: "hand".to_owned() }),
                    (&hand, TeamCommand::Accept { no, lease: 1, polls: 0 }),
                    (&hand, TeamCommand::Acknowledge { no, lease: 1, note: None }),
                ] {
                    let done = turn.command_team(id(), actor, &command, "operator");
                    done.expect("it is open").expect("it is allowed");
                }
            }
            let posted =
                turn.command_team(id(), &TeamActor::Operator, &message(no + 1), "operator");
            posted.expect("it is open").expect("it is allowed");
            let (batch, staged) = turn.stage().expect("something changed");
            let committed = ledger.append(batch).expect("memory takes all");
            board.commit(staged, &committed);
        }
        ledger
    }

    /// Returns the newest events and the number of records that were read to find them.
    fn counted_news(ledger: &MemLedger, since: Option<u64>) -> (RecentEventsRow, u64) {
        let before = ledger.records_read();
        let news = news(ledger, id(), since).expect("the team can be read");
        (news, ledger.records_read() - before)
    }

    #[test]
    fn news_are_the_end_of_the_replay() {
        for messages in [1, 3, 70, 500] {
            let ledger = team_with_messages(messages);
            let whole = replay(&ledger, id(), ReplayForm::Timeline, false).expect("it is read");
            let last = ledger.last_seq().expect("memory can be read");
            for since in
                [None, Some(0), Some(2), Some(last.saturating_sub(25)), Some(last - 3), Some(last)]
            {
                let new = whole.rows.iter().filter(|row| since.is_none_or(|since| row.seq > since));
                let new: Vec<_> = new.cloned().collect();
                let (news, _) = counted_news(&ledger, since);
                assert_eq!((news.total, news.seq, news.since), (new.len(), last, since));
                let newest = &new[new.len().saturating_sub(MAX_NEWS as usize)..];
                let text = |rows| serde_json::to_value(rows).expect("rows have string keys");
                assert_eq!(text(&news.events[..]), text(newest), "since {since:?} of {last}");
            }
        }
    }

    #[test]
    fn reads_for_news_do_not_grow_with_the_stream() {
        let bound = stream::SNAPSHOT_EVERY + MAX_NEWS;
        for messages in [200, 3_000] {
            let ledger = team_with_messages(messages);
            let last = ledger.last_seq().expect("memory can be read");
            assert!(last > u64::from(messages) * 4);
            for since in [None, Some(last / 2), Some(last - 3)] {
                let (_, read) = counted_news(&ledger, since);
                assert!(read <= bound, "{read} records were read of {last}, since {since:?}");
            }
        }
    }
}
