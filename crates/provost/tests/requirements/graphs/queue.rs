//! The merge queue: conflicts, tasks that break what others did, and the branch that is never broken.

use serde_json::json;

use super::kit::{Scripted, Site, beside};

/// Both add a line in the same place. Who is told of the conflict keeps both lines.
fn adds(line: &str) -> String {
    format!(
        "case $n in 1) printf 'base\\n{line}\\n' > shared.txt;; *) cp shared.txt $root/seen-{line}-$n; grep -v '^[<=>]' shared.txt | sort > s; mv s shared.txt;; esac"
    )
}

#[test]
fn a_conflict_goes_to_the_session_that_did_the_work_with_both_sides_in_the_file() {
    let (left, right) =
        (beside("left", "right", &adds("left")), beside("right", "left", &adds("right")));
    let site = Site::new(&[("left", &[], &left), ("right", &[], &right)]);
    site.repo.write("shared.txt", "base\n");
    site.repo.commit("Something to change");
    let check = "test -s shared.txt && ! grep -q '^[<=>]' shared.txt";
    let id = site.opened(&["--check", check]);
    let row = site.ended(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let returned = site.events(&id, "run.task_returned");
    assert_eq!(returned.len(), 1, "{returned:#?}");
    let task = returned[0]["task"].as_str().unwrap();
    let told = site.told_of(task);
    assert_eq!((told.len(), &told[0].session), (2, &told[1].session), "{told:?}");
    assert_eq!(told[1].thread, "t", "it is the same conversation");
    let words = site.told(task, 2);
    assert!(words.contains("conflict markers") && words.contains("- shared.txt"), "{words}");
    let seen = std::fs::read_to_string(site.stage.file(&format!("seen-{task}-2"))).unwrap();
    for part in ["<<<<<<<", "left\n", "=======", "right\n", ">>>>>>>"] {
        assert!(seen.contains(part), "{part} in {seen}");
    }
    let branch = site.branch(&id);
    assert_eq!(site.file_at(&branch, "shared.txt"), "base\nleft\nright");
    site.every_commit_passes(&branch, check);
    let graph = site.graph(&id);
    let back = graph["tasks"].as_array().unwrap().iter().find(|one| one["id"] == task).unwrap();
    assert_eq!((&back["state"], &back["returns"]), (&json!("merged"), &json!(1)));
}

/// Good alone, bad beside `third.txt`, until somebody mends it.
const COMPATIBLE: &str = "test ! -e bad.txt || test ! -e third.txt || test -e mended.txt";

/// Waits for a sign, and leaves a file.
fn on_sign(name: &str) -> String {
    format!("while ! test -e $root/go-{name}; do sleep 0.01; done; echo {name} > {name}.txt")
}

#[test]
fn a_task_that_breaks_what_others_did_is_found_by_halves_and_sent_back_with_the_evidence() {
    let names = ["zero", "held", "first", "second", "third", "bad", "fourth"];
    let scripts = names.map(on_sign);
    let bad = format!("{}; test $n = 1 || echo m > mended.txt", scripts[5]);
    let script = |at: usize| if at == 5 { bad.as_str() } else { scripts[at].as_str() };
    let tasks: Vec<Scripted<'_>> = (0..7).map(|at| (names[at], &[][..], script(at))).collect();
    let site = Site::new(&tasks);
    // What is merged second is checked for as long as the others need to stand in the queue: they are one batch.
    let root = site.stage.home.root().display().to_string();
    let holds = format!(
        "test ! -e zero.txt || test ! -e held.txt || {{ touch {root}/holding; while ! test -e {root}/go-on; do sleep 0.01; done; }}"
    );
    let check = format!("({COMPATIBLE}) || {{ echo these two do not fit; exit 1; }}");
    let id = site.opened(&["--parallel", "8", "--check", &holds, "--check", &check]);
    site.sign("go-zero");
    site.wait_task(&id, "zero", "merged");
    site.sign("go-held");
    site.appears("holding");
    for task in ["first", "second", "third", "bad", "fourth"] {
        site.sign(&format!("go-{task}"));
        site.wait_task(&id, task, "queued");
    }
    site.sign("go-on");
    let row = site.ended(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(7)),
        "{row:#}"
    );
    let merged = site.events(&id, "run.batch_merged");
    assert!(
        merged.iter().any(|batch| batch["links"].as_array().unwrap().len() == 5),
        "{merged:#?}"
    );
    let returned = site.events(&id, "run.task_returned");
    let back: Vec<&str> = returned.iter().map(|one| one["task"].as_str().unwrap()).collect();
    assert_eq!(back, ["bad"], "{returned:#?}");
    let words = site.told("bad", 2);
    assert!(words.contains("> these two do not fit") && words.contains(COMPATIBLE), "{words}");
    let told = site.told_of("bad");
    assert_eq!(told[0].session, told[1].session, "who did it mends it");
    site.every_commit_passes(&site.branch(&id), COMPATIBLE);
    let others = ["first", "second", "third", "fourth"].map(|task| site.told_of(task).len());
    assert_eq!(others, [1; 4], "nobody else had to do anything again");
}

#[test]
fn a_setup_that_changes_files_does_not_change_what_the_queue_checks() {
    let tasks: [Scripted<'_>; 2] =
        [("one", &[], "echo 1 > one.txt"), ("two", &[], "echo 2 > two.txt")];
    let site = Site::configured(&tasks, "worktree.setup = \"echo set up >> README.md\"\n");
    let id = site.opened(&["--check", "true"]);
    let row = site.ended(&id);
    assert_eq!((&row["state"], &row["proved"]), (&json!("succeeded"), &json!(true)), "{row:#}");
    let branch = site.branch(&id);
    let tree = site.repo.git(&["rev-parse", &format!("{branch}^{{tree}}")]);
    assert_eq!(row["tree"], json!(tree), "what was proved is what is on the branch");
    assert_eq!(site.file_at(&branch, "README.md").matches("set up").count(), 1);
}
