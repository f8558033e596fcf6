//! Drafts criteria from a text: from its list items, and from lines marked as criteria.
//!
//! Drafted criteria are only proposed. There are only a few rules, so authors can predict the
//! result:
//!
//! - A line that begins with `-`, `*`, `+`, `•`, `1.`, `1)` or `(1)` followed by a space is an
//!   item.
//! - A line that begins with `criterion:` is an item.
//! - Indented lines after an item belong to that item.
//! - Quoted and fenced text is skipped, because quotations have a different author and fences
//!   contain code.

use serde::{Deserialize, Serialize};

use super::{
    command::TeamRejection,
    criterion::{Criterion, CriterionSource, EvidenceRequirement, MAX_CRITERIA, check_meaningful},
    decide::TeamCommandResult,
    event::*,
    member::{MemberRole, TeamActor},
    message::{MAX_TEXT, TeamMessageKind},
    state::Team,
};
use crate::text::{is_deceptive, quote_name};

/// Maximum number of criteria to draft at once.
pub const MAX_DRAFTED: usize = 20;

/// Maximum length of a drafted criterion, in characters.
pub const MAX_DRAFTED_LETTERS: usize = 500;

/// The text from which criteria are drafted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DraftSource {
    /// The team message with this number.
    Message(u32),
    /// A text, and its author if the author is not the caller.
    Text { text: String, of: Option<String> },
}

/// The criteria drafted from a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriteriaDraft {
    pub source: CriterionSource,
    pub rationale: String,
    pub drafted: Vec<String>,
    /// The first few items that were omitted, each with the reason.
    pub left_out: Vec<(String, DraftOmission)>,
    /// The number of further items that were omitted.
    pub more: usize,
}

/// The reason why an item was omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftOmission {
    Empty,
    TooLong,
    /// The item contains invisible characters.
    Hidden,
    /// The team already has this criterion, or an earlier item has the same text.
    Known,
    TooMany,
    /// The item is quoted, so another author wrote it.
    Quoted,
    /// The item is inside a code fence.
    Fenced,
}

impl DraftOmission {
    pub fn as_str(self) -> &'static str {
        match self {
            DraftOmission::Empty => "empty",
            DraftOmission::TooLong => "too_long",
            DraftOmission::Hidden => "hidden_characters",
            DraftOmission::Known => "known",
            DraftOmission::TooMany => "too_many",
            DraftOmission::Quoted => "quoted",
            DraftOmission::Fenced => "fenced",
        }
    }
}

impl Team {
    /// Drafts criteria from a text, if the actor may attribute the text to its author.
    pub fn draft(
        &self,
        actor: &TeamActor,
        from: &DraftSource,
    ) -> Result<CriteriaDraft, TeamRejection> {
        let (text, source, rationale) = match from {
            DraftSource::Message(no) => {
                let message = self.message(*no).ok_or(TeamRejection::NoMessage(*no))?;
                let news =
                    message.kind == TeamMessageKind::News && message.from == TeamActor::Provost;
                let source = if news {
                    CriterionSource::Worker
                } else {
                    self.criterion_source(&message.from)
                };
                // A news message quotes the agent's text, and its other lines were written by Provost.
                let text = if news { quoted_lines(&message.text) } else { message.text.clone() };
                let whose = quote_name(message.from.name());
                (text, source, format!("drafted from message {no} of {whose}"))
            }
            DraftSource::Text { text, of } => {
                let whose = self.author_of(actor, of.as_deref())?;
                if text.len() > MAX_TEXT {
                    return Err(TeamRejection::TooLong(text.len()));
                }
                let rationale = format!("drafted from what {} wrote", quote_name(whose.name()));
                (text.clone(), self.criterion_source(&whose), rationale)
            }
        };
        let mut draft =
            CriteriaDraft { source, rationale, drafted: Vec::new(), left_out: Vec::new(), more: 0 };
        parse_items(&text).into_iter().for_each(|item| draft.add_item(item, &self.criteria));
        skipped_items(&text).into_iter().for_each(|(item, why)| draft.omit(item, why));
        Ok(draft)
    }

    /// Proposes all drafted criteria, or none of them.
    pub(super) fn propose_draft(
        &self,
        actor: &TeamActor,
        from: &DraftSource,
        dry_run: bool,
    ) -> TeamCommandResult {
        let CriteriaDraft { source, rationale, drafted, .. } = self.draft(actor, from)?;
        if dry_run {
            return Ok(Vec::new());
        }
        let first = u32::try_from(self.criteria.len()).unwrap_or(u32::MAX).saturating_add(1);
        let proposed = drafted.into_iter().zip(first..).map(|(text, no)| {
            let (rationale, needs) = (Some(rationale.clone()), EvidenceRequirement::Asserted);
            CriterionProposed { no, text, source, rationale, needs }.into()
        });
        Ok(proposed.collect())
    }

    /// Returns the author of a text. Only a manager may attribute a text to another member.
    fn author_of(&self, actor: &TeamActor, of: Option<&str>) -> Result<TeamActor, TeamRejection> {
        let Some(of) = of else { return Ok(actor.clone()) };
        let member = self.bound_member(of)?;
        match (self.role_of(actor), actor.name() == of) {
            (Some(MemberRole::Worker | MemberRole::Reviewer), false) => {
                Err(TeamRejection::NotRecipient(of.to_owned()))
            }
            _ => Ok(TeamActor::Member(member.name.clone())),
        }
    }

    /// Returns the criterion source for an actor, even if that member has left the team.
    fn criterion_source(&self, actor: &TeamActor) -> CriterionSource {
        let left = || {
            let known = self.members.iter().rev().find(|member| member.name == actor.name());
            known.map(|member| member.role)
        };
        let member = matches!(actor, TeamActor::Member(_));
        CriterionSource::from_role(
            self.role_of(actor).or_else(|| if member { left() } else { None }),
        )
    }
}

impl CriteriaDraft {
    fn add_item(&mut self, item: String, known: &[Criterion]) {
        let mut earlier = self.drafted.iter().chain(known.iter().map(|one| &one.text));
        let why = if item.chars().any(is_deceptive) {
            Some(DraftOmission::Hidden)
        } else if item.chars().count() > MAX_DRAFTED_LETTERS {
            Some(DraftOmission::TooLong)
        } else if check_meaningful(&item).is_err() {
            Some(DraftOmission::Empty)
        } else if earlier.any(|one| has_same_letters(one, &item)) {
            Some(DraftOmission::Known)
        } else if self.drafted.len() >= MAX_DRAFTED
            || known.len() + self.drafted.len() >= MAX_CRITERIA
        {
            Some(DraftOmission::TooMany)
        } else {
            None
        };
        match why {
            None => self.drafted.push(item),
            Some(why) => self.omit(item, why),
        }
    }

    fn omit(&mut self, item: String, why: DraftOmission) {
        if self.left_out.len() < MAX_DRAFTED {
            self.left_out.push((item, why));
        } else {
            self.more += 1;
        }
    }
}

/// Whether two texts consist of the same letters and digits in the same order, ignoring case.
fn has_same_letters(one: &str, other: &str) -> bool {
    let letters = |text: &str| -> String {
        let plain = text.chars().filter(|letter| letter.is_alphanumeric());
        plain.flat_map(char::to_lowercase).collect()
    };
    letters(one) == letters(other)
}

/// Returns the quoted lines without their quotation marks.
fn quoted_lines(text: &str) -> String {
    let lines = text.lines().filter_map(|line| line.strip_prefix("> "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the items that were skipped because they are quoted or fenced.
fn skipped_items(text: &str) -> Vec<(String, DraftOmission)> {
    let (mut quoted, mut fenced, mut fence) = (String::new(), String::new(), None);
    for line in text.lines() {
        let bare = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(begun), Some(mark)) if begun == mark => fence = None,
            (Some(_), _) => fenced = fenced + line + "\n",
            (None, None) if bare.starts_with('>') => {
                quoted = quoted + bare.trim_start_matches(['>', ' ']) + "\n";
            }
            (None, None) => quoted.push('\n'),
        }
    }
    let of = |text: &str, why| parse_items(text).into_iter().map(move |item| (item, why));
    of(&quoted, DraftOmission::Quoted).chain(of(&fenced, DraftOmission::Fenced)).collect()
}

/// Returns the items in a text, in order.
pub fn parse_items(text: &str) -> Vec<String> {
    let (mut items, mut open, mut fence): (Vec<String>, bool, Option<&str>) =
        (Vec::new(), false, None);
    for line in text.lines() {
        let bare = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => (fence, open) = (Some(mark), false),
            (Some(begun), Some(mark)) if begun == mark => fence = None,
            (Some(_), _) => {}
            (None, None) if bare.is_empty() || bare.starts_with('>') => open = false,
            (None, None) => match parse_item(bare) {
                Some(item) => {
                    open = !item.is_empty();
                    items.extend(open.then(|| normalize_text(item)));
                }
                None if open && line.starts_with([' ', '\t']) => {
                    if let Some(last) = items.last_mut() {
                        last.push(' ');
                        last.push_str(&normalize_text(bare));
                    }
                }
                None => open = false,
            },
        }
    }
    items
}

/// Returns the text of the item on this line, if there is one. A heading that only announces
/// criteria is skipped.
fn parse_item(line: &str) -> Option<&str> {
    let listed = strip_bullet(line).or_else(|| strip_number(line));
    let unboxed = listed.and_then(|text| {
        ["[ ]", "[x]", "[X]"].into_iter().find_map(|mark| text.strip_prefix(mark))
    });
    let text = unboxed.or(listed).unwrap_or(line).trim();
    strip_criterion_label(text).or(listed.map(|_| text))
}

fn strip_bullet(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(['-', '*', '+', '•'])?;
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

/// Strips `1.`, `1)` or `(1)`, with up to three digits. A longer number could be a year at the
/// start of a sentence.
fn strip_number(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('(');
    let rest = inner.unwrap_or(line);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=3).contains(&digits) {
        return None;
    }
    let rest = rest.get(digits..)?;
    let rest = match inner {
        Some(_) => rest.strip_prefix(')')?,
        None => rest.strip_prefix(['.', ')'])?,
    };
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

/// Returns the text after `criterion:`. The label may be numbered or bold.
fn strip_criterion_label(text: &str) -> Option<&str> {
    let (head, rest) = text.split_once(':')?;
    let head = head.trim_matches(['*', '_', ' ', '#']).to_ascii_lowercase();
    let head = head.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end();
    let known = ["criterion", "criteria", "acceptance criterion", "acceptance criteria"];
    known.contains(&head).then(|| rest.trim_start_matches(['*', '_']).trim())
}

/// Collapses whitespace and removes the markup for bold text.
fn normalize_text(text: &str) -> String {
    text.replace("**", "").split_whitespace().collect::<Vec<_>>().join(" ")
}
