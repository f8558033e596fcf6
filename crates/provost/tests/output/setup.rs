//! Commands about the setup, and reports of agents.

use crate::recorder::Recorder;

#[test]
fn configuration_and_trust_are_recorded() {
    let mut terminal = Recorder::new();
    terminal.configure(&[], "[hooks]\nsession.failed = \"true\"\n");
    terminal.record(
        "config_show",
        "*| config show
        config show
        config show --cwd /nonexistent
        config show --all
        config show extra",
    );
    terminal
        .record("config_schema", "config schema extra\nconfig schema --all\nconfig schema --cwd .");
    terminal.record(
        "presets",
        "=| presets
        *| presets quick
        presets nothing
        presets --cwd /nonexistent
        presets quick extra",
    );
    terminal.write("provost.toml", "[hooks]\nsession.succeeded = \"notify-send done\"\n");
    terminal.commit();
    terminal.record(
        "trust",
        "trust --print
        trust
        trust --yes
        =| trust --list
        *| trust --list
        trust --revoke
        trust --trust 00ff
        trust /nonexistent
        trust --yes --revoke",
    );
    terminal.write("provost.toml", "[session]\nstop_grace = 5\nstop_grase = \"1s\"\n");
    terminal.record("config_show", "config show");
    terminal.record("trust", "trust --yes\ntrust --yes --json");
    terminal.finish();
}

#[test]
fn daemon_and_reports_are_recorded() {
    let mut terminal = Recorder::new();
    terminal.configure(&[], "");
    terminal.record("daemon_status", "=| daemon status");
    terminal.record("daemon_stop", "daemon stop");
    terminal.open("work", "spawn --name work -- sleep 600");
    terminal.home.wait_state("work", |row| row["launches"][0]["phase"] == "running");
    terminal.record(
        "daemon_status",
        "=| daemon status
        daemon status extra
        daemon status --all
        daemon status --key k",
    );
    terminal.record("daemon_run", "daemon run\ndaemon run extra\ndaemon run --all");
    for claim in ["working", "needs-input", "failed", "completed"] {
        terminal.record(
            &format!("report_{}", claim.replace('-', "_")),
            &format!(
                "report {claim} --session work --message 'half of it is done'
                report {claim} --session work --json
                report {claim}
                report {claim} --session nothing
                report {claim} --message"
            ),
        );
    }
    terminal.record(
        "report_fact",
        "report fact --session work --branch fix/login
        report fact --session work --pr https://example.org/pull/7 --json
        report fact --session work
        report fact --session nothing --branch fix/login
        report fact --branch fix/login",
    );
    terminal.record(
        "daemon_stop",
        "daemon stop extra
        daemon stop --all
        daemon stop --force",
    );
    terminal.run("cancel work");
    terminal.home.wait_sealed("work");
    terminal.record("daemon_stop", "daemon stop --json");
    terminal.finish();
}

#[test]
fn documentation_is_recorded() {
    let mut terminal = Recorder::new();
    terminal.configure(&[], "");
    terminal.record("guide", "=| guide\nguide member\nguide nothing\nguide member --cwd /nonexistent\nguide member extra\nguide --all");
    terminal.record("completions", "completions\ncompletions dos\ncompletions bash extra");
    terminal.record("exit_codes", "=| help exit-codes\nexit-codes");
    terminal.record("tour", "tour\ntour nothing\ntour dispatch extra");
    terminal.record(
        "skills_list",
        "=| skills list
        skills list --cwd /nonexistent
        skills list extra
        skills list --all",
    );
    terminal.record(
        "skills_install",
        "skills install --dry-run
        skills install --repo
        skills install --repo --json
        skills install --to /proc/nothing
        skills install extra
        skills install --repo --to skills",
    );
    terminal.record(
        "skills_remove",
        "skills remove --repo --dry-run
        skills remove --repo
        skills remove --repo --json
        skills remove extra
        skills remove --repo --to skills
        skills remove --all",
    );
    terminal.record("doctor", "doctor extra\ndoctor --all\ndoctor --cwd .");
    terminal.record(
        "unknown",
        "nonsense\ndelete x\nstauts\n--josn\nhelp nonsense\nhelp exit-code\nhelp delete",
    );
    terminal.finish();
}
