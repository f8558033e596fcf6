//! The user's files and settings reach Codex, and none of them is changed.

use std::{fs, path::Path, time::SystemTime};

use serde_json::json;

use crate::codex_env::{CodexEnv, TestedCodex};

const WORK_SCENARIO: &str = r#"
[[thread]]
turn = [{ response = [
  { items = [{ shell = "echo made > made.txt" }] },
  { items = [{ tool = "provost_report", args = { status = "completed", summary = "done" } }] },
  { items = [{ message = "Done." }] },
] }]
"#;

#[test]
fn e12_user_codex_home_is_unchanged_by_sessions() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, WORK_SCENARIO) else { return };
        let home = stage.codex_home();
        fs::write(home.join("AGENTS.md"), "Be kind.\n").unwrap();
        write_skill(&home.join("skills/deploy"), "deploy");
        let before = file_contents(&home);
        let id = stage.spawn(&["Make it."]);
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{which:?}: {row:#}");
        assert_eq!(file_contents(&home), before, "{which:?}");
        assert_eq!(stage.repo.read("made.txt"), "made\n");
    }
}

#[test]
fn e11_agents_md_of_project_and_user_reach_model() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, WORK_SCENARIO) else { return };
        stage.repo.write("AGENTS.md", "Always whistle CANARY-PROJECT.\n");
        stage.repo.commit("instructions");
        fs::write(stage.codex_home().join("AGENTS.md"), "Never shout CANARY-USER.\n").unwrap();
        let id = stage.spawn(&["--worktree", "Make it."]);
        let body = stage.model.wait_for_request("the first", |_| true).request.body.to_string();
        assert!(body.contains("CANARY-PROJECT"), "{which:?}: {body}");
        assert!(body.contains("CANARY-USER"), "{which:?}: {body}");
        stage.wait_sealed(&id);
    }
}

#[test]
fn r11_skills_of_all_roots_reach_codex_natively() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, WORK_SCENARIO) else { return };
        let extra = stage.home.root().join("extra");
        write_skill(&stage.codex_home().join("skills/of-user"), "of-user");
        write_skill(&stage.repo.path().join(".agents/skills/of-project"), "of-project");
        write_skill(&extra.join("of-root"), "of-root");
        fs::create_dir_all(extra.join("broken")).unwrap();
        fs::write(extra.join("broken/SKILL.md"), "no front matter\n").unwrap();
        stage.configure(&format!("skills.roots = [{:?}]\n", extra.display().to_string()));
        let listed = stage.home.provost_in(stage.repo.path(), &["skills", "list", "--json"]);
        let listed = listed.ok().json();
        let count = |name: &str| listed[name].as_u64().unwrap();
        assert_eq!(count("used") + count("skipped"), count("listed"), "{listed:#}");
        assert_eq!(count("used"), 3, "{listed:#}");
        let id = stage.spawn(&["Make it."]);
        let body = stage.model.wait_for_request("the first", |_| true).request.body.to_string();
        for name in ["of-user", "of-project", "of-root"] {
            assert!(body.contains(&format!("what {name} does")), "{which:?} {name}: {body}");
        }
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], json!("completed"), "{row:#}");
    }
}

#[test]
fn r14_whole_skill_is_readable_at_its_path() {
    let Some(stage) = CodexEnv::new(
        r#"
        [[thread]]
        turn = [{ response = [
          { items = [{ shell = "find -L $CODEX_HOME/skills -name SKILL.md -path '*of-root*' -exec cat {} +" }] },
          { items = [{ tool = "provost_report", args = { status = "completed", summary = "read" } }] },
          { items = [{ message = "Read." }] },
        ] }]"#,
    ) else {
        return;
    };
    let extra = stage.home.root().join("extra");
    write_skill(&extra.join("of-root"), "of-root");
    stage.configure(&format!("skills.roots = [{:?}]\n", extra.display().to_string()));
    let id = stage.spawn(&["Read it."]);
    stage.wait_sealed(&id);
    let read = stage.model.requests()[1].request.last_output();
    assert!(read.contains("the whole body of of-root"), "{read}");
}

fn write_skill(dir: &Path, name: &str) {
    fs::create_dir_all(dir).unwrap();
    let text = format!(
        "---\nname: {name}\ndescription: what {name} does\n---\nthe whole body of {name}\n"
    );
    fs::write(dir.join("SKILL.md"), text).unwrap();
}

/// Returns every file and directory below `dir`, with its modification time and content.
fn file_contents(dir: &Path) -> Vec<(String, SystemTime, Vec<u8>)> {
    let mut all = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(path) = open.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let content = if about.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        all.push((path.display().to_string(), about.modified().unwrap(), content));
        if about.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    all.sort();
    all
}
