//! Queries which features a Codex installation has enabled.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use provost_sys::program::{ProgramEnd, ProgramRun};

/// The timeout for listing the features. The list is built into Codex, so this is fast.
const LIMIT: Duration = Duration::from_secs(10);
/// The maximum length of the list, in bytes.
const OUTPUT_LIMIT: usize = 1 << 20;

/// Returns whether Codex reports a feature as enabled for the user, or `None` if Codex does not
/// list the feature. The query runs in an empty home with a copy of the user's settings, because
/// Codex writes to its home.
pub fn is_enabled(
    argv: &[String],
    environment: &[(OsString, OsString)],
    codex_home: Option<&Path>,
    feature: &str,
) -> io::Result<Option<bool>> {
    let Some((program, args)) = argv.split_first() else { return Ok(None) };
    let home = tempfile::tempdir()?;
    if let Some(settings) = codex_home.map(|home| home.join("config.toml"))
        && settings.is_file()
    {
        fs::copy(&settings, home.path().join("config.toml"))?;
    }
    let own = (OsString::from("CODEX_HOME"), home.path().as_os_str().to_owned());
    let list = ["features", "list"].map(str::to_owned);
    let run = ProgramRun {
        program: PathBuf::from(program),
        args: args.iter().chain(&list).map(OsString::from).collect(),
        directory: Path::new("/").to_owned(),
        environment: environment.iter().cloned().chain([own]).collect(),
        limit: LIMIT,
        output_limit: OUTPUT_LIMIT,
    };
    Ok(match run.finish() {
        Ok(finished) if matches!(finished.end, ProgramEnd::Code(0)) => {
            parse_features(&finished.stdout, feature)
        }
        Ok(_) | Err(_) => None,
    })
}

/// Finds a feature in lines that consist of name, maturity and state.
fn parse_features(output: &[u8], feature: &str) -> Option<bool> {
    let output = String::from_utf8_lossy(output);
    let lines = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .into_iter()
        .find(|words| words.first() == Some(&feature))
        .and_then(|words| words.last().and_then(|last| last.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_by_their_whole_name() {
        let output = b"multi_agent_v2   stable  false\nmulti_agent   under development   true\n";
        assert_eq!(parse_features(output, "multi_agent"), Some(true));
        assert_eq!(parse_features(output, "multi_agent_v2"), Some(false));
        assert_eq!(parse_features(output, "multi"), None);
        assert_eq!(parse_features(b"no features", "no"), None);
        assert_eq!(is_enabled(&["/nowhere".to_owned()], &[], None, "x").unwrap(), None);
    }
}
