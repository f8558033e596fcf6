//! The content of a repository that needs trust, and the differences between two versions of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use provost_config::trust as config_trust;
use provost_tracker::workflow;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TrustDigest;

/// Provost's project configuration file.
pub(crate) const CONFIG: &str = "provost.toml";

/// The workflow that `provost serve` follows.
pub(crate) const WORKFLOW: &str = "WORKFLOW.md";

/// The directory from which Codex reads settings, hooks, rules and agents once it trusts a project.
pub(crate) const CODEX: &str = ".codex";

/// Files outside [`CODEX`] that agents read. Inside [`CODEX`], every file is relevant.
pub(crate) const AGENT_FILES: [&str; 3] =
    [".claude/settings.json", ".claude/settings.local.json", ".mcp.json"];

/// The paths of agents' files and of the directories that contain them, relative to a directory in
/// which agents work. If one of these paths is a link, agents read files outside the directory.
pub const AGENT_PATHS: [&str; 5] =
    [".claude", CODEX, AGENT_FILES[0], AGENT_FILES[1], AGENT_FILES[2]];

/// The files of a project that need trust, for display.
pub const FILES: [&str; 6] = [
    CONFIG,
    WORKFLOW,
    ".codex/",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".mcp.json",
];

/// Sections of a workflow's front matter that neither run a program nor grant permissions. All
/// other sections need trust.
const HARMLESS_PARTS: [&str; 4] = ["agent", "polling", "provost", "tracker"];

/// The one harmless key in a section that otherwise needs trust.
const HARMLESS_KEY: &str = "codex.stall_timeout_ms";

/// All content that needs trust, grouped by file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustContent {
    pub parts: Vec<ContentPart>,
}

/// The content of one file that needs trust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentPart {
    /// The path relative to the project's top, or just the file name of a workflow that is not at the top.
    pub file: String,
    pub entries: Vec<ContentEntry>,
}

/// A key and its value, or the whole text of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentEntry {
    /// The key, or `None` if the entry is the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key's value as JSON, or the text of the file.
    pub value: String,
}

/// The difference between an entry and the entry that was trusted before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum ContentChange {
    Added { file: String, entry: ContentEntry },
    Removed { file: String, entry: ContentEntry },
    Changed { file: String, before: ContentEntry, after: ContentEntry },
}

/// Whether a file needs trust. The path is relative to the project's top and separated by `/`.
pub fn is_relevant(file: &str) -> bool {
    [CONFIG, WORKFLOW].contains(&file) || is_agent_file(file)
}

/// Whether an agent reads this file when it works in a directory. The path is relative to the
/// directory.
fn is_agent_file(file: &str) -> bool {
    AGENT_FILES.contains(&file)
        || file.strip_prefix(CODEX).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the directory in which agents read this file, or `None` if it is not an agent's file.
/// Both paths are relative to the top.
pub fn agent_directory(file: &str) -> Option<&str> {
    let starts = std::iter::once(0).chain(file.match_indices('/').map(|(at, _)| at + 1));
    let start = starts.into_iter().find(|start| is_agent_file(&file[*start..]))?;
    Some(file[..start].trim_end_matches('/'))
}

impl TrustContent {
    /// Selects the content that needs trust from a project's files and ignores the other files.
    /// Agents' files count in every directory.
    pub fn from_files<N: Into<String>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Self {
        let named = files.into_iter().map(|(name, bytes)| (name.into(), bytes));
        let relevant =
            named.filter(|(name, _)| is_relevant(name) || agent_directory(name).is_some());
        let sorted: BTreeMap<String, Vec<u8>> = relevant.collect();
        let parts = sorted.into_iter().map(|(file, bytes)| ContentPart::parse(file, &bytes));
        TrustContent { parts: parts.filter(|part| !part.entries.is_empty()).collect() }
    }

    /// Selects the content that needs trust from a workflow that is not at a project's top.
    pub fn from_workflow(name: &str, bytes: &[u8]) -> Self {
        let part =
            ContentPart { file: name.to_owned(), entries: workflow_entries(&text_of(bytes)) };
        TrustContent {
            parts: Some(part).filter(|part| !part.entries.is_empty()).into_iter().collect(),
        }
    }

    /// Whether there is no content that needs trust.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn digest(&self) -> TrustDigest {
        TrustDigest::from_parts(self.bytes())
    }

    /// Returns the files that only Codex reads, and that Codex reads only if it trusts the project.
    pub fn codex_part(&self) -> Self {
        let is_codex = |file: &str| file.split('/').any(|name| name == CODEX);
        let parts = self.parts.iter().filter(|part| is_codex(&part.file));
        TrustContent { parts: parts.cloned().collect() }
    }

    /// Returns the files that apply to work in a directory: those in each directory from the top
    /// down to `directory`, which is relative to the top.
    pub fn down_to(&self, directory: &Path) -> Self {
        let counts = |file: &str| directory.starts_with(agent_directory(file).unwrap_or_default());
        let parts = self.parts.iter().filter(|part| counts(&part.file));
        TrustContent { parts: parts.cloned().collect() }
    }

    /// Returns the top, and each directory below it that has its own files.
    pub fn directories(&self) -> BTreeSet<PathBuf> {
        let below = self.parts.iter().filter_map(|part| agent_directory(&part.file));
        std::iter::once("").chain(below).map(PathBuf::from).collect()
    }

    /// Returns this content, plus the files that only `other` has.
    #[must_use]
    pub fn with(&self, other: &TrustContent) -> Self {
        let all = self.parts.iter().chain(&other.parts);
        let by_file: BTreeMap<&str, &ContentPart> =
            all.rev().map(|part| (part.file.as_str(), part)).collect();
        TrustContent { parts: by_file.into_values().cloned().collect() }
    }

    /// Whether this content includes every file of `other`, unchanged.
    pub fn includes(&self, other: &TrustContent) -> bool {
        other.parts.iter().all(|part| self.parts.contains(part))
    }

    /// Whether any file that needs trust is in a subdirectory.
    pub fn is_nested(&self) -> bool {
        let below = |file| agent_directory(file).is_some_and(|directory| !directory.is_empty());
        self.parts.iter().any(|part| below(&part.file))
    }

    /// Returns the differences between this content and previously trusted content.
    pub fn changes(&self, before: &TrustContent) -> Vec<ContentChange> {
        let (old, new) = (before.by_key(), self.by_key());
        let mut changes = Vec::new();
        for ((file, key), entry) in &new {
            let before = old.get(&(*file, *key));
            let file = (*file).to_owned();
            match before {
                None => changes.push(ContentChange::Added { file, entry: (*entry).clone() }),
                Some(before) if before.value != entry.value => {
                    changes.push(ContentChange::Changed {
                        file,
                        before: (*before).clone(),
                        after: (*entry).clone(),
                    })
                }
                Some(_) => {}
            }
        }
        for ((file, _), entry) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
            changes
                .push(ContentChange::Removed { file: (*file).to_owned(), entry: (*entry).clone() });
        }
        changes
    }

    fn by_key(&self) -> BTreeMap<(&str, Option<&str>), &ContentEntry> {
        let entries = self.parts.iter().flat_map(|part| {
            part.entries.iter().map(|entry| ((part.file.as_str(), entry.key.as_deref()), entry))
        });
        entries.collect()
    }

    fn bytes(&self) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        for part in &self.parts {
            bytes.push(part.file.clone().into_bytes());
            bytes.push((part.entries.len() as u64).to_le_bytes().to_vec());
            for entry in &part.entries {
                let kind = if entry.key.is_some() { b"key".to_vec() } else { b"file".to_vec() };
                bytes.push(kind);
                bytes.push(entry.key.clone().unwrap_or_default().into_bytes());
                bytes.push(entry.value.clone().into_bytes());
            }
        }
        bytes
    }
}

impl ContentPart {
    fn parse(file: String, bytes: &[u8]) -> Self {
        let text = text_of(bytes);
        let entries = match file.as_str() {
            CONFIG => config_entries(&text),
            WORKFLOW => workflow_entries(&text),
            _ => vec![whole(text)],
        };
        ContentPart { file, entries }
    }
}

/// Converts bytes to text. The text of bytes that are not UTF-8 contains their digest, so that
/// different bytes never result in the same text.
fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let lossy = String::from_utf8_lossy(bytes);
            format!("not UTF-8, BLAKE3 {}\n{lossy}", blake3::hash(bytes))
        }
    }
}

fn whole(value: String) -> ContentEntry {
    ContentEntry { key: None, value }
}

/// Returns the entries of a configuration file. A file that cannot be parsed becomes a single entry.
fn config_entries(text: &str) -> Vec<ContentEntry> {
    let entry =
        |(key, value): (String, Value)| ContentEntry { key: Some(key), value: value.to_string() };
    match config_trust::entries(text) {
        Ok(entries) => entries.into_iter().map(entry).collect(),
        Err(_) => vec![whole(text.to_owned())],
    }
}

fn workflow_entries(text: &str) -> Vec<ContentEntry> {
    let Ok(parts) = workflow::split(text) else { return vec![whole(text.to_owned())] };
    let mut entries = Vec::new();
    let relevant =
        parts.front.into_iter().filter(|(name, _)| !HARMLESS_PARTS.contains(&name.as_str()));
    for (name, value) in relevant {
        flatten(name, value, &mut entries);
    }
    entries.retain(|entry| entry.key.as_deref() != Some(HARMLESS_KEY));
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    entries
}

/// Adds one entry for each nested key. Names that contain a dot are quoted, so that no two keys look the same.
fn flatten(key: String, value: Value, entries: &mut Vec<ContentEntry>) {
    let inner = match value {
        Value::Object(inner) if !inner.is_empty() => inner,
        Value::Object(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_) => {
            return entries.push(ContentEntry { key: Some(key), value: value.to_string() });
        }
    };
    for (name, value) in inner {
        let name = if name.contains(['.', '"']) { format!("{name:?}") } else { name };
        flatten(format!("{key}.{name}"), value, entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(files: &[(&str, &str)]) -> TrustContent {
        TrustContent::from_files(files.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())))
    }

    #[test]
    fn only_programs_and_rights_need_trust() {
        assert!(
            content(&[("provost.toml", "[session]\nsettle = \"1s\"\n"), ("README.md", "x")])
                .is_empty()
        );
        let setup =
            content(&[("provost.toml", "[worktree]\nsetup = \"./x\"\nbranch_prefix = \"p\"\n")]);
        assert_eq!(setup.parts[0].entries.len(), 1);
        assert_eq!(setup.parts[0].entries[0].key.as_deref(), Some("worktree.setup"));
        let workflow = "---\npolling: {interval_ms: 5}\nhooks: {after_create: ./x}\n---\nDo.\n";
        let workflow = content(&[("WORKFLOW.md", workflow)]);
        assert_eq!(workflow.parts[0].entries[0].key.as_deref(), Some("hooks.after_create"));
        assert!(content(&[("WORKFLOW.md", "Do it.\n")]).is_empty());
        assert_eq!(content(&[(".codex/hooks.json", "{}"), (".mcp.json", "{}")]).parts.len(), 2);
    }

    #[test]
    fn agent_files_count_down_to_the_working_directory() {
        let all = content(&[
            (".mcp.json", "{}"),
            ("a/.codex/rules/x", ""),
            ("a/b/.claude/settings.json", "{}"),
            ("a/provost.toml", "worktree.setup = \"x\""),
            ("ab/.mcp.json", "{}"),
        ]);
        let files = |directory: &str| -> Vec<String> {
            all.down_to(Path::new(directory)).parts.into_iter().map(|part| part.file).collect()
        };
        assert_eq!(files(""), [".mcp.json"]);
        assert_eq!(files("a"), [".mcp.json", "a/.codex/rules/x"]);
        assert_eq!(files("a/b/c"), [".mcp.json", "a/.codex/rules/x", "a/b/.claude/settings.json"]);
        assert!(all.includes(&all.down_to(Path::new("a"))) && all.is_nested());
        assert!(!all.includes(&content(&[(".mcp.json", "{ }")])));
    }

    #[test]
    fn directories_and_union_keep_every_file() {
        let all = content(&[
            ("provost.toml", "worktree.setup = \"x\""),
            ("a/.mcp.json", "{}"),
            ("a/b/.codex/rules/x", ""),
        ]);
        let directories: Vec<PathBuf> = all.directories().into_iter().collect();
        assert_eq!(directories, ["", "a", "a/b"].map(PathBuf::from));
        let parts = directories.iter().map(|directory| all.down_to(directory));
        assert_eq!(parts.fold(TrustContent::default(), |union, part| union.with(&part)), all);
        let other = content(&[("a/.mcp.json", "{ }")]);
        assert!(all.with(&other) == all && other.with(&all).includes(&other));
    }

    #[test]
    fn agent_paths_cover_every_agent_file() {
        for file in AGENT_FILES {
            assert!(AGENT_PATHS.contains(&file), "{file}");
            if let Some((directory, _)) = file.split_once('/') {
                assert!(AGENT_PATHS.contains(&directory), "{directory}");
            }
        }
        assert!(AGENT_PATHS.contains(&CODEX));
    }

    #[test]
    fn unparsable_file_counts_as_a_whole() {
        for (name, text) in [("provost.toml", "a = = 1"), ("WORKFLOW.md", "---\na: [1\n---\n")] {
            let content = content(&[(name, text)]);
            assert_eq!(content.parts[0].entries, [whole(text.to_owned())], "{name}");
        }
    }

    #[test]
    fn digest_distinguishes_file_key_and_value() {
        let setup = |text: &str| content(&[("provost.toml", text)]).digest();
        let one = setup("[worktree]\nsetup = \"a\"\n");
        assert_eq!(one, setup("# comment\nworktree.setup = \"a\"\nsession.rework = 1\n"));
        assert_ne!(one, setup("[worktree]\nsetup = \"b\"\n"));
        assert_ne!(one, setup("[worktree]\nsetup = [\"a\"]\n"));
        assert_ne!(content(&[(".mcp.json", "x")]).digest(), content(&[(".codex/x", "x")]).digest());
        let bytes =
            |bytes: &[u8]| TrustContent::from_files([(".mcp.json", bytes.to_vec())]).digest();
        assert_ne!(
            bytes(b"\xff"),
            bytes(b"\xfe"),
            "different bytes that are not UTF-8 stay \
            different"
        );
        assert_eq!(one.to_string().parse::<TrustDigest>().unwrap(), one);
    }

    #[test]
    fn changes_list_added_removed_and_changed_entries() {
        let before =
            content(&[("provost.toml", "worktree.setup = \"a\"\nverify.checks = [\"x\"]\n")]);
        let after = content(&[("provost.toml", "worktree.setup = \"b\"\n"), (".mcp.json", "{}")]);
        let changes = after.changes(&before);
        assert!(
            matches!(&changes[0], ContentChange::Added { file, .. } if file == ".mcp.json"),
            "{changes:?}"
        );
        assert!(
            matches!(&changes[1], ContentChange::Changed { after, .. } if after.value == "\"b\"")
        );
        assert!(matches!(&changes[2], ContentChange::Removed { .. }));
        assert!(before.changes(&before).is_empty());
    }
}
