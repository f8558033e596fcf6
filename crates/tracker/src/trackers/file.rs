//! Issues as files: one Markdown file with front matter per issue, all in one directory. To move an
//! issue, a user edits its state.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use provost_sys::agent_file;
use serde_json::Value;

use super::{Error, IssueList, Tracker};
use crate::{
    issue::{Issue, IssueBlocker, States, normalize_instant, normalize_labels},
    workflow::{self, EnvironmentMap, Fields, split},
};

/// The name of this tracker in a workflow.
pub(crate) const KIND: &str = "file";

pub(crate) const ACTIVE: [&str; 2] = ["todo", "in progress"];
pub(crate) const TERMINAL: [&str; 4] = ["done", "closed", "cancelled", "duplicate"];

/// The default directory for the files.
const DIRECTORY: &str = "issues";

/// The maximum size of a file in bytes. The limit exists because the agent gets the whole file.
const MAX_BYTES: u64 = 256 << 10;

/// The file that describes the directory and is not an issue.
const README: &str = "README.md";

/// The location of the issue files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTrackerSettings {
    pub path: PathBuf,
}

impl FileTrackerSettings {
    pub(super) fn read(
        mut provider: Fields,
        dir: &Path,
        environment: &EnvironmentMap,
    ) -> Result<(Self, Vec<String>), workflow::Error> {
        let path = provider.file("path", dir, environment)?;
        let path = path.unwrap_or_else(|| dir.join(DIRECTORY));
        Ok((FileTrackerSettings { path }, provider.unknown()))
    }
}

/// A directory of issues.
#[derive(Debug)]
pub struct FileTracker {
    settings: FileTrackerSettings,
    terminal: States,
}

/// The issue in each file, or the reason why the file is not an issue.
type IssueRecords = BTreeMap<String, Result<Issue, String>>;

impl FileTracker {
    pub fn new(settings: FileTrackerSettings, terminal: States) -> Self {
        FileTracker { settings, terminal }
    }

    fn records(&self) -> Result<IssueRecords, Error> {
        let path = &self.settings.path;
        let error = |why: io::Error| {
            Error::Request(format!("cannot read the issue directory {}: {why}", path.display()))
        };
        let mut records = IssueRecords::new();
        for entry in fs::read_dir(path).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.ends_with(".md") || name.starts_with('.') || name == README {
                continue;
            }
            let text = read(&entry.path());
            let read = text.and_then(|text| issue(&text, name.trim_end_matches(".md")));
            records.insert(name, read);
        }
        reject_duplicates(&mut records);
        Ok(self.with_blockers(records))
    }

    /// Adds the known state to each blocker. An issue is blocked until all its blockers are in a
    /// terminal state. A missing blocker also blocks the issue, because its name may be mistyped.
    fn with_blockers(&self, mut records: IssueRecords) -> IssueRecords {
        let known: BTreeMap<String, (String, String)> = records
            .values()
            .flatten()
            .map(|one| (one.identifier.clone(), (one.id.clone(), one.state.clone())))
            .collect();
        for issue in records.values_mut().flatten() {
            for blocker in &mut issue.blocked_by {
                let found = blocker.identifier.as_ref().and_then(|name| known.get(name));
                blocker.id = found.map(|(id, _)| id.clone());
                blocker.state = found.map(|(_, state)| state.clone());
            }
            let over = |blocker: &IssueBlocker| {
                blocker.state.as_ref().is_some_and(|state| self.terminal.has(state))
            };
            issue.dispatchable = issue.blocked_by.iter().all(over);
        }
        records
    }

    fn with_path(&self, name: &str, why: &str) -> String {
        format!("{}: {why}", self.settings.path.join(name).display())
    }
}

impl Tracker for FileTracker {
    fn issues_in_states(&self, states: &States) -> Result<IssueList, Error> {
        if states.is_empty() {
            return Ok(IssueList::default());
        }
        let mut found = IssueList::default();
        for (name, record) in self.records()? {
            match record {
                Ok(issue) if states.has(&issue.state) => found.issues.push(issue),
                Ok(_) => {}
                Err(why) => found.warnings.push(self.with_path(&name, &why)),
            }
        }
        Ok(found)
    }

    /// Fails if any file is unreadable, because that file could contain one of the requested
    /// issues.
    fn issues_by_ids(&self, ids: &[String]) -> Result<Vec<Issue>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for (name, record) in self.records()? {
            match record {
                Ok(issue) if ids.contains(&issue.id) => found.push(issue),
                Ok(_) => {}
                Err(why) => return Err(Error::Response(self.with_path(&name, &why))),
            }
        }
        Ok(found)
    }
}

/// Reads a regular file. Symbolic links are rejected, because they could expose other files to an agent.
fn read(path: &Path) -> Result<String, String> {
    let bytes = agent_file::read(path, MAX_BYTES).map_err(|why| match why {
        agent_file::Error::NotRegular(_) | agent_file::Error::Outside(_) => {
            "the file is not a regular file".to_owned()
        }
        agent_file::Error::TooLong { limit, .. } => format!("the file has more than {limit} bytes"),
        agent_file::Error::Io { source, .. } => source.to_string(),
    })?;
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())
}

/// Parses an issue from a file's text. The id defaults to the file's name.
fn issue(text: &str, stem: &str) -> Result<Issue, String> {
    let error = |why: workflow::Error| why.to_string();
    let parts = split(text).map_err(error)?;
    let mut fields = Fields::new("", parts.front);
    let id = name(&mut fields, "id")?.unwrap_or_else(|| stem.to_owned());
    let title = match name(&mut fields, "title")? {
        Some(title) => title,
        None => heading(&parts.body)
            .ok_or("the issue has no title; expected title: in the front matter")?,
    };
    let state = name(&mut fields, "state")?;
    Ok(Issue {
        identifier: name(&mut fields, "identifier")?.unwrap_or_else(|| id.clone()),
        id,
        title,
        state: state.ok_or("the issue has no state; expected state: in the front matter")?,
        description: Some(parts.body).filter(|body| !body.is_empty()),
        // Invalid optional fields are ignored.
        priority: fields.take("priority").and_then(|value| value.as_i64()),
        branch_name: optional_text(&mut fields, "branch_name"),
        url: optional_text(&mut fields, "url"),
        assignee_id: optional_text(&mut fields, "assignee"),
        labels: normalize_labels(text_list(&mut fields, "labels")),
        blocked_by: text_list(&mut fields, "blocked_by").into_iter().map(blocker).collect(),
        dispatchable: true,
        created_at: optional_text(&mut fields, "created_at").as_deref().and_then(normalize_instant),
        updated_at: optional_text(&mut fields, "updated_at").as_deref().and_then(normalize_instant),
        native_ref: None,
    })
}

/// Reads a name, which can be a text or a number.
fn name(fields: &mut Fields, key: &str) -> Result<Option<String>, String> {
    let text = match fields.take(key) {
        None => return Ok(None),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => return Err(format!("{key} is not a string")),
    };
    if text.is_empty() { Err(format!("{key} is empty")) } else { Ok(Some(text)) }
}

fn optional_text(fields: &mut Fields, key: &str) -> Option<String> {
    fields.take(key)?.as_str().map(str::to_owned)
}

fn text_list(fields: &mut Fields, key: &str) -> Vec<String> {
    let text = |item: &Value| match item {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let items = fields.take(key);
    items.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(text).collect()
}

fn blocker(name: String) -> IssueBlocker {
    IssueBlocker { identifier: Some(name), ..IssueBlocker::default() }
}

fn heading(body: &str) -> Option<String> {
    let title = body.lines().next()?.strip_prefix("# ")?.trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// Rejects all files that share an id or identifier with another file, because the name of such an
/// issue is ambiguous.
fn reject_duplicates(records: &mut IssueRecords) {
    for key in [|issue: &Issue| issue.id.clone(), |issue: &Issue| issue.identifier.clone()] {
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (file, issue) in
            records.iter().filter_map(|(file, one)| Some((file, one.as_ref().ok()?)))
        {
            files.entry(key(issue)).or_default().push(file.clone());
        }
        for (name, several) in files.into_iter().filter(|(_, files)| files.len() > 1) {
            let why = format!("{name:?} is used by {}", several.join(" and "));
            records.extend(several.into_iter().map(|file| (file, Err(why.clone()))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct IssueDir(tempfile::TempDir);

    impl IssueDir {
        fn new(files: &[(&str, &str)]) -> IssueDir {
            let dir = IssueDir(tempfile::tempdir().unwrap());
            files.iter().for_each(|(name, text)| fs::write(dir.0.path().join(name), text).unwrap());
            dir
        }

        fn tracker(&self) -> FileTracker {
            FileTracker::new(
                FileTrackerSettings { path: self.0.path().to_owned() },
                States::new(["done"]),
            )
        }
    }

    fn ids(found: &[Issue]) -> Vec<&str> {
        found.iter().map(|issue| issue.id.as_str()).collect()
    }

    #[test]
    fn issue_file_fields_are_read() {
        let dir = IssueDir::new(&[(
            "one.md",
            "---\nid: 7\nidentifier: ABC-7\ntitle: Greet\nstate: Todo\npriority: 2\nlabels: [UI, ui, 3]\nassignee: ann\nurl: https://example.invalid/7\ncreated_at: 2026-01-01T00:00:00Z\n---\n\nSay hello.\n",
        )]);
        let found = dir.tracker().issues_in_states(&States::new(["todo"])).unwrap();
        let issue = &found.issues[0];
        assert_eq!((issue.id.as_str(), issue.identifier.as_str()), ("7", "ABC-7"));
        assert_eq!((issue.state.as_str(), issue.priority), ("Todo", Some(2)));
        assert_eq!(issue.labels, ["ui", "3"]);
        assert_eq!(issue.description.as_deref(), Some("Say hello."));
        assert_eq!(issue.created_at.as_deref(), Some("2026-01-01T00:00:00.000Z"));
        assert!(issue.dispatchable);
    }

    #[test]
    fn file_name_and_heading_suffice() {
        let dir = IssueDir::new(&[
            ("a.md", "---\nstate: todo\n---\n# Greet\nSay hello."),
            ("README.md", "What this is."),
            ("notes.txt", "x"),
        ]);
        let found = dir.tracker().issues_in_states(&States::new(["todo"])).unwrap();
        assert_eq!((ids(&found.issues), found.issues[0].title.as_str()), (vec!["a"], "Greet"));
        assert_eq!(found.warnings, [] as [&str; 0]);
    }

    #[test]
    fn blocked_issue_waits() {
        let blocked = "---\ntitle: b\nstate: todo\nblocked_by: [a]\n---\n";
        let dispatchable = |state: &str| {
            let a = format!("---\ntitle: a\nstate: {state}\n---\n");
            let dir = IssueDir::new(&[("a.md", &a), ("b.md", blocked)]);
            let found = dir.tracker().issues_by_ids(&["b".to_owned()]).unwrap();
            assert_eq!(found[0].blocked_by[0].state.as_deref(), Some(state));
            found[0].dispatchable
        };
        assert!(!dispatchable("todo"));
        assert!(dispatchable("Done"));
        let dir = IssueDir::new(&[("b.md", blocked)]);
        assert!(
            !dir.tracker().issues_by_ids(&["b".to_owned()]).unwrap()[0].dispatchable,
            "a is not there"
        );
    }

    #[test]
    fn unreadable_issue_warns_in_lists_fails_by_id() {
        let dir = IssueDir::new(&[
            ("a.md", "---\ntitle: a\nstate: todo\n---\n"),
            ("b.md", "---\ntitle: b\n---\n"),
        ]);
        let found = dir.tracker().issues_in_states(&States::new(["todo"])).unwrap();
        assert_eq!(ids(&found.issues), ["a"]);
        assert!(found.warnings[0].contains("b.md: the issue has no state"), "{:?}", found.warnings);
        let refused = dir.tracker().issues_by_ids(&["a".to_owned()]).unwrap_err();
        assert_eq!(refused.category(), "tracker_response");
    }

    #[test]
    fn duplicate_names_are_left_out() {
        let one = "---\nid: x\ntitle: a\nstate: todo\n---\n";
        let dir = IssueDir::new(&[("a.md", one), ("b.md", one)]);
        let found = dir.tracker().issues_in_states(&States::new(["todo"])).unwrap();
        assert_eq!((found.issues.len(), found.warnings.len()), (0, 2));
    }

    #[test]
    fn links_and_huge_files_are_refused() {
        let dir = IssueDir::new(&[
            ("big.md", &"x".repeat(300 << 10)),
            ("secret", "---\ntitle: s\nstate: todo\n---"),
        ]);
        std::os::unix::fs::symlink(dir.0.path().join("secret"), dir.0.path().join("link.md"))
            .unwrap();
        let found = dir.tracker().issues_in_states(&States::new(["todo"])).unwrap();
        assert_eq!((found.issues.len(), found.warnings.len()), (0, 2), "{found:?}");
    }

    #[test]
    fn empty_file_query_reads_nothing() {
        let tracker =
            FileTracker::new(FileTrackerSettings { path: "/nowhere".into() }, States::default());
        assert_eq!(tracker.issues_in_states(&States::default()).unwrap(), IssueList::default());
        assert_eq!(tracker.issues_by_ids(&[]).unwrap(), []);
        let missing = tracker.issues_in_states(&States::new(["todo"])).unwrap_err();
        assert_eq!(missing.category(), "tracker_request");
    }
}
