//! Loops: a limited number of iterations, each behind a gate that requires evidence.
//!
//! The next iteration is requested with a continuation. The gate refuses the continuation if evidence from the current
//! iteration is missing. The gate is checked again when the continuation is delivered. An iteration begins only when
//! its consumer accepts the continuation.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    criterion::ProvostCheck,
    loop_evidence::{ShownEvidence, evidence_digest},
    member::TeamActor,
    pictures::{PictureCheck, PictureFiles, PictureFilesError},
};
use crate::{ids::TreeId, time::Moment};

/// Maximum number of iterations of a loop.
pub const MAX_ITERATIONS: u32 = 1_000;

/// The kind of evidence that each iteration requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopProof {
    /// A command that Provost runs.
    Verified { check: String },
    /// A member's assertion, which is marked as an assertion wherever it is shown.
    Asserted,
    /// A challenge of the work, which states the failure mode, how it was tested, and the result.
    Adversarial,
    /// A JSON object with the given fields, all of which must be non-empty.
    Artifact { fields: Vec<String> },
    /// Two pictures that Provost compares. At most this share of their pixels may differ, in
    /// millionths. The files are specified here or by the member that requests the comparison.
    Pictures {
        differing: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<PictureFiles>,
    },
}

/// A named piece of evidence that a loop requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopRequirement {
    pub name: String,
    pub proof: LoopProof,
}

/// The clean-up of the worker's conversation before the next iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanUp {
    #[default]
    Keep,
    Compact,
    NewThread,
}

impl CleanUp {
    pub fn as_str(self) -> &'static str {
        match self {
            CleanUp::Keep => "keep",
            CleanUp::Compact => "compact",
            CleanUp::NewThread => "new_thread",
        }
    }
}

/// The terms under which a loop runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopTemplate {
    pub name: String,
    pub max: u32,
    pub evidence: Vec<LoopRequirement>,
    #[serde(default)]
    pub clean_up: CleanUp,
    /// The number of consecutive iterations without a change to the tree or the findings after
    /// which the loop stops.
    #[serde(default)]
    pub plateau: Option<u32>,
    /// The token budget for the loop's worker.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Tools that the contract lists and members may use.
    #[serde(default)]
    pub tools: Vec<String>,
}

/// The reason why a template is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoopTemplateError {
    #[error("a loop has 1 to {MAX_ITERATIONS} iterations, not {0}")]
    Bounds(u32),
    #[error("a loop without evidence has no gate: list the evidence that each iteration must show")]
    NoEvidence,
    #[error("the evidence \"{0}\" is listed twice")]
    Twice(String),
    #[error("the evidence \"{0}\" lacks a name, field or command")]
    Empty(String),
    #[error(transparent)]
    Files(#[from] PictureFilesError),
}

impl LoopTemplate {
    /// Returns the commands behind the verified evidence.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.evidence.iter().filter_map(|required| match &required.proof {
            LoopProof::Verified { check } => Some(check.as_str()),
            LoopProof::Asserted
            | LoopProof::Adversarial
            | LoopProof::Artifact { .. }
            | LoopProof::Pictures { .. } => None,
        })
    }

    pub fn validate(&self) -> Result<(), LoopTemplateError> {
        if !(1..=MAX_ITERATIONS).contains(&self.max) {
            return Err(LoopTemplateError::Bounds(self.max));
        }
        if self.evidence.is_empty() {
            return Err(LoopTemplateError::NoEvidence);
        }
        let mut names = BTreeSet::new();
        for required in &self.evidence {
            if let LoopProof::Pictures { files: Some(files), .. } = &required.proof {
                files.validate()?;
            }
            let empty = match &required.proof {
                LoopProof::Verified { check } => check.trim().is_empty(),
                LoopProof::Artifact { fields } => fields.is_empty(),
                LoopProof::Asserted | LoopProof::Adversarial | LoopProof::Pictures { .. } => false,
            };
            if empty || required.name.trim().is_empty() {
                return Err(LoopTemplateError::Empty(required.name.clone()));
            }
            if !names.insert(&required.name) {
                return Err(LoopTemplateError::Twice(required.name.clone()));
            }
        }
        Ok(())
    }
}

/// A completed iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedIteration {
    pub iteration: u32,
    /// The message that began the next iteration, and the member that accepted the message.
    pub message: u32,
    pub consumer: String,
    pub at: Moment,
    /// A fingerprint of the work. If two iterations have the same fingerprint, nothing changed
    /// between them.
    pub fingerprint: IterationFingerprint,
}

/// The fingerprint of an iteration, which is used to detect a plateau.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationFingerprint {
    pub tree: Option<TreeId>,
    /// Digests of the submitted evidence.
    pub findings: BTreeMap<String, String>,
}

/// The reason why a loop ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopEnd {
    Finished,
    Stopped { because: String },
    Plateau { iterations: u32 },
    Budget { used: u64 },
}

impl LoopEnd {
    /// Describes why the loop ended.
    pub fn describe(&self) -> String {
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
    pub template: LoopTemplate,
    #[serde(default)]
    pub begun_by: TeamActor,
    /// The number of messages that the team had when the loop began. These messages cannot continue
    /// the loop.
    #[serde(default)]
    pub begun_after: u32,
    /// The number of the current iteration, starting at 1.
    pub iteration: u32,
    /// The evidence submitted in the current iteration.
    pub evidence_shown: BTreeMap<String, ShownEvidence>,
    /// The author of each piece of evidence.
    #[serde(default)]
    pub shown_by: BTreeMap<String, TeamActor>,
    pub completed: Vec<CompletedIteration>,
    /// The continuation that has not been accepted yet.
    pub continuation: Option<u32>,
    /// The continuation for which the worker's conversation was cleaned up.
    #[serde(default)]
    pub cleaned_for: Option<u32>,
    /// The number of times that the conversation had been compacted before the requested compaction. Set while the
    /// result of the requested compaction is unknown.
    #[serde(default)]
    pub compactions: Option<u32>,
    /// The number of refused continuations, and why the last one was refused.
    pub refusals: u32,
    pub last_refusal: Option<String>,
    pub ended: Option<LoopEnd>,
    #[serde(default)]
    pub ended_by: TeamActor,
}

/// The reason why the next iteration does not begin. This is not a failure: the loop stays in its
/// current iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ContinuationBlocked {
    #[error("the loop has ended")]
    Ended,
    #[error("the continuation belongs to an earlier loop")]
    OtherLoop,
    #[error("the next iteration is {expected}, not {given}")]
    OtherIteration { expected: u32, given: u32 },
    #[error("iteration {0} is the last one: finish the team, or stop the loop")]
    LastIteration(u32),
    #[error("message {0} already requests the next iteration")]
    AlreadyRequested(u32),
    #[error("evidence is missing: {}", .0.join(", "))]
    MissingEvidence(Vec<String>),
    #[error("{0} iterations changed neither the tree nor the findings")]
    Plateau(u32),
    #[error("the loop's worker used {used} of {tokens} tokens")]
    Budget { used: u64, tokens: u64 },
}

impl ContinuationBlocked {
    /// Returns how the loop ends if the loop cannot continue for this reason. None if the loop does not end.
    pub fn loop_end(&self) -> Option<LoopEnd> {
        match self {
            ContinuationBlocked::Plateau(iterations) => {
                Some(LoopEnd::Plateau { iterations: *iterations })
            }
            ContinuationBlocked::Budget { used, .. } => Some(LoopEnd::Budget { used: *used }),
            ContinuationBlocked::Ended
            | ContinuationBlocked::OtherLoop
            | ContinuationBlocked::OtherIteration { .. }
            | ContinuationBlocked::LastIteration(_)
            | ContinuationBlocked::AlreadyRequested(_)
            | ContinuationBlocked::MissingEvidence(_) => None,
        }
    }

    /// All machine-readable codes.
    pub const CODES: [&str; 8] = [
        "loop_ended",
        "other_loop",
        "other_iteration",
        "last_iteration",
        "already_requested",
        "missing_evidence",
        "plateau",
        "budget",
    ];

    /// Returns the machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            ContinuationBlocked::Ended => "loop_ended",
            ContinuationBlocked::OtherLoop => "other_loop",
            ContinuationBlocked::OtherIteration { .. } => "other_iteration",
            ContinuationBlocked::LastIteration(_) => "last_iteration",
            ContinuationBlocked::AlreadyRequested(_) => "already_requested",
            ContinuationBlocked::MissingEvidence(_) => "missing_evidence",
            ContinuationBlocked::Plateau(_) => "plateau",
            ContinuationBlocked::Budget { .. } => "budget",
        }
    }
}

impl Loop {
    /// Begins a loop. The team's first `begun_after` messages cannot continue it.
    pub fn begin(template: LoopTemplate, begun_by: TeamActor, begun_after: u32) -> Loop {
        Loop {
            template,
            begun_by,
            begun_after,
            iteration: 1,
            evidence_shown: BTreeMap::new(),
            shown_by: BTreeMap::new(),
            completed: Vec::new(),
            continuation: None,
            cleaned_for: None,
            compactions: None,
            refusals: 0,
            last_refusal: None,
            ended: None,
            ended_by: TeamActor::default(),
        }
    }

    /// Records submitted evidence. Receipts for other trees no longer count and are dropped.
    pub(super) fn record_evidence(&mut self, name: &str, shown: &ShownEvidence) {
        if let Some(tree) = shown.tree() {
            self.evidence_shown.retain(|_, known| known.tree().is_none_or(|known| known == tree));
        }
        self.evidence_shown.insert(name.to_owned(), shown.clone());
    }

    /// Retracts evidence that a repeated check has disproved.
    pub(super) fn retract(&mut self, name: &str) {
        self.evidence_shown.remove(name);
    }

    /// Returns the evidence that is still missing in this iteration.
    pub fn missing_evidence(&self) -> Vec<String> {
        let is_missing = |required: &&LoopRequirement| {
            let shown = self.evidence_shown.get(&required.name);
            shown.is_none_or(|shown| required.proof.check_evidence(shown).is_err())
        };
        let missing = self.template.evidence.iter().filter(is_missing);
        missing.map(|required| required.name.clone()).collect()
    }

    /// Returns the checks behind the submitted evidence. If the terms do not specify the pictures,
    /// the submitted ones are compared.
    pub(super) fn checks(&self) -> impl Iterator<Item = ProvostCheck> {
        self.template.evidence.iter().filter_map(|required| match &required.proof {
            LoopProof::Verified { check } => {
                Some(ProvostCheck { command: check.clone(), pictures: None })
            }
            LoopProof::Pictures { differing, files } => {
                let shown = || match self.evidence_shown.get(&required.name)? {
                    ShownEvidence::Pictures(compared) => Some(compared.files()),
                    ShownEvidence::Evidence(_)
                    | ShownEvidence::Challenge(_)
                    | ShownEvidence::Artifact(_) => None,
                };
                let files = files.clone().or_else(shown)?;
                Some(ProvostCheck::from_pictures(&PictureCheck { files, differing: *differing }))
            }
            LoopProof::Asserted | LoopProof::Adversarial | LoopProof::Artifact { .. } => None,
        })
    }

    /// Checks that iteration `given` may be requested.
    pub fn check_may_request(&self, given: u32, used: u64) -> Result<(), ContinuationBlocked> {
        self.check_is_next(given)?;
        match self.continuation {
            Some(message) => Err(ContinuationBlocked::AlreadyRequested(message)),
            None => self.check_may_begin(given, used),
        }
    }

    /// Checks that iteration `given` may begin, both when it is requested and when its message is
    /// delivered.
    pub fn check_may_begin(&self, given: u32, used: u64) -> Result<(), ContinuationBlocked> {
        self.check_is_next(given)?;
        if self.iteration >= self.template.max {
            return Err(ContinuationBlocked::LastIteration(self.iteration));
        }
        let missing = self.missing_evidence();
        if !missing.is_empty() {
            return Err(ContinuationBlocked::MissingEvidence(missing));
        }
        if let Some(iterations) = self.plateau() {
            return Err(ContinuationBlocked::Plateau(iterations));
        }
        match self.template.tokens {
            Some(tokens) if used >= tokens => Err(ContinuationBlocked::Budget { used, tokens }),
            Some(_) | None => Ok(()),
        }
    }

    fn check_is_next(&self, given: u32) -> Result<(), ContinuationBlocked> {
        let expected = self.iteration + 1;
        match self.ended {
            Some(_) => Err(ContinuationBlocked::Ended),
            None if given != expected => {
                Err(ContinuationBlocked::OtherIteration { expected, given })
            }
            None => Ok(()),
        }
    }

    /// Returns the fingerprint of the current work.
    pub(super) fn fingerprint(&self) -> IterationFingerprint {
        let findings =
            self.evidence_shown.iter().map(|(name, shown)| (name.clone(), evidence_digest(shown)));
        let tree = self.evidence_shown.values().find_map(ShownEvidence::tree).cloned();
        IterationFingerprint { tree, findings: findings.collect() }
    }

    /// Returns the number of consecutive iterations without any change, if the limit is reached.
    fn plateau(&self) -> Option<u32> {
        let most = self.template.plateau?;
        let now = self.fingerprint();
        // Without a receipt for a tree, it is unknown whether the tree has changed.
        now.tree.as_ref()?;
        // Every earlier iteration with this fingerprint counts, although the first of them may have
        // changed something.
        let same = self.completed.iter().rev().take_while(|passed| passed.fingerprint == now);
        let same = u32::try_from(same.count()).unwrap_or(u32::MAX);
        (same >= most).then_some(same)
    }

    /// Whether the operator began the loop and a manager stopped it.
    pub fn is_dropped(&self) -> bool {
        let stopped = matches!(self.ended, Some(LoopEnd::Stopped { .. }));
        stopped && self.begun_by == TeamActor::Operator && self.ended_by.is_manager()
    }

    /// Whether the operator began the loop, and the loop is neither complete nor stopped by the operator. If so, only
    /// the operator may replace it.
    pub(super) fn is_pending_for_operator(&self) -> bool {
        let open = match &self.ended {
            None | Some(LoopEnd::Plateau { .. } | LoopEnd::Budget { .. }) => true,
            Some(LoopEnd::Stopped { .. }) => self.ended_by.is_manager(),
            Some(LoopEnd::Finished) => false,
        };
        open && self.begun_by == TeamActor::Operator
    }

    /// Whether the loop no longer blocks the finish. This is the case if the loop was stopped, or if the current
    /// iteration has all of its evidence, even if it is the last iteration.
    pub fn is_complete(&self) -> bool {
        match &self.ended {
            Some(LoopEnd::Finished | LoopEnd::Stopped { .. }) => true,
            Some(LoopEnd::Plateau { .. } | LoopEnd::Budget { .. }) => false,
            None => self.missing_evidence().is_empty(),
        }
    }
}
