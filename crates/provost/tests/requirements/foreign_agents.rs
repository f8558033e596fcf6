//! External agents outside of Codex panes: launcher scripts, and agents identified only by their environment.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use provost_testkit::env::{TestEnv, kill};

/// A foreign process, killed with its child on drop.
struct ForeignProcess(Child);

impl ForeignProcess {
    fn start(program: &str, arguments: &[&str], name: Option<&str>) -> ForeignProcess {
        let mut command = Command::new(program);
        command.args(arguments).env_remove("AI_AGENT").stdin(Stdio::null());
        command.envs(name.map(|name| ("AI_AGENT", name)));
        ForeignProcess(command.spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The pid of its child process.
    fn child_pid(&self) -> Option<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for ForeignProcess {
    fn drop(&mut self) {
        self.child_pid().into_iter().for_each(kill);
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Copies a program under another name, unless the copy exists, because a running program cannot be
/// overwritten.
fn copy_program(stage: &TestEnv, from: &str, name: &str) -> String {
    let path = stage.file(name);
    if !Path::new(&path).exists() {
        fs::copy(from, &path).unwrap();
    }
    path
}

fn discover_agents(stage: &TestEnv) -> Vec<Value> {
    let discovered = stage.home.provost(&["discover", "--json"]).ok().json();
    discovered["agents"].as_array().unwrap().clone()
}

/// Waits until a process is discovered as an agent.
fn wait_discovered(stage: &TestEnv, pid: u32) -> Value {
    eventually("the agent is seen", || {
        discover_agents(stage).into_iter().find(|one| one["pid"] == pid)
    })
}

fn adopt(stage: &TestEnv, pid: u32) -> String {
    let adopted = stage.home.provost(&["adopt", "--pid", &pid.to_string(), "--json"]).ok().json();
    adopted["id"].as_str().unwrap().to_owned()
}

/// Starts a process named as an agent by its environment, with a child that runs until it is killed.
fn start_env_named(stage: &TestEnv, name: &str) -> ForeignProcess {
    let unheard = copy_program(stage, "/bin/sh", "unheard");
    let stranger = ForeignProcess::start(&unheard, &["-c", "sleep 600; true"], Some(name));
    eventually("its command runs", || stranger.child_pid());
    stranger
}

#[test]
fn launcher_script_and_agent_are_one_agent() {
    let stage = TestEnv::new();
    let (node, codex) =
        (copy_program(&stage, "/bin/sh", "node"), copy_program(&stage, "/bin/sleep", "codex"));
    let script = stage.file("node_modules/@openai/codex/bin/codex.js");
    fs::create_dir_all(Path::new(&script).parent().unwrap()).unwrap();
    fs::write(&script, format!("{codex} 600\ntrue\n")).unwrap();
    let wrapper = ForeignProcess::start(&node, &[&script], None);
    let agent = eventually("the agent runs", || wrapper.child_pid());
    wait_discovered(&stage, agent);
    assert!(
        !discover_agents(&stage).iter().any(|one| one["pid"] == wrapper.pid()),
        "it is listed beside"
    );
    let id = adopt(&stage, wrapper.pid());
    assert_eq!(stage.spec(&id)["adopted"]["process"]["pid"], agent);
    for pid in [wrapper.pid(), agent] {
        let again = stage.home.provost(&["adopt", "--pid", &pid.to_string()]);
        assert!(again.assert_code(4).stderr.contains("already adopted"), "{again:#?}");
    }
}

#[test]
fn env_named_agent_is_found_but_not_its_children() {
    let stage = TestEnv::new();
    let agent = start_env_named(&stage, "aider/0.9");
    let output = wait_discovered(&stage, agent.pid());
    assert_eq!((&output["agent"], &output["known_by"]), (&json!("aider"), &json!("AI_AGENT")));
    let command = agent.child_pid().unwrap();
    assert!(
        !discover_agents(&stage).iter().any(|one| one["pid"] == command),
        "it has the same name"
    );
    let refused = stage.home.provost(&["adopt", "--pid", &command.to_string()]);
    let next = format!("provost adopt --pid {}", agent.pid());
    assert!(refused.assert_code(4).stderr.contains(&next), "{refused:#?}");
    let id = adopt(&stage, agent.pid());
    assert_eq!(stage.status(&id)["agent"], "aider");
}

#[test]
fn adoption_lists_limits_and_working_commands() {
    let stage = TestEnv::new();
    let agent = start_env_named(&stage, "aider");
    let pid = agent.pid().to_string();
    let elsewhere = stage.home.provost(&["adopt", "--pid", &pid, "--cwd", "/"]);
    assert!(elsewhere.assert_code(2).stderr.contains("but the agent works in"), "{elsewhere:#?}");
    let adopted = stage.home.provost(&["adopt", "--pid", &pid, "--name", "theirs"]);
    let (id, output) = (adopted.ok().stdout.trim().to_owned(), adopted.stderr.clone());
    assert!(
        output.contains("adopted theirs") && output.contains("exit code will stay unknown"),
        "{output}"
    );
    assert!(!output.contains("working") && !output.contains("provost stop"), "{output}");
    let row = stage.wait_state(&id, |row| row["process"] == "alive");
    assert_eq!(row["communication"]["can_push"], false, "{row:#}");
    let logs = stage.home.provost(&["logs", &id]);
    assert!(logs.assert_code(4).stderr.contains("prints to its own terminal"), "{logs:#?}");
    assert!(logs.stderr.contains("provost events") && !logs.stderr.contains("gc"), "{logs:#?}");
    for shown in [&["status", &id, "--json"][..], &["adopt", "--pid", &pid, "--json"]] {
        let output = stage.home.provost(shown);
        assert!(!output.stdout.contains("provost logs"), "{output:#?}");
    }
    let output = wait_discovered(&stage, agent.pid());
    assert_eq!(output["session"], id.as_str(), "{output:#}");
    let output = stage.home.provost(&["discover"]).ok().clone();
    assert!(!output.stderr.contains(&format!("adopt --pid {pid}")), "{output:#?}");
    let other = start_env_named(&stage, "aider");
    let pid = other.pid().to_string();
    let second = stage.home.provost(&["adopt", "--pid", &pid, "--name", "theirs", "--json"]);
    let warned = second.ok().json()["warnings"].to_string();
    assert!(warned.contains("has the same name") && warned.contains("exit code"), "{warned}");
    drop((agent, other));
    stage.wait_sealed(&id);
    let ended = stage.home.provost(&["resume", &id]);
    assert!(ended.assert_code(4).stderr.contains("provost discover"), "{ended:#?}");
}

#[test]
fn agent_without_rollout_shows_turns_unseen() {
    let stage = TestEnv::new();
    let agent = start_env_named(&stage, "aider");
    let id = adopt(&stage, agent.pid());
    let row = stage.wait_state(&id, |row| row["process"] == "alive");
    assert_eq!(row["activity"], "unknown", "{row:#}");
    assert!(row["flags"].as_array().unwrap().contains(&json!("turns_unobservable")), "{row:#}");
    for shown in [&["ls"][..], &["status", &id], &["status", &id, "--why"]] {
        let output = stage.home.provost(shown).ok().stdout.clone();
        assert!(
            output.contains("turns not visible") && !output.contains("idle"),
            "{shown:?}: {output}"
        );
    }
    let why = stage.home.provost(&["status", &id, "--why"]).ok().stdout.clone();
    assert!(why.contains("its turns are unknown"), "{why}");
    let output = stage.home.provost(&["monitor", &id, "--timeout", "1s", "--json"]);
    let output = output.assert_code(5).json();
    assert!(output["results"][0]["reason"].to_string().contains("not visible"), "{output:#}");
    let output = stage.home.provost(&["monitor", &id, "--until", "idle", "--timeout", "1s"]);
    assert!(
        output.stdout.contains("timed out") || output.stdout.contains("timed_out"),
        "{output:#?}"
    );
    drop(agent);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "exited_without_claim", "{row:#}");
    assert!(!row["flags"].as_array().unwrap().contains(&json!("turns_unobservable")), "{row:#}");
}
