//! The front matter as typed settings, with all defaults applied.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde_json::{Map, Value};

use super::{
    EnvironmentMap, Error,
    fields::Fields,
    unsupported::{self, approvals, sandbox},
};
use crate::{
    issue::{States, normalize_labels, normalize_name},
    schedule::DispatchRules,
    trackers::TrackerSettings,
};

/// Default interval for polling the tracker.
const INTERVAL_MS: u32 = 30_000;

/// Default maximum number of concurrent runs.
const CONCURRENT: u32 = 10;

/// Default maximum delay between two attempts.
const BACKOFF_MS: u32 = 300_000;

/// Default maximum number of retries of a failed run.
const RETRIES: u32 = 5;

/// The content of a workflow's front matter.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowConfig {
    pub tracker: TrackerConfig,
    pub interval: Duration,
    pub hooks: WorkflowHooks,
    pub agent: AgentLimits,
    pub codex: CodexOverrides,
    pub provost: ProvostOverrides,
}

/// The tracker, and the criteria that select the issues to work on.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackerConfig {
    pub settings: TrackerSettings,
    /// The required labels in lower case. Blank labels are kept, so that no issue satisfies them.
    pub required_labels: Vec<String>,
    pub active: States,
    pub terminal: States,
}

/// Commands that run in the worktrees of agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkflowHooks {
    /// The command that prepares a new worktree.
    pub after_create: Option<String>,
}

/// Limits on concurrency and retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLimits {
    pub concurrent: u32,
    /// The maximum number of concurrent runs for each state, by the state's name in lower case.
    pub by_state: BTreeMap<String, u32>,
    /// The maximum number of turns over all sessions of a run. If it is `None`, provost.toml
    /// determines the maximum.
    pub turns: Option<u32>,
    pub backoff_ms: u32,
}

/// Codex settings, with the names used in provost.toml. A setting that is `None` is determined by
/// provost.toml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodexOverrides {
    pub approvals: Option<&'static str>,
    pub sandbox: Option<&'static str>,
    /// The time for which a turn may be silent before the run is abandoned and retried.
    pub silence_ms: Option<u32>,
}

/// Settings that are specific to Provost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvostOverrides {
    /// The agent, by its name in provost.toml.
    pub agent: Option<String>,
    pub preset: Option<String>,
    /// Maximum number of retries after a failed run.
    pub retries: u32,
    /// Maximum number of further runs after a successful one while the issue stays active.
    pub continuations: u32,
}

impl WorkflowConfig {
    /// Returns the rules that determine when Provost works on an issue.
    pub fn rules(&self) -> DispatchRules {
        DispatchRules {
            active: self.tracker.active.clone(),
            terminal: self.tracker.terminal.clone(),
            required_labels: self.tracker.required_labels.clone(),
            concurrent: self.agent.concurrent,
            by_state: self.agent.by_state.clone(),
            backoff_ms: u64::from(self.agent.backoff_ms),
            retries: self.provost.retries,
            continuations: self.provost.continuations,
        }
    }
}

/// Reads the front matter. Also returns warnings about unknown keys.
pub(super) fn read(
    front: Map<String, Value>,
    dir: &Path,
    environment: &EnvironmentMap,
) -> Result<(WorkflowConfig, Vec<String>), Error> {
    let mut top = Fields::new("", front);
    let mut unknown = Vec::new();
    let tracker = tracker(top.part("tracker")?, dir, environment, &mut unknown)?;
    let mut polling = top.part("polling")?;
    let interval = polling.count("interval_ms", 1)?.unwrap_or(INTERVAL_MS);
    let mut workspace = top.part("workspace")?;
    unsupported::reject_unsupported("workspace", &mut workspace)?;
    let config = WorkflowConfig {
        tracker,
        interval: Duration::from_millis(u64::from(interval)),
        hooks: hooks(top.part("hooks")?, &mut unknown)?,
        agent: agent(top.part("agent")?, &mut unknown)?,
        codex: codex(top.part("codex")?, &mut unknown)?,
        provost: own(top.part("provost")?, &mut unknown)?,
    };
    unknown.extend([polling, workspace, top].into_iter().flat_map(Fields::unknown));
    unknown.sort();
    let warnings = unknown.iter().map(|key| format!("unknown key {key} has no effect"));
    Ok((config, warnings.collect()))
}

fn tracker(
    mut fields: Fields,
    dir: &Path,
    environment: &EnvironmentMap,
    unknown: &mut Vec<String>,
) -> Result<TrackerConfig, Error> {
    let kind = fields.text("kind")?;
    let provider = fields.part("provider")?;
    let (settings, rest) = TrackerSettings::read(kind.as_deref(), provider, dir, environment)?;
    let (active, terminal) = settings.states();
    let states = |given: Option<Vec<String>>, usual: &[&str]| match given {
        Some(given) => States::new(given),
        None => States::new(usual),
    };
    let active = states(fields.texts("active_states")?, active);
    let terminal = states(fields.texts("terminal_states")?, terminal);
    if active.is_empty() {
        return Err(Error::config("tracker.active_states", "is empty, so there would be no work"));
    }
    let required = fields.texts("required_labels")?.unwrap_or_default();
    let blank = required.iter().any(|label| label.trim().is_empty());
    let mut required_labels = normalize_labels(&required);
    required_labels.extend(blank.then(String::new));
    unknown.extend(fields.unknown().into_iter().chain(rest));
    Ok(TrackerConfig { settings, required_labels, active, terminal })
}

fn hooks(mut fields: Fields, unknown: &mut Vec<String>) -> Result<WorkflowHooks, Error> {
    unsupported::reject_unsupported("hooks", &mut fields)?;
    let after_create = fields.text("after_create")?.filter(|script| !script.trim().is_empty());
    unknown.extend(fields.unknown());
    Ok(WorkflowHooks { after_create })
}

fn agent(mut fields: Fields, unknown: &mut Vec<String>) -> Result<AgentLimits, Error> {
    let by_state = match fields.take("max_concurrent_agents_by_state") {
        // Invalid numbers are ignored, as the specification requires.
        Some(Value::Object(map)) => {
            let limit = |(state, limit): (&String, &Value)| {
                let limit = u32::try_from(limit.as_u64()?).ok().filter(|limit| *limit > 0)?;
                Some((normalize_name(state), limit))
            };
            map.iter().filter_map(limit).collect()
        }
        Some(_) => {
            let key = fields.path("max_concurrent_agents_by_state");
            return Err(Error::config(&key, "is not a map; expected states with numbers"));
        }
        None => BTreeMap::new(),
    };
    let agent = AgentLimits {
        concurrent: fields.count("max_concurrent_agents", 1)?.unwrap_or(CONCURRENT),
        by_state,
        turns: fields.count("max_turns", 1)?,
        backoff_ms: fields.count("max_retry_backoff_ms", 1)?.unwrap_or(BACKOFF_MS),
    };
    unknown.extend(fields.unknown());
    Ok(agent)
}

fn codex(mut fields: Fields, unknown: &mut Vec<String>) -> Result<CodexOverrides, Error> {
    unsupported::reject_unsupported("codex", &mut fields)?;
    unsupported::command(&mut fields)?;
    let silences = [
        // Zero and negative values disable the timeout.
        fields.integer("stall_timeout_ms")?.filter(|ms| *ms > 0),
        fields.count("turn_timeout_ms", 1)?.map(i64::from),
    ];
    let silence = silences.into_iter().flatten().min();
    let codex = CodexOverrides {
        approvals: approvals(fields.take("approval_policy"))?,
        sandbox: sandbox(fields.take("thread_sandbox"))?,
        silence_ms: silence.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX)),
    };
    unknown.extend(fields.unknown());
    Ok(codex)
}

fn own(mut fields: Fields, unknown: &mut Vec<String>) -> Result<ProvostOverrides, Error> {
    let own = ProvostOverrides {
        agent: fields.text("agent")?,
        preset: fields.text("preset")?,
        retries: fields.count("max_retries", 0)?.unwrap_or(RETRIES),
        continuations: fields.count("max_continuations", 0)?.unwrap_or(0),
    };
    unknown.extend(fields.unknown());
    Ok(own)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::workflow;

    fn read(front: &str) -> Result<(WorkflowConfig, Vec<String>), Error> {
        let environment = [("HOME", "/h"), ("WHERE", "/w"), ("EMPTY", "")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = format!("---\n{front}\n---\nDo it.");
        workflow::read(&text, Path::new("/repo"), &environment.into())
            .map(|workflow| (workflow.config, workflow.warnings))
    }

    #[track_caller]
    fn refused(front: &str, expected: &str) {
        let error = read(front).unwrap_err();
        assert_eq!(error.class(), "invalid_workflow_config", "{front}");
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn defaults_are_those_of_the_format() {
        let (config, warnings) = read("tracker: {kind: file}").unwrap();
        assert_eq!(warnings, [] as [&str; 0]);
        assert_eq!((config.interval.as_millis(), config.agent.concurrent), (30_000, 10));
        assert_eq!((config.agent.backoff_ms, config.agent.turns), (300_000, None));
        assert!(config.agent.by_state.is_empty() && config.tracker.required_labels.is_empty());
        assert_eq!((config.provost.retries, config.provost.continuations), (5, 0));
        assert!(config.tracker.active.has(" TODO ") && config.tracker.terminal.has("Done"));
    }

    #[test]
    fn supported_keys_are_read() {
        let (config, warnings) = read(
            "tracker:\n  kind: file\n  required_labels: [' Agent', '']\n  active_states: [Ready]\n  terminal_states: [Shut]\npolling: {interval_ms: 5}\nhooks: {after_create: make}\nagent:\n  max_concurrent_agents: 3\n  max_turns: 7\n  max_retry_backoff_ms: 9\n  max_concurrent_agents_by_state: {' Ready ': 2, x: 0, y: many}\ncodex:\n  command: codex app-server\n  approval_policy: never\n  thread_sandbox: danger-full-access\n  stall_timeout_ms: 80\n  turn_timeout_ms: 70\nprovost: {agent: talker, preset: quick, max_retries: 1, max_continuations: 2}",
        )
        .unwrap();
        assert_eq!(warnings, [] as [&str; 0]);
        assert_eq!(config.tracker.required_labels, ["agent", ""]);
        assert!(config.tracker.active.has("ready") && !config.tracker.active.has("todo"));
        assert_eq!(config.agent.by_state, [("ready".to_owned(), 2)].into());
        assert_eq!((config.agent.concurrent, config.agent.turns), (3, Some(7)));
        assert_eq!(config.hooks.after_create.as_deref(), Some("make"));
        let codex = CodexOverrides {
            approvals: Some("never"),
            sandbox: Some("full-access"),
            silence_ms: Some(70),
        };
        assert_eq!(config.codex, codex);
        let (agent, preset) = (Some("talker".to_owned()), Some("quick".to_owned()));
        assert_eq!(
            config.provost,
            ProvostOverrides { agent, preset, retries: 1, continuations: 2 }
        );
    }

    #[test]
    fn disabled_stall_timeout_is_unlimited() {
        let (config, _) = read("tracker: {kind: file}\ncodex: {stall_timeout_ms: 0}").unwrap();
        assert_eq!(config.codex.silence_ms, None);
    }

    #[test]
    fn unsupported_keys_are_refused_with_hint() {
        let with = |more: &str| format!("tracker: {{kind: file}}\n{more}");
        refused(&with("workspace: {root: /x}"), "workspace.root cannot be set");
        refused(&with("hooks: {before_run: x}"), "hooks.after_create");
        refused(&with("hooks: {after_run: x}"), "hooks.run.succeeded");
        refused(&with("hooks: {before_remove: x}"), "hooks.before_remove cannot be set");
        refused(&with("hooks: {timeout_ms: 5}"), "verify.time_limit");
        refused(&with("codex: {command: 'codex --oss app-server'}"), "agents.codex.path");
        refused(&with("codex: {turn_sandbox_policy: {}}"), "codex.thread_sandbox");
        refused(&with("codex: {read_timeout_ms: 5}"), "codex.read_timeout_ms");
        refused(&with("codex: {approval_policy: {reject: {}}}"), "untrusted, on-request or never");
        refused(&with("codex: {thread_sandbox: none}"), "workspace-write");
    }

    #[test]
    fn wrong_value_types_are_reported() {
        let with = |more: &str| format!("tracker: {{kind: file}}\n{more}");
        refused(&with("polling: {interval_ms: soon}"), "polling.interval_ms is \"soon\"");
        refused(&with("polling: 5"), "polling is 5; expected keys with values");
        refused(&with("agent: {max_turns: 0}"), "agent.max_turns is 0");
        refused(&with("agent: {max_concurrent_agents: -1}"), "at least 1");
        refused("tracker: {kind: file, active_states: []}", "tracker.active_states is empty");
        refused("tracker: {kind: file, active_states: todo}", "expected a list of strings");
        refused("tracker: {kind: linear}", "tracker.kind is \"linear\"");
        refused("polling: {}", "tracker.kind");
    }

    #[test]
    fn unknown_keys_only_warn() {
        let (_, warnings) =
            read("tracker: {kind: file, provider: {x: 1}}\nserver: {port: 1}\nagent: {y: 2}")
                .unwrap();
        let keys: Vec<&str> =
            warnings.iter().map(|warning| warning.split(' ').nth(2).unwrap()).collect();
        assert_eq!(keys, ["agent.y", "server", "tracker.provider.x"]);
    }

    #[test]
    fn only_paths_are_resolved() {
        let path = |text: &str| {
            let read = read(&format!("tracker: {{kind: file, provider: {{path: '{text}'}}}}"));
            read.map(|(config, _)| match config.tracker.settings {
                TrackerSettings::File(settings) => settings.path,
                TrackerSettings::GitHub(_) => unreachable!("it is a file tracker"),
            })
        };
        assert_eq!(path("todo").unwrap(), PathBuf::from("/repo/todo"));
        assert_eq!(path("~/x").unwrap(), PathBuf::from("/h/x"));
        assert_eq!(path("$WHERE/x").unwrap(), PathBuf::from("/w/x"));
        assert_eq!(path("${WHERE}/x").unwrap(), PathBuf::from("/w/x"));
        assert!(path("$EMPTY").unwrap_err().to_string().contains("$EMPTY, which is not set"));
        let (config, _) = read("tracker: {kind: file}\nhooks: {after_create: $WHERE}").unwrap();
        assert_eq!(config.hooks.after_create.as_deref(), Some("$WHERE"));
    }
}
