//! Rules for the project's files: maximum length and forbidden content.

use std::fs;

use anyhow::{Result, bail};

use crate::{print::print_line, process::capture, workspace::Workspace};

/// Maximum number of lines of a file that is not listed in [`LONG_FILES`].
const MAX_LINES: usize = 600;
/// The same for files of tests, which are lists of cases.
const MAX_TEST_LINES: usize = 900;
/// Longer files, or their directories, each with the reason.
const LONG_FILES: &[(&str, &str)] = &[
    ("Cargo.lock", "written by cargo"),
    ("docs/cli.md", "generated"),
    ("docs/openapi.json", "generated"),
    ("docs/schemas/", "generated"),
    ("crates/git/tests/main/harmless_keys.txt", "every git setting, one per line"),
    ("crates/provost/tests/snapshots/", "complete outputs of commands"),
];
/// Maximum number of packages in the lock file, so that new dependencies are a conscious decision.
const MAX_PACKAGES: usize = 300;
/// The only registry from which packages may come.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Directory prefixes that exist only on one machine. They are concatenated here, so that this file
/// does not break its own rule.
const MACHINE_DIRS: &[&str] =
    &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];
/// Exceptions that only look like a machine's directory: an example home directory, and a JSON
/// pointer into a session's spec.
const MACHINE_DIR_EXCEPTIONS: &[&str] = &[
    concat!("/", "home/u/"),
    concat!("/", "work/worktree/"),
    concat!("/", "home/u\""),
    concat!("/", "root/helper"),
];
/// Registry hosts. Mirrors belong in the machine's configuration.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("arti", "factory"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("deb.", "debian.org"),
];
/// The start of a list of deceptive characters, and the only file that may contain one.
const DECEPTIVE: &str = concat!("..='\\u{", "202e}'");
const DECEPTIVE_LIST: &str = "crates/text/src/lib.rs";
/// The sources that treat all agents alike, and the names of agents, which must not appear there.
/// Code that is specific to one agent belongs to its adapter.
const NEUTRAL_SOURCES: &[&str] = &[
    "crates/agent/src/",
    "crates/api/src/",
    "crates/config/src/",
    "crates/core/src/",
    "crates/engine/src/",
    "crates/git/src/",
    "crates/holder/src/",
    "crates/ledger/src/",
    "crates/provost/src/daemon/",
    "crates/sys/src/",
    "crates/terminal/src/",
];
/// The list of agents whose processes are recognized without an adapter.
const WELL_KNOWN_AGENTS: &str = "crates/agent/src/processes/signature.rs";
/// The program, which knows the crates of agents only where it registers their adapters.
const PROGRAM: &str = "crates/provost/src/";
const REGISTRATION: &str = "crates/provost/src/adapters.rs";
const AGENT_CRATES: &str = concat!("provost_", "agent_");
const AGENT_NAMES: &[&str] = &["codex", "claude"];
/// The attribute of a test that runs only with `--deep`.
const DEEP_TEST: &str = concat!("#[", "ignore = \"deep: ");
/// Markers of unfinished code.
const UNFINISHED: &[&str] = &[concat!("todo", "!("), concat!("#[", "ignore"), concat!("dbg", "!(")];

/// Crates whose suggested commands are variants of an enum, so that a test can parse all of them.
const HINT_SOURCES: [&str; 3] = ["crates/core/src/", "crates/engine/src/", "crates/api/src/client"];

/// The beginnings of commands that are suggested as text.
const HINT_LITERALS: [&str; 2] = [".next(\"provost ", "format!(\"provost "];

/// Checks every file that is or could be tracked.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let mut git = workspace.command("git");
    let list = capture(git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let mut troubles = Vec::new();
    let mut seen = 0;
    for name in list.split('\0').filter(|name| !name.is_empty()) {
        // Skip files that are not text, and files whose deletion is not yet committed.
        let Ok(text) = fs::read_to_string(workspace.root.join(name)) else { continue };
        seen += 1;
        troubles.extend(problems_in(name, &text));
    }
    print_line(&format!("── files: {seen} read, {} problems", troubles.len()));
    if !troubles.is_empty() {
        bail!("\n{}", troubles.join("\n"));
    }
    Ok(())
}

/// Returns the problems of one file.
fn problems_in(name: &str, text: &str) -> Vec<String> {
    let mut troubles = Vec::new();
    let lines = text.lines().count();
    let most = if is_test(name) { MAX_TEST_LINES } else { MAX_LINES };
    if lines > most && !LONG_FILES.iter().any(|(long, _)| is_at_or_below(name, long)) {
        troubles.push(format!(
            "{name}: {lines} lines, more than {most}, without a reason in LONG_FILES"
        ));
    }
    if name == "Cargo.lock" {
        troubles.extend(problems_in_lock(text));
    }
    for (number, line) in text.lines().enumerate() {
        let found = forbidden_in(name, line);
        troubles.extend(found.map(|what| format!("{name}:{}: {what}", number + 1)));
    }
    troubles
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

fn is_at_or_below(name: &str, listed: &str) -> bool {
    name == listed || (listed.ends_with('/') && name.starts_with(listed))
}

fn problems_in_lock(text: &str) -> Vec<String> {
    let packages = text.lines().filter(|line| *line == "[[package]]").count();
    let mut troubles = Vec::new();
    if packages > MAX_PACKAGES {
        troubles.push(format!("Cargo.lock: {packages} packages, more than {MAX_PACKAGES}"));
    }
    let sources = text.lines().filter_map(|line| line.strip_prefix("source = "));
    let foreign = sources.map(|source| source.trim_matches('"')).find(|source| *source != SOURCE);
    troubles.extend(foreign.map(|source| format!("Cargo.lock: a package comes from {source}")));
    troubles
}

fn forbidden_in(name: &str, line: &str) -> Option<String> {
    if let Some(dir) = MACHINE_DIRS.iter().find(|dir| names_machine_dir(line, dir)) {
        return Some(format!("names a directory of a machine: {dir}"));
    }
    if let Some(host) = REGISTRY_HOSTS.iter().find(|host| line.contains(**host)) {
        return Some(format!("names a registry host: {host}"));
    }
    if line.contains(DECEPTIVE) && name != DECEPTIVE_LIST {
        return Some(format!("duplicates the list of deceptive characters; use {DECEPTIVE_LIST}"));
    }
    if name.starts_with(PROGRAM) && name != REGISTRATION && line.contains(AGENT_CRATES) {
        return Some(format!("names the crate of an agent; only {REGISTRATION} may do that"));
    }
    let is_neutral = NEUTRAL_SOURCES.iter().any(|neutral| name.starts_with(neutral));
    if is_neutral && name != WELL_KNOWN_AGENTS {
        let lowercase = line.to_lowercase();
        if let Some(agent) = AGENT_NAMES.iter().find(|agent| lowercase.contains(**agent)) {
            return Some(format!("names an agent in a neutral crate: {agent}"));
        }
    }
    if HINT_SOURCES.iter().any(|source| name.starts_with(source))
        && HINT_LITERALS.iter().any(|literal| line.contains(literal))
    {
        return Some("suggests a command as text; use a variant of `provost_api::Hint`".to_owned());
    }
    let line = line.replace(DEEP_TEST, "");
    let unfinished =
        UNFINISHED.iter().find(|what| name.ends_with(".rs") && line.contains(**what))?;
    Some(format!("is unfinished: {unfinished}"))
}

/// Whether an absolute path starts here. The same name inside a longer path is another directory.
fn names_machine_dir(line: &str, dir: &str) -> bool {
    line.match_indices(dir).any(|(at, _)| {
        let inside = line[..at].chars().next_back().is_some_and(|before| {
            before.is_alphanumeric()
                || matches!(before, '_' | '-' | '.' | '}' | ')' | '*' | '>' | '$')
        });
        !inside && !MACHINE_DIR_EXCEPTIONS.iter().any(|fine| line[at..].starts_with(fine))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deep_tests_may_be_ignored() {
        let ignored = |reason: &str| format!("{}{reason}", UNFINISHED[1]);
        assert_eq!(problems_in("a.rs", &ignored("]")).len(), 1);
        assert_eq!(problems_in("a.rs", &ignored(" = \"flaky\"]")).len(), 1);
        assert_eq!(problems_in("a.rs", &ignored(" = \"deep: 40 s\"]")), Vec::<String>::new());
    }

    #[test]
    fn machine_path_is_found_but_not_inside_paths() {
        let root = MACHINE_DIRS[1];
        assert_eq!(problems_in("a.md", &format!("see {root}x")).len(), 1);
        assert_eq!(problems_in("a.md", &format!("\"{root}x\"")).len(), 1);
        for fine in [
            format!("target{root}x"),
            format!("${{HOME}}{root}x"),
            format!("{}x", MACHINE_DIR_EXCEPTIONS[0]),
        ] {
            assert_eq!(problems_in("a.md", &fine), Vec::<String>::new());
        }
    }

    #[test]
    fn suggested_command_as_text_is_found_in_the_engine() {
        let line = format!("error{}status\")", HINT_LITERALS[0]);
        assert_eq!(problems_in("crates/engine/src/a.rs", &line).len(), 1);
        assert_eq!(problems_in("crates/provost/src/a.rs", &line), Vec::<String>::new());
    }

    #[test]
    fn registry_mirror_is_found() {
        assert_eq!(
            problems_in("x.toml", REGISTRY_HOSTS[0]),
            [format!("x.toml:1: names a registry host: {}", REGISTRY_HOSTS[0])]
        );
        let lock = format!("[[package]]\nsource = \"{SOURCE}\"\n");
        assert_eq!(problems_in("Cargo.lock", &lock), Vec::<String>::new());
        let lock = lock.replace("github.com", "example.invalid");
        assert_eq!(problems_in("Cargo.lock", &lock).len(), 1);
    }

    #[test]
    fn second_list_of_deceptive_characters_is_found() {
        let line = format!("matches!(c, '\\u{{202a}}'{DECEPTIVE})");
        assert_eq!(problems_in("a.rs", &line).len(), 1);
        assert_eq!(problems_in(DECEPTIVE_LIST, &line), Vec::<String>::new());
    }

    #[test]
    fn agent_is_named_by_its_adapter_only() {
        let line = "// Codex listens later.";
        assert_eq!(problems_in("crates/engine/src/a.rs", line).len(), 1);
        assert_eq!(problems_in("crates/provost/src/daemon/a.rs", line).len(), 1);
        for fine in ["crates/agent-codex/src/a.rs", "crates/provost/src/ui/a.rs", WELL_KNOWN_AGENTS]
        {
            assert_eq!(problems_in(fine, line), Vec::<String>::new());
        }
        let line = format!("use {AGENT_CRATES}codex::CodexAdapter;");
        assert_eq!(problems_in("crates/provost/src/a.rs", &line).len(), 1);
        assert_eq!(problems_in(REGISTRATION, &line), Vec::<String>::new());
    }

    #[test]
    fn long_file_needs_a_reason() {
        assert_eq!(problems_in("a.rs", &"x\n".repeat(MAX_LINES)), Vec::<String>::new());
        assert_eq!(problems_in("a.rs", &"x\n".repeat(MAX_LINES + 1)).len(), 1);
        let test = "crates/git/tests/main/a.rs";
        assert_eq!(problems_in(test, &"x\n".repeat(MAX_TEST_LINES)), Vec::<String>::new());
        assert_eq!(problems_in(test, &"x\n".repeat(MAX_TEST_LINES + 1)).len(), 1);
        for listed in ["docs/cli.md", "docs/schemas/a.json"] {
            assert_eq!(problems_in(listed, &"x\n".repeat(MAX_LINES + 1)), Vec::<String>::new());
        }
        assert_eq!(problems_in("Cargo.lock", &"[[package]]\n".repeat(MAX_PACKAGES + 1)).len(), 1);
    }

    #[test]
    fn unfinished_code_is_found_in_code_only() {
        assert_eq!(problems_in("a.rs", UNFINISHED[0]).len(), 1);
        assert_eq!(problems_in("a.md", UNFINISHED[0]), Vec::<String>::new());
    }
}
