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
    let lab = GitTestEnv::new();
    lab.write(".gitattributes", "*.txt diff=evil merge=evil\n");
    lab.write("b.bin", "b\n");
    lab.commit_all("attributes");
    arm(&lab, &lab.top());
    use_everything(&lab);
    assert!(!canary(&lab).exists(), "ran: {}", fs::read_to_string(canary(&lab)).unwrap());
}

/// The name of a filter may contain a `=`, and a filter may be a long-running process.
#[test]
fn untrusted_filters_are_refused() {
    for (attributes, name) in
        [("*.txt filter=evil=name\n", "evil=name"), ("* filter=long\n", "long")]
    {
        let lab = GitTestEnv::new();
        lab.write(".gitattributes", attributes);
        lab.write("a.txt", "six\n");
        let worktree = lab.worktree();
        write(&worktree.path.join(".gitattributes"), attributes);
        write(&worktree.path.join("a.txt"), "two\n");
        arm(&lab, &lab.top());
        let refused = [
            snapshot_user_checkout(&lab.git, &lab.project(), &keep("loose"), &says("x"))
                .unwrap_err(),
            snapshot_worktree(&lab.git, &worktree, &says("x"), &keep("k")).unwrap_err(),
        ];
        for error in refused {
            let snapshot::Error::Git(Error::UntrustedFilter { filter, files }) = &error else {
                panic!("{error}");
            };
            assert_eq!(filter, name);
            assert!(files.contains(".gitattributes") || files.contains("a.txt"), "{files}");
        }
        assert!(!canary(&lab).exists(), "ran: {}", fs::read_to_string(canary(&lab)).unwrap());
    }
}

#[test]
fn trusted_filter_runs_with_the_users_command() {
    let lab = GitTestEnv::new();
    let user = "[filter \"evil=name\"]\nclean = tr a-z A-Z\nsmudge = tr A-Z a-z\n";
    write(&lab.path("home/.gitconfig"), user);
    lab.write(".gitattributes", "*.txt filter=evil=name\n");
    lab.commit_all("attributes");
    arm(&lab, &lab.top());
    let git = lab.git.clone().with_filters(|| vec!["evil=name".to_owned()]);
    let (project, path) = (lab.project(), lab.path("trees/w1"));
    let worktree = worktree_add(&git, &project, &path, &branch("provost/t1"), "HEAD").unwrap();
    write(&worktree.path.join("new.txt"), "new\n");
    let taken = snapshot_worktree(&git, &worktree, &says("x"), &keep("k")).unwrap();
    let stored = lab.user(&lab.top(), &["cat-file", "blob", &format!("{}:new.txt", taken.commit)]);
    assert_eq!(stored, "NEW");
    let pool = Pool::new(&lab.path("pool")).unwrap();
    let checkout = checkout_detached(&git, &project, &pool, "0", &taken.commit, &[]).unwrap();
    assert_eq!(fs::read_to_string(checkout.path.join("new.txt")).unwrap(), "new\n");
    assert!(!canary(&lab).exists(), "ran: {}", fs::read_to_string(canary(&lab)).unwrap());
}

#[test]
fn filters_of_a_submodule_do_not_run() {
    let lab = GitTestEnv::new();
    let origin = lab.add_submodule();
    write(&origin.join(".gitattributes"), "*.txt filter=evil=name\n");
    commit_all(&lab, &origin, "attributes");
    let inner = lab.top().join("sub");
    lab.user(&inner, &["pull", "-q"]);
    lab.commit_all("newer submodule");
    arm(&lab, &inner);
    write(&inner.join("inner.txt"), "outer\n");
    lab.write("a.txt", "changed\n");
    snapshot_user_checkout(&lab.git, &lab.project(), &keep("loose"), &says("x")).unwrap();
    let worktree = lab.worktree();
    lab.user(&worktree.path, &["submodule", "--quiet", "update", "--init"]);
    arm(&lab, &worktree.path.join("sub"));
    write(&worktree.path.join("sub/inner.txt"), "outer\n");
    snapshot_worktree(&lab.git, &worktree, &says("x"), &keep("k")).unwrap();
    assert!(!removal_risk(&lab.git, &worktree, BranchFate::Keep).unwrap().risks.is_empty());
    assert!(!canary(&lab).exists(), "ran: {}", fs::read_to_string(canary(&lab)).unwrap());
}

#[test]
fn known_project_is_not_rediscovered() {
    let lab = GitTestEnv::new();
    let project = lab.project();
    write(&lab.path("elsewhere/secret"), "secret");
    lab.user(&lab.top(), &["config", "core.worktree", lab.path("elsewhere").to_str().unwrap()]);
    lab.write("new.txt", "new");
    let snapshot = snapshot_user_checkout(&lab.git, &project, &keep("k"), &says("x")).unwrap();
    let listed = lab.user(&lab.top(), &["ls-tree", "--name-only", snapshot.commit.as_str()]);
    assert_eq!(listed, ".gitignore\na.txt\nnew.txt");
}

/// The same submodule triggers the programs in an unguarded git. The file has the size in the
/// index, so that git must read its content.
#[test]
fn trap_works_in_a_submodule() {
    let lab = GitTestEnv::new();
    lab.add_submodule();
    let inner = lab.top().join("sub");
    write(&inner.join(".gitattributes"), "*.txt filter=evil=name\n");
    commit_all(&lab, &inner, "attributes");
    arm(&lab, &inner);
    write(&inner.join("inner.txt"), "outer\n");
    lab.user(&lab.top(), &["status"]);
    assert!(fs::read_to_string(canary(&lab)).unwrap().contains("filter-clean"));
}

/// The same repository triggers the programs in an unguarded git.
#[test]
fn the_trap_works() {
    let lab = GitTestEnv::new();
    lab.write(".gitattributes", "*.txt filter=evil=name\n");
    lab.commit_all("attributes");
    arm(&lab, &lab.top());
    lab.write("a.txt", "changed\n");
    lab.try_user(&lab.top(), &["commit", "-qam", "x"]);
    let ran = fs::read_to_string(canary(&lab)).unwrap();
    for name in ["filter", "fsmonitor", "pre-commit", "post-commit"] {
        assert!(ran.contains(name), "{name} is not in {ran}");
    }
}

/// Configures a program that leaves a mark, in every place where a configuration can name one.
fn arm(lab: &GitTestEnv, checkout: &Path) {
    let script = lab.path("evil");
    fs::write(
        &script,
        format!("#!/bin/sh\necho \"$(basename $0) $*\" >> {}\ncat\n", canary(lab).display()),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = |what: &str| format!("{} {what}", script.display());
    let hooks = lab.path("hooks");
    for name in EVENTS {
        write(&hooks.join(name), &fs::read_to_string(&script).unwrap());
        fs::set_permissions(hooks.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for key in PROGRAMS {
        lab.user(checkout, &["config", key, &evil(key)]);
    }
    // Hooks in the configuration, supported by git since 2.54.
    for event in EVENTS {
        lab.user(checkout, &["config", &format!("hook.{event}-x.event"), event]);
        lab.user(checkout, &["config", &format!("hook.{event}-x.command"), &evil(event)]);
    }
    // The file is written directly, because the name of the driver contains a `=`.
    let config =
        lab.user(checkout, &["rev-parse", "--path-format=absolute", "--git-path", "config"]);
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

fn use_everything(lab: &GitTestEnv) {
    let (git, project) = (&lab.git, lab.project());
    lab.write("a.txt", "two\n");
    lab.write("b.bin", "c\n");
    let loose = snapshot_user_checkout(git, &project, &keep("loose"), &says("x")).unwrap();
    assert!(loose.changed);
    let base = lab.project().commit(&lab.git).unwrap();
    assert!(!diff_stat(git, &project, &base, &loose.commit).unwrap().is_empty());
    unique_branch(git, &project, &branch("provost/t1")).unwrap();
    let worktree = lab.worktree();
    write(&worktree.path.join("a.txt"), "six\n");
    write(&worktree.path.join("new.txt"), "new\n");
    assert!(!removal_risk(git, &worktree, BranchFate::Delete).unwrap().risks.is_empty());
    let snapshot = snapshot_worktree(git, &worktree, &says("x"), &keep("k")).unwrap();
    assert!(snapshot.changed);
    let pool = Pool::new(&lab.path("pool")).unwrap();
    for commit in [&base, &snapshot.commit] {
        let checkout = checkout_detached(git, &project, &pool, "0", commit, &["target"]).unwrap();
        write(&checkout.path.join("a.txt"), "ten\n");
    }
    merge_everything(lab, &project, &loose.commit, &snapshot.commit);
    remove_worktree(git, &worktree, BranchFate::Keep).unwrap();
}

/// Both sides changed the same line, for which the configuration has a merge driver.
fn merge_everything(lab: &GitTestEnv, project: &Project, work: &Oid, onto: &Oid) {
    write(&project.common_dir.join("info/attributes"), "* merge=evil\n");
    let merged = merge(&lab.git, project, work, onto, &says("x"), 0).unwrap();
    let conflicts: Vec<String> = merged.conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(conflicts, ["a.txt"], "no program chose a side");
    lab.user(&lab.top(), &["-c", "core.hooksPath=/dev/null", "branch", "kept", work.as_str()]);
    let came =
        fast_forward(&lab.git, project, &RefName::from_branch("kept"), &merged.commit).unwrap();
    assert_eq!(came, FastForward::Done);
}

fn canary(lab: &GitTestEnv) -> std::path::PathBuf {
    lab.path("canary")
}
