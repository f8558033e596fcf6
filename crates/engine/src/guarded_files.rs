//! The files of a run that must not change without the operator's approval.

use provost_core::run::RunSpec;
use provost_trust::approval_patterns;

/// Returns patterns for trust-relevant files, protected files, and the workflow file that opened
/// the run.
pub(crate) fn patterns(spec: &RunSpec) -> Vec<String> {
    let mut patterns = approval_patterns(&spec.protected);
    patterns.extend(spec.workflow_file().map(str::to_owned));
    patterns
}
