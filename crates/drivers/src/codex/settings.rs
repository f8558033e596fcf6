//! The settings of a thread. A user at its screen may change them, and the ledger has to record
//! that.

use serde_json::Value;

use super::wire::{bounded, text};

/// Maximum bytes shown of one value.
const MAX_SHOWN: usize = 100;

/// The settings of a thread's next turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    model: Option<String>,
    effort: Option<String>,
    approvals: Option<String>,
    sandbox: Option<String>,
    network: Option<String>,
}

impl Settings {
    /// Parses the settings in the answer that opens a thread.
    pub(crate) fn opened(answer: &Value) -> Settings {
        Settings::read(answer, "reasoningEffort", "sandbox")
    }

    /// Parses the settings in the notification of a change.
    pub(crate) fn updated(settings: &Value) -> Settings {
        Settings::read(settings, "effort", "sandboxPolicy")
    }

    fn read(told: &Value, effort: &str, sandbox: &str) -> Settings {
        Settings {
            model: shown(&told["model"]),
            effort: shown(&told[effort]),
            approvals: shown(&told["approvalPolicy"]),
            sandbox: text(&told[sandbox], "type").map(str::to_owned),
            network: shown(&told[sandbox]["networkAccess"]),
        }
    }

    /// Describes the changes, if there are any.
    pub(crate) fn changes(&self, new: &Settings) -> Option<String> {
        let parts = [
            ("model", &self.model, &new.model),
            ("effort", &self.effort, &new.effort),
            ("approvals", &self.approvals, &new.approvals),
            ("sandbox", &self.sandbox, &new.sandbox),
            ("network", &self.network, &new.network),
        ];
        let changed = parts.into_iter().filter(|(_, before, after)| before != after);
        let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "default".to_owned());
        let told = changed.map(|(name, before, after)| {
            format!("{name} {} instead of {}", word(after), word(before))
        });
        let told = told.collect::<Vec<_>>().join(", ");
        (!told.is_empty()).then(|| format!("its settings changed: {told}"))
    }
}

fn shown(value: &Value) -> Option<String> {
    let told = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (!value.is_null()).then(|| bounded(&told, MAX_SHOWN))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_otherwise_now_is_told() {
        let sandbox = json!({"type": "workspaceWrite", "networkAccess": false});
        let opened = Settings::opened(&json!({
            "model": "a", "reasoningEffort": null, "approvalPolicy": "on-request", "sandbox": sandbox,
        }));
        let mut told = json!({
            "model": "a", "effort": null, "approvalPolicy": "on-request", "sandboxPolicy": sandbox,
            "serviceTier": "default",
        });
        assert_eq!(opened.changes(&Settings::updated(&told)), None);
        told["model"] = json!("b");
        told["effort"] = json!("high");
        told["sandboxPolicy"] = json!({"type": "dangerFullAccess"});
        let changes = opened.changes(&Settings::updated(&told)).unwrap();
        assert_eq!(
            changes,
            "its settings changed: model b instead of a, effort high instead of default, \
             sandbox dangerFullAccess instead of workspaceWrite, network default instead of false"
        );
    }
}
