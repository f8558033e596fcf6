//! `provost approve` and `provost deny`

use std::path::{Path, PathBuf};

use clap::Args;
use provost_api::{
    AnswerRequest, ApiError, ApprovalDecision, ApprovalRow, ApproveRunRequest, ErrorCode,
    RejectRunRequest, RequestRow, RunRow, SessionRow, TeamRow,
};
use provost_core::{request::RequestKind, team::TeamCommand};
use provost_git::{Oid, files_at};
use provost_trust::{TrustContent, agent_directory, is_relevant};

use super::{
    answer::{NamedRequest, repeat_change, split},
    input,
    mutation::{KeyArgs, change, change_run},
    spawn::worktree,
    team::args::TeamTarget,
};
use crate::{
    cli::CliResult,
    context::Context,
    error::{chain, usage},
    target,
    trust::{self, TrustSubject},
    ui,
};

/// Approve a pending request of an agent, run or team
///
/// `provost status` shows the request: the command, its directory, the reason and the change. A run
/// requests approval of its plan, which includes commands written by an agent (`provost graph`
/// shows the plan), or of changes to protected and trust-relevant files before they land. A team
/// requests approval of commands written by its members. Only the displayed content is approved.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost approve 1a2b3c4d\n  provost approve 1a2b3c4d.q2 --session"
)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    which: RequestSelector,
    /// Also allow the same action for the rest of the session
    #[arg(long)]
    session: bool,
}

/// Deny a pending request of an agent or run
///
/// The agent is notified of the denial and continues. If the plan or the landing of a run is
/// denied, the run fails, and its work stays on its branch.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost deny 1a2b3c4d\n  provost deny 1a2b3c4d.q2\n  provost deny my-run --because 'too many tasks'"
)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    which: RequestSelector,
    /// Reason for denying a plan or a landing
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// The request to decide
#[derive(Debug, Args)]
struct RequestSelector {
    /// Request ID; a session, run or team also works if exactly one of its requests is pending
    #[arg(value_parser = input::parse_name)]
    request: String,
    /// Decide only if the request still has this revision
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn approve(context: &Context, args: &ApproveArgs) -> CliResult {
    let decision =
        if args.session { ApprovalDecision::ApproveForSession } else { ApprovalDecision::Approve };
    let named = NamedRequest::look_up(context, &args.which.request)?;
    if let Some(run) = waiting_run(&named) {
        if args.session {
            let message = "--session applies to an agent's request, but here the run itself waits for approval";
            return Err(usage(message)
                .next(format!("provost approve {}", ui::short_id(&run.id)))
                .into());
        }
        return approve_run(context, run, &args.which.key);
    }
    match waiting_team(&named) {
        Some(team) => {
            let commands = team.awaits_consent.clone();
            context
                .ui
                .notice(&format!("approved commands: {}", ui::escape_line(&commands.join("; "))));
            let command = TeamCommand::ApproveCommands { commands };
            TeamTarget::new(&team.id).change(context, &command, &args.which.key)
        }
        None => decide(context, &args.which, named, decision),
    }
}

/// Approves exactly the content that is displayed for the run.
fn approve_run(context: &Context, run: &RunRow, key: &KeyArgs) -> CliResult {
    let approval = run.approval.clone().unwrap_or_default();
    if !approval.files.is_empty() {
        context.ui.notice(&format!("approved: {}", ui::escape_line(&approval.files.join(", "))));
    }
    let request = ApproveRunRequest { landing: approval.commit.clone() };
    let approved = change_run(context, &run.id, "approve", &request, key)?;
    if let Err(why) = trust_approved_content(context, run, &approval) {
        context.ui.warn(&format!("the landed changes are not trusted yet: {}", why.message));
    }
    Ok(approved)
}

/// Trusts exactly the content that was displayed and approved, in all directories. The trust store
/// is part of the user's configuration, so this command, and not the daemon, writes to it. If part
/// of the change was not shown, or if the operator does not trust the current content of a
/// directory on the target branch, the operator must run `provost trust` instead.
fn trust_approved_content(
    context: &Context,
    run: &RunRow,
    approved: &ApprovalRow,
) -> Result<(), ApiError> {
    let (Some(onto), Some(commit)) = (&approved.onto, &approved.commit) else { return Ok(()) };
    if approved.truncated {
        return Ok(());
    }
    let (git, project) = worktree::project_at(context, Path::new(&run.project))
        .map_err(|why| chain(ErrorCode::BadRequest, "cannot read the project", &why))?;
    let wanted = |path: &str| is_relevant(path) || agent_directory(path).is_some();
    let content = |commit: &str| -> Result<Option<TrustContent>, ApiError> {
        let unread = |why: &dyn std::error::Error| {
            chain(ErrorCode::BadRequest, "cannot read the approved content", why)
        };
        let commit = Oid::new(commit).map_err(|why| unread(&why))?;
        let files = files_at(&git, &project, &commit, wanted).map_err(|why| unread(&why))?;
        Ok(files.map(|files| {
            TrustContent::from_files(files.into_iter().map(|file| (file.path, file.content)))
        }))
    };
    let (Some(before), Some(after)) = (content(onto)?, content(commit)?) else { return Ok(()) };
    let store = trust::store(&context.environment)?;
    let mut agreed = TrustContent::default();
    for directory in after.directories() {
        let unchanged = before.down_to(&directory);
        if store.is_trusted(&project.top, &directory, &unchanged).map_err(trust::store_error)? {
            agreed = agreed.with(&after.down_to(&directory));
        }
    }
    trust::record(
        &context.environment,
        &TrustSubject::of_checkout(project.top, PathBuf::new(), agreed),
    )
}

pub(crate) fn deny(context: &Context, args: &DenyArgs) -> CliResult {
    let because = args.because.as_deref();
    let named = NamedRequest::look_up(context, &args.which.request)?;
    match (waiting_run(&named), because) {
        (Some(run), because) => {
            let because = because.unwrap_or("refused by the operator").to_owned();
            let landing = run.approval.as_ref().and_then(|approval| approval.commit.clone());
            let request = RejectRunRequest { because, landing };
            change_run(context, &run.id, "reject", &request, &args.which.key)
        }
        (None, Some(_)) => {
            let message =
                "--because applies to a run, but no run with this name is waiting for approval";
            Err(usage(message).next(format!("provost status {}", args.which.request)).into())
        }
        (None, None) => decide(context, &args.which, named, ApprovalDecision::Deny),
    }
}

/// Returns the named team if commands written by its members are waiting for approval.
fn waiting_team<'n>(named: &'n NamedRequest<'_>) -> Option<&'n TeamRow> {
    let team = named.found.team.as_ref()?;
    (named.no.is_none() && !team.awaits_consent.is_empty()).then_some(team)
}

/// Returns the named run if it is waiting for the operator's approval.
fn waiting_run<'n>(named: &'n NamedRequest<'_>) -> Option<&'n RunRow> {
    let run = named.found.run.as_ref()?;
    (named.no.is_none() && run.awaits_approval).then_some(run)
}

fn decide(
    context: &Context,
    which: &RequestSelector,
    named: NamedRequest<'_>,
    decision: ApprovalDecision,
) -> CliResult {
    let NamedRequest { name, no, found } = named;
    let row = target::active_session(found, name)?;
    let decided = AnswerRequest { decision: Some(decision), ..AnswerRequest::default() };
    let request = match choose(&row, no, decision) {
        Err(error) if which.key.is_given() || no.is_some() => {
            return repeat_change(context, &row, no, decided, &which.key, error);
        }
        chosen => chosen?,
    };
    let decided = AnswerRequest {
        request: request.id.clone(),
        revision: which.revision.unwrap_or(request.revision),
        ..decided
    };
    change(context, &row.id, "answer", &decided, &which.key)
}

fn choose(
    row: &SessionRow,
    no: Option<u32>,
    decision: ApprovalDecision,
) -> Result<&RequestRow, ApiError> {
    let id = ui::short_id(&row.id);
    let denies = decision == ApprovalDecision::Deny;
    let is_selected = |request: &&RequestRow| match no {
        Some(no) => split(&request.id).1 == Some(no),
        None => request.kind == RequestKind::Approval || (denies && request.can_be_denied()),
    };
    let open: Vec<&RequestRow> = row.requests.iter().filter(is_selected).collect();
    match open.as_slice() {
        [only] => Ok(only),
        [] => {
            let message = format!("session {id} has no pending approval");
            let error =
                ApiError::new(ErrorCode::Refused, message).next(format!("provost status {id}"));
            Err(row.requests.iter().fold(error, |e, request| e.next(request.answer_command())))
        }
        several => {
            let message =
                format!("session {id} has {} pending requests; specify one of them", several.len());
            Err(several.iter().fold(usage(message), |e, request| e.next(request.answer_command())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Read as _, Write as _},
        os::unix::net::{UnixListener, UnixStream},
        path::Path,
        thread::{self, JoinHandle},
    };

    use clap::Parser as _;
    use provost_api::{DaemonInfo, LookedUpName, LookupReply, PROTOCOL, SessionReply};
    use serde_json::json;

    use super::*;
    use crate::{
        daemon,
        environment::Environment,
        ui::{Paint, Ui},
    };

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ApproveArgs,
    }

    fn request() -> RequestRow {
        serde_json::from_value(json!({
            "id": "deadbeef.q1", "revision": 3, "kind": "approval", "blocking": true,
            "title": "Run tests", "questions": [], "asked_at": 0,
        }))
        .unwrap()
    }

    fn daemon_info() -> DaemonInfo {
        serde_json::from_value(json!({
            "ok": true, "pid": 1, "version": daemon::version(), "protocol": PROTOCOL, "socket": "",
            "home": "", "read_only": null, "live_sessions": 1, "environment": [],
        }))
        .unwrap()
    }

    /// Reads the request on a connection. `None` if the client closed the connection without sending a request.
    fn read_request(stream: &UnixStream) -> Option<String> {
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            length = line
                .strip_prefix("content-length: ")
                .map_or(length, |text| text.trim_end().parse().unwrap());
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let words: Vec<&str> = first.split(' ').take(2).collect();
        (words.len() == 2)
            .then(|| format!("{} {}", words.join(" "), String::from_utf8(body).unwrap()))
    }

    /// Serves a session with a pending approval, until a client connects without a request. Returns
    /// the requests, each of which had its own connection.
    fn serve(socket: &Path) -> JoinHandle<Vec<String>> {
        let listener = UnixListener::bind(socket).unwrap();
        thread::spawn(move || {
            let mut session = ui::test_session("fixer", "needs_input");
            session.requests = vec![request()];
            let mut requests = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().unwrap();
                let Some(request) = read_request(&stream) else { return requests };
                let reply = if request.starts_with("GET /v1/lookup?") {
                    let session = Some(session.clone());
                    let found = LookedUpName { session, ..LookedUpName::default() };
                    json!(LookupReply { ok: true, daemon: daemon_info(), found })
                } else {
                    json!(SessionReply { ok: true, session: session.clone() })
                };
                let reply = reply.to_string();
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{reply}", reply.len())
                    .unwrap();
                requests.push(request);
            }
        })
    }

    #[test]
    fn approval_takes_two_connections() {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("daemon.sock");
        let served = serve(&socket);
        let environment =
            Environment::from_pairs(&[("PROVOST_HOME", home.path().to_str().unwrap())]);
        let ui = Ui { json: true, hints: false, paint: Paint::OFF, notice_paint: Paint::OFF };
        let line = Line::try_parse_from(["approve", "deadbeef"]).unwrap();
        approve(&Context::with(environment, ui), &line.args).unwrap();
        drop(UnixStream::connect(&socket).unwrap());

        let requests = served.join().unwrap();
        let [lookup, answer] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!(lookup, "GET /v1/lookup?name=deadbeef ");
        assert!(answer.starts_with("POST /v1/sessions/"), "{answer}");
        assert!(answer.contains(r#""request":"deadbeef.q1","revision":3"#), "{answer}");
    }
}
