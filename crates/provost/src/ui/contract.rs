//! Shows a manager's contract.

use provost_api::TeamRow;
use provost_core::team::{MANAGER_RULES, ManagerConfig, ManagerMode};

use super::{Paint, Screen, Tone, detail_view::DetailView, text::escape_line};

/// Shows a manager's contract: the rules that the manager accepts, the configuration, and which managers have accepted
/// the contract.
pub(crate) fn contract_detail(
    paint: Paint,
    screen: Screen,
    row: &TeamRow,
    config: &ManagerConfig,
) -> Vec<String> {
    let mut detail = DetailView::new(paint, screen, 0);
    let name = paint.paint(Tone::Bold, &escape_line(&row.name));
    detail.line(&format!("{name} · revision {}, mode {}", config.revision, config.mode.as_str()));
    MANAGER_RULES.iter().for_each(|rule| detail.text("rule", rule));
    if let Some(rule) = mode_rule(config.mode) {
        detail.text("rule", rule);
    }
    if !config.objective.is_empty() {
        detail.text("objective", &config.objective);
    }
    config.guidelines.iter().for_each(|one| detail.text("guideline", one));
    config.references.iter().for_each(|one| detail.text("reference", one));
    config.denied.iter().for_each(|action| detail.label("denied", action.describe()));
    config.tools.iter().for_each(|tool| detail.text("tool", tool));
    let steps: Vec<String> =
        config.epilogue.iter().map(|step| step.as_str().replace('_', " ")).collect();
    if !steps.is_empty() {
        detail.label("epilogue", &steps.join(", "));
    }
    if config.adversarial {
        detail.label("finish", "needs an attempt to disprove the work");
    }
    for (id, question) in &config.questions {
        detail.text("ask", &format!("{id}: {question}"));
    }
    if let Some(then) = &config.on_completion {
        detail.text("then", then);
    }
    for member in row.members.iter().filter(|one| one.role == "manager" && !one.left) {
        let read = match member.acknowledged_revision {
            Some(revision) if revision == row.revision => "has accepted it".to_owned(),
            Some(revision) => format!("has accepted revision {revision}"),
            None => "has not accepted it".to_owned(),
        };
        detail.label("manager", &format!("{} {read}", escape_line(&member.name)));
    }
    if let Some(policy) = &row.policy {
        detail.label("manager", &format!("policy {}", escape_line(policy)));
    }
    detail.into_lines()
}

/// Describes what the mode requires of a manager before it acts.
fn mode_rule(mode: ManagerMode) -> Option<&'static str> {
    match mode {
        ManagerMode::Light => None,
        ManagerMode::Guided => Some("Accept this contract before you act."),
        ManagerMode::Strict => Some(
            "Accept this contract before you act, and record a matching move before each action.",
        ),
    }
}
