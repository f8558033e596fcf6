//! The sample scenarios, compiled in so that an installed copy needs no other files.

const SAMPLES: &[(&str, &str)] = &[
    ("exit0_silent", include_str!("../../scenarios/exit0_silent.toml")),
    ("exit1_silent", include_str!("../../scenarios/exit1_silent.toml")),
    ("completed_exit0", include_str!("../../scenarios/completed_exit0.toml")),
    ("needs_input_exit0", include_str!("../../scenarios/needs_input_exit0.toml")),
    ("working_killed9", include_str!("../../scenarios/working_killed9.toml")),
    ("edits_and_completes", include_str!("../../scenarios/edits_and_completes.toml")),
    ("asks_question", include_str!("../../scenarios/asks_question.toml")),
    (
        "ignores_term_with_grandchildren",
        include_str!("../../scenarios/ignores_term_with_grandchildren.toml"),
    ),
];

/// Returns the text of a sample scenario.
pub fn sample(name: &str) -> Option<&'static str> {
    SAMPLES.iter().find(|(sample, _)| *sample == name).map(|(_, text)| *text)
}

/// Returns the names of all sample scenarios.
pub fn sample_names() -> impl Iterator<Item = &'static str> {
    SAMPLES.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_valid_and_described() {
        for name in sample_names() {
            let scenario = crate::scenario::parse(sample(name).unwrap(), &Default::default());
            let scenario = scenario.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!scenario.description.is_empty(), "{name} has no description");
        }
    }

    #[test]
    fn every_scenario_file_is_built_in() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
        let mut found: Vec<String> =
            files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        let mut known: Vec<&str> = sample_names().collect();
        found.sort();
        known.sort();
        assert_eq!(found, known);
    }
}
