//! Steps that read stdin.

use crate::agent_env::AgentEnv;

#[test]
fn wait_input_takes_the_next_message_of_its_type() {
    let stage = AgentEnv::new();
    let mut playing = stage.start("[[step]]\nwait_input = { type = 'instruction' }\n[[step]]\nsay = '{{input_key}}: {{input}}'");
    playing.send(r#"{"type":"interrupt","key":"k0"}"#);
    playing.send(r#"{"type":"instruction","key":"k1","text":"do {{pid}} this"}"#);
    assert_eq!((playing.line().as_str(), playing.code()), ("k1: do {{pid}} this", Some(0)));
}

#[test]
fn answers_are_kept_as_json() {
    let stage = AgentEnv::new();
    let mut playing =
        stage.start("[[step]]\nwait_input = { type = 'answer' }\n[[step]]\nsay = '{{input}}'");
    playing.send(r#"{"type":"answer","key":"k","request":"q1","answers":{"store":["SQLite"]}}"#);
    assert_eq!(playing.line(), r#"{"store":["SQLite"]}"#);
    playing.code();
}

#[test]
fn lines_sent_together_are_all_read() {
    let stage = AgentEnv::new();
    let mut playing = stage.start(
        "[[step]]\nrepeat = { times = 3, steps = [{ read_line = true }, { say = '<{{input}}>' }] }",
    );
    playing.send("one\ntwo\r\n");
    assert_eq!([playing.line(), playing.line(), playing.line()], ["<one>", "<two>", "<>"]);
    playing.code();
}

#[test]
fn eof_ends_the_agent_as_scripted() {
    let stage = AgentEnv::new();
    let scenarios = [
        ("[[step]]\nwait_input = { type = 'x' }\n[[step]]\nexit = 9", 0),
        ("[[step]]\nwait_input = { type = 'x' }\non_eof = 5\n[[step]]\nexit = 9", 5),
        ("[[step]]\nread_line = true\non_eof = 6\n[[step]]\nexit = 9", 6),
        ("[[step]]\nread_line = true\non_eof = 'continue'\n[[step]]\nexit = 9", 9),
    ];
    for (scenario, code) in scenarios {
        assert_eq!(stage.play(scenario).status.code(), Some(code), "{scenario}");
    }
}

#[test]
fn invalid_json_line_breaks_the_scenario() {
    let stage = AgentEnv::new();
    let mut playing = stage.start("[[step]]\nwait_input = { type = 'x' }");
    playing.send("not json");
    assert_eq!(playing.code(), Some(70));
}
