//! For every plan, the generated rules grant exactly the access that the plan describes.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use provost_sandbox::bubblewrap::arguments;
use provost_sandbox::landlock_rules::rules;
use provost_sandbox::{
    FileKind, NetworkAccess, PathAccess, PathRule, ProcessLimits, SandboxLevel, SandboxMode,
    SandboxPlan,
};

/// Returns a path of up to four components from a small alphabet, so that paths often overlap.
fn path() -> impl Strategy<Value = PathBuf> {
    vec(prop::sample::select(vec!["a", "b", "c"]), 1..5)
        .prop_map(|names| names.iter().fold(PathBuf::from("/"), |path, name| path.join(name)))
}

fn access() -> impl Strategy<Value = PathAccess> {
    prop::sample::select(vec![PathAccess::Hidden, PathAccess::Readable, PathAccess::Writable])
}

fn plan() -> impl Strategy<Value = SandboxPlan> {
    let rules = vec((path(), access()), 0..8);
    (rules, vec(path(), 0..2)).prop_map(|(listed, frozen)| {
        let mut paths = BTreeSet::new();
        let mut rules: Vec<PathRule> = listed
            .into_iter()
            .filter(|(path, _)| paths.insert(path.clone()))
            .map(|(path, access)| PathRule {
                path,
                access,
                kind: FileKind::Directory,
                source: None,
            })
            .collect();
        rules.sort_by(|one, other| one.path.cmp(&other.path));
        let mut plan = SandboxPlan {
            mode: SandboxMode::Workspace,
            network: NetworkAccess::Off,
            directory: "/a".into(),
            temporary: "/t".into(),
            rules,
            frozen: Vec::new(),
            removed_variables: Vec::new(),
            limits: ProcessLimits::default(),
        };
        // As in real plans, only files in writable directories are frozen.
        let writable =
            frozen.into_iter().filter(|path| plan.access_to(path) == PathAccess::Writable);
        let has_rules_below =
            |path: &PathBuf| plan.rules.iter().any(|rule| rule.path.starts_with(path));
        plan.frozen = writable.filter(|path| !has_rules_below(path)).collect();
        plan
    })
}

/// Returns the access to a path after bubblewrap has applied its arguments in order.
fn mounted_access(args: &[String], path: &Path) -> PathAccess {
    let mut access = PathAccess::Readable;
    let mut at = 0;
    let below = |mount: &str| path.starts_with(mount);
    while at < args.len() {
        let mount = |number: usize| args[at + number].as_str();
        let (words, found) = match mount(0) {
            "--ro-bind" => (3, Some((mount(2), PathAccess::Readable))),
            "--bind" => (3, Some((mount(2), PathAccess::Writable))),
            "--tmpfs" => (2, Some((mount(1), PathAccess::Hidden))),
            _ => (1, None),
        };
        if let Some((place, granted)) = found
            && below(place)
        {
            access = granted;
        }
        at += words;
    }
    access
}

fn texts(plan: &SandboxPlan) -> Vec<String> {
    let args = arguments(plan);
    args.into_iter().map(|word| word.into_string().unwrap()).collect()
}

/// Lists a directory of a tree in which every path of the alphabet exists.
fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(["a", "b", "c"].map(|name| path.join(name)).to_vec())
}

/// Returns the access to a path that a set of Landlock rules grants.
fn granted_access(plan: &SandboxPlan, path: &Path) -> PathAccess {
    let rules = rules(plan, &list).unwrap();
    let mut granted = PathAccess::Hidden;
    for rule in rules.iter().filter(|rule| path.starts_with(&rule.path)) {
        let access = if rule.writable { PathAccess::Writable } else { PathAccess::Readable };
        granted = granted.max(access);
    }
    granted
}

proptest! {
    #[test]
    fn bubblewrap_grants_exactly_what_the_plan_allows(plan in plan(), path in path()) {
        prop_assert_eq!(mounted_access(&texts(&plan), &path), plan.access_to(&path));
    }

    #[test]
    fn landlock_grants_exactly_what_the_plan_allows(plan in plan(), path in path()) {
        // Landlock grants access to directories, so it can neither freeze a file in one, nor allow
        // new entries in a directory that also contains a path with less access.
        let plan = SandboxPlan { frozen: Vec::new(), ..plan };
        let is_reduced =
            |rule: &PathRule| rule.path.starts_with(&path) && rule.access < plan.access_to(&path);
        let granted = granted_access(&plan, &path);
        if plan.rules.iter().any(is_reduced) {
            prop_assert!(granted < plan.access_to(&path));
        } else {
            prop_assert_eq!(granted, plan.access_to(&path));
        }
    }

    #[test]
    fn plan_survives_serialization(plan in plan()) {
        let text = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(serde_json::from_str::<SandboxPlan>(&text).unwrap(), plan);
    }

    #[test]
    fn hidden_directories_become_read_only_last(plan in plan()) {
        let args = texts(&plan);
        let last_mount = args.iter().rposition(|word| word == "--bind" || word == "--tmpfs");
        let first_remount = args.iter().position(|word| word == "--remount-ro");
        if let (Some(mount), Some(remount)) = (last_mount, first_remount) {
            prop_assert!(mount < remount);
        }
    }
}

#[test]
fn unrestricted_plan_only_separates_processes() {
    let plan = SandboxPlan::unrestricted("/a".into(), "/t".into());
    let args = arguments(&plan);
    assert!(args.iter().any(|word| word == "--unshare-pid"));
    assert!(args.iter().all(|word| word != "--cap-drop" && word != "--unshare-net"));
    assert_eq!(plan.access_to(Path::new("/etc")), PathAccess::Writable);
}

#[test]
fn temporary_directory_is_short_where_it_can_be_replaced() {
    let mut plan = SandboxPlan::unrestricted("/a".into(), "/long/t".into());
    assert_eq!(plan.temporary_at(SandboxLevel::Full), Path::new("/long/t"));
    plan.rules.push(PathRule {
        path: "/tmp".into(),
        access: PathAccess::Writable,
        kind: FileKind::Directory,
        source: Some("/long/t".into()),
    });
    assert_eq!(plan.temporary_at(SandboxLevel::Full), Path::new("/tmp"));
    assert_eq!(plan.temporary_at(SandboxLevel::Files), Path::new("/long/t"));
}
