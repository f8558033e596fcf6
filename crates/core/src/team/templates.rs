//! Built-in loops, and loops built from named evidence.
//!
//! The kinds of evidence that a loop requires are known before the commands that produce the evidence. A
//! [`LoopOutline`] becomes a [`LoopTemplate`] once the project's checks are filled in. A loop cannot begin while a
//! command is unknown.

use std::{fmt, str::FromStr};

use super::{
    loop_state::{CleanUp, LoopProof, LoopRequirement, LoopTemplate, LoopTemplateError},
    pictures::{MAX_TOLERANCE, PictureFiles, PictureFilesError, WHOLE, format_share, parse_share},
};

/// The name of the loop built from `--require`.
pub const REQUIRED_LOOP: &str = "required";

/// The maximum length of a name for a piece of evidence or for a field of an artifact.
pub const MAX_EVIDENCE_NAME: usize = 64;

/// The default number of iterations of a loop.
pub const DEFAULT_ITERATIONS: u32 = 10;

/// The default number of consecutive iterations that may change nothing.
const DEFAULT_PLATEAU: u32 = 3;

/// The accepted forms of evidence on one line, for messages and help.
pub const EVIDENCE_FORMS: &str = "\"checks\", \"challenge\", NAME=verified, NAME=verified:COMMAND, NAME=asserted, NAME=challenge, NAME=artifact:FIELD,FIELD or NAME=pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]";

/// Required evidence, whose command may still be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvidenceSpec {
    /// Each of the project's own checks, with a separate receipt for each.
    Checks,
    /// A command that only the project knows.
    Unknown,
    Proof(LoopProof),
}

/// A loop whose commands may still be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopOutline {
    pub name: String,
    /// The purpose of the loop, in one line.
    pub means: String,
    pub max: u32,
    pub evidence: Vec<(String, EvidenceSpec)>,
    pub clean_up: CleanUp,
    pub plateau: Option<u32>,
    pub tokens: Option<u64>,
    pub tools: Vec<String>,
}

/// The reason why an outline cannot become a template yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutlineError {
    #[error(
        "the loop \"{looped}\" runs the project's checks for \"{evidence}\", but there are none: set verify.checks in provost.toml, or pass --check COMMAND"
    )]
    NoChecks { looped: String, evidence: String },
    #[error(
        "the loop \"{looped}\" runs a command for \"{evidence}\" that only the project knows: set loops.{looped}.evidence.{evidence} = \"verified:COMMAND\" in provost.toml"
    )]
    NoCommand { looped: String, evidence: String },
    #[error("the loop \"{looped}\" cannot be used: {why}")]
    Bad { looped: String, why: LoopTemplateError },
}

/// The reason why a text does not describe valid evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceSpecError {
    #[error("{0:?} is not valid evidence: expected {EVIDENCE_FORMS}")]
    NoForm(String),
    #[error(
        "{0:?} is not a valid evidence name: expected 1 to {MAX_EVIDENCE_NAME} letters, digits, \"-\" or \"_\""
    )]
    Name(String),
    #[error("{given:?} is not a valid proof: expected {}", PROOF_FORMS.join(", "))]
    Kind { given: String },
    #[error("\"verified:\" has no command; omit the colon to use the project's checks")]
    NoCommand,
    #[error(
        "\"artifact:\" has no fields: expected comma-separated names, as in artifact:version,notes"
    )]
    NoFields,
    #[error(
        "{0:?} is not a valid artifact field: expected 1 to {MAX_EVIDENCE_NAME} letters, digits, \"-\" or \"_\""
    )]
    Field(String),
    #[error(
        "{0:?} is not a valid share of pixels: expected 0 to {WHOLE} millionths, as in pictures:1000"
    )]
    Points(String),
    #[error(
        "{0:?} does not name two pictures: expected pictures:MILLIONTHS:EXPECTED:ACTUAL, optionally followed by a tolerance of 0 to 0.5"
    )]
    Pictures(String),
    #[error(transparent)]
    Files(#[from] PictureFilesError),
}

/// The kinds of proof, as users write them.
const PROOF_FORMS: [&str; 5] = [
    "verified[:COMMAND]",
    "asserted",
    "challenge",
    "artifact:FIELD,FIELD",
    "pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]",
];

/// Parses the proof for a piece of evidence: `verified:cargo test`, `asserted`, `challenge`,
/// `artifact:a,b`, `pictures:10`.
impl FromStr for EvidenceSpec {
    type Err = EvidenceSpecError;

    fn from_str(text: &str) -> Result<Self, EvidenceSpecError> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind.trim(), Some(rest.trim())),
            None => (text.trim(), None),
        };
        Ok(match (kind, rest) {
            ("verified", None) => EvidenceSpec::Checks,
            ("verified", Some("")) => return Err(EvidenceSpecError::NoCommand),
            ("verified", Some(check)) => {
                EvidenceSpec::Proof(LoopProof::Verified { check: check.to_owned() })
            }
            ("asserted", None) => EvidenceSpec::Proof(LoopProof::Asserted),
            ("challenge", None) => EvidenceSpec::Proof(LoopProof::Adversarial),
            ("artifact", Some(fields)) => EvidenceSpec::Proof(parse_artifact(fields)?),
            ("artifact", None) => return Err(EvidenceSpecError::NoFields),
            ("pictures", share) => EvidenceSpec::Proof(parse_pictures(share.unwrap_or_default())?),
            _ => return Err(EvidenceSpecError::Kind { given: text.to_owned() }),
        })
    }
}

/// Formats the evidence in the form that `FromStr` parses.
impl fmt::Display for EvidenceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvidenceSpec::Checks => f.write_str("verified"),
            EvidenceSpec::Unknown => f.write_str("verified:COMMAND"),
            EvidenceSpec::Proof(proof) => proof.fmt(f),
        }
    }
}

impl fmt::Display for LoopProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopProof::Verified { check } => write!(f, "verified:{check}"),
            LoopProof::Asserted => f.write_str("asserted"),
            LoopProof::Adversarial => f.write_str("challenge"),
            LoopProof::Artifact { fields } => write!(f, "artifact:{}", fields.join(",")),
            LoopProof::Pictures { differing, files: None } => write!(f, "pictures:{differing}"),
            LoopProof::Pictures { differing, files: Some(files) } => {
                let PictureFiles { expected, actual, tolerance } = files;
                write!(f, "pictures:{differing}:{expected}:{actual}")?;
                match tolerance {
                    0 => Ok(()),
                    tolerance => write!(f, ":{}", format_share(*tolerance)),
                }
            }
        }
    }
}

fn parse_artifact(fields: &str) -> Result<LoopProof, EvidenceSpecError> {
    let fields: Vec<String> = fields.split(',').map(|field| field.trim().to_owned()).collect();
    if fields.iter().all(String::is_empty) {
        return Err(EvidenceSpecError::NoFields);
    }
    match fields.iter().find(|field| !is_valid_name(field)) {
        Some(bad) => Err(EvidenceSpecError::Field(bad.clone())),
        None => Ok(LoopProof::Artifact { fields }),
    }
}

fn parse_pictures(text: &str) -> Result<LoopProof, EvidenceSpecError> {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let points = parts.first().copied().unwrap_or_default();
    let digits = points.bytes().all(|byte| byte.is_ascii_digit());
    let differing = points.parse().ok().filter(|points| digits && *points <= WHOLE);
    let differing = differing.ok_or_else(|| EvidenceSpecError::Points(points.to_owned()))?;
    let files = |expected: &str, actual: &str, tolerance| {
        let (expected, actual) = (expected.to_owned(), actual.to_owned());
        let files = PictureFiles { expected, actual, tolerance };
        files.validate()?;
        Ok::<_, EvidenceSpecError>(Some(files))
    };
    let bad = || EvidenceSpecError::Pictures(text.to_owned());
    let files = match parts[..] {
        [_] => None,
        [_, expected, actual] => files(expected, actual, 0)?,
        [_, expected, actual, tolerance] => {
            let tolerance = parse_share(tolerance, MAX_TOLERANCE).ok_or_else(bad)?;
            files(expected, actual, tolerance)?
        }
        _ => return Err(bad()),
    };
    Ok(LoopProof::Pictures { differing, files })
}

/// Whether a text is a valid name for a piece of evidence or a field.
pub fn is_valid_name(name: &str) -> bool {
    (1..=MAX_EVIDENCE_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !name.starts_with('-')
}

/// Parses evidence with its name, such as `tests=verified:cargo test` or `notes=asserted`, or one
/// of the words `checks` and `challenge`.
pub fn parse_evidence(text: &str) -> Result<(String, EvidenceSpec), EvidenceSpecError> {
    match text.split_once('=') {
        Some((name, _)) if !is_valid_name(name.trim()) => {
            Err(EvidenceSpecError::Name(name.to_owned()))
        }
        Some((name, proof)) => Ok((name.trim().to_owned(), proof.parse()?)),
        None => match text.trim() {
            name @ "checks" => Ok((name.to_owned(), EvidenceSpec::Checks)),
            name @ "challenge" => {
                Ok((name.to_owned(), EvidenceSpec::Proof(LoopProof::Adversarial)))
            }
            _ => Err(EvidenceSpecError::NoForm(text.to_owned())),
        },
    }
}

/// Builds a loop from the evidence that each iteration must submit.
pub fn outline_from_evidence<'t>(
    texts: impl IntoIterator<Item = &'t str>,
) -> Result<LoopOutline, EvidenceSpecError> {
    let evidence = texts.into_iter().map(parse_evidence).collect::<Result<_, _>>()?;
    Ok(LoopOutline {
        evidence,
        ..LoopOutline::empty(REQUIRED_LOOP, "the evidence named by --require")
    })
}

/// Adds an adversarial proof, unless the loop already requires one.
pub fn with_adversarial_proof(mut template: LoopTemplate) -> LoopTemplate {
    let asked = template.evidence.iter().any(|required| required.proof == LoopProof::Adversarial);
    if !asked {
        let taken = |name: &str| template.evidence.iter().any(|required| required.name == name);
        let name = if taken("challenge") { "adversarial" } else { "challenge" };
        template
            .evidence
            .push(LoopRequirement { name: name.to_owned(), proof: LoopProof::Adversarial });
    }
    template
}

impl LoopOutline {
    /// Returns a loop that requires no evidence yet.
    pub fn empty(name: &str, means: &str) -> LoopOutline {
        LoopOutline {
            name: name.to_owned(),
            means: means.to_owned(),
            max: DEFAULT_ITERATIONS,
            evidence: Vec::new(),
            clean_up: CleanUp::Keep,
            plateau: Some(DEFAULT_PLATEAU),
            tokens: None,
            tools: Vec::new(),
        }
    }

    /// Adds a piece of evidence, replacing an existing one with the same name.
    pub fn with_evidence(mut self, name: &str, wanted: EvidenceSpec) -> LoopOutline {
        match self.evidence.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = wanted,
            None => self.evidence.push((name.to_owned(), wanted)),
        }
        self
    }

    /// Fills in the project's checks. Fails if a command is unknown.
    pub fn fill_checks(&self, checks: &[String]) -> Result<LoopTemplate, OutlineError> {
        let mut evidence = Vec::new();
        for (name, wanted) in &self.evidence {
            let (looped, named) = (self.name.clone(), name.clone());
            match wanted {
                EvidenceSpec::Proof(proof) => {
                    evidence.push(LoopRequirement { name: named, proof: proof.clone() });
                }
                EvidenceSpec::Checks if checks.is_empty() => {
                    return Err(OutlineError::NoChecks { looped, evidence: named });
                }
                EvidenceSpec::Checks => evidence.extend(evidence_per_check(name, checks)),
                EvidenceSpec::Unknown => {
                    return Err(OutlineError::NoCommand { looped, evidence: named });
                }
            }
        }
        let template = LoopTemplate {
            name: self.name.clone(),
            max: self.max,
            evidence,
            clean_up: self.clean_up,
            plateau: self.plateau,
            tokens: self.tokens,
            tools: self.tools.clone(),
        };
        match template.validate() {
            Ok(()) => Ok(template),
            Err(why) => Err(OutlineError::Bad { looped: self.name.clone(), why }),
        }
    }
}

/// Returns one piece of evidence per command. The first one gets the plain name, and the others get
/// a numbered suffix.
fn evidence_per_check<'c>(
    name: &'c str,
    checks: &'c [String],
) -> impl Iterator<Item = LoopRequirement> + 'c {
    checks.iter().enumerate().map(move |(at, check)| {
        let name = if at == 0 { name.to_owned() } else { format!("{name}-{}", at + 1) };
        LoopRequirement { name, proof: LoopProof::Verified { check: check.clone() } }
    })
}

/// The loops that need no configuration.
pub const BUILT_IN: [&str; 6] =
    ["build", "compact-then-continue", "test-coverage", "visual-diff", "pr-ci-merge", "ship-it"];

/// Returns a built-in loop.
pub fn built_in(name: &str) -> Option<LoopOutline> {
    let fields = |names: &[&str]| {
        let fields = names.iter().map(|name| (*name).to_owned()).collect();
        EvidenceSpec::Proof(LoopProof::Artifact { fields })
    };
    let challenge = || EvidenceSpec::Proof(LoopProof::Adversarial);
    Some(match name {
        "build" => LoopOutline::empty(name, "work that stays green, step by step")
            .with_evidence("checks", EvidenceSpec::Checks)
            .with_evidence(
                "report",
                fields(&["changed_files", "commands", "residual_risk", "next_task"]),
            ),
        "compact-then-continue" => LoopOutline {
            max: 20,
            clean_up: CleanUp::Compact,
            ..LoopOutline::empty(
                name,
                "long work, with the conversation compacted before each step",
            )
        }
        .with_evidence("checks", EvidenceSpec::Checks)
        .with_evidence("handover", fields(&["done", "open", "next_task"])),
        "test-coverage" => LoopOutline {
            max: 15,
            plateau: Some(2),
            ..LoopOutline::empty(
                name,
                "tests for untested code, until the coverage goal is reached",
            )
        }
        .with_evidence("checks", EvidenceSpec::Checks)
        .with_evidence("coverage", EvidenceSpec::Unknown)
        .with_evidence("gaps", fields(&["covered", "uncovered", "next_task"])),
        "visual-diff" => LoopOutline::empty(name, "a screen that must match a picture")
            .with_evidence("checks", EvidenceSpec::Checks)
            .with_evidence(
                "screens",
                EvidenceSpec::Proof(LoopProof::Pictures { differing: 1_000, files: None }),
            )
            .with_evidence("report", fields(&["screen", "difference", "next_task"])),
        "pr-ci-merge" => LoopOutline {
            clean_up: CleanUp::NewThread,
            ..LoopOutline::empty(name, "pull requests, one by one, each merged after its checks")
        }
        .with_evidence("checks", EvidenceSpec::Checks)
        .with_evidence("pull_request", fields(&["url", "branch", "title"]))
        .with_evidence("ci", EvidenceSpec::Unknown)
        .with_evidence("merged", fields(&["commit", "into"])),
        "ship-it" => LoopOutline {
            max: 5,
            plateau: Some(1),
            ..LoopOutline::empty(name, "a release: verified, challenged and reversible")
        }
        .with_evidence("checks", EvidenceSpec::Checks)
        .with_evidence("challenge", challenge())
        .with_evidence("review", EvidenceSpec::Proof(LoopProof::Asserted))
        .with_evidence("release", fields(&["version", "notes", "rollback"])),
        _ => return None,
    })
}
