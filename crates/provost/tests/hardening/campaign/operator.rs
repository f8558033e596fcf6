//! The commands of a campaign's operator, and their expected outcomes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use provost_testkit::harness::string_value;
use provost_testkit::{
    ProgramOutput, TestHome, TestRepo, eventually, eventually_within, scripted_agent_bin,
};
use serde_json::Value;

use super::faults::{FaultInjector, is_root};
use super::{DRAIN, SeededRandom, is_answered};

/// The user that runs the campaign's processes if the test runs as root, because thread limits do
/// not apply to root.
const UNPRIVILEGED: u32 = 61_234;

/// Maximum duration of a shortage.
const SHORTAGE: Duration = Duration::from_secs(1);

/// Runs a turn per message; the message names the job.
const WORKER: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
repeat = { times = 9, steps = [
  { read_line = true },
  { emit = { type = "turn_started", turn = "t1" } },
  { run = ["sh", "{{root}}/act.sh", "{{root}}", "{{input}}"] },
  { emit = { type = "claim", claim = "completed", text = "did it" } },
  { emit = { type = "turn_ended", turn = "t1", status = "ok" } },
] }
"#;

/// Logs the job, and changes a file as soon as there is disk space.
const ACT: &str = r#"case "$2" in *'"type":"interrupt"'*) exec sleep 600;; esac
text=$(printf '%b' "$2")
key=$(printf '%s\n' "$text" | grep -o 'job-[0-9]*' | head -n 1)
test -n "$key" || exit 0
task=$(printf '%s\n' "$text" | awk '/^## Your task/ { found = 1 } found')
part=$(printf '%s\n' "${task:-$text}" | grep -o 'part-[0-9]' | head -n 1)
echo "$key" >> "$1/starts"
until echo "$key" > "$key-$part.txt"; do sleep 0.05; done 2> /dev/null
"#;

/// Asks a question before it finishes.
const ASKER: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "request", id = "q1", kind = "question", blocking = true, title = "Storage", questions = [{ id = "store", header = "Store", question = "Where?", options = [], secret = false }] }
[[step]]
wait_input = { type = "answer" }
[[step]]
append = { path = "{{root}}/answers", content = "{{input}}\n" }
[[step]]
emit = { type = "claim", claim = "completed", text = "as answered" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
exit = 0
"#;

/// Logs every line it receives.
const LISTENER: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
repeat = { times = 9999, steps = [
  { read_line = true },
  { append = { path = "{{root}}/messages", content = "{{input}}\n" } },
] }
"#;

const PLAN: &str = r#"
[[task]]
id = "one"
title = "One"
instruction = "KEY part-1"
[[task]]
id = "two"
title = "Two"
instruction = "KEY part-2"
after = ["one"]
"#;

/// The kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    /// A plain command that exits with this code.
    Command(u8),
    /// An agent with a worktree and a check.
    Work,
    /// An agent that asks a question.
    Question,
    /// A run of a plan with two tasks.
    Run,
}

/// The number of times an effect may have happened.
pub(super) struct CountRange {
    pub(super) least: usize,
    pub(super) most: usize,
}

const ONCE: CountRange = CountRange { least: 1, most: 1 };

impl JobKind {
    /// Returns the legal final states. A job whose agent, holder or check was killed has several.
    pub(super) fn legal_states(self, hit: bool) -> &'static [&'static str] {
        match (self, hit) {
            (JobKind::Command(0), false) | (JobKind::Question, false) => &["completed"],
            (JobKind::Command(_), false) => &["failed"],
            (JobKind::Work | JobKind::Run, false) => &["succeeded"],
            (JobKind::Command(0), true) => {
                &["completed", "failed", "exited_without_claim", "cancelled"]
            }
            // An unobserved exit may have been a clean one.
            (JobKind::Command(_), true) => &["failed", "exited_without_claim", "cancelled"],
            (JobKind::Work, true) => &[
                "succeeded",
                "completed",
                "disputed",
                "failed",
                "exited_without_claim",
                "cancelled",
            ],
            (JobKind::Question, true) => {
                &["completed", "failed", "exited_without_claim", "cancelled"]
            }
            (JobKind::Run, true) => &["succeeded", "failed", "cancelled"],
        }
    }

    /// Returns the files that must contain the job's key, and how many times. A check whose holder
    /// was killed runs again. After git was killed, a check may run again too, and a run may
    /// restart a task.
    pub(super) fn effects(self, hit: bool, lost_git: bool) -> Vec<(&'static str, CountRange)> {
        let least = usize::from(!hit);
        let at_least =
            |least| CountRange { least, most: if lost_git { usize::MAX } else { least } };
        match self {
            JobKind::Command(_) => vec![("starts", CountRange { least, most: 1 })],
            JobKind::Work if hit => vec![("starts", CountRange { least: 0, most: 1 })],
            JobKind::Work => vec![("starts", ONCE), ("checks", at_least(1))],
            JobKind::Question => vec![("answers", CountRange { least, most: 1 })],
            JobKind::Run if hit => Vec::new(),
            JobKind::Run => vec![("starts", at_least(2))],
        }
    }
}

/// A job that was requested and acknowledged.
#[derive(Clone, Debug)]
pub(super) struct CampaignJob {
    pub(super) key: String,
    pub(super) kind: JobKind,
    pub(super) id: String,
    pub(super) answered: bool,
}

/// A command that was started and has not been waited for.
pub(super) struct PendingCommand {
    child: Child,
    args: Vec<String>,
    command: CampaignCommand,
}

enum CampaignCommand {
    Job(String, JobKind),
    Message(String),
    Post(String),
}

/// The operator, with its own home.
pub(super) struct CampaignOperator {
    pub(super) home: TestHome,
    pub(super) repo: TestRepo,
    pub(super) jobs: Vec<CampaignJob>,
    /// Acknowledged messages to the listener.
    pub(super) sent: Vec<String>,
    /// Acknowledged messages to the team's member.
    pub(super) posted: Vec<String>,
    pub(super) listener: String,
    /// The user that runs all processes, if it is not the current user.
    user: Option<u32>,
}

impl CampaignOperator {
    pub(super) fn new() -> CampaignOperator {
        let home = TestHome::with_short_windows();
        let repo = home.repo("sample");
        let root = home.root().display().to_string();
        let agents = [("worker", WORKER), ("asker", ASKER), ("listener", LISTENER)];
        let agents = agents.map(|(name, scenario)| home.scripted_agent(name, scenario)).concat();
        let ends = [
            "opened",
            "completed",
            "succeeded",
            "failed",
            "exited_without_claim",
            "disputed",
            "stopped",
            "cancelled",
        ];
        // A hook derives its session from its launch key.
        let hook = |name: &str| {
            format!("{name} = \"echo ${{PROVOST_LAUNCH%%.*}} {name} >> {root}/hooks\"\n")
        };
        let hooks = ends.map(hook).concat();
        home.configure(&format!("[hooks.session]\n{hooks}\n{agents}"));
        fs::write(home.root().join("act.sh"), ACT).expect("a script can be written");
        let user = is_root().then_some(UNPRIVILEGED);
        let (jobs, sent, posted) = (Vec::new(), Vec::new(), Vec::new());
        let mut operator =
            CampaignOperator { home, repo, jobs, sent, posted, listener: String::new(), user };
        operator.change_owner();
        operator
    }

    /// Makes the campaign's user the owner of all files.
    fn change_owner(&mut self) {
        let Some(user) = self.user else { return };
        let words = self.as_user();
        let can = Command::new(&words[0]).args(&words[1..]).arg("true").output();
        if !can.is_ok_and(|ran| ran.status.success()) {
            println!("campaign: runs as root, because setpriv cannot change the user");
            self.user = None;
            return;
        }
        for program in [provost_testkit::provost_bin(), scripted_agent_bin()] {
            fs::set_permissions(program, fs::Permissions::from_mode(0o755)).ok();
        }
        chown_all(self.home.root(), user);
    }

    /// Whether thread limits apply to the campaign's processes.
    pub(super) fn is_bound_by_limits(&self) -> bool {
        self.user.is_some() || !is_root()
    }

    /// Makes the campaign's user the owner of the home, after it was mounted.
    pub(super) fn chown_home(&self) {
        if let Some(user) = self.user {
            chown_all(&self.home.path(), user);
        }
    }

    /// Returns the command prefix that switches to the campaign's user; empty if it is the current user.
    pub(super) fn as_user(&self) -> Vec<String> {
        let Some(user) = self.user else { return Vec::new() };
        let (uid, gid) = (format!("--reuid={user}"), format!("--regid={user}"));
        to_strings(&["setpriv", &uid, &gid, "--clear-groups"])
    }

    /// Starts the listener and the team, which stay for the whole campaign.
    pub(super) fn start_listener_and_team(&mut self) {
        let spawned = self.run_until_answered(&[
            "spawn", "--json", "--key", "listener", "--agent", "listener", "listen",
        ]);
        self.listener = spawned.ok().id();
        self.run_until_answered(&[
            "team",
            "new",
            "crew",
            "--goal",
            "take messages",
            "--key",
            "crew",
        ])
        .ok();
        self.run_until_answered(&[
            "team", "bind", "crew", "hand", "--role", "worker", "--key", "hand",
        ])
        .ok();
    }

    /// A file outside the home, in which effects are counted.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.home.root().join(name)
    }

    /// Counts the lines of a file that contain a key.
    pub(super) fn count(&self, file: &str, key: &str) -> usize {
        let text = fs::read_to_string(self.file(file)).unwrap_or_default();
        // A key followed by another digit is a different key.
        let names = |line: &&str| {
            line.match_indices(key).any(|(at, _)| {
                !line[at + key.len()..].starts_with(|after: char| after.is_ascii_digit())
            })
        };
        text.lines().filter(names).count()
    }

    /// Returns a `provost` command that runs as the campaign's user.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let provost = self.home.command(args);
        let mut all = self.as_user().into_iter().map(OsString::from).collect::<Vec<_>>();
        all.push(provost.get_program().to_owned());
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]);
        command.args(args).current_dir(self.repo.path()).env_clear();
        command.envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command once.
    pub(super) fn run_once(&self, args: &[&str]) -> ProgramOutput {
        let child = self.command(args).spawn().expect("provost can be started");
        wait_output(child, args)
    }

    /// Repeats a command until a daemon has answered it.
    #[track_caller]
    pub(super) fn run_until_answered(&self, args: &[&str]) -> ProgramOutput {
        eventually_within(DRAIN, &format!("an answer to {args:?}"), || {
            let output = self.run_once(args);
            if is_answered(&output) { Ok(output) } else { Err(output) }
        })
    }

    /// Starts the next command without waiting for it.
    pub(super) fn start_command(
        &mut self,
        random: &mut SeededRandom,
        round: usize,
    ) -> PendingCommand {
        if self.listener.is_empty() {
            self.start_listener_and_team();
        }
        let key = format!("job-{round}");
        let file = |name: &str| self.file(name).display().to_string();
        let (args, what): (Vec<String>, CampaignCommand) = match random.below(12) {
            0 | 1 => {
                let text = format!("message-{round}");
                (
                    to_strings(&["send", &self.listener, "--key", &key, &text]),
                    CampaignCommand::Message(text),
                )
            }
            2 => {
                let text = format!("post-{round}");
                let to = ["team", "send", "hand", "-t", "crew", "--key", &key, &text];
                (to_strings(&to), CampaignCommand::Post(text))
            }
            3..=5 => {
                let code = if random.below(3) == 0 { 3 } else { 0 };
                let script = format!(
                    "echo {key} >> {}; sleep 0.{}; exit {code}",
                    file("starts"),
                    random.below(9)
                );
                let args = [
                    "spawn",
                    "--json",
                    "--exit-zero-completes",
                    "--key",
                    &key,
                    "--",
                    "sh",
                    "-c",
                    &script,
                ];
                (to_strings(&args), CampaignCommand::Job(key.clone(), JobKind::Command(code)))
            }
            6..=8 => {
                let check = format!("echo {key} >> {}; ls {key}-*.txt", file("checks"));
                let args = [
                    "spawn",
                    "--json",
                    "--agent",
                    "worker",
                    "--worktree",
                    "--check",
                    &check,
                    "--key",
                    &key,
                    &format!("Do {key}"),
                ];
                (to_strings(&args), CampaignCommand::Job(key.clone(), JobKind::Work))
            }
            9 | 10 => {
                let args = [
                    "spawn",
                    "--json",
                    "--agent",
                    "asker",
                    "--key",
                    &key,
                    &format!("Ask about {key}"),
                ];
                (to_strings(&args), CampaignCommand::Job(key.clone(), JobKind::Question))
            }
            _ => {
                let plan = self.file(&format!("{key}.plan.toml"));
                fs::write(&plan, PLAN.replace("KEY", &key)).expect("a plan can be written");
                let plan = plan.display().to_string();
                let args = [
                    "run",
                    "--json",
                    "--detach",
                    "--agent",
                    "worker",
                    "--plan",
                    &plan,
                    "--review-task",
                    "off",
                    "--review-final",
                    "off",
                    "--check",
                    "true",
                    "--key",
                    &key,
                    &format!("Do {key}"),
                ];
                (to_strings(&args), CampaignCommand::Job(key.clone(), JobKind::Run))
            }
        };
        let child = self.spawn_command(&args);
        PendingCommand { child, args, command: what }
    }

    fn spawn_command(&self, args: &[String]) -> Child {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.command(&args).spawn().expect("provost can be started")
    }

    /// Waits for a command, repeats it until it is answered, and records its acknowledgement.
    pub(super) fn finish_command(&mut self, given: PendingCommand, saboteur: &mut FaultInjector) {
        let PendingCommand { child, args, command: what } = given;
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (sender, end) = mpsc::channel();
        let waited_for = args.join(" ");
        let waiter = thread::spawn(move || sender.send(wait_output(child, &[&waited_for])));
        // The command may be waiting for the resource that is short.
        let early = end.recv_timeout(SHORTAGE);
        saboteur.end_shortage();
        let late = || end.recv().expect("the command ends");
        let mut output = early.unwrap_or_else(|_| late());
        drop(waiter.join());
        if !is_answered(&output) {
            output = self.run_until_answered(&args);
        }
        assert_eq!(output.code(), Some(0), "{output:#?}");
        match what {
            CampaignCommand::Message(text) => self.sent.push(text),
            CampaignCommand::Post(text) => self.posted.push(text),
            CampaignCommand::Job(key, kind) => {
                let id = output.id();
                self.jobs.push(CampaignJob { key, kind, id, answered: false });
            }
        }
    }

    /// Answers open questions, each under one idempotency key.
    pub(super) fn answer_questions(&mut self, saboteur: &mut FaultInjector) {
        let unanswered = |job: &&CampaignJob| job.kind == JobKind::Question && !job.answered;
        if !self.jobs.iter().any(|job| unanswered(&job)) {
            return;
        }
        let rows = self.rows();
        let asks =
            |job: &&CampaignJob| rows.get(&job.id).is_some_and(|row| row["state"] == "needs_input");
        let asking: Vec<CampaignJob> =
            self.jobs.iter().filter(unanswered).filter(asks).cloned().collect();
        for job in asking {
            let key = format!("answer-{}", job.key);
            let output = self.run_until_answered(&["answer", &job.id, "--key", &key, &job.key]);
            // An agent that was killed meanwhile takes no answer.
            let refused = output.code() == Some(4) && saboteur.has_hit(&job, &rows);
            assert!(output.code() == Some(0) || refused, "{output:#?}");
            let known = self.jobs.iter_mut().filter(|known| known.key == job.key);
            known.for_each(|known| known.answered = true);
        }
    }

    /// Stops the listener once it has received every message.
    pub(super) fn close_listener(&mut self, saboteur: &mut FaultInjector) {
        assert!(!saboteur.hit.contains(&self.listener), "no one kills the listener");
        let heard = || {
            self.run_once(&["status", &self.listener]);
            let missing: Vec<&String> =
                self.sent.iter().filter(|text| self.count("messages", text) == 0).collect();
            if missing.is_empty() { Ok(()) } else { Err(missing.len()) }
        };
        eventually_within(DRAIN, "every message was heard", heard);
        self.run_until_answered(&["cancel", &self.listener, "--key", "end-of-listener"]).ok();
        eventually("the listener is gone", || {
            let row = self.rows().remove(&self.listener);
            row.filter(|row| row["sealed"] == true && row["process"] != "alive")
        });
    }

    /// Takes every message of the team's member and logs it.
    pub(super) fn pull_messages(&self) {
        let mut taken = String::new();
        loop {
            let next = self.run_once(&["team", "next", "-t", "crew", "--as", "hand", "--json"]);
            let item = next.ok().json()["item"].clone();
            if item.is_null() {
                break;
            }
            taken.push_str(&format!(
                "{}\n",
                item["text"].as_str().unwrap_or_default().replace('\n', " ")
            ));
            let (no, lease) = (item["no"].to_string(), item["lease"].to_string());
            self.run_once(&[
                "team", "inbox", "ack", &no, "--lease", &lease, "-t", "crew", "--as", "hand",
            ])
            .ok();
        }
        fs::write(self.file("team"), taken).expect("the messages can be noted");
    }

    /// Returns the rows of all sessions and runs, by id.
    pub(super) fn rows(&self) -> BTreeMap<String, Value> {
        let list = self.run_until_answered(&["ls", "--all", "--json"]).ok().json();
        let all =
            ["sessions", "runs"].map(|name| list[name].as_array().cloned().unwrap_or_default());
        all.concat().into_iter().map(|row| (string_value(&row["id"]), row)).collect()
    }

    /// Stops the daemon and restores the ownership of all files.
    pub(super) fn stop(&mut self) {
        let why = "the campaign is over";
        self.run_until_answered(&[
            "team",
            "cancel",
            "crew",
            "--because",
            why,
            "--key",
            "end-of-crew",
        ])
        .ok();
        self.run_once(&["daemon", "stop"]).ok();
        if self.user.is_some() {
            chown_all(self.home.root(), 0);
        }
    }
}

impl Drop for CampaignOperator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.run_once(&["daemon", "stop"]);
        }
    }
}

fn to_strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|word| (*word).to_owned()).collect()
}

fn wait_output(child: Child, args: &[&str]) -> ProgramOutput {
    let ran = child.wait_with_output().expect("a command can be waited for");
    ProgramOutput {
        command: format!("provost {}", args.join(" ")),
        status: ran.status,
        stdout: String::from_utf8_lossy(&ran.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
        raw_stdout: ran.stdout,
    }
}

/// Makes a user the owner of a directory and everything in it.
fn chown_all(path: &Path, user: u32) {
    let owner = format!("{user}:{user}");
    let changed = Command::new("chown").args(["-R", &owner]).arg(path).status();
    assert!(changed.is_ok_and(|status| status.success()), "{} changes its owner", path.display());
}
