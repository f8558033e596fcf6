//! Paths inside a repository, and branch prefixes.

use std::fmt;

use serde_json::{Value as Json, json};

use crate::node::ValueNode;
use crate::problem::ValueFault;
use crate::shape::{TextLabel, ValueShape};
use crate::value::{ConfigValue, invalid, text};

/// A path or glob that stays below the worktree's root and outside its `.git`. Code that opens such
/// a path must reject symbolic links along the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativePattern(String);

/// The name of a directory at any depth: one part of a path, without wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryName(String);

/// The prefix of a branch name, before the slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchPrefix(String);

impl RelativePattern {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DirectoryName {
    /// Maximum length in bytes.
    const MAX: usize = 100;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl BranchPrefix {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BranchPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ConfigValue for RelativePattern {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel {
            one: "relative path or glob",
            many: "relative paths or globs",
        })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let text = text::<Self>(node)?;
        match path_fault(text) {
            Some(why) => Err(invalid(node, why)),
            None => Ok(Self(text.to_owned())),
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl ConfigValue for DirectoryName {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "directory name", many: "directory names" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let text = text::<Self>(node)?;
        if is_directory_name(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(invalid(
                node,
                r#"expected the name of a directory, such as "target": up to 100 letters, digits, "-", "_" or ".", without "/" and "*""#,
            ))
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl ConfigValue for BranchPrefix {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "branch prefix", many: "branch prefixes" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let text = text::<Self>(node)?;
        if text.split('/').all(is_branch_part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(invalid(
                node,
                r#"a branch prefix has parts of letters, digits, "-", "_" or ".", separated by "/""#,
            ))
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

fn path_fault(path: &str) -> Option<&'static str> {
    let mut parts = path.split('/');
    if path.is_empty() {
        Some("the path is empty")
    } else if path.chars().any(char::is_control) {
        Some("the path contains a control character")
    } else if path.starts_with(['/', '~', '!']) || path.contains('\\') {
        Some(r#"expected a path relative to the worktree, without "~", "!" or "\""#)
    } else if parts.clone().any(|part| part == "..") {
        Some(r#"the path leaves the worktree through "..""#)
    } else if parts.any(|part| part.eq_ignore_ascii_case(".git")) {
        Some(r#"the path is inside ".git""#)
    } else {
        None
    }
}

/// Whether a checkout can keep a directory of this name. The git wrapper's pool has the same rule.
/// Otherwise, an accepted name could make every check fail.
fn is_directory_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty()
        && name.len() <= DirectoryName::MAX
        && name.bytes().all(plain)
        && !name.starts_with('-')
        && ![".", "..", ".git"].contains(&name.to_ascii_lowercase().as_str())
}

/// Whether a text can be a part of a branch name. This is stricter than git's own rule, so that
/// every resulting name is a valid reference.
fn is_branch_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !part.is_empty()
        && part.bytes().all(plain)
        && !part.starts_with(['-', '.'])
        && !part.ends_with('.')
        && !part.ends_with(".lock")
        && !part.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_the_worktree() {
        for path in ["target", "a/b", "**/*.yml", ".env", ".github/**", "a..b", ".gitignore"] {
            assert_eq!(path_fault(path), None, "{path}");
        }
        for path in [
            "",
            "/etc",
            "~/x",
            "..",
            "a/../b",
            "a/..",
            ".git",
            "a/.GIT/hooks",
            "a\nb",
            "!x",
            "a\\b",
            "a\0",
        ] {
            assert!(path_fault(path).is_some(), "{path:?} was taken");
        }
    }

    #[test]
    fn directory_names_are_one_part_without_wildcards() {
        for name in ["target", "node_modules", ".venv", "a-b.c"] {
            assert!(is_directory_name(name), "{name}");
        }
        let long = "x".repeat(101);
        for name in ["", "*", "a/b", "..", ".", ".git", ".GIT", "-x", "a b", "!x", "tärget", &long]
        {
            assert!(!is_directory_name(name), "{name:?} was taken");
        }
    }

    #[test]
    fn branch_prefixes_make_valid_references() {
        for prefix in ["provost", "team/provost", "a.b", "x_1"] {
            assert!(BranchPrefix::read(&ValueNode::written(prefix)).is_ok(), "{prefix}");
        }
        for prefix in [
            "", "/", "a/", "/a", "a//b", "-a", ".a", "a.", "a.lock", "a..b", "a b", "a~", "a:",
            "é", "@{",
        ] {
            assert!(
                BranchPrefix::read(&ValueNode::written(prefix)).is_err(),
                "{prefix:?} was taken"
            );
        }
    }
}
