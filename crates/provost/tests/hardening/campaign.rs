//! The fault campaign: an operator works while the daemon, holders, agents and git are killed and resources run short.
//!
//! Afterwards everything drains, and the effects outside Provost are counted. Nothing acknowledged is lost, nothing
//! took effect twice, and every outcome is one that its script allows.
//!
//! `PROVOST_SEED` repeats a campaign, `PROVOST_CAMPAIGN_KILLS` sets its length, and `PROVOST_CAMPAIGN_FAULTS` lists its
//! faults, such as `daemon,holder`.

mod faults;
mod operator;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use provost_testkit::harness::deep;
use provost_testkit::{Output, eventually_within};
use serde_json::Value;

use faults::{Fault, KILLED, Saboteur};
use operator::{Job, Kind, Operator};

/// Timeout for everything to drain.
const DRAIN: Duration = Duration::from_secs(100);

/// A small random number generator, so that a seed repeats a campaign.
pub(super) struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

#[test]
fn campaign_loses_nothing_repeats_nothing_and_ends_right() {
    let seed = variable("PROVOST_SEED").and_then(|text| text.parse().ok()).unwrap_or(1);
    let kills = variable("PROVOST_CAMPAIGN_KILLS").and_then(|text| text.parse().ok());
    let kills = kills.unwrap_or(if deep() { 300 } else { 12 });
    let mut random = Random::new(seed);
    let mut operator = Operator::new();
    let mut saboteur = Saboteur::new(&operator, &chosen());
    println!("campaign: seed {seed}, {kills} kills, {}", saboteur.describe());
    let mut round = 0;
    while saboteur.kills() < kills {
        // A command is always in progress, so that there is something to kill.
        let given = operator.give(&mut random, round);
        saboteur.strike(&operator, &mut random);
        operator.finish(given, &mut saboteur);
        operator.answer_questions(&mut saboteur);
        round += 1;
        assert!(round < kills * 20 + 200, "too few of {kills} kills hit: {}", saboteur.describe());
    }
    saboteur.relent();
    drain(&mut operator, &mut saboteur);
    let violations = violations(&operator, &saboteur);
    println!("campaign: {} jobs, {}", operator.jobs.len(), saboteur.describe());
    operator.leave();
    // Dropped first, because the home is checked while its disk is still mounted.
    drop(operator);
    assert!(
        violations.is_empty(),
        "seed {seed}, {}:\n{}",
        saboteur.describe(),
        violations.join("\n")
    );
}

/// Returns the faults of this campaign.
fn chosen() -> Vec<Fault> {
    let Some(named) = variable("PROVOST_CAMPAIGN_FAULTS") else {
        return if deep() { Fault::ALL.to_vec() } else { Fault::USUAL.to_vec() };
    };
    let named: BTreeSet<&str> = named.split(',').collect();
    Fault::ALL.into_iter().filter(|fault| named.contains(fault.as_str())).collect()
}

/// Waits until nothing is open. Cancels jobs that a kill left waiting for an answer.
fn drain(operator: &mut Operator, saboteur: &mut Saboteur) {
    operator.close_listener(saboteur);
    eventually_within(DRAIN, "everything is sealed", || {
        operator.answer_questions(saboteur);
        let rows = operator.rows();
        let open: Vec<&Job> = operator
            .jobs
            .iter()
            .filter(|job| rows.get(&job.id).is_none_or(|row| row["sealed"] != true))
            .collect();
        for job in open.iter().filter(|job| saboteur.has_hit(job, &rows)) {
            operator.ask(&["cancel", &job.id, "--key", &format!("drain-{}", job.key)]);
        }
        if open.is_empty() {
            return Ok(());
        }
        Err(open
            .iter()
            .map(|job| (job.key.clone(), rows.get(&job.id).map(short)))
            .collect::<Vec<_>>())
    });
    operator.pull_messages();
    let rows = operator.rows();
    eventually_within(DRAIN, "every hook has run", || {
        operator.ask(&["ls"]);
        let missing: Vec<String> = expected_hooks(operator, saboteur, &rows)
            .into_iter()
            .filter(|hook| operator.count("hooks", hook) == 0)
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    });
}

/// Returns the hooks that must have run: those of every session, except where a hook was killed.
fn expected_hooks(
    operator: &Operator,
    saboteur: &Saboteur,
    rows: &BTreeMap<String, Value>,
) -> Vec<String> {
    let sessions = operator.jobs.iter().filter(|job| job.kind != Kind::Run);
    let sessions = sessions.filter(|job| !saboteur.has_hit_effect(&job.id));
    let ends = sessions.filter_map(|job| Some((&job.id, rows.get(&job.id)?["state"].as_str()?)));
    ends.flat_map(|(id, state)| [format!("{id} opened"), format!("{id} {state}")]).collect()
}

/// Summarizes the fields of a row that explain its state.
fn short(row: &Value) -> String {
    let names = ["state", "cause", "reason", "detail", "flags", "process"];
    names.map(|name| row[name].to_string()).join(" ")
}

/// Lists lost effects, repeated effects and illegal outcomes.
fn violations(operator: &Operator, saboteur: &Saboteur) -> Vec<String> {
    let rows = operator.rows();
    let mut found = Vec::new();
    for job in &operator.jobs {
        let hit = saboteur.has_hit(job, &rows);
        let Some(row) = rows.get(&job.id) else {
            found
                .push(format!("lost: {} ({}) was acknowledged and is not listed", job.key, job.id));
            continue;
        };
        let state = row["state"].as_str().unwrap_or_default();
        if !job.kind.legal(hit).contains(&state) {
            found.push(format!("wrong: {} {:?}, hit: {hit}: {}", job.key, job.kind, short(row)));
        }
        for (file, may) in job.kind.effects(hit, saboteur.has_killed_git()) {
            let count = operator.count(file, &job.key);
            if count > may.most {
                let events = operator.ask(&["events", &job.id]).stdout;
                let (key, kind) = (&job.key, job.kind);
                found.push(format!("twice: {key} {kind:?} {count} times in {file}:\n{events}"));
            }
            if count < may.least {
                found.push(format!("lost: {} {count} times in {file}, hit: {hit}", job.key));
            }
        }
    }
    for (name, sent) in [("messages", &operator.sent), ("team", &operator.posted)] {
        for text in sent {
            match operator.count(name, text) {
                1 => {}
                0 => found.push(format!("lost: {text} in {name}")),
                count => found.push(format!("twice: {text} {count} times in {name}")),
            }
        }
    }
    found.extend(hooks(operator));
    let verified = operator.ask(&["ledger", "verify", "--json"]);
    if verified.code() != Some(0) {
        found.push(format!("wrong: the ledger: {}", verified.stdout));
    }
    found
}

/// Lists hooks that ran twice. A hook whose holder was killed does not run again.
fn hooks(operator: &Operator) -> Vec<String> {
    let log = fs::read_to_string(operator.file("hooks")).unwrap_or_default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    log.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    let twice = counts.iter().filter(|(_, count)| **count > 1);
    twice.map(|(line, count)| format!("twice: hook {line} ran {count} times")).collect()
}

/// Whether a command was answered, with success or with a refusal. One whose git was killed is repeated.
pub(super) fn is_answered(output: &Output) -> bool {
    let lost_git = || [&output.stdout, &output.stderr].iter().any(|text| text.contains(KILLED));
    match output.code() {
        Some(0) => true,
        Some(6) | None => false,
        Some(_) => !lost_git(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge at which a campaign is chosen")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
