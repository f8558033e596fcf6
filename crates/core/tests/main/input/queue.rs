//! The queue of messages, apart from the session.

use provost_core::session::{AgentMessage, AgentMessageKind, DeliveryStatus, InputQueue};

fn message(key: &str, status: DeliveryStatus) -> AgentMessage {
    AgentMessage {
        key: key.to_owned(),
        kind: AgentMessageKind::Steer,
        text: key.to_owned(),
        request: None,
        reply: None,
        returned: None,
        attempt: 1,
        status,
        refusals: 0,
        typed: None,
        unconfirmed_reason: None,
        occasion: None,
    }
}

#[test]
fn settled_messages_are_not_queued() {
    let lost = DeliveryStatus::Undeliverable { reason: "gone".to_owned() };
    let messages = vec![
        message("first", DeliveryStatus::Queued),
        message("lost", lost),
        message("last", DeliveryStatus::Queued),
    ];
    let queue = InputQueue { messages };
    let queued: Vec<&str> = queue.queued().map(|message| message.key.as_str()).collect();
    assert_eq!(queued, ["first", "last"]);
    assert_eq!(queue.message("lost").map(|message| message.text.as_str()), Some("lost"));
    assert_eq!(queue.message("other"), None);
}

#[test]
fn queue_is_stored_as_messages() {
    let queue = InputQueue { messages: vec![message("first", DeliveryStatus::Queued)] };
    let stored = serde_json::to_value(&queue).expect("it can be stored");
    assert_eq!(stored["messages"][0]["key"], "first");
    assert_eq!(serde_json::from_value::<InputQueue>(stored).expect("it is a queue"), queue);
}
