//! A stand-in for GitHub: a scripted `gh`, the files from which it answers, and a remote repository.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::harness::{TestHome, TestRepo};

/// The script of a `gh` for pull requests. It records its calls in `calls` and the text of the pull
/// request in `body.md`, and answers from `list.json`, `view.json` and `lines.json`.
pub const PULL_REQUESTS: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$*" >> calls
case "$1 $2" in
"pr list") cat list.json ;;
"pr create")
    cat > body.md
    echo '[{"number":7,"url":"https://example.invalid/pull/7","state":"OPEN"}]' > list.json
    echo https://example.invalid/pull/7 ;;
"pr view")
    # Variables of the user's repository must not apply to this one.
    head=$(env -u GIT_COMMON_DIR -u GIT_OBJECT_DIRECTORY git --git-dir remote.git for-each-ref --format='%(objectname)' refs/heads/provost/)
    sed "s/HEAD/$head/" view.json ;;
"api repos"*) cat lines.json ;;
*) echo "unknown call: $*" >&2; exit 1 ;;
esac
"#;

/// The directory of a scripted `gh`.
#[derive(Debug)]
pub struct FakeForge {
    dir: PathBuf,
}

impl FakeForge {
    /// Puts a `gh` with this script on the home's search path.
    pub fn new(home: &mut TestHome, script: &str) -> FakeForge {
        let dir = home.root().join("forge");
        fs::create_dir(&dir).expect("the forge's directory can be created");
        home.set_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", dir.display()));
        let forge = FakeForge { dir };
        forge.install(script);
        forge
    }

    /// Creates a forge with an empty remote for the repository, no pull request, and no comments.
    pub fn with_remote(home: &mut TestHome, repo: &TestRepo, script: &str) -> FakeForge {
        let forge = FakeForge::new(home, script);
        let remote = forge.path("remote.git");
        let remote = remote.to_str().expect("the test's paths are UTF-8");
        repo.git(&["init", "--quiet", "--bare", remote]);
        repo.git(&["remote", "add", "origin", remote]);
        forge.write_json("list.json", &json!([]));
        forge.write_json("lines.json", &json!([]));
        forge.set_view("OPEN", &json!([]));
        forge
    }

    /// Writes the script of `gh`.
    pub fn install(&self, script: &str) {
        let path = self.path("gh");
        fs::write(&path, script).expect("the script can be written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .expect("the script can be made executable");
    }

    /// Removes `gh`.
    pub fn uninstall(&self) {
        fs::remove_file(self.path("gh")).expect("the script can be removed");
    }

    /// Returns the path of one of the forge's files.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes an answer atomically.
    pub fn write_json(&self, name: &str, value: &Value) {
        let unfinished = self.path(format!("{name}.new"));
        fs::write(&unfinished, value.to_string()).expect("the answer can be written");
        fs::rename(unfinished, self.path(name)).expect("the answer can be replaced");
    }

    /// Sets the state of the pull request and its checks.
    pub fn set_view(&self, state: &str, checks: &Value) {
        let view = json!({"state": state, "headRefOid": "HEAD", "statusCheckRollup": checks});
        self.write_json("view.json", &view);
    }

    /// Returns the number of calls that begin with these words.
    pub fn count_calls(&self, words: &str) -> usize {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.lines().filter(|line| line.starts_with(words)).count()
    }

    /// Returns the text of the pull request.
    #[track_caller]
    pub fn pull_request_text(&self) -> String {
        fs::read_to_string(self.path("body.md")).expect("a pull request was created")
    }
}
