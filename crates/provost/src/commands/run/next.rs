//! The commands that make sense for a run as it is.

use provost_api::{RequestRow, RunRow};

use crate::{commands::spawn::chosen::quoted, ui};

/// Gives the commands that make sense for a run as it is.
pub(crate) fn next_commands(row: &RunRow) -> Vec<String> {
    let id = ui::short(&row.id);
    if !row.terminal {
        let asked = row.requests.first().map(RequestRow::answer_command);
        let always = ["status ID --watch", "logs ID -f", "cancel ID"];
        let always = always.map(|command| format!("provost {}", command.replace("ID", &id)));
        return asked.into_iter().chain(always).collect();
    }
    let card = format!("provost report-card {id}");
    match row.state.as_str() {
        "succeeded" | "completed" => merge(row).into_iter().chain([card]).collect(),
        _ => {
            let newest = row.sessions.last();
            let logs = newest.map(|session| format!("provost logs {}", ui::short(&session.id)));
            let used_up = row.cause.as_deref() == Some("budget");
            let more = if row.budget.tokens.is_some() { "--tokens" } else { "--turns" };
            let raise = used_up.then(|| format!("provost limit {id} {more} MORE"));
            let resume = format!("provost resume {id}");
            logs.into_iter().chain(raise).chain([resume, card]).collect()
        }
    }
}

/// What stands on a branch of its own is still to be merged by whoever wants it.
fn merge(row: &RunRow) -> Option<String> {
    let branch = row.landing.branch.as_deref().filter(|_| !row.landing.merged)?;
    (row.landing.mode == "branch")
        .then(|| format!("git -C {} merge {}", quoted(&row.project), quoted(branch)))
}

#[cfg(test)]
mod tests {
    use provost_api::LandingRow;

    use super::*;

    #[test]
    fn what_makes_sense_follows_from_how_the_run_stands() {
        let running = ui::test_run("running");
        assert_eq!(next_commands(&running)[0], "provost status deadbeef --watch");
        let ended = |state: &str| RunRow { terminal: true, sealed: true, ..ui::test_run(state) };
        let landing = LandingRow {
            mode: "branch".to_owned(),
            done: true,
            branch: Some("provost/x".to_owned()),
            ..LandingRow::default()
        };
        let succeeded = RunRow { landing, ..ended("succeeded") };
        assert_eq!(
            next_commands(&succeeded),
            ["git -C '/src/my app' merge provost/x", "provost report-card deadbeef"]
        );
        let used_up = RunRow { cause: Some("budget".to_owned()), ..ended("failed") };
        assert_eq!(
            next_commands(&used_up),
            [
                "provost logs deadbef0",
                "provost limit deadbeef --turns MORE",
                "provost resume deadbeef",
                "provost report-card deadbeef",
            ]
        );
    }
}
