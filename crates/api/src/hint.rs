//! The commands that replies suggest.

use std::{borrow::Cow, fmt};

use provost_core::text::shell_quote;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// A command that the reader of a reply can run next. On the wire it is a command line, in which
/// words in capitals are placeholders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Hint {
    /// A complete command line: one that was received, one for another program, or one that was
    /// adapted to its reader.
    Command(String),
    /// Show a session, run or team.
    Status(String),
    /// Show all work.
    StatusOfAll,
    /// Explain the state of a session.
    StatusWhy(String),
    /// Show a session, run or team as it was after an event.
    StatusAt {
        id: String,
        seq: u64,
    },
    /// List the live sessions and runs.
    List,
    /// List all sessions and runs.
    ListAll,
    ListTeams,
    /// List the events of a session, run or team.
    Events(String),
    AllEvents,
    Logs(String),
    Attach(String),
    Send(String),
    /// Resume a run, or a session whose next instruction is known.
    Resume(String),
    ResumeWithText(String),
    /// Continue a session or run that was imported.
    TakeOver(String),
    /// Accept the work of a session that has ended.
    AcceptWork(String),
    RaiseLimit {
        id: String,
        tokens: bool,
        turns: bool,
    },
    /// Approve the commands that a team's members wrote.
    ApproveCommands(String),
    /// Approve a request of an agent.
    Approve(RequestRef),
    /// Deny a request of an agent.
    Deny(RequestRef),
    /// Answer a request of an agent.
    Answer {
        request: RequestRef,
        form: AnswerForm,
    },
    Discover,
    /// Start an agent, by the name that it has in the configuration.
    SpawnAgent(String),
    /// Start a command.
    SpawnCommand,
    /// Switch to a branch of git before the next command.
    SwitchBranch {
        branch: String,
        then: Box<Hint>,
    },
    Search,
    Replay(String),
    ReplayTimeline(String),
    Audit(String),
    ReportCompleted,
    ReportCompletedWithText,
    ReportCompletedFor,
    Doctor,
    DaemonStatus,
    StopDaemon,
    VerifyLedger,
    ExportLedger,
    RecoverLedger,
    StopUnknown,
    /// Act on a team.
    Team(TeamHint),
    /// Show the caller's own team.
    ShowOwnTeam,
    NewTeamHelp,
    StartTeamHelp,
    AddCriterionHelp,
}

/// A request of an agent, as commands name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRef {
    /// The short id of the session.
    pub session: String,
    /// The request's id within its session, such as `q1`.
    pub no: String,
    pub revision: u32,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    Text,
    /// The text is typed at a prompt, because it is secret.
    Secret,
    /// The answers to several questions are read from a file.
    File,
}

/// A command about a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamHint {
    /// The team's id.
    pub team: String,
    /// The member to act as. None for the operator.
    pub by: Option<String>,
    pub action: TeamAction,
}

/// The effect of a command on a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TeamAction {
    Show,
    Finish,
    /// Finish the team although its workers changed nothing.
    FinishUnchanged,
    Resume,
    BindWorker,
    Send {
        to: String,
    },
    NextMessage,
    /// List messages, closed ones included.
    AllMessages,
    /// List the open messages to a member.
    MessagesTo(String),
    AcceptMessage {
        no: u32,
        lease: u32,
    },
    Criteria,
    AddCriterion,
    AcceptCriterion(u32),
    ProveCriterion(u32),
    SatisfyCriterion(u32),
    ReopenCriterion(u32),
    ShowContract,
    AcceptContract(u32),
    /// Record a move, whose kind is given if it is known.
    RecordMove(Option<String>),
    /// Show that a step of the epilogue is done.
    EpilogueStep(String),
    Challenge,
    LoopStatus,
    StartLoop,
    StopLoop,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |text: &str| shell_quote(text);
        match self {
            Hint::Command(line) => f.write_str(line),
            Hint::Status(id) => write!(f, "provost status {}", word(id)),
            Hint::StatusOfAll => f.write_str("provost status"),
            Hint::StatusWhy(id) => write!(f, "provost status {} --why", word(id)),
            Hint::StatusAt { id, seq } => write!(f, "provost status {} --at {seq}", word(id)),
            Hint::List => f.write_str("provost ls"),
            Hint::ListAll => f.write_str("provost ls --all"),
            Hint::ListTeams => f.write_str("provost team ls"),
            Hint::Events(id) => write!(f, "provost events {}", word(id)),
            Hint::AllEvents => f.write_str("provost events"),
            Hint::Logs(id) => write!(f, "provost logs {}", word(id)),
            Hint::Attach(id) => write!(f, "provost attach {}", word(id)),
            Hint::Send(id) => write!(f, "provost send {} TEXT", word(id)),
            Hint::Resume(id) => write!(f, "provost resume {}", word(id)),
            Hint::ResumeWithText(id) => write!(f, "provost resume {} TEXT", word(id)),
            Hint::TakeOver(id) => write!(f, "provost resume {} --take-over", word(id)),
            Hint::AcceptWork(id) => {
                write!(f, "provost resolve {} --as accepted --because TEXT", word(id))
            }
            Hint::RaiseLimit { id, tokens, turns } => {
                write!(f, "provost limit {}", word(id))?;
                f.write_str(if *tokens { " --tokens N" } else { "" })?;
                f.write_str(if *turns { " --turns N" } else { "" })
            }
            Hint::ApproveCommands(id) => write!(f, "provost approve {}", word(id)),
            Hint::Approve(request) => write!(f, "provost approve {request}"),
            Hint::Deny(request) => write!(f, "provost deny {request}"),
            Hint::Answer { request, form } => {
                let arguments = match form {
                    AnswerForm::Text => "TEXT",
                    AnswerForm::Secret => "--secret",
                    AnswerForm::File => "--answers FILE",
                };
                write!(f, "provost answer {request} {arguments}")
            }
            Hint::Discover => f.write_str("provost discover"),
            Hint::SpawnAgent(agent) => {
                write!(f, "provost spawn --agent {} INSTRUCTION", word(agent))
            }
            Hint::SpawnCommand => f.write_str("provost spawn -- COMMAND"),
            Hint::SwitchBranch { branch, then } => {
                write!(f, "git switch {} && {then}", word(branch))
            }
            Hint::Search => f.write_str("provost search WORDS"),
            Hint::Replay(id) => write!(f, "provost replay {}", word(id)),
            Hint::ReplayTimeline(id) => write!(f, "provost replay {} --as timeline", word(id)),
            Hint::Audit(id) => write!(f, "provost audit {}", word(id)),
            Hint::ReportCompleted => f.write_str("provost report completed"),
            Hint::ReportCompletedWithText => f.write_str("provost report completed --message TEXT"),
            Hint::ReportCompletedFor => f.write_str("provost report completed --session ID"),
            Hint::Doctor => f.write_str("provost doctor"),
            Hint::DaemonStatus => f.write_str("provost daemon status"),
            Hint::StopDaemon => f.write_str("provost daemon stop"),
            Hint::VerifyLedger => f.write_str("provost ledger verify"),
            Hint::ExportLedger => f.write_str("provost ledger export"),
            Hint::RecoverLedger => f.write_str("provost ledger recover"),
            Hint::StopUnknown => f.write_str("provost ledger recover --stop-unknown"),
            Hint::Team(hint) => hint.fmt(f),
            Hint::ShowOwnTeam => f.write_str("provost team show"),
            Hint::NewTeamHelp => f.write_str("provost team new --help"),
            Hint::StartTeamHelp => f.write_str("provost team start --help"),
            Hint::AddCriterionHelp => f.write_str("provost team criterion add --help"),
        }
    }
}

impl fmt::Display for RequestRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} --revision {}", self.session, self.no, self.revision)
    }
}

impl fmt::Display for TeamHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TeamHint { team, by, action } = self;
        let team = shell_quote(team);
        let by = by.as_deref().map(|name| format!(" {}", option("--as", name))).unwrap_or_default();
        let on_team = format!("-t {team}{by}");
        f.write_str("provost team ")?;
        match action {
            TeamAction::Show => write!(f, "show {team}{by}"),
            TeamAction::Finish => write!(f, "done {team} --because TEXT{by}"),
            TeamAction::FinishUnchanged => {
                write!(f, "done {team} --because TEXT --allow nothing_changed{by}")
            }
            TeamAction::Resume => write!(f, "resume {team}{by}"),
            TeamAction::BindWorker => write!(f, "bind {team} NAME --role worker"),
            // A name with a leading dash is placed after `--`, so that it is not parsed as an
            // option.
            TeamAction::Send { to } if to.starts_with('-') => {
                write!(f, "send {on_team} -- {} TEXT", shell_quote(to))
            }
            TeamAction::Send { to } => write!(f, "send {} TEXT {on_team}", shell_quote(to)),
            TeamAction::NextMessage => write!(f, "next {on_team}"),
            TeamAction::AllMessages => write!(f, "inbox ls --all {on_team}"),
            TeamAction::MessagesTo(member) => {
                write!(f, "inbox ls {} {on_team}", option("--to", member))
            }
            TeamAction::AcceptMessage { no, lease } => {
                write!(f, "inbox accept {no} --lease {lease} {on_team}")
            }
            TeamAction::Criteria => write!(f, "criterion ls {on_team}"),
            TeamAction::AddCriterion => write!(f, "criterion add TEXT --check COMMAND {on_team}"),
            TeamAction::AcceptCriterion(no) => write!(f, "criterion accept {no} {on_team}"),
            TeamAction::ProveCriterion(no) => write!(f, "prove --criterion {no} {on_team}"),
            TeamAction::SatisfyCriterion(no) => {
                write!(f, "criterion satisfy {no} --evidence TEXT {on_team}")
            }
            TeamAction::ReopenCriterion(no) => {
                write!(f, "criterion reopen {no} --because TEXT {on_team}")
            }
            TeamAction::ShowContract => write!(f, "contract show {on_team}"),
            TeamAction::AcceptContract(revision) => {
                write!(f, "contract accept --revision {revision} {on_team}")
            }
            TeamAction::RecordMove(kind) => {
                let kind = kind.as_deref().unwrap_or("KIND");
                write!(f, "contract move {kind} --because TEXT {on_team}")
            }
            TeamAction::EpilogueStep(step) => {
                let step = step.replace('_', "-");
                write!(f, "contract epilogue {step} --evidence TEXT {on_team}")
            }
            TeamAction::Challenge => write!(
                f,
                "contract challenge --failure-mode TEXT --check TEXT --result TEXT {on_team}"
            ),
            TeamAction::LoopStatus => write!(f, "loop status {on_team}"),
            TeamAction::StartLoop => write!(f, "loop start TEMPLATE {on_team}"),
            TeamAction::StopLoop => write!(f, "loop stop --because TEXT {on_team}"),
        }
    }
}

/// Formats an option with a user-chosen name, quoted for a shell.
fn option(flag: &str, name: &str) -> String {
    let join = if name.starts_with('-') { '=' } else { ' ' };
    format!("{flag}{join}{}", shell_quote(name))
}

impl From<Hint> for String {
    fn from(hint: Hint) -> String {
        hint.to_string()
    }
}

impl From<String> for Hint {
    fn from(command: String) -> Hint {
        Hint::Command(command)
    }
}

impl From<&str> for Hint {
    fn from(command: &str) -> Hint {
        Hint::Command(command.to_owned())
    }
}

impl From<&String> for Hint {
    fn from(command: &String) -> Hint {
        Hint::Command(command.clone())
    }
}

impl From<TeamHint> for Hint {
    fn from(hint: TeamHint) -> Hint {
        Hint::Team(hint)
    }
}

/// Compares the command lines.
impl PartialEq<&str> for Hint {
    fn eq(&self, line: &&str) -> bool {
        let shown = self.to_string();
        shown.as_str() == *line
    }
}

impl JsonSchema for Hint {
    fn schema_name() -> Cow<'static, str> {
        "Hint".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}
