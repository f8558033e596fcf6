//! `provost guide`

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum};
use provost_config::Resolved;
use provost_core::team::templates::OutlineError;
use serde_json::{Value, json};

use super::{
    spawn::{spec::directory, spec_from_config::checks},
    team::loop_templates,
};
use crate::{cli::CliResult, context::Context, settings, ui::Screen};

/// Read how to manage, review or work in a team
///
/// The guides describe this version of the program. The skills installed by `provost skills` refer
/// to them.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost guide\n  provost guide managing\n  provost guide loops --json"
)]
pub(crate) struct GuideArgs {
    /// Topic to read [default: list the topics]
    topic: Option<Topic>,
    /// Directory whose loops are shown [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

impl GuideArgs {
    /// Returns the arguments that show a topic.
    pub(crate) fn for_topic(topic: Topic) -> Self {
        GuideArgs { topic: Some(topic), cwd: None }
    }
}

/// A topic of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topic {
    /// Manage workers
    Managing,
    /// Try to disprove work before it counts as done
    Review,
    /// Work as a member of a team
    Member,
    /// Repeat work in a gated loop, and list the available loops
    Loops,
}

impl Topic {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Topic::Managing => "managing",
            Topic::Review => "review",
            Topic::Member => "member",
            Topic::Loops => "loops",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Topic::Managing => "manage workers",
            Topic::Review => "try to disprove work before it counts as done",
            Topic::Member => "work as a member of a team",
            Topic::Loops => "repeat work in a gated loop, and list the available loops",
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Topic::Managing => include_str!("../guide/managing.md"),
            Topic::Review => include_str!("../guide/review.md"),
            Topic::Member => include_str!("../guide/member.md"),
            Topic::Loops => include_str!("../guide/loops.md"),
        }
    }
}

pub(crate) fn run(context: &Context, args: &GuideArgs) -> CliResult {
    match args.topic {
        None => list(context),
        Some(Topic::Loops) => {
            let cwd = directory(context, args.cwd.as_deref())?;
            let config = settings::load(&context.environment, &cwd, Vec::new())?;
            show(context, Topic::Loops, &available_loops(&config))
        }
        Some(topic) => show(context, topic, &[]),
    }
}

fn list(context: &Context) -> CliResult {
    let topics = Topic::value_variants();
    let next: Vec<String> =
        topics.iter().map(|topic| format!("provost guide {}", topic.as_str())).collect();
    if context.ui.json {
        let rows: Vec<Value> = topics
            .iter()
            .map(|topic| json!({"topic": topic.as_str(), "about": topic.about()}))
            .collect();
        context.ui.result(json!({"ok": true, "topics": rows}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines: Vec<String> =
        topics.iter().map(|topic| format!("{:10}{}", topic.as_str(), topic.about())).collect();
    context.ui.lines(&lines)?;
    context.ui.next(&next[..1]);
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, topic: Topic, loops: &[AvailableLoop]) -> CliResult {
    if context.ui.json {
        let rows: Vec<Value> = loops.iter().map(AvailableLoop::to_json).collect();
        let mut value = json!({"ok": true, "topic": topic.as_str(), "text": topic.text()});
        if topic == Topic::Loops {
            value["loops"] = json!(rows);
        }
        context.ui.result(value, &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    let screen = Screen::stdout();
    context.ui.lines(&wrap_text(topic.text(), screen))?;
    if !loops.is_empty() {
        context.ui.line("\nLoops available here:\n")?;
        let needs_checks = loops.iter().any(|one| one.needs_checks);
        let note = needs_checks.then(|| [NO_CHECKS.to_owned(), String::new()]);
        let lines = note.into_iter().flatten().chain(loops.iter().flat_map(AvailableLoop::lines));
        let lines: Vec<String> =
            lines.flat_map(|line| screen.wrap(&line, HANGING_INDENT)).collect();
        context.ui.lines(&lines)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Wraps a text to the width of the screen. Commands are not wrapped, so that they can be copied.
fn wrap_text(text: &str, screen: Screen) -> Vec<String> {
    let lines = text.trim_end().lines().flat_map(|line| {
        let item_text = line.trim_start();
        let indent = line.len() - item_text.len();
        let item = item_text.starts_with("- ")
            || item_text.starts_with(|first: char| first.is_ascii_digit());
        if indent >= 4 {
            vec![line.to_owned()]
        } else {
            screen.wrap(line, if item { indent + 2 } else { indent })
        }
    });
    lines.collect()
}

/// The indentation of continuation lines in a loop's description, in columns.
const HANGING_INDENT: usize = 4;

/// The hint to show if the project has no checks but some loops need them.
const NO_CHECKS: &str = "Loops marked \"needs checks\" cannot start here: set verify.checks in provost.toml, or pass --check COMMAND.";

/// A loop that is available in a directory, or the reason why it cannot be started there.
struct AvailableLoop {
    name: String,
    means: String,
    terms: String,
    evidence: Vec<String>,
    lacks: Option<String>,
    /// Whether only the project's checks are missing.
    needs_checks: bool,
}

fn available_loops(config: &Resolved) -> Vec<AvailableLoop> {
    let checks = checks(config);
    let names = loop_templates::names(config).into_iter();
    names.map(|name| AvailableLoop::new(config, name, &checks)).collect()
}

impl AvailableLoop {
    fn new(config: &Resolved, name: String, checks: &[String]) -> AvailableLoop {
        let outline = match loop_templates::outline(config, &name) {
            Ok(outline) => outline,
            Err(why) => {
                let lacks = Some(why.message);
                let (means, terms) = (String::new(), String::new());
                let evidence = Vec::new();
                return AvailableLoop { name, means, terms, evidence, lacks, needs_checks: false };
            }
        };
        let plateau = outline.plateau.map_or("none".to_owned(), |most| most.to_string());
        let terms = format!(
            "at most {} iterations, plateau {plateau}, conversation: {}",
            outline.max,
            outline.clean_up.as_str()
        );
        let refused = outline.fill_checks(checks).err();
        let needs_checks = matches!(refused, Some(OutlineError::NoChecks { .. }));
        let lacks = refused.map(|why| why.to_string());
        let evidence =
            outline.evidence.iter().map(|(name, wanted)| format!("{name}={wanted}")).collect();
        AvailableLoop { name, means: outline.means, terms, evidence, lacks, needs_checks }
    }

    fn lines(&self) -> Vec<String> {
        let mark = if self.needs_checks { " (needs checks)" } else { "" };
        let head = format!("{}{mark}: {}", self.name, self.means);
        let mut lines = vec![crate::ui::escape_line(&head)];
        if !self.terms.is_empty() {
            lines.push(format!("  {}", self.terms));
            lines.extend(
                self.evidence.iter().map(|one| format!("  {}", crate::ui::escape_line(one))),
            );
        }
        let lacks = if self.needs_checks { None } else { self.lacks.as_ref() };
        lines.extend(lacks.map(|why| format!("  cannot start: {}", crate::ui::escape_line(why))));
        lines
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "means": self.means,
            "terms": self.terms,
            "evidence": self.evidence,
            "can_begin": self.lacks.is_none(),
            "lacks": self.lacks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commands that a text contains in code spans and code blocks.
    fn commands(text: &str) -> Vec<String> {
        let mut fenced = false;
        let (mut blocks, mut prose) = (Vec::new(), String::new());
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if fenced || line.starts_with("    ") {
                blocks.push(line.trim().to_owned());
            } else {
                prose.push_str(&format!("{line}\n"));
            }
        }
        let spans = prose.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " "));
        let all = blocks.into_iter().chain(spans);
        all.filter(|command| command.starts_with("provost ")).collect()
    }

    /// Splits a command into words as a shell does. Text after a hash is a comment for the reader.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
        for letter in command.chars().chain([' ']) {
            match letter {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                ' ' if !quoted => words.extend(word.take()),
                letter => word.get_or_insert_default().push(letter),
            }
        }
        let comment = words.iter().position(|word| word == "#" || word == "<");
        words.truncate(comment.unwrap_or(words.len()));
        words
    }

    /// Returns the reason why a command cannot be parsed, or `None` if it can be parsed. Words in
    /// capitals are placeholders.
    fn refused(command: &str) -> Option<String> {
        use clap::error::ErrorKind;
        let why = crate::cli::command().try_get_matches_from(words(command)).err()?;
        let stand_in = [ErrorKind::ValueValidation, ErrorKind::InvalidValue].contains(&why.kind());
        (!stand_in).then(|| format!("{command}: {why}"))
    }

    #[test]
    fn missing_checks_are_explained_once_for_all_loops() {
        let config = provost_config::resolve(&provost_config::Inputs::default()).unwrap();
        let loops = available_loops(&config);
        let marked = loops.iter().filter(|one| one.needs_checks).count();
        assert!(marked > 1, "{marked} loops need checks");
        for one in loops.iter().filter(|one| one.needs_checks) {
            let text = one.lines().join("\n");
            assert!(text.contains("(needs checks)") && !text.contains("verify.checks"), "{text}");
            assert!(one.to_json()["lacks"].as_str().unwrap().contains("verify.checks"));
        }
    }

    #[test]
    fn every_command_in_guides_parses() {
        let topics = Topic::value_variants().iter();
        let mut texts: Vec<(String, String)> =
            topics.map(|topic| (topic.as_str().to_owned(), topic.text().to_owned())).collect();
        for name in ["supervising", "loops"] {
            let path = format!("{}/../../docs/guides/{name}.md", env!("CARGO_MANIFEST_DIR"));
            texts.push((path.clone(), std::fs::read_to_string(path).unwrap()));
        }
        for (name, text) in texts {
            let all = commands(&text);
            assert!(!all.is_empty(), "{name} has no commands");
            let mentions = |command: &&String| words(command).len() > 2 && !command.contains('…');
            let stray: Vec<String> =
                all.iter().filter(mentions).filter_map(|one| refused(one)).collect();
            assert!(stray.is_empty(), "{name}: {stray:#?}");
        }
    }

    /// A member that Provost did not start is a user or an application. Without `--as`, the
    /// commands of that member would run as the operator.
    #[test]
    fn member_commands_in_guides_use_as_flag() {
        for topic in [Topic::Managing, Topic::Member, Topic::Review] {
            let all = commands(topic.text()).into_iter().filter(|one| one.contains("TEAM"));
            let without_member = |one: &String| {
                let opens = ["provost team start", "provost team handoff", "provost team ping"];
                !one.contains("--as NAME") && !opens.iter().any(|words| one.starts_with(words))
            };
            let stray: Vec<String> = all.filter(without_member).collect();
            assert!(stray.is_empty(), "{}: {stray:#?}", topic.as_str());
        }
    }

    /// The commands in members' instructions can be parsed, regardless of the names of the members.
    #[test]
    fn d18_suggested_commands_parse_with_hostile_names() {
        use provost_core::team::{ProvostInvocation, Team, TeamCommandLines, TeamOpened, TeamSpec};
        let spec = TeamSpec {
            name: "limits".to_owned(),
            goal: "limit how often each caller may call".to_owned(),
            summary: None,
            project: None,
            cwd: "/".to_owned(),
            checks: Vec::new(),
            consent: Default::default(),
            config: Default::default(),
            policy: None,
            bounds: Default::default(),
        };
        let id = "00000000-0000-7000-8000-000000000007".parse().unwrap();
        let task = Team::open(id, Default::default(), &TeamOpened { spec: Box::new(spec) });
        let caller = ProvostInvocation::default();
        for name in ["hand", "--json", "-x", "it's; rm -rf $HOME", "a=b", "--", "日本 \"x\""] {
            let all = TeamCommandLines { caller: &caller, task: &task, member: Some(name) };
            let lines = [
                all.receive(),
                all.accept(1, 1),
                all.acknowledge(1, 1),
                all.show(),
                all.loop_status(),
                all.criteria(),
                all.acknowledge_contract(),
                all.finish(),
            ];
            for line in lines {
                let words = [line.program.clone()].into_iter().chain(line.arguments.clone());
                let taken = crate::cli::command().try_get_matches_from(words);
                let taken = taken.unwrap_or_else(|why| panic!("{line}: {why}"));
                let mut found = &taken;
                while let Some((_, below)) = found.subcommand() {
                    found = below;
                }
                let by = found.get_one::<String>("by").map(String::as_str);
                assert_eq!(by, Some(name), "{line}");
            }
        }
    }

    #[test]
    fn guide_wraps_but_keeps_commands_whole() {
        for topic in Topic::value_variants() {
            let lines = wrap_text(topic.text(), Screen::with_columns(80));
            let wide = |line: &&String| line.chars().count() > 80 && !line.starts_with("    ");
            assert_eq!(lines.iter().find(wide), None, "{}", topic.as_str());
            assert_eq!(
                wrap_text(topic.text(), Screen::UNLIMITED).join("\n"),
                topic.text().trim_end()
            );
        }
    }

    #[test]
    fn managing_guide_has_required_rules() {
        let text = Topic::Managing.text().replace('\n', " ");
        for needed in [
            "fresh thread in the same project",
            "Fork one only if you were asked to",
            "title",
            "--pull",
            "hand-off that was printed, and nothing else",
            "All criteria are audited",
            "ready only if the command exits with code 0",
            "never a reason to tear anything down",
        ] {
            assert!(text.contains(needed), "{needed}");
        }
    }
}
