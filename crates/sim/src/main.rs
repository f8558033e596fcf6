//! Runs the simulator over a range of seeds, or prints the scenario of one seed.

#![expect(clippy::print_stdout, reason = "the report is the result")]

use std::{env, process::ExitCode};

use provost_sim::{Coverage, Faults, crowd, simulate, traced};

const USAGE: &str =
    "usage: provost-sim --seeds A..B | --seed N [--trace] [--calm | --crashes] | --crowd WORKERS";

/// The parsed command line.
struct SimArgs {
    from: u64,
    to: u64,
    trace: bool,
    faults: Faults,
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [word, workers] = words.as_slice()
        && let ("--crowd", Ok(workers)) = (word.as_str(), workers.parse())
    {
        return run_crowd(workers);
    }
    let Some(args) = parse(words.into_iter()) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    let (mut coverage, mut events, mut failed) = (Coverage::default(), 0, 0);
    for seed in args.from..args.to {
        let simulate_seed = if args.trace { traced } else { simulate };
        let report = simulate_seed(seed, args.faults);
        report.trace.iter().for_each(|line| println!("{line}"));
        if let Some(broken) = &report.broken {
            failed += 1;
            println!("{broken}");
        }
        if args.trace {
            println!("{:?}", report.outcomes);
            report.runs.iter().for_each(|run| println!("{run:?}"));
        }
        coverage.merge(&report.coverage);
        events += report.events;
    }
    println!(
        "{} seeds, {events} events, {failed} failed; {} kinds, {} states, {} rules, {} cells, {} kinds of runs, {} of tasks",
        args.to - args.from,
        coverage.kinds.len(),
        coverage.states.len(),
        coverage.rules.len(),
        coverage.cells.len(),
        coverage.run_kinds.len(),
        coverage.team_kinds.len()
    );
    ExitCode::from(u8::from(failed > 0))
}

/// Simulates this number of workers under one manager.
fn run_crowd(workers: u64) -> ExitCode {
    let report = crowd(7, workers);
    report.trace.iter().for_each(|line| println!("{line}"));
    println!(
        "{workers} workers, {} events in {} commits, {} crashes: {}",
        report.events,
        report.commits,
        report.crashes,
        report.broken.as_deref().unwrap_or("no law was broken")
    );
    ExitCode::from(u8::from(report.broken.is_some()))
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<SimArgs> {
    let mut args = SimArgs { from: 0, to: 0, trace: false, faults: Faults::ALL };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => {
                let range = words.next()?;
                let (from, to) = range.split_once("..")?;
                (args.from, args.to) = (from.parse().ok()?, to.parse().ok()?);
            }
            "--seed" => {
                args.from = words.next()?.parse().ok()?;
                args.to = args.from + 1;
            }
            "--trace" => args.trace = true,
            "--calm" => args.faults = Faults::NONE,
            "--crashes" => args.faults = Faults::CRASHES,
            _ => return None,
        }
    }
    (args.to > args.from).then_some(args)
}
