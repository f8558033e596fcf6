//! Fills a ledger with completed sessions, as the engine would have written them.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use provost_core::{
    ids::{CommitId, LaunchId, SessionId, TreeId},
    limits::Bounds,
    run::{LandMode, Planning, ReviewMode, Reviews, RunSpec, Target},
    session::{
        Afterwards, Agent, Command, Cursor, Driver, End, EndedBy, Exit0, Identity, Input, Reporter,
        Signal, Spec, Testimony, Work,
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
pub(crate) fn ended_sessions(ledger: &mut SqliteLedger, count: u64) -> Result<()> {
    let mut board = Board::default();
    let mut done = 0;
    while done < count {
        let batch = BATCH.min(count - done);
        for step in 0..3 {
            let now =
                Moment { wall_ms: 1_790_000_000_000, mono_ms: 1_000 + done * 10 + step * 5_000 };
            let mut turn = board.begin(now);
            for n in done..done + batch {
                live_a_step(&mut turn, n, step);
            }
            let Some((batch, staged)) = turn.stage() else { continue };
            let committed = ledger.append(batch)?;
            board.commit(staged, &committed);
        }
        done += batch;
    }
    anyhow::ensure!(board.is_empty(), "some sessions are still open");
    Ok(())
}

fn live_a_step(turn: &mut provost_engine::board::Turn<'_>, n: u64, step: u64) {
    let id = SessionId(uuid::Uuid::from_u128(
        (u128::from(n) << 64) | 0x7000_8000_0000_0000 | u128::from(n),
    ));
    let launch = LaunchId { session: id, no: 1 };
    let child = Identity { pid: 1, start_time: 1, boot_id: "bench".to_owned() };
    let holder = child.clone();
    let commands = match step {
        0 => {
            turn.open(id, spec(n), "operator");
            vec![
                Command::WorkPrepared { cwd: "/tmp".to_owned(), base: None },
                Command::LaunchStarted { launch, holder, child },
            ]
        }
        1 => {
            let kind = provost_core::lifecycle::ClaimKind::Completed;
            let testimony = Testimony::Claim { kind, text: Some("done".to_owned()) };
            let cursor = Cursor { offset: 100, skip: 0 };
            vec![
                Command::Report { from: Reporter::Launch(launch), testimony },
                Command::ProcessEnded { launch, end: End::Exit(0), by: EndedBy::Itself },
                Command::Observed { launch, signal: Signal::Closed, cursor },
                Command::TreeGone { launch, leftovers: 0, verified: true },
            ]
        }
        _ => vec![Command::Tick],
    };
    for command in commands {
        drop(turn.command(id, &command, "provost"));
    }
}

pub(crate) fn spec(n: u64) -> Spec {
    Spec {
        name: format!("bench-{n}"),
        role: Some("worker".to_owned()),
        project: None,
        cwd: "/tmp".to_owned(),
        agent: Agent {
            name: "command".to_owned(),
            driver: Driver::Command,
            argv: vec!["sleep".to_owned(), "3600".to_owned()],
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            pass_env: Vec::new(),
            own_env: Vec::new(),
            input: Input::Closed,
            settings: Default::default(),
            version: None,
            carried: Default::default(),
        },
        instruction: None,
        work: Work::Plain,
        setup: None,
        checks: Vec::new(),
        keep: Vec::new(),
        protected: Vec::new(),
        check_terms: Default::default(),
        empty_diff: EmptyDiff::Refused,
        exit0: Exit0::SaysNothing,
        afterwards: Afterwards::Close,
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
pub(crate) fn run_spec(planning: Planning) -> RunSpec {
    let Spec { agent, bounds, .. } = spec(0);
    let text = |text: &str| text.to_owned();
    let base = Snapshot { commit: CommitId("0".repeat(40)), tree: TreeId("1".repeat(40)) };
    RunSpec {
        name: text("bench"),
        goal: text("all of it"),
        preset: None,
        spec: None,
        project: text("/tmp"),
        cwd: text("/tmp"),
        target: Target { branch: Some(text("main")), base, remote: None },
        worktrees: text("/tmp/trees"),
        branch: text("provost/bench"),
        agent,
        triage: false,
        planning,
        reviews: Reviews { task: ReviewMode::Off, ..Reviews::default() },
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
