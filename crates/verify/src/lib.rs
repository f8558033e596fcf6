//! Verifies that a workflow has completed, and if not, advises on the next step.
//!
//! A verifier examines the result of the work, not an agent's claims or the contents of a terminal.
//! It fails closed: if anything is missing, unreadable, malformed or ambiguous, the work is not
//! verified, and the [`UnverifiedReason`] describes the cause. The files are written by an agent,
//! so they are read only up to a size limit and never from outside the project's directory, and
//! nothing in them is executed. Commands are only values here: the caller of [`Verifier::check`]
//! runs them.

mod field;
mod key;
mod pictures;
mod policy;
mod project;
mod reason;
mod template;
mod verifier;

pub use field::{FileFormat, front_matter_text, text_of, yaml};
pub use key::{KeyFault, StoryNumbers, WorkKey};
pub use pictures::{BadPicture, Comparison, MAX_PICTURE_BYTES, MAX_POINTS, PictureFile, compare};
pub use policy::{
    Advice, AdvisedStep, AttemptEnding, PreviousAttempt, RetryPolicy, Urgency, WorkflowAttempt,
};
pub use project::{FilePattern, MAX_FILE_BYTES, ProjectDir, ProjectText};
pub use reason::UnverifiedReason;
pub use template::STORY_KEY;
pub use verifier::{
    CommandRun, ProgramExit, Verifier, VerifierFault, VerifierProgram, VerifierSpec,
    VerifierVerdict, WorkflowVerifier,
};
