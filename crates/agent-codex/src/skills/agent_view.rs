//! Codex's own view of the skills, as returned by `skills/list`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{SKILL_FILE, Skill, SkillStatus, SkipReason};
use crate::text::displayable;

/// The skills that Codex lists, and those that it rejects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentView {
    /// The files of the skills, and whether each skill is enabled.
    listed: BTreeMap<PathBuf, bool>,
    /// The files that Codex could not use, each with the reason.
    refused: BTreeMap<PathBuf, String>,
}

impl AgentView {
    /// Parses the result of `skills/list`. Unknown content is skipped.
    pub fn from_result(result: &Value) -> Self {
        let mut view = Self::default();
        for group in rows(result, "data") {
            for skill in rows(group, "skills") {
                let Some(path) = path_of(skill) else { continue };
                let is_enabled = skill.get("enabled").and_then(Value::as_bool).unwrap_or(true);
                view.listed.insert(path, is_enabled);
            }
            for error in rows(group, "errors") {
                let Some(path) = path_of(error) else { continue };
                let why = error.get("message").and_then(Value::as_str).unwrap_or_default();
                view.refused.insert(path, displayable(why.as_bytes()));
            }
        }
        view
    }

    fn objection(&self, directory: &Path) -> Option<SkipReason> {
        let file = directory.join(SKILL_FILE);
        match (self.refused.get(&file), self.listed.get(&file)) {
            (Some(why), _) => Some(SkipReason::RefusedByAgent { why: why.clone() }),
            (None, Some(true)) => None,
            (None, Some(false)) => Some(SkipReason::DisabledInConfig),
            (None, None) => Some(SkipReason::NotSeenByAgent),
        }
    }
}

/// Corrects a listing according to Codex's own view. A skill that Codex does not use is marked as
/// skipped.
pub fn confirm(skills: &mut [Skill], view: &AgentView) {
    for skill in skills.iter_mut().filter(|skill| skill.is_used()) {
        if let Some(reason) = view.objection(&skill.path) {
            skill.status = SkillStatus::Skipped(reason);
        }
    }
}

fn rows<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn path_of(value: &Value) -> Option<PathBuf> {
    value.get("path").and_then(Value::as_str).map(PathBuf::from)
}
