//! The help of every command.

use provost_testkit::harness::TestHome;

use crate::recorder::matches_snapshot;

/// Maximum nesting depth of commands.
const MAX_DEPTH: usize = 3;
/// The width at which help is recorded.
const HELP_WIDTH: &str = "80";

/// A command as it is typed after `provost`, and its long help.
pub(crate) struct CommandHelp {
    pub(crate) path: Vec<String>,
    pub(crate) help: String,
}

impl CommandHelp {
    /// The name of the snapshots of this command.
    pub(crate) fn snapshot(&self) -> String {
        self.path.join("_").replace('-', "_")
    }
}

/// Reads all commands from the help texts, the main help excluded.
pub(crate) fn all_commands(home: &TestHome) -> Vec<CommandHelp> {
    let all = help_of(home, &["help", "--all"]);
    let groups = all.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1);
    let names = command_names(groups.take_while(|line| *line != "Options:"));
    let mut pending: Vec<Vec<String>> = names.into_iter().map(|name| vec![name]).collect();
    let mut commands = Vec::new();
    while let Some(path) = pending.pop() {
        assert!(path.len() <= MAX_DEPTH, "{path:?}");
        let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = help_of(home, &words);
        let section = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        for name in command_names(section.take_while(|line| line.starts_with("  "))) {
            pending.push([path.as_slice(), &[name]].concat());
        }
        commands.push(CommandHelp { path, help });
    }
    commands
}

fn help_of(home: &TestHome, words: &[&str]) -> String {
    let output = home.command(words).env("COLUMNS", HELP_WIDTH).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn command_names<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    // Continuation lines of a description are indented deeper.
    let names =
        lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|rest| rest.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn help_of_every_command_is_recorded() {
    let home = TestHome::new();
    let mut differing = Vec::new();
    for (name, words) in [("help", &["--help"][..]), ("help_all", &["help", "--all"])] {
        if !matches_snapshot("help", name, &help_of(&home, words)) {
            differing.push(name.to_owned());
        }
    }
    for command in all_commands(&home) {
        let name = command.snapshot();
        if !matches_snapshot("help", &name, &command.help) {
            differing.push(name);
        }
    }
    assert!(differing.is_empty(), "snapshots differ: {}", differing.join(", "));
}
