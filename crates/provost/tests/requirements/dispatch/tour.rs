//! The program plays the tour itself, and checks itself.

use std::fs;

use provost_testkit::env::TestEnv;

#[test]
fn dispatch_tour_completes_and_leaves_nothing() {
    let stage = TestEnv::new();
    let output = stage.provost(&["tour", "dispatch"]).ok().stdout.clone();
    for part in [
        "$ provost team start ",
        "missing_evidence: evidence is missing: tests, report",
        "open_criterion: criterion 1 is accepted",
        "delivered again",
        "limits · team",
        "They are the same.",
    ] {
        assert!(output.contains(part), "{part:?} is not in:\n{output}");
    }
    assert!(!output.contains('\u{1b}'), "colours are for terminals");
    let temporary = stage.root().join("tmp");
    let left: Vec<_> = fs::read_dir(&temporary)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("provost-tour"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    stage.provost(&["tour", "dispatch", "--json"]).assert_code(2);
}
