//! Recipes for managers: configurations that are ready to use, and the summary that a person confirms.

use super::manager::{Action, Config, Epilogue, Mode};
use crate::text::visible;

/// The recipes, from the least that a manager is held to, to the most.
pub const RECIPES: [&str; 3] = ["light", "guided", "strict"];

/// Gives the configuration of a recipe.
pub fn recipe(name: &str) -> Option<Config> {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Some(match name {
        "light" => Config { mode: Mode::Light, ..Config::default() },
        "guided" => Config {
            mode: Mode::Guided,
            guidelines: texts(&[
                "Verify a claim before it is recorded.",
                "Give each worker exactly one next task.",
            ]),
            epilogue: [Epilogue::Checks, Epilogue::Handover].into(),
            ..Config::default()
        },
        "strict" => Config {
            mode: Mode::Strict,
            guidelines: texts(&[
                "Verify a claim before it is recorded.",
                "Give each worker exactly one next task.",
                "Ask the user before anything that cannot be taken back.",
            ]),
            // What was sent to others, and what they are at, is not its to put aside.
            denied: [Action::Sort, Action::Interrupt].into(),
            epilogue: [Epilogue::Checks, Epilogue::SeparateReview, Epilogue::Handover].into(),
            adversarial: true,
            questions: [
                ("done".to_owned(), "What has to be true for you to call this done?".to_owned()),
                ("limits".to_owned(), "What must not be touched?".to_owned()),
            ]
            .into(),
            ..Config::default()
        },
        _ => return None,
    })
}

/// Says in lines what a configuration holds a manager to. Made of the configuration itself, so that what a person
/// confirms is what holds, and all of it.
pub fn summary(config: &Config) -> Vec<String> {
    let mut lines = vec![match config.mode {
        Mode::Light => "mode light: it acts as it sees fit, within its role".to_owned(),
        Mode::Guided => "mode guided: it acknowledges this configuration before it acts".to_owned(),
        Mode::Strict => "mode strict: it acknowledges this configuration, and records a move that matches before each thing that it does".to_owned(),
    }];
    let said = |name: &str, text: &str| format!("{name}: {}", visible(text));
    if !config.objective.is_empty() {
        lines.push(said("objective", &config.objective));
    }
    lines.extend(config.guidelines.iter().map(|text| said("guideline", text)));
    lines.extend(config.references.iter().map(|text| said("reference", text)));
    lines.extend(config.tools.iter().map(|text| said("needs the tool", text)));
    lines.extend(config.questions.iter().map(|(id, text)| said(&format!("asks you ({id})"), text)));
    lines.extend(config.denied.iter().map(|action| format!("may not: {}", action.word())));
    lines.extend(config.epilogue.iter().map(|step| format!("before the finish: {}", step.word())));
    if config.adversarial {
        lines.push("before the finish: an attempt to disprove the whole".to_owned());
    }
    lines.extend(config.on_completion.iter().map(|text| said("when it is done", text)));
    lines
}
