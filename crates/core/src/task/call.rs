//! What a member asks by a tool that its agent was given. It says no more than a command of the task does: the rules
//! decide about it as about any other, by who the member is.

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

/// What a member may say of its messages. The other kinds have ways of their own.
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

/// What is to become of a criterion, by its word.
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

/// A call of a tool, read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// How the task stands. The only call that asks for nothing to be done.
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
        /// Whether it may reach a session in the middle of its turn.
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
        /// The command that proves it; without one somebody's word does.
        #[serde(default)]
        check: Option<String>,
    },
    JudgeCriterion {
        criterion: u32,
        judgement: JudgementKind,
        /// Why, or the evidence of what is satisfied.
        #[serde(default)]
        because: Option<String>,
    },
    Check {
        #[serde(default)]
        criterion: Option<u32>,
        #[serde(default)]
        evidence: Option<String>,
        /// The pictures that are compared, for evidence of which the loop does not say which they are.
        #[serde(default)]
        pictures: Option<Files>,
    },
    Show {
        /// The iteration and the name of the evidence; an attack without them is on the work as a whole.
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
    /// What could not be read. It is answered all the same, for somebody waits.
    Unread {
        why: String,
    },
}

/// Why a call says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCall {
    #[error("\"because\" is missing: it says why, or what the evidence is")]
    NoReason,
    #[error("name a criterion or a piece of evidence, one of them")]
    OneOf,
    #[error(
        "show one thing: a text, an attack or fields, with the iteration and the name of the evidence that it is; an \
         attack alone is on the work as a whole"
    )]
    NotShown,
    #[error("{0}")]
    Unread(String),
}

impl Call {
    /// Gives the word by which its tool is known.
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

    /// Gives what the member asks of its task; none if it asks for nothing to be done. `own` is a key that no other
    /// call has.
    pub fn command(&self, member: &str, own: &str) -> Result<Option<Command>, BadCall> {
        // A key is the member's own: what one calls a message, another may call one too.
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
