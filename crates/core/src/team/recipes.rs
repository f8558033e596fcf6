//! Recipes for managers: predefined configurations, and the summary that the user confirms.

use super::manager::{EpilogueStep, ManagerConfig, ManagerMode, TeamAction};
use crate::text::visible;

/// The recipes, in order of increasing strictness.
pub const RECIPES: [&str; 3] = ["light", "guided", "strict"];

/// Returns the configuration for a recipe.
pub fn recipe(name: &str) -> Option<ManagerConfig> {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Some(match name {
        "light" => ManagerConfig { mode: ManagerMode::Light, ..ManagerConfig::default() },
        "guided" => ManagerConfig {
            mode: ManagerMode::Guided,
            guidelines: texts(&[
                "Verify a claim before it is recorded.",
                "Give each worker exactly one next task.",
            ]),
            epilogue: [EpilogueStep::Checks, EpilogueStep::Handover].into(),
            ..ManagerConfig::default()
        },
        "strict" => ManagerConfig {
            mode: ManagerMode::Strict,
            guidelines: texts(&[
                "Verify a claim before it is recorded.",
                "Give each worker exactly one next task.",
                "Ask the user before anything that cannot be taken back.",
            ]),
            // The manager must not discard other members' messages or interrupt their work.
            denied: [TeamAction::ManageMessages, TeamAction::Interrupt].into(),
            epilogue: [EpilogueStep::Checks, EpilogueStep::SeparateReview, EpilogueStep::Handover]
                .into(),
            adversarial: true,
            questions: [
                ("done".to_owned(), "What has to be true for you to call this done?".to_owned()),
                ("limits".to_owned(), "What must not be touched?".to_owned()),
            ]
            .into(),
            ..ManagerConfig::default()
        },
        _ => return None,
    })
}

/// Lists what a configuration requires of a manager. The list is derived from the configuration
/// itself, so the user confirms exactly the rules that apply.
pub fn summary(config: &ManagerConfig) -> Vec<String> {
    let mut lines = vec![match config.mode {
        ManagerMode::Light => "mode light: it acts as it sees fit, within its role".to_owned(),
        ManagerMode::Guided => "mode guided: it acknowledges this configuration before it acts".to_owned(),
        ManagerMode::Strict => "mode strict: it acknowledges this configuration, and records a matching move before each action".to_owned(),
    }];
    let labelled = |name: &str, text: &str| format!("{name}: {}", visible(text));
    if !config.objective.is_empty() {
        lines.push(labelled("objective", &config.objective));
    }
    lines.extend(config.guidelines.iter().map(|text| labelled("guideline", text)));
    lines.extend(config.references.iter().map(|text| labelled("reference", text)));
    lines.extend(config.tools.iter().map(|text| labelled("needs the tool", text)));
    lines.extend(
        config.questions.iter().map(|(id, text)| labelled(&format!("asks you ({id})"), text)),
    );
    lines.extend(config.denied.iter().map(|action| format!("not permitted: {}", action.as_str())));
    lines
        .extend(config.epilogue.iter().map(|step| format!("before the finish: {}", step.as_str())));
    if config.adversarial {
        lines.push("before the finish: a challenge of the work as a whole".to_owned());
    }
    lines.extend(config.on_completion.iter().map(|text| labelled("when it is done", text)));
    lines
}
