//! Shortages: a temporary lack of any resource changes no sealed outcome.

use provost_sim::{Faults, simulate};

use crate::depth::is_whole;

#[test]
fn shortages_keep_outcomes() {
    let (mut waits, seeds) = (0, if is_whole() { 1_000 } else { 150 });
    for seed in 0..seeds {
        let calm = simulate(seed, Faults::NONE);
        let short = simulate(seed, Faults::SHORTAGES);
        assert_eq!(short.broken, None);
        assert_eq!(short.outcomes, calm.outcomes, "seed {seed}");
        assert_eq!(short.runs, calm.runs, "seed {seed}");
        let kinds = &short.coverage.kinds;
        assert_eq!(
            kinds.contains("effect.shortage"),
            kinds.contains("effect.retried"),
            "seed {seed}"
        );
        waits += u64::from(kinds.contains("effect.shortage"));
    }
    assert!(waits > seeds / 4, "{waits} of {seeds} scenarios had a shortage");
}
