//! Items: the parts of a turn. Those that a request may refer to are kept while they are open.

use std::collections::VecDeque;

use serde_json::Value;

use super::{
    notes::Place,
    wire::{bounded, list, text},
};

/// Maximum number of remembered open items; beyond it the oldest is dropped.
const MAX_OPEN: usize = 200;

/// Maximum bytes of a diff shown for approval.
const MAX_DIFF: usize = 32 << 10;

/// An item, with the fields that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    AgentMessage {
        id: String,
        text: String,
        commentary: bool,
        asked: Vec<Beside>,
    },
    Command {
        id: String,
        command: Option<String>,
        cwd: Option<String>,
        done: Option<bool>,
    },
    FileChange {
        id: String,
        change: Change,
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

/// A question in a message, which does not block the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) title: String,
    pub(crate) options: Vec<String>,
}

/// The files that an item changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) paths: Vec<String>,
    pub(crate) diff: String,
}

impl Item {
    /// Parses an item. Returns None without an id, the only way to find it later.
    pub(crate) fn read(value: &Value) -> Option<Item> {
        let id = text(value, "id")?.to_owned();
        let owned = |key| text(value, key).map(str::to_owned);
        Some(match text(value, "type").unwrap_or_default() {
            "agentMessage" => Item::AgentMessage {
                id,
                text: owned("text").unwrap_or_default(),
                commentary: text(value, "phase") == Some("commentary"),
                asked: asked(value),
            },
            "commandExecution" => Item::Command {
                id,
                command: owned("command"),
                cwd: owned("cwd"),
                done: done(value),
            },
            "fileChange" => Item::FileChange { id, change: Change::read(value), done: done(value) },
            "contextCompaction" => Item::Compaction { id },
            _ => Item::Other { id },
        })
    }

    pub(crate) fn id(&self) -> &str {
        match self {
            Item::AgentMessage { id, .. }
            | Item::Command { id, .. }
            | Item::FileChange { id, .. }
            | Item::Compaction { id }
            | Item::Other { id } => id,
        }
    }

    /// Returns whether the item was carried out, if it is over and that is reported.
    pub(crate) fn done(&self) -> Option<bool> {
        match self {
            Item::Command { done, .. } | Item::FileChange { done, .. } => *done,
            Item::AgentMessage { .. } | Item::Compaction { .. } | Item::Other { .. } => None,
        }
    }
}

/// A command that failed was run if it has an exit status. Other failed items may or may not have
/// started.
fn done(item: &Value) -> Option<bool> {
    match text(item, "status")? {
        "completed" => Some(true),
        "failed" if item["exitCode"].is_i64() => Some(true),
        "declined" => Some(false),
        _ => None,
    }
}

fn asked(message: &Value) -> Vec<Beside> {
    if text(message, "delivery") != Some("async") {
        return Vec::new();
    }
    let question = |question: &Value| {
        let options = list(question, "options").iter().filter_map(Value::as_str);
        Some(Beside {
            title: text(question, "title")?.to_owned(),
            options: options.map(str::to_owned).collect(),
        })
    };
    list(message, "questions").iter().filter_map(question).collect()
}

impl Change {
    fn read(item: &Value) -> Change {
        let changes = list(item, "changes");
        let paths = changes.iter().flat_map(|change| {
            [text(change, "path"), text(&change["kind"], "move_path")].into_iter().flatten()
        });
        let diff: String = changes.iter().map(told).collect();
        Change { paths: paths.map(str::to_owned).collect(), diff: bounded(&diff, MAX_DIFF) }
    }
}

fn told(change: &Value) -> String {
    let kind = text(&change["kind"], "type").unwrap_or("change");
    let diff = text(change, "diff").unwrap_or_default();
    format!("{kind} {}\n{}\n", text(change, "path").unwrap_or("?"), diff.trim_end())
}

/// The open items that a request may refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenItems(VecDeque<(Place, Item)>);

impl OpenItems {
    pub(crate) fn open(&mut self, place: Place, item: Item) {
        if matches!(item, Item::AgentMessage { .. } | Item::Compaction { .. } | Item::Other { .. })
        {
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

    /// Closes the items of an ended turn; an interrupted item never completes.
    pub(crate) fn close_turn(&mut self, turn: &str) {
        self.0.retain(|(place, _)| place.turn != turn);
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Item> {
        self.0.iter().map(|(_, item)| item).find(|item| item.id() == id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn command(id: &str) -> Item {
        Item::read(&json!({"type": "commandExecution", "id": id, "command": "ls"})).unwrap()
    }

    fn place(turn: &str) -> Place {
        Place { thread: None, turn: turn.to_owned() }
    }

    #[test]
    fn items_that_never_complete_are_closed_with_their_turn() {
        let mut open = OpenItems::default();
        open.open(place("a"), command("1"));
        open.open(place("b"), command("2"));
        open.close_turn("a");
        assert_eq!((open.find("1"), open.find("2").is_some()), (None, true));
    }

    #[test]
    fn the_memory_of_open_items_is_bounded() {
        let mut open = OpenItems::default();
        for no in 0..1000 {
            open.open(place("a"), command(&no.to_string()));
        }
        assert_eq!(open.0.len(), MAX_OPEN);
        assert!(open.find("999").is_some());
    }

    #[test]
    fn a_change_names_where_a_file_is_moved_to() {
        let item = json!({"type": "fileChange", "id": "1", "changes": [
            {"path": "/a", "kind": {"type": "update", "move_path": "/b"}, "diff": "@@\n-x\n"}]});
        let Some(Item::FileChange { change, .. }) = Item::read(&item) else { panic!() };
        assert_eq!(change.paths, ["/a", "/b"]);
        assert_eq!(change.diff, "update /a\n@@\n-x\n");
    }
}
