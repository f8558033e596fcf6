//! Lists the newer models that Codex offers on its screen as replacements for older ones.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use provost_sys::program::{ProgramEnd, ProgramRun};

/// The timeout for listing the models. The list is built into Codex, so this is fast.
const LIMIT: Duration = Duration::from_secs(10);
/// The maximum length of the list, in bytes. It contains the models' instructions.
const OUTPUT_LIMIT: usize = 16 << 20;

/// Returns each model for which Codex offers a replacement, together with the replacement. Returns
/// an empty map if Codex reports none.
pub fn model_upgrades(
    argv: &[String],
    environment: Vec<(OsString, OsString)>,
) -> BTreeMap<String, String> {
    let Some((program, args)) = argv.split_first() else { return BTreeMap::new() };
    let list = ["debug", "models"].map(str::to_owned);
    let run = ProgramRun {
        program: PathBuf::from(program),
        args: args.iter().chain(&list).map(OsString::from).collect(),
        directory: Path::new("/").to_owned(),
        environment,
        limit: LIMIT,
        output_limit: OUTPUT_LIMIT,
    };
    match run.finish() {
        Ok(finished) if matches!(finished.end, ProgramEnd::Code(0)) => {
            parse_models(&finished.stdout)
        }
        Ok(_) | Err(_) => BTreeMap::new(),
    }
}

fn parse_models(reply: &[u8]) -> BTreeMap<String, String> {
    let reply: Value = serde_json::from_slice(reply).unwrap_or_default();
    let models = reply["models"].as_array().map(Vec::as_slice).unwrap_or_default();
    let offer = |model: &Value| {
        Some((model["slug"].as_str()?.to_owned(), model["upgrade"]["model"].as_str()?.to_owned()))
    };
    models.iter().filter_map(offer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_upgrades_are_parsed() {
        let reply = br#"{"models":[{"slug":"old","upgrade":{"model":"new"}},{"slug":"new","upgrade":null},7]}"#;
        assert_eq!(parse_models(reply), BTreeMap::from([("old".to_owned(), "new".to_owned())]));
        assert_eq!(parse_models(b"no models"), BTreeMap::new());
        assert_eq!(model_upgrades(&["/nowhere".to_owned()], Vec::new()), BTreeMap::new());
    }
}
