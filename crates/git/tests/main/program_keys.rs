//! Every setting and hook event of the installed git is reviewed.
//!
//! Provost passes git only the settings on a short list, and no directory of hooks, so a new
//! setting cannot run a program. Still, this test fails when git adds a setting, so that a
//! developer reviews it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test_env::search_path;

/// Settings that start a program, point to one, or include further settings.
pub(crate) const PROGRAMS: &[&str] = &[
    "alias.*",
    "alias.*.command",
    "browser.<tool>.cmd",
    "browser.<tool>.path",
    "commit.gpgSign",
    "core.alternateRefsCommand",
    "core.askPass",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.hooksPath",
    "core.pager",
    "core.sshCommand",
    "credential.<url>.*",
    "credential.helper",
    "diff.<driver>.command",
    "diff.<driver>.textconv",
    "diff.external",
    "diff.guitool",
    "diff.tool",
    "difftool.<tool>.cmd",
    "difftool.<tool>.path",
    "filter.<driver>.clean",
    "filter.<driver>.smudge",
    "gc.recentObjectsHook",
    "gpg.<format>.program",
    "gpg.program",
    "gpg.ssh.defaultKeyCommand",
    "guitool.<name>.cmd",
    "help.browser",
    "hook.<event>.enabled",
    "hook.<event>.jobs",
    "hook.<friendly-name>.command",
    "hook.<friendly-name>.enabled",
    "hook.<friendly-name>.event",
    "hook.<friendly-name>.parallel",
    "hook.jobs",
    "imap.tunnel",
    "include.path",
    "includeIf.<condition>.path",
    "init.templateDir",
    "instaweb.browser",
    "instaweb.httpd",
    "interactive.diffFilter",
    "log.showSignature",
    "man.<tool>.cmd",
    "man.<tool>.path",
    "man.viewer",
    "merge.<driver>.driver",
    "merge.guitool",
    "merge.tool",
    "merge.verifySignatures",
    "mergetool.<tool>.cmd",
    "mergetool.<tool>.path",
    "pager.<cmd>",
    "push.gpgSign",
    "remote.<name>.receivepack",
    "remote.<name>.uploadpack",
    "remote.<name>.vcs",
    "sendemail.ccCmd",
    "sendemail.headerCmd",
    "sendemail.smtpServer",
    "sendemail.toCmd",
    "sequence.editor",
    "submodule.<name>.update",
    "tag.forceSignAnnotated",
    "tag.gpgSign",
    "tar.<format>.command",
    "trailer.<key-alias>.cmd",
    "trailer.<key-alias>.command",
    "trailer.<token>.cmd",
    "trailer.<token>.command",
    "uploadpack.packObjectsHook",
    "web.browser",
];

/// All other settings of git up to 2.55, one per line. None of them starts a program.
const HARMLESS: &str = include_str!("harmless_keys.txt");

/// All hook events of git up to 2.55.
pub(crate) const EVENTS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

#[test]
fn all_settings_of_installed_git_are_reviewed() {
    let reviewed = lower(PROGRAMS.iter().copied().chain(HARMLESS.lines()));
    let listed = git(&["help", "--config"]);
    let known = listed.lines().filter(|line| line.contains('.') && !line.contains(' '));
    let known = lower(known);
    assert!(known.len() > 500, "git lists its settings: {listed}");
    let new: Vec<&String> = known.difference(&reviewed).collect();
    assert!(
        new.is_empty(),
        "git has learned settings: {new:?}. Put each into PROGRAMS if it starts a program, else into harmless_keys.txt"
    );
}

#[test]
fn program_settings_are_not_listed_harmless() {
    let harmless = lower(HARMLESS.lines());
    let both: Vec<String> =
        lower(PROGRAMS.iter().copied()).intersection(&harmless).cloned().collect();
    assert!(both.is_empty(), "{both:?}");
}

/// The manual lists the events. The test is skipped if the manual is not installed.
#[test]
fn all_hook_events_of_installed_git_are_reviewed() {
    let Some(manual) = manual() else { return };
    let sections = manual.lines().filter_map(|line| line.strip_prefix(".SS "));
    let events: BTreeSet<String> = sections
        .map(|name| {
            name.trim_matches('"').replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
        })
        .collect();
    assert!(events.len() > 10, "the manual lists events: {events:?}");
    let new: Vec<&String> = events.iter().filter(|name| !EVENTS.contains(&name.as_str())).collect();
    assert!(new.is_empty(), "git has learned hook events: {new:?}. Put them into EVENTS");
}

fn manual() -> Option<String> {
    let own = PathBuf::from(git(&["--man-path"]).trim());
    let page = |root: &Path| [root.join("man5/githooks.5"), root.join("man5/githooks.5.gz")];
    let roots = [own, PathBuf::from("/usr/share/man")];
    let found = roots.iter().flat_map(|root| page(root)).find(|file| file.is_file())?;
    if found.extension().is_some_and(|kind| kind == "gz") {
        let output = Command::new("gzip").arg("-dc").arg(found).output().ok()?;
        return String::from_utf8(output.stdout).ok();
    }
    fs::read_to_string(found).ok()
}

fn git(args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(args).env_clear().env("PATH", search_path()).env("HOME", "/nonexistent");
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

fn lower<'a>(keys: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    keys.map(str::to_lowercase).collect()
}
