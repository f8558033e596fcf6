//! The rules for recognizing dialogs: the text that identifies each one, and the versions of Codex
//! in which it appears.

use super::layout::{Dialog, composer, dialog, turn};
use super::{CodexReading, CodexScreenKind};

/// A rule for a dialog. All of its conditions must be met.
#[derive(Debug)]
pub struct ScreenRule {
    pub name: &'static str,
    pub kind: CodexScreenKind,
    pub versions: VersionRange,
    /// The first words of a line above the choices.
    title: Option<&'static str>,
    /// The first words of each of the first choices.
    choices: &'static [&'static str],
    /// A text that the key hint contains, in lower case.
    hint: &'static str,
}

/// A range of versions, from an inclusive start to an exclusive end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    pub from: (u64, u64),
    pub before: Option<(u64, u64)>,
}

const ALL: VersionRange = VersionRange { from: (0, 0), before: None };
/// The versions whose layout is like that of 0.166.
const NEW: VersionRange = VersionRange { from: (0, 108), before: None };
/// The versions whose layout is like that of 0.107.
const OLD: VersionRange = VersionRange { from: (0, 0), before: Some((0, 166)) };

/// The rules, in order of precedence.
pub const RULES: &[ScreenRule] = &[
    ScreenRule {
        name: "trust",
        kind: CodexScreenKind::Trust,
        versions: NEW,
        title: Some("Trust this folder?"),
        choices: &["Trust and continue", "Quit"],
        hint: "enter continue",
    },
    ScreenRule {
        name: "trust-0.107",
        kind: CodexScreenKind::Trust,
        versions: OLD,
        title: Some("Do you trust the contents of this directory?"),
        choices: &["Yes, continue", "No, quit"],
        hint: "press enter to continue",
    },
    ScreenRule {
        name: "hook-trust",
        kind: CodexScreenKind::HookTrust,
        versions: NEW,
        title: Some("Hooks need review"),
        choices: &["Review hooks", "Trust all"],
        hint: "enter confirm",
    },
    ScreenRule {
        name: "login",
        kind: CodexScreenKind::Login,
        versions: ALL,
        title: None,
        choices: &["Sign in with ChatGPT"],
        hint: "press enter to continue",
    },
    ScreenRule {
        name: "update",
        kind: CodexScreenKind::Update,
        versions: ALL,
        title: None,
        choices: &["Update now", "Skip"],
        hint: "enter",
    },
    ScreenRule {
        name: "model-migration",
        kind: CodexScreenKind::ModelMigration,
        versions: ALL,
        title: None,
        choices: &["Try new model", "Use existing model"],
        hint: "confirm",
    },
    ScreenRule {
        name: "approval",
        kind: CodexScreenKind::Approval,
        versions: ALL,
        title: None,
        choices: &["Yes"],
        hint: "press enter to confirm or esc to cancel",
    },
    ScreenRule {
        name: "question",
        kind: CodexScreenKind::Question,
        versions: ALL,
        title: Some("Question "),
        choices: &[],
        hint: "to submit answer",
    },
    ScreenRule {
        name: "question-one-of-several",
        kind: CodexScreenKind::Question,
        versions: ALL,
        title: Some("Question "),
        choices: &[],
        hint: "esc to interrupt",
    },
    ScreenRule {
        name: "plan",
        kind: CodexScreenKind::Plan,
        versions: ALL,
        title: Some("Implement this plan?"),
        choices: &["Yes, implement this plan"],
        hint: "esc",
    },
];

/// Classifies a screen, given the first two numbers of the Codex version. If the version is
/// unknown, all rules apply.
pub fn classify(screen: &[String], version: Option<(u64, u64)>) -> CodexReading {
    if let Some(found) = dialog(screen) {
        let shown = match_rule(&found, version).unwrap_or(CodexScreenKind::UnknownDialog);
        return CodexReading { kind: shown, lines: found.lines.to_vec() };
    }
    let shown = match composer(screen).map(|row| turn(screen, row)) {
        Some(Some(words)) if words.starts_with("Reconnecting") => CodexScreenKind::Retrying,
        Some(Some(_)) => CodexScreenKind::Working,
        Some(None) => CodexScreenKind::Composer,
        None => CodexScreenKind::Nothing,
    };
    CodexReading { kind: shown, lines: Vec::new() }
}

fn match_rule(dialog: &Dialog<'_>, version: Option<(u64, u64)>) -> Option<CodexScreenKind> {
    let fits = |rule: &&ScreenRule| {
        version.is_none_or(|version| rule.versions.contains(version)) && rule.fits(dialog)
    };
    RULES.iter().find(fits).map(|rule| rule.kind)
}

impl VersionRange {
    fn contains(self, version: (u64, u64)) -> bool {
        version >= self.from && self.before.is_none_or(|before| version < before)
    }
}

impl ScreenRule {
    fn fits(&self, dialog: &Dialog<'_>) -> bool {
        let has_title = |title: &str| dialog.above.iter().any(|line| line.starts_with(title));
        let mut pairs = self.choices.iter().zip(&dialog.choices);
        self.title.is_none_or(has_title)
            && dialog.choices.len() >= self.choices.len()
            && pairs.all(|(wanted, choice)| choice.starts_with(wanted))
            && dialog.hint.to_lowercase().contains(self.hint)
    }
}
