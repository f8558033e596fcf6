//! Commands that change sessions and runs.

use crate::{
    agents::{APPROVER, ASKER, BUSY, WORKER},
    recorder::Recorder,
};

/// The environment of this group: sessions of every agent, and a plain command that ended.
fn sessions() -> Recorder {
    let mut terminal = Recorder::new();
    let agents = [("asker", ASKER), ("approver", APPROVER), ("busy", BUSY), ("worker", WORKER)];
    terminal.configure(&agents, "");
    terminal.open("ended", "spawn --name ended -- sh -c 'echo done'");
    terminal.home.wait_sealed("ended");
    terminal
}

impl Recorder {
    /// Starts a session of an agent and waits for a state.
    fn start(&mut self, name: &'static str, agent: &str, state: &str) {
        self.open(name, &format!("spawn --name {name} --agent {agent} 'Begin.'"));
        self.home.wait(name, state);
    }

    /// Starts a session of the agent `busy` and waits until its turn has begun.
    fn start_busy(&mut self, name: &'static str) {
        self.start(name, "busy", "working");
        self.home.wait_state(name, |row| !row["progress"].is_null());
    }
}

#[test]
fn requests_and_messages_are_recorded() {
    let mut terminal = sessions();
    for name in ["ask1", "ask2", "ask3"] {
        terminal.start(name, "asker", "needs_input");
    }
    terminal.record(
        "answer",
        "answer ask1 SQLite
        answer ask2 --json SQLite
        answer nothing SQLite
        answer ended SQLite
        answer ask3 SQLite --revision 7
        answer ask3
        answer ask3 ''",
    );
    for name in ["approve1", "approve2", "approve3", "deny1", "deny2"] {
        terminal.start(name, "approver", "needs_input");
    }
    terminal.record(
        "approve",
        "approve approve1
        approve approve2 --json
        approve nothing
        approve ended
        approve ask3
        approve approve3 --revision 7
        approve",
    );
    terminal.record(
        "deny",
        "deny deny1
        deny deny2 --json
        deny nothing
        deny ended
        deny ask3
        deny",
    );
    terminal.start_busy("busy1");
    terminal.record("send", "send busy1 'Begin with the tests.'");
    terminal.home.wait_state("busy1", |row| row["messages"][1]["status"] == "delivered");
    terminal.record(
        "send",
        "send busy1 'Then the parser.' --json
        send busy1 - < And the rest.
        send nothing hello
        send ended hello
        send busy1 '  '
        send busy1",
    );
    terminal.record(
        "rename",
        "rename busy1 parser
        rename parser lexer --json
        rename nothing name
        rename lexer 'two\u{1b}words'
        rename lexer ''
        rename lexer",
    );
    terminal.finish();
}

#[test]
fn processes_are_controlled_as_recorded() {
    let mut terminal = sessions();
    for name in ["busy1", "busy2", "busy3", "busy4"] {
        terminal.start_busy(name);
    }
    terminal.record(
        "interrupt",
        "interrupt busy1
        interrupt busy2 --json
        interrupt nothing
        interrupt ended
        interrupt
        interrupt --member hand",
    );
    terminal.record(
        "compact",
        "compact busy3
        compact busy4 --json
        compact nothing
        compact ended
        compact",
    );
    terminal.record(
        "limit",
        "limit busy3 --tokens 500k
        limit busy3 --turns 20 --json
        limit nothing --tokens 1M
        limit ended --tokens 1M
        limit busy3 --output 1KiB
        limit busy3
        limit busy3 --tokens much",
    );
    terminal.record(
        "attach",
        "attach busy3
        attach nothing
        attach ended
        attach ended --print
        attach",
    );
    terminal.record(
        "stop",
        "stop busy3
        stop busy4 --json
        stop nothing
        stop ended
        stop",
    );
    for name in ["busy3", "busy4"] {
        terminal.home.wait_state(name, |row| row["process"] != "alive");
    }
    terminal.record(
        "resume",
        "resume busy3 'Continue.'
        resume busy4 --json 'Continue.'
        resume nothing
        resume ended
        resume busy1 '  '
        resume",
    );
    for name in ["busy3", "busy4"] {
        terminal.home.wait(name, "working");
    }
    terminal.record(
        "cancel",
        "cancel busy3
        cancel busy4 --because 'no longer needed' --json
        cancel nothing
        cancel ended
        cancel",
    );
    for name in ["busy3", "busy4"] {
        terminal.home.wait_sealed(name);
    }
    terminal.open("odd", "spawn --name odd -- sh -c 'exit 3'");
    terminal.home.wait_sealed("odd");
    terminal.open("strange", "spawn --name strange -- sh -c 'exit 3'");
    terminal.home.wait_sealed("strange");
    terminal.record(
        "resolve",
        "resolve odd --as accepted --because 'the report is complete'
        resolve strange --as cancelled --because 'not needed' --json
        resolve nothing --as failed --because 'no'
        resolve odd --as succeeded --because 'no'
        resolve odd --as failed
        resolve odd --as failed --because ''",
    );
    terminal.finish();
}

#[test]
fn clean_up_is_recorded() {
    let mut terminal = sessions();
    terminal.open(
        "tree",
        "spawn --name tree --worktree --check 'test -s a.txt' -- sh -c 'echo a > a.txt'",
    );
    terminal.home.wait_sealed("tree");
    terminal.record(
        "gc",
        "=| gc
        *| gc
        gc --apply
        gc --apply --json
        gc
        gc --older-than soon
        gc --older-than
        gc tree",
    );
    terminal.finish();
}
