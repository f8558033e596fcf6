//! Checks suggested commands with the parser of this program.

use clap::{Parser as _, error::ErrorKind};

use super::{Cli, is_help_request};

/// Whether a command that is shown as a hint can be parsed. Words in capitals are placeholders for
/// values. Commands of other programs are always accepted.
pub(crate) fn is_valid_hint(hint: &str) -> bool {
    let words: Vec<String> = shell_words(hint)
        .into_iter()
        .skip_while(|word| word.contains('=') && !word.starts_with('-'))
        .take_while(|word| !matches!(word.as_str(), "<" | ">" | "|" | "…"))
        .collect();
    if words.first().map(String::as_str) != Some("provost") {
        return true;
    }
    let stand_ins = [ErrorKind::ValueValidation, ErrorKind::InvalidValue];
    let allowed =
        [ErrorKind::MissingRequiredArgument, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    Cli::try_parse_from(&words).err().is_none_or(|error| {
        is_help_request(&error)
            || stand_ins.contains(&error.kind())
            || (hint.ends_with('…') && allowed.contains(&error.kind()))
    })
}

/// Splits a command into words as a shell does, as far as needed for the quoting of
/// [`provost_core::text::shell_quote`].
fn shell_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if !quoted => word.get_or_insert_default().extend(letters.next()),
            letter if letter.is_whitespace() && !quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use provost_api::{AnswerForm, Hint, RequestRef, TeamAction, TeamHint};

    use super::*;

    #[test]
    fn hint_validation_accepts_only_commands() {
        for good in [
            "provost ls --all",
            "provost ledger archive --older-than DURATION --apply",
            "PROVOST_HOME=EMPTY_DIRECTORY provost ledger import FILE",
            "provost spawn --agent codex - < FILE",
            "provost spawn --no-worktree --no-check …",
            "provost help",
            "provost team contract accept --revision 0 --as 'a b'\\''s'",
            "git commit --allow-empty -m first",
        ] {
            assert!(is_valid_hint(good), "{good}");
        }
        for bad in [
            "provost ledger import FILE  (487 records)",
            "provost ledger archive",
            "provost lst",
            "provost ls --everything",
        ] {
            assert!(!is_valid_hint(bad), "{bad}");
        }
    }

    /// Returns an example of the next kind of hint, so that a new kind cannot be forgotten here.
    fn next_example(after: &Hint) -> Option<Hint> {
        let id = || "deadbeef".to_owned();
        let request = || RequestRef { session: id(), no: "q1".to_owned(), revision: 2 };
        let team =
            |action| Hint::Team(TeamHint { team: id(), by: Some("-a b".to_owned()), action });
        Some(match after {
            Hint::Command(_) => Hint::Status("a b".to_owned()),
            Hint::Status(_) => Hint::StatusOfAll,
            Hint::StatusOfAll => Hint::StatusWhy(id()),
            Hint::StatusWhy(_) => Hint::StatusAt { id: id(), seq: 7 },
            Hint::StatusAt { .. } => Hint::List,
            Hint::List => Hint::ListAll,
            Hint::ListAll => Hint::ListTeams,
            Hint::ListTeams => Hint::Events(id()),
            Hint::Events(_) => Hint::AllEvents,
            Hint::AllEvents => Hint::Logs(id()),
            Hint::Logs(_) => Hint::Attach(id()),
            Hint::Attach(_) => Hint::Send(id()),
            Hint::Send(_) => Hint::Resume(id()),
            Hint::Resume(_) => Hint::ResumeWithText(id()),
            Hint::ResumeWithText(_) => Hint::TakeOver(id()),
            Hint::TakeOver(_) => Hint::AcceptWork(id()),
            Hint::AcceptWork(_) => Hint::RaiseLimit { id: id(), tokens: true, turns: true },
            Hint::RaiseLimit { .. } => Hint::ApproveCommands(id()),
            Hint::ApproveCommands(_) => Hint::Approve(request()),
            Hint::Approve(_) => Hint::Deny(request()),
            Hint::Deny(_) => Hint::Answer { request: request(), form: AnswerForm::Text },
            Hint::Answer { form, .. } => match form {
                AnswerForm::Text => Hint::Answer { request: request(), form: AnswerForm::Secret },
                AnswerForm::Secret => Hint::Answer { request: request(), form: AnswerForm::File },
                AnswerForm::File => Hint::Discover,
            },
            Hint::Discover => Hint::SpawnAgent("codex".to_owned()),
            Hint::SpawnAgent(_) => Hint::SpawnCommand,
            Hint::SpawnCommand => {
                Hint::SwitchBranch { branch: "a b".to_owned(), then: Box::new(Hint::SpawnCommand) }
            }
            Hint::SwitchBranch { .. } => Hint::Search,
            Hint::Search => Hint::Replay(id()),
            Hint::Replay(_) => Hint::ReplayTimeline(id()),
            Hint::ReplayTimeline(_) => Hint::Audit(id()),
            Hint::Audit(_) => Hint::ReportCompleted,
            Hint::ReportCompleted => Hint::ReportCompletedWithText,
            Hint::ReportCompletedWithText => Hint::ReportCompletedFor,
            Hint::ReportCompletedFor => Hint::Doctor,
            Hint::Doctor => Hint::DaemonStatus,
            Hint::DaemonStatus => Hint::StopDaemon,
            Hint::StopDaemon => Hint::VerifyLedger,
            Hint::VerifyLedger => Hint::ExportLedger,
            Hint::ExportLedger => Hint::RecoverLedger,
            Hint::RecoverLedger => Hint::StopUnknown,
            Hint::StopUnknown => Hint::ShowOwnTeam,
            Hint::ShowOwnTeam => Hint::NewTeamHelp,
            Hint::NewTeamHelp => Hint::StartTeamHelp,
            Hint::StartTeamHelp => Hint::AddCriterionHelp,
            Hint::AddCriterionHelp => team(TeamAction::Show),
            Hint::Team(hint) => team(match &hint.action {
                TeamAction::Show => TeamAction::Finish,
                TeamAction::Finish => TeamAction::FinishUnchanged,
                TeamAction::FinishUnchanged => TeamAction::Resume,
                TeamAction::Resume => TeamAction::BindWorker,
                TeamAction::BindWorker => TeamAction::Send { to: "-a b".to_owned() },
                TeamAction::Send { to } if to.starts_with('-') => {
                    TeamAction::Send { to: "operator".to_owned() }
                }
                TeamAction::Send { .. } => TeamAction::NextMessage,
                TeamAction::NextMessage => TeamAction::AllMessages,
                TeamAction::AllMessages => TeamAction::MessagesTo("-a b".to_owned()),
                TeamAction::MessagesTo(_) => TeamAction::AcceptMessage { no: 1, lease: 2 },
                TeamAction::AcceptMessage { .. } => TeamAction::Criteria,
                TeamAction::Criteria => TeamAction::AddCriterion,
                TeamAction::AddCriterion => TeamAction::AcceptCriterion(1),
                TeamAction::AcceptCriterion(_) => TeamAction::ProveCriterion(1),
                TeamAction::ProveCriterion(_) => TeamAction::SatisfyCriterion(1),
                TeamAction::SatisfyCriterion(_) => TeamAction::ReopenCriterion(1),
                TeamAction::ReopenCriterion(_) => TeamAction::ShowContract,
                TeamAction::ShowContract => TeamAction::AcceptContract(1),
                TeamAction::AcceptContract(_) => TeamAction::RecordMove(None),
                TeamAction::RecordMove(None) => TeamAction::RecordMove(Some("nudge".to_owned())),
                TeamAction::RecordMove(Some(_)) => {
                    TeamAction::EpilogueStep("separate_review".to_owned())
                }
                TeamAction::EpilogueStep(_) => TeamAction::Challenge,
                TeamAction::Challenge => TeamAction::LoopStatus,
                TeamAction::LoopStatus => TeamAction::StartLoop,
                TeamAction::StartLoop => TeamAction::StopLoop,
                TeamAction::StopLoop => return None,
            }),
        })
    }

    #[test]
    fn every_hint_of_the_api_parses() {
        let first = Hint::Command("provost help".to_owned());
        let hints: Vec<Hint> = std::iter::successors(Some(first), next_example).collect();
        assert!(hints.len() > 70, "only {} hints", hints.len());
        for hint in &hints {
            let line = hint.to_string();
            let command = line.split(" && ").last().unwrap_or_default();
            assert!(command.starts_with("provost ") && is_valid_hint(command), "{line}");
        }
    }

    /// Also checks the hints of this crate that no other test produces.
    #[test]
    fn every_hint_in_the_sources_parses() {
        fn sources(dir: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    sources(&path, found);
                } else {
                    found.push(std::fs::read_to_string(path).unwrap());
                }
            }
        }
        /// Replaces every format argument with a placeholder word.
        fn filled(text: &str) -> String {
            let mut parts = text.split('{');
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |text, part| {
                let rest = part.split_once('}').map_or("", |(_, rest)| rest);
                format!("{text}WORD{rest}")
            })
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut texts = Vec::new();
        sources(&root.join("src"), &mut texts);
        let mut hints = 0;
        for text in &texts {
            for begin in [".next(\"provost", ".next(format!(\"provost"] {
                for rest in text.split(begin).skip(1) {
                    let Some((rest, _)) = rest.split_once('"') else { continue };
                    let hint = filled(&format!("provost{rest}"));
                    // The command itself is a format argument, so this test does not know the command.
                    if hint.starts_with("provost WORD") {
                        continue;
                    }
                    assert!(is_valid_hint(&hint), "{hint}");
                    hints += 1;
                }
            }
        }
        assert!(hints > 50, "only {hints} hints found");
    }
}
