//! The fault campaign: an operator works while the daemon, holders, agents and git are killed and
//! resources run short.
//!
//! Afterwards all work is completed, and the effects outside Provost are counted. No acknowledged
//! command is lost, no effect happens twice, and every outcome is one that its script allows.
//!
//! `PROVOST_SEED` repeats a campaign, `PROVOST_CAMPAIGN_KILLS` sets its length, and
//! `PROVOST_CAMPAIGN_FAULTS` lists its faults, such as `daemon,holder`.

mod faults;
mod operator;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use provost_testkit::harness::is_deep;
use provost_testkit::{ProgramOutput, eventually_within};
use serde_json::Value;

use faults::{FaultInjector, InjectedFault, KILLED};
use operator::{CampaignJob, CampaignOperator, JobKind};

/// The time limit for all open work to end.
const DRAIN: Duration = Duration::from_secs(100);

/// A small random number generator, so that a seed repeats a campaign.
pub(super) struct SeededRandom(u64);

impl SeededRandom {
    fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
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
fn campaign_loses_and_repeats_nothing() {
    let seed = env_variable("PROVOST_SEED").and_then(|text| text.parse().ok()).unwrap_or(1);
    let kills = env_variable("PROVOST_CAMPAIGN_KILLS").and_then(|text| text.parse().ok());
    let kills = kills.unwrap_or(if is_deep() { 300 } else { 12 });
    let mut random = SeededRandom::new(seed);
    let mut operator = CampaignOperator::new();
    let mut saboteur = FaultInjector::new(&operator, &selected_faults());
    println!("campaign: seed {seed}, {kills} kills, {}", saboteur.describe());
    let mut round = 0;
    while saboteur.kills() < kills {
        // A command is always in progress, so that a fault can interrupt it.
        let given = operator.start_command(&mut random, round);
        saboteur.inject_fault(&operator, &mut random);
        operator.finish_command(given, &mut saboteur);
        operator.answer_questions(&mut saboteur);
        round += 1;
        assert!(round < kills * 20 + 200, "too few of {kills} kills hit: {}", saboteur.describe());
    }
    saboteur.assert_no_shortage();
    drain(&mut operator, &mut saboteur);
    let violations = violations(&operator, &saboteur);
    println!("campaign: {} jobs, {}", operator.jobs.len(), saboteur.describe());
    operator.stop();
    // The operator is dropped first, because the home is checked while its disk is still mounted.
    drop(operator);
    assert!(
        violations.is_empty(),
        "seed {seed}, {}:\n{}",
        saboteur.describe(),
        violations.join("\n")
    );
}

/// Returns the faults of this campaign.
fn selected_faults() -> Vec<InjectedFault> {
    let Some(named) = env_variable("PROVOST_CAMPAIGN_FAULTS") else {
        return if is_deep() { InjectedFault::ALL.to_vec() } else { InjectedFault::USUAL.to_vec() };
    };
    let named: BTreeSet<&str> = named.split(',').collect();
    InjectedFault::ALL.into_iter().filter(|fault| named.contains(fault.as_str())).collect()
}

/// Waits until no work is open. Cancels jobs that wait for an answer because of a kill.
fn drain(operator: &mut CampaignOperator, saboteur: &mut FaultInjector) {
    operator.close_listener(saboteur);
    eventually_within(DRAIN, "everything is sealed", || {
        operator.answer_questions(saboteur);
        let rows = operator.rows();
        let open: Vec<&CampaignJob> = operator
            .jobs
            .iter()
            .filter(|job| rows.get(&job.id).is_none_or(|row| row["sealed"] != true))
            .collect();
        for job in open.iter().filter(|job| saboteur.has_hit(job, &rows)) {
            operator.run_once(&["cancel", &job.id, "--key", &format!("drain-{}", job.key)]);
        }
        if open.is_empty() {
            return Ok(());
        }
        Err(open
            .iter()
            .map(|job| (job.key.clone(), rows.get(&job.id).map(summarize)))
            .collect::<Vec<_>>())
    });
    operator.pull_messages();
    let rows = operator.rows();
    eventually_within(DRAIN, "every hook has run", || {
        operator.run_once(&["ls"]);
        let missing: Vec<String> = expected_hooks(operator, saboteur, &rows)
            .into_iter()
            .filter(|hook| operator.count("hooks", hook) == 0)
            .collect();
        let rows = operator.rows();
        let hooks = |hook: &String| {
            let id = hook.split(' ').next().unwrap_or_default();
            let row = rows.get(id).map(|row| row["hooks"].to_string());
            format!("{hook}: {}", row.unwrap_or_default())
        };
        if missing.is_empty() {
            Ok(())
        } else {
            Err(missing.iter().map(hooks).collect::<Vec<_>>().join("\n"))
        }
    });
}

/// Returns the hooks that must have run: those of every session, except sessions in which a hook
/// was killed.
fn expected_hooks(
    operator: &CampaignOperator,
    saboteur: &FaultInjector,
    rows: &BTreeMap<String, Value>,
) -> Vec<String> {
    let sessions = operator.jobs.iter().filter(|job| job.kind != JobKind::Run);
    let sessions = sessions.filter(|job| !saboteur.has_hit_effect(&job.id));
    let ends = sessions.filter_map(|job| Some((&job.id, rows.get(&job.id)?["state"].as_str()?)));
    ends.flat_map(|(id, state)| [format!("{id} opened"), format!("{id} {state}")]).collect()
}

/// Summarizes the fields of a row that explain its state.
fn summarize(row: &Value) -> String {
    let names = ["state", "cause", "reason", "detail", "flags", "process"];
    names.map(|name| row[name].to_string()).join(" ")
}

/// Lists lost effects, repeated effects and illegal outcomes.
fn violations(operator: &CampaignOperator, saboteur: &FaultInjector) -> Vec<String> {
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
        if !job.kind.legal_states(hit).contains(&state) {
            found.push(format!(
                "wrong: {} {:?}, hit: {hit}: {}",
                job.key,
                job.kind,
                summarize(row)
            ));
        }
        for (file, may) in job.kind.effects(hit, saboteur.has_killed_git()) {
            let count = operator.count(file, &job.key);
            if count > may.most {
                let events = operator.run_once(&["events", &job.id]).stdout;
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
    found.extend(repeated_hooks(operator));
    let verified = operator.run_once(&["ledger", "verify", "--json"]);
    if verified.code() != Some(0) {
        found.push(format!("wrong: the ledger: {}", verified.stdout));
    }
    found
}

/// Lists hooks that ran twice. A hook whose holder was killed does not run again.
fn repeated_hooks(operator: &CampaignOperator) -> Vec<String> {
    let log = fs::read_to_string(operator.file("hooks")).unwrap_or_default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    log.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    let twice = counts.iter().filter(|(_, count)| **count > 1);
    twice.map(|(line, count)| format!("twice: hook {line} ran {count} times")).collect()
}

/// Whether a daemon answered a command, with success or with a refusal. A command whose git was
/// killed is repeated.
pub(super) fn is_answered(output: &ProgramOutput) -> bool {
    let lost_git = || [&output.stdout, &output.stderr].iter().any(|text| text.contains(KILLED));
    match output.code() {
        Some(0) => true,
        Some(6) | None => false,
        Some(_) => !lost_git(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge at which a campaign is chosen")]
fn env_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
