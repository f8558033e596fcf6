//! Changes to trusted or protected files, and commands written by an agent, wait for the operator's approval.

use std::{fs, path::Path};

use provost_testkit::{
    forge::{FakeForge, PULL_REQUESTS},
    harness::{TestHome, TestRepo, eventually, read_nonempty},
    model::{MODEL, ModelServer, codex, codex_config},
};
use serde_json::{Value, json};

/// A repository with a scripted agent that runs one shell line and claims completion.
struct ScriptedRunEnv {
    home: TestHome,
    repo: TestRepo,
}

impl ScriptedRunEnv {
    fn new(line: &str) -> ScriptedRunEnv {
        let home = TestHome::new();
        let repo = home.repo("work");
        let env = ScriptedRunEnv { home, repo };
        env.configure_agent(line, "");
        env
    }

    /// Configures the agent. `more` is appended to the user's configuration.
    fn configure_agent(&self, line: &str, more: &str) {
        let steps = format!(
            "[[step]]\nemit = {{ type = \"ready\", thread = \"t\" }}\n[[step]]\nrun = [\"sh\", \"-ec\", {line:?}]\n[[step]]\nreport = \"completed\"\n"
        );
        let agent = self.home.scripted_agent("talker", &steps);
        self.home
            .configure(&format!("session.settle = \"0s\"\nsession.rework = 0\n{more}\n{agent}"));
    }

    fn path_string(&self, name: &str) -> String {
        self.home.root().join(name).display().to_string()
    }

    /// Opens a run with work, checks and landing, and returns its id.
    #[track_caller]
    fn open_run(&self, arguments: &[&str]) -> String {
        let plain = ["--agent", "talker", "--no-triage", "--review-task", "off", "go"];
        let all = [&["run", "--detach", "--json"], arguments, &plain].concat();
        let opened = self.home.provost_in(self.repo.path(), &all);
        opened.ok().json()["id"].as_str().unwrap().to_owned()
    }

    /// Waits until a run needs approval and returns the approval. A run that ends instead fails the test.
    #[track_caller]
    fn wait_approval(&self, id: &str) -> Value {
        let row =
            self.home.wait_state(id, |row| row["awaits_approval"] == true || row["sealed"] == true);
        assert_eq!(row["awaits_approval"], true, "{row:#}");
        row["approval"].clone()
    }
}

/// Returns a shell line that appends a setup command to the project's configuration, as a prompt-injected agent would.
fn plant_setup_script(marker: &str) -> String {
    format!(
        "echo work > work.txt; printf '[worktree]\\nsetup = \"touch {marker}\"\\n' >> provost.toml"
    )
}

#[test]
fn f2_11_agent_config_edit_needs_approval() {
    let env = ScriptedRunEnv::new("true");
    env.configure_agent(&plant_setup_script(&env.path_string("planted")), "");
    let before = env.repo.head();
    let id = env.open_run(&["--land", "merge", "--check", "test -s work.txt"]);
    let approval = env.wait_approval(&id);
    assert_eq!(approval["kind"], "landing", "{approval:#}");
    assert_eq!(approval["files"], json!(["provost.toml"]), "{approval:#}");
    assert!(approval["diff"].as_str().unwrap().contains("+setup = "), "{approval:#}");
    assert_eq!(env.repo.head(), before, "nothing landed");
    let shown = env.home.provost(&["status", &id]);
    let shown = format!("{}{}", shown.ok().stdout, shown.stderr);
    for part in ["needs approval", "provost.toml", "+setup = ", "provost approve ", "provost deny "]
    {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    // The approval stays pending after the daemon is killed.
    env.home.daemon().kill();
    assert_eq!(env.wait_approval(&id), approval);
    env.home.provost(&["approve", &id]).ok();
    let row = env.home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["landing"]["merged"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(json!(env.repo.head()), approval["commit"], "exactly the shown commit landed");
    assert_eq!(json!(env.repo.tree("HEAD")), approval["tree"]);
    // The approval trusted exactly that content: the next run starts without asking, and any other content is refused.
    let config = env.repo.read("provost.toml");
    let next = env.open_run(&["--no-check"]);
    env.home.wait_sealed(&next);
    env.repo.write("provost.toml", &config.replace("planted", "other"));
    let plain = ["run", "--detach", "--agent", "talker", "--no-triage", "go"];
    env.home.provost_in(env.repo.path(), &plain).assert_code(4);
}

/// Approving a landing trusts the content of every file that was shown, at any depth, and nothing else.
#[test]
fn approval_trusts_files_below_the_top() {
    let env = ScriptedRunEnv::new(
        "echo work > work.txt; mkdir -p new; echo '{\"A\": 1}' | tee sub/.mcp.json > new/.mcp.json",
    );
    env.repo.write("sub/.mcp.json", "{}\n");
    env.repo.write("other/.mcp.json", "{\"EVIL\": 1}\n");
    env.repo.commit("Add servers below the top");
    env.home.trust(&env.repo.path().join("sub"));
    let id = env.open_run(&["--land", "merge", "--check", "test -s work.txt"]);
    let approval = env.wait_approval(&id);
    assert_eq!(approval["files"], json!(["new/.mcp.json", "sub/.mcp.json"]), "{approval:#}");
    env.home.provost(&["approve", &id]).ok();
    let row = env.home.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let spawn = |dir: &str, place: &str| {
        let words = ["spawn", "--wait", "--exit-zero-completes", "--allow-empty-diff", place];
        let words = [&words[..], &["--", "true"]].concat();
        env.home.provost_in(&env.repo.path().join(dir), &words)
    };
    for place in ["--worktree", "--no-worktree"] {
        spawn("sub", place).ok();
        spawn("new", place).ok();
        // The landing did not change this file, and the operator never agreed to it.
        spawn("other", place).assert_code(4);
    }
    env.repo.write("sub/.mcp.json", "{\"B\": 1}\n");
    spawn("sub", "--no-worktree").assert_code(4);
}

/// Whatever an agent writes into its worktree's HEAD, Provost commits the work onto no branch of the user.
#[test]
fn f2_11_agent_head_leads_to_no_user_branch() {
    let env = ScriptedRunEnv::new(
        "echo {} > .mcp.json; echo 'ref: refs/heads/main' > \"$(git rev-parse --git-dir)/HEAD\"",
    );
    let before = env.repo.head();
    let id = env.open_run(&["--land", "merge", "--no-check"]);
    let approval = env.wait_approval(&id);
    assert_eq!(approval["files"], json!([".mcp.json"]), "{approval:#}");
    assert_eq!(env.repo.git(&["rev-parse", "main"]), before, "nothing landed");
    assert_eq!(env.repo.git(&["status", "--porcelain"]), "");
    env.home.provost(&["approve", &id]).ok();
    let row = env.home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["landing"]["merged"]), (&json!("completed"), &json!(true)));
    assert_eq!(env.repo.git(&["status", "--porcelain"]), "", "{row:#}");
}

/// The diff of a file that git takes for a binary one is shown, and a truncated diff says so.
#[test]
fn f2_11_approval_shows_binary_and_truncated_files() {
    let hidden = "mkdir .codex; printf 'touch owned #\\000\\n' > .codex/notify.sh; echo '*.sh binary' > .gitattributes";
    for (line, shown) in [
        (hidden.to_owned(), "+touch owned #"),
        ("yes '' | head -n 30000 > .mcp.json; echo x >> .mcp.json".to_owned(), "too long to show"),
    ] {
        let env = ScriptedRunEnv::new(&line);
        let id = env.open_run(&["--land", "merge", "--no-check"]);
        env.wait_approval(&id);
        let status = env.home.provost(&["status", &id]);
        assert!(status.ok().stdout.contains(shown), "{line}: {status:#?}");
        env.home.provost(&["cancel", &id]).ok();
        env.home.wait_sealed(&id);
    }
}

#[test]
fn f2_11_denied_change_fails_run_and_keeps_branch() {
    let env = ScriptedRunEnv::new(
        "echo work > work.txt; mkdir .codex; echo 'x = 1' > .codex/config.toml",
    );
    let before = env.repo.head();
    let id = env.open_run(&["--land", "merge", "--check", "test -s work.txt"]);
    let approval = env.wait_approval(&id);
    assert_eq!(approval["files"], json!([".codex/config.toml"]), "{approval:#}");
    env.home.provost(&["deny", &id, "--because", "no such setting"]).ok();
    let row = env.home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains("no such setting"), "{row:#}");
    assert_eq!(env.repo.head(), before);
    let kept = row["commit"].as_str().unwrap();
    assert!(env.repo.git(&["show", &format!("{kept}:work.txt")]).contains("work"));
    // Resuming the run asks the operator again.
    env.home.provost(&["resume", &id]).ok();
    assert_eq!(env.wait_approval(&id)["files"], approval["files"]);
    env.home.provost(&["cancel", &id]).ok();
    env.home.wait_sealed(&id);
}

#[test]
fn f2_11_approval_counts_for_that_commit_only() {
    let env = ScriptedRunEnv::new("true");
    env.configure_agent(&plant_setup_script(&env.path_string("planted")), "");
    let id = env.open_run(&["--land", "merge", "--check", "test -s work.txt"]);
    let first = env.wait_approval(&id);
    // The branch moves, so the tree that would land differs from the one that was shown.
    env.repo.write("user.txt", "mine\n");
    env.repo.commit("Meanwhile");
    env.home.provost(&["approve", &id]).ok();
    let second = eventually("the operator is asked again", || {
        let approval = env.home.status(&id)["approval"].clone();
        (approval.is_object() && approval["commit"] != first["commit"]).then_some(approval)
    });
    assert_eq!(second["files"], json!(["provost.toml"]), "the user's own changes need no approval");
    let approved = env.home.provost(&["approve", &id]);
    assert!(approved.ok().stderr.contains("approved: provost.toml"), "{approved:#?}");
    let row = env.home.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(env.repo.read("user.txt"), "mine\n");
    assert!(env.repo.read("provost.toml").contains("setup"));
}

#[test]
fn f2_11_unprotected_work_lands_without_approval() {
    let env = ScriptedRunEnv::new("echo work > work.txt");
    let id = env.open_run(&["--land", "merge", "--check", "test -s work.txt"]);
    let row = env.home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["landing"]["merged"]), (&json!("succeeded"), &json!(true)));
}

/// Ways for an agent to weaken a check that depends on files of the repository.
const WEAKENED_CHECKS: [(&str, &str); 5] = [
    ("changed", "echo 'exit 0' > check.sh"),
    ("deleted", "rm check.sh"),
    ("a link", "rm check.sh; ln -s /bin/true check.sh"),
    ("added", "mkdir -p ci; echo 'exit 0' > ci/early.sh"),
    ("a directory", "rm check.sh; mkdir check.sh; echo x > check.sh/x"),
];

#[test]
fn f2_11_checks_use_base_version_of_protected_files() {
    for (what, line) in WEAKENED_CHECKS {
        let env = ScriptedRunEnv::new(&format!("echo work > work.txt; {line}"));
        env.repo.write("check.sh", "test -s good.txt\n");
        env.repo.commit("A check");
        let more = "[verify]\nprotected = [\"check.sh\", \"ci/**\"]\n";
        env.configure_agent(&format!("echo work > work.txt; {line}"), more);
        let check = "if test -e ci/early.sh; then sh ci/early.sh && exit 0; fi; test ! -f check.sh || sh check.sh";
        let id = env.open_run(&["--check", check]);
        let row = env.home.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["cause"]),
            (&json!("failed"), &json!("work")),
            "{what}: {row:#}"
        );
    }
}

#[test]
fn f2_11_receipt_lists_base_files() {
    let env = ScriptedRunEnv::new("true");
    env.repo.write("check.sh", "test -s good.txt\n");
    env.repo.commit("A check");
    env.configure_agent(
        "echo 1 > good.txt; echo 'exit 0' > check.sh",
        "[verify]\nprotected = [\"check.sh\"]\n",
    );
    // A check for local changes passes, because the checked tree is a commit too.
    let id = env.open_run(&["--check", "sh check.sh && git diff --exit-code HEAD"]);
    let row = env.home.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(row["checks"][0]["base_files"], json!(["check.sh"]), "{row:#}");
    assert_eq!(row["checks"][0]["tree"], row["tree"], "the work's own tree is named: {row:#}");
    let shown = env.home.provost(&["status", &id]).ok().stdout.clone();
    assert!(shown.contains("check.sh as of the base"), "{shown}");
}

#[test]
fn f2_11_pull_request_lists_protected_files_first() {
    let mut env = ScriptedRunEnv::new("true");
    env.configure_agent(
        &plant_setup_script(&env.path_string("planted")),
        "run.pull_every = \"50ms\"\nrun.pull_checks = \"0s\"\n",
    );
    let forge = FakeForge::with_remote(&mut env.home, &env.repo, PULL_REQUESTS);
    let id = env.open_run(&["--land", "pr", "--check", "test -s work.txt"]);
    let row = env.home.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let body = forge.pull_request_text();
    let first = body.lines().find(|line| !line.trim().is_empty()).unwrap();
    assert!(first.contains("changes files that") && body.contains("provost.toml"), "{body}");
    assert!(body.find("provost.toml") < body.find("## Asked"), "{body}");
}

/// Sets up a served project: its workflow, its issues and the user's configuration.
fn serve_env() -> ScriptedRunEnv {
    let env = ScriptedRunEnv::new("echo work > work.txt");
    env.configure_agent(
        "echo work > work.txt",
        "[run]\ntriage = false\n[review]\ntask = \"off\"\n",
    );
    let front = "tracker: {kind: file}\npolling: {interval_ms: 50}\nprovost: {agent: talker}\n";
    env.repo.write("WORKFLOW.md", &format!("---\n{front}---\nDo {{{{ issue.title }}}}.\n"));
    env.repo.write("provost.toml", "[session]\nstale_after = \"5m\"\n");
    env.repo.write("issues/a.md", "---\ntitle: a\nstate: todo\n---\nA.\n");
    env.repo.commit("A workflow");
    env.home.trust(env.repo.path());
    env
}

#[test]
fn f2_11_serve_keeps_startup_config() {
    let env = serve_env();
    let workflow = env.repo.path().join("WORKFLOW.md").display().to_string();
    let serving = env.home.follow(&["serve", "--json", "--workflow", &workflow]);
    let event = |kind: &str| {
        serving.wait_line(kind, |line| {
            let event: Value = serde_json::from_str(line).ok()?;
            (event["event"] == kind).then_some(event)
        })
    };
    event("ended");
    // This simulates an agent's change that was merged and checked out.
    let planted = env.path_string("planted");
    env.repo.write("provost.toml", &format!("[worktree]\nsetup = \"touch {planted}\"\n"));
    env.repo.write("issues/b.md", "---\ntitle: b\nstate: todo\n---\nB.\n");
    let held = event("change_not_trusted");
    assert!(held["message"].as_str().unwrap().contains("provost.toml"), "{held:#}");
    assert!(held["message"].as_str().unwrap().contains("provost trust"), "{held:#}");
    event("ended");
    assert!(!Path::new(&planted).exists(), "the planted setup ran");
    let text = fs::read_to_string(&workflow).unwrap();
    let hook = format!("hooks: {{after_create: \"touch {planted}\"}}\n---\nDo");
    fs::write(&workflow, text.replace("---\nDo", &hook)).unwrap();
    env.repo.write("issues/c.md", "---\ntitle: c\nstate: todo\n---\nC.\n");
    let held = event("not_reloaded");
    assert_eq!(held["class"], "workflow_not_trusted", "{held:#}");
    assert!(!Path::new(&planted).exists(), "the planted hook ran");
    // The operator trusts the new files, so they take effect. The third issue may have started before that.
    env.home.trust(env.repo.path());
    env.repo.write("issues/d.md", "---\ntitle: d\nstate: todo\n---\nD.\n");
    let exists = || Path::new(&planted).exists().then_some(());
    eventually("the trusted hook runs", exists);
    eventually("all runs are over", || {
        let listed = env.home.provost(&["ls", "--runs", "--all", "--json"]).ok().json();
        let runs = listed["runs"].as_array().unwrap().clone();
        let over = runs.len() == 4 && runs.iter().all(|run| run["sealed"] == true);
        if over { Ok(()) } else { Err(runs.len()) }
    });
}

/// A repository in which real Codex plans and works, with a scripted model.
struct PlannerEnv {
    env: ScriptedRunEnv,
    model: ModelServer,
}

/// Returns a plan with one task and these checks, as JSON.
fn plan_json(checks: &[&str]) -> String {
    let task = json!({
        "id": "one", "title": "The one", "instruction": "Write one.", "after": [],
        "criteria": [], "checks": checks, "scope": [],
    });
    let result = json!({"status": "completed", "summary": "planned", "tasks": [task]});
    result.to_string()
}

/// A scripted thread that starts on a prompt and sends one of these messages per turn.
fn scripted_thread(when: &str, messages: &[String]) -> String {
    let turn = |message: &String| {
        format!("  {{ response = [{{ items = [{{ message = '{message}' }}] }}] }},\n")
    };
    let turns: String = messages.iter().map(turn).collect();
    format!("[[thread]]\nwhen = {{ prompt = \"{when}\" }}\nturn = [\n{turns}]\n")
}

const WORK_THREAD: &str = "[[thread]]\nwhen = { prompt = \"one: The one\" }\nturn = [\n  { response = [{ items = [{ shell = \"echo one > one\" }] }, { items = [{ message = \"Done.\" }] }] },\n  { response = [{ items = [{ json = { status = \"completed\", summary = \"wrote one\" } }] }] },\n]\n";

impl PlannerEnv {
    /// Sets up a planner that returns these plans in order; `None` without Codex.
    fn new(plans: &[String], configuration: &str) -> Option<PlannerEnv> {
        let program = codex()?;
        let scenario = scripted_thread("Divide it into tasks", plans) + WORK_THREAD;
        let model = ModelServer::play(&scenario);
        let mut home = TestHome::new();
        home.set_env("PROVOST_CODEX", program);
        let repo = home.repo("work");
        home.configure(configuration);
        let codex_home = home.root().join("user/.codex");
        fs::create_dir_all(&codex_home).unwrap();
        let sandbox = "[sandbox_workspace_write]\nexclude_slash_tmp = true\n";
        let text = codex_config(MODEL, &model.url()) + sandbox;
        fs::write(codex_home.join("config.toml"), text).unwrap();
        Some(PlannerEnv { env: ScriptedRunEnv { home, repo }, model })
    }

    #[track_caller]
    fn open_run(&self, arguments: &[&str]) -> String {
        let plain = ["--no-triage", "--plan-mode", "always", "--review-plan", "off"];
        let rest = ["--review-task", "off", "Plan it."];
        let all = [&["run", "--detach", "--json"], arguments, &plain, &rest].concat();
        let opened = self.env.home.provost_in(self.env.repo.path(), &all);
        opened.ok().json()["id"].as_str().unwrap().to_owned()
    }
}

#[test]
fn f5_g2_agent_plan_commands_need_consent() {
    let home = TestHome::new();
    let escaped = home.root().join("escaped").display().to_string();
    let check = format!("touch {escaped}");
    let Some(planned) = PlannerEnv::new(&[plan_json(&[&check, "true"])], "") else { return };
    let id = planned.open_run(&["--check", "true"]);
    let approval = planned.env.wait_approval(&id);
    assert_eq!(approval["kind"], "plan", "{approval:#}");
    assert_eq!(approval["commands"], json!([check]), "the user's own check needs no consent");
    assert!(!Path::new(&escaped).exists(), "a command of the plan ran without consent");
    let shown = planned.env.home.provost(&["status", &id]).ok().stdout.clone();
    assert!(shown.contains(&check), "{shown}");
    planned.env.home.daemon().kill();
    assert_eq!(planned.env.wait_approval(&id)["commands"], json!([check]));
    planned.env.home.provost(&["approve", &id]).ok();
    let row = planned.env.home.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert!(Path::new(&escaped).exists(), "the approved command ran");
    planned.model.assert_all_as_scripted();
}

#[test]
fn f5_g2_denied_plan_command_is_refused() {
    let home = TestHome::new();
    let escaped = home.root().join("escaped").display().to_string();
    let bad = plan_json(&[&format!("touch {escaped}")]);
    let rules = "[approvals]\ndeny = [\"command: touch\"]\n";
    let Some(planned) = PlannerEnv::new(&[bad.clone(), bad], rules) else { return };
    let id = planned.open_run(&["--check", "true"]);
    let row = planned.env.home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("plan")), "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains("command touch"), "{row:#}");
    assert!(!Path::new(&escaped).exists());
    assert_eq!(planned.model.unexpected(), Vec::<String>::new(), "the planner was asked twice");
}

#[test]
fn f5_g2_only_agent_check_completes_not_succeeds() {
    let rules = "[approvals]\nallow = [\"command: test\"]\n";
    let Some(planned) = PlannerEnv::new(&[plan_json(&["test -s one"])], rules) else { return };
    let id = planned.open_run(&[]);
    let row = planned.env.home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["verified"]), (&json!("completed"), &json!(false)), "{row:#}");
    planned.model.assert_all_as_scripted();
}

#[test]
fn f5_m2_agent_check_is_labelled() {
    let rules = "[approvals]\nallow = [\"command: test\"]\n[verify]\nchecks = [\"test -d .\"]\n";
    let origins = |row: &Value| -> Vec<(Value, Value)> {
        let checks = row["checks"].as_array().unwrap();
        checks.iter().map(|check| (check["command"].clone(), check["by"].clone())).collect()
    };
    for (arguments, by) in [(&[][..], "configuration"), (&["--check", "test -d ."][..], "operator")]
    {
        let Some(planned) = PlannerEnv::new(&[plan_json(&["test -s one"])], rules) else { return };
        let id = planned.open_run(arguments);
        let row = planned.env.home.wait_sealed(&id);
        assert_eq!(row["state"], "succeeded", "{row:#}");
        let expected = [(json!("test -d ."), json!(by)), (json!("test -s one"), json!("agent"))];
        assert_eq!(origins(&row), expected, "{row:#}");
        let status = planned.env.home.provost(&["status", &id]).ok().stdout.clone();
        assert!(status.contains("written by an agent"), "{status}");
        let summary = eventually("the card is written", || {
            let summary = planned.env.home.provost(&["summary", &id]);
            if summary.code() == Some(0) { Ok(summary.stdout) } else { Err(summary.stderr) }
        });
        assert!(summary.contains("written by an agent"), "{summary}");
    }
}

#[test]
fn f5_m2_no_check_flag_skips_plan_checks() {
    let Some(planned) = PlannerEnv::new(&[plan_json(&["test -s one"])], "") else { return };
    let id = planned.open_run(&["--no-check"]);
    let row = planned.env.home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["verified"]), (&json!("completed"), &json!(false)), "{row:#}");
    assert_eq!(row["checks"], json!([]), "{row:#}");
    planned.model.assert_all_as_scripted();
}

/// A worker that waits for the file `order`, sends each `post-N` to the daemon and writes the replies to `reply-N`.
const WORKER_SCRIPT: &str = r#"
use IO::Socket::UNIX;
my ($dir) = @ARGV;
$/ = undef;
select(undef, undef, undef, 0.02) until -e "$dir/order";
for my $no (0 .. 3) {
    open(my $in, '<', "$dir/post-$no") or die;
    my $daemon = IO::Socket::UNIX->new(Peer => $ENV{PROVOST_SOCKET}) or die;
    print {$daemon} readline($in);
    $daemon->flush;
    open(my $out, '>', "$dir/reply.new") or die;
    print {$out} readline($daemon);
    close($out);
    rename("$dir/reply.new", "$dir/reply-$no") or die;
}
"#;

/// Returns an HTTP request that posts a message to the manager of the team `limits`.
fn post_request(kind: &str, channel: &str) -> String {
    let message = json!({
        "key": format!("{kind}-{channel}"), "correlation": null, "channel": channel,
        "to": {"member": "boss"}, "kind": kind, "priority": "normal", "expires_in_ms": null,
        "text": format!("{kind} by {channel}: cargo test exited with 0"),
    });
    let body = json!({"command": {"post": message}}).to_string();
    let length = body.len();
    format!(
        "POST /v1/teams/limits/do HTTP/1.1\r\nhost: provost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn f7_s3_worker_cannot_post_as_provost() {
    let home = TestHome::new();
    let place = home.root().display().to_string();
    let posts = [
        post_request("news", "rule"),
        post_request("continuation", "tool"),
        post_request("probe", "cli"),
        post_request("report", "rule"),
    ];
    for (no, post) in posts.iter().enumerate() {
        fs::write(home.root().join(format!("post-{no}")), post).unwrap();
    }
    home.provost(&["team", "new", "limits", "--goal", "limit how often each caller calls"]).ok();
    let spawn = ["spawn", "--json", "--", "perl", "-e", WORKER_SCRIPT, &place];
    let session = home.provost(&spawn).ok().json()["id"].as_str().unwrap().to_owned();
    let bind = ["team", "bind", "limits"];
    home.provost(&[&bind[..], &["w", "--role", "worker", "--session", &session]].concat()).ok();
    home.provost(&[&bind[..], &["boss", "--role", "manager"]].concat()).ok();
    fs::write(home.root().join("order"), "").unwrap();
    let reply =
        |no| eventually("a reply", || read_nonempty(home.root().join(format!("reply-{no}"))));
    let replies: Vec<String> = (0..posts.len()).map(reply).collect();
    let listed =
        home.provost(&["team", "inbox", "ls", "--all", "-t", "limits", "--json"]).ok().json();
    let messages = listed["messages"].as_array().unwrap();
    let of_worker: Vec<&Value> = messages.iter().filter(|one| one["from"] == "w").collect();
    assert_eq!(of_worker.len(), 1, "{replies:#?} {of_worker:#?}");
    let (kind, channel) = (&of_worker[0]["kind"], &of_worker[0]["channel"]);
    assert_eq!((kind, channel), (&json!("report"), &json!("command line")), "{of_worker:#?}");
    for reply in &replies[..3] {
        assert!(reply.starts_with("HTTP/1.1 409 "), "{reply}");
    }
    home.wait_sealed(&session);
}

#[test]
fn f5_g2_member_command_needs_consent() {
    let home = TestHome::new();
    let repo = home.repo("work");
    let escaped = home.root().join("escaped").display().to_string();
    let check = format!("touch {escaped}");
    home.configure("[approvals]\ndeny = [\"command: curl\"]\n");
    let new = ["team", "new", "limits", "--goal", "limit how often each caller calls"];
    home.provost_in(repo.path(), &new).ok();
    for (name, role) in [("w", "worker"), ("boss", "manager")] {
        home.provost(&["team", "bind", "limits", name, "--role", role]).ok();
    }
    let act = |words: &[&str]| {
        home.provost(&[words, &["-t", "limits", "--as", "boss", "--json"]].concat())
    };
    act(&["team", "contract", "accept", "--revision", "0"]).ok();
    let denied = ["team", "criterion", "add", "it can be fetched", "--check", "curl x", "--accept"];
    assert!(act(&denied).assert_code(4).stdout.contains("command curl"));
    act(&["team", "criterion", "add", "the file is there", "--check", &check, "--accept"]).ok();
    let refused = act(&["team", "prove", "--criterion", "1"]);
    assert!(refused.assert_code(4).stdout.contains("has not approved"), "{refused:#?}");
    let shown = home.provost(&["team", "show", "limits", "--json"]).ok().json();
    assert_eq!(shown["team"]["awaits_consent"], json!([check]), "{shown:#}");
    assert!(!Path::new(&escaped).exists(), "a member's command ran without consent");
    home.provost(&["approve", "limits"]).ok();
    act(&["team", "prove", "--criterion", "1"]).ok();
    eventually("the check ran", || Path::new(&escaped).exists().then_some(()));
    home.provost(&["team", "cancel", "limits", "--because", "enough of it"]).ok();
}
