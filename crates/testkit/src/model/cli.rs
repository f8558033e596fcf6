//! `scripted-model SCENARIO --port-file FILE`: the server as a program, for the demo and for manual use.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{ModelScenario, ModelServer};

const USAGE: &str =
    "usage: scripted-model SCENARIO.toml [--port N] [--port-file FILE] [--until-eof]";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}\n{USAGE}")]
    Usage(String),
    #[error("parse the scenario {name}")]
    Scenario {
        name: String,
        #[source]
        source: super::Error,
    },
    #[error("{what}")]
    Io {
        what: String,
        #[source]
        source: io::Error,
    },
}

struct ModelInvocation {
    scenario: PathBuf,
    port: u16,
    port_file: Option<PathBuf>,
    until_eof: bool,
}

/// Runs the server with its arguments, without the program's name. It runs until it is killed or, with
/// `--until-eof`, until its stdin ends.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match parse(args).and_then(|invocation| run(&invocation)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error);
            ExitCode::from(if matches!(error, Error::Io { .. }) { 1 } else { 2 })
        }
    }
}

fn run(invocation: &ModelInvocation) -> Result<(), Error> {
    let name = invocation.scenario.display().to_string();
    let scenario = ModelScenario::read(&invocation.scenario)
        .map_err(|source| Error::Scenario { name, source })?;
    let server = ModelServer::bind(scenario, invocation.port)
        .map_err(|source| Error::Io { what: "listen on loopback".to_owned(), source })?;
    writeln!(io::stdout(), "{}", server.url())
        .map_err(|source| Error::Io { what: "print the address".to_owned(), source })?;
    if let Some(file) = &invocation.port_file {
        write_port(file, server.port())
            .map_err(|source| Error::Io { what: format!("write {}", file.display()), source })?;
    }
    if invocation.until_eof { wait_for_eof() } else { wait_forever() }
}

/// Writes the port atomically, so that a reader never sees a partial file.
fn write_port(file: &Path, port: u16) -> io::Result<()> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".new");
    std::fs::write(&unfinished, port.to_string())?;
    std::fs::rename(&unfinished, file)
}

fn wait_for_eof() -> Result<(), Error> {
    let mut stdin = io::stdin().lock();
    let mut read = || stdin.read(&mut [0; 1024]);
    while read().map_err(|source| Error::Io { what: "read stdin".to_owned(), source })? > 0 {}
    Ok(())
}

fn wait_forever() -> ! {
    loop {
        std::thread::park();
    }
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<ModelInvocation, Error> {
    let usage = |why: &str| Error::Usage(why.to_owned());
    let (mut scenario, mut port, mut port_file, mut until_eof) = (None, 0, None, false);
    let mut args = args;
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--until-eof") => until_eof = true,
            Some("--port-file") => {
                let file = args.next().ok_or_else(|| usage("--port-file needs a file"))?;
                port_file = Some(PathBuf::from(file));
            }
            Some("--port") => {
                let given = args.next().and_then(|port| port.to_str()?.parse().ok());
                port = given.ok_or_else(|| usage("--port needs a number"))?;
            }
            Some(option) if option.starts_with('-') => {
                return Err(Error::Usage(format!("unknown option `{option}`")));
            }
            _ if scenario.is_none() => scenario = Some(PathBuf::from(arg)),
            _ => return Err(usage("only one scenario is allowed")),
        }
    }
    let scenario = scenario.ok_or_else(|| usage("a scenario is missing"))?;
    Ok(ModelInvocation { scenario, port, port_file, until_eof })
}

fn print_error(error: &Error) {
    let mut text = format!("scripted-model: failed to {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    // stderr may be closed. The exit code still reports the failure.
    drop(writeln!(io::stderr(), "{text}"));
}
