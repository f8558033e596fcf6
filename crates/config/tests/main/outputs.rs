//! The schema and the reference follow the table.

use insta::{assert_json_snapshot, assert_snapshot};
use provost_config::{Event, keys, reference_markdown, schema};
use serde_json::{Value as Json, json};

use crate::support::register;

#[test]
fn schema_describes_every_key() {
    register();
    let schema = schema();
    for key in keys() {
        let found = at(&schema, key.name());
        let description = found["description"].as_str().unwrap_or_default();
        assert!(description.starts_with(key.description()), "{}", key.name());
        assert_eq!(found.get("default"), key.default_value().as_ref(), "{}", key.name());
    }
    for event in Event::ALL {
        assert!(
            schema["properties"]["hooks"]["properties"][event.name()].is_object(),
            "{}",
            event.name()
        );
    }
}

#[test]
fn schema_tables_are_closed_and_described() {
    register();
    fn walk(path: &str, schema: &Json) {
        if schema["type"] == "object" {
            assert!(!schema["additionalProperties"].is_null(), "{path} is open");
            assert_ne!(schema["additionalProperties"], json!(true), "{path} is open");
        }
        if let Some(properties) = schema["properties"].as_object() {
            assert_ne!(schema["description"], json!(""), "{path}");
            properties.iter().for_each(|(name, below)| walk(&format!("{path}.{name}"), below));
        }
        if schema["additionalProperties"].is_object() {
            walk(&format!("{path}.*"), &schema["additionalProperties"]);
        }
    }
    walk("", &schema());
}

#[test]
fn values_are_described_with_their_limits() {
    register();
    assert_json_snapshot!(at(&schema(), "session.time_limit"), @r#"
    {
      "anyOf": [
        {
          "anyOf": [
            {
              "pattern": "^([0-9]+|([0-9]+(d|h|m|s|ms))+)$",
              "type": "string"
            },
            {
              "maximum": 31536000,
              "minimum": 1,
              "type": "integer"
            }
          ]
        },
        {
          "enum": [
            false,
            "off"
          ]
        }
      ],
      "description": "Time limit of one attempt; unset or off means none."
    }
    "#);
    assert_json_snapshot!(at(&schema(), "agents.*.command"), @r#"
    {
      "description": "The program and its arguments. Required, in one of the files.",
      "items": {
        "type": "string"
      },
      "minItems": 1,
      "type": "array"
    }
    "#);
    assert_json_snapshot!(at(&schema(), "ui.color"), @r#"
    {
      "default": "auto",
      "description": "When output is colored. With \"auto\", `CLICOLOR_FORCE` also colors output that is not a terminal, and `NO_COLOR` turns colors off unless `PROVOST_UI_COLOR` is set.",
      "enum": [
        "auto",
        "always",
        "never"
      ]
    }
    "#);
}

#[test]
fn the_reference_has_a_row_for_every_key() {
    register();
    let reference = reference_markdown();
    for key in keys().filter(|key| !key.name().starts_with("presets.")) {
        let below = if key.name().starts_with("loops.") { "EVIDENCE" } else { "VARIABLE" };
        let name = key.name().replacen('*', "NAME", 1).replace('*', below);
        let rows = reference.lines().filter(|line| line.starts_with(&format!("| `{name}` |")));
        let row = rows.collect::<Vec<_>>();
        assert_eq!(row.len(), 1, "{name}");
        assert!(row[0].contains(key.description()), "{name}");
    }
    assert!(
        reference.lines().filter(|line| line.starts_with('|')).all(|row| row
            .matches(" | ")
            .count()
            == 4
            || row.starts_with("|-"))
    );
}

#[test]
fn reference_section_matches_snapshot() {
    register();
    let reference = reference_markdown();
    let start = reference.find("## `[worktree]`").unwrap();
    let end = reference[start..].find("\n\n## ").map_or(reference.len(), |end| start + end);
    let next = reference[start + 3..].find("\n## ").map_or(end, |next| start + 3 + next);
    assert_snapshot!(reference[start..next], @r#"
    ## `[worktree]`

    Where agents work.

    | key | takes | default | variable | meaning |
    |---|---|---|---|---|
    | `worktree.enabled` | boolean | unset | `PROVOST_WORKTREE_ENABLED` | Whether each session gets its own worktree and branch. If unset, it depends on the command. |
    | `worktree.branch_prefix` | branch prefix | `"provost"` | `PROVOST_WORKTREE_BRANCH_PREFIX` | The prefix of branch names, before a slash. |
    | `worktree.copy` | list of relative paths or globs | `[]` |  | Ignored files that are copied into a new worktree. |
    | `worktree.setup` | command or off | unset | `PROVOST_WORKTREE_SETUP` | A command that prepares a new worktree. |
    "#);
}

fn at<'a>(schema: &'a Json, key: &str) -> &'a Json {
    key.split('.').fold(schema, |at, name| match name {
        "*" => &at["additionalProperties"],
        fixed => &at["properties"][fixed],
    })
}
