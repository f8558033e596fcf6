//! The items of a turn. Open items are remembered, because a request may refer to them.

use std::collections::VecDeque;

use serde_json::Value;

use super::{
    notification::ItemLocation,
    wire::{bounded, list, text},
};

/// The maximum number of open items to remember. If there are more, the oldest one is dropped.
const MAX_OPEN: usize = 200;

/// The maximum number of bytes of a diff to show for an approval.
const MAX_DIFF: usize = 32 << 10;

/// An item, with the fields that Provost uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnItem {
    AgentMessage {
        id: String,
        text: String,
        commentary: bool,
        asked: Vec<MessageQuestion>,
    },
    Command {
        id: String,
        command: Option<String>,
        cwd: Option<String>,
        done: Option<bool>,
    },
    FileChange {
        id: String,
        change: FileChangeSet,
        done: Option<bool>,
    },
    /// The conversation was compacted.
    Compaction {
        id: String,
    },
    Other {
        id: String,
    },
}

/// A question in a message. The agent does not wait for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageQuestion {
    pub(crate) title: String,
    pub(crate) options: Vec<String>,
}

/// The files that an item changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileChangeSet {
    pub(crate) paths: Vec<String>,
    pub(crate) diff: String,
}

impl TurnItem {
    /// Parses an item. Returns `None` if the item has no id, because a request could not refer to
    /// it.
    pub(crate) fn read(value: &Value) -> Option<TurnItem> {
        let id = text(value, "id")?.to_owned();
        let owned = |key| text(value, key).map(str::to_owned);
        Some(match text(value, "type").unwrap_or_default() {
            "agentMessage" => TurnItem::AgentMessage {
                id,
                text: owned("text").unwrap_or_default(),
                commentary: text(value, "phase") == Some("commentary"),
                asked: parse_questions(value),
            },
            "commandExecution" => TurnItem::Command {
                id,
                command: owned("command"),
                cwd: owned("cwd"),
                done: was_carried_out(value),
            },
            "fileChange" => TurnItem::FileChange {
                id,
                change: FileChangeSet::read(value),
                done: was_carried_out(value),
            },
            "contextCompaction" => TurnItem::Compaction { id },
            _ => TurnItem::Other { id },
        })
    }

    pub(crate) fn id(&self) -> &str {
        match self {
            TurnItem::AgentMessage { id, .. }
            | TurnItem::Command { id, .. }
            | TurnItem::FileChange { id, .. }
            | TurnItem::Compaction { id }
            | TurnItem::Other { id } => id,
        }
    }

    /// Returns whether the item was carried out. Returns `None` if the item is still in progress,
    /// or if it is not known whether it was carried out.
    pub(crate) fn done(&self) -> Option<bool> {
        match self {
            TurnItem::Command { done, .. } | TurnItem::FileChange { done, .. } => *done,
            TurnItem::AgentMessage { .. }
            | TurnItem::Compaction { .. }
            | TurnItem::Other { .. } => None,
        }
    }
}

/// Returns whether an item was carried out. A failed command was run if it has an exit status. For
/// other failed items, it is unknown whether they were started.
fn was_carried_out(item: &Value) -> Option<bool> {
    match text(item, "status")? {
        "completed" => Some(true),
        "failed" if item["exitCode"].is_i64() => Some(true),
        "declined" => Some(false),
        _ => None,
    }
}

fn parse_questions(message: &Value) -> Vec<MessageQuestion> {
    if text(message, "delivery") != Some("async") {
        return Vec::new();
    }
    let question = |question: &Value| {
        let options = list(question, "options").iter().filter_map(Value::as_str);
        Some(MessageQuestion {
            title: text(question, "title")?.to_owned(),
            options: options.map(str::to_owned).collect(),
        })
    };
    list(message, "questions").iter().filter_map(question).collect()
}

impl FileChangeSet {
    fn read(item: &Value) -> FileChangeSet {
        let changes = list(item, "changes");
        let paths = changes.iter().flat_map(|change| {
            [text(change, "path"), text(&change["kind"], "move_path")].into_iter().flatten()
        });
        let diff: String = changes.iter().map(describe_change).collect();
        FileChangeSet { paths: paths.map(str::to_owned).collect(), diff: bounded(&diff, MAX_DIFF) }
    }
}

fn describe_change(change: &Value) -> String {
    let kind = text(&change["kind"], "type").unwrap_or("change");
    let diff = text(change, "diff").unwrap_or_default();
    format!("{kind} {}\n{}\n", text(change, "path").unwrap_or("?"), diff.trim_end())
}

/// The open items to which a request may refer.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenItems(VecDeque<(ItemLocation, TurnItem)>);

impl OpenItems {
    pub(crate) fn open(&mut self, place: ItemLocation, item: TurnItem) {
        if matches!(
            item,
            TurnItem::AgentMessage { .. } | TurnItem::Compaction { .. } | TurnItem::Other { .. }
        ) {
            return;
        }
        self.close(item.id());
        self.0.push_back((place, item));
        if self.0.len() > MAX_OPEN {
            self.0.pop_front();
        }
    }

    pub(crate) fn close(&mut self, id: &str) {
        self.0.retain(|(_, item)| item.id() != id);
    }

    /// Closes the items of a turn that has ended, because an interrupted item never completes.
    pub(crate) fn close_turn(&mut self, turn: &str) {
        self.0.retain(|(place, _)| place.turn != turn);
    }

    pub(crate) fn find(&self, id: &str) -> Option<&TurnItem> {
        self.0.iter().map(|(_, item)| item).find(|item| item.id() == id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn command(id: &str) -> TurnItem {
        TurnItem::read(&json!({"type": "commandExecution", "id": id, "command": "ls"})).unwrap()
    }

    fn place(turn: &str) -> ItemLocation {
        ItemLocation { thread: None, turn: turn.to_owned() }
    }

    #[test]
    fn unfinished_items_close_with_their_turn() {
        let mut open = OpenItems::default();
        open.open(place("a"), command("1"));
        open.open(place("b"), command("2"));
        open.close_turn("a");
        assert_eq!((open.find("1"), open.find("2").is_some()), (None, true));
    }

    #[test]
    fn open_items_are_bounded() {
        let mut open = OpenItems::default();
        for no in 0..1000 {
            open.open(place("a"), command(&no.to_string()));
        }
        assert_eq!(open.0.len(), MAX_OPEN);
        assert!(open.find("999").is_some());
    }

    #[test]
    fn change_includes_move_target() {
        let item = json!({"type": "fileChange", "id": "1", "changes": [
            {"path": "/a", "kind": {"type": "update", "move_path": "/b"}, "diff": "@@\n-x\n"}]});
        let Some(TurnItem::FileChange { change, .. }) = TurnItem::read(&item) else { panic!() };
        assert_eq!(change.paths, ["/a", "/b"]);
        assert_eq!(change.diff, "update /a\n@@\n-x\n");
    }
}
