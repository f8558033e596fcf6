//! What every command needs: the environment and the output channels.

use std::sync::Once;

use provost_api::{ApiError, Client, DaemonInfo};

use crate::{
    clock, daemon,
    environment::Environment,
    home::ProvostHome,
    settings,
    ui::{Paint, Ui},
};

/// The environment and output channels of one command.
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) ui: Ui,
}

impl Context {
    /// Reads the environment, and the configuration of colors. JSON output has no colors, so the
    /// configuration is not loaded for it.
    pub(crate) fn new(json: bool) -> Self {
        let environment = Environment::read();
        let (paint, talk_paint) =
            if json { (Paint::OFF, Paint::OFF) } else { settings::paints(&environment) };
        Context { environment, ui: Ui { json, hints: true, paint, notice_paint: talk_paint } }
    }

    pub(crate) fn home(&self) -> Result<ProvostHome, ApiError> {
        ProvostHome::find(&self.environment)
    }

    /// Finds the home, and checks that no other user can write to it. Does not create the home.
    pub(crate) fn trusted_home(&self) -> Result<ProvostHome, ApiError> {
        let home = self.home()?;
        home.check_trust()?;
        Ok(home)
    }

    /// Connects to the daemon, starting it if it is not running.
    pub(crate) fn daemon(&self) -> Result<Client, ApiError> {
        let home = self.home()?;
        if let Err(error) = home.prepare() {
            // A running daemon can still serve read-only commands, and decides about other ones itself.
            let running = if home.is_read_only() { daemon::connect_only(&home).ok() } else { None };
            return running.ok_or(error);
        }
        let (client, info) = daemon::ensure(&home)?;
        if let Some(warning) = info.as_ref().and_then(ledger_warning) {
            WARNED.call_once(|| self.ui.warn(&warning));
        }
        Ok(client)
    }

    /// Returns the given idempotency key, or a new one.
    pub(crate) fn idempotency_key(&self, given: Option<&str>) -> String {
        given.map_or_else(|| clock::new_id().to_string(), str::to_owned)
    }
}

/// Ensures that the warning is shown only once, even if the daemon is contacted several times.
static WARNED: Once = Once::new();

/// Returns the warning for a ledger that has lost events, with the command that resolves it.
pub(crate) fn ledger_warning(info: &DaemonInfo) -> Option<String> {
    if let Some(loss) = &info.ledger_loss {
        return Some(format!(
            "{loss}; nothing can be changed until you decide: provost ledger recover"
        ));
    }
    match info.unknown_holders.len() {
        0 => None,
        1 => Some("1 running process is not in the ledger: provost ledger recover".to_owned()),
        count => {
            Some(format!("{count} running processes are not in the ledger: provost ledger recover"))
        }
    }
}
