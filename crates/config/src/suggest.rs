//! Suggests the existing name that is most similar to a mistyped name.

use crate::pattern;
use crate::problem::quote;
use crate::shape::one_of;

/// Maximum length of a name to compare, because the comparison is quadratic and the name is untrusted.
const MAX_COMPARED: usize = 128;

/// Returns the most similar name, if the given name can be a typo of that name.
pub(crate) fn nearest<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if given.len() > MAX_COMPARED {
        return None;
    }
    let near = names
        .into_iter()
        .filter_map(|name| typo_distance(given, name).map(|distance| (distance, name)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// Suggests the most similar of a few names, or lists all of them.
pub(crate) fn suggest_among(given: &str, names: &[&'static str]) -> String {
    match nearest(given, names.iter().copied()) {
        Some(name) => did_you_mean(name),
        None => format!("expected {}", one_of(names)),
    }
}

/// Suggests a key for an unknown path, or lists the names that are possible there.
pub(crate) fn suggest_for_path(path: &[String]) -> String {
    if let Some(why) = pattern::built_in_fault(path) {
        return why;
    }
    let candidates = pattern::candidates(path);
    let as_deep = candidates.iter().filter(|name| name.split('.').count() == path.len());
    let suggestion = nearest(&path.join("."), as_deep.map(String::as_str));
    match suggestion.or_else(|| same_last_name(path, &candidates)) {
        Some(name) => did_you_mean(name),
        None => expected_below(path),
    }
}

fn did_you_mean(name: &str) -> String {
    format!("did you mean {}?", quote(name))
}

/// Returns a key in another section with the same last name.
fn same_last_name<'a>(path: &[String], candidates: &'a [String]) -> Option<&'a str> {
    let leaf = path.last()?;
    let ends = |name: &&String| name.rsplit('.').next() == Some(leaf) && **name != *leaf;
    candidates.iter().find(ends).map(String::as_str)
}

/// Lists the names that are possible at the deepest valid point of the path.
fn expected_below(path: &[String]) -> String {
    let known = (0..path.len()).rev().map(|length| &path[..length]);
    let names = known.map(pattern::children).find(|names| !names.is_empty()).unwrap_or_default();
    format!("expected {}", one_of(&names))
}

/// Returns the edit distance between two dotted names, unless it is too large for a typo. Leading
/// segments that both names share do not increase the allowed distance.
fn typo_distance(given: &str, name: &str) -> Option<usize> {
    let (given, name) = without_shared_segments(given, name);
    let distance = strsim::osa_distance(given, name);
    let allowed = given.chars().count().max(name.chars().count()).max(3) / 3;
    (distance <= allowed).then_some(distance)
}

fn without_shared_segments<'a>(mut left: &'a str, mut right: &'a str) -> (&'a str, &'a str) {
    while let (Some((head, left_rest)), Some((other, right_rest))) =
        (left.split_once('.'), right.split_once('.'))
    {
        if head != other {
            break;
        }
        (left, right) = (left_rest, right_rest);
    }
    (left, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(path: &str) -> String {
        suggest_for_path(&path.split('.').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn typos_are_recognized_at_every_depth() {
        assert_eq!(hint("sesion"), r#"did you mean "session"?"#);
        assert_eq!(hint("sesion.settle"), r#"did you mean "session.settle"?"#);
        assert_eq!(hint("session.setlte"), r#"did you mean "session.settle"?"#);
        assert_eq!(hint("session.time-limit"), r#"did you mean "session.time_limit"?"#);
        assert_eq!(hint("hooks.session.complete"), r#"did you mean "hooks.session.completed"?"#);
        assert_eq!(hint("agents.mine.comand"), r#"did you mean "agents.mine.command"?"#);
    }

    #[test]
    fn a_key_in_the_wrong_section_is_recognised() {
        assert_eq!(hint("settle"), r#"did you mean "session.settle"?"#);
        assert_eq!(hint("session.checks"), r#"did you mean "verify.checks"?"#);
    }

    #[test]
    fn unknown_name_lists_alternatives() {
        assert_eq!(
            hint("quux.quux"),
            r#"expected "session", "verify", "run", "review", "prices", "prompts", "worktree", "git", "terminal", "budget", "approvals", "skills", "hooks", "reactions", "agents", "monitor", "verifiers", "workflows", "loops", "policies", "environment", "ui" or "presets""#
        );
        assert_eq!(
            hint("agents.mine.quux"),
            r#"expected "adapter", "command", "env" or "pass_env""#
        );
        assert_eq!(hint("ui.quux"), r#"expected "color""#);
    }

    #[test]
    fn overlong_name_is_not_compared() {
        assert!(hint(&"x".repeat(1 << 20)).starts_with("expected"));
    }
}
