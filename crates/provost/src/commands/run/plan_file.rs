//! A plan written by the user, in TOML or JSON depending on the file's extension.

use std::{collections::BTreeMap, ffi::OsStr, io::Read as _, path::Path};

use provost_api::ApiError;
use provost_core::plan::{FaultLocation, MAX_REPORTED, Plan, PlanFault, PlanTask, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toml::Spanned;

use crate::error::usage;

/// The maximum size of a plan file, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Reads a plan from a file whose name ends in `.toml` or `.json`.
pub(crate) fn read(path: &Path) -> Result<Plan, ApiError> {
    let form = match path.extension().and_then(OsStr::to_str) {
        Some("toml") => from_toml,
        Some("json") => from_json,
        Some(_) | None => {
            let message = "unknown format: expected a name that ends in .toml or .json";
            return Err(plan_error(path, &[message.to_owned()]));
        }
    };
    let text = read_text(path).map_err(|why| plan_error(path, &[why]))?;
    form(&text).map_err(|faults| plan_error(path, &faults))
}

/// Converts a plan to TOML. Reading the result returns the same plan.
pub(crate) fn toml(plan: &Plan) -> String {
    let file = TomlPlan { task: plan.tasks().iter().map(TomlTask::from).collect() };
    toml::to_string_pretty(&file).expect("tasks are tables of texts and lists of texts")
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
        .map_err(|why| why.to_string())?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("the file is larger than {MAX_FILE} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())
}

/// Reports all errors in a file. If there are several, each is on its own line.
fn plan_error(path: &Path, faults: &[String]) -> ApiError {
    let what = format!("cannot use the plan {}:", path.display());
    let more = faults.len().saturating_sub(MAX_REPORTED);
    let mut lines = faults.iter().take(MAX_REPORTED).cloned().collect::<Vec<_>>();
    lines.extend((more > 0).then(|| format!("and {more} more")));
    match &lines[..] {
        [only] => usage(format!("{what} {only}")),
        _ => usage(format!("{what}\n{}", lines.join("\n"))),
    }
}

fn from_json(text: &str) -> Result<Plan, Vec<String>> {
    let value: Value = serde_json::from_str(text).map_err(|why| {
        vec![format!(
            "the file is not valid JSON: {why}; a plan has the form {{\"tasks\": [{{\"id\": …}}, \
             …]}}"
        )]
    })?;
    Plan::parse(&value).map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

/// The tables in a file, and their positions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    #[serde(default)]
    task: Vec<Spanned<toml::Table>>,
}

fn from_toml(text: &str) -> Result<Plan, Vec<String>> {
    let file: PlanFile = toml::from_str(text).map_err(|why| {
        let before = why.span().and_then(|span| text.get(..span.start));
        let line = before.map(|before| format!("line {}: ", before.matches('\n').count() + 1));
        let line = line.unwrap_or_default();
        vec![format!("{line}{}; a plan consists of [[task]] tables", why.message())]
    })?;
    let tasks: Vec<Value> = file.task.iter().map(|task| json!(task.get_ref())).collect();
    Plan::parse(&json!({"tasks": tasks})).map_err(|faults| {
        let lines = TaskLines::new(text, &file, &tasks);
        faults.iter().map(|fault| lines.describe_fault(fault)).collect()
    })
}

/// The maximum number of typing errors in an unknown field for which a known field is suggested.
const MAX_TYPOS: usize = 2;

/// Returns the field that the user probably meant, if a fault is an unknown field.
fn intended_field(fault: &PlanFault) -> Option<&str> {
    let PlanFault::ForeignField { field, expected, .. } = fault else { return None };
    let known = expected.split(", ").flat_map(|part| part.split(" and "));
    let near = known.map(|one| (strsim::osa_distance(field, one), one)).min()?;
    (near.0 <= MAX_TYPOS).then_some(near.1)
}

/// The lines on which the tasks in a file start, and the lines of the file.
struct TaskLines<'a> {
    lines: Vec<&'a str>,
    starts: Vec<usize>,
    /// The line of each task ID. For a duplicate ID, this is the line of the last task, because that task is the
    /// erroneous one.
    named: BTreeMap<&'a str, usize>,
}

impl<'a> TaskLines<'a> {
    fn new(text: &'a str, file: &PlanFile, tasks: &'a [Value]) -> Self {
        let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        let line = |offset: usize| ends.partition_point(|end| *end < offset) + 1;
        let starts: Vec<usize> = file.task.iter().map(|task| line(task.span().start)).collect();
        let named = tasks.iter().zip(&starts);
        let named = named.filter_map(|(task, line)| Some((task["id"].as_str()?, *line))).collect();
        TaskLines { lines: text.lines().collect(), starts, named }
    }

    fn describe_fault(&self, fault: &PlanFault) -> String {
        let task = match fault.location() {
            FaultLocation::Task(id) => self.named.get(id.as_str()).copied(),
            FaultLocation::Numbered(no) => self.starts.get(no - 1).copied(),
            FaultLocation::Plan
            | FaultLocation::Review
            | FaultLocation::Unnamed
            | FaultLocation::Edit(_) => None,
        };
        let line = task.map(|start| match fault.field() {
            Some(field) => self.field_line(start, field).unwrap_or(start),
            None => start,
        });
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let intended = intended_field(fault).map(|near| format!("; did you mean \"{near}\"?"));
        format!("{line}{fault}{}", intended.unwrap_or_default())
    }

    /// Returns the line that sets a field of the task that starts on the line `start`.
    fn field_line(&self, start: usize, field: &str) -> Option<usize> {
        let end = self.starts.iter().copied().find(|other| *other > start);
        let end = end.map_or(self.lines.len(), |end| end - 1);
        let sets = |line: &&str| {
            let rest = line.trim_start().strip_prefix(field);
            rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let at = self.lines.get(start..end)?.iter().position(sets)?;
        Some(start + 1 + at)
    }
}

/// A plan as it is written to a file. Empty fields are left out.
#[derive(Serialize)]
struct TomlPlan<'a> {
    task: Vec<TomlTask<'a>>,
}

#[derive(Serialize)]
struct TomlTask<'a> {
    id: &'a TaskId,
    title: &'a str,
    instruction: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    after: &'a [TaskId],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    criteria: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    checks: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    scope: &'a [String],
}

impl<'a> From<&'a PlanTask> for TomlTask<'a> {
    fn from(task: &'a PlanTask) -> Self {
        let PlanTask { id, title, instruction, after, criteria, checks, scope } = task;
        TomlTask { id, title, instruction, after, criteria, checks, scope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[[task]]
id = "parser"
title = "Read the new format"
instruction = """
Read it, as docs/format.md says.
"""
checks = ["cargo test -p parser"]
scope = ["crates/parser/**"]

[[task]]
id = "docs"
title = "Tell users"
instruction = "Write docs/format.md's examples."
after = ["parser"]
criteria = ["every example can be read"]
"#;

    fn in_file(name: &str, text: impl AsRef<[u8]>) -> Result<Plan, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let place = format!("{}/", dir.path().display());
        read(&path).map_err(|error| error.message.replace(&place, ""))
    }

    #[test]
    fn plan_parses_from_toml_and_json() {
        let plan = in_file("plan.toml", GOOD).unwrap();
        let ids: Vec<&str> = plan.tasks().iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["parser", "docs"]);
        assert_eq!(plan.tasks()[0].instruction, "Read it, as docs/format.md says.\n");
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(in_file("plan.json", json), Ok(plan));
    }

    #[test]
    fn written_toml_round_trips() {
        let hard = [
            "one line",
            "two\nlines\n",
            "\n\nleading",
            "trailing \\",
            "\"\"\" and '''",
            "'''\n\"\"\"\n",
            "a\r\nb\rc",
            "\ttab \u{7f} \u{1b}[31m \u{feff} 日本",
            "C:\\new\\table",
            "# no comment = [1]",
        ];
        for text in hard {
            let mut tasks = in_file("plan.toml", GOOD).unwrap().tasks().to_vec();
            tasks[0].instruction = text.to_owned();
            tasks[1].criteria = vec![text.to_owned(), "x".to_owned()];
            let plan = Plan::new(tasks).unwrap();
            let written = toml(&plan);
            assert_eq!(in_file("plan.toml", &written), Ok(plan), "{written}");
        }
    }

    #[test]
    fn written_toml_is_readable() {
        insta::assert_snapshot!(toml(&in_file("plan.toml", GOOD).unwrap()), @r#"
        [[task]]
        id = "parser"
        title = "Read the new format"
        instruction = """
        Read it, as docs/format.md says.
        """
        checks = ["cargo test -p parser"]
        scope = ["crates/parser/**"]

        [[task]]
        id = "docs"
        title = "Tell users"
        instruction = "Write docs/format.md's examples."
        after = ["parser"]
        criteria = ["every example can be read"]
        "#);
    }

    #[test]
    fn invalid_plan_errors_name_lines() {
        let twice = GOOD.replace("\"docs\"", "\"parser\"").replace("criteria", "status");
        let nameless = GOOD.replace("id = \"docs\"\n", "");
        let misspelled = GOOD.replace("criteria", "critera");
        let cases = [
            ("plan.toml", "[[task]]\nid = \"a\"\ntitle = \n"),
            ("plan.toml", "[[tasks]]\nid = \"a\"\n"),
            ("plan.toml", "title = \"x\"\n"),
            ("plan.toml", "task = \"x\"\n"),
            ("plan.toml", ""),
            ("plan.toml", &twice),
            ("plan.toml", &nameless),
            ("plan.toml", &misspelled),
            ("plan.json", "{\"tasks\": [\n  {,\n]}"),
            ("plan.json", "{\"tasks\": []}"),
            ("plan.yaml", ""),
            ("plan", ""),
        ];
        let errors = cases.map(|(name, text)| in_file(name, text).unwrap_err());
        insta::assert_snapshot!(errors.join("\n"), @r#"
        cannot use the plan plan.toml: line 3: string values must be quoted, expected literal string; a plan consists of [[task]] tables
        cannot use the plan plan.toml: line 1: unknown field `tasks`, expected `task`; a plan consists of [[task]] tables
        cannot use the plan plan.toml: line 1: unknown field `title`, expected `task`; a plan consists of [[task]] tables
        cannot use the plan plan.toml: line 1: invalid type: string "x", expected a sequence; a plan consists of [[task]] tables
        cannot use the plan plan.toml: the plan has no tasks: expected at least one
        cannot use the plan plan.toml:
        line 16: task "parser" has an unknown field "status": expected only id, title, instruction, after, criteria, checks and scope
        line 12: 2 tasks have the id "parser": expected a unique id for each task
        cannot use the plan plan.toml: line 11: task number 2 has no "id": expected a text
        cannot use the plan plan.toml: line 16: task "docs" has an unknown field "critera": expected only id, title, instruction, after, criteria, checks and scope; did you mean "criteria"?
        cannot use the plan plan.json: the file is not valid JSON: key must be a string at line 2 column 4; a plan has the form {"tasks": [{"id": …}, …]}
        cannot use the plan plan.json: the plan has no tasks: expected at least one
        cannot use the plan plan.yaml: unknown format: expected a name that ends in .toml or .json
        cannot use the plan plan: unknown format: expected a name that ends in .toml or .json
        "#);
    }

    #[test]
    fn unreadable_plan_file_is_reported() {
        assert!(in_file("plan.toml", [0xff]).unwrap_err().ends_with("the file is not UTF-8"));
        let gone = read(Path::new("/nowhere/plan.toml")).unwrap_err().message;
        assert!(gone.starts_with("cannot use the plan /nowhere/plan.toml: No such file"), "{gone}");
        let large = in_file("plan.json", vec![b' '; MAX_FILE as usize + 1]).unwrap_err();
        assert!(large.ends_with("the file is larger than 16777216 bytes"), "{large}");
    }

    #[test]
    fn many_plan_errors_are_truncated() {
        let error = in_file("plan.toml", "[[task]]\n".repeat(100)).unwrap_err();
        assert!(error.ends_with("\nand 260 more"), "{error}");
    }
}
