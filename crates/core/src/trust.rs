//! Repository files that make Provost or an agent run something, or that grant permissions.
//!
//! An agent's change to them takes effect only with the operator's consent: landing waits, and checks
//! use the base's version.

/// Patterns of those files at any depth of the repository, in git's `:(glob)` syntax. A directory is
/// listed twice, because a symlink or a file in its place counts too.
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

/// Returns the patterns of all files whose change the operator must approve: [`TRUST_RELEVANT`] and
/// those that the project protects.
pub fn approval_patterns(protected: &[String]) -> Vec<String> {
    let fixed = TRUST_RELEVANT.iter().map(|pattern| (*pattern).to_owned());
    fixed.chain(protected.iter().cloned()).collect()
}
