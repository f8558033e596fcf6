//! Files of a repository that make Provost or an agent run something, or widen rights.
//!
//! An agent's change of them takes effect only with the operator's consent: landing waits, and checks use the
//! base's version.

/// Patterns of those files, at any depth of the repository, as git's `:(glob)` reads them. A directory is named
/// twice: a link or a file in its place counts too.
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

/// Returns the patterns of all files whose change an operator has to approve: [`TRUST_RELEVANT`] and those that the
/// project protects.
pub fn held_patterns(protected: &[String]) -> Vec<String> {
    let fixed = TRUST_RELEVANT.iter().map(|pattern| (*pattern).to_owned());
    fixed.chain(protected.iter().cloned()).collect()
}
