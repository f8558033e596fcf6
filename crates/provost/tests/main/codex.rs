//! Codex before any session starts: locating it, the doctor's findings, and its skills.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::Value;

use crate::cli_env::CliEnv;

#[expect(clippy::unwrap_used, reason = "a panic fails the test, also in helpers")]
impl CliEnv {
    /// Writes a program that poses as Codex: it prints its version, and its sandbox works or fails.
    fn write_fake_codex(&self, below: &str, version: &str, sandbox: &str) -> String {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let script = format!(
            "#!/bin/sh\ncase $1 in --version) echo 'codex-cli {version}';; sandbox) {sandbox};; esac\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    fn write_skill(&self, below: &str, name: &str) {
        fs::create_dir_all(self.path(below)).unwrap();
        let text = format!("---\nname: {name}\ndescription: what {name} does\n---\nbody\n");
        fs::write(self.path(below).join("SKILL.md"), text).unwrap();
    }

    /// Returns the doctor's findings about one subject, as level and text.
    fn doctor_findings(&self, what: &str, variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let value = self.run_with(&["doctor", "--json"], variables).json();
        let findings = value["findings"].as_array().unwrap().iter();
        let describe = |finding: &Value| {
            let part = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
            (part("level"), format!("{} → {}", part("found"), part("fix")))
        };
        findings.filter(|finding| finding["what"] == what).map(describe).collect()
    }
}

#[test]
fn r05_named_non_codex_is_an_error() {
    let world = CliEnv::new();
    let none = world.write_fake_codex("bin/none", "", "exit 0");
    let spawn = ["spawn", "--json", "--agent", "codex", "do it"];
    let flagged = [&spawn[..], &["--codex-path", &none]].concat();
    let by_flag = world.run_with(&flagged, &[("PROVOST_CODEX", "/no/such/codex")]);
    assert_eq!(by_flag.code, 2, "{by_flag:?}");
    let message = by_flag.json_error("bad_request");
    assert!(message.contains("set by --codex-path") && message.contains("not Codex"), "{message}");
    world.write("user/.config/provost/provost.toml", "agents.codex.path = \"below/codex\"\n");
    let message = world.run(&spawn).json_error("bad_request");
    let place = world.path("user/.config/provost/below/codex").display().to_string();
    assert!(message.contains("set by agents.codex.path") && message.contains(&place), "{message}");
    let by_variable = world.run_with(&spawn, &[("PROVOST_CODEX", "/no/such/codex")]);
    let message = by_variable.json_error("bad_request");
    assert!(message.contains("set by PROVOST_CODEX") && message.contains("/no/such"), "{message}");
    world.assert_untouched();
}

#[test]
fn r05_doctor_lists_every_codex_with_reason() {
    let world = CliEnv::new();
    world.write_fake_codex("old/codex", "0.63.0", "exit 0");
    world.write_fake_codex("usable/codex", "97.0.0", "exit 0");
    let newest = world.write_fake_codex("user/.local/bin/codex", "98.0.0", "exit 0");
    let dirs = ["old", "usable"].map(|dir| world.path(dir).display().to_string());
    let path = format!("{}:/usr/bin:/bin", dirs.join(":"));
    let found = world.doctor_findings("codex", &[("PATH", &path)]);
    let about = |part: &str| {
        let mut found = found.iter().filter(|(_, text)| text.contains(part));
        found.next().unwrap_or_else(|| panic!("{part} is not in {found:?}")).clone()
    };
    assert!(about(&newest).1.contains("98.0.0, used by --agent codex"));
    assert!(
        about("usable/codex").1.contains("97.0.0, not used because a newer version is installed")
    );
    let (level, old) = about("old/codex");
    assert!(level == "ok" && old.contains("older than 0.107.0"), "{level} {old}");
    assert_eq!(world.doctor_findings("sandbox", &[("PATH", &path)])[0].0, "ok");
}

#[test]
fn doctor_explains_unusable_codex() {
    let world = CliEnv::new();
    let old = world.write_fake_codex("old/codex", "0.63.0", "exit 0");
    let named = world.doctor_findings("codex", &[("PROVOST_CODEX", &old)]);
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(named[0].0 == "fail" && named[0].1.contains("PROVOST_CODEX"), "{named:?}");
    let ran = world.run_with(&["doctor", "--json"], &[("PROVOST_CODEX", &old)]);
    assert_eq!(ran.code, 1);
    let home = world.path("gone").display().to_string();
    let found = world.doctor_findings("codex home", &[("CODEX_HOME", &home)]);
    assert!(found[0].0 == "fail" && found[0].1.contains("CODEX_HOME"), "{found:?}");
}

#[test]
fn doctor_checks_sandbox_and_home_location() {
    let world = CliEnv::new();
    let complaint = "echo 'bubblewrap is unavailable: no system bwrap' >&2; exit 101";
    let broken = world.write_fake_codex("bin/codex", "98.0.0", complaint);
    let found = world.doctor_findings("sandbox", &[("PROVOST_CODEX", &broken)]);
    assert_eq!(found[0].0, "warn", "{found:?}");
    assert!(found[0].1.contains("no system bwrap") && found[0].1.contains("install bubblewrap"));
    let home = world.home().display().to_string();
    let temporary = world.path("").display().to_string();
    let within = [("PROVOST_CODEX", broken.as_str()), ("TMPDIR", &temporary)];
    let found = world.doctor_findings("codex home", &within);
    assert!(
        found[0].0 == "warn" && found[0].1.contains("temporary directory"),
        "{home}: {found:?}"
    );
}

#[test]
fn doctor_warns_of_missing_codex_login() {
    let world = CliEnv::new();
    let codex = world.write_fake_codex("bin/codex", "98.0.0", "exit 0");
    let with = [("PROVOST_CODEX", codex.as_str())];
    let found = world.doctor_findings("codex login", &with);
    assert_eq!((found.len(), found[0].0.as_str()), (1, "warn"), "{found:?}");
    assert!(
        found[0].1.contains("not logged in") && found[0].1.ends_with("→ codex login"),
        "{found:?}"
    );
    let keyed = world.doctor_findings("codex login", &[with[0], ("OPENAI_API_KEY", "k")]);
    assert_eq!(keyed[0].0, "ok", "{keyed:?}");
    let provider = "model_provider = \"p\"\n[model_providers.p]\nbase_url = \"http://localhost\"\n";
    fs::create_dir_all(world.path("user/.codex")).unwrap();
    world.write("user/.codex/config.toml", provider);
    assert_eq!(world.doctor_findings("codex login", &with)[0].0, "ok");
}

#[test]
fn r08_every_skill_is_used_or_skipped_with_reason() {
    let world = CliEnv::new();
    world.git(&["init", "-q"]);
    world.write_skill("work/.agents/skills/review", "review");
    world.write_skill("user/.codex/skills/deploy", "deploy");
    world.write_skill("work/skills/extra", "extra");
    world.write_skill("work/skills/twin", "review");
    fs::create_dir_all(world.path("work/skills/broken")).unwrap();
    world.write("work/skills/broken/SKILL.md", "no front matter\n");
    world.write("work/provost.toml", "skills.roots = [\"skills\", \"gone\"]\n");
    assert_eq!(world.run(&["trust", "--yes"]).code, 0);
    let value = world.run(&["skills", "list", "--json"]).json();
    let skills = value["skills"].as_array().unwrap();
    let named = |part: &str| {
        let mut found =
            skills.iter().filter(|skill| skill["path"].as_str().unwrap().ends_with(part));
        found.next().unwrap_or_else(|| panic!("{part} is not in {value:#}"))
    };
    assert_eq!(
        (&named("review")["used"], &named("review")["delivery"]),
        (&true.into(), &"native".into())
    );
    assert_eq!(named("deploy")["root"]["kind"], "codex_home");
    assert_eq!(
        (&named("extra")["delivery"], &named("extra")["root"]["kind"]),
        (&"linked".into(), &"extra".into())
    );
    for (part, reason) in
        [("twin", "same name"), ("broken", "front matter"), ("gone", "no such directory")]
    {
        let skill = named(part);
        assert_eq!(skill["used"], false, "{skill}");
        assert!(skill["reason"].as_str().unwrap().contains(reason), "{skill}");
    }
    let used = skills.iter().filter(|skill| skill["used"] == true).count();
    let skipped = skills.iter().filter(|skill| skill["reason"].is_string()).count();
    assert_eq!(
        (value["used"].as_u64(), value["skipped"].as_u64()),
        (Some(used as u64), Some(skipped as u64))
    );
    assert_eq!(value["listed"].as_u64(), Some((used + skipped) as u64));
    let people = world.run(&["skills", "list"]);
    assert!(
        people.stdout.contains("skipped: ") && people.stderr.contains(&format!("{used} used")),
        "{people:?}"
    );
    let elsewhere = world.run(&["skills", "list", "--cwd", "/", "--json"]).json();
    assert!(!elsewhere.to_string().contains("extra\""), "{elsewhere}");
    world.assert_untouched();
}

#[test]
fn doctor_lists_missing_codex_variables() {
    let world = CliEnv::new();
    let text = "agents.codex.pass_env = [\"AZURE_KEY\"]\n";
    world.write("user/.config/provost/provost.toml", text);
    let lacking = world.doctor_findings("pass_env", &[]);
    assert!(
        lacking[0].0 == "warn" && lacking[0].1.contains("AZURE_KEY (for codex)"),
        "{lacking:?}"
    );
    assert_eq!(world.doctor_findings("pass_env", &[("AZURE_KEY", "x")])[0].0, "ok");
}

#[test]
fn doctor_warns_of_unread_config_file() {
    let world = CliEnv::new();
    world.write("work/provost.toml", "[session]\nsettle = \"9s\"\n");
    let found = world.doctor_findings("config", &[]);
    assert!(
        found.iter().any(|(level, text)| level == "warn" && text.contains("is not read")),
        "{found:?}"
    );
    fs::create_dir(world.path("work/.git")).unwrap();
    let found = world.doctor_findings("config", &[]);
    assert!(
        found.iter().any(|(level, _)| level == "warn"),
        "an empty .git is not a repository: {found:?}"
    );
}
