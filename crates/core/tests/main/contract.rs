//! Compares the lifecycle table with the golden contract, cell by cell.

use std::collections::BTreeSet;

use provost_core::lifecycle::{
    Activity, ClaimKind, ProcessFact, VerificationFact, judge_facts_by_table,
};

use crate::kit::{failed, passed};

const CONTRACT: &str = include_str!("../../fixtures/lifecycle-contract.csv");

#[test]
fn lifecycle_table_matches_all_240_cells() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for line in CONTRACT.lines().skip(1) {
        let cell: Vec<&str> = line.split(',').collect();
        let [claim, process, activity, verification, ..] = cell[..] else {
            panic!("bad row {line}")
        };
        let judged = judge_facts_by_table(
            ClaimKind::ALL.into_iter().find(|value| value.as_str() == claim).unwrap(),
            ProcessFact::ALL.into_iter().find(|value| value.as_str() == process).unwrap(),
            Activity::ALL.into_iter().find(|value| value.as_str() == activity).unwrap(),
            &parse_verification(verification),
        );
        let flags: BTreeSet<&str> = judged.flags.iter().map(|flag| flag.as_str()).collect();
        let expected: BTreeSet<&str> = cell[7].split_whitespace().collect();
        let terminal = if judged.is_terminal() { "yes" } else { "no" };
        let cause = judged.cause.map_or("", |cause| cause.as_str());
        let got = (judged.state.as_str(), terminal, cause, flags, judged.rule.as_str());
        if got != (cell[4], cell[5], cell[6], expected, cell[8]) {
            wrong.push(format!("{line}\n    got {got:?}"));
        }
        seen += 1;
    }
    assert_eq!(seen, 240);
    assert!(wrong.is_empty(), "{} cells differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn contract_lists_every_combination() {
    let rows: BTreeSet<&str> = CONTRACT.lines().skip(1).collect();
    assert_eq!(rows.len(), 240);
    assert_eq!(ClaimKind::ALL.len() * ProcessFact::ALL.len() * Activity::ALL.len() * 3, 240);
}

fn parse_verification(word: &str) -> VerificationFact {
    let all = [
        VerificationFact::None,
        VerificationFact::Passed(passed()),
        VerificationFact::Failed(failed()),
    ];
    all.into_iter().find(|value| value.as_str() == word).expect("the contract has three values")
}
