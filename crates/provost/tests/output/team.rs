//! Teams: members, messages, and the end.

use crate::{
    agents::{BUSY, WORKER},
    recorder::Recorder,
};

/// A team without sessions: the worker `hand` and the manager `boss`.
pub(crate) fn team() -> Recorder {
    let terminal = Recorder::new();
    terminal.configure(&[("worker", WORKER), ("busy", BUSY)], "");
    terminal.run("team new limits --goal 'Limit how often each caller may call'");
    terminal.run("team bind limits hand --role worker");
    terminal.run("team bind limits boss --role manager");
    terminal.run("team contract accept --revision 0 -t limits --as boss");
    terminal
}

#[test]
fn opening_a_team_is_recorded() {
    let mut terminal = Recorder::new();
    terminal.configure(&[("worker", WORKER), ("busy", BUSY)], "");
    terminal.record("team_ls", "team ls");
    terminal.record(
        "team_start",
        "team start 'Limit the calls' --name limits --worker busy --manager me
        team start 'Cover the parser' --name parser --pull --worker app --manager desk --json
        team start 'Limit the calls' --name limits --worker busy
        team start 'Limit the calls' --worker nothing
        team start 'Limit the calls'
        team start 'Limit the calls' --worker busy --manager nothing",
    );
    terminal.record(
        "team_new",
        "team new pages --goal 'Rework the start page'
        team new docs --goal 'Write the docs' --json
        team new pages --goal 'Rework the start page'
        team new empty --goal ''
        team new",
    );
    terminal.record(
        "team_ls",
        "=| team ls\n*| team ls\nteam ls --limit 0\nteam ls extra\nteam ls --all\nteam ls --limit many",
    );
    terminal.record(
        "team_bind",
        "team bind pages hand --role worker
        team bind pages boss --role manager --json
        team bind nothing hand --role worker
        team bind pages hand --role worker
        team bind pages eye --role king
        team bind pages eye",
    );
    terminal.record(
        "team_label",
        "team label pages hand --title 'Start page'
        team label pages hand --thread THREAD --json
        team label nothing hand --title T
        team label pages nobody --title T
        team label pages hand
        team label pages",
    );
    terminal.record(
        "team_rename",
        "team rename pages start-page
        team rename start-page pages --json
        team rename nothing name
        team rename pages docs
        team rename pages",
    );
    terminal.record(
        "team_handoff",
        "=| team handoff pages hand
        team handoff pages --heartbeat
        team handoff nothing
        team handoff pages nobody
        team handoff",
    );
    terminal.record(
        "team_ping",
        "team ping docs
        team ping docs --json
        team ping nothing
        team ping docs --timeout soon
        team ping",
    );
    terminal.run("team cancel limits --because 'recorded'");
    terminal.finish();
}

#[test]
fn members_and_messages_are_recorded() {
    let mut terminal = team();
    terminal.record(
        "team_wait",
        "team wait limits
        team wait limits --json
        team wait nothing
        team wait limits extra
        team wait limits --timeout soon",
    );
    terminal.record(
        "team_send",
        "team send hand 'Begin with the tests.' -t limits
        team send operator 'Which limit?' -t limits --as boss --json
        team send hand 'Then the parser.'
        team send nobody 'Hello.'
        team send hand ''
        team send hand 'Hello.' -t nothing
        team send",
    );
    terminal.record(
        "team_next",
        "team next -t limits --as hand
        team next -t limits --as hand --hold --json
        team next -t limits --as boss
        team next -t nothing --as hand
        team next --as nobody
        team next --wait --timeout soon --as hand",
    );
    terminal.record(
        "team_inbox_ls",
        "=| team inbox ls
        *| team inbox ls --all
        team inbox ls -t nothing
        team inbox ls --to nobody
        team inbox ls extra",
    );
    terminal.record(
        "team_inbox_accept",
        "team inbox accept 3 --lease 1 --as hand
        team inbox accept 3 --lease 1 --as hand --json
        team inbox accept 9 --lease 1 --as hand
        team inbox accept 3 --lease 7 --as hand
        team inbox accept 3 --as hand",
    );
    terminal.record(
        "team_inbox_ack",
        "team inbox ack 1 --lease 1 --as hand --note 'done in 4f2a'
        team inbox ack 3 --lease 1 --as hand --json
        team inbox ack 9 --lease 1 --as hand
        team inbox ack 1 --lease 1 --as boss
        team inbox ack 1 --as hand
        team inbox ack 2 --lease 1 --as hand",
    );
    for text in ["Four.", "Five.", "Six.", "Seven.", "Eight.", "Nine."] {
        terminal.run(&format!("team send hand '{text}'"));
    }
    terminal.run("team next --as hand");
    terminal.run("team next --as hand");
    terminal.record(
        "team_inbox_release",
        "team inbox release 4 --lease 1 --as hand --because 'not mine'
        team inbox release 5 --lease 1 --as hand --because 'not mine' --json
        team inbox release 1 --lease 1 --as hand --because 'not mine'
        team inbox release 99 --lease 1 --as hand --because 'not mine'
        team inbox release 4 --lease 1 --as hand",
    );
    terminal.record(
        "team_inbox_cancel",
        "team inbox cancel 6 --because 'sent too early'
        team inbox cancel 7 --because 'sent too early' --json
        team inbox cancel 1 --because 'sent too early'
        team inbox cancel 99 --because 'sent too early'
        team inbox cancel 6",
    );
    terminal.record(
        "team_inbox_dead_letter",
        "team inbox dead-letter 8 --because 'it was handled'
        team inbox dead-letter 9 --because 'it was handled' --json
        team inbox dead-letter 1 --because 'it was handled'
        team inbox dead-letter 99 --because 'it was handled'
        team inbox dead-letter 9",
    );
    terminal.record(
        "team_inbox_requeue",
        "team inbox requeue 8 --because 'hand is back'
        team inbox requeue 9 --because 'hand is back' --json
        team inbox requeue 1 --because 'hand is back'
        team inbox requeue 99 --because 'hand is back'
        team inbox requeue 8",
    );
    terminal.record(
        "team_show",
        "=| team show limits
        *| team show limits
        team show nothing
        team show --limit 3
        team show limits extra",
    );
    terminal.record(
        "team_overview",
        "=| team overview limits
        *| team overview limits --as boss
        team overview nothing
        team overview limits --as nobody
        team overview limits --since soon",
    );
    terminal.record(
        "team_rotate",
        "team rotate limits hand hand-2 --handover 'The tests are written.'
        team rotate limits hand-2 hand-3 --handover 'The limit is written.' --json
        team rotate nothing hand hand-4 --handover 'The limit is written.'
        team rotate limits nobody hand-4 --handover 'The limit is written.'
        team rotate limits hand-3 hand --handover 'The limit is written.'",
    );
    terminal.run("team bind limits eye --role worker");
    terminal.record(
        "team_retire",
        "team retire limits hand-3 --dead-letter --because 'its part is done'
        team retire limits eye --because 'its part is done' --json
        team retire nothing hand --because 'its part is done'
        team retire limits nobody --because 'its part is done'
        team retire limits boss",
    );
    terminal.finish();
}

#[test]
fn end_of_a_team_is_recorded() {
    let mut terminal = team();
    terminal.record(
        "team_pause",
        "team pause limits --because 'until Monday'
        team pause limits --because 'until Monday'
        team pause nothing --because 'until Monday'
        team pause limits
        team pause limits --because ''",
    );
    terminal.record(
        "team_resume",
        "team resume limits
        team resume limits
        team resume nothing
        team resume limits extra",
    );
    terminal.record("team_pause", "team pause limits --because 'until Tuesday' --json");
    terminal.record("team_resume", "team resume limits --json");
    terminal.record(
        "team_done",
        "team done limits --because 'all criteria hold'
        team done nothing --because 'all criteria hold'
        team done limits
        team done limits --because 'all criteria hold' --allow everything
        team done limits --because 'all criteria hold' --json",
    );
    for name in ["one", "two", "three", "four", "five", "six"] {
        terminal.run(&format!("team new {name} --goal 'Do it'"));
    }
    terminal.record(
        "team_done",
        "team done one --because 'nothing was to be done' --allow nothing_proved,nothing_changed
        team done two --because 'nothing was to be done' --allow nothing_proved,nothing_changed --json
        team done one --because 'again'",
    );
    terminal.record(
        "team_fail",
        "team fail three --because 'the library cannot do it'
        team fail four --because 'the library cannot do it' --json
        team fail three --because 'again'
        team fail nothing --because 'the library cannot do it'
        team fail three",
    );
    terminal.record(
        "team_cancel",
        "team cancel five --because 'no longer needed'
        team cancel six --because 'no longer needed' --json
        team cancel three --because 'no longer needed'
        team cancel nothing --because 'no longer needed'
        team cancel five",
    );
    terminal.finish();
}
