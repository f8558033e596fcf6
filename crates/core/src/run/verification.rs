//! The verifications of a run: checks of merged work, which need no agent.
//!
//! The merge queue verifies each batch, and a landing verifies a merge with the target that had no conflicts.
//! Verifications are numbered from 1. A pending verification is an effect of the run. The result is recorded once, even
//! if the daemon dies in the meantime.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    advance::{RunStep, stop_run},
    event::*,
    landing::LandStep,
    outcome::{RunFailureCause, TreeProof},
    queue::MergeBatch,
    state::Run,
};
use crate::{
    ids::CommitId,
    verdict::{CheckEnd, CheckOrigin, CheckRefutation, Receipt, Snapshot, Verdict},
    verification::{CheckEnvironment, CheckLimits, Verification, judge_receipts},
};

/// The merged work that a verification checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationSubject {
    /// The first `len` links of a batch of the merge queue.
    Batch { batch: u32, len: usize },
    /// The landing step with this number, a merge of the work with its target.
    Landing { step: u32 },
}

/// A verification that a run requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunVerification {
    pub no: u32,
    /// The attempt of the run that requested the verification.
    pub attempt: u32,
    pub subject: VerificationSubject,
    pub snapshot: Snapshot,
    pub checks: Vec<String>,
    /// The commit from which the checks take protected files.
    pub base: CommitId,
    /// The number of sessions that the run had opened before the verification was requested.
    pub sessions_before: usize,
    /// The results of the checks, up to the first that did not pass. None while they are running.
    pub receipts: Option<Vec<Receipt>>,
}

/// The result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerificationResult {
    Passed,
    Failed,
    /// Some check did not run to completion, or ran on another tree.
    Inconclusive,
}

impl RunVerification {
    /// Returns the verdict on the tree. The verdict is open while the checks are running.
    pub fn verdict(&self) -> Verdict {
        judge_receipts(&self.snapshot, &self.checks, self.receipts.as_deref().unwrap_or_default())
    }

    /// Returns the result. None while the checks are running.
    pub fn result(&self) -> Option<VerificationResult> {
        self.receipts.as_ref()?;
        Some(match self.verdict() {
            Verdict::Passed(_) => VerificationResult::Passed,
            Verdict::Open
            | Verdict::Refuted(CheckRefutation::Unfinished {
                end: CheckEnd::Unfinished(_), ..
            }) => VerificationResult::Inconclusive,
            Verdict::Refuted(_) => VerificationResult::Failed,
        })
    }

    /// Describes why the tree did not pass.
    fn describe_failure(&self) -> String {
        match self.verdict() {
            Verdict::Refuted(refuted) => refuted.describe(),
            Verdict::Open | Verdict::Passed(_) => {
                "not every check ran on the merged tree".to_owned()
            }
        }
    }
}

impl Run {
    /// Returns the verification whose checks are pending.
    pub fn pending_verification(&self) -> Option<&RunVerification> {
        let attempt = self.attempt().no;
        let last = self.verifications.last().map(Arc::as_ref);
        last.filter(|last| last.receipts.is_none() && last.attempt == attempt)
    }

    /// Returns what the engine must run for the verification with this number.
    pub fn verification(&self, no: u32) -> Option<Verification> {
        let requested = self.requested_verification(no)?;
        let spec = &self.spec;
        Some(Verification {
            snapshot: requested.snapshot.clone(),
            base: Some(requested.base.clone()),
            project: Some(spec.project.clone()),
            worktree: None,
            checks: requested.checks.clone(),
            protected: spec.protected.clone(),
            keep: spec.keep.clone(),
            limits: CheckLimits::from(&spec.bounds),
            environment: CheckEnvironment::from(&spec.agent),
        })
    }

    pub(super) fn requested_verification(&self, no: u32) -> Option<&RunVerification> {
        // Search from the end, because the newest verifications are looked up most often.
        self.verifications.iter().rev().map(Arc::as_ref).find(|one| one.no == no)
    }

    fn request_verification(
        &self,
        subject: VerificationSubject,
        snapshot: &Snapshot,
        checks: Vec<String>,
    ) -> RunStep {
        let no = self.verifications.len() as u32 + 1;
        let (snapshot, base) = (snapshot.clone(), self.protected_base().clone());
        RunStep::Event(VerificationRequested { no, subject, snapshot, checks, base }.into())
    }

    /// Requests the verification of the first `len` links of a batch.
    pub(super) fn verify_batch(
        &self,
        batch: &MergeBatch,
        len: usize,
        checks: Vec<String>,
    ) -> Option<RunStep> {
        let link = batch.links.get(len.checked_sub(1)?)?;
        let subject = VerificationSubject::Batch { batch: batch.no, len };
        Some(self.request_verification(subject, &link.merge, checks))
    }

    /// Verifies a merge with the target. If the verification does not pass, the run fails.
    pub(super) fn verify_landing(&self, no: u32, step: &LandStep) -> Option<RunStep> {
        let LandStep::Merge { merge, .. } = step else { return None };
        let subject = VerificationSubject::Landing { step: no };
        let attempt = self.attempt().no;
        let mut requested = self.verifications.iter().rev();
        match requested.find(|one| one.attempt == attempt && one.subject == subject) {
            None => Some(self.request_verification(subject, merge, self.all_checks())),
            Some(pending) if pending.receipts.is_none() => None,
            Some(done) => {
                let detail = format!("the merge with the target: {}", done.describe_failure());
                Some(stop_run(RunFailureCause::Landing, detail))
            }
        }
    }

    /// Whether a verification of this landing step has passed.
    pub(super) fn is_landing_verified(&self, no: u32) -> bool {
        let subject = VerificationSubject::Landing { step: no };
        let mut of_step = self.verifications.iter().filter(|one| one.subject == subject);
        of_step.any(|one| one.result() == Some(VerificationResult::Passed))
    }

    /// Returns the proof that a verification provides. Checks that only agents wrote prove nothing.
    pub(super) fn proof_by(&self, verification: &RunVerification) -> Option<TreeProof> {
        let Verdict::Passed(tree) = verification.verdict() else { return None };
        let is_trusted = |check: &String| self.check_origin(check) != CheckOrigin::Agent;
        let trusted = verification.checks.iter().any(is_trusted);
        trusted.then(|| TreeProof::from_verified(&tree, verification.checks.clone()))
    }

    pub(super) fn add_verification(&mut self, e: &VerificationRequested) {
        if let (VerificationSubject::Batch { .. }, Some(graph)) = (e.subject, &mut self.graph) {
            graph.queue.checks += 1;
        }
        self.verifications.push(Arc::new(RunVerification {
            no: e.no,
            attempt: self.attempt().no,
            subject: e.subject,
            snapshot: e.snapshot.clone(),
            checks: e.checks.clone(),
            base: e.base.clone(),
            sessions_before: self.sessions.len(),
            receipts: None,
        }));
    }

    /// Records the receipts of a verification, and applies their consequences.
    pub(super) fn end_verification(&mut self, e: &VerificationDone) {
        let Some(one) = self.verifications.iter_mut().rev().find(|one| one.no == e.no) else {
            return;
        };
        Arc::make_mut(one).receipts = Some(e.receipts.clone());
        let one = one.clone();
        let Some(result) = one.result() else { return };
        match one.subject {
            VerificationSubject::Batch { .. } => {
                let Some(graph) = &mut self.graph else { return };
                if graph.queue.to_prove().is_some_and(|link| link.merge == one.snapshot) {
                    graph.queue.record_check(one.no, result);
                }
            }
            VerificationSubject::Landing { .. } => {
                let proof = self.proof_by(&one);
                if proof.is_some() && self.head.as_ref() == Some(&one.snapshot) {
                    self.set_head(&one.snapshot, proof);
                }
            }
        }
    }
}
