//! The values that Provost shows: states, causes, flags, rules, and the names of hooks.

use provost_core::{
    lifecycle::{Cause, Flag, Rule, State},
    session::HookEvent,
};

const HEAD: &str = "\
# Words

This page explains the values in the output of `provost ls`, `status` and `events`, and in `--json`:
states, causes, flags, rules and hooks. In each meaning, \"it\" is the session or its agent.
[lifecycle.md](lifecycle.md) explains how a state is determined and what you can do about it.

The page is generated from the code by `cargo xtask docs`.
";
const FLAGS: &str = "\
A flag adds a fact to a state. `provost status ID` describes the flags of a session in `note` lines.
";
const RULES: &str = "\
The rule that determined the state is shown by `provost status ID --why`. Rules that begin with `O`
are decisions and limits, which take precedence. Rules that begin with `V` concern verification,
those with `L` apply while the process is live, and those with `X` apply after its exit.
";
const HOOKS: &str = "\
Each of these events can run a command of yours. Set it below `[hooks]` in the
[configuration](configuration.md), for example `\"session.needs_input\" = \"notify-send question\"`.
";

/// Renders all values as Markdown.
pub(super) fn markdown() -> String {
    let states = |terminal: bool| {
        let states = State::ALL.iter().filter(move |state| state.is_terminal() == terminal);
        table("state", states.map(|state| (state.as_str().to_owned(), state.meaning())))
    };
    let hooks = HookEvent::all().into_iter().map(|hook| (hook.to_string(), hook.meaning()));
    let causes = Cause::ALL.iter().map(|cause| (cause.as_str().to_owned(), cause.meaning()));
    let flags = Flag::ALL.iter().map(|flag| (flag.as_str().to_owned(), flag.meaning()));
    let rules = Rule::ALL.iter().map(|rule| (rule.as_str().to_owned(), rule.meaning()));
    let sections = [
        ("Live states", "", states(false)),
        ("Terminal states", "", states(true)),
        ("Causes of `failed`", "", table("cause", causes)),
        ("Flags", FLAGS, table("flag", flags)),
        ("Rules", RULES, table("rule", rules)),
        ("Hooks", HOOKS, table("hook", hooks)),
    ];
    let sections = sections.map(|(title, text, table)| match text {
        "" => format!("\n## {title}\n\n{table}"),
        text => format!("\n## {title}\n\n{text}\n{table}"),
    });
    format!("{HEAD}{}", sections.concat())
}

fn table(heading: &str, rows: impl Iterator<Item = (String, &'static str)>) -> String {
    let rows = rows.map(|(word, meaning)| format!("| `{word}` | {meaning} |\n"));
    format!("| {heading} | meaning |\n|---|---|\n{}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_either_live_or_terminal() {
        let text = markdown();
        let (live, terminal) = text.split_once("## Terminal states").unwrap();
        assert!(live.contains("| `working` |") && !live.contains("| `failed` |"));
        assert!(terminal.contains("| `failed` |") && terminal.contains("| `session.failed` |"));
    }

    #[test]
    fn every_value_has_a_meaning() {
        let text = markdown();
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let (full, empty): (Vec<&str>, Vec<&str>) =
            rows.partition(|row| row.split('|').nth(2).is_some_and(|text| text.trim().len() > 5));
        assert_eq!(empty, [""; 0]);
        let values = State::ALL.len() + Cause::ALL.len() + Flag::ALL.len() + Rule::ALL.len();
        assert_eq!(full.len(), values + HookEvent::all().len());
    }
}
