//! The features that real Codex reports.

use std::fs;

use provost_agent_codex::features::is_enabled;

use crate::{real, test_env::CodexHomeEnv};

#[test]
fn feature_state_follows_user_settings() {
    let (Some(new), Some(old)) = (real::codex(), real::old_codex()) else { return };
    let env = CodexHomeEnv::new();
    let home = env.path("home/.codex");
    fs::create_dir_all(&home).unwrap();
    let environment =
        [("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), env.path("home").into())];
    let asked = |codex: &std::path::Path| {
        let argv = [codex.to_str().unwrap().to_owned()];
        is_enabled(&argv, &environment, Some(&home), "multi_agent").unwrap()
    };
    assert_eq!((asked(&new), asked(&old)), (Some(true), Some(false)));
    fs::write(home.join("config.toml"), "[features]\nmulti_agent = false\n").unwrap();
    assert_eq!(asked(&new), Some(false));
    fs::write(home.join("config.toml"), "[features]\nmulti_agent = true\n").unwrap();
    assert_eq!(asked(&old), Some(true));
    let written: Vec<_> =
        fs::read_dir(&home).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(written, ["config.toml"], "the user's home is left as it was");
}
