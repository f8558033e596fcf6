//! The settings of a thread. A user may change them on Codex's screen, and the ledger must record
//! such a change.

use serde_json::Value;

use super::wire::{bounded, text};

/// The maximum number of bytes of a value to show.
const MAX_SHOWN: usize = 100;

/// The settings for the next turn of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadSettings {
    model: Option<String>,
    effort: Option<String>,
    approvals: Option<String>,
    sandbox: Option<String>,
    network: Option<String>,
}

impl ThreadSettings {
    /// Reads the settings from the response that opens a thread.
    pub(crate) fn from_answer(answer: &Value) -> ThreadSettings {
        ThreadSettings::read(answer, "reasoningEffort", "sandbox")
    }

    /// Reads the settings from the notification about a change.
    pub(crate) fn from_notification(settings: &Value) -> ThreadSettings {
        ThreadSettings::read(settings, "effort", "sandboxPolicy")
    }

    fn read(reply: &Value, effort: &str, sandbox: &str) -> ThreadSettings {
        ThreadSettings {
            model: display_value(&reply["model"]),
            effort: display_value(&reply[effort]),
            approvals: display_value(&reply["approvalPolicy"]),
            sandbox: text(&reply[sandbox], "type").map(str::to_owned),
            network: display_value(&reply[sandbox]["networkAccess"]),
        }
    }

    /// Describes the changes between two versions of the settings. Returns `None` if there are
    /// none.
    pub(crate) fn describe_changes(&self, new: &ThreadSettings) -> Option<String> {
        let parts = [
            ("model", &self.model, &new.model),
            ("effort", &self.effort, &new.effort),
            ("approvals", &self.approvals, &new.approvals),
            ("sandbox", &self.sandbox, &new.sandbox),
            ("network", &self.network, &new.network),
        ];
        let changed = parts.into_iter().filter(|(_, before, after)| before != after);
        let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "default".to_owned());
        let changes = changed.map(|(name, before, after)| {
            format!("{name} {} instead of {}", word(after), word(before))
        });
        let changes = changes.collect::<Vec<_>>().join(", ");
        (!changes.is_empty())
            .then(|| format!("the settings of the conversation changed: {changes}"))
    }
}

fn display_value(value: &Value) -> Option<String> {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (!value.is_null()).then(|| bounded(&shown, MAX_SHOWN))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_changed_settings_are_reported() {
        let sandbox = json!({"type": "workspaceWrite", "networkAccess": false});
        let opened = ThreadSettings::from_answer(&json!({
            "model": "a", "reasoningEffort": null, "approvalPolicy": "on-request", "sandbox": sandbox,
        }));
        let mut settings = json!({
            "model": "a", "effort": null, "approvalPolicy": "on-request", "sandboxPolicy": sandbox,
            "serviceTier": "default",
        });
        assert_eq!(opened.describe_changes(&ThreadSettings::from_notification(&settings)), None);
        settings["model"] = json!("b");
        settings["effort"] = json!("high");
        settings["sandboxPolicy"] = json!({"type": "dangerFullAccess"});
        let changes =
            opened.describe_changes(&ThreadSettings::from_notification(&settings)).unwrap();
        assert_eq!(
            changes,
            "the settings of the conversation changed: model b instead of a, effort high instead \
             of default, sandbox dangerFullAccess instead of workspaceWrite, network default \
             instead of false"
        );
    }
}
