//! Finding a project, and errors where none exists.

use std::fs;

use provost_git::project::Error;
use provost_git::{GitHead, Project, read_head};

use crate::test_env::GitTestEnv;

#[test]
fn repository_is_found_from_a_subdirectory() {
    let env = GitTestEnv::new();
    env.write("deep/er/file", "x");
    let project = Project::find(&env.git, &env.top().join("deep/er")).unwrap();
    assert_eq!(project.top, env.top());
    assert_eq!(project.git_dir, env.top().join(".git"));
    assert_eq!(project.common_dir, project.git_dir);
    assert!(!project.is_linked());
    let found = read_head(&env.git, &project).unwrap();
    let GitHead::Branch { name, commit } = &found else { panic!("{found:?}") };
    assert_eq!(name.to_string(), "refs/heads/main");
    assert_eq!(project.commit(&env.git).unwrap(), *commit);
    assert_eq!(*commit, env.rev("HEAD"));
    assert_eq!(Project::top_of(&env.git, &env.top().join("deep")).unwrap(), env.top());
}

#[test]
fn a_linked_worktree_knows_its_repository() {
    let env = GitTestEnv::new();
    let linked = env.path("linked\nworktree");
    env.user(&env.top(), &["worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
    let project = Project::find(&env.git, &linked).unwrap();
    assert!(project.is_linked());
    assert_eq!(project.git_dir, env.top().join(".git/worktrees").join("linked-worktree"));
    assert_eq!(Project::top_of(&env.git, &linked).unwrap(), linked);
    assert_eq!(project.top, linked);
    assert_eq!(project.common_dir, env.top().join(".git"));
    assert_eq!(
        read_head(&env.git, &project).unwrap(),
        GitHead::Detached { commit: env.rev("HEAD") }
    );
}

#[test]
fn a_repository_without_commits_says_so() {
    let env = GitTestEnv::empty();
    let project = env.project();
    let unborn = read_head(&env.git, &project).unwrap();
    assert!(matches!(&unborn, GitHead::Unborn { name } if name.to_string() == "refs/heads/main"));
    let error = project.commit(&env.git).unwrap_err();
    assert!(matches!(error, Error::NoCommits(_)));
    assert!(error.hint().unwrap().contains("git commit"));
}

#[test]
fn unusable_locations_have_distinct_errors() {
    let env = GitTestEnv::new();
    let bare = env.path("bare");
    env.user(&env.path("home"), &["init", "-q", "--bare", bare.to_str().unwrap()]);
    let error = |path: &std::path::Path| {
        let (whole, top) = (Project::find(&env.git, path), Project::top_of(&env.git, path));
        assert_eq!(whole.as_ref().unwrap_err().to_string(), top.unwrap_err().to_string());
        whole.unwrap_err()
    };
    assert!(matches!(error(&bare), Error::Bare(_)));
    assert!(matches!(error(&env.path("home")), Error::NotARepository(_)));
    assert!(matches!(error(&env.top().join(".git")), Error::InsideGitDir(_)));
    assert!(matches!(error(&env.path("nowhere")), Error::NoDirectory { .. }));
    assert!(error(&bare).hint().is_some());
}

#[test]
fn broken_configuration_error_quotes_git() {
    let env = GitTestEnv::new();
    fs::write(env.top().join(".git/config"), "[core\nnonsense").unwrap();
    let error = Project::find(&env.git, &env.top()).unwrap_err();
    assert!(matches!(error, Error::Git(_)));
    assert!(error.to_string().contains("bad config"), "{error}");
}
