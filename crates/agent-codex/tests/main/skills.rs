//! R8, R11, R14: skills reach Codex complete and natively; none is dropped silently.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use provost_agent_codex::SessionHome;
use provost_agent_codex::prepare;
use provost_agent_codex::skills::{
    AgentView, Delivery, RootKind, Skill, SkillRoot, SkillStatus, SkipReason, confirm, list,
    native_roots, native_roots_within,
};
use serde_json::{Value, json};

use crate::real::{self, AppServer};
use crate::test_env::CodexHomeEnv;

#[test]
fn r8_used_plus_skipped_is_listed() {
    let env = CodexHomeEnv::new();
    let used = ["plain", "group/inner", "group/inner/nested"];
    for name in used {
        env.skill(&format!("root/{name}"), name.rsplit('/').next().unwrap());
    }
    env.skill("target", "by-link");
    env.link("root/linked", &env.path("target"));
    env.skill("root/a/b/c/d/e/f/g", "deep");
    env.skill("root/.hidden", "hidden");
    env.skill("root/zz-same-name", "plain");
    env.link("root/zz-same-place", &env.path("root/plain"));
    env.write("root/file", "x");
    env.write("root/empty/readme", "x");
    env.write("root/broken/SKILL.md", "no front matter");
    env.write("root/no-description/SKILL.md", "---\nname: n\n---\n");
    env.link("root/dangling", Path::new("nowhere"));
    env.link("root/file-link/SKILL.md", &env.path("target/SKILL.md"));
    fs::write(env.path("root/latin.tmp"), "").unwrap();
    let roots = [extra(&env, "root"), extra(&env, "none"), extra(&env, "root/file")];

    let skills = list(&roots);

    let statuses: BTreeMap<String, &SkillStatus> =
        skills.iter().map(|skill| (of_lab(&env, &skill.path), &skill.status)).collect();
    let skipped = |name: &str| match statuses[name] {
        SkillStatus::Skipped(reason) => reason.clone(),
        SkillStatus::Used(_) => panic!("{name} is used"),
    };
    assert_eq!(*statuses["root/plain"], SkillStatus::Used(Delivery::Linked));
    assert_eq!(*statuses["root/group/inner"], SkillStatus::Used(Delivery::Linked));
    let within = Delivery::Within(env.path("root/group/inner"));
    assert_eq!(*statuses["root/group/inner/nested"], SkillStatus::Used(within));
    assert_eq!(*statuses["target"], SkillStatus::Used(Delivery::Linked));
    assert_eq!(skipped("root/a/b/c/d/e/f/g"), SkipReason::TooDeep);
    assert_eq!(skipped("root/.hidden"), SkipReason::Hidden);
    let with = env.path("root/plain");
    assert_eq!(skipped("root/zz-same-name"), SkipReason::NameClash { with });
    assert_eq!(skipped("root/empty"), SkipReason::NoSkillFile);
    assert!(matches!(skipped("root/broken"), SkipReason::BrokenFrontMatter { .. }));
    assert!(matches!(skipped("root/no-description"), SkipReason::BrokenFrontMatter { .. }));
    assert!(matches!(skipped("root/dangling"), SkipReason::Unreadable { .. }));
    assert_eq!(skipped("root/file-link"), SkipReason::LinkedFile);
    assert_eq!(skipped("root/file"), SkipReason::NotADirectory);
    assert_eq!(skipped("root/latin.tmp"), SkipReason::NotADirectory);
    assert_eq!(skipped("none"), SkipReason::NoSuchRoot);
    assert_eq!(statuses.len(), 15, "{:?}", statuses.keys());
}

#[test]
fn skill_in_two_roots_is_used_once() {
    let env = CodexHomeEnv::new();
    env.skill("one/x", "x");
    env.link("two/x", &env.path("one/x"));
    let skills = list(&[extra(&env, "one"), extra(&env, "two")]);
    let standings: Vec<&SkillStatus> = skills.iter().map(|skill| &skill.status).collect();
    let again = SkillStatus::Skipped(SkipReason::AlreadyListed { at: env.path("one") });
    assert_eq!(standings, [&SkillStatus::Used(Delivery::Linked), &again]);
}

#[test]
fn unreadable_skill_is_reported() {
    let env = CodexHomeEnv::new();
    env.write("root/latin/SKILL.md", "");
    fs::write(env.path("root/latin/SKILL.md"), b"---\nname: l\ndescription: caf\xe9\n---\n")
        .unwrap();
    env.skill("root/locked", "locked");
    let locked = env.path("root/locked/SKILL.md");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read(&locked).is_ok();
    let skills = list(&[extra(&env, "root")]);
    let unreadable = |name: &str| {
        let skill = skills.iter().find(|skill| skill.path.ends_with(name)).unwrap();
        matches!(skill.status, SkillStatus::Skipped(SkipReason::Unreadable { .. }))
    };
    assert!(unreadable("latin"));
    assert_eq!(unreadable("locked"), !is_root);
}

#[test]
fn native_roots_stop_at_repository_root() {
    let env = CodexHomeEnv::new();
    fs::create_dir_all(env.path("worktree/a/b")).unwrap();
    let paths =
        |roots: &[SkillRoot]| roots.iter().map(|root| of_lab(&env, &root.path)).collect::<Vec<_>>();
    let expected = [
        "worktree/a/.agents/skills",
        "worktree/a/.codex/skills",
        "worktree/.agents/skills",
        "worktree/.codex/skills",
        "home/.agents/skills",
    ];
    let home = env.path("home");
    assert_eq!(paths(&native_roots(&home, &env.path("worktree/a"))), expected);
    let outside = ["tmp/.agents/skills", "tmp/.codex/skills", "home/.agents/skills"];
    // The test's own directory can be below a `.git`: Codex's sandbox makes an empty one in /tmp.
    assert_eq!(paths(&native_roots_within(&home, &env.path("tmp"), None)), outside);
}

#[test]
fn r11_extra_skills_are_linked_whole() {
    let env = CodexHomeEnv::new();
    env.skill("more/x", "first");
    env.write("more/x/scripts/run.sh", "echo whole");
    env.skill("most/x", "second");
    let both = with_roots(&env, &["more", "most"]);
    prepare(&both).unwrap();
    let script = fs::read_to_string(env.path("s/skills/x/scripts/run.sh")).unwrap();
    assert_eq!(script, "echo whole");
    assert_eq!(fs::read_link(env.path("s/skills/x-2")).unwrap(), env.path("most/x"));
    prepare(&with_roots(&env, &["most"])).unwrap();
    assert_eq!(fs::read_link(env.path("s/skills/x")).unwrap(), env.path("most/x"));
    assert!(!env.path("s/skills/x-2").is_symlink());
}

#[test]
fn r14_used_skills_match_codex_list() {
    for codex in [real::codex(), real::old_codex()].into_iter().flatten() {
        let env = skilled_user();
        let prepared = prepare(&with_roots(&env, &["more"])).unwrap();
        let mut skills = prepared.skills.clone();
        let result = listed_by(&env, &codex);

        confirm(&mut skills, &AgentView::from_result(&result));

        assert_eq!(used(&skills), seen(&result), "{}: {skills:#?}", codex.display());
        let names: BTreeSet<&str> = skills
            .iter()
            .filter(|skill| skill.is_used())
            .map(|skill| skill.name.as_str())
            .collect();
        let all = ["extra", "grouped", "of-home", "of-repository", "of-user", "within"];
        assert_eq!(names, BTreeSet::from(all));
        let off = skills.iter().find(|skill| skill.name == "off").unwrap();
        assert_eq!(off.status, SkillStatus::Skipped(SkipReason::DisabledInConfig));
        // The listing before Codex's confirmation was wrong only about this skill.
        let wrong: Vec<&str> = prepared
            .skills
            .iter()
            .zip(&skills)
            .filter(|(before, after)| before.status != after.status)
            .map(|(before, _)| before.name.as_str())
            .collect();
        assert_eq!(wrong, ["off"]);
    }
}

#[test]
fn skills_refused_by_codex_are_skipped() {
    let env = CodexHomeEnv::new();
    for name in ["taken", "refused", "unseen"] {
        env.skill(&format!("root/{name}"), name);
    }
    let mut skills = list(&[extra(&env, "root")]);
    let file = |name: &str| env.path(&format!("root/{name}/SKILL.md"));
    let errors = json!([{"path": file("refused"), "message": "bad\u{1b} yaml"}]);
    let row = json!({"skills": [{"path": file("taken"), "enabled": true}], "errors": errors});
    confirm(&mut skills, &AgentView::from_result(&json!({"data": [row, 3], "more": null})));
    let standings: Vec<&SkillStatus> = skills.iter().map(|skill| &skill.status).collect();
    let refused = SkipReason::RefusedByAgent { why: "bad\\u{1b} yaml".into() };
    let expected = [
        &SkillStatus::Skipped(refused),
        &SkillStatus::Used(Delivery::Linked),
        &SkillStatus::Skipped(SkipReason::NotSeenByAgent),
    ];
    assert_eq!(standings, expected);
}

/// Returns a user with skills in every location, one of them disabled.
fn skilled_user() -> CodexHomeEnv {
    let env = CodexHomeEnv::new();
    env.skill("home/.codex/skills/of-home", "of-home");
    env.skill("home/.codex/skills/group/grouped", "grouped");
    env.skill("home/.codex/skills/group/grouped/parts/within", "within");
    env.skill("home/.codex/skills/off", "off");
    env.skill("home/.codex/skills/.system/theirs", "theirs");
    env.skill("home/.agents/skills/of-user", "of-user");
    env.skill("worktree/.agents/skills/of-repository", "of-repository");
    env.skill("more/extra", "extra");
    env.skill("more/clash", "of-home");
    env.write("more/broken/SKILL.md", "no front matter");
    let off = "[[skills.config]]\npath = \"skills/off/SKILL.md\"\nenabled = false\n";
    env.write("home/.codex/config.toml", off);
    env
}

fn listed_by(env: &CodexHomeEnv, codex: &Path) -> Value {
    let mut server = AppServer::start(env, codex, &env.path("s"));
    server.ask("skills/list", json!({"cwds": [env.path("worktree")], "forceReload": true}))
}

fn used(skills: &[Skill]) -> BTreeSet<PathBuf> {
    let used = skills.iter().filter(|skill| skill.is_used());
    used.map(|skill| skill.path.join("SKILL.md")).collect()
}

/// Returns the files of the skills that Codex lists as enabled, without its own.
fn seen(result: &Value) -> BTreeSet<PathBuf> {
    let skills = result["data"][0]["skills"].as_array().unwrap().iter();
    let enabled = skills.filter(|skill| skill["enabled"] == true && skill["scope"] != "system");
    enabled.map(|skill| PathBuf::from(skill["path"].as_str().unwrap())).collect()
}

fn with_roots(env: &CodexHomeEnv, names: &[&str]) -> SessionHome {
    let skill_roots = names.iter().map(|name| env.path(name)).collect();
    SessionHome { skill_roots, ..env.session("s") }
}

fn extra(env: &CodexHomeEnv, name: &str) -> SkillRoot {
    SkillRoot { path: env.path(name), kind: RootKind::Extra }
}

fn of_lab(env: &CodexHomeEnv, path: &Path) -> String {
    path.strip_prefix(env.path("")).unwrap().display().to_string()
}
