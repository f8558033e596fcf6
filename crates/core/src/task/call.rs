//! Tool calls of a member's agent. A call maps to a command of the team, and the same rules decide
//! about it, by the member's role.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    command::{Checked, Command, Post},
    criterion::{Evidence, Judgement, Needs},
    gate::{Attack, Shown},
    manager::{Epilogue, MoveKind},
    message::{Address, Channel, Kind, Priority},
    pictures::Files,
};

/// The message kinds that a member may send. The other kinds have their own commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SentKind {
    Instruction,
    #[default]
    Note,
    Report,
}

impl SentKind {
    pub const WORDS: [&str; 3] = ["instruction", "note", "report"];

    fn kind(self) -> Kind {
        match self {
            SentKind::Instruction => Kind::Instruction,
            SentKind::Note => Kind::Note,
            SentKind::Report => Kind::Report,
        }
    }
}

/// The kind of a judgement, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgementKind {
    Accept,
    Satisfy,
    Defer,
    Reject,
    Reopen,
}

impl JudgementKind {
    pub const WORDS: [&str; 5] = ["accept", "satisfy", "defer", "reject", "reopen"];
}

/// A parsed tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// Shows the state of the team. The only call that changes nothing.
    Look {},
    Send {
        to: String,
        text: String,
        #[serde(default)]
        kind: SentKind,
        #[serde(default)]
        key: Option<String>,
        #[serde(default)]
        correlation: Option<String>,
        /// Whether it may be delivered in the middle of a turn.
        #[serde(default)]
        steer: bool,
    },
    AskUser {
        text: String,
        #[serde(default)]
        key: Option<String>,
    },
    ProposeCriterion {
        text: String,
        #[serde(default)]
        rationale: Option<String>,
        /// The command that proves it. Without one, an assertion is enough.
        #[serde(default)]
        check: Option<String>,
    },
    JudgeCriterion {
        criterion: u32,
        judgement: JudgementKind,
        /// The reason, or the evidence if the criterion is satisfied.
        #[serde(default)]
        because: Option<String>,
    },
    Check {
        #[serde(default)]
        criterion: Option<u32>,
        #[serde(default)]
        evidence: Option<String>,
        /// The pictures to compare, if the loop does not name them.
        #[serde(default)]
        pictures: Option<Files>,
    },
    Show {
        /// The iteration and name of the evidence. A challenge without them is about the work as a
        /// whole.
        #[serde(default)]
        iteration: Option<u32>,
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        attack: Option<Attack>,
        #[serde(default)]
        fields: Option<BTreeMap<String, String>>,
    },
    Continue {
        iteration: u32,
        to: String,
        text: String,
        #[serde(default)]
        key: Option<String>,
    },
    StopLoop {
        because: String,
    },
    Interrupt {
        member: String,
        #[serde(default)]
        text: Option<String>,
    },
    Compact {
        member: String,
    },
    Move {
        kind: MoveKind,
        because: String,
    },
    Acknowledge {
        revision: u32,
    },
    Epilogue {
        step: Epilogue,
        evidence: String,
    },
    Finish {
        because: String,
    },
    /// An unreadable call. It still gets a response, because the caller waits for one.
    Unread {
        why: String,
    },
}

/// Why a call is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCall {
    #[error("\"because\" is missing: give the reason or the evidence")]
    NoReason,
    #[error("name either a criterion or a piece of evidence")]
    OneOf,
    #[error(
        "show exactly one of text, attack or fields, with the iteration and the name of the evidence; an \
         attack alone is about the work as a whole"
    )]
    NotShown,
    #[error("{0}")]
    Unread(String),
}

impl Call {
    /// Returns the name of its tool.
    pub fn word(&self) -> &'static str {
        match self {
            Call::Look {} => "look",
            Call::Send { .. } => "send",
            Call::AskUser { .. } => "ask_user",
            Call::ProposeCriterion { .. } => "propose_criterion",
            Call::JudgeCriterion { .. } => "judge_criterion",
            Call::Check { .. } => "check",
            Call::Show { .. } => "show",
            Call::Continue { .. } => "continue",
            Call::StopLoop { .. } => "stop_loop",
            Call::Interrupt { .. } => "interrupt",
            Call::Compact { .. } => "compact",
            Call::Move { .. } => "move",
            Call::Acknowledge { .. } => "acknowledge",
            Call::Epilogue { .. } => "epilogue",
            Call::Finish { .. } => "finish",
            Call::Unread { .. } => "unread",
        }
    }

    /// Returns the command that the call maps to, or none if it changes nothing. `own` is a key
    /// unique to this call.
    pub fn command(&self, member: &str, own: &str) -> Result<Option<Command>, BadCall> {
        // Keys are scoped to the member: two members may use the same key.
        let key = |given: &Option<String>| match given {
            Some(given) => format!("{member}/{given}"),
            None => own.to_owned(),
        };
        let command = match self.clone() {
            Call::Look {} => return Ok(None),
            Call::Send { to, text, kind, key: given, correlation, steer } => {
                let to = match to.as_str() {
                    "operator" => Address::Operator,
                    _ => Address::Member(to),
                };
                let post = post(key(&given), to, kind.kind(), text);
                Command::Post(Box::new(Post { correlation, steer, ..post }))
            }
            Call::AskUser { text, key: given } => {
                let post = post(key(&given), Address::Operator, Kind::Note, text);
                Command::Post(Box::new(Post { priority: Priority::High, ..post }))
            }
            Call::ProposeCriterion { text, rationale, check } => {
                let needs = check.map_or(Needs::Asserted, |check| Needs::Verified { check });
                Command::Propose { text, rationale, needs }
            }
            Call::JudgeCriterion { criterion, judgement, because } => {
                Command::Judge { no: criterion, judgement: judged(judgement, because, member)? }
            }
            Call::Check { criterion: Some(no), evidence: None, pictures: None } => {
                Command::Check { what: Checked::Criterion(no) }
            }
            Call::Check { criterion: None, evidence: Some(evidence), pictures } => {
                Command::Check { what: Checked::of_evidence(evidence, pictures) }
            }
            Call::Check { .. } => return Err(BadCall::OneOf),
            Call::Show { iteration, name, text, attack, fields } => {
                let text = text.map(|text| {
                    Shown::Evidence(Evidence::Asserted { text, by: member.to_owned() })
                });
                match (iteration.zip(name), text, attack, fields) {
                    (None, None, Some(attack), None) => Command::AttackWork { attack },
                    (Some((iteration, name)), text, attack, fields) => {
                        let shown = one_of(text, attack, fields).ok_or(BadCall::NotShown)?;
                        Command::Show { iteration, name, shown }
                    }
                    (None, ..) => return Err(BadCall::NotShown),
                }
            }
            Call::Continue { iteration, to, text, key: given } => {
                let (key, channel) = (key(&given), Channel::Tool);
                Command::Continue { iteration, to, key, text, channel }
            }
            Call::StopLoop { because } => Command::StopLoop { because },
            Call::Interrupt { member, text } => {
                Command::Interrupt { member, key: format!("leave-{own}"), text }
            }
            Call::Compact { member } => Command::Compact { member, key: format!("compact-{own}") },
            Call::Move { kind, because } => Command::RecordMove { kind, because },
            Call::Acknowledge { revision } => Command::AcknowledgeContract { revision },
            Call::Epilogue { step, evidence } => Command::DoEpilogue { step, evidence },
            Call::Finish { because } => Command::Finish { because, allow: Vec::new() },
            Call::Unread { why } => return Err(BadCall::Unread(why)),
        };
        Ok(Some(command))
    }
}

fn post(key: String, to: Address, kind: Kind, text: String) -> Post {
    Post {
        key,
        correlation: None,
        channel: Channel::Tool,
        to,
        kind,
        text,
        priority: Priority::Normal,
        expires_in_ms: None,
        steer: false,
    }
}

fn judged(
    judgement: JudgementKind,
    because: Option<String>,
    member: &str,
) -> Result<Judgement, BadCall> {
    if judgement == JudgementKind::Accept {
        return Ok(Judgement::Accept);
    }
    let because = because.ok_or(BadCall::NoReason)?;
    Ok(match judgement {
        JudgementKind::Accept => Judgement::Accept,
        JudgementKind::Satisfy => {
            let evidence = Evidence::Asserted { text: because, by: member.to_owned() };
            Judgement::Satisfy { evidence }
        }
        JudgementKind::Defer => Judgement::Defer { because },
        JudgementKind::Reject => Judgement::Reject { because },
        JudgementKind::Reopen => Judgement::Reopen { because },
    })
}

fn one_of(
    text: Option<Shown>,
    attack: Option<Attack>,
    fields: Option<BTreeMap<String, String>>,
) -> Option<Shown> {
    let shown = [text, attack.map(Shown::Attack), fields.map(Shown::Artifact)];
    let mut shown = shown.into_iter().flatten();
    let first = shown.next()?;
    shown.next().is_none().then_some(first)
}
