//! Hooks: notations, limits, layers.

use std::time::Duration;

use provost_config::{CommandSpec, Event, Hook};

use crate::support::layers;

#[test]
fn hook_notations_are_read() {
    let resolved = layers()
        .project(
            r#"
            [hooks]
            session.failed = "ring | tee log"
            "session.completed" = ["ring", "twice"]
            session.lost = { command = "x", time_limit = "5s", output_limit = "2KiB" }
            "#,
        )
        .resolve();
    let failed = &resolved.hooks[&Event::SessionFailed];
    assert_eq!(failed.command, CommandSpec::Shell("ring | tee log".into()));
    assert_eq!((failed.time_limit, failed.output_limit.get()), (Duration::from_secs(30), 1 << 20));
    let CommandSpec::Argv(argv) = &resolved.hooks[&Event::SessionCompleted].command else {
        panic!("an array is run without a shell");
    };
    assert_eq!((argv.program(), argv.arguments()), ("ring", &["twice".to_owned()][..]));
    let lost = &resolved.hooks[&Event::SessionLost];
    assert_eq!((lost.time_limit, lost.output_limit.get()), (Duration::from_secs(5), 2048));
    assert_eq!(resolved.hooks.len(), 3);
}

#[test]
fn default_hook_limits_apply() {
    let resolved = layers()
        .user("hooks.session.failed = \"a\"\nhooks.session.lost = { command = \"b\", time_limit = 1 }")
        .project("[hooks]\ntime_limit = \"3s\"\noutput_limit = \"4KiB\"")
        .resolve();
    let limits = |hook: &Hook| (hook.time_limit.as_secs(), hook.output_limit.get());
    assert_eq!(limits(&resolved.hooks[&Event::SessionFailed]), (3, 4096));
    assert_eq!(limits(&resolved.hooks[&Event::SessionLost]), (1, 4096));
}

#[test]
fn every_event_can_be_bound_in_both_notations() {
    for event in Event::ALL {
        for text in [
            format!("hooks.{} = \"x\"", event.name()),
            format!("[hooks]\n{:?} = \"x\"", event.name()),
        ] {
            let resolved = layers().project(&text).resolve();
            assert_eq!(resolved.hooks.keys().collect::<Vec<_>>(), [event], "{text}");
        }
    }
}

#[test]
fn project_can_disable_user_hook() {
    let user = "[hooks]\nsession.failed = \"a\"\nsession.lost = \"b\"";
    let resolved = layers().user(user).project("hooks.session.failed = false").resolve();
    assert_eq!(resolved.hooks.keys().collect::<Vec<_>>(), [&Event::SessionLost]);
}
