//! What a run owes to the outside world itself. Level-triggered, as a session's effects are.

use serde::{Deserialize, Serialize};

use super::{
    hook::RunHookKey,
    landing::{Ahead, Landing},
    stage::Stage,
    state::{Run, RunSession},
};
use crate::{ids::SessionId, session::EffectKey};

/// Something to be done to the outside world. Its result comes back as a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Commit what a session left that no check had committed.
    TakeHead(SessionId),
    /// Bring the newest work to where it was asked for. Told with the steps so far: it is another after each.
    Land {
        leg: u32,
        step: usize,
    },
    /// Look at the pull request until something about it is new.
    WatchPull {
        leg: u32,
        look: u32,
    },
    /// Nothing more may land: say whether something had.
    LookLanded {
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
            Effect::Land { leg, step } => format!("land-{leg}-{step}"),
            Effect::WatchPull { leg, look } => format!("pull-{leg}-{look}"),
            Effect::LookLanded { leg } => format!("landed-{leg}"),
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
            owed.extend(self.landing_effect());
        }
        owed.extend(self.is_stopped_landing().then_some(Effect::LookLanded { leg: self.leg().no }));
        owed.extend(self.hooks.iter().map(|hook| Effect::RunHook(hook.key)));
        let unwritten = self.legs.iter().filter(|leg| leg.sealed.is_some() && !leg.card);
        owed.extend(unwritten.map(|leg| Effect::WriteCard { leg: leg.no }));
        owed
    }

    fn landing_effect(&self) -> Option<Effect> {
        if self.stage != Stage::Land || self.live().is_some() || self.headless_session().is_some() {
            return None;
        }
        let (leg, step, look) = (self.leg().no, self.steps.len(), self.looks);
        match self.ahead()? {
            Ahead::Session(..) => None,
            Ahead::Land => Some(Effect::Land { leg, step }),
            Ahead::Watch => Some(Effect::WatchPull { leg, look }),
        }
    }

    /// Says whether the run was stopped on its way to land, and may have landed all the same.
    pub(super) fn is_stopped_landing(&self) -> bool {
        let leg = self.leg();
        let open = !matches!(self.landing, Landing::Done(_));
        let stopped = leg.stopped.is_some() && leg.sealed.is_none() && !leg.landing_over;
        stopped && open && self.stage == Stage::Land && self.live().is_none()
    }

    /// Gives the session whose work is done and was not committed yet.
    pub(super) fn headless_session(&self) -> Option<&RunSession> {
        let session = self.current()?;
        let end = session.end.as_ref()?;
        let edits = self.stage.permissions(self.spec.reviews.of(self.stage))?.edits;
        (edits && end.is_good() && end.head.is_none() && self.headless.is_none()).then_some(session)
    }
}
