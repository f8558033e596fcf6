//! Teams: criteria, loops, contracts and proposals.

use crate::team::team;

#[test]
fn criteria_are_recorded() {
    let mut terminal = team();
    terminal
        .run("team send operator 'Criteria: - The tests pass. - The wording was read.' --as hand");
    terminal.record("team_criterion_ls", "team criterion ls");
    terminal.record(
        "team_criterion_add",
        "team criterion add 'The tests pass' --check 'cargo test'
        team criterion add 'The wording was read by a person' --accept --json
        team criterion add ''
        team criterion add 'The tests pass' -t nothing
        team criterion add 'The tests pass' --accept --as hand",
    );
    for text in ["Three", "Four", "Five", "Six", "Seven", "Eight"] {
        terminal.run(&format!("team criterion add 'Criterion {text} holds'"));
    }
    terminal.record(
        "team_criterion_accept",
        "team criterion accept 1
        team criterion accept 3 --json
        team criterion accept 2
        team criterion accept 99
        team criterion accept 4 --as hand
        team criterion accept",
    );
    terminal.record(
        "team_criterion_satisfy",
        "team criterion satisfy 2 --evidence 'read aloud with the support team'
        team criterion satisfy 3 --evidence 'read aloud with the support team' --json
        team criterion satisfy 1 --evidence 'read aloud with the support team'
        team criterion satisfy 99 --evidence 'read aloud with the support team'
        team criterion satisfy 2 --evidence short
        team criterion satisfy 2",
    );
    terminal.record(
        "team_criterion_defer",
        "team criterion defer 4 --because 'comes with the next release'
        team criterion defer 5 --because 'comes with the next release' --json
        team criterion defer 99 --because 'comes with the next release'
        team criterion defer 4 --because 'once more'
        team criterion defer 4",
    );
    terminal.record(
        "team_criterion_reject",
        "team criterion reject 6 --because 'not asked for by anyone'
        team criterion reject 7 --because 'not asked for by anyone' --json
        team criterion reject 99 --because 'not asked for by anyone'
        team criterion reject 6 --because 'rejected once more'
        team criterion reject 6",
    );
    terminal.record(
        "team_criterion_reopen",
        "team criterion reopen 2 --because 'the wording was changed'
        team criterion reopen 3 --because 'the wording was changed' --json
        team criterion reopen 99 --because 'the wording was changed'
        team criterion reopen 8 --because 'the wording was changed'
        team criterion reopen 2",
    );
    terminal.record(
        "team_criterion_draft",
        "team criterion draft --from 1 --dry-run
        team criterion draft --from 1 --json
        team criterion draft --from 99
        team criterion draft
        team criterion draft --from 1 -t nothing",
    );
    terminal.record(
        "team_criterion_ls",
        "=| team criterion ls
        *| team criterion ls
        team criterion ls -t nothing
        team criterion ls --as nobody
        team criterion ls extra
        team criterion ls --limit 3",
    );
    let build = terminal.json("team criterion add 'The build passes' --check 'true' --accept");
    terminal.set("build", build["criterion"]["no"].to_string());
    terminal.record(
        "team_prove",
        "team prove --criterion 2
        team prove --criterion 99
        team prove
        team prove --criterion 1
        team prove --criterion $build --json
        team prove --evidence nothing",
    );
    terminal.finish();
}

#[test]
fn loops_are_recorded() {
    let mut terminal = team();
    terminal.record(
        "team_loop_start",
        "team loop start --require notes=asserted --require challenge --max-iterations 5
        team loop start --require notes=asserted
        team loop start nothing
        team loop start",
    );
    terminal.record(
        "team_loop_submit",
        "team loop submit notes --text 'changed src/limit.rs, all tests run' --as hand
        team loop submit challenge --failure-mode 'two callers at once' --check 'ran 100 in parallel' --result 'none was let through' --as hand --json
        team loop submit nothing --text 'changed src/limit.rs, all tests run' --as hand
        team loop submit notes --text short --as hand
        team loop submit",
    );
    terminal.record(
        "team_loop_status",
        "=| team loop status
        *| team loop status
        team loop status -t nothing
        team loop status --as nobody
        team loop status extra
        team loop status --all",
    );
    terminal.record(
        "team_send_next",
        "team send --next hand 'Now the second caller.'
        team send --next --iteration 9 hand 'Now the third caller.'
        team send --next hand 'Now the third caller.'
        team send --next nobody 'Now the third caller.'",
    );
    terminal.run("team next --as hand");
    terminal.run("team loop submit notes --text 'changed src/limit.rs, all tests run' --as hand");
    terminal.run("team loop submit challenge --failure-mode 'three callers' --check 'ran 100 in parallel' --result 'none was let through' --as hand");
    terminal.record("team_send_next", "team send --next hand 'Now the third caller.' --json");
    terminal.record(
        "team_loop_stop",
        "team loop stop --because 'it is good enough'
        team loop stop --because 'it is good enough'
        team loop stop
        team loop stop -t nothing --because 'it is good enough'",
    );
    terminal.record("team_loop_start", "team loop start --require notes=asserted --json");
    terminal.record("team_loop_stop", "team loop stop --because 'it is good enough' --json");
    terminal.finish();
}

#[test]
fn contracts_and_proposals_are_recorded() {
    let mut terminal = team();
    terminal.record(
        "team_contract_show",
        "=| team contract show
        100| team contract show
        team contract show -t nothing
        team contract show --as nobody
        team contract show extra
        team contract show --all",
    );
    terminal.record(
        "team_contract_move",
        "team contract move wait --because 'its tests still run' --as boss
        team contract move nudge --because 'it has been silent' --as boss --json
        team contract move wait --because short --as boss
        team contract move wait --because 'its tests still run' --as hand
        team contract move sleep --because 'its tests still run' --as boss",
    );
    terminal.record(
        "team_contract_challenge",
        "team contract challenge --failure-mode 'two callers at once' --check 'ran 100 in parallel' --result 'none was let through' --as boss
        team contract challenge --failure-mode 'three callers' --check 'ran 100 in parallel' --result 'none was let through' --as boss --json
        team contract challenge --failure-mode x --check y --result z --as boss
        team contract challenge --failure-mode 'two callers at once' --check 'ran 100 in parallel' --result 'none' --as nobody
        team contract challenge",
    );
    terminal.record(
        "team_contract_set",
        "team contract set --recipe strict --expect 0
        team contract set --recipe strict --yes --expect 0 --json
        team contract set --recipe light --yes --expect 0
        team contract set --recipe hard --expect 1
        team contract set --expect 1
        team contract set - --expect 1 < {",
    );
    terminal.record(
        "team_contract_accept",
        "team contract accept --revision 0 --as boss
        team contract accept --revision 1 --as boss
        team contract accept --revision 1 --as boss --json
        team contract accept --revision 1 --as hand
        team contract accept --as boss
        team contract accept --revision 9 --as boss",
    );
    terminal.record(
        "team_contract_epilogue",
        "team contract epilogue handover --evidence 'written to HANDOVER.md'
        team contract epilogue handover --evidence 'written to HANDOVER.md' --json
        team contract epilogue handover --evidence short
        team contract epilogue nothing --evidence 'written to HANDOVER.md'
        team contract epilogue handover",
    );
    for name in ["blind", "veiled"] {
        terminal.run(&format!("team new {name} --goal 'Propose'"));
        for (member, role) in [("hand", "worker"), ("boss", "manager"), ("eye", "reviewer")] {
            terminal.run(&format!("team bind {name} {member} --role {role}"));
        }
        terminal.run(&format!("team contract accept --revision 0 -t {name} --as boss"));
    }
    terminal.run("team propose 'Now the second caller.' -t veiled --as hand");
    terminal.run("team propose 'Now the third caller.' -t veiled --as boss");
    terminal.record(
        "team_propose",
        "team propose 'Now the second caller.' -t blind --as hand
        team propose 'Now the third caller.' -t blind --as boss --json
        team propose '' -t blind --as hand
        team propose 'Now the second caller.' -t nothing --as hand
        team propose 'Now the second caller.' -t blind --as nobody",
    );
    terminal.record(
        "team_choose",
        "team choose worker --because 'it is smaller and shows more' -t blind --as eye
        team choose worker --because 'it is smaller and shows more' -t veiled --as eye --json
        team choose nothing --because 'it is smaller and shows more' -t blind --as eye
        team choose worker --because 'it is smaller and shows more' -t nothing --as eye
        team choose worker -t blind --as eye",
    );
    terminal.finish();
}
