//! What a run owes to the outside world itself. Level-triggered, as a session's effects are.

use serde::{Deserialize, Serialize};

use super::{
    hook::RunHookKey,
    stage::Stage,
    state::{Landing, Run, RunSession},
};
use crate::{ids::SessionId, session::EffectKey};

/// Something to be done to the outside world. Its result comes back as a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Commit what a session left that no check had committed.
    TakeHead(SessionId),
    Land {
        leg: u32,
    },
    RunHook(RunHookKey),
    /// Write the report card of a sealed outcome.
    WriteCard {
        leg: u32,
    },
}

impl Effect {
    /// Gives the effect's key within its run.
    pub fn key(&self) -> EffectKey {
        match self {
            Effect::TakeHead(session) => format!("head-{session}"),
            Effect::Land { leg } => format!("land-{leg}"),
            Effect::RunHook(key) => format!("h{}-{}", key.no, key.event),
            Effect::WriteCard { leg } => format!("card-{leg}"),
        }
    }
}

impl Run {
    /// Gives all that is owed now.
    pub fn effects(&self) -> Vec<Effect> {
        let mut owed: Vec<Effect> = Vec::new();
        if !self.is_sealed() && self.leg().stopped.is_none() {
            owed.extend(self.headless_session().map(|session| Effect::TakeHead(session.id)));
            let lands = self.stage == Stage::Land && self.landing == Landing::Open;
            owed.extend(lands.then_some(Effect::Land { leg: self.leg().no }));
        }
        owed.extend(self.hooks.iter().map(|hook| Effect::RunHook(hook.key)));
        let unwritten = self.legs.iter().filter(|leg| leg.sealed.is_some() && !leg.card);
        owed.extend(unwritten.map(|leg| Effect::WriteCard { leg: leg.no }));
        owed
    }

    /// Gives the session whose work is done and was not committed yet.
    pub(super) fn headless_session(&self) -> Option<&RunSession> {
        let session = self.current()?;
        let end = session.end.as_ref()?;
        let edits = self.stage.permissions(self.spec.reviews.of(self.stage))?.edits;
        (edits && end.is_good() && end.head.is_none() && self.headless.is_none()).then_some(session)
    }
}
