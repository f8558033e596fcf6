//! Verifiers that a project declares. They check the exit status of a command, or the existence, a
//! line or a field of a file.

use std::{fmt, path::Path, sync::Arc};

use regex::{Regex, RegexBuilder};

use crate::{
    field::{self, FileFormat},
    key::WorkKey,
    project::{FilePattern, ProjectDir},
    reason::UnverifiedReason,
    template::{BraceMode, KeyTemplate},
};

/// Maximum size of a compiled line pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A verifier as declared, not yet validated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifierSpec {
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    pub file: Option<String>,
    pub matches: Option<String>,
    pub field: Option<String>,
    pub equals: Option<String>,
}

/// A verifier of a workflow that is known in advance.
pub trait WorkflowVerifier: fmt::Debug + Send + Sync {
    /// Checks that a key has the form that the workflow requires.
    fn check_key(&self, key: &WorkKey) -> Result<(), UnverifiedReason>;

    /// Checks whether the workflow completed. Returns a description of the evidence.
    fn check(&self, project: &ProjectDir, key: &WorkKey) -> Result<String, UnverifiedReason>;
}

/// A condition that a verifier checks.
#[derive(Clone, Debug)]
pub enum Verifier {
    /// A workflow that is known in advance has completed.
    Workflow(Arc<dyn WorkflowVerifier>),
    /// The command exits with status 0.
    Command(CommandTemplate),
    /// The file has the expected content.
    File(FileCheck),
}

/// A command with placeholders for the key.
#[derive(Clone, Debug)]
pub struct CommandTemplate(Vec<KeyTemplate>);

/// A file whose name may contain placeholders, and its expected content.
#[derive(Clone, Debug)]
pub struct FileCheck {
    file: KeyTemplate,
    holds: FileCondition,
}

/// The expected content of a file.
#[derive(Clone, Debug)]
enum FileCondition {
    /// The file may have any content.
    Anything,
    /// A whole line matches this pattern.
    Line(KeyTemplate),
    /// A field equals this text. The placeholders in each segment are replaced separately, so that
    /// a dot in a key does not split the segment.
    Field { segments: Vec<KeyTemplate>, equals: KeyTemplate },
}

/// The error for an invalid verifier declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VerifierFault(String);

/// The verdict of a verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifierVerdict {
    /// The condition holds. The text describes the evidence.
    Verified(String),
    Incomplete(UnverifiedReason),
}

/// A command to run in the project's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierProgram {
    pub argv: Vec<String>,
}

/// The way a command ended, according to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramExit {
    Code(i32),
    Signal(i32),
    /// The command was killed because it took too long.
    TimedOut,
    /// The command was killed because it printed too much.
    TooMuchOutput,
    NotStarted(String),
}

/// The result of a command that was run or could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRun {
    pub ended: ProgramExit,
    /// The last part of the command's output.
    pub output: String,
}

impl VerifierSpec {
    /// Validates the declaration and returns the verifier.
    pub fn verifier(&self) -> Result<Verifier, VerifierFault> {
        match (&self.command, &self.file) {
            (Some(_), Some(_)) => {
                fault("the verifier has both a command and a file; use one of them")
            }
            (None, None) => fault("the verifier has neither a command nor a file"),
            (Some(argv), None) => self.command_verifier(argv),
            (None, Some(file)) => self.file_verifier(file),
        }
    }

    fn command_verifier(&self, argv: &[String]) -> Result<Verifier, VerifierFault> {
        if self.matches.is_some() || self.field.is_some() || self.equals.is_some() {
            return fault(
                "\"matches\", \"field\" and \"equals\" require a file, but the verifier has a command",
            );
        }
        // Shells, awk and jq use braces themselves.
        let words = argv.iter().map(|word| template(word, BraceMode::Free));
        Ok(Verifier::Command(CommandTemplate(words.collect::<Result<_, _>>()?)))
    }

    fn file_verifier(&self, file: &str) -> Result<Verifier, VerifierFault> {
        FilePattern::new(file).map_err(VerifierFault)?;
        let holds = match (&self.matches, &self.field, &self.equals) {
            (None, None, None) => FileCondition::Anything,
            (Some(pattern), None, None) => line_holds(pattern)?,
            (None, Some(field), Some(equals)) => field_holds(file, field, equals)?,
            (Some(_), _, _) => {
                return fault("\"matches\" cannot be combined with \"field\" or \"equals\"");
            }
            (None, Some(_), None) => {
                return fault("the verifier has \"field\", which requires \"equals\"");
            }
            (None, None, Some(_)) => {
                return fault("the verifier has \"equals\", which requires \"field\"");
            }
        };
        Ok(Verifier::File(FileCheck { file: template(file, BraceMode::Strict)?, holds }))
    }
}

/// Checks that a pattern is valid by filling in a sample key. Characters in a key always match literally.
fn line_holds(pattern: &str) -> Result<FileCondition, VerifierFault> {
    let template = template(pattern, BraceMode::Free)?;
    let sample = WorkKey::parse("1-2").map_err(|why| VerifierFault(why.to_string()))?;
    let filled =
        template.fill(&sample, regex::escape).map_err(|why| VerifierFault(why.to_string()))?;
    line_pattern(&filled).map_err(VerifierFault)?;
    Ok(FileCondition::Line(template))
}

fn field_holds(file: &str, field: &str, equals: &str) -> Result<FileCondition, VerifierFault> {
    if FileFormat::from_path(Path::new(file)).is_none() {
        return fault("a field needs a file that ends in .yaml, .yml, .json, .toml or .md");
    }
    if field.split('.').any(str::is_empty) {
        return fault("the field has an empty part; expected names with dots between them");
    }
    let segments = field.split('.').map(|part| template(part, BraceMode::Strict));
    let segments = segments.collect::<Result<_, _>>()?;
    Ok(FileCondition::Field { segments, equals: template(equals, BraceMode::Strict)? })
}

fn template(text: &str, braces: BraceMode) -> Result<KeyTemplate, VerifierFault> {
    KeyTemplate::new(text, braces).map_err(VerifierFault)
}

fn fault<T>(text: &str) -> Result<T, VerifierFault> {
    Err(VerifierFault(text.to_owned()))
}

impl Verifier {
    /// Checks that a key has the required form. Called before any file is read.
    pub fn check_key(&self, key: &WorkKey) -> Result<(), UnverifiedReason> {
        match self {
            Self::Workflow(workflow) => workflow.check_key(key),
            Self::Command(command) => command.program(key).map(drop),
            Self::File(FileCheck { file, holds }) => {
                let inside = match holds {
                    FileCondition::Anything => Vec::new(),
                    FileCondition::Line(pattern) => vec![pattern],
                    FileCondition::Field { segments, equals } => {
                        segments.iter().chain([equals]).collect()
                    }
                };
                let mut all = std::iter::once(file).chain(inside);
                all.try_for_each(|template| template.fill(key, str::to_owned).map(drop))
            }
        }
    }

    /// Checks the condition in a directory. `run` is called to execute a command.
    pub fn check(
        &self,
        project: &Path,
        key: &WorkKey,
        run: impl FnOnce(&VerifierProgram) -> CommandRun,
    ) -> VerifierVerdict {
        let found = match self {
            Self::Workflow(workflow) => {
                ProjectDir::open(project).and_then(|project| workflow.check(&project, key))
            }
            Self::Command(command) => command.check(key, run),
            Self::File(file) => {
                ProjectDir::open(project).and_then(|project| file.check(&project, key))
            }
        };
        found.map_or_else(VerifierVerdict::Incomplete, VerifierVerdict::Verified)
    }
}

impl CommandTemplate {
    fn program(&self, key: &WorkKey) -> Result<VerifierProgram, UnverifiedReason> {
        let words = self.0.iter().map(|word| word.fill(key, str::to_owned));
        Ok(VerifierProgram { argv: words.collect::<Result<_, _>>()? })
    }

    fn check(
        &self,
        key: &WorkKey,
        run: impl FnOnce(&VerifierProgram) -> CommandRun,
    ) -> Result<String, UnverifiedReason> {
        let CommandRun { ended, output } = run(&self.program(key)?);
        let how = match ended {
            ProgramExit::Code(0) => return Ok("the command ended with exit status 0".to_owned()),
            ProgramExit::Code(code) => format!("ended with exit status {code}"),
            ProgramExit::Signal(signal) => format!("was ended by signal {signal}"),
            ProgramExit::TimedOut => "took too long and was killed".to_owned(),
            ProgramExit::TooMuchOutput => "printed too much and was killed".to_owned(),
            ProgramExit::NotStarted(why) => return Err(UnverifiedReason::CommandNotRun { why }),
        };
        Err(UnverifiedReason::CommandEnded { how, output })
    }
}

impl FileCheck {
    fn check(&self, project: &ProjectDir, key: &WorkKey) -> Result<String, UnverifiedReason> {
        let filled = self.file.fill(key, str::to_owned)?;
        let pattern = FilePattern::new(&filled)
            .map_err(|_| UnverifiedReason::NoFile { path: filled.clone() })?;
        let path = project.find_one(&[pattern])?;
        match &self.holds {
            FileCondition::Anything => {
                project.is_file(&path).map(|()| format!("{} exists", path.display()))
            }
            FileCondition::Line(pattern) => line(project, &path, pattern, key),
            FileCondition::Field { segments, equals } => {
                let filled = segments.iter().map(|segment| segment.fill(key, str::to_owned));
                let segments: Vec<String> = filled.collect::<Result<_, _>>()?;
                same(project, &path, &segments, &equals.fill(key, str::to_owned)?)
            }
        }
    }
}

fn line(
    project: &ProjectDir,
    path: &Path,
    pattern: &KeyTemplate,
    key: &WorkKey,
) -> Result<String, UnverifiedReason> {
    let read = project.read(path)?;
    let filled = pattern.fill(key, regex::escape)?;
    let no_line = || UnverifiedReason::NoLine { path: read.path.clone(), pattern: filled.clone() };
    let compiled = line_pattern(&filled).map_err(|_| no_line())?;
    let at = read.text.lines().position(|line| compiled.is_match(line)).ok_or_else(no_line)?;
    Ok(format!("line {} of {} matches", at + 1, read.path))
}

/// Compiles a pattern that must match a whole line.
fn line_pattern(pattern: &str) -> Result<Regex, String> {
    let build = |text: &str| RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).build();
    // The pattern is first compiled on its own, because wrapping it must not make an invalid
    // pattern valid.
    let whole = build(pattern).and_then(|_| build(&format!("^(?:{pattern})$")));
    whole.map_err(|why| format!("{pattern:?} is not a valid pattern: {why}"))
}

fn same(
    project: &ProjectDir,
    path: &Path,
    segments: &[String],
    equals: &str,
) -> Result<String, UnverifiedReason> {
    let read = project.read(path)?;
    let format = FileFormat::from_path(path).ok_or_else(|| UnverifiedReason::Malformed {
        path: read.path.clone(),
        why: "the format of the file is unknown".to_owned(),
    })?;
    let (value, name) = (format.parse(&read)?, segments.join("."));
    let found = field::text_of(field::find(&value, segments, &read.path)?);
    let (path, field) = (read.path, name);
    match found {
        None => Err(UnverifiedReason::NotText { path, field }),
        Some(found) if found == equals => Ok(format!("{field} of {path} is {found:?}")),
        Some(found) => {
            Err(UnverifiedReason::Differs { path, field, expected: format!("{equals:?}"), found })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn declared(pairs: &[(&str, &str)]) -> VerifierSpec {
        let get = |name: &str| {
            let found = pairs.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let command = get("command").map(|line| vec!["sh".into(), "-c".into(), line]);
        let (file, matches) = (get("file"), get("matches"));
        VerifierSpec { command, file, matches, field: get("field"), equals: get("equals") }
    }

    fn check(
        files: &[(&str, &str)],
        verifier: &[(&str, &str)],
        key: &str,
    ) -> Result<String, &'static str> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let verifier = declared(verifier).verifier().unwrap();
        match verifier
            .check(dir.path(), &WorkKey::parse(key).unwrap(), |_| ran(ProgramExit::Code(1)))
        {
            VerifierVerdict::Verified(because) => Ok(because),
            VerifierVerdict::Incomplete(reason) => Err(reason.as_str()),
        }
    }

    fn ran(ended: ProgramExit) -> CommandRun {
        CommandRun { ended, output: "no such line".to_owned() }
    }

    #[test]
    fn incomplete_verifier_is_rejected() {
        for good in [
            &[("command", "test -e {key}")][..],
            &[("command", "jq '{a: .b}'")],
            &[("file", "docs/{key}.md")],
            &[("file", "docs/{epic}-{story}-*.md"), ("matches", "Status: done{1,2}")],
            &[("file", "a.yaml"), ("field", "status.{key}"), ("equals", "done")],
        ] {
            assert!(declared(good).verifier().is_ok(), "{good:?}");
        }
        for bad in [
            &[][..],
            &[("command", "true"), ("file", "a")],
            &[("command", "true"), ("equals", "a")],
            &[("file", "../a")],
            &[("file", "{other}.md")],
            &[("file", "a.md"), ("matches", "(")],
            &[("file", "a.md"), ("matches", "a)|(b")],
            &[("file", "a.md"), ("matches", "x"), ("field", "y"), ("equals", "z")],
            &[("file", "a.md"), ("field", "y")],
            &[("file", "a.md"), ("equals", "y")],
            &[("file", "a.txt"), ("field", "y"), ("equals", "z")],
            &[("file", "a.md"), ("field", "y..z"), ("equals", "z")],
        ] {
            assert!(declared(bad).verifier().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn file_verifier_without_condition_needs_file() {
        let verifier = [("file", "out/{key}-*.txt")];
        assert!(check(&[("out/7-a.txt", "")], &verifier, "7").is_ok());
        assert_eq!(check(&[], &verifier, "7"), Err("no_file"));
        assert_eq!(
            check(&[("out/7-a.txt", ""), ("out/7-b.txt", "")], &verifier, "7"),
            Err("several_files")
        );
        assert_eq!(check(&[("out/7-a.txt/x", "")], &verifier, "7"), Err("not_a_file"));
    }

    #[test]
    fn a_line_matches_as_a_whole() {
        let verifier = [("file", "a.md"), ("matches", "Status: (done|{key})")];
        assert!(check(&[("a.md", "# A\r\nStatus: done\r\n")], &verifier, "x").is_ok());
        assert!(check(&[("a.md", "Status: a.b")], &verifier, "a.b").is_ok());
        for text in ["Status: done?", "not Status: done", "Status: donedone", "Status:\ndone", ""] {
            assert_eq!(check(&[("a.md", text)], &verifier, "x"), Err("no_line"), "{text:?}");
        }
        assert_eq!(check(&[("a.md", "Status: aXb")], &verifier, "a.b"), Err("no_line"));
    }

    #[test]
    fn field_must_equal_text() {
        let verifier = [("file", "s.yaml"), ("field", "status.{key}"), ("equals", "done")];
        let with = |text: &str| check(&[("s.yaml", text)], &verifier, "1.2");
        assert!(with("status: {'1.2': done}").is_ok());
        assert_eq!(with("status: {'1.2': Done}"), Err("differs"));
        assert_eq!(with("status: {'1.2': [done]}"), Err("not_a_text"));
        assert_eq!(with("status: {'1.20': done}"), Err("no_field"));
        assert_eq!(with("status: ["), Err("malformed"));
    }

    #[test]
    fn command_is_judged_by_exit_status() {
        let verifier = declared(&[("command", "grep {key} list")]).verifier().unwrap();
        let key = WorkKey::parse("1-2").unwrap();
        let run = |ended: ProgramExit| {
            verifier.check(Path::new("/"), &key, |program| {
                assert_eq!(program.argv, ["sh", "-c", "grep 1-2 list"]);
                ran(ended)
            })
        };
        assert!(matches!(run(ProgramExit::Code(0)), VerifierVerdict::Verified(_)));
        let others = [
            ProgramExit::Code(1),
            ProgramExit::Signal(9),
            ProgramExit::TimedOut,
            ProgramExit::TooMuchOutput,
        ];
        for ended in others.into_iter().chain([ProgramExit::NotStarted("gone".into())]) {
            assert!(matches!(run(ended.clone()), VerifierVerdict::Incomplete(_)), "{ended:?}");
        }
        // The output is reported separately, so that the reason stays the same across attempts.
        let VerifierVerdict::Incomplete(reason) = run(ProgramExit::Code(1)) else {
            panic!("it failed")
        };
        assert_eq!(reason.output(), Some("no such line"));
        assert_eq!(reason.to_string(), "the command ended with exit status 1");
    }

    #[test]
    fn invalid_key_is_rejected_before_reading() {
        let fits = |verifier: &Verifier, key: &str| {
            verifier.check_key(&WorkKey::parse(key).unwrap()).is_ok()
        };
        for pairs in [
            &[("command", "grep {epic} list")][..],
            &[("file", "{story}.md")],
            &[("file", "a.md"), ("matches", "{epic}")],
            &[("file", "a.yaml"), ("field", "a.{epic}"), ("equals", "b")],
            &[("file", "a.yaml"), ("field", "a"), ("equals", "{epic}")],
        ] {
            let verifier = declared(pairs).verifier().unwrap();
            assert!(fits(&verifier, "1.2") && !fits(&verifier, "PAY-7"), "{pairs:?}");
        }
    }
}
