//! Encodes messages to an agent in the form that its driver takes.

use provost_core::{
    ids::LaunchId,
    request::Reply,
    session::{self, Message, MessageKind, Session},
};
use provost_drivers::{Answer, Saying};

/// Returns the text of a message as it is typed into a pane.
pub(super) fn typed(session: &Session) -> impl Fn(&Message) -> String {
    |message| {
        if message.kind == MessageKind::Compact {
            // A command to the agent's own composer, and meant as one.
            session::pasted(&message.text)
        } else {
            session::literally(session.spec.agent.driver, &message.text)
        }
    }
}

/// Encodes a message for the agent. `None` if its driver cannot express it.
pub(super) fn said(
    session: &Session,
    launch: LaunchId,
    message: &Message,
    reply: Option<&Reply>,
) -> Option<Vec<u8>> {
    let request = message.request.and_then(|id| session.requests.iter().find(|r| r.id == id));
    let answer = request.zip(reply).map(|(request, reply)| Answer {
        asked: &request.asked,
        reply,
        live: request.launch == launch,
    });
    let (thread, key) = (session.thread.as_deref(), &*message.write_key());
    if message.kind == MessageKind::Interrupt {
        let turn = session.launch(launch).and_then(|launch| launch.turn());
        let interrupt = Saying::Interrupt { key, thread, turn };
        return provost_drivers::say(session.spec.agent.driver, &interrupt);
    }
    if let Some(returned) = &message.returned {
        let said = Saying::Returned {
            key,
            native: &returned.native,
            ok: returned.ok,
            text: &message.text,
            thread,
            live: returned.launch == launch,
            form: session.spec.agent.settings.result,
        };
        return provost_drivers::say(session.spec.agent.driver, &said);
    }
    let saying = Saying::Message {
        key,
        kind: message.kind,
        text: &message.text,
        thread,
        answer,
        form: session.spec.agent.settings.result,
    };
    provost_drivers::say(session.spec.agent.driver, &saying)
}
