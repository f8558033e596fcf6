//! Verifies that a workflow really finished, and advises what to do if not.
//!
//! A verifier examines the result of the work, never the claim of an agent or the screen of a
//! terminal. It fails closed: anything missing, unreadable, malformed or ambiguous is not verified,
//! and the [`UnverifiedReason`] says which. The files belong to an agent, so they are read up to a limit,
//! never from outside the project's directory, and nothing in them is run. Commands are values
//! here; the caller of [`Verifier::check`] runs them.

mod bmad;
mod field;
mod key;
mod pictures;
mod policy;
mod project;
mod reason;
mod story;
mod template;
mod verifier;

pub use bmad::BmadWorkflow;
pub use key::{KeyFault, WorkKey};
pub use pictures::{BadPicture, Comparison, MAX_PICTURE_BYTES, MAX_POINTS, PictureFile, compare};
pub use policy::{
    Advice, AdvisedStep, AttemptEnding, PreviousAttempt, RetryPolicy, Urgency, WorkflowAttempt,
};
pub use project::MAX_FILE_BYTES;
pub use reason::UnverifiedReason;
pub use verifier::{
    CommandRun, ProgramExit, Verifier, VerifierFault, VerifierProgram, VerifierSpec,
    VerifierVerdict,
};
