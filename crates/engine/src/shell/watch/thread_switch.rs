//! Notifies the reader of a launch's transcript when the user switches to another conversation.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use provost_core::ids::LaunchId;
use tokio::sync::Notify;

/// Notifies readers when a hook reports that a launch switched to another conversation. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ThreadSwitches(Arc<Mutex<BTreeMap<LaunchId, Arc<Notify>>>>);

impl ThreadSwitches {
    pub(super) fn bell(&self, launch: LaunchId) -> Arc<Notify> {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bells.entry(launch).or_default().clone()
    }

    /// Wakes the reader of a launch's transcript, if there is one.
    pub(super) fn ring(&self, launch: LaunchId) {
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(&launch) {
            bell.notify_one();
        }
    }

    pub(crate) fn forget(&self, launch: LaunchId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&launch);
    }
}
