//! The project's approval rules, as a session stores them.

use std::path::{Path, PathBuf};

use provost_api::ApiError;
use provost_config::{ApprovalRule, FilePath, Resolved};
use provost_core::{
    policy::{Matcher, Policy, PolicyRule, RuleDecision},
    session::WorkLocation,
};

use super::worktree::{self, SessionWorktree};
use crate::context::Context;

/// Returns the directory against which relative paths in rules are resolved: the top of the
/// worktree.
pub(super) fn base<'a>(placed: &'a SessionWorktree, cwd: &'a Path) -> &'a Path {
    match &placed.work {
        WorkLocation::Plain => placed.project.as_deref().map_or(cwd, Path::new),
        WorkLocation::InPlace { top } => Path::new(top),
        WorkLocation::Worktree { path, .. } | WorkLocation::Detached { path, .. } => {
            Path::new(path)
        }
    }
}

/// Builds the rules. Their paths are made absolute, because agents refer to files by absolute paths.
pub(crate) fn build(context: &Context, config: &Resolved, base: &Path) -> Result<Policy, ApiError> {
    let home = context.environment.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
    let approvals = &config.approvals;
    let lists = [
        (RuleDecision::Allow, &approvals.allow),
        (RuleDecision::Ask, &approvals.ask),
        (RuleDecision::Deny, &approvals.deny),
    ];
    let rules = lists
        .into_iter()
        .flat_map(|(decision, rules)| rules.iter().map(move |rule| (decision, rule)));
    let rules = rules.map(|(decision, rule)| {
        let matches = matcher(rule, base, &home)?;
        Ok(PolicyRule { decision, matches })
    });
    Ok(Policy { version: approvals.version.get(), rules: rules.collect::<Result<_, ApiError>>()? })
}

fn matcher(rule: &ApprovalRule, base: &Path, home: &Path) -> Result<Matcher, ApiError> {
    Ok(match rule {
        ApprovalRule::Command(words) => Matcher::Command(words.clone()),
        ApprovalRule::Network(host) => Matcher::Network(host.clone()),
        ApprovalRule::Path(path) => {
            Matcher::Path(worktree::path_text(&absolute(path, base, home))?)
        }
    })
}

/// Returns the absolute, normalized form of a path.
fn absolute(path: &FilePath, base: &Path, home: &Path) -> PathBuf {
    path.resolve(base, home).components().collect()
}

#[cfg(test)]
mod tests {
    use provost_config::{ConfigFile, Inputs, resolve};

    use super::*;
    use crate::{
        environment::Environment,
        ui::{Paint, Ui},
    };

    #[test]
    fn rules_are_resolved_against_worktree() {
        let text = "[approvals]\nallow = [\"command: cargo test\", \"path: docs/\", \"path: .\"]\nask = [\"path: ~/x\"]\ndeny = [\"network: .example.org\", \"path: /etc\"]\n";
        let file = ConfigFile { name: "/repo/provost.toml".into(), text: text.into() };
        let config =
            resolve(&Inputs { project: Some(file), project_is_trusted: true, ..Inputs::default() })
                .unwrap();
        let environment = Environment::from_pairs(&[("HOME", "/home/u")]);
        let ui = Ui { json: true, hints: true, paint: Paint::OFF, notice_paint: Paint::OFF };
        let work = WorkLocation::Worktree {
            top: "/repo".into(),
            path: "/trees/one".into(),
            branch: "b".into(),
            copy: Vec::new(),
            base: None,
        };
        let placed = SessionWorktree { project: Some("/repo".into()), work, warnings: Vec::new() };
        let base = base(&placed, Path::new("/repo/below"));
        let policy = build(&Context::with(environment, ui), &config, base).unwrap();
        let rules: Vec<String> = policy
            .rules
            .iter()
            .map(|rule| format!("{:?} {}", rule.decision, rule.matches))
            .collect();
        assert_eq!(
            rules,
            [
                "Allow command cargo test",
                "Allow path /trees/one/docs",
                "Allow path /trees/one",
                "Ask path /home/u/x",
                "Deny network .example.org",
                "Deny path /etc",
            ]
        );
        assert_eq!(policy.version, 1);
    }
}
