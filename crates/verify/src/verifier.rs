//! Verifiers that a project declares: a command, a file, a line of one, a field of one.

use std::path::Path;

use regex::{Regex, RegexBuilder};

use crate::{
    bmad::Workflow,
    field::{self, Format},
    key::Key,
    project::{Pattern, Project},
    reason::Reason,
    template::{Braces, Template},
};

/// Maximum size of a compiled line pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A verifier as declared, before validation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    pub file: Option<String>,
    pub matches: Option<String>,
    pub field: Option<String>,
    pub equals: Option<String>,
}

/// A condition to check.
#[derive(Clone, Debug)]
pub enum Verifier {
    /// A workflow of BMAD left the expected status.
    Bmad(Workflow),
    /// The command exits with status 0.
    Command(CommandTemplate),
    /// The file has the expected content.
    File(FileCheck),
}

/// A command with placeholders for the key.
#[derive(Clone, Debug)]
pub struct CommandTemplate(Vec<Template>);

/// A file with placeholders in its name, and its expected content.
#[derive(Clone, Debug)]
pub struct FileCheck {
    file: Template,
    holds: Holds,
}

/// The expected content of a file.
#[derive(Clone, Debug)]
enum Holds {
    /// Any content.
    Anything,
    /// A whole line matches.
    Line(Template),
    /// A field equals this text. Its segments are filled one by one, so that a dot in a key does
    /// not split it.
    Field { segments: Vec<Template>, equals: Template },
}

/// What is wrong with a declared verifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

/// The result of a verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The condition holds, for this reason.
    Verified(String),
    Incomplete(Reason),
}

/// A command to run in the project's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub argv: Vec<String>,
}

/// How a command ended, as reported by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
    /// It was killed because it took too long.
    TimedOut,
    /// It was killed because it wrote too much.
    TooMuchOutput,
    NotStarted(String),
}

/// A command that was run, or could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    pub ended: Ended,
    /// The end of its output.
    pub said: String,
}

impl Declared {
    /// Validates the declaration and returns the verifier.
    pub fn verifier(&self) -> Result<Verifier, Fault> {
        match (&self.command, &self.file) {
            (Some(_), Some(_)) => fault("it has both a command and a file; use one of them"),
            (None, None) => fault("it has neither a command nor a file"),
            (Some(argv), None) => self.of_command(argv),
            (None, Some(file)) => self.of_file(file),
        }
    }

    fn of_command(&self, argv: &[String]) -> Result<Verifier, Fault> {
        if self.matches.is_some() || self.field.is_some() || self.equals.is_some() {
            return fault("matches, field and equals require a file, but it has a command");
        }
        // Braces also belong to shells, awk and jq.
        let words = argv.iter().map(|word| template(word, Braces::Free));
        Ok(Verifier::Command(CommandTemplate(words.collect::<Result<_, _>>()?)))
    }

    fn of_file(&self, file: &str) -> Result<Verifier, Fault> {
        Pattern::new(file).map_err(Fault)?;
        let holds = match (&self.matches, &self.field, &self.equals) {
            (None, None, None) => Holds::Anything,
            (Some(pattern), None, None) => line_holds(pattern)?,
            (None, Some(field), Some(equals)) => field_holds(file, field, equals)?,
            (Some(_), _, _) => return fault("matches cannot be combined with field or equals"),
            (None, Some(_), None) => return fault("it has a field but no equals"),
            (None, None, Some(_)) => return fault("it has equals but no field"),
        };
        Ok(Verifier::File(FileCheck { file: template(file, Braces::Strict)?, holds }))
    }
}

/// Checks that a pattern is valid with a sample key. The characters of any key match literally.
fn line_holds(pattern: &str) -> Result<Holds, Fault> {
    let template = template(pattern, Braces::Free)?;
    let sample = Key::parse("1-2").map_err(|why| Fault(why.to_string()))?;
    let filled = template.fill(&sample, regex::escape).map_err(|why| Fault(why.to_string()))?;
    line_pattern(&filled).map_err(Fault)?;
    Ok(Holds::Line(template))
}

fn field_holds(file: &str, field: &str, equals: &str) -> Result<Holds, Fault> {
    if Format::of(Path::new(file)).is_none() {
        return fault("a field needs a file that ends in .yaml, .yml, .json, .toml or .md");
    }
    if field.split('.').any(str::is_empty) {
        return fault("the field has an empty part; expected names with dots between them");
    }
    let segments = field.split('.').map(|part| template(part, Braces::Strict));
    let segments = segments.collect::<Result<_, _>>()?;
    Ok(Holds::Field { segments, equals: template(equals, Braces::Strict)? })
}

fn template(text: &str, braces: Braces) -> Result<Template, Fault> {
    Template::new(text, braces).map_err(Fault)
}

fn fault<T>(text: &str) -> Result<T, Fault> {
    Err(Fault(text.to_owned()))
}

impl Verifier {
    /// Checks that a key has the required form, before anything is read.
    pub fn fits(&self, key: &Key) -> Result<(), Reason> {
        match self {
            Self::Bmad(workflow) => workflow.fits(key),
            Self::Command(command) => command.program(key).map(drop),
            Self::File(FileCheck { file, holds }) => {
                let inside = match holds {
                    Holds::Anything => Vec::new(),
                    Holds::Line(pattern) => vec![pattern],
                    Holds::Field { segments, equals } => segments.iter().chain([equals]).collect(),
                };
                let mut all = std::iter::once(file).chain(inside);
                all.try_for_each(|template| template.fill(key, str::to_owned).map(drop))
            }
        }
    }

    /// Checks the condition in a directory. `run` executes commands.
    pub fn check(&self, project: &Path, key: &Key, run: impl FnOnce(&Program) -> Ran) -> Verdict {
        let found = match self {
            Self::Bmad(workflow) => {
                Project::open(project).and_then(|project| workflow.check(&project, key))
            }
            Self::Command(command) => command.check(key, run),
            Self::File(file) => {
                Project::open(project).and_then(|project| file.check(&project, key))
            }
        };
        found.map_or_else(Verdict::Incomplete, Verdict::Verified)
    }
}

impl CommandTemplate {
    fn program(&self, key: &Key) -> Result<Program, Reason> {
        let words = self.0.iter().map(|word| word.fill(key, str::to_owned));
        Ok(Program { argv: words.collect::<Result<_, _>>()? })
    }

    fn check(&self, key: &Key, run: impl FnOnce(&Program) -> Ran) -> Result<String, Reason> {
        let Ran { ended, said } = run(&self.program(key)?);
        let how = match ended {
            Ended::Code(0) => return Ok("the command ended with exit status 0".to_owned()),
            Ended::Code(code) => format!("ended with exit status {code}"),
            Ended::Signal(signal) => format!("was ended by signal {signal}"),
            Ended::TimedOut => "took too long and was killed".to_owned(),
            Ended::TooMuchOutput => "wrote too much and was killed".to_owned(),
            Ended::NotStarted(why) => return Err(Reason::CommandNotRun { why }),
        };
        Err(Reason::CommandEnded { how, said })
    }
}

impl FileCheck {
    fn check(&self, project: &Project, key: &Key) -> Result<String, Reason> {
        let filled = self.file.fill(key, str::to_owned)?;
        let pattern = Pattern::new(&filled).map_err(|_| Reason::NoFile { path: filled.clone() })?;
        let path = project.one(&[pattern])?;
        match &self.holds {
            Holds::Anything => {
                project.is_file(&path).map(|()| format!("there is {}", path.display()))
            }
            Holds::Line(pattern) => line(project, &path, pattern, key),
            Holds::Field { segments, equals } => {
                let filled = segments.iter().map(|segment| segment.fill(key, str::to_owned));
                let segments: Vec<String> = filled.collect::<Result<_, _>>()?;
                same(project, &path, &segments, &equals.fill(key, str::to_owned)?)
            }
        }
    }
}

fn line(project: &Project, path: &Path, pattern: &Template, key: &Key) -> Result<String, Reason> {
    let read = project.read(path)?;
    let filled = pattern.fill(key, regex::escape)?;
    let no_line = || Reason::NoLine { path: read.path.clone(), pattern: filled.clone() };
    let compiled = line_pattern(&filled).map_err(|_| no_line())?;
    let at = read.text.lines().position(|line| compiled.is_match(line)).ok_or_else(no_line)?;
    Ok(format!("line {} of {} matches", at + 1, read.path))
}

/// Compiles a pattern that has to match a whole line.
fn line_pattern(pattern: &str) -> Result<Regex, String> {
    let build = |text: &str| RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).build();
    // First by itself: an invalid pattern must not become valid through the text around it.
    let whole = build(pattern).and_then(|_| build(&format!("^(?:{pattern})$")));
    whole.map_err(|why| format!("{pattern:?} is not a valid pattern: {why}"))
}

fn same(
    project: &Project,
    path: &Path,
    segments: &[String],
    equals: &str,
) -> Result<String, Reason> {
    let read = project.read(path)?;
    let format = Format::of(path).ok_or_else(|| Reason::Malformed {
        path: read.path.clone(),
        why: "its format is unknown".to_owned(),
    })?;
    let (value, name) = (format.parse(&read)?, segments.join("."));
    let found = field::text_of(field::find(&value, segments, &read.path)?);
    let (path, field) = (read.path, name);
    match found {
        None => Err(Reason::NotText { path, field }),
        Some(found) if found == equals => Ok(format!("{field} of {path} is {found:?}")),
        Some(found) => Err(Reason::Differs { path, field, expected: format!("{equals:?}"), found }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn declared(pairs: &[(&str, &str)]) -> Declared {
        let get = |name: &str| {
            let found = pairs.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let command = get("command").map(|line| vec!["sh".into(), "-c".into(), line]);
        let (file, matches) = (get("file"), get("matches"));
        Declared { command, file, matches, field: get("field"), equals: get("equals") }
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
        match verifier.check(dir.path(), &Key::parse(key).unwrap(), |_| ran(Ended::Code(1))) {
            Verdict::Verified(because) => Ok(because),
            Verdict::Incomplete(reason) => Err(reason.word()),
        }
    }

    fn ran(ended: Ended) -> Ran {
        Ran { ended, said: "no such line".to_owned() }
    }

    #[test]
    fn only_whole_verifiers_are_taken() {
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
    fn a_file_that_is_there_is_enough_if_nothing_else_is_asked() {
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
    fn a_field_equals_or_it_does_not() {
        let verifier = [("file", "s.yaml"), ("field", "status.{key}"), ("equals", "done")];
        let with = |text: &str| check(&[("s.yaml", text)], &verifier, "1.2");
        assert!(with("status: {'1.2': done}").is_ok());
        assert_eq!(with("status: {'1.2': Done}"), Err("differs"));
        assert_eq!(with("status: {'1.2': [done]}"), Err("not_a_text"));
        assert_eq!(with("status: {'1.20': done}"), Err("no_field"));
        assert_eq!(with("status: ["), Err("malformed"));
    }

    #[test]
    fn a_command_says_it_by_its_exit_status_alone() {
        let verifier = declared(&[("command", "grep {key} list")]).verifier().unwrap();
        let key = Key::parse("1-2").unwrap();
        let run = |ended: Ended| {
            verifier.check(Path::new("/"), &key, |program| {
                assert_eq!(program.argv, ["sh", "-c", "grep 1-2 list"]);
                ran(ended)
            })
        };
        assert!(matches!(run(Ended::Code(0)), Verdict::Verified(_)));
        let others = [Ended::Code(1), Ended::Signal(9), Ended::TimedOut, Ended::TooMuchOutput];
        for ended in others.into_iter().chain([Ended::NotStarted("gone".into())]) {
            assert!(matches!(run(ended.clone()), Verdict::Incomplete(_)), "{ended:?}");
        }
        // The output is reported beside the reason, which stays the same across attempts.
        let Verdict::Incomplete(reason) = run(Ended::Code(1)) else { panic!("it failed") };
        assert_eq!(reason.said(), Some("no such line"));
        assert_eq!(reason.to_string(), "the command ended with exit status 1");
    }

    #[test]
    fn a_key_that_cannot_fit_is_known_before_anything_is_looked_at() {
        let fits =
            |verifier: &Verifier, key: &str| verifier.fits(&Key::parse(key).unwrap()).is_ok();
        let story = Verifier::Bmad(Workflow::Review);
        assert!(fits(&story, "1-2") && !fits(&story, "PAY-7"));
        let retro = Verifier::Bmad(Workflow::Retro);
        assert!(fits(&retro, "epic-3") && !fits(&retro, "x"));
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
