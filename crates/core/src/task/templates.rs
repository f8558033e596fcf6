//! Built-in loops, and loops built from named evidence.
//!
//! A loop's evidence is known before its commands are. An [`Outline`] becomes a [`Template`] when
//! the project's checks are filled in. A loop with an unknown command does not begin.

use std::{fmt, str::FromStr};

use super::{
    gate::{BadTemplate, CleanUp, Proof, Required, Template},
    pictures::{BadFiles, Files, MAX_TOLERANCE, WHOLE, read_share, share},
};

/// The name of the loop built from `--require`.
pub const REQUIRED: &str = "required";

/// Longest name of a piece of evidence, and of a field of an artifact.
pub const MAX_EVIDENCE_NAME: usize = 64;

/// Default number of iterations of a loop.
pub const DEFAULT_ITERATIONS: u32 = 10;

/// Default number of consecutive iterations that may change nothing.
const DEFAULT_PLATEAU: u32 = 3;

/// The accepted forms in one line, for messages and help.
pub const FORMS: &str = "\"checks\", \"attack\", NAME=verified, NAME=verified:COMMAND, NAME=asserted, NAME=attack, NAME=artifact:FIELD,FIELD or NAME=pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]";

/// Required evidence, with the commands known so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Each of the project's own checks, with a receipt of its own.
    Checks,
    /// A command that only the project knows.
    Unknown,
    Proof(Proof),
}

/// A loop whose commands may still be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    pub name: String,
    /// Its purpose, in one line.
    pub means: String,
    pub max: u32,
    pub evidence: Vec<(String, Wanted)>,
    pub clean_up: CleanUp,
    pub plateau: Option<u32>,
    pub tokens: Option<u64>,
    pub tools: Vec<String>,
}

/// Why an outline cannot become a template yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfilled {
    #[error(
        "the loop \"{looped}\" runs the project's checks for \"{evidence}\", but there are none: set verify.checks in provost.toml, or give --check COMMAND"
    )]
    NoChecks { looped: String, evidence: String },
    #[error(
        "the loop \"{looped}\" runs a command for \"{evidence}\" that only the project knows: set loops.{looped}.evidence.{evidence} = \"verified:COMMAND\" in provost.toml"
    )]
    NoCommand { looped: String, evidence: String },
    #[error("the loop \"{looped}\" cannot be used: {why}")]
    Bad { looped: String, why: BadTemplate },
}

/// Why a text is not valid evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEvidence {
    #[error("{0:?} is not valid evidence: expected {FORMS}")]
    NoForm(String),
    #[error(
        "{0:?} is not a valid evidence name: expected 1 to {MAX_EVIDENCE_NAME} letters, digits, \"-\" or \"_\""
    )]
    Name(String),
    #[error("{given:?} is not a valid proof: expected {}", KINDS.join(", "))]
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
        "{0:?} is not a valid share of points: expected 0 to {WHOLE} millionths, as in pictures:1000"
    )]
    Points(String),
    #[error(
        "{0:?} does not name two pictures: expected pictures:MILLIONTHS:EXPECTED:ACTUAL, optionally followed by a tolerance of 0 to 0.5"
    )]
    Pictures(String),
    #[error(transparent)]
    Files(#[from] BadFiles),
}

/// The kinds of proof as they are written.
const KINDS: [&str; 5] = [
    "verified[:COMMAND]",
    "asserted",
    "attack",
    "artifact:FIELD,FIELD",
    "pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]",
];

/// Parses the proof of a piece of evidence: `verified:cargo test`, `asserted`, `attack`,
/// `artifact:a,b`, `pictures:10`.
impl FromStr for Wanted {
    type Err = BadEvidence;

    fn from_str(text: &str) -> Result<Self, BadEvidence> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind.trim(), Some(rest.trim())),
            None => (text.trim(), None),
        };
        Ok(match (kind, rest) {
            ("verified", None) => Wanted::Checks,
            ("verified", Some("")) => return Err(BadEvidence::NoCommand),
            ("verified", Some(check)) => Wanted::Proof(Proof::Verified { check: check.to_owned() }),
            ("asserted", None) => Wanted::Proof(Proof::Asserted),
            ("attack", None) => Wanted::Proof(Proof::Adversarial),
            ("artifact", Some(fields)) => Wanted::Proof(artifact(fields)?),
            ("artifact", None) => return Err(BadEvidence::NoFields),
            ("pictures", share) => Wanted::Proof(pictures(share.unwrap_or_default())?),
            _ => return Err(BadEvidence::Kind { given: text.to_owned() }),
        })
    }
}

/// Formats it as it is parsed.
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Checks => f.write_str("verified"),
            Wanted::Unknown => f.write_str("verified:COMMAND"),
            Wanted::Proof(proof) => proof.fmt(f),
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proof::Verified { check } => write!(f, "verified:{check}"),
            Proof::Asserted => f.write_str("asserted"),
            Proof::Adversarial => f.write_str("attack"),
            Proof::Artifact { fields } => write!(f, "artifact:{}", fields.join(",")),
            Proof::Pictures { differing, files: None } => write!(f, "pictures:{differing}"),
            Proof::Pictures { differing, files: Some(files) } => {
                let Files { expected, actual, tolerance } = files;
                write!(f, "pictures:{differing}:{expected}:{actual}")?;
                match tolerance {
                    0 => Ok(()),
                    tolerance => write!(f, ":{}", share(*tolerance)),
                }
            }
        }
    }
}

fn artifact(fields: &str) -> Result<Proof, BadEvidence> {
    let fields: Vec<String> = fields.split(',').map(|field| field.trim().to_owned()).collect();
    if fields.iter().all(String::is_empty) {
        return Err(BadEvidence::NoFields);
    }
    match fields.iter().find(|field| !is_name(field)) {
        Some(bad) => Err(BadEvidence::Field(bad.clone())),
        None => Ok(Proof::Artifact { fields }),
    }
}

fn pictures(text: &str) -> Result<Proof, BadEvidence> {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let points = parts.first().copied().unwrap_or_default();
    let digits = points.bytes().all(|byte| byte.is_ascii_digit());
    let differing = points.parse().ok().filter(|points| digits && *points <= WHOLE);
    let differing = differing.ok_or_else(|| BadEvidence::Points(points.to_owned()))?;
    let files = |expected: &str, actual: &str, tolerance| {
        let (expected, actual) = (expected.to_owned(), actual.to_owned());
        let files = Files { expected, actual, tolerance };
        files.check()?;
        Ok::<_, BadEvidence>(Some(files))
    };
    let bad = || BadEvidence::Pictures(text.to_owned());
    let files = match parts[..] {
        [_] => None,
        [_, expected, actual] => files(expected, actual, 0)?,
        [_, expected, actual, tolerance] => {
            let tolerance = read_share(tolerance, MAX_TOLERANCE).ok_or_else(bad)?;
            files(expected, actual, tolerance)?
        }
        _ => return Err(bad()),
    };
    Ok(Proof::Pictures { differing, files })
}

/// Whether a text is a valid name of a piece of evidence or of a field.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_EVIDENCE_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !name.starts_with('-')
}

/// Parses evidence with its name: `tests=verified:cargo test`, `notes=asserted`, or `checks` and
/// `attack` alone.
pub fn evidence(text: &str) -> Result<(String, Wanted), BadEvidence> {
    match text.split_once('=') {
        Some((name, _)) if !is_name(name.trim()) => Err(BadEvidence::Name(name.to_owned())),
        Some((name, proof)) => Ok((name.trim().to_owned(), proof.parse()?)),
        None => match text.trim() {
            name @ "checks" => Ok((name.to_owned(), Wanted::Checks)),
            name @ "attack" => Ok((name.to_owned(), Wanted::Proof(Proof::Adversarial))),
            _ => Err(BadEvidence::NoForm(text.to_owned())),
        },
    }
}

/// Builds a loop from the evidence that each iteration has to show.
pub fn require<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Outline, BadEvidence> {
    let evidence = texts.into_iter().map(evidence).collect::<Result<_, _>>()?;
    Ok(Outline { evidence, ..Outline::empty(REQUIRED, "the evidence named by --require") })
}

/// Adds an adversarial proof, unless the loop requires one already.
pub fn adversarial(mut template: Template) -> Template {
    let asked = template.evidence.iter().any(|required| required.proof == Proof::Adversarial);
    if !asked {
        let taken = |name: &str| template.evidence.iter().any(|required| required.name == name);
        let name = if taken("attack") { "adversarial" } else { "attack" };
        template.evidence.push(Required { name: name.to_owned(), proof: Proof::Adversarial });
    }
    template
}

impl Outline {
    /// Returns a loop without evidence.
    pub fn empty(name: &str, means: &str) -> Outline {
        Outline {
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

    /// Adds a piece of evidence, replacing one of the same name.
    pub fn asking(mut self, name: &str, wanted: Wanted) -> Outline {
        match self.evidence.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = wanted,
            None => self.evidence.push((name.to_owned(), wanted)),
        }
        self
    }

    /// Fills in the project's checks. Fails if a command is unknown.
    pub fn fill(&self, checks: &[String]) -> Result<Template, Unfilled> {
        let mut evidence = Vec::new();
        for (name, wanted) in &self.evidence {
            let (looped, named) = (self.name.clone(), name.clone());
            match wanted {
                Wanted::Proof(proof) => {
                    evidence.push(Required { name: named, proof: proof.clone() });
                }
                Wanted::Checks if checks.is_empty() => {
                    return Err(Unfilled::NoChecks { looped, evidence: named });
                }
                Wanted::Checks => evidence.extend(each(name, checks)),
                Wanted::Unknown => return Err(Unfilled::NoCommand { looped, evidence: named }),
            }
        }
        let template = Template {
            name: self.name.clone(),
            max: self.max,
            evidence,
            clean_up: self.clean_up,
            plateau: self.plateau,
            tokens: self.tokens,
            tools: self.tools.clone(),
        };
        match template.check() {
            Ok(()) => Ok(template),
            Err(why) => Err(Unfilled::Bad { looped: self.name.clone(), why }),
        }
    }
}

/// Returns one piece of evidence per command: the first has the name, the others a numbered suffix.
fn each<'c>(name: &'c str, checks: &'c [String]) -> impl Iterator<Item = Required> + 'c {
    checks.iter().enumerate().map(move |(at, check)| {
        let name = if at == 0 { name.to_owned() } else { format!("{name}-{}", at + 1) };
        Required { name, proof: Proof::Verified { check: check.clone() } }
    })
}

/// The loops that need no configuration.
pub const BUILT_IN: [&str; 6] =
    ["build", "compact-then-continue", "test-coverage", "visual-diff", "pr-ci-merge", "ship-it"];

/// Returns a built-in loop.
pub fn built_in(name: &str) -> Option<Outline> {
    let fields = |names: &[&str]| {
        let fields = names.iter().map(|name| (*name).to_owned()).collect();
        Wanted::Proof(Proof::Artifact { fields })
    };
    let attack = || Wanted::Proof(Proof::Adversarial);
    Some(match name {
        "build" => Outline::empty(name, "work that stays green, step by step")
            .asking("checks", Wanted::Checks)
            .asking("report", fields(&["changed_files", "commands", "residual_risk", "next_task"])),
        "compact-then-continue" => Outline {
            max: 20,
            clean_up: CleanUp::Compact,
            ..Outline::empty(name, "long work, with the conversation compacted before each step")
        }
        .asking("checks", Wanted::Checks)
        .asking("handover", fields(&["done", "open", "next_task"])),
        "test-coverage" => Outline {
            max: 15,
            plateau: Some(2),
            ..Outline::empty(name, "tests for untested code, until the coverage goal is reached")
        }
        .asking("checks", Wanted::Checks)
        .asking("coverage", Wanted::Unknown)
        .asking("gaps", fields(&["covered", "uncovered", "next_task"])),
        "visual-diff" => Outline::empty(name, "a screen that must match a picture")
            .asking("checks", Wanted::Checks)
            .asking("screens", Wanted::Proof(Proof::Pictures { differing: 1_000, files: None }))
            .asking("report", fields(&["screen", "difference", "next_task"])),
        "pr-ci-merge" => Outline {
            clean_up: CleanUp::NewThread,
            ..Outline::empty(name, "one pull request after the other, each through its checks")
        }
        .asking("checks", Wanted::Checks)
        .asking("pull_request", fields(&["url", "branch", "title"]))
        .asking("ci", Wanted::Unknown)
        .asking("merged", fields(&["commit", "into"])),
        "ship-it" => Outline {
            max: 5,
            plateau: Some(1),
            ..Outline::empty(name, "a release: proved, attacked, and with a way back")
        }
        .asking("checks", Wanted::Checks)
        .asking("attack", attack())
        .asking("review", Wanted::Proof(Proof::Asserted))
        .asking("release", fields(&["version", "notes", "rollback"])),
        _ => return None,
    })
}
