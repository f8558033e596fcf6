//! Pictures that Provost compares, as evidence for a loop or a criterion.

use std::{fs, path::Path};

use provost_testkit::harness::{TestRepo, eventually};
use serde_json::Value;

use super::team_env::TeamEnv;

/// Writes a picture of 100 pixels in one color, `other` of them in another.
fn write_picture(path: &Path, other: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let points = (0..100).flat_map(|n| if n < other { [200, 0, 0] } else { [10, 20, 30] });
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 10, 10);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&points.collect::<Vec<u8>>()).unwrap();
    writer.finish().unwrap();
    fs::write(path, bytes).unwrap();
}

/// The team `page` in a repository, with a worker in the checkout itself.
fn open_page_team(flags: &[&str]) -> (TeamEnv, TestRepo) {
    let env = TeamEnv::new();
    let repo = env.repo("site");
    write_picture(&repo.path().join("design/start.png"), 0);
    let new = ["team", "new", "page", "--goal", "the start page looks like its draft"];
    env.provost_in(repo.path(), &[&new, flags].concat()).ok();
    env.bind("page", "hand", "worker");
    (env, repo)
}

const PICTURES_ARGS: [&str; 3] = ["--pictures", "design/start.png", "shots/start.png"];

fn check_page(env: &TeamEnv, words: &[&str]) -> provost_testkit::harness::ProgramOutput {
    env.provost(&[&["team", "prove"], words, &["-t", "page", "--json"]].concat())
}

/// Waits until `times` checks are done, and returns the data of the newest.
fn wait_check_done(env: &TeamEnv, times: usize) -> Value {
    eventually("the pictures are compared", || {
        let all = env.provost(&["events", "--json", "--limit", "10000"]).ok().json();
        let events = all["events"].as_array().unwrap().clone();
        let done: Vec<_> =
            events.into_iter().filter(|one| one["kind"] == "team.check_done").collect();
        (done.len() == times).then(|| done[times - 1]["data"].clone())
    })
}

fn loop_status(env: &TeamEnv) -> Value {
    env.provost(&["team", "loop", "status", "-t", "page", "--json"]).ok().json()["loop"].clone()
}

#[test]
fn only_matching_pictures_are_verified_evidence() {
    let (env, repo) = open_page_team(&[]);
    let start = ["team", "loop", "start", "--require", "screens=pictures:20000", "-t", "page"];
    env.provost(&start).ok();
    let shot = repo.path().join("shots/start.png");
    write_picture(&shot, 3);
    let evidence = [&["--evidence", "screens"], &PICTURES_ARGS[..]].concat();
    check_page(&env, &evidence).ok();
    let differs = wait_check_done(&env, 1);
    assert_eq!(differs["receipt"]["end"], serde_json::json!({"exit": 1}), "{differs:#}");
    assert_eq!(differs["compared"]["differing"], 30_000, "{differs:#}");
    assert_eq!(loop_status(&env)["missing"][0], "screens");
    write_picture(&shot, 2);
    check_page(&env, &evidence).ok();
    let alike = wait_check_done(&env, 2);
    let digest = |path: &Path| blake3::hash(&fs::read(path).unwrap()).to_hex().to_string();
    let compared = &alike["compared"];
    assert_eq!(compared["actual_is"]["digest"], digest(&shot), "{alike:#}");
    assert_eq!(
        compared["expected_is"]["digest"],
        digest(&repo.path().join("design/start.png")),
        "{alike:#}"
    );
    let shown = loop_status(&env);
    assert_eq!(shown["missing"].as_array().map(Vec::len), Some(0), "{shown:#}");
    let words = shown["verified"]["screens"].as_str().unwrap();
    assert!(words.contains("20000 of a million pixels differ"), "{words}");
    assert!(words.contains(&digest(&shot)), "{words}");
}

#[test]
fn loop_pictures_are_compared_again_at_finish() {
    let (env, repo) = open_page_team(&[]);
    let screens = "screens=pictures:0:design/start.png:shots/start.png";
    env.provost(&["team", "loop", "start", "--require", screens, "-t", "page"]).ok();
    let shot = repo.path().join("shots/start.png");
    write_picture(&shot, 0);
    check_page(&env, &["--evidence", "screens", "--wait"]).ok();
    write_picture(&shot, 1);
    let finish = ["team", "done", "page", "--because", "it looks like its draft", "--json"];
    let refused = env.provost(&finish);
    assert!(refused.code() != Some(0) && refused.stdout.contains("check_failed"), "{refused:?}");
    check_page(&env, &["--evidence", "screens", "--wait"]).assert_code(1);
    let refused = env.provost(&finish);
    assert!(refused.assert_code(4).stdout.contains("loop_incomplete"), "{refused:?}");
    write_picture(&shot, 0);
    check_page(&env, &["--evidence", "screens", "--wait"]).ok();
    assert_eq!(env.provost(&finish).ok().json()["team"]["state"], "done");
}

#[test]
fn invalid_picture_is_reported_with_reason() {
    let (env, repo) = open_page_team(&[]);
    env.provost(&["team", "loop", "start", "visual-diff", "--check", "true", "-t", "page"]).ok();
    let evidence = [&["--evidence", "screens"], &PICTURES_ARGS[..]].concat();
    check_page(&env, &evidence).ok();
    let missing = wait_check_done(&env, 1);
    let tail = missing["receipt"]["tail"].as_str().unwrap();
    assert!(tail.contains("shots/start.png"), "{tail}");
    repo.write("shots/start.png", "I look just like the draft");
    check_page(&env, &evidence).ok();
    let bad = wait_check_done(&env, 2);
    let tail = bad["receipt"]["tail"].as_str().unwrap();
    assert!(tail.contains("shots/start.png is not a readable PNG picture"), "{tail}");
    assert_eq!(bad["receipt"]["end"], serde_json::json!({"exit": 2}));
    for wrong in [["/etc/hostname", "a.png"], ["a.png", "../b.png"], ["a.png", "a.png"]] {
        let words = [&["--evidence", "screens", "--pictures"], &wrong[..]].concat();
        check_page(&env, &words).assert_code(2);
    }
    check_page(&env, &["--evidence", "screens"]).assert_code(2);
    let loose = [&evidence[..], &["--tolerance", "0.01", "--as", "hand"]].concat();
    check_page(&env, &loose).assert_code(4);
    check_page(&env, &[&evidence[..], &["--tolerance", "2"]].concat()).assert_code(2);
}

#[test]
fn picture_criterion_is_rechecked_at_finish() {
    let (env, repo) = open_page_team(&[]);
    let add =
        ["team", "criterion", "add", "the page looks like its draft", "--accept", "-t", "page"];
    env.provost(&[&add[..], &PICTURES_ARGS].concat()).ok();
    let shot = repo.path().join("shots/start.png");
    write_picture(&shot, 0);
    check_page(&env, &["--criterion", "1"]).ok();
    wait_check_done(&env, 1);
    let listed = env.provost(&["team", "criterion", "ls", "-t", "page", "--json"]).ok().json();
    let criterion = &listed["criteria"][0];
    assert_eq!(
        (&criterion["state"], &criterion["receipt"]),
        (&"satisfied".into(), &"verified".into())
    );
    write_picture(&shot, 1);
    env.provost(&["team", "done", "page", "--because", "it looks like its draft"]).assert_code(4);
    let task = env.provost(&["team", "show", "page", "--json"]).ok().json()["team"].clone();
    assert_eq!(task["blockers"][0]["code"], "check_failed", "{task:#}");
    write_picture(&shot, 0);
    env.provost(&["team", "done", "page", "--because", "it looks like its draft"]).ok();
}
