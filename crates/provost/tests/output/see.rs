//! Commands that show sessions and runs.

use crate::{
    agents::{ASKER, BUSY, WORKER},
    recorder::Recorder,
};

/// A plan whose second task waits for a file, so that the graph shows several states.
const PLAN: &str = r#"
[[task]]
id = "money"
title = "Amounts of money"
instruction = "Write the type for amounts."
[[task]]
id = "cart"
title = "Shopping cart"
instruction = "Write the cart."
after = ["money"]
[[task]]
id = "tax"
title = "Taxes"
instruction = "Write the taxes."
after = ["money"]
[[task]]
id = "receipt"
title = "Receipt with taxes, discounts and the address of the shop"
instruction = "Write the receipt."
after = ["cart", "tax"]
"#;

#[test]
fn ls_status_logs_are_recorded() {
    let mut terminal = Recorder::new();
    terminal.configure(&[("asker", ASKER), ("busy", BUSY)], "");
    terminal.record("ls", "ls");
    terminal.open(
        "first",
        "spawn --name first --worktree --check 'grep -q hello GREETING.md' -- sh -c 'echo hello > GREETING.md; echo written'",
    );
    terminal.open(
        "wrong",
        "spawn --name wrong --worktree --check 'grep -q hello GREETING.md' -- sh -c 'echo bye > GREETING.md'",
    );
    terminal.open("crash", "spawn --name crash -- sh -c 'echo started; echo no disk >&2; exit 3'");
    for name in ["first", "wrong", "crash"] {
        terminal.home.wait_sealed(name);
    }
    terminal.open("asks", "spawn --name asks --agent asker 'Store the records.'");
    terminal.home.wait("asks", "needs_input");
    terminal.open("busy", "spawn --name parser-rewrite --agent busy 'Rewrite the parser.'");
    terminal.home.wait_state("parser-rewrite", |row| !row["progress"].is_null());
    terminal.record(
        "ls",
        "=| ls
        *| ls
        ls --state failed
        ls --all --limit 2
        ls --runs
        ls --state wroking
        ls --limit 0
        ls --project /nonexistent
        ls --all extra",
    );
    terminal.record(
        "status",
        "=| status first
        status wrong
        status crash
        =| status asks
        *| status asks
        *| status parser-rewrite
        =| status first --why
        status wrong --why
        status asks --why
        100| status crash --why
        =| status
        *| status
        status nothing
        status 0
        status --why
        status first --at yesterday",
    );
    terminal.record(
        "logs",
        "=| logs first
        logs crash
        logs crash --tail 1
        logs wrong --check 1
        100| logs crash
        logs nothing
        logs wrong --check 7
        logs first --check 1 -f
        logs first --since soon",
    );
    terminal.finish();
}

#[test]
fn graph_and_summary_are_recorded() {
    let mut terminal = Recorder::new();
    terminal.configure(&[("worker", WORKER)], "rework = 0\n[run]\nparallel = 1\n");
    terminal.write("plan.toml", PLAN);
    terminal.commit();
    terminal.open(
        "shop",
        "run --detach --name shop --plan plan.toml --agent worker --review-task off 'Build the shop.'",
    );
    terminal.home.wait_sealed("shop");
    terminal.open("plain", "spawn --name plain -- true");
    terminal.home.wait_sealed("plain");
    terminal.record(
        "graph",
        "=| graph shop
        *| graph shop
        graph nothing
        graph plain
        graph",
    );
    terminal.record(
        "summary",
        "=| summary shop
        summary nothing
        summary plain
        summary",
    );
    terminal.finish();
}
