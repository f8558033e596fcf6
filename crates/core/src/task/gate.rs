//! Loops: bounded iterations, each behind a gate of evidence.
//!
//! The next iteration is asked for with a continuation, which is refused where evidence of this one is missing, and
//! looked at once more when it is delivered. It begins when its consumer accepts it, and in no other way.

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

/// How many iterations a loop may have.
pub const MAX_ITERATIONS: u32 = 1_000;

/// What has to be shown in each iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// A command that Provost runs.
    Verified { check: String },
    /// Somebody's word, shown as such.
    Asserted,
    /// Somebody tried to disprove the work: what could fail, how it was tried, and what came of it.
    Adversarial,
    /// An object that has these fields, none of them empty.
    Artifact { fields: Vec<String> },
    /// Two pictures that Provost compared; at most this share of their points may differ, in millionths. Which they are
    /// is said here, or by who has them compared.
    Pictures {
        differing: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<Files>,
    },
}

/// A piece of evidence that a loop asks for by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Required {
    pub name: String,
    pub proof: Proof,
}

/// What is done to the worker's conversation before the next iteration.
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
    /// After so many iterations that changed neither the tree nor the findings the loop is stopped.
    #[serde(default)]
    pub plateau: Option<u32>,
    /// How many tokens its worker may use in all.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// What the members are told of, and may use.
    #[serde(default)]
    pub tools: Vec<String>,
}

/// Why a template is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    #[error("a loop has 1 to {MAX_ITERATIONS} iterations, not {0}")]
    Bounds(u32),
    #[error("a loop without evidence has no gate: name what each iteration has to show")]
    NoEvidence,
    #[error("the evidence \"{0}\" is named twice")]
    Twice(String),
    #[error("the evidence \"{0}\" has no name, field or command to look for")]
    Empty(String),
    #[error(transparent)]
    Files(#[from] BadFiles),
}

impl Template {
    /// Returns the commands that its evidence is made with.
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

/// What somebody found who tried to disprove the work.
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
    /// Which share of the points differs, in millionths.
    pub differing: u32,
    /// How far a colour was let be off, in millionths of its range.
    #[serde(default)]
    pub tolerance: u32,
    #[serde(default)]
    pub expected_is: Picture,
    #[serde(default)]
    pub actual_is: Picture,
}

/// What was shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    Evidence(Evidence),
    Attack(Attack),
    Artifact(BTreeMap<String, String>),
    Pictures(Compared),
}

/// Why what was shown is not what is needed.
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
    #[error("the pictures are not of one size: {}x{} points are expected, and there are {}x{}", .expected.0, .expected.1, .actual.0, .actual.1)]
    OtherSize { expected: (u32, u32), actual: (u32, u32) },
}

impl Shown {
    /// Gives the tree that it is about, if Provost's own check says so.
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
    /// Says what has to be shown, in words.
    pub fn words(&self) -> String {
        match self {
            Proof::Verified { check } => format!("`{}` passes, run by Provost", visible(check)),
            Proof::Asserted => "somebody's word, shown as such".to_owned(),
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

    /// Says whether what was shown is what is needed.
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
            (Proof::Asserted, _) => Err(Unfit::OtherKind("a text that says what holds")),
            (Proof::Adversarial, _) => {
                Err(Unfit::OtherKind("an attack: failure_mode, check and result"))
            }
            (Proof::Artifact { .. }, _) => Err(Unfit::OtherKind("an object with fields")),
            (Proof::Pictures { .. }, _) => {
                Err(Unfit::OtherKind("two pictures that Provost compared: have them checked"))
            }
        }
    }
}

/// Gives what of evidence would differ if something had changed; durations and times do not count.
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

/// An iteration that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    pub iteration: u32,
    /// The message that began the next one, and who accepted it.
    pub message: u32,
    pub consumer: String,
    pub at: Moment,
    /// What the work looked like: two iterations that look the same changed nothing.
    pub look: Look,
}

/// What an iteration left, for comparing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    pub tree: Option<TreeId>,
    /// Digests of what was shown.
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
    /// Says it in words.
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

/// A loop of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loop {
    pub template: Template,
    #[serde(default)]
    pub begun_by: Actor,
    /// How many messages the task had before it: none of them continues it.
    #[serde(default)]
    pub begun_after: u32,
    /// The current iteration, from 1.
    pub iteration: u32,
    /// What was shown in it.
    pub shown: BTreeMap<String, Shown>,
    /// By whom.
    #[serde(default)]
    pub shown_by: BTreeMap<String, Actor>,
    pub passed: Vec<Passed>,
    /// The continuation that waits to be accepted.
    pub asked: Option<u32>,
    /// The continuation for which the worker's conversation was cleaned up.
    #[serde(default)]
    pub cleaned_for: Option<u32>,
    /// How often that one had been compacted before, while it is not known what came of it.
    #[serde(default)]
    pub compactions: Option<u32>,
    /// How often a continuation was refused, and why the last one was.
    pub refusals: u32,
    pub last_refusal: Option<String>,
    pub ended: Option<LoopEnd>,
    #[serde(default)]
    pub ended_by: Actor,
}

/// Why the next iteration does not begin. Not a failure: the loop is where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Blocked {
    #[error("the loop has ended")]
    Ended,
    #[error("it was for a loop before this one")]
    OtherLoop,
    #[error("the next iteration is {expected}, not {given}")]
    OtherIteration { expected: u32, given: u32 },
    #[error("iteration {0} is the last: finish, or stop the loop")]
    LastIteration(u32),
    #[error("message {0} asks for that iteration already")]
    AskedAlready(u32),
    #[error("evidence is missing: {}", .0.join(", "))]
    MissingEvidence(Vec<String>),
    #[error("{0} iterations changed neither the tree nor the findings")]
    Plateau(u32),
    #[error("its worker used {used} of {tokens} tokens")]
    Budget { used: u64, tokens: u64 },
}

impl Blocked {
    /// Gives the end that comes to a loop which may not go on for this.
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

    /// All names by which programs know them.
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

    /// Gives the name by which programs know it.
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
    /// Begins a loop behind as many messages of its task.
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

    /// Takes what was shown. A receipt of another tree than this one says nothing about it, and no longer counts.
    pub(super) fn take(&mut self, name: &str, shown: &Shown) {
        if let Some(tree) = shown.tree() {
            self.shown.retain(|_, known| known.tree().is_none_or(|known| known == tree));
        }
        self.shown.insert(name.to_owned(), shown.clone());
    }

    /// Takes back what was shown: Provost looked again, and it does not hold.
    pub(super) fn retract(&mut self, name: &str) {
        self.shown.remove(name);
    }

    /// Gives the evidence that is missing in this iteration.
    pub fn missing(&self) -> Vec<String> {
        let is_missing = |required: &&Required| {
            let shown = self.shown.get(&required.name);
            shown.is_none_or(|shown| required.proof.met_by(shown).is_err())
        };
        let missing = self.template.evidence.iter().filter(is_missing);
        missing.map(|required| required.name.clone()).collect()
    }

    /// Gives what Provost itself does to see whether the evidence holds. Where the terms do not say which pictures those
    /// are, it is those that were shown.
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

    /// Says whether iteration `given` may be asked for.
    pub fn may_ask(&self, given: u32, used: u64) -> Result<(), Blocked> {
        self.is_next(given)?;
        match self.asked {
            Some(message) => Err(Blocked::AskedAlready(message)),
            None => self.may_begin(given, used),
        }
    }

    /// Says whether iteration `given` may begin, when it is asked for and when its message is delivered.
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

    /// Gives what the work looks like now, to be compared with later.
    pub(super) fn look(&self) -> Look {
        let findings = self.shown.iter().map(|(name, shown)| (name.clone(), found(shown)));
        let tree = self.shown.values().find_map(Shown::tree).cloned();
        Look { tree, findings: findings.collect() }
    }

    /// Gives how many iterations in a row, up to this one, changed nothing, if those are too many.
    fn plateau(&self) -> Option<u32> {
        let most = self.template.plateau?;
        let now = self.look();
        // Where no receipt told of a tree, nobody can say that it did not change.
        now.tree.as_ref()?;
        // As many before this one as look like it, so many changed nothing: the first of them may have.
        let same = self.passed.iter().rev().take_while(|passed| passed.look == now);
        let same = u32::try_from(same.count()).unwrap_or(u32::MAX);
        (same >= most).then_some(same)
    }

    /// Says whether it is the operator's, and a manager dropped it.
    pub fn is_dropped(&self) -> bool {
        let stopped = matches!(self.ended, Some(LoopEnd::Stopped { .. }));
        stopped && self.begun_by == Actor::Operator && self.ended_by.manages()
    }

    /// Says whether it is the operator's, and neither done nor called off by the operator: nobody puts another in its
    /// place.
    pub(super) fn is_owed_to_the_operator(&self) -> bool {
        let open = match &self.ended {
            None | Some(LoopEnd::Plateau { .. } | LoopEnd::Budget { .. }) => true,
            Some(LoopEnd::Stopped { .. }) => self.ended_by.manages(),
            Some(LoopEnd::Finished) => false,
        };
        open && self.begun_by == Actor::Operator
    }

    /// Says whether the loop does not stand in the way of finishing: it was stopped, or this iteration has all its
    /// evidence, also if it is the last.
    pub fn is_complete(&self) -> bool {
        match &self.ended {
            Some(LoopEnd::Finished | LoopEnd::Stopped { .. }) => true,
            Some(LoopEnd::Plateau { .. } | LoopEnd::Budget { .. }) => false,
            None => self.missing().is_empty(),
        }
    }
}
