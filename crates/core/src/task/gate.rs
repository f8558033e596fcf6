//! Loops: bounded iterations, each behind a gate of evidence.
//!
//! The next iteration is requested with a continuation. The gate refuses it if evidence of the
//! current iteration is missing, and is checked again at delivery. An iteration begins only when
//! its consumer accepts the continuation.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    criterion::{Check, Evidence, Insufficient, says_something},
    member::Actor,
    pictures::{BadFiles, Files, Picture, Pictures},
};
use crate::{
    ids::TreeId,
    text::{in_quotes, visible},
    time::Moment,
    verdict::CheckEnd,
};

/// Maximum number of iterations of a loop.
pub const MAX_ITERATIONS: u32 = 1_000;

/// The kind of evidence required in each iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// A command that Provost runs.
    Verified { check: String },
    /// An assertion, shown as such.
    Asserted,
    /// A challenge of the work: the failure mode, how it was tested, and the result.
    Adversarial,
    /// An object with these fields, none of them empty.
    Artifact { fields: Vec<String> },
    /// Two pictures that Provost compares. At most this share of their points may differ, in
    /// millionths. The files are named here, or by the member that requests the comparison.
    Pictures {
        differing: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<Files>,
    },
}

/// A named piece of evidence that a loop requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Required {
    pub name: String,
    pub proof: Proof,
}

/// How the worker's conversation is cleaned up before the next iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanUp {
    #[default]
    Keep,
    Compact,
    NewThread,
}

impl CleanUp {
    pub fn word(self) -> &'static str {
        match self {
            CleanUp::Keep => "keep",
            CleanUp::Compact => "compact",
            CleanUp::NewThread => "new_thread",
        }
    }
}

/// The terms of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    pub name: String,
    pub max: u32,
    pub evidence: Vec<Required>,
    #[serde(default)]
    pub clean_up: CleanUp,
    /// The loop stops after this number of iterations that changed neither the tree nor the
    /// findings.
    #[serde(default)]
    pub plateau: Option<u32>,
    /// Token budget of its worker.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Tools that the contract names and members may use.
    #[serde(default)]
    pub tools: Vec<String>,
}

/// Why a template is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    #[error("a loop has 1 to {MAX_ITERATIONS} iterations, not {0}")]
    Bounds(u32),
    #[error("a loop without evidence has no gate: name what each iteration has to show")]
    NoEvidence,
    #[error("the evidence \"{0}\" is named twice")]
    Twice(String),
    #[error("the evidence \"{0}\" lacks a name, field or command")]
    Empty(String),
    #[error(transparent)]
    Files(#[from] BadFiles),
}

impl Template {
    /// Returns the commands of its verified evidence.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.evidence.iter().filter_map(|required| match &required.proof {
            Proof::Verified { check } => Some(check.as_str()),
            Proof::Asserted
            | Proof::Adversarial
            | Proof::Artifact { .. }
            | Proof::Pictures { .. } => None,
        })
    }

    pub fn check(&self) -> Result<(), BadTemplate> {
        if !(1..=MAX_ITERATIONS).contains(&self.max) {
            return Err(BadTemplate::Bounds(self.max));
        }
        if self.evidence.is_empty() {
            return Err(BadTemplate::NoEvidence);
        }
        let mut names = BTreeSet::new();
        for required in &self.evidence {
            if let Proof::Pictures { files: Some(files), .. } = &required.proof {
                files.check()?;
            }
            let empty = match &required.proof {
                Proof::Verified { check } => check.trim().is_empty(),
                Proof::Artifact { fields } => fields.is_empty(),
                Proof::Asserted | Proof::Adversarial | Proof::Pictures { .. } => false,
            };
            if empty || required.name.trim().is_empty() {
                return Err(BadTemplate::Empty(required.name.clone()));
            }
            if !names.insert(&required.name) {
                return Err(BadTemplate::Twice(required.name.clone()));
            }
        }
        Ok(())
    }
}

/// The result of challenging the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    pub failure_mode: String,
    pub check: String,
    pub result: String,
}

/// Two pictures as Provost compared them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    pub expected: String,
    pub actual: String,
    /// The share of points that differ, in millionths.
    pub differing: u32,
    /// The colour tolerance, in millionths of the range.
    #[serde(default)]
    pub tolerance: u32,
    #[serde(default)]
    pub expected_is: Picture,
    #[serde(default)]
    pub actual_is: Picture,
}

/// A piece of evidence that was shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    Evidence(Evidence),
    Attack(Attack),
    Artifact(BTreeMap<String, String>),
    Pictures(Compared),
}

/// Why shown evidence does not meet the requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error(transparent)]
    Insufficient(#[from] Insufficient),
    #[error("expected {0}")]
    OtherKind(&'static str),
    #[error("the field \"{0}\" is missing or empty")]
    Missing(String),
    #[error("{found} of a million points differ, and at most {most} may")]
    Differs { found: u32, most: u32 },
    #[error("the pictures have different sizes: expected {}x{} points, found {}x{}", .expected.0, .expected.1, .actual.0, .actual.1)]
    OtherSize { expected: (u32, u32), actual: (u32, u32) },
}

impl Shown {
    /// Returns the tree it is about, if it comes from Provost's own check.
    pub fn tree(&self) -> Option<&TreeId> {
        match self {
            Shown::Evidence(Evidence::Verified(receipt)) => Some(&receipt.tree),
            Shown::Evidence(Evidence::Asserted { .. })
            | Shown::Attack(_)
            | Shown::Artifact(_)
            | Shown::Pictures(_) => None,
        }
    }
}

impl Proof {
    /// Describes the required evidence.
    pub fn words(&self) -> String {
        match self {
            Proof::Verified { check } => format!("`{}` passes, run by Provost", visible(check)),
            Proof::Asserted => "an assertion, shown as such".to_owned(),
            Proof::Adversarial => {
                "an attempt to disprove the work: failure_mode, check and result".to_owned()
            }
            Proof::Artifact { fields } => format!("the fields {}", fields.join(", ")),
            Proof::Pictures { differing, files } => {
                let which = files.as_ref().map_or_else(String::new, |files| {
                    format!(", {} and {}", in_quotes(&files.expected), in_quotes(&files.actual))
                });
                format!(
                    "two pictures{which}, compared by Provost, that differ in at most {differing} of a million points"
                )
            }
        }
    }

    /// Checks that shown evidence meets the requirement.
    pub fn met_by(&self, shown: &Shown) -> Result<(), Unfit> {
        match (self, shown) {
            (Proof::Verified { check }, Shown::Evidence(Evidence::Verified(receipt))) => {
                match (receipt.command == *check, receipt.end == CheckEnd::Exit(0)) {
                    (true, true) => Ok(()),
                    (true, false) => Err(Insufficient::CheckFailed.into()),
                    (false, _) => Err(Insufficient::OtherCheck.into()),
                }
            }
            (Proof::Verified { check }, _) => Err(Insufficient::NeedsCheck(check.clone()).into()),
            (Proof::Asserted, Shown::Evidence(Evidence::Asserted { text, .. })) => {
                Ok(says_something(text).map_err(Insufficient::from)?)
            }
            (Proof::Asserted, Shown::Evidence(Evidence::Verified(_))) => Ok(()),
            (Proof::Adversarial, Shown::Attack(attack)) => {
                for part in [&attack.failure_mode, &attack.check, &attack.result] {
                    says_something(part).map_err(Insufficient::from)?;
                }
                Ok(())
            }
            (Proof::Artifact { fields }, Shown::Artifact(given)) => {
                let filled =
                    |field: &&String| given.get(*field).is_none_or(|value| value.trim().is_empty());
                let missing = fields.iter().find(filled);
                missing.map_or(Ok(()), |field| Err(Unfit::Missing(field.clone())))
            }
            (Proof::Pictures { differing, files }, Shown::Pictures(compared)) => {
                if files.as_ref().is_some_and(|files| !compared.is_of(files)) {
                    return Err(Insufficient::OtherCheck.into());
                }
                compared.fits(*differing)
            }
            (Proof::Asserted, _) => Err(Unfit::OtherKind("an assertion as text")),
            (Proof::Adversarial, _) => {
                Err(Unfit::OtherKind("an attack: failure_mode, check and result"))
            }
            (Proof::Artifact { .. }, _) => Err(Unfit::OtherKind("an object with fields")),
            (Proof::Pictures { .. }, _) => {
                Err(Unfit::OtherKind("two pictures compared by Provost: request their check"))
            }
        }
    }
}

/// Returns the part of the evidence that changes with the work. Durations and times do not count.
fn found(shown: &Shown) -> String {
    match shown {
        Shown::Evidence(Evidence::Verified(receipt)) => {
            format!("{:?} {}", receipt.end, receipt.tree.0)
        }
        Shown::Evidence(Evidence::Asserted { text, .. }) => text.clone(),
        Shown::Attack(attack) => {
            format!("{}\n{}\n{}", attack.failure_mode, attack.check, attack.result)
        }
        Shown::Artifact(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join("\n"),
        Shown::Pictures(compared) => compared.differing.to_string(),
    }
}

/// A completed iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    pub iteration: u32,
    /// The message that began the next iteration, and the member that accepted it.
    pub message: u32,
    pub consumer: String,
    pub at: Moment,
    /// A fingerprint of the work. Two iterations with the same one changed nothing.
    pub look: Look,
}

/// The fingerprint of an iteration, for plateau detection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    pub tree: Option<TreeId>,
    /// Digests of the shown evidence.
    pub findings: BTreeMap<String, String>,
}

/// Why a loop ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopEnd {
    Finished,
    Stopped { because: String },
    Plateau { iterations: u32 },
    Budget { used: u64 },
}

impl LoopEnd {
    /// Describes the end.
    pub fn words(&self) -> String {
        match self {
            LoopEnd::Finished => "it is finished".to_owned(),
            LoopEnd::Stopped { because } => format!("it was stopped: {because}"),
            LoopEnd::Plateau { iterations } => {
                format!("{iterations} iterations changed neither the tree nor the findings")
            }
            LoopEnd::Budget { used } => format!("its worker used up its tokens ({used})"),
        }
    }
}

/// A loop of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loop {
    pub template: Template,
    #[serde(default)]
    pub begun_by: Actor,
    /// The team's message count when the loop began. Earlier messages do not continue it.
    #[serde(default)]
    pub begun_after: u32,
    /// The current iteration, from 1.
    pub iteration: u32,
    /// The evidence shown in the current iteration.
    pub shown: BTreeMap<String, Shown>,
    /// The actors who showed it.
    #[serde(default)]
    pub shown_by: BTreeMap<String, Actor>,
    pub passed: Vec<Passed>,
    /// The continuation that waits to be accepted.
    pub asked: Option<u32>,
    /// The continuation for which the worker's conversation was cleaned up.
    #[serde(default)]
    pub cleaned_for: Option<u32>,
    /// The compaction count before a requested compaction whose result is still unknown.
    #[serde(default)]
    pub compactions: Option<u32>,
    /// Number of refused continuations, and the reason for the last one.
    pub refusals: u32,
    pub last_refusal: Option<String>,
    pub ended: Option<LoopEnd>,
    #[serde(default)]
    pub ended_by: Actor,
}

/// Why the next iteration does not begin. Not a failure: the loop stays in its iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Blocked {
    #[error("the loop has ended")]
    Ended,
    #[error("it was for an earlier loop")]
    OtherLoop,
    #[error("the next iteration is {expected}, not {given}")]
    OtherIteration { expected: u32, given: u32 },
    #[error("iteration {0} is the last: finish, or stop the loop")]
    LastIteration(u32),
    #[error("message {0} already requests that iteration")]
    AskedAlready(u32),
    #[error("evidence is missing: {}", .0.join(", "))]
    MissingEvidence(Vec<String>),
    #[error("{0} iterations changed neither the tree nor the findings")]
    Plateau(u32),
    #[error("its worker used {used} of {tokens} tokens")]
    Budget { used: u64, tokens: u64 },
}

impl Blocked {
    /// Returns the end of a loop that cannot continue for this reason.
    pub fn end(&self) -> Option<LoopEnd> {
        match self {
            Blocked::Plateau(iterations) => Some(LoopEnd::Plateau { iterations: *iterations }),
            Blocked::Budget { used, .. } => Some(LoopEnd::Budget { used: *used }),
            Blocked::Ended
            | Blocked::OtherLoop
            | Blocked::OtherIteration { .. }
            | Blocked::LastIteration(_)
            | Blocked::AskedAlready(_)
            | Blocked::MissingEvidence(_) => None,
        }
    }

    /// All machine-readable codes.
    pub const CODES: [&str; 8] = [
        "loop_ended",
        "other_loop",
        "other_iteration",
        "last_iteration",
        "asked_already",
        "missing_evidence",
        "plateau",
        "budget",
    ];

    /// Returns the machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            Blocked::Ended => "loop_ended",
            Blocked::OtherLoop => "other_loop",
            Blocked::OtherIteration { .. } => "other_iteration",
            Blocked::LastIteration(_) => "last_iteration",
            Blocked::AskedAlready(_) => "asked_already",
            Blocked::MissingEvidence(_) => "missing_evidence",
            Blocked::Plateau(_) => "plateau",
            Blocked::Budget { .. } => "budget",
        }
    }
}

impl Loop {
    /// Begins a loop. Only messages after the first `begun_after` can continue it.
    pub fn begin(template: Template, begun_by: Actor, begun_after: u32) -> Loop {
        Loop {
            template,
            begun_by,
            begun_after,
            iteration: 1,
            shown: BTreeMap::new(),
            shown_by: BTreeMap::new(),
            passed: Vec::new(),
            asked: None,
            cleaned_for: None,
            compactions: None,
            refusals: 0,
            last_refusal: None,
            ended: None,
            ended_by: Actor::default(),
        }
    }

    /// Records shown evidence. Receipts for another tree than this one no longer count and are
    /// dropped.
    pub(super) fn take(&mut self, name: &str, shown: &Shown) {
        if let Some(tree) = shown.tree() {
            self.shown.retain(|_, known| known.tree().is_none_or(|known| known == tree));
        }
        self.shown.insert(name.to_owned(), shown.clone());
    }

    /// Retracts evidence that a repeated check disproved.
    pub(super) fn retract(&mut self, name: &str) {
        self.shown.remove(name);
    }

    /// Returns the evidence missing in this iteration.
    pub fn missing(&self) -> Vec<String> {
        let is_missing = |required: &&Required| {
            let shown = self.shown.get(&required.name);
            shown.is_none_or(|shown| required.proof.met_by(shown).is_err())
        };
        let missing = self.template.evidence.iter().filter(is_missing);
        missing.map(|required| required.name.clone()).collect()
    }

    /// Returns the checks behind the shown evidence. If the terms do not name the pictures, the
    /// shown ones are compared.
    pub(super) fn checks(&self) -> impl Iterator<Item = Check> {
        self.template.evidence.iter().filter_map(|required| match &required.proof {
            Proof::Verified { check } => Some(Check { command: check.clone(), pictures: None }),
            Proof::Pictures { differing, files } => {
                let shown = || match self.shown.get(&required.name)? {
                    Shown::Pictures(compared) => Some(compared.files()),
                    Shown::Evidence(_) | Shown::Attack(_) | Shown::Artifact(_) => None,
                };
                let files = files.clone().or_else(shown)?;
                Some(Check::of(&Pictures { files, differing: *differing }))
            }
            Proof::Asserted | Proof::Adversarial | Proof::Artifact { .. } => None,
        })
    }

    /// Checks that iteration `given` may be requested.
    pub fn may_ask(&self, given: u32, used: u64) -> Result<(), Blocked> {
        self.is_next(given)?;
        match self.asked {
            Some(message) => Err(Blocked::AskedAlready(message)),
            None => self.may_begin(given, used),
        }
    }

    /// Checks that iteration `given` may begin, both when requested and when its message is
    /// delivered.
    pub fn may_begin(&self, given: u32, used: u64) -> Result<(), Blocked> {
        self.is_next(given)?;
        if self.iteration >= self.template.max {
            return Err(Blocked::LastIteration(self.iteration));
        }
        let missing = self.missing();
        if !missing.is_empty() {
            return Err(Blocked::MissingEvidence(missing));
        }
        if let Some(iterations) = self.plateau() {
            return Err(Blocked::Plateau(iterations));
        }
        match self.template.tokens {
            Some(tokens) if used >= tokens => Err(Blocked::Budget { used, tokens }),
            Some(_) | None => Ok(()),
        }
    }

    fn is_next(&self, given: u32) -> Result<(), Blocked> {
        let expected = self.iteration + 1;
        match self.ended {
            Some(_) => Err(Blocked::Ended),
            None if given != expected => Err(Blocked::OtherIteration { expected, given }),
            None => Ok(()),
        }
    }

    /// Returns the fingerprint of the current work.
    pub(super) fn look(&self) -> Look {
        let findings = self.shown.iter().map(|(name, shown)| (name.clone(), found(shown)));
        let tree = self.shown.values().find_map(Shown::tree).cloned();
        Look { tree, findings: findings.collect() }
    }

    /// Returns the number of consecutive iterations without change, if it reached the limit.
    fn plateau(&self) -> Option<u32> {
        let most = self.template.plateau?;
        let now = self.look();
        // Without a receipt for a tree, the tree cannot be said to be unchanged.
        now.tree.as_ref()?;
        // Each earlier iteration with this fingerprint counts, except that the first may have
        // changed something.
        let same = self.passed.iter().rev().take_while(|passed| passed.look == now);
        let same = u32::try_from(same.count()).unwrap_or(u32::MAX);
        (same >= most).then_some(same)
    }

    /// Whether the operator began it and a manager dropped it.
    pub fn is_dropped(&self) -> bool {
        let stopped = matches!(self.ended, Some(LoopEnd::Stopped { .. }));
        stopped && self.begun_by == Actor::Operator && self.ended_by.manages()
    }

    /// Whether the operator began it, and it is neither complete nor stopped by the operator. Only
    /// the operator may replace such a loop.
    pub(super) fn is_owed_to_the_operator(&self) -> bool {
        let open = match &self.ended {
            None | Some(LoopEnd::Plateau { .. } | LoopEnd::Budget { .. }) => true,
            Some(LoopEnd::Stopped { .. }) => self.ended_by.manages(),
            Some(LoopEnd::Finished) => false,
        };
        open && self.begun_by == Actor::Operator
    }

    /// Whether the loop does not block the finish: it was stopped, or the current iteration has all
    /// its evidence, even if it is the last.
    pub fn is_complete(&self) -> bool {
        match &self.ended {
            Some(LoopEnd::Finished | LoopEnd::Stopped { .. }) => true,
            Some(LoopEnd::Plateau { .. } | LoopEnd::Budget { .. }) => false,
            None => self.missing().is_empty(),
        }
    }
}
