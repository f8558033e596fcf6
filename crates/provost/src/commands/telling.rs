//! How a launch's report reaches the daemon, also one that does not answer now.

use std::path::PathBuf;

use provost_api::{ApiError, Code, ReportReply, ReportRequest};
use provost_core::ids::{BadId, LaunchId};
use provost_engine::shell::{codex, drop_box};

use crate::{context::Context, daemon, error::usage};

/// Where a report went.
pub(crate) enum Told {
    Heard(ReportReply),
    /// The next daemon finds it there.
    Dropped {
        launch: LaunchId,
        path: PathBuf,
    },
}

/// Says which launch speaks, as far as this process was told.
pub(crate) fn sign(context: &Context, request: &mut ReportRequest) {
    let variable = |name: &str| context.environment.get(name).map(str::to_owned);
    (request.launch, request.token) =
        (variable(provost_holder::spec::MARK), variable("PROVOST_TOKEN"));
}

/// Tells the daemon, or writes the report down. Under one key it counts once, whichever way it went.
pub(crate) fn tell(
    context: &Context,
    request: &ReportRequest,
    key: &str,
) -> Result<Told, ApiError> {
    let key = &name_of(key);
    match post(context, request, key) {
        Err(error) if matches!(error.code, Code::Unreachable | Code::TimedOut) => {
            drop_it(context, request, key, error)
        }
        // The daemon keeps it in memory; a file outlives the daemon, if there is room for one.
        Err(error) if error.code == Code::Storage => {
            drop_it(context, request, key, error.clone()).map_err(|_| error)
        }
        told => told.map(Told::Heard),
    }
}

/// A daemon that an agent starts would be its descendant and end with it, so an agent starts none.
fn post(context: &Context, request: &ReportRequest, key: &str) -> Result<ReportReply, ApiError> {
    daemon::connect_only(&context.trusted_home()?)?.post("/v1/reports", request, key)
}

/// Writes the report down where the next daemon finds it, as nobody answers or the agent's sandbox lets
/// it connect to nothing.
fn drop_it(
    context: &Context,
    request: &ReportRequest,
    key: &str,
    unreachable: ApiError,
) -> Result<Told, ApiError> {
    let Some(launch) = request.launch.as_deref() else { return Err(unreachable) };
    let launch: LaunchId =
        launch.parse().map_err(|why: BadId| usage(format!("PROVOST_LAUNCH: {why}")))?;
    let home = context.trusted_home()?;
    if !home.launch(&launch.to_string()).is_dir() {
        return Err(unreachable);
    }
    let given = context.environment.get(codex::DROP_VARIABLE).map(PathBuf::from);
    let directory = given.unwrap_or_else(|| drop_box::of_home(&home.path));
    let path = drop_box::put(&directory, launch, key, request).map_err(|why| {
        let message = format!("{unreachable}, and the report cannot be written down: {why}");
        ApiError::new(Code::Unreachable, message).next("provost doctor")
    })?;
    Ok(Told::Dropped { launch, path })
}

/// A key is any visible text; a file's name is not, and both ways have to know the report by the same.
fn name_of(key: &str) -> String {
    let plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if plain { key.to_owned() } else { blake3::hash(key.as_bytes()).to_hex().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_leads_out_of_the_drop_box() {
        assert_eq!(name_of("a-1"), "a-1");
        assert!(name_of("../../x").bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
