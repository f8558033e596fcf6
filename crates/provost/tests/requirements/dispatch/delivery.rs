//! Team messages: each is delivered once, to its recipient, and none is lost.

use std::{collections::BTreeSet, thread};

use provost_testkit::harness::{ProgramOutput, eventually};
use serde_json::{Value, json};

use super::team_env::TeamEnv;
use provost_testkit::env::{kill, output_of};

/// Short offer and lease windows.
const SHORT_WINDOWS: [&str; 4] = ["--offer", "1s", "--lease", "1s"];

fn message_status(env: &TeamEnv, no: u64) -> Value {
    let found = env.list_messages().into_iter().find(|message| message["no"] == no);
    found.map_or(Value::Null, |message| message["status"].clone())
}

#[test]
fn message_is_stored_accepted_and_acknowledged() {
    let env = TeamEnv::new();
    assert_eq!(env.take_next("hand", &[]), Value::Null, "no message was sent yet");
    assert_eq!(env.take_next("hand", &[]), Value::Null);
    let no = env.send("hand", "Begin with the tests.");
    let item = env.take_next("hand", &[]);
    assert_eq!(
        (&item["text"], &item["from"]),
        (&json!("Begin with the tests."), &json!("operator"))
    );
    assert_eq!((&item["trust"], &item["redelivered"]), (&json!("trusted"), &json!(false)));
    assert_eq!(message_status(&env, no), "accepted");
    env.ack("hand", &item).ok();
    assert_eq!(message_status(&env, no), "acknowledged");
    let id = env.show_task()["id"].as_str().unwrap().to_owned();
    let events = env.provost(&["events", "--json", "--limit", "1000"]).ok().json();
    let of_task = |kind: &str| {
        let events = events["events"].as_array().unwrap().iter();
        let found = events.filter(|one| one["session"] == *id && one["kind"] == *kind);
        found.cloned().collect::<Vec<_>>()
    };
    let accepted = &of_task("team.message_accepted")[0]["data"];
    assert_eq!((&accepted["kind"], &accepted["role"]), (&json!("instruction"), &json!("worker")));
    assert_eq!((&accepted["lease"]["delivery"], &accepted["polls"]), (&json!("pull"), &json!(2)));
    assert!(item["acknowledge_command"].as_str().unwrap().contains("--as hand"));
}

#[test]
fn waiting_member_is_woken_and_idle_wait_succeeds() {
    let env = TeamEnv::new();
    let waiting =
        env.command(&["team", "next", "-t", "limits", "--as", "hand", "--wait", "--json"]);
    let waiting = thread::spawn(move || output_of(waiting));
    eventually("a member waits", || {
        let task = env.show_task();
        let polled = &task["members"][0]["polled_at"];
        polled.is_i64().then_some(())
    });
    env.send("hand", "Begin with the tests.");
    let woken = waiting.join().unwrap();
    assert_eq!(woken.ok().json()["item"]["text"], "Begin with the tests.");
    let idle = env.act_as("hand", &["team", "next", "--wait", "--timeout", "1"]);
    assert_eq!(idle.ok().stdout, "{\"item\":null}\n", "who polls compares it word for word");
}

#[test]
fn d1_concurrent_sends_survive_daemon_kill() {
    let env = TeamEnv::new();
    let senders: Vec<_> = (0..6)
        .map(|sender| {
            let send = |n: u32| {
                let text = format!("{sender}-{n}");
                let words = ["team", "send", "hand", &text, "-t", "limits", "--key", &text];
                // A request that the killed daemon did not answer is repeated with its key.
                [env.command(&words), env.command(&words)]
            };
            let commands: Vec<_> = (0..4).map(send).collect();
            thread::spawn(move || {
                for [first, again] in commands {
                    if output_of(first).code() != Some(0) {
                        output_of(again).ok();
                    }
                }
            })
        })
        .collect();
    eventually("something is sent", || (!env.list_messages().is_empty()).then_some(()));
    env.daemon().kill();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let mut taken = Vec::new();
    loop {
        let item = env.take_next("hand", &[]);
        if item.is_null() {
            break;
        }
        env.ack("hand", &item).ok();
        taken.push(item["text"].as_str().unwrap().to_owned());
    }
    let different: BTreeSet<&String> = taken.iter().collect();
    assert_eq!((taken.len(), different.len()), (24, 24), "{taken:?}");
}

#[test]
fn d2_message_of_dead_consumer_is_redelivered() {
    let env = TeamEnv::with_flags(&SHORT_WINDOWS);
    env.send("hand", "Begin with the tests.");
    let offered = env.take_next("hand", &["--hold"]);
    assert_eq!(message_status(&env, 1), "offered");
    // The consumer took the offer and then disappeared.
    let again = env.take_next("hand", &["--wait", "--timeout", "30"]);
    assert_eq!((&again["no"], &again["redelivered"]), (&offered["no"], &json!(true)));
    assert_eq!(again["key"], offered["key"]);
    // The consumer accepted the message and died while it handled the message.
    let third = env.take_next("hand", &["--wait", "--timeout", "30"]);
    assert_eq!((&third["no"], &third["redelivered"]), (&offered["no"], &json!(true)));
    let late = env.ack("hand", &again);
    assert!(
        late.assert_code(4).json()["error"]["message"].as_str().unwrap().contains("offered again")
    );
    env.ack("hand", &third).ok();
    assert_eq!(env.take_next("hand", &[]), Value::Null);
}

#[test]
fn d2_taken_message_survives_daemon_death() {
    let env = TeamEnv::new();
    env.send("hand", "Begin with the tests.");
    let item = env.take_next("hand", &[]);
    env.daemon().kill();
    env.ack("hand", &item).ok();
    assert_eq!(message_status(&env, 1), "acknowledged");
}

#[test]
fn d2_consumer_killed_while_waiting_takes_nothing() {
    let env = TeamEnv::with_flags(&SHORT_WINDOWS);
    let mut command =
        env.command(&["team", "next", "-t", "limits", "--as", "hand", "--wait", "--json"]);
    let mut waiting = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    eventually("a member waits", || {
        env.show_task()["members"][0]["polled_at"].is_i64().then_some(())
    });
    kill(waiting.id());
    waiting.wait().unwrap();
    env.send("hand", "Begin with the tests.");
    let item = env.take_next("hand", &["--wait", "--timeout", "30"]);
    assert_eq!(item["text"], "Begin with the tests.");
}

#[test]
fn d4_second_consumer_gets_next_message() {
    let env = TeamEnv::new();
    env.send("hand", "first");
    env.send("hand", "second");
    let takers: Vec<_> = (0..2)
        .map(|_| env.command(&["team", "next", "-t", "limits", "--as", "hand", "--json"]))
        .map(|command| thread::spawn(move || output_of(command)))
        .collect();
    let taken: BTreeSet<String> = takers
        .into_iter()
        .map(|taker| taker.join().unwrap().ok().json()["item"]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(taken, BTreeSet::from(["first".to_owned(), "second".to_owned()]));
}

#[test]
fn repeated_key_returns_the_first_message() {
    let env = TeamEnv::new();
    let send = ["team", "send", "hand", "Begin.", "--key", "first"];
    let first = env.act_as_operator(&send).ok().json();
    env.daemon().kill();
    let second = env.act_as_operator(&send).ok().json();
    assert_eq!(first["message"]["no"], second["message"]["no"]);
    assert_eq!(env.list_messages().len(), 1);
}

#[test]
fn d11_names_with_common_prefix_are_distinct() {
    let env = TeamEnv::new();
    env.bind("limits", "hand-2", "worker");
    env.provost(&["team", "new", "limits-2", "--goal", "another thing altogether"]).ok();
    env.bind("limits-2", "hand", "worker");
    env.send("hand", "for the first");
    env.send("hand-2", "for the second");
    assert_eq!(env.take_next("hand-2", &[])["text"], "for the second");
    assert_eq!(env.take_next("hand", &[])["text"], "for the first");
    assert_eq!(env.take_next("hand", &[]), Value::Null);
    let elsewhere = ["team", "next", "-t", "limits-2", "--as", "hand", "--json"];
    assert_eq!(env.provost(&elsewhere).ok().json()["item"], Value::Null);
    let unknown = env.provost(&["team", "send", "han", "x", "-t", "limits"]);
    assert!(unknown.assert_code(3).stderr.contains("han is not a member"), "{unknown:?}");
}

#[test]
fn d21_foreign_labels_do_not_affect_delivery() {
    let env = TeamEnv::new();
    let label = ["team", "label", "limits", "hand", "--thread", "wrong", "--title", "Wrong"];
    env.provost(&label).ok();
    env.send("hand", "Begin with the tests.");
    let item = env.take_next("hand", &[]);
    assert_eq!(item["text"], "Begin with the tests.");
    assert_eq!(env.show_task()["members"][0]["title"], "Wrong");
}

#[test]
fn message_can_be_withdrawn_dead_lettered_and_requeued() {
    let env = TeamEnv::new();
    let first = env.send("hand", "sent too early").to_string();
    env.act_as_operator(&["team", "inbox", "cancel", &first, "--because", "sent too early"]).ok();
    let second = env.send("hand", "nobody can do that").to_string();
    env.act_as_operator(&["team", "inbox", "dead-letter", &second, "--because", "nobody can"]).ok();
    assert_eq!(env.take_next("hand", &[]), Value::Null);
    env.act_as_operator(&["team", "inbox", "requeue", &second, "--because", "somebody can"]).ok();
    assert_eq!(env.take_next("hand", &[])["text"], "nobody can do that");
    let late = env.act_as_operator(&["team", "inbox", "cancel", &second, "--because", "too late"]);
    assert!(late.assert_code(4).stdout.contains("accepted"), "{late:?}");
}

#[test]
fn paused_or_finished_team_delivers_nothing() {
    let env = TeamEnv::new();
    env.send("hand", "Begin with the tests.");
    env.provost(&["team", "pause", "limits", "--because", "until Monday"]).ok();
    assert_eq!(env.take_next("hand", &[]), Value::Null);
    env.provost(&["team", "resume", "limits"]).ok();
    assert_eq!(env.take_next("hand", &[])["text"], "Begin with the tests.");
    env.provost(&["team", "cancel", "limits", "--because", "nobody needs it"]).ok();
    let over = env.act_as("hand", &["team", "next", "--wait"]);
    assert!(over.assert_code(4).stdout.contains("the team is cancelled"), "{over:?}");
}

#[test]
fn inbox_wait_survives_daemon_death() {
    let env = TeamEnv::new();
    let words = ["team", "next", "-t", "limits", "--as", "hand", "--wait", "--json"];
    let waiting = env.command(&words);
    let waiting = thread::spawn(move || output_of(waiting));
    eventually("a member waits", || {
        env.show_task()["members"][0]["polled_at"].is_i64().then_some(())
    });
    env.daemon().kill();
    eventually("it waits again", || {
        env.show_task()["members"][0]["polled_at"].is_i64().then_some(())
    });
    env.send("hand", "Begin with the tests.");
    assert_eq!(waiting.join().unwrap().ok().json()["item"]["text"], "Begin with the tests.");
}

#[test]
fn retired_member_stops_waiting() {
    let env = TeamEnv::new();
    let words = ["team", "next", "-t", "limits", "--as", "hand", "--wait", "--json"];
    let waiting = env.command(&words);
    let waiting = thread::spawn(move || output_of(waiting));
    eventually("a member waits", || {
        env.show_task()["members"][0]["polled_at"].is_i64().then_some(())
    });
    env.provost(&["team", "retire", "limits", "hand", "--because", "its part is done"]).ok();
    let left = waiting.join().unwrap();
    assert!(left.assert_code(3).stdout.contains("hand is not a member"), "{left:?}");
}

#[test]
fn inbox_ls_needs_known_member_and_shows_text_first() {
    let env = TeamEnv::new();
    env.send("hand", "Begin with the tests.");
    env.act_as_operator(&["team", "inbox", "cancel", "1", "--because", "sent too early"]).ok();
    let unknown = env.provost(&["team", "inbox", "ls", "--to", "hnad", "-t", "limits"]);
    assert!(unknown.assert_code(2).stderr.contains("did you mean \"hand\"?"), "{unknown:?}");
    let listed = env.stdout_of(&["team", "inbox", "ls", "--all", "--to", "hand", "-t", "limits"]);
    assert!(listed.contains("Begin with the tests. · sent too early"), "{}", listed);
}

#[test]
fn send_without_recipient_uses_the_role() {
    let env = TeamEnv::new();
    let to = |sent: ProgramOutput| sent.ok().json()["message"]["to"].clone();
    assert_eq!(to(env.act_as_operator(&["team", "send", "Begin."])), "hand");
    assert_eq!(to(env.act_as("boss", &["team", "send", "Begin with one."])), "hand");
    assert_eq!(to(env.act_as("hand", &["team", "send", "It is done."])), "boss");
    let only_name = env.act_as_operator(&["team", "send", "hand"]);
    assert!(only_name.assert_code(2).stdout.contains("no message text"), "{only_name:?}");
    env.bind("limits", "arm", "worker");
    let several = env.act_as_operator(&["team", "send", "Begin."]);
    assert!(several.assert_code(2).stdout.contains("several workers"), "{several:?}");
}
