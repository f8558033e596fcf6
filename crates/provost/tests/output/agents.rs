//! Scenarios of the scripted agents.

/// Works on one instruction after another: writes a file named after its task, and claims completion.
pub(crate) const WORKER: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
repeat = { times = 20, steps = [
  { wait_input = { type = "instruction" } },
  { emit = { type = "turn_started", turn = "t" } },
  { run = ["sh", "-c", "id=$(printf '%s' \"$1\" | awk '/^## Your task/ { found = 1; next } found && NF { print; exit }' | sed 's/:.*//'); echo work > \"${id:-work}.txt\"", "sh", "{{input}}"] },
  { emit = { type = "usage", input = 1200, output = 340 } },
  { emit = { type = "claim", claim = "completed", text = "the work is written" } },
  { emit = { type = "turn_ended", turn = "t", status = "ok", text = "Done." } },
] }
"#;

/// Starts a turn and never ends it.
pub(crate) const BUSY: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t" }
[[step]]
emit = { type = "progress", done = 2, total = 5 }
[[step]]
hang = true
"#;

/// Asks a question with two choices.
pub(crate) const ASKER: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t" }
[[step]]
emit = { type = "request", id = "r", kind = "question", blocking = true, title = "the database", questions = [{ id = "db", question = "Where should the records be kept?", options = [{ label = "SQLite", description = "One file, no server." }, { label = "PostgreSQL", description = "A server that others share." }] }] }
[[step]]
hang = true
"#;

/// Asks for permission to run a command.
pub(crate) const APPROVER: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t" }
[[step]]
emit = { type = "request", id = "r", kind = "approval", blocking = true, title = "run cargo publish" }
[[step]]
hang = true
"#;
