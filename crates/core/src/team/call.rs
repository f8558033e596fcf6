//! Tool calls from a member's agent. Each call maps to a team command, which is decided by the same
//! rules and the member's role.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    command::{CheckSubject, NewMessage, TeamCommand},
    criterion::{CriterionEvidence, CriterionJudgement, EvidenceRequirement},
    loop_evidence::{ShownEvidence, WorkChallenge},
    manager::{EpilogueStep, MoveKind},
    message::{MessageChannel, Priority, Recipient, TeamMessageKind},
    pictures::PictureFiles,
};

/// The kinds of messages that a member may send. Other kinds have their own commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendableKind {
    Instruction,
    #[default]
    Note,
    Report,
}

impl SendableKind {
    pub const NAMES: [&str; 3] = ["instruction", "note", "report"];

    fn message_kind(self) -> TeamMessageKind {
        match self {
            SendableKind::Instruction => TeamMessageKind::Instruction,
            SendableKind::Note => TeamMessageKind::Note,
            SendableKind::Report => TeamMessageKind::Report,
        }
    }
}

/// The kind of judgement, as named in a call.
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
    pub const NAMES: [&str; 5] = ["accept", "satisfy", "defer", "reject", "reopen"];
}

/// A parsed tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MemberCall {
    /// Shows the state of the team. This is the only call that changes nothing.
    Status {},
    Send {
        to: String,
        text: String,
        #[serde(default)]
        kind: SendableKind,
        #[serde(default)]
        key: Option<String>,
        #[serde(default)]
        correlation: Option<String>,
        /// Whether the message may be delivered in the middle of a turn.
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
        /// The command that proves the criterion. Without a command, an assertion is enough.
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
        /// The pictures to compare, if the loop does not specify them.
        #[serde(default)]
        pictures: Option<PictureFiles>,
    },
    ShowEvidence {
        /// The iteration and name of the evidence. Without them, a challenge applies to the work as
        /// a whole.
        #[serde(default)]
        iteration: Option<u32>,
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        challenge: Option<WorkChallenge>,
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
        step: EpilogueStep,
        evidence: String,
    },
    Finish {
        because: String,
    },
    /// A call that could not be parsed. It still gets a response, because the caller is waiting for one.
    Invalid {
        why: String,
    },
}

/// The reason why a call is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberCallError {
    #[error("the field \"because\" is missing: expected the reason or the evidence")]
    NoReason,
    #[error("the call needs either a criterion or the name of a piece of evidence, but not both")]
    OneOf,
    #[error(
        "evidence consists of the iteration, the name, and exactly one of text, challenge and fields; only a \
         challenge of the work as a whole has neither iteration nor name"
    )]
    NotShown,
    #[error("{0}")]
    Unread(String),
}

impl MemberCall {
    /// Returns the name of the tool.
    pub fn as_str(&self) -> &'static str {
        match self {
            MemberCall::Status {} => "status",
            MemberCall::Send { .. } => "send",
            MemberCall::AskUser { .. } => "ask_user",
            MemberCall::ProposeCriterion { .. } => "propose_criterion",
            MemberCall::JudgeCriterion { .. } => "judge_criterion",
            MemberCall::Check { .. } => "check",
            MemberCall::ShowEvidence { .. } => "show_evidence",
            MemberCall::Continue { .. } => "continue",
            MemberCall::StopLoop { .. } => "stop_loop",
            MemberCall::Interrupt { .. } => "interrupt",
            MemberCall::Compact { .. } => "compact",
            MemberCall::Move { .. } => "move",
            MemberCall::Acknowledge { .. } => "acknowledge",
            MemberCall::Epilogue { .. } => "epilogue",
            MemberCall::Finish { .. } => "finish",
            MemberCall::Invalid { .. } => "invalid",
        }
    }

    /// Returns the command that the call maps to, or None if the call changes nothing. `own` is a
    /// key that is unique to this call.
    pub fn to_command(
        &self,
        member: &str,
        own: &str,
    ) -> Result<Option<TeamCommand>, MemberCallError> {
        // Keys are scoped to the member, because two members may use the same key.
        let key = |given: &Option<String>| match given {
            Some(given) => format!("{member}/{given}"),
            None => own.to_owned(),
        };
        let command = match self.clone() {
            MemberCall::Status {} => return Ok(None),
            MemberCall::Send { to, text, kind, key: given, correlation, steer } => {
                let to = match to.as_str() {
                    "operator" => Recipient::Operator,
                    _ => Recipient::Member(to),
                };
                let post = new_message(key(&given), to, kind.message_kind(), text);
                TeamCommand::Post(Box::new(NewMessage { correlation, steer, ..post }))
            }
            MemberCall::AskUser { text, key: given } => {
                let post =
                    new_message(key(&given), Recipient::Operator, TeamMessageKind::Note, text);
                TeamCommand::Post(Box::new(NewMessage { priority: Priority::High, ..post }))
            }
            MemberCall::ProposeCriterion { text, rationale, check } => {
                let needs = check.map_or(EvidenceRequirement::Asserted, |check| {
                    EvidenceRequirement::Verified { check }
                });
                TeamCommand::Propose { text, rationale, needs }
            }
            MemberCall::JudgeCriterion { criterion, judgement, because } => TeamCommand::Judge {
                no: criterion,
                judgement: to_judgement(judgement, because, member)?,
            },
            MemberCall::Check { criterion: Some(no), evidence: None, pictures: None } => {
                TeamCommand::Check { what: CheckSubject::Criterion(no) }
            }
            MemberCall::Check { criterion: None, evidence: Some(evidence), pictures } => {
                TeamCommand::Check { what: CheckSubject::for_evidence(evidence, pictures) }
            }
            MemberCall::Check { .. } => return Err(MemberCallError::OneOf),
            MemberCall::ShowEvidence { iteration, name, text, challenge, fields } => {
                let text = text.map(|text| {
                    ShownEvidence::Evidence(CriterionEvidence::Asserted {
                        text,
                        by: member.to_owned(),
                    })
                });
                match (iteration.zip(name), text, challenge, fields) {
                    (None, None, Some(challenge), None) => TeamCommand::ChallengeWork { challenge },
                    (Some((iteration, name)), text, challenge, fields) => {
                        let shown = single_evidence(text, challenge, fields)
                            .ok_or(MemberCallError::NotShown)?;
                        TeamCommand::Show { iteration, name, shown }
                    }
                    (None, ..) => return Err(MemberCallError::NotShown),
                }
            }
            MemberCall::Continue { iteration, to, text, key: given } => {
                let (key, channel) = (key(&given), MessageChannel::Tool);
                TeamCommand::Continue { iteration, to, key, text, channel }
            }
            MemberCall::StopLoop { because } => TeamCommand::StopLoop { because },
            MemberCall::Interrupt { member, text } => {
                TeamCommand::Interrupt { member, key: format!("leave-{own}"), text }
            }
            MemberCall::Compact { member } => {
                TeamCommand::Compact { member, key: format!("compact-{own}") }
            }
            MemberCall::Move { kind, because } => TeamCommand::RecordMove { kind, because },
            MemberCall::Acknowledge { revision } => TeamCommand::AcknowledgeContract { revision },
            MemberCall::Epilogue { step, evidence } => TeamCommand::DoEpilogue { step, evidence },
            MemberCall::Finish { because } => TeamCommand::Finish { because, allow: Vec::new() },
            MemberCall::Invalid { why } => return Err(MemberCallError::Unread(why)),
        };
        Ok(Some(command))
    }
}

fn new_message(key: String, to: Recipient, kind: TeamMessageKind, text: String) -> NewMessage {
    NewMessage {
        key,
        correlation: None,
        channel: MessageChannel::Tool,
        to,
        kind,
        text,
        priority: Priority::Normal,
        expires_in_ms: None,
        steer: false,
    }
}

fn to_judgement(
    judgement: JudgementKind,
    because: Option<String>,
    member: &str,
) -> Result<CriterionJudgement, MemberCallError> {
    if judgement == JudgementKind::Accept {
        return Ok(CriterionJudgement::Accept);
    }
    let because = because.ok_or(MemberCallError::NoReason)?;
    Ok(match judgement {
        JudgementKind::Accept => CriterionJudgement::Accept,
        JudgementKind::Satisfy => {
            let evidence = CriterionEvidence::Asserted { text: because, by: member.to_owned() };
            CriterionJudgement::Satisfy { evidence }
        }
        JudgementKind::Defer => CriterionJudgement::Defer { because },
        JudgementKind::Reject => CriterionJudgement::Reject { because },
        JudgementKind::Reopen => CriterionJudgement::Reopen { because },
    })
}

fn single_evidence(
    text: Option<ShownEvidence>,
    challenge: Option<WorkChallenge>,
    fields: Option<BTreeMap<String, String>>,
) -> Option<ShownEvidence> {
    let shown =
        [text, challenge.map(ShownEvidence::Challenge), fields.map(ShownEvidence::Artifact)];
    let mut shown = shown.into_iter().flatten();
    let first = shown.next()?;
    shown.next().is_none().then_some(first)
}
