//! The guides that the program prints, and the skills that use them.

use std::fs;

use provost_testkit::env::TestEnv;

#[test]
fn guide_lists_topics_and_local_loops() {
    let stage = TestEnv::new();
    let topics = stage.provost(&["guide", "--json"]).ok().json();
    for topic in topics["topics"].as_array().unwrap() {
        let topic = topic["topic"].as_str().unwrap();
        let text = stage.provost(&["guide", topic]).ok().stdout.clone();
        assert!(text.starts_with("# "), "{topic}: {text}");
    }
    stage.provost(&["guide", "magic"]).assert_code(2);
    stage.configure(
        "[loops.docs.evidence]\nlinks = \"verified:./links\"\n[loops.test-coverage.evidence]\ncoverage = \"verified:./cover\"\n[loops.odd]\nfrom = \"bild\"\n[verify]\nchecks = [\"make\"]\n",
    );
    let guide = stage.provost(&["guide", "loops", "--json"]).ok().json();
    let found = |name: &str| {
        let loops = guide["loops"].as_array().unwrap();
        loops.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(found("docs")["evidence"][0], "links=verified:./links");
    assert_eq!(found("test-coverage")["can_begin"], true);
    assert!(
        found("pr-ci-merge")["lacks"].as_str().unwrap().contains("loops.pr-ci-merge.evidence.ci")
    );
    assert!(found("odd")["lacks"].as_str().unwrap().contains("\"bild\""));
}

#[test]
fn skills_install_once_and_remove_only_ours() {
    let stage = TestEnv::new();
    let root = stage.file("skills");
    let to = |verb: &'static str| ["skills", verb, "--to", &root, "--json"].map(str::to_owned);
    let run = |words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        stage.provost(&words)
    };
    let dry = run(&[&to("install")[..], &["--dry-run".to_owned()]].concat()).ok().json();
    assert_eq!(dry["skills"][0]["done"], "installed");
    assert!(!fs::exists(&root).unwrap(), "nothing was done");
    run(&to("install")).ok();
    let managing = format!("{root}/provost-managing/SKILL.md");
    let text = fs::read_to_string(&managing).unwrap();
    assert!(text.contains("`provost guide managing`"), "{text}");
    assert_eq!(run(&to("install")).ok().json()["skills"][0]["done"], "nothing");
    fs::write(&managing, "---\nname: mine\n---\n").unwrap();
    let refused = run(&to("install"));
    assert!(refused.assert_code(4).stdout.contains("nothing was changed"), "{refused:?}");
    let review = format!("{root}/provost-review/SKILL.md");
    assert!(fs::exists(&review).unwrap(), "all or nothing");
    // A skill that the user edited is kept, and does not prevent the removal of the other skill.
    let refused = run(&to("remove"));
    assert!(refused.assert_code(4).stdout.contains("provost-managing is kept"), "{refused:?}");
    assert!(refused.stdout.contains("provost-review removed"), "{refused:?}");
    assert!(fs::exists(&managing).unwrap() && !fs::exists(&review).unwrap());
    fs::write(&managing, text).unwrap();
    run(&to("remove")).ok();
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

#[test]
fn skills_install_into_current_repository() {
    let stage = TestEnv::new();
    let repo = stage.repo("work");
    stage.provost_in(repo.path(), &["skills", "install", "--repo"]).ok();
    let skill = repo.path().join(".agents/skills/provost-review/SKILL.md");
    assert!(skill.exists());
    stage.provost_in(repo.path(), &["skills", "remove", "--repo"]).ok();
    assert!(!skill.exists());
}
