//! What every command is given: the environment and the way to speak.

use provost_api::{ApiError, Client};

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
        daemon::ensure(&home)
    }

    /// Gives the key under which a change happens once.
    pub(crate) fn key(&self, given: Option<&str>) -> String {
        given.map_or_else(|| clock::mint().to_string(), str::to_owned)
    }
}
