//! The rules: the text that identifies each dialog, and the versions of Codex with that text.

use super::bottom::{Dialog, composer, dialog, turn};
use super::{
    Reading, Shown,
    painted::{Painted, text, written},
};

/// A rule for a dialog. All its conditions must hold.
#[derive(Debug)]
pub struct Rule {
    pub name: &'static str,
    pub shown: Shown,
    pub versions: Versions,
    /// The start of a line above the choices.
    title: Option<&'static str>,
    /// The starts of the first choices.
    choices: &'static [&'static str],
    /// A part of the hint, in lower case.
    hint: &'static str,
}

/// A version range: inclusive start, exclusive end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    pub from: (u64, u64),
    pub before: Option<(u64, u64)>,
}

const ALL: Versions = Versions { from: (0, 0), before: None };
/// With the layout observed in 0.166.
const NEW: Versions = Versions { from: (0, 108), before: None };
/// With the layout observed in 0.107.
const OLD: Versions = Versions { from: (0, 0), before: Some((0, 166)) };

/// The rules, in order of precedence.
pub const RULES: &[Rule] = &[
    Rule {
        name: "trust",
        shown: Shown::Trust,
        versions: NEW,
        title: Some("Trust this folder?"),
        choices: &["Trust and continue", "Quit"],
        hint: "enter continue",
    },
    Rule {
        name: "trust-0.107",
        shown: Shown::Trust,
        versions: OLD,
        title: Some("Do you trust the contents of this directory?"),
        choices: &["Yes, continue", "No, quit"],
        hint: "press enter to continue",
    },
    Rule {
        name: "hook-trust",
        shown: Shown::HookTrust,
        versions: NEW,
        title: Some("Hooks need review"),
        choices: &["Review hooks", "Trust all"],
        hint: "enter confirm",
    },
    Rule {
        name: "login",
        shown: Shown::Login,
        versions: ALL,
        title: None,
        choices: &["Sign in with ChatGPT"],
        hint: "press enter to continue",
    },
    Rule {
        name: "update",
        shown: Shown::Update,
        versions: ALL,
        title: None,
        choices: &["Update now", "Skip"],
        hint: "enter",
    },
    Rule {
        name: "model-migration",
        shown: Shown::ModelMigration,
        versions: ALL,
        title: None,
        choices: &["Try new model", "Use existing model"],
        hint: "confirm",
    },
    Rule {
        name: "approval",
        shown: Shown::Approval,
        versions: ALL,
        title: None,
        choices: &["Yes"],
        hint: "press enter to confirm or esc to cancel",
    },
    Rule {
        name: "question",
        shown: Shown::Question,
        versions: ALL,
        title: Some("Question "),
        choices: &[],
        hint: "to submit answer",
    },
    Rule {
        name: "question-one-of-several",
        shown: Shown::Question,
        versions: ALL,
        title: Some("Question "),
        choices: &[],
        hint: "esc to interrupt",
    },
    Rule {
        name: "plan",
        shown: Shown::Plan,
        versions: ALL,
        title: Some("Implement this plan?"),
        choices: &["Yes, implement this plan"],
        hint: "esc",
    },
];

/// Classifies a screen of a Codex version, given as its first two numbers; without a version, all
/// rules apply.
pub fn read(screen: &[String], version: Option<(u64, u64)>) -> Reading {
    if let Some(found) = dialog(screen) {
        let shown = known(&found, version).unwrap_or(Shown::UnknownDialog);
        return Reading { shown, lines: found.lines.to_vec() };
    }
    let shown = match composer(screen).map(|row| turn(screen, row)) {
        Some(Some(words)) if words.starts_with("Reconnecting") => Shown::Retrying,
        Some(Some(_)) => Shown::Working,
        Some(None) => Shown::Composer,
        None => Shown::Nothing,
    };
    Reading { shown, lines: Vec::new() }
}

/// Classifies a screen with character attributes, which also show the unsent text at the prompt.
pub fn read_painted(screen: &[Painted], version: Option<(u64, u64)>) -> Reading {
    let plain: Vec<String> = screen.iter().map(text).collect();
    let reading = read(&plain, version);
    let prompts = matches!(reading.shown, Shown::Composer | Shown::Nothing);
    let drafted = || written(screen).is_some_and(|written| !written.is_empty());
    if prompts && drafted() { Reading { shown: Shown::Draft, lines: Vec::new() } } else { reading }
}

fn known(dialog: &Dialog<'_>, version: Option<(u64, u64)>) -> Option<Shown> {
    let fits = |rule: &&Rule| {
        version.is_none_or(|version| rule.versions.hold(version)) && rule.fits(dialog)
    };
    RULES.iter().find(fits).map(|rule| rule.shown)
}

impl Versions {
    fn hold(self, version: (u64, u64)) -> bool {
        version >= self.from && self.before.is_none_or(|before| version < before)
    }
}

impl Rule {
    fn fits(&self, dialog: &Dialog<'_>) -> bool {
        let has_title = |title: &str| dialog.above.iter().any(|line| line.starts_with(title));
        let mut pairs = self.choices.iter().zip(&dialog.choices);
        self.title.is_none_or(has_title)
            && dialog.choices.len() >= self.choices.len()
            && pairs.all(|(wanted, choice)| choice.starts_with(wanted))
            && dialog.hint.to_lowercase().contains(self.hint)
    }
}
