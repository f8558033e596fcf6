//! Whether a workflow really finished: verifiers as values, and what to do if it did not.
//!
//! A verifier looks at what the work left behind, never at what an agent says or a terminal shows. It fails closed:
//! what is missing, unreadable, malformed or there twice is not verified, and the [`Reason`] says which it was. The
//! files are an agent's, so they are read up to a limit, never from outside of the project's directory, and nothing
//! in them is run. Commands are values here; whoever calls [`Verifier::check`] runs them.

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

pub use bmad::Workflow;
pub use key::{Key, KeyFault};
pub use pictures::{BadPicture, Comparison, MAX_PICTURE_BYTES, MAX_POINTS, Read, compare};
pub use policy::{Advice, Ending, Next, Policy, Previous, Try, Urgency};
pub use project::MAX_FILE_BYTES;
pub use reason::Reason;
pub use verifier::{Declared, Ended, Fault, Program, Ran, Verdict, Verifier};
