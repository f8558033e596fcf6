//! The context that every command needs: the environment and the output channels.

use std::sync::{Once, OnceLock};

use provost_api::{ApiError, Client, DaemonInfo, LookedUpName};
use provost_config::Color;

use crate::{
    clock, daemon,
    environment::Environment,
    home::ProvostHome,
    settings,
    target::{self, SessionOrRun},
    ui::{Paint, Ui},
};

/// The environment and output channels of one command.
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) ui: Ui,
    /// The client of a daemon that this command has already checked.
    client: OnceLock<Client>,
}

impl Context {
    /// Reads the environment, and the configuration of colors. JSON output has no colors, so the
    /// configuration is not loaded for it.
    pub(crate) fn new(json: bool) -> Self {
        Context::with_color(json, None)
    }

    /// Does the same as [`Context::new`], except that a given color mode overrides the configured one.
    pub(crate) fn with_color(json: bool, color: Option<Color>) -> Self {
        let environment = Environment::read();
        let (paint, notice_paint) =
            if json { (Paint::OFF, Paint::OFF) } else { settings::paints(&environment, color) };
        Context::with(environment, Ui { json, hints: true, paint, notice_paint })
    }

    pub(crate) fn with(environment: Environment, ui: Ui) -> Self {
        Context { environment, ui, client: OnceLock::new() }
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
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let home = self.home()?;
        if let Err(error) = home.prepare() {
            // A running daemon can still serve read-only commands, and decides itself whether to serve other commands.
            let running = if home.is_read_only() { daemon::connect_only(&home).ok() } else { None };
            return running.ok_or(error);
        }
        let (client, info) = daemon::ensure(&home)?;
        if let Some(info) = &info {
            self.warn_about(info);
        }
        Ok(client)
    }

    /// Looks up a name. If this is the command's first request, it also checks the daemon, so that the command needs no
    /// separate request for the check.
    pub(crate) fn look_up(&self, name: &str) -> Result<LookedUpName, ApiError> {
        let path = target::lookup_path(name);
        let home = self.home()?;
        if self.client.get().is_none()
            && home.prepare().is_ok()
            && let Some((client, reply)) = daemon::begin(&home, &path)?
        {
            self.warn_about(&reply.daemon);
            drop(self.client.set(client));
            return Ok(reply.found);
        }
        target::look_up(&self.daemon()?, name)
    }

    /// Looks up a session or run. Fails if both a session and a run have this name.
    pub(crate) fn find_session_or_run(&self, name: &str) -> Result<SessionOrRun, ApiError> {
        target::session_or_run(self.look_up(name)?, name)
    }

    fn warn_about(&self, info: &DaemonInfo) {
        if let Some(warning) = ledger_warning(info) {
            WARNED.call_once(|| self.ui.warn(&warning));
        }
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
