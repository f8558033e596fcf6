//! The built-in workflows. They are the workflows of BMAD, and use the built-in verifiers.

use crate::document::{self, DocumentReading};
use crate::source::ValueSource;

/// The built-in workflows. A file can override individual keys of these workflows.
pub(crate) const BUILT_IN: &str = r#"
[workflows.create]
verifier = "bmad-create"

[workflows.dev]
verifier = "bmad-dev"
retries = 4

[workflows.automate]
verifier = "bmad-automate"
escalate = "preference"

[workflows.review]
verifier = "bmad-review"
retries = 4

[workflows.retro]
verifier = "bmad-retro"
escalate = "preference"
"#;

/// Reads the built-in workflows.
pub(crate) fn built_in() -> DocumentReading {
    document::read("built-in", BUILT_IN, |_| ValueSource::Default)
}
