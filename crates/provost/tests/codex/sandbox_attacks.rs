//! Attacks on Provost from inside Codex's sandbox.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::{approvals::turn_with_result, codex_env::CodexEnv};

/// Swaps a report and a FIFO under one name until `stop` exists, and prints output in between.
const SWAP_SCRIPT: &str = r#"use POSIX;
my ($name, $rounds) = ("$ENV{PROVOST_DROP}/$ENV{PROVOST_LAUNCH}~k.json", 0);
my ($file, $pipe) = ("$ENV{PROVOST_DROP}/.file", "$ENV{PROVOST_DROP}/.pipe");
$| = 1;
until (-e 'stop') {
    for (1..100) {
        open(my $new, '>', $file) or die; print $new '{}'; close $new;
        rename $file, $name or die;
        mkfifo($pipe, 0600) or die;
        rename $pipe, $name or die;
        $rounds++;
    }
    print "word\n";
    open(my $log, '>', 'rounds'); print $log $rounds; close $log;
}
unlink $name;
open(my $out, '>', '../outside') and print $out 'written';
"#;

/// Duration of the race.
const RACE_DURATION: Duration = Duration::from_secs(6);

#[test]
#[expect(clippy::disallowed_methods, reason = "the race runs for a fixed time")]
fn f2_13_sandboxed_codex_does_not_stall_daemon() {
    let exchanges = r#"
    { items = [{ shell = "perl exchanges.pl", yield_time_ms = 30000 }] },
    { items = [{ message = "Exchanged." }] },"#;
    let Some(stage) = CodexEnv::new(&turn_with_result(exchanges)) else { return };
    fs::write(stage.repo.path().join("exchanges.pl"), SWAP_SCRIPT).unwrap();
    let id = stage.spawn(&["--sandbox", "workspace-write", "Exchange them."]);
    let rounds = stage.repo.path().join("rounds");
    provost_testkit::eventually("the race begins", || rounds.exists().then_some(()));
    let daemon = stage.home.daemon().pid().unwrap();
    let until = Instant::now() + RACE_DURATION;
    let mut answers = 0;
    while Instant::now() < until {
        // The harness kills a command that hangs, which fails the test.
        stage.home.provost(&["ls", "--json"]).ok();
        stage.home.provost(&["daemon", "status", "--json"]).ok();
        answers += 1;
    }
    fs::write(stage.repo.path().join("stop"), "").unwrap();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(stage.home.daemon().pid(), Some(daemon), "the daemon was not replaced");
    assert!(answers > 0);
    assert!(!stage.repo.path().join("../outside").exists(), "it left its sandbox");
    let rounds: u64 = fs::read_to_string(rounds).unwrap().parse().unwrap();
    assert!(rounds > 100, "{rounds} rounds");
}
