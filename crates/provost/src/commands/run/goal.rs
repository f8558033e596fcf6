//! The goal of a run: a text, a spec, or both.

use std::{io::Read as _, path::Path};

use provost_api::ApiError;

use crate::{commands::input, error::usage};

/// The maximum length of a goal in bytes. The goal is part of every prompt and list.
const MAX_GOAL: usize = 64 << 10;

/// The maximum size of a spec in bytes. The whole spec is part of every prompt, and the ledger stores every prompt.
pub(crate) const MAX_SPEC: u64 = 256 << 10;

/// The goal of a run.
#[derive(Debug)]
pub(crate) struct RunGoal {
    pub(crate) goal: String,
    pub(crate) spec: Option<String>,
    /// The text from which branch names are derived.
    pub(crate) about: String,
}

/// Reads the goal and the spec.
pub(super) fn read_goal(goal: Option<&str>, spec: Option<&Path>) -> Result<RunGoal, ApiError> {
    let text = spec.map(read_spec).transpose()?;
    match (goal, spec) {
        (Some(goal), _) => {
            let goal = input::read_text("the goal", goal)?;
            if goal.len() > MAX_GOAL {
                let message = format!(
                    "the goal has {} bytes, but the limit is {MAX_GOAL}; put the details into a spec",
                    goal.len()
                );
                return Err(usage(message).next("provost run GOAL --spec FILE"));
            }
            Ok(RunGoal { about: goal.clone(), goal, spec: text })
        }
        (None, Some(file)) => {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let goal = "Do what the specification says.".to_owned();
            Ok(RunGoal { goal, spec: text, about: stem })
        }
        (None, None) => Err(usage("no goal given: pass a goal, or a file with --spec")
            .next("provost run GOAL")
            .next("provost run --spec FILE")),
    }
}

/// Reads a spec. The run stores its text, because the file may change later.
fn read_spec(path: &Path) -> Result<String, ApiError> {
    let error = |why: String| usage(format!("cannot read the spec {}: {why}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|why| error(why.to_string()))?;
    file.take(MAX_SPEC + 1).read_to_end(&mut bytes).map_err(|why| error(why.to_string()))?;
    if bytes.len() as u64 > MAX_SPEC {
        return Err(error(format!("the file is larger than {MAX_SPEC} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| error("the file is not UTF-8".to_owned()))?;
    if text.trim().is_empty() { Err(error("the file is empty".to_owned())) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_or_spec_suffices_and_both_are_limited() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rate-limits.md");
        std::fs::write(&file, "# Limits\n").unwrap();
        assert_eq!(read_goal(Some("do it"), None).unwrap().goal, "do it");
        let only = read_goal(None, Some(&file)).unwrap();
        assert_eq!(
            (only.about.as_str(), only.spec.as_deref()),
            ("rate-limits", Some("# Limits\n"))
        );
        let both = read_goal(Some("do it"), Some(&file)).unwrap();
        assert_eq!((both.about.as_str(), both.spec.is_some()), ("do it", true));

        for bad in [b" \n".to_vec(), vec![b'x'; MAX_SPEC as usize + 1], vec![0xff]] {
            std::fs::write(&file, bad).unwrap();
            assert!(
                read_goal(Some("do it"), Some(&file))
                    .unwrap_err()
                    .message
                    .contains("rate-limits.md")
            );
        }
        assert!(read_goal(Some(&"x".repeat(MAX_GOAL + 1)), None).is_err());
        assert!(read_goal(None, Some(&dir.path().join("none"))).is_err());
        assert!(read_goal(None, None).is_err());
    }
}
