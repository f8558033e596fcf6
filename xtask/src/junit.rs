//! Passed and failed tests, counted from the test runner's JUnit record.

use std::{fs, iter::Sum, ops::Add, path::Path};

use anyhow::{Context as _, Result};

/// The numbers of passed and failed tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// The contents of a run's record.
pub(crate) struct JunitRecord {
    pub(crate) tally: Tally,
    /// The names of tests that failed and passed on retry.
    pub(crate) flaky: Vec<String>,
}

/// Reads the record of a run.
pub(crate) fn read(path: &Path) -> Result<JunitRecord> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let tally =
        tally(&text).with_context(|| format!("{} is not a JUnit record", path.display()))?;
    Ok(JunitRecord { tally, flaky: flaky_tests(&text) })
}

/// Sums the doc-test results in the output of `cargo test`.
pub(crate) fn doc_tests(text: &str) -> Tally {
    text.lines().filter_map(|line| line.strip_prefix("test result: ")).map(result_line).sum()
}

fn tally(xml: &str) -> Option<Tally> {
    let (_, rest) = xml.split_once("<testsuites ")?;
    let (head, _) = rest.split_once('>')?;
    let number = |name: &str| -> Option<u64> {
        let (_, rest) = head.split_once(&format!("{name}=\""))?;
        rest.split('"').next()?.parse().ok()
    };
    let failed = number("failures")? + number("errors")?;
    Some(Tally { passed: number("tests")?.checked_sub(failed)?, failed })
}

fn flaky_tests(xml: &str) -> Vec<String> {
    xml.split("<testcase name=\"")
        .skip(1)
        .filter(|case| case.contains("<flakyFailure "))
        .filter_map(|case| Some(case.split_once('"')?.0.to_owned()))
        .collect()
}

fn result_line(line: &str) -> Tally {
    let number = |word: &str| {
        let before = line.split(word).next().unwrap_or_default();
        before.split_whitespace().next_back().and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    Tally { passed: number(" passed"), failed: number(" failed") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_failures_are_failed_tests() {
        let xml = r#"<?xml version="1.0"?><testsuites name="n" tests="12" failures="2" errors="1" time="3"><testsuite tests="12">"#;
        assert_eq!(tally(xml), Some(Tally { passed: 9, failed: 3 }));
        assert_eq!(tally("<html>"), None);
    }

    #[test]
    fn flaky_test_is_named() {
        let xml = r#"<testcase name="a::steady" time="1"/><testcase name="b::unsteady" time="2"><flakyFailure message="m"/></testcase><testcase name="c" time="3"><failure/></testcase>"#;
        assert_eq!(flaky_tests(xml), ["b::unsteady"]);
    }

    #[test]
    fn results_of_all_crates_are_summed() {
        let text = "test result: ok. 3 passed; 0 failed; 0 ignored\nnoise\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        assert_eq!(doc_tests(text), Tally { passed: 4, failed: 2 });
    }
}
