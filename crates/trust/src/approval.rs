//! Repository files that make Provost or an agent run something, or that grant permissions.
//!
//! If an agent changes such a file, the change takes effect only with the operator's consent:
//! landing waits for the consent, and checks use the base's version of the file. The list includes
//! the files of agents that Provost cannot start, because the operator may start them in the same
//! repository.

/// Patterns for trust-relevant files at any depth of the repository, in git's `:(glob)` syntax. A
/// directory is listed twice, because a symlink or a file with the same name counts as well.
pub const TRUST_RELEVANT: &[&str] = &[
    "**/provost.toml",
    "**/WORKFLOW.md",
    "**/.codex",
    "**/.codex/**",
    "**/.claude",
    "**/.claude/**",
    "**/.mcp.json",
    "**/.gemini",
    "**/.gemini/**",
    "**/.opencode",
    "**/.opencode/**",
    "**/opencode.json",
    "**/opencode.jsonc",
];

/// Returns the patterns for all files whose changes the operator must approve: [`TRUST_RELEVANT`]
/// and the patterns of the files that the project protects.
pub fn approval_patterns(protected: &[String]) -> Vec<String> {
    let fixed = TRUST_RELEVANT.iter().map(|pattern| (*pattern).to_owned());
    fixed.chain(protected.iter().cloned()).collect()
}
