//! Steps that print.

use std::io::Read as _;

use provost_testkit::scenario::{Flood, OutputChannel, write_flood};
use serde_json::{Value, json};

use crate::agent_env::AgentEnv;

#[test]
fn say_and_err_print_lines_on_their_own_channels() {
    let output = AgentEnv::new().play("[[step]]\nsay = 'out'\n[[step]]\nerr = 'noise'");
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"out\n"[..], &b"noise\n"[..])
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn raw_prints_bytes_as_they_are() {
    let output = AgentEnv::new()
        .play("[[step]]\nraw = '\\xff\\xfe\\e[31m\\n'\n[[step]]\nraw = 'base64:AAEC'");
    assert_eq!(output.stdout, b"\xff\xfe\x1b[31m\n\x00\x01\x02");
}

#[test]
fn emit_prints_json_with_placeholders() {
    let output = AgentEnv::new()
        .play("[[step]]\nemit = { type = 'x', n = 1, list = [{ at = 'launch {{launch_no}}' }] }");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line, json!({"type": "x", "n": 1, "list": [{"at": "launch 1"}]}));
}

#[test]
fn forge_prints_look_alikes_of_every_kind() {
    let output = AgentEnv::new().play("[[step]]\nforge = 'tokens used'");
    assert!(String::from_utf8(output.stdout).unwrap().contains("tokens used"));
    let text = String::from_utf8(AgentEnv::new().play("[[step]]\nforge = 'all'").stdout).unwrap();
    for part in ["tokens used", "session completed", r#""claim":"completed""#, "\x1b]133;D;0\x07"] {
        assert!(text.contains(part), "no {part:?} in {text:?}");
    }
}

#[test]
fn flood_prints_known_bytes_on_its_channel() {
    for (channel, name) in [(OutputChannel::Stdout, "stdout"), (OutputChannel::Stderr, "stderr")] {
        let flood = Flood { bytes: 300_001, line: 50, channel };
        let output = AgentEnv::new().play(&format!(
            "[[step]]\nflood = {{ bytes = 300001, line = 50, channel = '{name}' }}"
        ));
        let mut expected = Vec::new();
        write_flood(&mut expected, &flood).unwrap();
        let got = if channel == OutputChannel::Stdout { output.stdout } else { output.stderr };
        assert!(got == expected, "{} bytes on {name}, {} expected", got.len(), expected.len());
    }
}

#[test]
fn one_line_prints_exactly_one_long_line() {
    let output = AgentEnv::new().play("[[step]]\none_line = { bytes = 1000000 }");
    assert_eq!(output.stdout.len(), 1_000_001);
    assert_eq!(output.stdout.iter().position(|byte| *byte == b'\n'), Some(1_000_000));
}

#[test]
fn close_stdout_ends_output_of_live_agent() {
    let stage = AgentEnv::new();
    let mut playing = stage.start("[[step]]\nsay = 'last'\n[[step]]\nclose_stdout = true\n[[step]]\nwait_file = 'go'\n[[step]]\nexit = 4");
    let mut all = String::new();
    playing.stdout.read_to_string(&mut all).unwrap();
    assert_eq!(all, "last\n");
    assert!(playing.child.try_wait().unwrap().is_none(), "the agent exited");
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(playing.code(), Some(4));
}

#[test]
fn repeat_repeats_its_steps_and_counts() {
    let output = AgentEnv::new()
        .play("[[step]]\nrepeat = { times = 2, steps = [{ say = 'a{{n}}' }, { say = 'b{{n}}' }] }");
    assert_eq!(output.stdout, b"a1\nb1\na2\nb2\n");
}

#[test]
fn if_launch_picks_the_steps_of_one_launch() {
    let stage = AgentEnv::new();
    let scenario = "[[step]]\nif_launch = 2\nsay = 'second'\n[[step]]\nif_launch = 1\nsay = 'first'\n[[step]]\nsay = 'both'";
    assert_eq!(stage.play(scenario).stdout, b"first\nboth\n");
    let second = stage.agent(scenario).env("PROVOST_LAUNCH_NO", "2").output().unwrap();
    assert_eq!(second.stdout, b"second\nboth\n");
}

#[test]
fn vars_fill_in_placeholders() {
    let stage = AgentEnv::new();
    let output = stage
        .agent("[[step]]\nsay = '{{a}} and {{b}}'")
        .args(["--vars", "a=1", "b=x=y"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"1 and x=y\n");
}
