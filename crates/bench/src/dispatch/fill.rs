//! Fills a ledger with teams that did work, as the engine would have written them.

use anyhow::Result;
use provost_core::{
    ids::TeamId,
    team::{
        CriterionJudgement, EvidenceRequirement, LoopProof, LoopRequirement, LoopTemplate,
        MemberLabels, MemberRole, MessageChannel, NewMessage, Priority, Recipient, TeamActor,
        TeamCommand, TeamLimits, TeamMessageKind, TeamSpec,
    },
    time::Moment,
};
use provost_engine::board::{Board, BoardTransaction};
use provost_ledger::{Ledger, SqliteLedger};

/// The number of teams written in one batch.
const BATCH: u64 = 250;

/// The number of teams that stay open, with a loop.
const OPEN: u64 = 100;

/// Words that appear in the goals, so that searches can find them.
const WORDS: [&str; 8] =
    ["callers", "limits", "tables", "colours", "windows", "letters", "harbours", "engines"];

pub(crate) fn id(n: u64) -> TeamId {
    TeamId(uuid::Uuid::from_u128(
        (u128::from(n) << 64) | 0x7000_8000_0000_0000 | (u128::from(n) << 8) | 1,
    ))
}

pub(crate) fn name(n: u64) -> String {
    format!("task-{n}")
}

/// Writes `count` teams. The newest stay open.
pub(crate) fn write_teams(ledger: &mut SqliteLedger, count: u64) -> Result<()> {
    let mut board = Board::default();
    let mut done = 0;
    while done < count {
        let batch = BATCH.min(count - done);
        for step in 0..2 {
            let at = Moment { wall_ms: 1_790_000_000_000, mono_ms: 1_000 + done * 10 + step * 5 };
            let mut turn = board.begin(at);
            for n in done..done + batch {
                match step {
                    0 => open(&mut turn, n)?,
                    _ => work(&mut turn, n, n + OPEN < count)?,
                }
            }
            let Some((batch, staged)) = turn.stage() else { continue };
            let committed = ledger.append(batch)?;
            board.commit(staged, &committed);
        }
        done += batch;
    }
    Ok(())
}

/// Writes one team, whose worker handles `messages` messages one after the other. The team stays
/// open.
pub(crate) fn write_long_team(ledger: &mut SqliteLedger, messages: u64) -> Result<()> {
    let mut board = Board::default();
    let mut done = 0;
    while done < messages {
        let at = Moment { wall_ms: 1_790_000_000_000, mono_ms: 1_000 + done };
        let mut turn = board.begin(at);
        if done == 0 {
            open(&mut turn, 0)?;
        }
        let batch = BATCH.min(messages - done);
        for no in done + 1..=done + batch {
            // The first message was already posted when the team was opened.
            if no > 1 {
                let command = TeamCommand::Post(Box::new(message(no)));
                let posted = turn.command_team(id(0), &TeamActor::Operator, &command, "operator");
                anyhow::ensure!(posted.is_some_and(|posted| posted.is_ok()), "message {no}");
            }
            handle(&mut turn, 0, u32::try_from(no)?)?;
        }
        let Some((batch_of_writes, staged)) = turn.stage() else { continue };
        let committed = ledger.append(batch_of_writes)?;
        board.commit(staged, &committed);
        done += batch;
    }
    Ok(())
}

fn message(no: u64) -> NewMessage {
    NewMessage {
        key: format!("message-{no}"),
        correlation: None,
        channel: MessageChannel::Cli,
        to: Recipient::Member("hand".to_owned()),
        kind: TeamMessageKind::Instruction,
        text: format!("continue with the {}, number {no}", goal_word(no)),
        priority: Priority::Normal,
        expires_in_ms: None,
        steer: false,
    }
}

/// Has the worker of a team handle a message.
fn handle(turn: &mut BoardTransaction<'_>, n: u64, no: u32) -> Result<()> {
    let hand = TeamActor::Member("hand".to_owned());
    for command in [
        TeamCommand::Next { consumer: "hand".to_owned() },
        TeamCommand::Accept { no, lease: 1, polls: 0 },
        TeamCommand::Acknowledge { no, lease: 1, note: None },
    ] {
        let result = turn.command_team(id(n), &hand, &command, "operator");
        anyhow::ensure!(result.is_some_and(|result| result.is_ok()), "{command:?} was rejected");
    }
    Ok(())
}

fn open(turn: &mut BoardTransaction<'_>, n: u64) -> Result<()> {
    let bind = |name: &str, role| TeamCommand::Bind {
        name: name.to_owned(),
        role,
        session: None,
        labels: MemberLabels::default(),
    };
    let needs = EvidenceRequirement::Asserted;
    let text = format!("what was said of {} holds", goal_word(n));
    let evidence = vec![LoopRequirement { name: "notes".to_owned(), proof: LoopProof::Asserted }];
    let template = LoopTemplate {
        name: "notes".to_owned(),
        max: 5,
        evidence,
        clean_up: Default::default(),
        plateau: None,
        tokens: None,
        tools: Vec::new(),
    };
    let commands = [
        bind("hand", MemberRole::Worker),
        bind("boss", MemberRole::Manager),
        TeamCommand::Propose { text, rationale: None, needs },
        TeamCommand::Judge { no: 1, judgement: CriterionJudgement::Accept },
        TeamCommand::BeginLoop { template: Box::new(template) },
        TeamCommand::Post(Box::new(NewMessage {
            key: format!("first-{n}"),
            correlation: Some(format!("story-{n}")),
            channel: MessageChannel::Cli,
            to: Recipient::Member("hand".to_owned()),
            kind: TeamMessageKind::Instruction,
            text: format!("begin with the {}, number {n}", goal_word(n)),
            priority: Priority::Normal,
            expires_in_ms: None,
            steer: false,
        })),
    ];
    turn.open_team(id(n), spec(n), &commands, "operator")
        .map(drop)
        .map_err(|why| anyhow::anyhow!("{why}"))
}

fn work(turn: &mut BoardTransaction<'_>, n: u64, ends: bool) -> Result<()> {
    handle(turn, n, 1)?;
    if ends {
        let because = "it is not needed any more".to_owned();
        let cancel = TeamCommand::Cancel { because };
        let result = turn.command_team(id(n), &TeamActor::Operator, &cancel, "operator");
        anyhow::ensure!(result.is_some_and(|result| result.is_ok()), "{cancel:?} was rejected");
    }
    Ok(())
}

fn goal_word(n: u64) -> &'static str {
    WORDS[(n % WORDS.len() as u64) as usize]
}

fn spec(n: u64) -> TeamSpec {
    TeamSpec {
        name: name(n),
        goal: format!("bring the {} in order, number {n}", goal_word(n)),
        summary: None,
        project: None,
        cwd: "/tmp".to_owned(),
        checks: Vec::new(),
        consent: Default::default(),
        config: Default::default(),
        policy: None,
        bounds: TeamLimits::default(),
    }
}
