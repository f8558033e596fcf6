//! Delivers messages to the inputs of agents.

use std::path::Path;

use provost_core::{
    ids::{LaunchId, SessionId},
    session::{AgentMessageKind, Session, SessionCommand},
};
use provost_holder::{
    client,
    wire::{self, HolderFaultCode, HolderOp, WireBytes},
};
use tokio::sync::watch;

use super::{
    super::{
        encode_message::{encode_message, typed_text},
        follow,
        panes::{PaneInput, Typist},
        supervised_command,
    },
    EffectContext, RETRY_DELAY,
};

impl EffectContext {
    /// Writes a message to the agent's input. The journal shows when the message has arrived.
    pub(super) async fn deliver(
        &self,
        session: &Session,
        launch: LaunchId,
        key: &str,
        cancel: watch::Receiver<bool>,
    ) -> Option<SessionCommand> {
        let message = session.message_by_write_key(key)?;
        let lost =
            |reason: String| Some(SessionCommand::MessageLost { key: message.key.clone(), reason });
        // The message stays pending for a build that knows the adapter.
        self.world.adapters.get(&session.spec.agent.interface).ok()?;
        let dir = self.world.home.launch(launch);
        let secret = session.is_secret(message);
        let kept = self.world.secrets.get(session.id, key);
        let reply = match (secret, &kept) {
            (false, _) => message.reply.as_ref(),
            (true, Some(reply)) => Some(reply),
            (true, None) if follow::was_written(&dir, key).await => return None,
            (true, None) => return lost("the daemon that had the secret ended first".to_owned()),
        };
        let Some(bytes) = encode_message(&self.world.adapters, session, launch, message, reply)
        else {
            return lost(format!("{} cannot receive this", session.spec.agent.name));
        };
        let write_key = self.world.write_key(launch, key);
        let op = HolderOp::Write { key: write_key, data: WireBytes(bytes), secret };
        while secret && !*cancel.borrow() && !self.mask_secrets(session.id, &dir).await {
            supervised_command::sleep(RETRY_DELAY).await;
        }
        match write(&dir, op, cancel).await? {
            Ok(()) => {
                self.world.secrets.forget(session.id, key);
                None
            }
            // The holder already wrote an interrupt with this key. The bytes differ, because an interrupt refers to the
            // turn at the time of writing.
            Err(fault)
                if fault.code == HolderFaultCode::Conflict
                    && message.kind == AgentMessageKind::Interrupt =>
            {
                None
            }
            Err(fault) => lost(fault.message),
        }
    }

    pub(super) fn typist(&self, session: &Session, launch: LaunchId) -> Option<Typist> {
        let (handle, observations) = (self.handle.clone(), self.observations.clone());
        Typist::new(session, launch, &self.world.adapters, self.panes.clone(), handle, observations)
    }

    /// Types a message into the pane of an external agent. The transcript shows when the agent received it.
    pub(super) async fn type_message(
        &self,
        session: &Session,
        launch: LaunchId,
        key: &str,
        cancel: watch::Receiver<bool>,
    ) {
        let message = session.input.messages.iter().find(|message| message.key == key);
        let (Some(message), Some(typist)) = (message, self.typist(session, launch)) else { return };
        let is_key = message.request.is_some() || message.kind == AgentMessageKind::Interrupt;
        let what = if is_key {
            encode_message(&self.world.adapters, session, launch, message, message.reply.as_ref())
                .map(PaneInput::Keys)
        } else {
            Some(PaneInput::Text(typed_text(session)(message)))
        };
        match what {
            Some(what) => typist.deliver(message, what, cancel).await,
            None => {
                let why = format!("{} cannot receive this in a pane", session.spec.agent.name);
                typist.report_lost(key, why).await;
            }
        }
    }

    /// Asks the holder to mask the secrets that it is about to write, and returns whether it responded. A holder
    /// refuses if it cannot mask the secrets, because it is too old or already has too many masks.
    async fn mask_secrets(&self, session: SessionId, dir: &Path) -> bool {
        let forms = self.world.secrets.masks(session).into_iter().map(WireBytes).collect();
        match supervised_command::request(dir, HolderOp::Mask { forms }).await {
            Ok(()) | Err(client::Error::Fault(_)) => true,
            Err(_) => false,
        }
    }
}

/// Asks a holder to write to its command, however long that takes. `None` if the write was cancelled first.
pub(super) async fn write(
    dir: &Path,
    op: HolderOp,
    cancel: watch::Receiver<bool>,
) -> Option<Result<(), wire::HolderFault>> {
    while !*cancel.borrow() {
        match supervised_command::request(dir, op.clone()).await {
            Ok(()) => return Some(Ok(())),
            Err(client::Error::Fault(fault)) if fault.code != HolderFaultCode::Busy => {
                return Some(Err(fault));
            }
            Err(_) => supervised_command::sleep(RETRY_DELAY).await,
        }
    }
    None
}
