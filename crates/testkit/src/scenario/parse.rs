//! Parses a scenario strictly, so that a misspelt step is an error and not a missing step.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::step::{ACTIONS, AgentScenario, RepeatStep, ScenarioStep, StepAction, WITH_OPTIONS};
use super::text::{RUNTIME_NAMES, placeholders, render};

/// Maximum nesting depth of `repeat`.
const MAX_NESTING: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not a scenario")]
    Toml(#[source] Box<toml::de::Error>),
    #[error("step {step}: {why}")]
    Step { step: String, why: String },
}

/// Parses a scenario, with `vars` for its `{{name}}` placeholders.
pub fn parse(text: &str, vars: &BTreeMap<String, String>) -> Result<AgentScenario, Error> {
    let file: ScenarioFile = toml::from_str(text).map_err(|error| Error::Toml(Box::new(error)))?;
    let steps = steps(&file.step, "", vars)?;
    check_ignore_term(&steps)?;
    Ok(AgentScenario { description: file.description, steps })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    #[serde(default)]
    description: String,
    #[serde(default)]
    step: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRepeat {
    times: u32,
    steps: Vec<Table>,
}

fn steps(
    tables: &[Table],
    within: &str,
    vars: &BTreeMap<String, String>,
) -> Result<Vec<ScenarioStep>, Error> {
    tables
        .iter()
        .enumerate()
        .map(|(index, table)| step(table.clone(), &format!("{within}{}", index + 1), vars))
        .collect()
}

fn step(
    mut table: Table,
    number: &str,
    vars: &BTreeMap<String, String>,
) -> Result<ScenarioStep, Error> {
    let wrong = |why: String| Error::Step { step: number.to_owned(), why };
    let if_launch = table.remove("if_launch").map(Value::try_into).transpose();
    let if_launch = if_launch.map_err(|error| wrong(format!("if_launch: {}", error.message())))?;
    let key = action_key(&table).map_err(wrong)?;
    let value = table.remove(&key).expect("the key was found in the table");
    let action = if key == "repeat" {
        no_options(&key, &table).map_err(wrong)?;
        repeat(value, number, vars)?
    } else {
        plain_action(&key, value, table, vars).map_err(wrong)?
    };
    Ok(ScenarioStep { if_launch, action })
}

fn action_key(table: &Table) -> Result<String, String> {
    let keys: Vec<&String> = table.keys().filter(|key| ACTIONS.contains(&key.as_str())).collect();
    match keys.as_slice() {
        [key] => Ok((*key).clone()),
        [] => Err(format!(
            "no action among its keys ({}); the actions are {}",
            names(table.keys()),
            ACTIONS.join(", ")
        )),
        several => Err(format!(
            "a step has one action, but this one has {}",
            names(several.iter().copied())
        )),
    }
}

fn plain_action(
    key: &str,
    mut value: Value,
    options: Table,
    vars: &BTreeMap<String, String>,
) -> Result<StepAction, String> {
    if WITH_OPTIONS.contains(&key) {
        let mut with_options = options;
        if with_options.insert("value".to_owned(), value).is_some() {
            return Err("unknown key `value`".to_owned());
        }
        value = Value::Table(with_options);
    } else {
        no_options(key, &options)?;
    }
    let value = rendered(value, vars)?;
    let tagged = Value::Table(Table::from_iter([(key.to_owned(), value)]));
    tagged.try_into().map_err(|error: toml::de::Error| format!("{key}: {}", error.message()))
}

fn no_options(key: &str, options: &Table) -> Result<(), String> {
    if options.is_empty() {
        Ok(())
    } else {
        Err(format!("{} does not belong to `{key}`", names(options.keys())))
    }
}

fn repeat(
    value: Value,
    number: &str,
    vars: &BTreeMap<String, String>,
) -> Result<StepAction, Error> {
    let wrong = |why: String| Error::Step { step: number.to_owned(), why };
    let raw: RawRepeat = value
        .try_into()
        .map_err(|error: toml::de::Error| wrong(format!("repeat: {}", error.message())))?;
    if number.split('.').count() > MAX_NESTING {
        return Err(wrong(format!("`repeat` nested more than {MAX_NESTING} deep")));
    }
    let steps = steps(&raw.steps, &format!("{number}."), vars)?;
    Ok(StepAction::Repeat(RepeatStep { times: raw.times, steps }))
}

/// Replaces the variables in every text below a value.
fn rendered(value: Value, vars: &BTreeMap<String, String>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(rendered_text(&text, vars)?),
        Value::Array(items) => Value::Array(
            items.into_iter().map(|item| rendered(item, vars)).collect::<Result<_, _>>()?,
        ),
        Value::Table(table) => Value::Table(
            table
                .into_iter()
                .map(|(key, item)| Ok((key, rendered(item, vars)?)))
                .collect::<Result<_, String>>()?,
        ),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => value,
    })
}

fn rendered_text(text: &str, vars: &BTreeMap<String, String>) -> Result<String, String> {
    let known = |name: &str| vars.contains_key(name) || RUNTIME_NAMES.contains(&name);
    match placeholders(text).into_iter().find(|name| !known(name)) {
        Some(name) => Err(format!("`{{{{{name}}}}}` has no value; set it with --vars {name}=…")),
        None => Ok(render(text, vars)),
    }
}

/// Rejects a misplaced `ignore_term`. The agent replaces itself to ignore TERM, so buffered stdin
/// would be lost, and a late reporter would mistake the replacement for the agent's exit.
fn check_ignore_term(steps: &[ScenarioStep]) -> Result<(), Error> {
    let is_ignore_term = |action: &StepAction| matches!(action, StepAction::IgnoreTerm(_));
    let mut too_late = false;
    for (index, ScenarioStep { action, .. }) in steps.iter().enumerate() {
        let wrong =
            |why: &str| Err(Error::Step { step: (index + 1).to_string(), why: why.to_owned() });
        if is_ignore_term(action) && too_late {
            return wrong(
                "`ignore_term` must come before all steps that read input, and before all steps that send a report after the exit",
            );
        }
        if !is_ignore_term(action) && any_action(action, &is_ignore_term) {
            return wrong("`ignore_term` is not allowed inside `repeat`");
        }
        too_late |= any_action(action, &is_lost_by_exec);
    }
    Ok(())
}

fn is_lost_by_exec(action: &StepAction) -> bool {
    matches!(
        action,
        StepAction::WaitInput(_) | StepAction::ReadLine(_) | StepAction::ReportAfterExit(_)
    )
}

/// Whether an action, or one nested in it, matches.
fn any_action(action: &StepAction, wanted: &dyn Fn(&StepAction) -> bool) -> bool {
    let mut within: &[ScenarioStep] = &[];
    if let StepAction::Repeat(repeat) = action {
        within = &repeat.steps;
    }
    wanted(action) || within.iter().any(|step| any_action(&step.action, wanted))
}

fn names<'a>(keys: impl Iterator<Item = &'a String>) -> String {
    keys.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}
