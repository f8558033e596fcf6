//! The parts of a test run, with the minutes that each part took and its share of the total.

use std::fs;

use crate::process::Stopwatch;

/// The time limit of a whole run without `--deep` on two cores, in minutes.
const ALL_MINUTES: f64 = 15.0;
const SECONDS_PER_MINUTE: f64 = 60.0;
/// The unit in which the kernel reports process start times, independent of its own clock rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// A part of a test run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestPart {
    /// The build of this program by cargo, before the program starts.
    Xtask,
    Tools,
    Lint,
    Build,
    CoreAndCli,
    Agents,
    Boundary,
    BoundaryUnprivileged,
    Simulator,
    Demo,
    DocTests,
    Mutants,
}

impl TestPart {
    pub(super) fn title(self) -> &'static str {
        match self {
            TestPart::Xtask => "build of xtask",
            TestPart::Tools => "tools",
            TestPart::Lint => "lint",
            TestPart::Build => "build",
            TestPart::CoreAndCli => "core and CLI tests",
            TestPart::Agents => "tests with real Codex",
            TestPart::Boundary => "boundary tests",
            TestPart::BoundaryUnprivileged => "boundary tests, unprivileged",
            TestPart::Simulator => "simulator",
            TestPart::Demo => "demo",
            TestPart::DocTests => "documentation tests",
            TestPart::Mutants => "mutants",
        }
    }

    /// Returns the minutes that the part may take, or `None` if it runs only with `--deep`.
    fn share(self) -> Option<f64> {
        match self {
            TestPart::Xtask => Some(1.0),
            TestPart::Tools => Some(0.2),
            TestPart::Lint => Some(0.3),
            TestPart::Build => Some(5.0),
            TestPart::CoreAndCli => Some(4.2),
            TestPart::Agents => Some(1.8),
            TestPart::Boundary | TestPart::BoundaryUnprivileged => Some(0.4),
            TestPart::Simulator => Some(1.3),
            TestPart::Demo => Some(0.4),
            TestPart::DocTests | TestPart::Mutants => None,
        }
    }
}

/// The duration of each part of a run.
#[derive(Default)]
pub(super) struct PartTimes {
    /// Parts in the order in which they ended, with their duration in seconds.
    parts: Vec<(TestPart, f64)>,
}

impl PartTimes {
    /// Starts with the time that passed before this program started.
    pub(super) fn since_cargo_started() -> Self {
        let parts = seconds_since_start().map(|seconds| (TestPart::Xtask, seconds));
        Self { parts: parts.into_iter().collect() }
    }

    /// Runs a part and records how long it took.
    pub(super) fn measure<T>(&mut self, part: TestPart, work: impl FnOnce() -> T) -> T {
        let watch = Stopwatch::start();
        let result = work();
        self.parts.push((part, watch.seconds()));
        result
    }

    /// Renders all parts, one per line, and marks those above their share.
    pub(super) fn table(&self) -> String {
        let mut lines = vec![format!("   {:<30} {:>7} {:>7}", "part", "minutes", "share")];
        lines.extend(
            self.parts.iter().map(|(part, seconds)| {
                line(part.title(), seconds / SECONDS_PER_MINUTE, part.share())
            }),
        );
        let all: f64 = self.parts.iter().map(|(_, seconds)| seconds).sum();
        let has_share = self.parts.iter().all(|(part, _)| part.share().is_some());
        lines.push(line("all", all / SECONDS_PER_MINUTE, has_share.then_some(ALL_MINUTES)));
        lines.join("\n")
    }
}

fn line(title: &str, minutes: f64, share: Option<f64>) -> String {
    let mark = if share.is_some_and(|share| minutes > share) { "  above its share" } else { "" };
    let share = share.map_or_else(|| "–".to_owned(), |share| format!("{share:.1}"));
    format!("   {title:<30} {minutes:>7.1} {share:>7}{mark}")
}

/// Returns the seconds since this process started. `cargo run` replaces itself with the program it built, so this
/// includes the build.
fn seconds_since_start() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    Some((uptime - start_seconds(&stat)?).max(0.0))
}

/// Returns the seconds between boot and the start of a process, from its `/proc` stat line.
fn start_seconds(stat: &str) -> Option<f64> {
    // The program name is in parentheses and may contain spaces. The state after it is field 3.
    let (_, after_name) = stat.rsplit_once(')')?;
    let ticks: f64 = after_name.split_whitespace().nth(22 - 3)?.parse().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_above_its_share_is_marked() {
        let parts = vec![(TestPart::Build, 60.0), (TestPart::Demo, 48.0)];
        let table = PartTimes { parts }.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], "   build                              1.0     5.0");
        assert_eq!(lines[2], "   demo                               0.8     0.4  above its share");
        assert_eq!(lines[3], "   all                                1.8    15.0");
    }

    #[test]
    fn deep_part_has_no_share() {
        let table = PartTimes { parts: vec![(TestPart::Mutants, 6000.0)] }.table();
        assert!(table.ends_with("   all                              100.0       –"), "{table}");
    }

    #[test]
    fn shares_fit_into_the_whole() {
        let usual = [
            TestPart::Xtask,
            TestPart::Tools,
            TestPart::Lint,
            TestPart::Build,
            TestPart::CoreAndCli,
            TestPart::Agents,
            TestPart::Boundary,
            TestPart::BoundaryUnprivileged,
            TestPart::Simulator,
            TestPart::Demo,
        ];
        let shares: f64 = usual.iter().filter_map(|part| part.share()).sum();
        assert!((shares - ALL_MINUTES).abs() < 0.01, "{shares}");
    }

    #[test]
    fn process_start_is_parsed_after_its_name() {
        let stat = "12 (a b) c) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1";
        assert_eq!(start_seconds(stat), Some(123.45));
        assert_eq!(start_seconds("nonsense"), None);
    }
}
