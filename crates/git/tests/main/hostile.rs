//! A repository whose configuration names programs everywhere. None of them may run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use provost_git::command::Error;
use provost_git::{
    BranchFate, FastForward, Oid, Pool, Project, RefName, checkout_detached, diff_stat,
    fast_forward, merge, removal_risk, remove_worktree, snapshot, snapshot_user_checkout,
    snapshot_worktree, unique_branch, worktree_add,
};

use crate::program_keys::EVENTS;
use crate::test_env::{GitTestEnv, branch, commit_all, keep, says, write};

#[test]
fn repository_programs_do_not_run() {
    let env = GitTestEnv::new();
    env.write(".gitattributes", "*.txt diff=evil merge=evil\n");
    env.write("b.bin", "b\n");
    env.commit_all("attributes");
    arm(&env, &env.top());
    use_everything(&env);
    assert!(!canary(&env).exists(), "ran: {}", fs::read_to_string(canary(&env)).unwrap());
}

/// The name of a filter may contain a `=`, and a filter may be a long-running process.
#[test]
fn untrusted_filters_are_refused() {
    for (attributes, name) in
        [("*.txt filter=evil=name\n", "evil=name"), ("* filter=long\n", "long")]
    {
        let env = GitTestEnv::new();
        env.write(".gitattributes", attributes);
        env.write("a.txt", "six\n");
        let worktree = env.worktree();
        write(&worktree.path.join(".gitattributes"), attributes);
        write(&worktree.path.join("a.txt"), "two\n");
        arm(&env, &env.top());
        let refused = [
            snapshot_user_checkout(&env.git, &env.project(), &keep("loose"), &says("x"))
                .unwrap_err(),
            snapshot_worktree(&env.git, &worktree, &says("x"), &keep("k")).unwrap_err(),
        ];
        for error in refused {
            let snapshot::Error::Git(Error::UntrustedFilter { filter, files }) = &error else {
                panic!("{error}");
            };
            assert_eq!(filter, name);
            assert!(files.contains(".gitattributes") || files.contains("a.txt"), "{files}");
        }
        assert!(!canary(&env).exists(), "ran: {}", fs::read_to_string(canary(&env)).unwrap());
    }
}

#[test]
fn trusted_filter_runs_with_the_users_command() {
    let env = GitTestEnv::new();
    let user = "[filter \"evil=name\"]\nclean = tr a-z A-Z\nsmudge = tr A-Z a-z\n";
    write(&env.path("home/.gitconfig"), user);
    env.write(".gitattributes", "*.txt filter=evil=name\n");
    env.commit_all("attributes");
    arm(&env, &env.top());
    let git = env.git.clone().with_filters(|| vec!["evil=name".to_owned()]);
    let (project, path) = (env.project(), env.path("trees/w1"));
    let worktree = worktree_add(&git, &project, &path, &branch("provost/t1"), "HEAD").unwrap();
    write(&worktree.path.join("new.txt"), "new\n");
    let taken = snapshot_worktree(&git, &worktree, &says("x"), &keep("k")).unwrap();
    let stored = env.user(&env.top(), &["cat-file", "blob", &format!("{}:new.txt", taken.commit)]);
    assert_eq!(stored, "NEW");
    let pool = Pool::new(&env.path("pool")).unwrap();
    let checkout = checkout_detached(&git, &project, &pool, "0", &taken.commit, &[]).unwrap();
    assert_eq!(fs::read_to_string(checkout.path.join("new.txt")).unwrap(), "new\n");
    assert!(!canary(&env).exists(), "ran: {}", fs::read_to_string(canary(&env)).unwrap());
}

#[test]
fn filters_of_a_submodule_do_not_run() {
    let env = GitTestEnv::new();
    let origin = env.add_submodule();
    write(&origin.join(".gitattributes"), "*.txt filter=evil=name\n");
    commit_all(&env, &origin, "attributes");
    let inner = env.top().join("sub");
    env.user(&inner, &["pull", "-q"]);
    env.commit_all("newer submodule");
    arm(&env, &inner);
    write(&inner.join("inner.txt"), "outer\n");
    env.write("a.txt", "changed\n");
    snapshot_user_checkout(&env.git, &env.project(), &keep("loose"), &says("x")).unwrap();
    let worktree = env.worktree();
    env.user(&worktree.path, &["submodule", "--quiet", "update", "--init"]);
    arm(&env, &worktree.path.join("sub"));
    write(&worktree.path.join("sub/inner.txt"), "outer\n");
    snapshot_worktree(&env.git, &worktree, &says("x"), &keep("k")).unwrap();
    assert!(!removal_risk(&env.git, &worktree, BranchFate::Keep).unwrap().risks.is_empty());
    assert!(!canary(&env).exists(), "ran: {}", fs::read_to_string(canary(&env)).unwrap());
}

#[test]
fn known_project_is_not_rediscovered() {
    let env = GitTestEnv::new();
    let project = env.project();
    write(&env.path("elsewhere/secret"), "secret");
    env.user(&env.top(), &["config", "core.worktree", env.path("elsewhere").to_str().unwrap()]);
    env.write("new.txt", "new");
    let snapshot = snapshot_user_checkout(&env.git, &project, &keep("k"), &says("x")).unwrap();
    let listed = env.user(&env.top(), &["ls-tree", "--name-only", snapshot.commit.as_str()]);
    assert_eq!(listed, ".gitignore\na.txt\nnew.txt");
}

/// The same submodule triggers the programs in an unguarded git. The file has the size in the
/// index, so that git must read its content.
#[test]
fn trap_works_in_a_submodule() {
    let env = GitTestEnv::new();
    env.add_submodule();
    let inner = env.top().join("sub");
    write(&inner.join(".gitattributes"), "*.txt filter=evil=name\n");
    commit_all(&env, &inner, "attributes");
    arm(&env, &inner);
    write(&inner.join("inner.txt"), "outer\n");
    env.user(&env.top(), &["status"]);
    assert!(fs::read_to_string(canary(&env)).unwrap().contains("filter-clean"));
}

/// The same repository triggers the programs in an unguarded git.
#[test]
fn the_trap_works() {
    let env = GitTestEnv::new();
    env.write(".gitattributes", "*.txt filter=evil=name\n");
    env.commit_all("attributes");
    arm(&env, &env.top());
    env.write("a.txt", "changed\n");
    env.try_user(&env.top(), &["commit", "-qam", "x"]);
    let ran = fs::read_to_string(canary(&env)).unwrap();
    for name in ["filter", "fsmonitor", "pre-commit", "post-commit"] {
        assert!(ran.contains(name), "{name} is not in {ran}");
    }
}

/// Configures a program that leaves a mark, in every place where a configuration can name one.
fn arm(env: &GitTestEnv, checkout: &Path) {
    let script = env.path("evil");
    fs::write(
        &script,
        format!("#!/bin/sh\necho \"$(basename $0) $*\" >> {}\ncat\n", canary(env).display()),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = |what: &str| format!("{} {what}", script.display());
    let hooks = env.path("hooks");
    for name in EVENTS {
        write(&hooks.join(name), &fs::read_to_string(&script).unwrap());
        fs::set_permissions(hooks.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for key in PROGRAMS {
        env.user(checkout, &["config", key, &evil(key)]);
    }
    // Hooks in the configuration, supported by git since 2.54.
    for event in EVENTS {
        env.user(checkout, &["config", &format!("hook.{event}-x.event"), event]);
        env.user(checkout, &["config", &format!("hook.{event}-x.command"), &evil(event)]);
    }
    // The file is written directly, because the name of the driver contains a `=`.
    let config =
        env.user(checkout, &["rev-parse", "--path-format=absolute", "--git-path", "config"]);
    let (clean, smudge) = (evil("filter-clean"), evil("filter-smudge"));
    let filter =
        format!("[filter \"evil=name\"]\nclean = {clean}\nsmudge = {smudge}\nrequired = true\n");
    let settings = format!(
        "[core]\nhooksPath = {}\n[commit]\ngpgSign = true\n[protocol]\nallow = always\n",
        hooks.display()
    );
    fs::write(&config, fs::read_to_string(&config).unwrap() + &filter + &settings).unwrap();
}

const PROGRAMS: &[&str] = &[
    "core.fsmonitor",
    "core.editor",
    "core.pager",
    "core.askPass",
    "core.sshCommand",
    "credential.helper",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.long.process",
    "gpg.program",
    "merge.evil.driver",
    "trailer.Provost-Session.command",
    "trailer.Provost-Session.cmd",
];

fn use_everything(env: &GitTestEnv) {
    let (git, project) = (&env.git, env.project());
    env.write("a.txt", "two\n");
    env.write("b.bin", "c\n");
    let loose = snapshot_user_checkout(git, &project, &keep("loose"), &says("x")).unwrap();
    assert!(loose.changed);
    let base = env.project().commit(&env.git).unwrap();
    assert!(!diff_stat(git, &project, &base, &loose.commit).unwrap().is_empty());
    unique_branch(git, &project, &branch("provost/t1")).unwrap();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "six\n");
    write(&worktree.path.join("new.txt"), "new\n");
    assert!(!removal_risk(git, &worktree, BranchFate::Delete).unwrap().risks.is_empty());
    let snapshot = snapshot_worktree(git, &worktree, &says("x"), &keep("k")).unwrap();
    assert!(snapshot.changed);
    let pool = Pool::new(&env.path("pool")).unwrap();
    for commit in [&base, &snapshot.commit] {
        let checkout = checkout_detached(git, &project, &pool, "0", commit, &["target"]).unwrap();
        write(&checkout.path.join("a.txt"), "ten\n");
    }
    merge_everything(env, &project, &loose.commit, &snapshot.commit);
    remove_worktree(git, &worktree, BranchFate::Keep).unwrap();
}

/// Both sides changed the same line, for which the configuration has a merge driver.
fn merge_everything(env: &GitTestEnv, project: &Project, work: &Oid, onto: &Oid) {
    write(&project.common_dir.join("info/attributes"), "* merge=evil\n");
    let merged = merge(&env.git, project, work, onto, &says("x"), 0).unwrap();
    let conflicts: Vec<String> = merged.conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(conflicts, ["a.txt"], "no program chose a side");
    env.user(&env.top(), &["-c", "core.hooksPath=/dev/null", "branch", "kept", work.as_str()]);
    let came =
        fast_forward(&env.git, project, &RefName::from_branch("kept"), &merged.commit).unwrap();
    assert_eq!(came, FastForward::Done);
}

fn canary(env: &GitTestEnv) -> std::path::PathBuf {
    env.path("canary")
}
