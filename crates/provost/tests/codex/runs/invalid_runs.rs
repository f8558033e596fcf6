//! Invalid runs are refused before anything is created, with a reason and the next step.

use std::fs;

use crate::codex_env::CodexEnv;

#[test]
fn invalid_run_arguments_are_refused() {
    let Some(stage) = CodexEnv::new("") else { return };
    let empty = stage.root().join("empty.md");
    fs::write(&empty, " \n").unwrap();
    let empty = empty.to_str().unwrap();
    let wrong: [(&[&str], &str); 10] = [
        (&[], "no goal given"),
        (&[" "], "the goal is empty"),
        (&["--spec", "/no/such/file"], "cannot read the spec /no/such/file"),
        (&["x", "--spec", empty], "the file is empty"),
        (&["x", "--land", "rebase"], "possible values: branch, merge, pr"),
        (&["x", "--review-task", "maybe"], "possible values: off, report, repair"),
        (&["x", "--preset", "nosuch"], "no such preset"),
        (&["x", "--answers", empty], "cannot parse the answers"),
        (&["x", "--agent", "nobody"], "there is no agent \"nobody\""),
        (&["x", "--cwd", "/proc"], "a run needs a git repository"),
    ];
    for (arguments, expected) in wrong {
        let refused = stage.run(arguments);
        assert!(refused.assert_code(2).stderr.contains(expected), "{arguments:?}: {refused:#?}");
    }
    assert_eq!(stage.provost(&["ls", "--json"]).ok().json()["runs"].as_array().unwrap().len(), 0);
}

#[test]
fn e02_repository_without_branch_is_refused() {
    let Some(stage) = CodexEnv::new("") else { return };
    stage.repo.git(&["switch", "--quiet", "--detach"]);
    for land in ["merge", "pr"] {
        let refused = stage.run(&["x", "--land", land]);
        assert!(refused.assert_code(2).stderr.contains("no branch is checked out"), "{refused:#?}");
    }
    let bare = stage.root().join("bare.git");
    stage.repo.git(&["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    let refused = stage.home.provost_in(&bare, &["run", "x"]);
    assert!(refused.assert_code(2).stderr.contains("bare repository"), "{refused:#?}");
    let young = stage.root().join("young");
    stage.repo.git(&["init", "--quiet", young.to_str().unwrap()]);
    let refused = stage.home.provost_in(&young, &["run", "x"]);
    assert!(refused.assert_code(2).stderr.contains("git commit --allow-empty"), "{refused:#?}");
}

#[test]
fn misleading_config_is_refused() {
    let Some(stage) = CodexEnv::new("") else { return };
    let wrong = [
        ("[prompts]\nwork = \"Do {{taks}}.\"\n", "unknown placeholder \"taks\""),
        ("[prices]\ninput = 1\n", "prices.input and prices.output"),
        ("[presets.mine]\nreview.tsak = \"off\"\n", "did you mean \"presets.mine.review.task\"?"),
    ];
    for (text, expected) in wrong {
        stage.repo.write("provost.toml", text);
        let refused = stage.run(&["x", "--detach"]);
        assert!(refused.assert_code(2).stderr.contains(expected), "{text}: {refused:#?}");
    }
    stage.repo.write(
        "provost.toml",
        "[presets.mine]\nreview.final = \"repair\"\nverify.checks = [\"make\"]\n",
    );
    let shown = stage.home.provost_in(stage.repo.path(), &["presets"]).ok().stdout.clone();
    for part in ["careful", "quick", "mine", "preset mine, project"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
}
