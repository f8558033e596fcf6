//! Fills a ledger with completed sessions, as the engine would have written them.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use provost_core::{
    ids::{CommitId, LaunchId, SessionId, TreeId},
    limits::Bounds,
    run::{LandMode, PlanningSpec, ReviewMode, ReviewModes, RunSpec, RunTarget},
    session::{
        AgentInterface, AgentSpec, CommandStdin, Cursor, ExitZeroPolicy, OnFinish, ProcessExit,
        ProcessIdentity, ReportBody, Reporter, SessionCommand, SessionSpec, StoppedBy,
        StreamSignal, WorkLocation,
    },
    time::Moment,
    verdict::{EmptyDiff, Snapshot},
};
use provost_engine::{board::Board, stream};
use provost_ledger::{Durability, Ledger, OpenOptions, SqliteLedger};

/// The number of sessions written in one batch.
const BATCH: u64 = 500;

pub(crate) fn open(dir: &Path) -> Result<SqliteLedger> {
    let options =
        OpenOptions { known: &stream::is_known, software: "bench", durability: Durability::Full };
    SqliteLedger::open(dir, &options).context("open the ledger")
}

/// Writes `count` ended sessions.
pub(crate) fn write_ended_sessions(ledger: &mut SqliteLedger, count: u64) -> Result<()> {
    let mut board = Board::default();
    let mut done = 0;
    while done < count {
        let batch = BATCH.min(count - done);
        for step in 0..3 {
            let now =
                Moment { wall_ms: 1_790_000_000_000, mono_ms: 1_000 + done * 10 + step * 5_000 };
            let mut turn = board.begin(now);
            for n in done..done + batch {
                advance_session(&mut turn, n, step);
            }
            let Some((batch, staged)) = turn.stage() else { continue };
            let committed = ledger.append(batch)?;
            board.commit(staged, &committed);
        }
        done += batch;
    }
    anyhow::ensure!(board.sessions.is_empty(), "some sessions are still open");
    Ok(())
}

fn advance_session(turn: &mut provost_engine::board::BoardTransaction<'_>, n: u64, step: u64) {
    let id = SessionId(uuid::Uuid::from_u128(
        (u128::from(n) << 64) | 0x7000_8000_0000_0000 | u128::from(n),
    ));
    let launch = LaunchId { session: id, no: 1 };
    let child = ProcessIdentity { pid: 1, start_time: 1, boot_id: "bench".to_owned() };
    let holder = child.clone();
    let commands = match step {
        0 => {
            turn.open(id, spec(n), "operator");
            vec![
                SessionCommand::WorkPrepared { cwd: "/tmp".to_owned(), base: None },
                SessionCommand::LaunchStarted { launch, holder, child },
            ]
        }
        1 => {
            let kind = provost_core::lifecycle::ClaimKind::Completed;
            let testimony = ReportBody::Claim { kind, text: Some("done".to_owned()) };
            let cursor = Cursor { offset: 100, skip: 0 };
            vec![
                SessionCommand::Report { from: Reporter::Launch(launch), testimony },
                SessionCommand::ProcessEnded {
                    launch,
                    end: ProcessExit::Exit(0),
                    by: StoppedBy::Itself,
                },
                SessionCommand::Observed { launch, signal: StreamSignal::Closed, cursor },
                SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true },
            ]
        }
        _ => vec![SessionCommand::Tick],
    };
    for command in commands {
        drop(turn.command(id, &command, "provost"));
    }
}

pub(crate) fn spec(n: u64) -> SessionSpec {
    SessionSpec {
        name: format!("bench-{n}"),
        role: Some("worker".to_owned()),
        project: None,
        cwd: "/tmp".to_owned(),
        agent: AgentSpec {
            name: "command".to_owned(),
            interface: AgentInterface::command(),
            argv: vec!["sleep".to_owned(), "3600".to_owned()],
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            pass_env: Vec::new(),
            own_env: Vec::new(),
            input: CommandStdin::Closed,
            settings: Default::default(),
            version: None,
            profile: Default::default(),
        },
        instruction: None,
        work: WorkLocation::Plain,
        setup: None,
        checks: Vec::new(),
        keep: Vec::new(),
        protected: Vec::new(),
        check_terms: Default::default(),
        empty_diff: EmptyDiff::Refused,
        exit_zero: ExitZeroPolicy::NotAClaim,
        on_finish: OnFinish::Close,
        bounds: Bounds { settle_ms: 50, ..Bounds::default() },
        budget: Default::default(),
        policy: Default::default(),
        hooks: BTreeMap::new(),
        reactions: Vec::new(),
        warnings: Vec::new(),
        run: None,
        task: None,
        adopted: None,
    }
}

/// The spec of a run with a plan, used to measure the decision rules only.
pub(crate) fn run_spec(planning: PlanningSpec) -> RunSpec {
    let SessionSpec { agent, bounds, .. } = spec(0);
    let text = |text: &str| text.to_owned();
    let base = Snapshot { commit: CommitId("0".repeat(40)), tree: TreeId("1".repeat(40)) };
    RunSpec {
        name: text("bench"),
        goal: text("all of it"),
        preset: None,
        spec: None,
        project: text("/tmp"),
        cwd: text("/tmp"),
        target: RunTarget { branch: Some(text("main")), base, remote: None },
        worktrees: text("/tmp/trees"),
        branch: text("provost/bench"),
        agent,
        triage: false,
        planning,
        reviews: ReviewModes { task: ReviewMode::Off, ..ReviewModes::default() },
        land: LandMode::Branch,
        checks: Vec::new(),
        configured_checks: false,
        no_checks: false,
        keep: Vec::new(),
        protected: Vec::new(),
        setup: None,
        copy: Vec::new(),
        empty_diff: EmptyDiff::Refused,
        bounds,
        budget: Default::default(),
        policy: Default::default(),
        questions: false,
        answers: BTreeMap::new(),
        templates: BTreeMap::new(),
        hooks: BTreeMap::new(),
        pull_every_ms: 1,
        comments_from: Default::default(),
        pull_checks_ms: 1,
        prices: None,
        origin: None,
        warnings: Vec::new(),
    }
}
