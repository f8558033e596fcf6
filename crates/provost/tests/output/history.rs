//! Commands that read or move the record of past work.

use crate::recorder::Recorder;

/// A finished team with messages and criteria, and a finished session.
fn past_work() -> Recorder {
    let mut terminal = Recorder::new();
    terminal.configure(&[], "");
    terminal.open(
        "built",
        "spawn --name build --settle 2s -- sh -c 'provost report completed --message \"all tests pass\"'",
    );
    terminal.home.wait_sealed("build");
    terminal.run("team new limits --goal 'Limit how often each caller may call'");
    terminal.run("team bind limits hand --role worker");
    terminal.run("team bind limits boss --role manager");
    terminal.run("team contract accept --revision 0 -t limits --as boss");
    terminal.run("team send hand 'Begin with the tests.' -t limits --as boss");
    let item = terminal.json("team next -t limits --as hand")["item"].clone();
    let (no, lease) = (&item["no"], &item["lease"]);
    terminal.run(&format!(
        "team inbox ack {no} --lease {lease} -t limits --as hand --note 'tests written'"
    ));
    terminal.run("team criterion add 'The wording was read by a person' --accept -t limits");
    terminal
        .run("team criterion satisfy 1 --evidence 'read aloud with the support team' -t limits");
    terminal
}

#[test]
fn past_work_is_shown_as_recorded() {
    let mut terminal = past_work();
    terminal.record(
        "events",
        "events build
        events build --json --limit 2
        *| events build
        100| events limits
        100| events --verbose build
        events nothing
        events build --since soon
        events --limit 0",
    );
    terminal.record(
        "search",
        "=| search support
        *| search limit
        search nothing-like-this
        search
        search limit --in tasks
        search limit --limit 0",
    );
    terminal.record(
        "replay",
        "=| replay limits
        replay limits --as timeline
        replay limits --as transcript --content
        *| replay limits
        replay nothing
        replay limits --as film
        replay build
        replay",
    );
    terminal.record(
        "audit",
        "=| audit limits
        audit limits --content
        *| audit limits
        audit nothing
        audit build
        audit",
    );
    terminal.record(
        "telemetry",
        "=| telemetry
        telemetry -t limits
        telemetry --view failures
        *| telemetry -t limits
        telemetry -t nothing
        telemetry --window soon
        telemetry --view all",
    );
    terminal.finish();
}

#[test]
fn export_and_import_are_recorded() {
    let mut terminal = past_work();
    terminal.record(
        "export",
        "export limits --to open
        export limits --to now --snapshot
        export limits --to json --snapshot --json
        export limits --to now --snapshot
        export nothing --to other
        export limits",
    );
    terminal.record(
        "import",
        "import now
        =| import now --dry-run
        import missing
        import README.md
        import",
    );
    terminal.finish();
}

#[test]
fn ledger_is_recorded() {
    let mut terminal = past_work();
    terminal.record(
        "ledger_verify",
        "=| ledger verify\nledger verify limits\nledger verify --to x\nledger verify --all",
    );
    terminal.record(
        "ledger_path",
        "=| ledger path\nledger path x\nledger path --to x\nledger path --all",
    );
    terminal.record(
        "ledger_backup",
        "ledger backup copy
        ledger backup copy2 --json
        ledger backup copy
        ledger backup /nonexistent/copy
        ledger backup",
    );
    terminal.record(
        "ledger_export",
        "ledger export --to ledger.jsonl
        ledger export --to ledger2.jsonl --json
        ledger export --to ledger.jsonl
        ledger export --to /nonexistent/ledger.jsonl
        ledger export ledger.jsonl",
    );
    terminal.record(
        "ledger_archive",
        "ledger archive --older-than 90d
        ledger archive --older-than 0s --json
        ledger archive --older-than 0s --apply
        ledger archive
        ledger archive --older-than soon
        ledger archive limits --older-than 90d",
    );
    terminal.record(
        "ledger_recover",
        "=| ledger recover
        ledger recover --accept-loss
        ledger recover --stop-unknown
        ledger recover now
        ledger recover --force
        ledger recover --older-than 3d",
    );
    terminal.record(
        "ledger_import",
        "ledger import ledger.jsonl
        ledger import missing.jsonl
        ledger import README.md
        ledger import",
    );
    terminal.finish();
}
