//! What every command is given: the environment and the way to speak.

use std::sync::Once;

use provost_api::{ApiError, Client, DaemonInfo};

use crate::{
    clock, daemon,
    environment::Environment,
    home::Home,
    settings,
    ui::{Paint, Ui},
};

/// The surroundings of one command.
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) ui: Ui,
}

impl Context {
    /// Looks around. Colours need the configuration, so it is left alone where none can be used.
    pub(crate) fn new(json: bool) -> Self {
        let environment = Environment::read();
        let (paint, talk_paint) =
            if json { (Paint::OFF, Paint::OFF) } else { settings::paints(&environment) };
        Context { environment, ui: Ui { json, paint, talk_paint } }
    }

    pub(crate) fn home(&self) -> Result<Home, ApiError> {
        Home::find(&self.environment)
    }

    /// Finds the home for reading only.
    pub(crate) fn trusted_home(&self) -> Result<Home, ApiError> {
        let home = self.home()?;
        home.trust()?;
        Ok(home)
    }

    /// Reaches the daemon, and starts it if none runs.
    pub(crate) fn daemon(&self) -> Result<Client, ApiError> {
        let home = self.home()?;
        home.prepare()?;
        let (client, info) = daemon::ensure(&home)?;
        if let Some(warning) = info.as_ref().and_then(ledger_warning) {
            WARNED.call_once(|| self.ui.warn(&warning));
        }
        Ok(client)
    }

    /// Gives the key under which a change happens once.
    pub(crate) fn key(&self, given: Option<&str>) -> String {
        given.map_or_else(|| clock::mint().to_string(), str::to_owned)
    }
}

/// The warning is given once, however often the daemon is reached.
static WARNED: Once = Once::new();

/// What every command reports about a ledger that lost events, and how that is decided.
pub(crate) fn ledger_warning(info: &DaemonInfo) -> Option<String> {
    if let Some(loss) = &info.ledger_loss {
        return Some(format!(
            "{loss}; nothing can be changed until you decide: provost ledger recover"
        ));
    }
    match info.unknown_holders.len() {
        0 => None,
        1 => {
            Some("1 process runs that the ledger does not know: provost ledger recover".to_owned())
        }
        count => Some(format!(
            "{count} processes run that the ledger does not know: provost ledger recover"
        )),
    }
}
