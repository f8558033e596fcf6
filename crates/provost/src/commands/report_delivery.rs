//! Delivers a launch's report to the daemon, or to a drop box if the daemon cannot be reached.

use std::path::PathBuf;

use provost_agent::launch::DROP_VARIABLE;
use provost_api::{ApiError, ErrorCode, ReportReply, ReportRequest};
use provost_core::ids::{LaunchId, ParseIdError};
use provost_engine::shell::drop_box;

use crate::{context::Context, daemon, error::usage};

/// The place where a report was delivered.
pub(crate) enum ReportOutcome {
    Delivered(ReportReply),
    /// The report is in a file that the next daemon reads.
    Dropped {
        launch: LaunchId,
        path: PathBuf,
    },
}

/// Adds the identity of the launch, if the environment contains it.
pub(crate) fn add_identity(context: &Context, request: &mut ReportRequest) {
    let variable = |name: &str| context.environment.get(name).map(str::to_owned);
    (request.launch, request.token) =
        (variable(provost_holder::spec::MARK), variable("PROVOST_TOKEN"));
}

/// Sends the report to the daemon, or writes it to a file. Because of the key, a report that
/// arrives through both channels counts only once.
pub(crate) fn deliver(
    context: &Context,
    request: &ReportRequest,
    key: &str,
) -> Result<ReportOutcome, ApiError> {
    let key = &file_name(key);
    match post(context, request, key) {
        Err(error) if matches!(error.code, ErrorCode::Unreachable | ErrorCode::TimedOut) => {
            save_to_drop_box(context, request, key, error)
        }
        // The daemon could keep the report only in memory. A file outlives the daemon, if the disk
        // has space for one.
        Err(error) if error.code == ErrorCode::Storage => {
            save_to_drop_box(context, request, key, error.clone()).map_err(|_| error)
        }
        result => result.map(ReportOutcome::Delivered),
    }
}

/// Posts the report. An agent must not start a daemon, because the daemon would be a child of the
/// agent and end with it.
fn post(context: &Context, request: &ReportRequest, key: &str) -> Result<ReportReply, ApiError> {
    daemon::connect_only(&context.trusted_home()?)?.post("/v1/reports", request, key)
}

/// Writes the report to a file for the next daemon, because the daemon is not running or the
/// agent's sandbox blocks connections.
fn save_to_drop_box(
    context: &Context,
    request: &ReportRequest,
    key: &str,
    unreachable: ApiError,
) -> Result<ReportOutcome, ApiError> {
    let Some(launch) = request.launch.as_deref() else { return Err(unreachable) };
    let launch: LaunchId =
        launch.parse().map_err(|why: ParseIdError| usage(format!("PROVOST_LAUNCH: {why}")))?;
    let home = context.trusted_home()?;
    if !home.launch(&launch.to_string()).is_dir() {
        return Err(unreachable);
    }
    let given = context.environment.get(DROP_VARIABLE).map(PathBuf::from);
    let directory = given.unwrap_or_else(|| drop_box::home_box(&home.path));
    let path = drop_box::put_report(&directory, launch, key, request).map_err(|why| {
        let message = format!("{unreachable}, and the report cannot be saved: {why}");
        ApiError::new(ErrorCode::Unreachable, message).next("provost doctor")
    })?;
    Ok(ReportOutcome::Dropped { launch, path })
}

/// Returns the file name for a key. If the key contains anything but letters, digits and hyphens,
/// it is hashed, so that the file cannot end up outside the drop box.
fn file_name(key: &str) -> String {
    let plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if plain { key.to_owned() } else { blake3::hash(key.as_bytes()).to_hex().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_stays_in_drop_box() {
        assert_eq!(file_name("a-1"), "a-1");
        assert!(file_name("../../x").bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
