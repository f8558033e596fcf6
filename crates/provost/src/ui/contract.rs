//! The view of a manager's contract.

use provost_api::StandingTaskRow;
use provost_core::task::Config;

use super::{Paint, Screen, Tone, card::Card, text::clean};

/// Shows a manager's configuration, and who has acknowledged it.
pub(crate) fn contract_card(
    paint: Paint,
    screen: Screen,
    row: &StandingTaskRow,
    config: &Config,
) -> Vec<String> {
    let mut card = Card::new(paint, screen, 0);
    let name = paint.paint(Tone::Bold, &clean(&row.name));
    card.line(&format!("{name} · revision {}, mode {}", config.revision, config.mode.word()));
    if !config.objective.is_empty() {
        card.text("objective", &config.objective);
    }
    config.guidelines.iter().for_each(|one| card.text("guideline", one));
    config.references.iter().for_each(|one| card.text("reference", one));
    config.denied.iter().for_each(|action| card.label("may not", action.words()));
    config.tools.iter().for_each(|tool| card.text("tool", tool));
    let steps: Vec<String> =
        config.epilogue.iter().map(|step| step.word().replace('_', " ")).collect();
    if !steps.is_empty() {
        card.label("epilogue", &steps.join(", "));
    }
    if config.adversarial {
        card.label("finish", "needs an attempt to disprove the work");
    }
    for (id, question) in &config.questions {
        card.text("ask", &format!("{id}: {question}"));
    }
    if let Some(then) = &config.on_completion {
        card.text("then", then);
    }
    for member in row.members.iter().filter(|one| one.role == "manager" && !one.left) {
        let read = match member.acknowledged_revision {
            Some(revision) if revision == row.revision => "has acknowledged it".to_owned(),
            Some(revision) => format!("has acknowledged revision {revision}"),
            None => "has not acknowledged it".to_owned(),
        };
        card.label("manager", &format!("{} {read}", clean(&member.name)));
    }
    if let Some(policy) = &row.policy {
        card.label("manager", &format!("policy {}", clean(policy)));
    }
    card.into_lines()
}
