//! Project automation, run as `cargo xtask NAME`.

mod bench;
mod demo;
mod docs;
mod junit;
mod lint;
mod package;
mod print;
mod process;
mod test;
mod tools;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{docs::DocsMode, print::print_line, test::TestPlan, workspace::Workspace};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo                      show sessions that run, end and survive a daemon crash
  test [--deep] [FILTER…]   lint and run all tests; with a filter only the tests that match, without lint
  test --unprivileged [FILTER…]   as root: run the boundary tests as an unprivileged user
  lint                      format, clippy, rustdoc, generated documents, rules about files
  bench [NAME…]             measure, and print medians and spread
  bench --baseline [NAME…]  measure, and record the ratios in bench/baseline.json
  bench --compare [NAME…]   measure, and fail if a goal is missed or a ratio worsened
  docs [--check]            write the generated documents, or fail if they are out of date
  package                   build the release archive, install it and run the demo from it

  --deep adds mutants of the core, more seeds of the simulator, the whole crash matrix, long kill loops,
  rustdoc, documentation tests and clippy of the release";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            print_line(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<ExitCode> {
    match arguments {
        ["test", rest @ ..] => return test::run(Workspace::find()?, &TestPlan::parse(rest)?),
        // Runs the demo as another user, with the programs next to this one.
        ["demo-in", root, codex @ ..] => demo::run_beside(root.as_ref(), codex.first().copied())?,
        ["demo"] => demo::build_and_run(&Workspace::find()?)?,
        ["lint"] => lint::run(&Workspace::find()?)?,
        ["bench", rest @ ..] => bench::run(&Workspace::find()?, &bench::BenchPlan::parse(rest)?)?,
        ["docs"] => docs::run(&Workspace::find()?, DocsMode::Write)?,
        ["docs", "--check"] => docs::run(&Workspace::find()?, DocsMode::Check)?,
        ["package"] => package::run(&Workspace::find()?)?,
        [] | ["help" | "--help" | "-h"] => print_line(USAGE),
        _ => bail!("unknown arguments: {}\n\n{USAGE}", arguments.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}
