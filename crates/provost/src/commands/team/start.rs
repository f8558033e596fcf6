//! `provost team start`

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use provost_api::{ApiError, PairRequest, TeamRow};
use provost_config::Resolved;
use provost_core::{
    ids::TeamId,
    team::{EvidenceRequirement, ManagerMode, TeamSpec},
    text::{quote_name, shell_quote},
};
use provost_engine::shell::{NewCriterion, TeamStart};
use serde_json::{Value, json};

use super::{
    args::next_commands,
    handoff,
    loop_command::LoopFlags,
    loop_templates,
    members::{self, StartMemberArgs},
    new::{self, WindowArgs},
};
use crate::{
    cli::CliResult,
    clock,
    commands::{
        input,
        mutation::KeyArgs,
        spawn::{label, spec::directory, spec_from_config::checks},
    },
    context::Context,
    error::usage,
    settings,
    trust::TrustPrompt,
    ui,
};

/// Open a team: workers, and a manager (agent, policy or you)
///
/// If the team or one of its sessions cannot be opened, nothing is opened. Workers start with the
/// goal, and their results reach the manager automatically. With --pull no agents are started:
/// paste the printed hand-off into each member's application. The team's ID is printed to standard
/// output, everything else to standard error; `provost team handoff` prints hand-offs to standard
/// output.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team start 'Limit how often each caller may call' --worker codex --manager codex --check 'cargo test'\n  provost team start 'Cover the parser with tests' --worker codex --manager me --loop build --max-iterations 5\n  provost team start 'Keep the build green' --worker codex --manager policy:careful\n  provost team start 'Rework the start page' --pull --worker app --manager desk --title 'Start page'"
)]
pub(super) struct StartArgs {
    /// Goal of the team; `-` reads standard input
    goal: String,
    /// Name of the team [default: derived from its ID]
    #[arg(long, value_parser = label)]
    name: Option<String>,
    #[command(flatten)]
    members: StartMemberArgs,
    /// Command that must pass on the finished work (repeatable) [default: the configuration's checks]
    #[arg(long, value_name = "COMMAND")]
    check: Vec<String>,
    /// Criterion that an assertion can satisfy (repeatable)
    #[arg(long, value_name = "TEXT")]
    criterion: Vec<String>,
    /// Work in a loop of this template
    #[arg(long = "loop", value_name = "TEMPLATE", conflicts_with = "require")]
    template: Option<String>,
    #[command(flatten)]
    looped: LoopFlags,
    /// How strictly the manager is controlled
    #[arg(long, default_value = "guided", value_parser = input::one_of(&ManagerMode::ALL, ManagerMode::as_str))]
    mode: ManagerMode,
    /// Directory in which the team works [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    windows: WindowArgs,
    #[command(flatten)]
    key: KeyArgs,
}

pub(super) fn run(context: &Context, args: &StartArgs) -> CliResult {
    let goal = input::read_text("the goal", &args.goal)?;
    let id = TeamId(clock::new_id());
    let cwd = directory(context, args.cwd.as_deref())?;
    let config = settings::load_to_start(
        context,
        &cwd,
        settings::ConfigInputs::default(),
        TrustPrompt::AtTerminal,
    )?;
    let spec = spec(context, args, goal, id, &config)?;
    let template = args.looped.template(&config, args.template.as_deref(), &spec.checks)?;
    let client = context.daemon()?;
    let opening =
        members::MemberBuilder { context, client: &client, id, spec: &spec, args: &args.members };
    let members = opening.members(template.as_ref())?;
    let warnings = members::warnings(&members);
    let criterion = |text: &String| NewCriterion {
        text: text.clone(),
        rationale: None,
        needs: EvidenceRequirement::Asserted,
    };
    let start = TeamStart {
        members,
        criteria: args.criterion.iter().map(criterion).collect(),
        template: template.map(Box::new),
        posts: Vec::new(),
        spec,
    };
    let pairing = serde_json::to_value(&start)
        .map_err(|why| usage(format!("cannot encode the team: {why}")))?;
    let request = PairRequest { id: id.to_string(), pairing };
    let reply: Value = client.post("/v1/pairs", &request, &args.key.get(context))?;
    opened(context, reply, &warnings, args.members.pull)
}

fn spec(
    context: &Context,
    args: &StartArgs,
    goal: String,
    id: TeamId,
    config: &Resolved,
) -> Result<TeamSpec, ApiError> {
    let name = args.name.clone().unwrap_or_else(|| format!("team-{}", id.short()));
    let checks = if args.check.is_empty() { checks(config) } else { args.check.clone() };
    let (cwd, bounds) = (args.cwd.as_deref(), args.windows.bounds());
    let mut spec = new::spec(context, &name, goal, None, &checks, cwd, bounds)?;
    spec.config.mode = args.mode;
    spec.policy =
        args.members.policy().map(|name| loop_templates::policy(config, name)).transpose()?;
    Ok(spec)
}

/// Shows the team that was just opened. Only its ID goes to standard output. The members, and the
/// handoffs for external members, go to standard error; `provost team handoff` prints the handoffs again.
fn opened(context: &Context, mut reply: Value, warnings: &[String], pull: bool) -> CliResult {
    let row: Option<TeamRow> =
        reply.get("team").cloned().and_then(|row| serde_json::from_value(row).ok());
    let next = row.as_ref().map(|row| next_commands(row, None)).unwrap_or_default();
    let pulled = |row: &TeamRow| row.members.iter().any(|one| !one.communication.can_push);
    let handed = match row.as_ref().filter(|row| pulled(row)) {
        Some(row) => Some(handoff::find(context, &row.id, None)?),
        None => None,
    };
    if context.ui.json {
        reply["warnings"] = json!(warnings);
        if let Some(handed) = handed {
            reply["handoffs"] = json!(handed.handoffs);
            reply["heartbeat"] = json!(handed.heartbeat);
        }
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    warnings.iter().for_each(|warning| context.ui.warn(warning));
    if let Some(row) = &row {
        context.ui.line(&row.id)?;
        for member in &row.members {
            let session = member.session.as_deref();
            let late = member.communication.note.as_ref().map_or("", |_| ", uses commands");
            let how = match session {
                Some(id) => format!("session {}{late}", ui::short_id(id)),
                None if !pull => "you".to_owned(),
                None => "not started by Provost, polls for its messages".to_owned(),
            };
            context.ui.notice(&format!(
                "{} ({}): {how}",
                ui::escape_line(&member.name),
                member.role
            ));
        }
    }
    for handoff in handed.iter().flat_map(|handed| &handed.handoffs) {
        // Without `--pull`, only the user is a member without a session.
        if handoff.heartbeat.is_some() && handoff.role == "manager" && !pull {
            let lines = row.iter().flat_map(|row| manager_commands(row, &handoff.member));
            lines.for_each(|line| context.ui.notice(&line));
        } else if handoff.heartbeat.is_some() {
            let member = ui::escape_line(&quote_name(&handoff.member));
            context.ui.notice(&format!(
                "\n── hand-off for {member}: follow it yourself, or paste it into the member's application ──\n"
            ));
            context.ui.notice(&ui::escape_block(&handoff.prompt));
        }
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// Describes the few commands with which a user manages a team. A user does not need the complete prompt, which is
/// written for an agent.
fn manager_commands(row: &TeamRow, name: &str) -> Vec<String> {
    let (id, by) = (ui::short_id(&row.id), shell_quote(name));
    let commands = [
        (
            "accept your contract",
            format!("provost team contract accept --revision 0 -t {id} --as {by}"),
        ),
        ("take the next message", format!("provost team next -t {id} --as {by} --wait")),
        ("give an instruction", format!("provost team send -t {id} --as {by} WORKER TEXT")),
        ("finish the team", format!("provost team done {id} --as {by} --because TEXT")),
        ("print the prompt for an agent", format!("provost team handoff {id} {by}")),
    ];
    commands.map(|(what, command)| format!("  {what:<30}{command}")).to_vec()
}
