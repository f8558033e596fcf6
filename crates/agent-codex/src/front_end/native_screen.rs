//! Codex's own screen on the conversation of a session.

use std::ffi::OsString;

use provost_agent::front_end::{NativeScreen, ScreenRequest};

use crate::{
    ThreadId, home::SCRUBBED_VARIABLES, launch::session_environment, launch::supports_attach,
    models::model_upgrades, protocol::LISTENS,
};

/// The Codex option that connects Codex's user interface to a running Codex process.
const REMOTE_OPTION: &str = "--remote";

/// Returns why users cannot attach to this version of Codex.
pub(super) fn attach_obstacle(version: Option<&str>) -> Option<String> {
    if supports_attach(version) {
        return None;
    }
    let found = match version {
        Some(version) => format!("runs Codex {version}"),
        None => "runs an unknown version of Codex".to_owned(),
    };
    Some(format!("{found}, which does not support attaching; use Codex {LISTENS} or newer"))
}

/// Returns the command that shows the conversation. It uses the session's Codex home, so that the
/// screen has the same settings and login as the agent.
pub(super) fn native_screen(request: &ScreenRequest<'_>) -> Result<NativeScreen, String> {
    let mut screen = screen(request)?;
    disable_model_upgrade_prompt(&mut screen, request);
    Ok(screen)
}

fn screen(request: &ScreenRequest<'_>) -> Result<NativeScreen, String> {
    let thread = ThreadId::parse(request.thread).ok_or("has an invalid Codex thread id")?;
    let mut argv = request.argv.to_vec();
    argv.extend([REMOTE_OPTION.to_owned(), format!("unix://{}", request.socket.display())]);
    argv.extend(["resume".to_owned(), thread.to_string()]);
    let env = session_environment(request.dir).into_iter();
    let env = env.map(|(name, value)| (name.to_owned(), value.display().to_string())).collect();
    Ok(NativeScreen { argv, env, unset: SCRUBBED_VARIABLES.to_vec() })
}

/// Prevents Codex from offering a newer model at startup. If the user accepted the offer, the
/// session's model would change without a record.
fn disable_model_upgrade_prompt(screen: &mut NativeScreen, request: &ScreenRequest<'_>) {
    let environment = screen.env.iter().map(|(name, value)| (name.into(), value.into()));
    let path = request.path.map(|path| (OsString::from("PATH"), path.to_owned()));
    let offers = model_upgrades(request.argv, environment.chain(path).collect());
    if offers.is_empty() {
        return;
    }
    let known = offers.iter().map(|(old, new)| format!("{old:?}={new:?}"));
    let known = known.collect::<Vec<_>>().join(",");
    let words = ["-c".to_owned(), format!("notice.model_migrations={{{known}}}")];
    let program_end = request.argv.len();
    screen.argv.splice(program_end..program_end, words);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const THREAD: &str = "01a1e1cd-51fa-72c1-bd3a-4c2216676dd9";

    fn request<'a>(argv: &'a [String], thread: &'a str) -> ScreenRequest<'a> {
        let (socket, dir) = (Path::new("/p/a2.sock"), Path::new("/p/agents/1"));
        ScreenRequest { argv, thread, socket, dir, path: None }
    }

    #[test]
    fn screen_resumes_the_thread_over_the_socket() {
        let argv = ["/opt/it's codex", "-c", "model=\"m\""].map(str::to_owned);
        let screen = screen(&request(&argv, THREAD)).unwrap();
        let socket = "unix:///p/a2.sock";
        let expected =
            ["/opt/it's codex", "-c", "model=\"m\"", "--remote", socket, "resume", THREAD];
        assert_eq!(screen.argv, expected);
        assert_eq!(screen.env["CODEX_HOME"], "/p/agents/1/codex");
        assert_eq!(screen.env["TMPDIR"], "/p/agents/1/tmp");
        assert_eq!(screen.unset, ["CODEX_SQLITE_HOME"]);
    }

    #[test]
    fn invalid_thread_id_is_rejected() {
        let why = screen(&request(&["codex".to_owned()], "--last")).unwrap_err();
        assert_eq!(why, "has an invalid Codex thread id");
    }

    #[test]
    fn old_version_is_rejected() {
        assert_eq!(attach_obstacle(Some("0.166.0")), None);
        let old =
            "runs Codex 0.107.0, which does not support attaching; use Codex 0.140.0 or newer";
        assert_eq!(attach_obstacle(Some("0.107.0")).as_deref(), Some(old));
        assert!(attach_obstacle(None).unwrap().contains("unknown version"));
    }
}
