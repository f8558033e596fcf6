//! Checks the licences of the packages that the programs contain.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{print::print_line, process::capture, workspace::Workspace};

/// The licences that a package may have. None of them requires the sources of the whole program.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The platform whose packages are checked. Packages of other platforms need not be downloaded.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let arguments =
        ["metadata", "--locked", "--format-version", "1", "--filter-platform", PLATFORM];
    let metadata: Value = serde_json::from_str(&capture(workspace.cargo().args(arguments))?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let refused: Vec<String> = packages.iter().filter_map(refusal).collect();
    if !refused.is_empty() {
        bail!(
            "{} packages have a licence that is not allowed:\n{}",
            refused.len(),
            refused.join("\n")
        );
    }
    print_line(&format!("── licences: {} packages, 0 problems", packages.len()));
    Ok(())
}

/// Returns the reason for which a package may not be used.
fn refusal(package: &Value) -> Option<String> {
    let name = package["name"].as_str().unwrap_or("?");
    match package["license"].as_str() {
        Some(licence) if is_allowed(licence) => None,
        Some(licence) => Some(format!("{name}: {licence}")),
        None => Some(format!("{name}: it states no licence")),
    }
}

/// Whether a licence expression can be satisfied with allowed licences. Each part that is joined by
/// `AND` needs one allowed alternative.
fn is_allowed(expression: &str) -> bool {
    let mut parts = expression.split(" AND ").map(|part| part.trim_matches(['(', ')']));
    parts.all(|part| {
        let mut alternatives = part.split(" OR ").flat_map(|one| one.split('/'));
        alternatives.any(|one| ALLOWED.contains(&one.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_compared_with_the_list() {
        for fine in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR GPL-3.0) AND Zlib"] {
            assert!(is_allowed(fine), "{fine}");
        }
        for wrong in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND AGPL-3.0"] {
            assert!(!is_allowed(wrong), "{wrong}");
        }
    }

    #[test]
    fn package_without_licence_is_refused() {
        let package = serde_json::json!({"name": "x", "license": null});
        assert_eq!(refusal(&package).as_deref(), Some("x: it states no licence"));
    }
}
