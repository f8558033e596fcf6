//! Encodes messages to an agent in the format that the agent expects.

use provost_agent::{Adapters, AgentInput, RequestAnswer};
use provost_core::{
    ids::LaunchId,
    request::RequestReply,
    session::{self, AgentMessage, AgentMessageKind, Session},
};

/// Returns the text of a message as it is typed into a pane.
pub(super) fn typed_text(session: &Session) -> impl Fn(&AgentMessage) -> String {
    |message| {
        if message.kind == AgentMessageKind::Compact {
            // The message is intended as a command to the agent's own composer.
            session::pasteable_text(&message.text)
        } else {
            session::literal_text(session.spec.agent.interface.composer(), &message.text)
        }
    }
}

/// Encodes a message for the agent. `None` if the agent's protocol cannot express the message, or if the agent's
/// adapter is unknown.
pub(super) fn encode_message(
    adapters: &Adapters,
    session: &Session,
    launch: LaunchId,
    message: &AgentMessage,
    reply: Option<&RequestReply>,
) -> Option<Vec<u8>> {
    let request = message.request.and_then(|id| session.requests.iter().find(|r| r.id == id));
    let answer = request.zip(reply).map(|(request, reply)| RequestAnswer {
        asked: &request.asked,
        reply,
        live: request.launch == launch,
    });
    let interface = &session.spec.agent.interface;
    let adapter = adapters.get(interface).ok()?;
    let (thread, key) = (session.conversation.thread.as_deref(), &*message.write_key());
    if message.kind == AgentMessageKind::Interrupt {
        let turn = session.launch(launch).and_then(|launch| launch.turn());
        let interrupt = AgentInput::Interrupt { key, thread, turn };
        return adapter.encode(interface, &interrupt);
    }
    if let Some(returned) = &message.returned {
        let result = AgentInput::ToolResult {
            key,
            native: &returned.native,
            ok: returned.ok,
            text: &message.text,
            thread,
            live: returned.launch == launch,
            form: session.spec.agent.settings.result,
        };
        return adapter.encode(interface, &result);
    }
    let saying = AgentInput::Message {
        key,
        kind: message.kind,
        text: &message.text,
        thread,
        answer,
        form: session.spec.agent.settings.result,
    };
    adapter.encode(interface, &saying)
}
