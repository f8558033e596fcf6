//! Converts Codex's screens to the signals and kinds that the engine knows.

use provost_agent::screen::{ScreenKind, ScreenReader, ScreenReading, inferred_request};
use provost_core::{
    request::{AgentRequest, ApprovalSubject, RequestKind},
    session::ScreenHint,
};
use provost_terminal::StyledLine;

use super::{CodexReading, CodexScreenKind, classify, draft_text, is_draft_of, styled::text};
use crate::protocol::CodexVersion;

/// The screen of Codex's TUI.
pub struct CodexScreen;

impl ScreenReader for CodexScreen {
    fn read(&self, screen: &[StyledLine], version: Option<&str>) -> ScreenReading {
        let plain: Vec<String> = screen.iter().map(text).collect();
        let version = version.and_then(CodexVersion::parse);
        let version =
            version.map(|CodexVersion(major, minor, _)| (u64::from(major), u64::from(minor)));
        ScreenReading::from(&classify(&plain, version))
    }

    fn draft(&self, screen: &[StyledLine]) -> Option<String> {
        draft_text(screen)
    }

    fn is_draft_of(&self, draft: &str, text: &str) -> bool {
        is_draft_of(draft, text)
    }
}

impl From<&CodexReading> for ScreenReading {
    fn from(reading: &CodexReading) -> ScreenReading {
        let kind = match reading.kind {
            CodexScreenKind::Trust
            | CodexScreenKind::HookTrust
            | CodexScreenKind::Login
            | CodexScreenKind::Update
            | CodexScreenKind::ModelMigration
            | CodexScreenKind::Question
            | CodexScreenKind::Plan
            | CodexScreenKind::UnknownDialog => ScreenKind::Dialog,
            CodexScreenKind::Approval => ScreenKind::Approval,
            CodexScreenKind::Retrying => ScreenKind::Retrying,
            CodexScreenKind::Working => ScreenKind::Working,
            CodexScreenKind::Composer => ScreenKind::Prompt,
            CodexScreenKind::Nothing => ScreenKind::Unknown,
        };
        // A different approval is a different screen, even if it is in the same position.
        let subject = format!("{:?} {:?}", reading.kind, reading.approval());
        ScreenReading { kind, hint: hint(reading), subject }
    }
}

/// Returns the signal of a stable screen. A screen that no rule recognizes has none.
fn hint(reading: &CodexReading) -> Option<ScreenHint> {
    let lines: Vec<&str> = reading.lines.iter().map(|line| line.trim()).collect();
    let first = lines.iter().find(|line| !line.is_empty()).copied().unwrap_or_default();
    let dialog = |what: &str| {
        ScreenHint::ShowsRequest(inferred_request(RequestKind::Dialog, &format!("{what}: {first}")))
    };
    Some(match reading.kind {
        CodexScreenKind::Trust => dialog("asks whether to trust the directory"),
        CodexScreenKind::HookTrust => dialog("asks whether to trust hooks"),
        CodexScreenKind::Login => dialog("asks for a login"),
        CodexScreenKind::Update => dialog("offers an update"),
        CodexScreenKind::ModelMigration => dialog("offers another model"),
        CodexScreenKind::UnknownDialog => dialog("waits for a choice"),
        CodexScreenKind::Approval => ScreenHint::ShowsRequest(approval(reading)),
        CodexScreenKind::Question | CodexScreenKind::Plan => {
            ScreenHint::ShowsRequest(inferred_request(RequestKind::Question, first))
        }
        CodexScreenKind::Retrying => {
            ScreenHint::Retrying { detail: "its screen shows that it is reconnecting".to_owned() }
        }
        CodexScreenKind::Working => ScreenHint::Working,
        CodexScreenKind::Composer => ScreenHint::AtPrompt,
        CodexScreenKind::Nothing => return None,
    })
}

/// Returns the approval request that a screen shows, with the text of its subject.
fn approval(reading: &CodexReading) -> AgentRequest {
    let Some(shown) = reading.approval() else {
        return inferred_request(RequestKind::Approval, "its screen asks for an approval");
    };
    let (command, reason) = (shown.command, shown.reason);
    let title = [Some(shown.asks), command.clone()].into_iter().flatten().collect::<Vec<_>>();
    let subject = command.is_some().then(|| ApprovalSubject {
        command,
        reason,
        ..ApprovalSubject::default()
    });
    AgentRequest {
        subject: subject.map(Box::new),
        ..inferred_request(RequestKind::Approval, &title.join(" "))
    }
}
