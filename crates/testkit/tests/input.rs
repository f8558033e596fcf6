//! Steps that read stdin.

use crate::stage::Stage;

#[test]
fn wait_input_takes_the_next_message_of_its_type() {
    let stage = Stage::new();
    let mut playing = stage.start("[[step]]\nwait_input = { type = 'instruction' }\n[[step]]\nsay = '{{input_key}}: {{input}}'");
    playing.send(r#"{"type":"interrupt","key":"k0"}"#);
    playing.send(r#"{"type":"instruction","key":"k1","text":"do {{pid}} this"}"#);
    assert_eq!((playing.line().as_str(), playing.code()), ("k1: do {{pid}} this", Some(0)));
}

#[test]
fn answers_are_kept_as_json() {
    let stage = Stage::new();
    let mut playing =
        stage.start("[[step]]\nwait_input = { type = 'answer' }\n[[step]]\nsay = '{{input}}'");
    playing.send(r#"{"type":"answer","key":"k","request":"q1","answers":{"store":["SQLite"]}}"#);
    assert_eq!(playing.line(), r#"{"store":["SQLite"]}"#);
    playing.code();
}

#[test]
fn lines_that_came_together_are_all_seen() {
    let stage = Stage::new();
    let mut playing = stage.start(
        "[[step]]\nrepeat = { times = 3, steps = [{ read_line = true }, { say = '<{{input}}>' }] }",
    );
    playing.send("one\ntwo\r\n");
    assert_eq!([playing.line(), playing.line(), playing.line()], ["<one>", "<two>", "<>"]);
    playing.code();
}

#[test]
fn the_end_of_stdin_ends_the_agent_as_the_step_says() {
    let stage = Stage::new();
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
fn a_line_that_is_not_json_breaks_the_scenario() {
    let stage = Stage::new();
    let mut playing = stage.start("[[step]]\nwait_input = { type = 'x' }");
    playing.send("not json");
    assert_eq!(playing.code(), Some(70));
}
