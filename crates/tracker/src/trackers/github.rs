//! Issues on GitHub, read with the `gh` command and its login.
//!
//! GitHub issues are only open or closed. On an open issue, a label `state:NAME` sets the state to
//! NAME, a label `priority:N` sets the priority, and a label `blocked` blocks the issue.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use provost_sys::origin::{HELPER, MARK};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Error, IssueList, Tracker, subprocess};
use crate::{
    issue::{Issue, States, normalize_instant, normalize_labels},
    workflow::{self, EnvironmentMap, Fields, resolved},
};

/// The name of this tracker in a workflow.
pub(crate) const KIND: &str = "github";

pub(crate) const ACTIVE: [&str; 1] = [OPEN];
pub(crate) const TERMINAL: [&str; 1] = [CLOSED];

const OPEN: &str = "open";
const CLOSED: &str = "closed";

/// The default maximum number of issues to query per state.
const LIMIT: u32 = 1_000;

/// The fields of an issue to query.
const FIELDS: &str = "id,number,title,body,state,labels,url,assignees,createdAt,updatedAt";

/// The exit code of `gh` if it is not logged in.
const NOT_LOGGED_IN: i32 = 4;

/// The settings for querying the issues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitHubSettings {
    /// `OWNER/NAME`, or `None` if `gh` determines it from the checkout.
    pub repo: Option<String>,
    pub limit: u32,
    pub state_prefix: String,
    pub priority_prefix: String,
    pub blocked_label: String,
    /// The working directory of `gh`.
    dir: PathBuf,
}

impl GitHubSettings {
    pub(super) fn read(
        mut provider: Fields,
        dir: &Path,
        environment: &EnvironmentMap,
    ) -> Result<(Self, Vec<String>), workflow::Error> {
        let key = provider.path("repo");
        let repo =
            provider.text("repo")?.map(|text| resolved(&text, &key, environment)).transpose()?;
        if let Some(repo) = repo.as_deref().filter(|repo| !is_repo(repo)) {
            return Err(workflow::Error::config(&key, format!("is {repo:?}; expected OWNER/NAME")));
        }
        let mut label = |key: &str, usual: &str| {
            provider.text(key).map(|text| text.unwrap_or_else(|| usual.to_owned()).to_lowercase())
        };
        let state_prefix = label("state_prefix", "state:")?;
        let priority_prefix = label("priority_prefix", "priority:")?;
        let blocked_label = label("blocked_label", "blocked")?;
        let limit = provider.count("limit", 1)?.unwrap_or(LIMIT);
        let dir = dir.to_owned();
        let settings =
            GitHubSettings { repo, limit, state_prefix, priority_prefix, blocked_label, dir };
        Ok((settings, provider.unknown()))
    }
}

/// Whether the text is a repository, optionally with a host. Parts that start with a dash are
/// rejected, because `gh` would take them for options.
fn is_repo(text: &str) -> bool {
    let plain = |one: char| one.is_ascii_alphanumeric() || matches!(one, '/' | '.' | '_' | '-');
    let parts = text.split('/').count();
    (2..=3).contains(&parts)
        && text.split('/').all(|part| !part.is_empty() && !part.starts_with('-'))
        && text.chars().all(plain)
}

/// The issues of a repository on GitHub.
#[derive(Debug)]
pub struct GitHubTracker {
    settings: GitHubSettings,
    environment: EnvironmentMap,
}

/// An issue as printed by `gh`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GhIssue {
    number: u64,
    title: String,
    state: String,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    body: Value,
    #[serde(default)]
    labels: Vec<GhLabel>,
    #[serde(default)]
    url: Value,
    #[serde(default)]
    assignees: Vec<Value>,
    #[serde(default)]
    created_at: Value,
    #[serde(default)]
    updated_at: Value,
}

#[derive(Debug, Deserialize)]
struct GhLabel {
    name: String,
}

impl GitHubTracker {
    pub fn new(settings: GitHubSettings, environment: EnvironmentMap) -> Self {
        GitHubTracker { settings, environment }
    }

    fn list(&self, state: &str, found: &mut IssueList) -> Result<(), Error> {
        let limit = self.settings.limit;
        let text = self.gh(&["issue", "list", "--state", state, "--limit", &limit.to_string()])?;
        let rows: Vec<Value> = parse(&text)?;
        // `gh` handles the pagination itself. If it returned as many issues as the limit allows,
        // there may be further ones.
        if rows.len() >= limit as usize {
            return Err(Error::Pagination(format!(
                "there are at least {limit} {state} issues; raise tracker.provider.limit"
            )));
        }
        for one in rows {
            match self.issue(&one) {
                Ok(issue) => found.issues.push(issue),
                Err(why) => found.warnings.push(format!("issue {}: {why}", one["number"])),
            }
        }
        Ok(())
    }

    fn view(&self, id: &str) -> Result<Option<Issue>, Error> {
        // Only numbers are valid ids, because `gh` could mistake any other text for an option.
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        let text = match self.gh(&["issue", "view", id]) {
            Err(Error::Status(why)) if why.contains("Could not resolve to an") => return Ok(None),
            answer => answer?,
        };
        self.issue(&parse(&text)?)
            .map(Some)
            .map_err(|why| Error::Response(format!("issue {id}: {why}")))
    }

    fn gh(&self, arguments: &[&str]) -> Result<Vec<u8>, Error> {
        let mut command = Command::new("gh");
        command.args(arguments).args(["--json", FIELDS]).current_dir(&self.settings.dir);
        if let Some(repo) = &self.settings.repo {
            command.args(["--repo", repo]);
        }
        command.env_clear().envs(&self.environment);
        command.env("GH_PROMPT_DISABLED", "1").env("NO_COLOR", "1").env(MARK, HELPER);
        let what = format!("gh {}", arguments.join(" "));
        let ended = subprocess::run(&mut command)
            .map_err(|why| Error::Request(format!("cannot run `{what}`: {why}")))?;
        if ended.status.success() {
            Ok(ended.stdout)
        } else {
            Err(classify_error(&what, ended.status.code(), ended.stderr.trim()))
        }
    }

    fn issue(&self, row: &Value) -> Result<Issue, String> {
        let issue = GhIssue::deserialize(row).map_err(|why| why.to_string())?;
        if issue.title.trim().is_empty() {
            return Err("the issue has no title".to_owned());
        }
        let text =
            |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let names = normalize_labels(issue.labels.iter().map(|label| &label.name));
        Ok(Issue {
            id: issue.number.to_string(),
            identifier: format!("#{}", issue.number),
            state: self.state(&issue.state, &names)?,
            priority: self.priority(&names),
            dispatchable: !names.contains(&self.settings.blocked_label),
            description: text(&issue.body),
            branch_name: None,
            url: text(&issue.url),
            assignee_id: issue.assignees.first().and_then(|one| text(&one["login"])),
            created_at: text(&issue.created_at).as_deref().and_then(normalize_instant),
            updated_at: text(&issue.updated_at).as_deref().and_then(normalize_instant),
            native_ref: Some(native(issue.number, text(&issue.id))),
            title: issue.title,
            labels: names,
            blocked_by: Vec::new(),
        })
    }

    /// Returns the state of an issue. More than one state label is an error, because the state would be ambiguous.
    fn state(&self, state: &str, names: &[String]) -> Result<String, String> {
        let mut named =
            names.iter().filter_map(|name| name.strip_prefix(&self.settings.state_prefix));
        match (state.to_lowercase().as_str(), named.next().map(str::trim), named.next()) {
            (CLOSED, ..) => Ok(CLOSED.to_owned()),
            (OPEN, Some(_), Some(_)) => Err("several labels set the state".to_owned()),
            (OPEN, Some(name), None) if !name.is_empty() => Ok(name.to_owned()),
            (OPEN, ..) => Ok(OPEN.to_owned()),
            (other, ..) => Err(format!("the state is {other:?}; expected open or closed")),
        }
    }

    fn priority(&self, names: &[String]) -> Option<i64> {
        let prefix = &self.settings.priority_prefix;
        names.iter().find_map(|name| name.strip_prefix(prefix)?.trim().parse().ok())
    }
}

impl Tracker for GitHubTracker {
    fn issues_in_states(&self, states: &States) -> Result<IssueList, Error> {
        let mut found = IssueList::default();
        if states.iter().any(|state| state != CLOSED) {
            self.list(OPEN, &mut found)?;
        }
        if states.has(CLOSED) {
            self.list(CLOSED, &mut found)?;
        }
        found.issues.retain(|issue| states.has(&issue.state));
        Ok(found)
    }

    fn issues_by_ids(&self, ids: &[String]) -> Result<Vec<Issue>, Error> {
        let asked: BTreeMap<&String, Option<Issue>> =
            ids.iter().map(|id| Ok((id, self.view(id)?))).collect::<Result<_, Error>>()?;
        Ok(asked.into_values().flatten().collect())
    }
}

fn native(number: u64, node: Option<String>) -> Map<String, Value> {
    [("number".to_owned(), json!(number)), ("node_id".to_owned(), json!(node))]
        .into_iter()
        .collect()
}

fn parse<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(text)
        .map_err(|why| Error::Response(format!("cannot parse the output of gh: {why}")))
}

/// Classifies an error by how it can be fixed.
fn classify_error(what: &str, code: Option<i32>, stderr: &str) -> Error {
    let code_text = code.map_or_else(|| "a signal".to_owned(), |code| format!("exit {code}"));
    let why = format!("`{what}` ended with {code_text}: {stderr}");
    let lower = stderr.to_lowercase();
    if code == Some(NOT_LOGGED_IN) {
        return Error::Secret(format!("{why}; run `gh auth login`"));
    }
    if lower.contains("rate limit") {
        return Error::RateLimited(why);
    }
    let signs = ["could not connect", "error connecting", "timeout", "dial tcp"];
    if signs.iter().any(|sign| lower.contains(sign)) {
        Error::Request(why)
    } else {
        Error::Status(why)
    }
}

#[cfg(test)]
mod tests;
