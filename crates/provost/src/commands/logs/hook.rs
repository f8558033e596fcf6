//! Selects one of a session's hooks.

use provost_api::{ApiError, ErrorCode, HookResultName, HookRow, SessionRow};

use crate::ui;

/// Finds a hook by its number or by its event, and returns the hook and its index in the row. An
/// empty name selects the most recent failed hook.
pub(super) fn find<'a>(row: &'a SessionRow, which: &str) -> Result<(usize, &'a HookRow), ApiError> {
    let hooks: Vec<(usize, &HookRow)> = row.hooks.iter().enumerate().collect();
    let newest = |wanted: &dyn Fn(&HookRow) -> bool| {
        hooks.iter().rev().copied().find(|(_, hook)| wanted(hook))
    };
    let found = match which.parse::<usize>() {
        Ok(no) => no.checked_sub(1).and_then(|at| hooks.get(at).copied()),
        Err(_) if which.is_empty() => newest(&has_failed).or_else(|| newest(&|_| true)),
        Err(_) => newest(&|hook| is_named(hook, which)),
    };
    found.ok_or_else(|| {
        let id = ui::short_id(&row.id);
        let events: Vec<&str> = row.hooks.iter().map(|hook| hook.event.as_str()).collect();
        let message = if events.is_empty() {
            format!("session {id} has not run any hooks")
        } else {
            format!("session {id} has no hook {which:?}; it has {}", events.join(", "))
        };
        ApiError::new(ErrorCode::NotFound, message).next(format!("provost status {id}"))
    })
}

fn has_failed(hook: &HookRow) -> bool {
    matches!(hook.result.known(), Some(HookResultName::Failed | HookResultName::Uncertain))
}

/// Whether the name matches the hook's event. The prefix `session.` is optional.
fn is_named(hook: &HookRow, name: &str) -> bool {
    hook.event == name || hook.event.strip_prefix("session.") == Some(name)
}

#[cfg(test)]
mod tests {
    use provost_api::Extensible;

    use super::*;
    use crate::ui::test_session;

    fn hook(event: &str, occasion: u32, result: &str) -> HookRow {
        HookRow {
            event: event.to_owned(),
            occasion,
            command: "true".to_owned(),
            result: Extensible::from_name(result),
            detail: None,
            output: None,
        }
    }

    #[test]
    fn hook_is_found_by_number_event_or_failure() {
        let mut row = test_session("x", "completed");
        assert!(find(&row, "").is_err());
        row.hooks = vec![
            hook("session.needs_input", 1, "failed"),
            hook("session.needs_input", 2, "ok"),
            hook("session.completed", 1, "ok"),
        ];
        let place = |which: &str| find(&row, which).map(|(at, _)| at).ok();
        assert_eq!(
            (place("1"), place("3"), place("4"), place("0")),
            (Some(0), Some(2), None, None)
        );
        assert_eq!((place("needs_input"), place("session.completed")), (Some(1), Some(2)));
        assert_eq!((place(""), place("failed")), (Some(0), None));
    }
}
