//! Reads the status of a BMAD story from the story's file and from `sprint-status.yaml`.

use std::path::PathBuf;

use provost_verify::{
    FileFormat, FilePattern, ProjectDir, ProjectText, STORY_KEY, StoryNumbers, UnverifiedReason,
    WorkKey, front_matter_text, text_of, yaml,
};
use serde_json::{Map, Value};

/// Possible paths of `sprint-status.yaml`. The first one that exists is used.
const SPRINT_FILES: [&str; 3] = [
    "_bmad-output/implementation-artifacts/sprint-status.yaml",
    "_bmad-output/sprint-status.yaml",
    "docs/sprint-artifacts/sprint-status.yaml",
];

/// Possible directories for a story's file. Exactly one of them must contain it.
const STORY_DIRS: [&str; 5] = [
    "_bmad-output/implementation-artifacts",
    "_bmad-output/implementation-artifacts/stories",
    "docs/sprint-artifacts",
    "docs/sprint-artifacts/stories",
    "docs/stories",
];

/// The table in `sprint-status.yaml` that contains an entry for each story.
const STORIES: &str = "development_status";

/// A status, and the place where it was found.
#[derive(Debug)]
pub(super) struct StoryStatus {
    pub(super) path: String,
    pub(super) field: String,
    /// The status as written in the file.
    pub(super) written: String,
}

impl StoryStatus {
    /// Returns the status in BMAD's current spelling: `Ready for Review` becomes `ready-for-review`.
    pub(super) fn normalized(&self) -> String {
        self.written.trim().to_lowercase().replace([' ', '_'], "-")
    }
}

/// The stories in a sprint and their statuses.
pub(super) struct Sprint {
    path: String,
    entries: Map<String, Value>,
}

impl Sprint {
    pub(super) fn read(project: &ProjectDir) -> Result<Self, UnverifiedReason> {
        let mut absent = None;
        for file in SPRINT_FILES {
            match project.read(file.as_ref()) {
                Ok(text) => return Self::parse(&text),
                Err(reason) if reason.is_absence() => absent = absent.or(Some(reason)),
                Err(reason) => return Err(reason),
            }
        }
        Err(absent.unwrap_or_else(|| UnverifiedReason::NoFile { path: SPRINT_FILES[0].to_owned() }))
    }

    fn parse(text: &ProjectText) -> Result<Self, UnverifiedReason> {
        let path = text.path.clone();
        let mut value = FileFormat::Yaml.parse(text)?;
        match value.get_mut(STORIES).map(Value::take) {
            Some(Value::Object(entries)) => Ok(Self { path, entries }),
            Some(_) => {
                Err(UnverifiedReason::Malformed { path, why: format!("{STORIES} is not a table") })
            }
            None => Err(UnverifiedReason::NoField { path, field: STORIES.to_owned() }),
        }
    }

    /// Returns the status of a story's entry, which must be unique.
    pub(super) fn story(&self, key: &WorkKey) -> Result<StoryStatus, UnverifiedReason> {
        let numbers = numbers(key)?;
        let matching: Vec<&String> =
            self.entries.keys().filter(|entry| is_entry_of(entry, numbers)).collect();
        match matching.as_slice() {
            [] => self.entry(key.as_str()),
            [one] => self.entry(one),
            several => Err(UnverifiedReason::SeveralFields {
                path: self.path.clone(),
                fields: several.iter().map(|entry| (*entry).clone()).collect(),
            }),
        }
    }

    /// Returns the status of the entry with this exact name.
    pub(super) fn entry(&self, name: &str) -> Result<StoryStatus, UnverifiedReason> {
        let (path, field) = (self.path.clone(), format!("{STORIES}.{name}"));
        match self.entries.get(name).map(text_of) {
            None => Err(UnverifiedReason::NoField { path, field }),
            Some(None) => Err(UnverifiedReason::NotText { path, field }),
            Some(Some(written)) => Ok(StoryStatus { path, field, written }),
        }
    }

    /// Returns the statuses of all stories in an epic, or fails if it has none.
    pub(super) fn epic(&self, epic: &str) -> Result<Vec<StoryStatus>, UnverifiedReason> {
        let of_epic = |entry: &&String| {
            let key = WorkKey::parse(entry).ok();
            key.and_then(|key| key.numbers().map(|numbers| numbers.epic == epic)).unwrap_or(false)
        };
        let stories: Vec<StoryStatus> = self
            .entries
            .keys()
            .filter(of_epic)
            .map(|entry| self.entry(entry))
            .collect::<Result<_, _>>()?;
        if stories.is_empty() {
            let field = format!("{STORIES}.{epic}-…");
            return Err(UnverifiedReason::NoField { path: self.path.clone(), field });
        }
        Ok(stories)
    }
}

/// Whether an entry belongs to the story. Compares the full names or, if only the story's numbers
/// are known, the numbers.
fn is_entry_of(entry: &str, wanted: StoryNumbers<'_>) -> bool {
    let key = WorkKey::parse(entry).ok();
    let found = key.as_ref().and_then(WorkKey::numbers);
    found.is_some_and(|found| {
        (found.epic, found.story) == (wanted.epic, wanted.story)
            && wanted.slug.is_none_or(|slug| found.slug == Some(slug))
    })
}

/// Finds the file of a story, which must be unique.
pub(super) fn file(project: &ProjectDir, key: &WorkKey) -> Result<PathBuf, UnverifiedReason> {
    let StoryNumbers { epic, story, slug } = numbers(key)?;
    let name = format!("{epic}-{story}-{}.md", slug.unwrap_or("*"));
    let patterns = STORY_DIRS.iter().map(|place| FilePattern::new(&format!("{place}/{name}")));
    let unusable = |why| UnverifiedReason::NoProject { why };
    project.find_one(&patterns.collect::<Result<Vec<_>, _>>().map_err(unusable)?)
}

/// Reads the file of a story. An empty file is an error.
fn read(project: &ProjectDir, key: &WorkKey) -> Result<ProjectText, UnverifiedReason> {
    let mut read = project.read(&file(project, key)?)?;
    if let Some(text) = read.text.strip_prefix('\u{feff}') {
        read.text = text.to_owned();
    }
    if read.text.trim().is_empty() {
        Err(UnverifiedReason::Malformed { path: read.path, why: "the file is empty".to_owned() })
    } else {
        Ok(read)
    }
}

/// Checks that the story has exactly one file and that the file is readable.
pub(super) fn check_exists(project: &ProjectDir, key: &WorkKey) -> Result<(), UnverifiedReason> {
    statuses_in_front_matter(&read(project, key)?).map(drop)
}

/// Returns the status given in a story's file.
pub(super) fn status(project: &ProjectDir, key: &WorkKey) -> Result<StoryStatus, UnverifiedReason> {
    let read = read(project, key)?;
    let statuses = statuses_in_front_matter(&read)?.into_iter().chain(statuses_in_head(&read.text));
    let mut statuses: Vec<String> = statuses.collect();
    statuses.dedup();
    let (path, field) = (read.path, "Status".to_owned());
    match statuses.as_slice() {
        [] => Err(UnverifiedReason::NoField { path, field }),
        [_] => Ok(StoryStatus { path, field, written: statuses.remove(0) }),
        _ => Err(UnverifiedReason::SeveralFields { path, fields: statuses }),
    }
}

fn statuses_in_front_matter(read: &ProjectText) -> Result<Vec<String>, UnverifiedReason> {
    let malformed = |why| UnverifiedReason::Malformed { path: read.path.clone(), why };
    let Some(head) = front_matter_text(&read.text).map_err(malformed)? else {
        return Ok(Vec::new());
    };
    let front = yaml(head).map_err(malformed)?;
    let values = ["status", "Status"].into_iter().filter_map(|name| front.get(name));
    let not_text =
        || UnverifiedReason::NotText { path: read.path.clone(), field: "Status".to_owned() };
    values.map(|value| text_of(value).ok_or_else(not_text)).collect()
}

/// Returns the statuses on lines before the first section. Later lines are ignored, because they
/// are prose about the work. Lines in code or comments are ignored as well.
fn statuses_in_head(text: &str) -> Vec<String> {
    let front = front_matter_text(text).ok().flatten().map_or(0, |front| front.lines().count() + 2);
    let mut aside = None;
    let mut statuses = Vec::new();
    for line in text.lines().skip(front) {
        let outside = aside.is_none();
        aside = MarkdownRegion::after(aside, line);
        if outside && line.starts_with("## ") {
            break;
        }
        let line = line.replace("**", "");
        if outside && let Some(status) = line.strip_prefix("Status:") {
            statuses.push(status.trim().to_owned());
        }
    }
    statuses
}

/// A region of Markdown that is not ordinary text.
#[derive(Clone, Copy)]
enum MarkdownRegion {
    /// Fenced code: the fence character, and the minimum length of the closing fence.
    Code(char, usize),
    Comment,
}

impl MarkdownRegion {
    /// Returns the region that contains the text after this line. Returns `None` for ordinary text.
    fn after(aside: Option<Self>, line: &str) -> Option<Self> {
        match (aside, fence(line)) {
            (Some(Self::Code(c, least)), Some((found, count, info))) => {
                let ends = found == c && count >= least && info.trim().is_empty();
                (!ends).then_some(Self::Code(c, least))
            }
            (Some(Self::Code(..)), None) => aside,
            (None, Some((c, count, info))) if c != '`' || !info.contains('`') => {
                Some(Self::Code(c, count))
            }
            (None | Some(Self::Comment), _) => comment(aside.is_some(), line),
        }
    }
}

/// Parses a fence line into its character, its length and the text after it.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let start = line.trim_start_matches(' ');
    let c = start.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let info = start.trim_start_matches(c);
    let count = start.len() - info.len();
    (line.len() - start.len() < 4 && count >= 3).then_some((c, count, info))
}

/// Scans a line for comments, and returns the region at its end.
fn comment(mut open: bool, line: &str) -> Option<MarkdownRegion> {
    let mut rest = line;
    loop {
        let end = if open { rest.find("-->") } else { rest.find("<!--") };
        let Some(at) = end else { return open.then_some(MarkdownRegion::Comment) };
        // `<!-->` is a complete comment.
        rest = &rest[at + if open { 3 } else { 2 }..];
        open = !open;
    }
}

pub(super) fn numbers(key: &WorkKey) -> Result<StoryNumbers<'_>, UnverifiedReason> {
    key.numbers()
        .ok_or_else(|| UnverifiedReason::Key { key: key.as_str().to_owned(), expected: STORY_KEY })
}
