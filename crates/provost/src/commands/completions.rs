//! `provost completions`

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::{cli, cli::CliResult, context::Context};

/// Print a completion script for your shell
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost completions bash > ~/.local/share/bash-completion/completions/provost\n  provost completions fish > ~/.config/fish/completions/provost.fish"
)]
pub(crate) struct CompletionsArgs {
    /// Shell that will load the script
    shell: Shell,
}

pub(crate) fn run(context: &Context, args: &CompletionsArgs) -> CliResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "provost", &mut script);
    context.ui.raw(&script)?;
    Ok(ExitCode::SUCCESS)
}
