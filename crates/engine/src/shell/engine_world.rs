//! The engine's environment: paths, programs and shared locks.

use std::{path::PathBuf, sync::Arc};

use provost_agent::Adapters;
use provost_core::{ids::LaunchId, team};
use provost_git::Git;
use provost_holder::wire;

use super::{
    census::Census, effect_gate::EffectGate, environment::DaemonEnvironment, home::Home,
    secrets::Secrets, shortage::ShortageWaits, supervised_command::Holders, watch::ThreadSwitches,
};

/// The engine's environment: paths, programs and shared locks.
#[derive(Clone, Debug)]
pub struct EngineWorld {
    pub home: Home,
    pub git: Git,
    pub holders: Holders,
    pub adapters: Adapters,
    /// Grants the permits of effects that others can see.
    pub gate: EffectGate,
    pub environment: DaemonEnvironment,
    /// The `provost` program that agents call.
    pub program: PathBuf,
    /// The key from which tokens are derived.
    pub key: [u8; 32],
    pub secrets: Secrets,
    /// The launches that are being followed, and the last probe of each.
    pub census: Census,
    /// The launches that switched to another conversation.
    pub moves: ThreadSwitches,
    /// Locked while work is landing.
    pub landing: Arc<tokio::sync::Mutex<()>>,
    /// Every landing in a checkout on this machine, and every removal of a worktree, holds a read lock. A daemon that
    /// is about to exit takes the write lock: this waits for landings and removals in progress, and prevents new ones
    /// from starting.
    pub checkouts: Arc<tokio::sync::RwLock<()>>,
    /// The shortages that runs and teams are waiting for.
    pub waits: ShortageWaits,
}

impl EngineWorld {
    /// Returns how a program without Provost's environment variables can invoke Provost.
    pub fn caller(&self) -> team::ProvostInvocation {
        team::ProvostInvocation {
            program: self.program.display().to_string(),
            home: Some(self.home.root().display().to_string()),
        }
    }

    /// Returns the token that a launch uses to identify itself. The token is derived, so it
    /// survives a crash without being stored.
    pub fn token(&self, launch: LaunchId) -> String {
        blake3::keyed_hash(&self.key, launch.to_string().as_bytes()).to_hex().to_string()
    }

    /// Returns the idempotency key for a write to a launch. The key is derived, so a restarted daemon uses the same
    /// key. The key depends on a secret, so no other process can write under this key first.
    pub(crate) fn write_key(&self, launch: LaunchId, key: &str) -> String {
        let named = format!("write {launch} {key}");
        let seal = blake3::keyed_hash(&self.key, named.as_bytes()).to_hex();
        wire::sealed_key(key, &seal)
    }
}
