//! Team messages: each is delivered once, to its recipient, and none is lost.

use std::{collections::BTreeSet, thread};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::kit::Desk;
use crate::kit::{kill, output_of};

/// Short offer and lease windows.
const SHORT: [&str; 4] = ["--offer", "1s", "--lease", "1s"];

fn standing(desk: &Desk, no: u64) -> Value {
    let found = desk.messages().into_iter().find(|message| message["no"] == no);
    found.map_or(Value::Null, |message| message["standing"].clone())
}

#[test]
fn a_message_is_stored_accepted_and_acknowledged_and_tells_who_took_it() {
    let desk = Desk::new();
    assert_eq!(desk.next("hand", &[]), Value::Null, "no message was sent yet");
    assert_eq!(desk.next("hand", &[]), Value::Null);
    let no = desk.send("hand", "Begin with the tests.");
    let item = desk.next("hand", &[]);
    assert_eq!(
        (&item["text"], &item["from"]),
        (&json!("Begin with the tests."), &json!("operator"))
    );
    assert_eq!((&item["trust"], &item["redelivered"]), (&json!("instructs"), &json!(false)));
    assert_eq!(standing(&desk, no), "accepted");
    desk.ack("hand", &item).ok();
    assert_eq!(standing(&desk, no), "acknowledged");
    let id = desk.task()["id"].as_str().unwrap().to_owned();
    let events = desk.provost(&["events", "--json", "--limit", "1000"]).ok().json();
    let of_task = |kind: &str| {
        let events = events["events"].as_array().unwrap().iter();
        let found = events.filter(|one| one["session"] == *id && one["kind"] == *kind);
        found.cloned().collect::<Vec<_>>()
    };
    let accepted = &of_task("task.message_accepted")[0]["data"];
    assert_eq!((&accepted["kind"], &accepted["role"]), (&json!("instruction"), &json!("worker")));
    assert_eq!((&accepted["lease"]["way"], &accepted["polls"]), (&json!("pull"), &json!(2)));
    assert!(item["acknowledge_command"].as_str().unwrap().contains("--as hand"));
}

#[test]
fn who_waits_is_woken_by_what_is_sent_and_an_idle_wait_is_no_failure() {
    let desk = Desk::new();
    let waiting =
        desk.command(&["inbox", "next", "--task", "limits", "--as", "hand", "--wait", "--json"]);
    let waiting = thread::spawn(move || output_of(waiting));
    eventually("a member waits", || {
        let task = desk.task();
        let polled = &task["members"][0]["polled_at"];
        polled.is_i64().then_some(())
    });
    desk.send("hand", "Begin with the tests.");
    let woken = waiting.join().unwrap();
    assert_eq!(woken.ok().json()["item"]["text"], "Begin with the tests.");
    let idle = desk.act("hand", &["inbox", "next", "--wait", "--timeout", "1"]);
    assert_eq!(idle.ok().stdout, "{\"item\":null}\n", "who polls compares it word for word");
}

#[test]
fn d1_senders_at_the_same_time_lose_nothing_also_when_the_daemon_is_killed() {
    let desk = Desk::new();
    let senders: Vec<_> = (0..6)
        .map(|sender| {
            let send = |n: u32| {
                let text = format!("{sender}-{n}");
                let words = ["send", "--to", "hand", &text, "--task", "limits", "--key", &text];
                // A request that the killed daemon did not answer is repeated with its key.
                [desk.command(&words), desk.command(&words)]
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
    eventually("something is sent", || (!desk.messages().is_empty()).then_some(()));
    desk.daemon().kill();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let mut taken = Vec::new();
    loop {
        let item = desk.next("hand", &[]);
        if item.is_null() {
            break;
        }
        desk.ack("hand", &item).ok();
        taken.push(item["text"].as_str().unwrap().to_owned());
    }
    let different: BTreeSet<&String> = taken.iter().collect();
    assert_eq!((taken.len(), different.len()), (24, 24), "{taken:?}");
}

#[test]
fn d2_what_a_dead_consumer_took_comes_back_and_says_so() {
    let desk = Desk::opened(&SHORT);
    desk.send("hand", "Begin with the tests.");
    let offered = desk.next("hand", &["--offer-only"]);
    assert_eq!(standing(&desk, 1), "offered");
    // It took the offer and then disappeared.
    let again = desk.next("hand", &["--wait", "--timeout", "30"]);
    assert_eq!((&again["no"], &again["redelivered"]), (&offered["no"], &json!(true)));
    assert_eq!(again["key"], offered["key"]);
    // It accepted the message and died while it handled it.
    let third = desk.next("hand", &["--wait", "--timeout", "30"]);
    assert_eq!((&third["no"], &third["redelivered"]), (&offered["no"], &json!(true)));
    let late = desk.ack("hand", &again);
    assert!(late.exits(4).json()["error"]["message"].as_str().unwrap().contains("somebody else"));
    desk.ack("hand", &third).ok();
    assert_eq!(desk.next("hand", &[]), Value::Null);
}

#[test]
fn d2_what_was_taken_survives_the_death_of_the_daemon() {
    let desk = Desk::new();
    desk.send("hand", "Begin with the tests.");
    let item = desk.next("hand", &[]);
    desk.daemon().kill();
    desk.ack("hand", &item).ok();
    assert_eq!(standing(&desk, 1), "acknowledged");
}

#[test]
fn d2_a_consumer_that_is_killed_while_it_waits_takes_nothing_along() {
    let desk = Desk::opened(&SHORT);
    let mut command =
        desk.command(&["inbox", "next", "--task", "limits", "--as", "hand", "--wait", "--json"]);
    let mut waiting = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    eventually("a member waits", || desk.task()["members"][0]["polled_at"].is_i64().then_some(()));
    kill(waiting.id());
    waiting.wait().unwrap();
    desk.send("hand", "Begin with the tests.");
    let item = desk.next("hand", &["--wait", "--timeout", "30"]);
    assert_eq!(item["text"], "Begin with the tests.");
}

#[test]
fn d4_who_comes_second_gets_the_next_one() {
    let desk = Desk::new();
    desk.send("hand", "first");
    desk.send("hand", "second");
    let takers: Vec<_> = (0..2)
        .map(|_| desk.command(&["inbox", "next", "--task", "limits", "--as", "hand", "--json"]))
        .map(|command| thread::spawn(move || output_of(command)))
        .collect();
    let taken: BTreeSet<String> = takers
        .into_iter()
        .map(|taker| taker.join().unwrap().ok().json()["item"]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(taken, BTreeSet::from(["first".to_owned(), "second".to_owned()]));
}

#[test]
fn one_key_is_one_message_and_a_repeat_is_told_the_first_result() {
    let desk = Desk::new();
    let send = ["send", "--to", "hand", "Begin.", "--key", "first"];
    let first = desk.operate(&send).ok().json();
    desk.daemon().kill();
    let second = desk.operate(&send).ok().json();
    assert_eq!(first["message"]["no"], second["message"]["no"]);
    assert_eq!(desk.messages().len(), 1);
}

#[test]
fn d11_names_that_begin_alike_are_different_names() {
    let desk = Desk::new();
    desk.bind("limits", "hand-2", "worker");
    desk.provost(&["task", "new", "limits-2", "--goal", "another thing altogether"]).ok();
    desk.bind("limits-2", "hand", "worker");
    desk.send("hand", "for the first");
    desk.send("hand-2", "for the second");
    assert_eq!(desk.next("hand-2", &[])["text"], "for the second");
    assert_eq!(desk.next("hand", &[])["text"], "for the first");
    assert_eq!(desk.next("hand", &[]), Value::Null);
    let elsewhere = ["inbox", "next", "--task", "limits-2", "--as", "hand", "--json"];
    assert_eq!(desk.provost(&elsewhere).ok().json()["item"], Value::Null);
    let unknown = desk.provost(&["send", "--to", "han", "x", "--task", "limits"]);
    assert!(unknown.exits(3).stderr.contains("han is not a member"), "{unknown:?}");
}

#[test]
fn d21_labels_of_another_application_change_nothing_about_delivery() {
    let desk = Desk::new();
    let label = ["task", "label", "limits", "hand", "--thread", "wrong", "--title", "Wrong"];
    desk.provost(&label).ok();
    desk.send("hand", "Begin with the tests.");
    let item = desk.next("hand", &[]);
    assert_eq!(item["text"], "Begin with the tests.");
    assert_eq!(desk.task()["members"][0]["title"], "Wrong");
}

#[test]
fn a_message_that_is_of_no_more_use_is_called_off_buried_and_offered_again() {
    let desk = Desk::new();
    let first = desk.send("hand", "sent too early").to_string();
    desk.operate(&["inbox", "cancel", &first, "--because", "sent too early"]).ok();
    let second = desk.send("hand", "nobody can do that").to_string();
    desk.operate(&["inbox", "bury", &second, "--because", "nobody can"]).ok();
    assert_eq!(desk.next("hand", &[]), Value::Null);
    desk.operate(&["inbox", "requeue", &second, "--because", "somebody can"]).ok();
    assert_eq!(desk.next("hand", &[])["text"], "nobody can do that");
    let late = desk.operate(&["inbox", "cancel", &second, "--because", "too late"]);
    assert!(late.exits(4).stdout.contains("accepted"), "{late:?}");
}

#[test]
fn a_task_that_is_paused_or_over_delivers_nothing() {
    let desk = Desk::new();
    desk.send("hand", "Begin with the tests.");
    desk.provost(&["task", "pause", "limits", "--because", "until Monday"]).ok();
    assert_eq!(desk.next("hand", &[]), Value::Null);
    desk.provost(&["task", "go-on", "limits"]).ok();
    assert_eq!(desk.next("hand", &[])["text"], "Begin with the tests.");
    desk.provost(&["task", "cancel", "limits", "--because", "nobody needs it"]).ok();
    let over = desk.act("hand", &["inbox", "next", "--wait"]);
    assert!(over.exits(4).stdout.contains("the team is cancelled"), "{over:?}");
}

#[test]
fn who_waits_goes_on_waiting_when_the_daemon_dies() {
    let desk = Desk::new();
    let words = ["inbox", "next", "--task", "limits", "--as", "hand", "--wait", "--json"];
    let waiting = desk.command(&words);
    let waiting = thread::spawn(move || output_of(waiting));
    eventually("a member waits", || desk.task()["members"][0]["polled_at"].is_i64().then_some(()));
    desk.daemon().kill();
    eventually("it waits again", || desk.task()["members"][0]["polled_at"].is_i64().then_some(()));
    desk.send("hand", "Begin with the tests.");
    assert_eq!(waiting.join().unwrap().ok().json()["item"]["text"], "Begin with the tests.");
}

#[test]
fn who_leaves_the_task_waits_no_longer() {
    let desk = Desk::new();
    let words = ["inbox", "next", "--task", "limits", "--as", "hand", "--wait", "--json"];
    let waiting = desk.command(&words);
    let waiting = thread::spawn(move || output_of(waiting));
    eventually("a member waits", || desk.task()["members"][0]["polled_at"].is_i64().then_some(()));
    desk.provost(&["task", "retire", "limits", "hand", "--because", "its part is done"]).ok();
    let left = waiting.join().unwrap();
    assert!(left.exits(3).stdout.contains("hand is not a member"), "{left:?}");
}

#[test]
fn messages_are_listed_only_for_who_there_is_and_their_text_comes_first() {
    let desk = Desk::new();
    desk.send("hand", "Begin with the tests.");
    desk.operate(&["inbox", "cancel", "1", "--because", "sent too early"]).ok();
    let nobody = desk.provost(&["inbox", "ls", "--to", "hnad", "--task", "limits"]);
    assert!(nobody.exits(2).stderr.contains("did you mean \"hand\"?"), "{nobody:?}");
    let listed = desk.shown(&["inbox", "ls", "--all", "--to", "hand", "--task", "limits"]);
    assert!(listed.contains("Begin with the tests. · sent too early"), "{}", listed);
}
