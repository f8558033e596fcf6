//! The daemon. There is one daemon for each user and home. The first command that needs the daemon starts it.

mod gc;
pub(crate) mod history;
pub(crate) mod ledger_lock;
mod listener;
mod main_loop;
mod orphans;
pub(crate) mod peer;
mod quota;
mod routes;
mod server;
mod sse;
mod start;
mod timed_stream;
mod watchdog;

pub(crate) use main_loop::{LANDING_TIMEOUT, run};
pub(crate) use start::{
    begin, connect_only, connect_within, ensure, must_be_operator, without_daemon,
};

/// The file in the log directory that contains the standard error of a detached daemon.
pub(crate) const LOG_FILE: &str = "daemon.log";

/// Returns the version that this program reports, and compares with that of the daemon.
pub(crate) fn version() -> String {
    #[cfg(feature = "failpoints")]
    {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test simulates a newer program, read \
            once"
        )]
        if let Ok(version) = std::env::var("PROVOST_TEST_VERSION") {
            return version;
        }
    }
    env!("CARGO_PKG_VERSION").to_owned()
}
