//! The detail view of a session, the facts behind its state, and the overview of all sessions.

use std::collections::BTreeMap;

use provost_api::{
    CommunicationRow, HookResultName, HookRow, RequestRow, SessionRow, SetupResultName, WhyFact,
    WhyReply,
};
use provost_core::{
    lifecycle::{Flag, State},
    session::{AgentMode, StopStep},
};

use super::detail_view::{DetailView, TEXT_WIDTH};
use super::{
    Paint, Screen, Tone, ago, describe_exit, describe_state, expand_durations, for_how_long,
    format_duration, has_unseen_turns,
    list::{is_exit_unrecorded, leftover_pid},
    reason, session_lines, short_id,
    text::{clip, escape_line, join_lines},
    unbreakable,
};

/// The maximum width of a hook's command.
const HOOK_WIDTH: usize = 60;

/// The column where a fact's value starts. Its details are indented to this column too.
const VALUE_AT: usize = 16;

/// Shows a session in detail.
pub(crate) fn session_detail(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    row: &SessionRow,
) -> Vec<String> {
    let mut detail = DetailView::new(paint, screen, now_ms);
    detail.head(row);
    detail.state(row);
    detail.facts(row);
    detail.setup(row);
    row.checks.iter().enumerate().for_each(|(at, check)| detail.check(at + 1, check));
    row.requests.iter().for_each(|request| detail.request(request));
    detail.location(row);
    detail.reports(row);
    detail.hooks(row);
    row.warnings.iter().for_each(|warning| detail.text_lines("warning", warning));
    detail.into_lines()
}

/// Explains a state in one sentence, followed by the facts behind it.
pub(crate) fn why_lines(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    reply: &WhyReply,
) -> Vec<String> {
    let row = &reply.session;
    let (tone, state) = describe_state(row);
    let verb = if has_unseen_turns(row) {
        "runs with "
    } else if is_exit_unrecorded(row) {
        "has "
    } else {
        state_verb(row.state.known())
    };
    let (name, rule) = (escape_line(&row.name), escape_line(&reply.rule));
    let sentence = format!("{name} {verb}{}: {rule}.", paint.paint(tone, &state));
    let mut lines = screen.wrap(&sentence, 2);
    let label = |label: &str, text: &str| screen.wrap(&format!("  {label:<14}{text}"), VALUE_AT);
    if let Some(reason) = reason(row) {
        lines.extend(label("reason", &clip(&join_lines(&reason), TEXT_WIDTH)));
    }
    for fact in reply.facts.iter().filter(|fact| !is_undecided(fact)) {
        let at = fact.at.map(|at| format!(", {}", ago(now_ms, at))).unwrap_or_default();
        let detail = if fact.fact == "decision" { None } else { fact.detail.clone() };
        let detail = detail.map(|detail| format!(" · {}", clip(&escape_line(&detail), TEXT_WIDTH)));
        let source = format!("({}{at})", escape_line(&fact.source));
        let line = format!(
            "  {:<14}{:<12} {}{}",
            escape_line(&fact.fact),
            spaced(&fact.value),
            paint.paint(Tone::Dim, &source),
            detail.unwrap_or_default()
        );
        lines.extend(screen.wrap(&line, VALUE_AT));
    }
    lines.extend(label("rule", &format!("{}: {rule}", escape_line(&row.rule))));
    for warning in &row.warnings {
        lines.extend(label("warning", &clip(&join_lines(warning), TEXT_WIDTH)));
    }
    if let Some(next) = &reply.next_deadline {
        lines.extend(label("next", &describe_deadline(next)));
    }
    lines
}

/// Returns the verb that connects a name and a state in a sentence.
fn state_verb(state: Option<State>) -> &'static str {
    match state {
        Some(
            State::Succeeded
            | State::Completed
            | State::Failed
            | State::NeedsInput
            | State::ExitedWithoutClaim,
        ) => "",
        Some(State::Accepted | State::Cancelled | State::Superseded | State::Stopped) => "was ",
        Some(
            State::Working
            | State::Idle
            | State::Finishing
            | State::Rework
            | State::Verifying
            | State::Stalled
            | State::Lost
            | State::Disputed,
        )
        | None => "is ",
    }
}

/// Describes a flag in a sentence. `None` if the state already implies the flag, or if Provost handles the cause of the
/// flag without the user.
fn describe_flag(flag: &str) -> Option<String> {
    let Some(known) = Flag::ALL.iter().find(|one| one.as_str() == flag) else {
        return Some(spaced(flag));
    };
    let is_handled =
        matches!(known, Flag::CloseOrPark | Flag::Starting | Flag::ExitUnrecorded | Flag::Stopping);
    (!is_handled).then(|| known.meaning().to_owned())
}

/// Whether a fact merely states that nothing has been decided.
fn is_undecided(fact: &WhyFact) -> bool {
    fact.fact == "decision" && fact.value == "no"
}

/// Describes how messages reach an agent. `None` if messages reach the agent in the usual way.
fn describe_channel(how: &CommunicationRow) -> Option<String> {
    match (how.kind.as_str(), how.receive.as_str(), &how.receive_command) {
        (_, "polls", Some(command)) => Some(format!("polls for its messages: {command}")),
        ("pane", "typed", _) => Some("messages are typed into its pane".to_owned()),
        ("watched", _, _) => Some("only observed; messages cannot be sent".to_owned()),
        _ => how.note.clone(),
    }
}

/// Describes the next timed transition, which is given in a form such as `seal in 1500 ms`.
fn describe_deadline(deadline: &str) -> String {
    let (due, when) = deadline.split_once(" in ").unwrap_or((deadline, ""));
    let what = match due {
        "time_limit" => "the time limit expires",
        "stream_settle" => {
            "the session is stopped, because it closed its output but is still running"
        }
        "escalation" => "the stop escalates",
        "seal" => "the outcome is sealed",
        "silence" => "the session counts as stalled if it stays silent",
        "limit_lifted" => "the session resumes, because the account's limit was lifted",
        "handshake" => "the session fails unless it reports its conversation",
        "reaction" => "a reaction of the project runs if nothing changes",
        "compaction" => "the compaction times out",
        _ => return escape_line(&expand_durations(deadline)),
    };
    format!("{what}, in {}", escape_line(&expand_durations(when)))
}

/// Shows an overview of all sessions: how many are in each state, which are live, and pending requests.
pub(crate) fn overview(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    rows: &[SessionRow],
) -> Vec<String> {
    if rows.is_empty() {
        return vec!["no sessions yet".to_owned()];
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(row.state.as_str()).or_default() += 1);
    let counts: Vec<_> = counts
        .iter()
        .map(|(state, count)| unbreakable(&format!("{count} {}", spaced(state))))
        .collect();
    let mut lines = screen.wrap(&counts.join(" · "), 2);
    let live: Vec<_> = rows.iter().filter(|row| !row.terminal).cloned().collect();
    if !live.is_empty() {
        lines.push(String::new());
        lines.extend(session_lines(paint, screen, now_ms, live));
    }
    let mut detail = DetailView { paint, screen, now_ms, lines };
    let asking: Vec<_> = rows.iter().flat_map(|row| &row.requests).collect();
    if !asking.is_empty() {
        detail.unwrapped_line("");
    }
    asking.into_iter().for_each(|request| detail.request(request));
    detail.into_lines()
}

/// Shows pending requests, with the commands that answer them.
pub(crate) fn requests(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    requests: &[RequestRow],
) -> Vec<String> {
    let mut detail = DetailView::new(paint, screen, now_ms);
    requests.iter().for_each(|request| detail.request(request));
    detail.into_lines()
}

impl DetailView {
    fn head(&mut self, row: &SessionRow) {
        let name = self.paint.paint(Tone::Bold, &escape_line(&row.name));
        let role =
            row.role.as_deref().map(|role| format!(" · {}", escape_line(role))).unwrap_or_default();
        self.line(&format!("{name}{role} · {}", escape_line(&row.id)));
        if let Some(run) = &row.run {
            self.label("run", &short_id(run));
        }
    }

    fn state(&mut self, row: &SessionRow) {
        let (tone, state) = describe_state(row);
        let sealed = match (row.terminal, row.sealed) {
            (_, true) => ", sealed",
            (true, false) => ", settling",
            (false, false) => "",
        };
        let lasted = self.paint.paint(Tone::Dim, &for_how_long(self.now_ms, row.since));
        self.label("state", &format!("{}{sealed} · {lasted}", self.paint.paint(tone, &state)));
        for note in row.flags.iter().filter_map(|flag| describe_flag(flag)) {
            self.label("note", &note);
        }
        if let Some(reason) = reason(row) {
            self.text_lines("reason", &reason);
        }
    }

    fn facts(&mut self, row: &SessionRow) {
        let adapter = (row.agent != row.adapter).then(|| row.adapter.clone());
        let mode = (row.mode != AgentMode::Headless).then(|| row.mode.to_string());
        let about: Vec<String> = [adapter, mode].into_iter().flatten().collect();
        let about =
            if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
        self.text("agent", &format!("{}{about}: {}", row.agent, row.argv.join(" ")));
        if let Some(instruction) = &row.instruction {
            self.text_lines("prompt", instruction);
        }
        let source = row.claim_source.as_deref().map(|source| format!(" by {}", spaced(source)));
        let at = row.claimed_at.map(|at| format!(", {}", ago(self.now_ms, at)));
        let report = row.claim_text.as_deref().map(|text| format!(": {text}"));
        let parts = [Some(spaced(&row.claim)), source, at, report];
        self.text_lines("claim", &parts.into_iter().flatten().collect::<String>());
        self.label("process", &describe_process(row));
        self.label("activity", &escape_line(&row.activity));
        if !row.sealed
            && let Some(reached) = row.communication.as_ref().and_then(describe_channel)
        {
            self.text("reached", &reached);
        }
        if let Some(progress) = &row.progress {
            let text = format!("{}/{} by {}", progress.done, progress.total, progress.source);
            self.label("progress", &escape_line(&text));
        }
        if row.usage.input > 0 || row.usage.output > 0 {
            let of = row.budget.tokens.map(|tokens| format!(", of {tokens}")).unwrap_or_default();
            let used = format!("{} in, {} out{of}", row.usage.input, row.usage.output);
            self.label("tokens", &used);
        }
        if let Some(context) = row.context.as_ref().filter(|context| context.window > 0) {
            let percent = context.used.saturating_mul(100) / context.window;
            let text = format!("{percent} % full: {} of {}", context.used, context.window);
            self.label("context", &text);
        }
        if let Some(limited) = &row.limited {
            let wait = u64::try_from(limited.until.saturating_sub(self.now_ms)).unwrap_or(0);
            let text =
                format!("resumes automatically in {}: {}", format_duration(wait), limited.detail);
            self.text("limited", &text);
        }
        if let Some(why) = &row.retrying {
            self.text("retrying", why);
        }
        if !row.checks.is_empty() {
            self.label("verified", &escape_line(&row.verification));
        }
    }

    /// Shows a setup command that has failed or not finished, with the command that shows its output.
    fn setup(&mut self, row: &SessionRow) {
        let Some(setup) = row.setup.as_ref().filter(|setup| setup.result != SetupResultName::Ok)
        else {
            return;
        };
        let tone = if setup.result == SetupResultName::Failed { Tone::Bad } else { Tone::Dim };
        let result = self.paint.paint(tone, &spaced(&setup.result));
        let command = clip(&escape_line(&setup.command), HOOK_WIDTH);
        let see =
            self.paint.paint(Tone::Dim, &format!("provost logs {} --setup", short_id(&row.id)));
        let see = if setup.result == SetupResultName::NotRun {
            String::new()
        } else {
            format!(" · {see}")
        };
        self.label("setup", &format!("{result} `{command}`{see}"));
    }

    fn location(&mut self, row: &SessionRow) {
        match &row.worktree {
            Some(tree) => {
                let removed = if tree.removed { " (removed)" } else { "" };
                self.label("worktree", &format!("{}{removed}", escape_line(&tree.path)));
                self.label("branch", &escape_line(&tree.branch));
            }
            None => self.label("in", &escape_line(&row.cwd)),
        }
        let commit =
            row.commit.as_deref().map(|commit| escape_line(commit.get(..12).unwrap_or(commit)));
        match (commit, &row.worktree) {
            (Some(commit), Some(_)) => self.label("commit", &commit),
            (Some(commit), None) => self.label(
                "checked",
                &format!("copy {commit} (Provost committed nothing in your directory)"),
            ),
            (None, _) => {}
        }
    }

    fn reports(&mut self, row: &SessionRow) {
        for fact in &row.facts {
            self.text(&escape_line(&fact.fact), &fact.value);
        }
        let unheard = row.messages.iter().filter(|message| message.status != "delivered");
        for message in unheard {
            let reason = message.reason.as_deref().map(|reason| format!(": {reason}"));
            self.text(
                "message",
                &format!("{} {}{}", message.kind, message.status, reason.unwrap_or_default()),
            );
        }
        for late in &row.late_claims {
            let text = late.text.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
            self.text("late", &format!("{} by {}{text}", late.claim, late.source));
        }
        if let Some(resolution) = &row.resolution {
            self.text("resolved", &format!("{}: {}", resolution.state, resolution.because));
        }
    }

    /// Shows failed hooks, each with the command that shows its output.
    fn hooks(&mut self, row: &SessionRow) {
        let bad = |hook: &HookRow| {
            matches!(hook.result.known(), Some(HookResultName::Failed | HookResultName::Uncertain))
        };
        for (at, hook) in row.hooks.iter().enumerate().filter(|(_, hook)| bad(hook)) {
            let result = self.paint.paint(Tone::Bad, &escape_line(&hook.result));
            let (event, command) =
                (escape_line(&hook.event), clip(&escape_line(&hook.command), HOOK_WIDTH));
            let how = clip(&escape_line(hook.detail.as_deref().unwrap_or_default()), TEXT_WIDTH);
            let see = format!("provost logs {} --hook {}", short_id(&row.id), at + 1);
            let see = self.paint.paint(Tone::Dim, &see);
            self.label("hook", &format!("{result} {event} `{command}`: {how} · {see}"));
        }
    }
}

/// Replaces underscores with spaces.
fn spaced(word: &str) -> String {
    escape_line(&word.replace('_', " "))
}

fn describe_process(row: &SessionRow) -> String {
    let launch = row.launches.last();
    let lives = match (&row.exit, leftover_pid(row)) {
        (Some(exit), _) => describe_exit(exit),
        (None, Some(_)) => format!("still {}", spaced(&row.process)),
        (None, None) => spaced(&row.process),
    };
    let pid = if row.exit.is_none() { launch.and_then(|launch| launch.pid) } else { None };
    let pid = pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    let stop =
        launch.filter(|launch| launch.may_be_running()).and_then(|launch| launch.stop.as_deref());
    let stop = match stop {
        None => String::new(),
        Some(step) if step == StopStep::GivenUp.as_str() => {
            ", could not be stopped, still alive".to_owned()
        }
        Some(step) => format!(", being stopped ({})", spaced(step)),
    };
    let launches = row.launches.len();
    let count = if launches > 1 { format!(", launch {launches}") } else { String::new() };
    format!("{lives}{pid}{stop}{count}")
}

#[cfg(test)]
mod tests {
    use provost_api::{ExitRow, WhyFact, WorktreeRow};

    use provost_api::Extensible;

    use super::{super::list::tests::*, *};

    #[test]
    fn detail_shows_each_line_of_warning_and_reason() {
        let text = "error: overwritten:\n\ta\u{1b}[2J.txt";
        let row = SessionRow {
            warnings: vec![format!("not committed: {text}")],
            reason: Some(text.to_owned()),
            ..failed()
        };
        let shown = session_detail(Paint::OFF, Screen::UNLIMITED, 61_000, &row).join("\n");
        assert!(
            shown.contains(
                "  warning   not committed: error: overwritten:\n              a␛[2J.txt"
            ),
            "{shown}"
        );
        assert!(
            shown.contains("  reason    error: overwritten:\n              a␛[2J.txt"),
            "{shown}"
        );
    }

    #[test]
    fn detail_shows_what_failed() {
        let tree = WorktreeRow {
            path: "/home/u/w".to_owned(),
            branch: "provost/deadbeef-fix".to_owned(),
            removed: false,
        };
        let row = SessionRow { worktree: Some(tree), ..failed() };
        insta::assert_snapshot!(session_detail(Paint::OFF, Screen::UNLIMITED, 61_000, &row).join("\n"), @"
        fixer · 0199aa11-0000-7000-8000-0000deadbeef
          state     failed (verification), sealed · for 1m
          note      the checks failed
          agent     command: make all
          claim     completed by agent, 59s ago: all
                    done
          process   exit 0
          activity  exited
          verified  failed
          check 1   failed `cargo test` (exit 101, 1m1s, tree 4b825dc642cb)
          worktree  /home/u/w
          branch    provost/deadbeef-fix
          late      completed by agent: but I did it
        ");
    }

    #[test]
    fn detail_shows_failed_hooks_and_warnings() {
        let hook = |result: &str, detail: &str| HookRow {
            event: "session.completed".to_owned(),
            occasion: 1,
            command: "notify\u{1b}[2J".to_owned(),
            result: Extensible::from_name(result),
            detail: Some(detail.to_owned()),
            output: Some("checks/x".to_owned()),
        };
        let row = SessionRow {
            hooks: vec![hook("ok", "exit 0"), hook("failed", "exit 7")],
            warnings: vec!["beware".to_owned()],
            ..session("x", "working")
        };
        let shown = session_detail(Paint::OFF, Screen::with_columns(200), 61_000, &row).join("\n");
        assert!(shown.ends_with(
            "  hook      failed session.completed `notify␛[2J`: exit 7 · provost logs deadbeef --hook 2\n  warning   beware"
        ), "{shown}");
    }

    #[test]
    fn detail_has_a_command_for_each_request() {
        insta::assert_snapshot!(session_detail(Paint::OFF, Screen::UNLIMITED, 61_000, &asking()).join("\n"), @"
        painter · 0199aa11-0000-7000-8000-0000deadbeef
          state     needs input · for 1m
          agent     command: make all
          claim     none
          process   alive, pid 42
          activity  active
          request   question: a colour, 1m ago
                    Colour: Which␛[31m colour?
                    one of: red | blue, or your own words
                    provost answer deadbeef.q1 --revision 2 TEXT
          in        /src/app
        ");
    }

    #[test]
    fn overview_counts_and_shows_requests() {
        let rows = [asking(), failed(), session("x", "working")];
        insta::assert_snapshot!(overview(Paint::OFF, Screen::UNLIMITED, 61_000, &rows).join("\n"), @"
        1 failed · 1 needs input · 1 working

        ID        NAME     STATE        AGENT    CHECKS  SINCE  NOTE
        deadbeef  painter  needs input  command  -       1m     question: a colour
        deadbeef  x        working      command  -       1m

          request   question: a colour, 1m ago
                    Colour: Which␛[31m colour?
                    one of: red | blue, or your own words
                    provost answer deadbeef.q1 --revision 2 TEXT
        ");
        assert_eq!(overview(Paint::OFF, Screen::UNLIMITED, 0, &[]), ["no sessions yet"]);
    }

    #[test]
    fn why_starts_with_a_sentence_and_names_sources() {
        let fact = WhyFact {
            fact: "process".to_owned(),
            value: "exit0".to_owned(),
            source: "holder's wait status".to_owned(),
            at: Some(1_000),
            detail: Some("exit code 0, by itself".to_owned()),
        };
        let reply = WhyReply {
            ok: true,
            session: failed(),
            facts: vec![fact],
            rule: "it claimed completion and ended, but its work failed verification".to_owned(),
            next_deadline: None,
        };
        insta::assert_snapshot!(why_lines(Paint::OFF, Screen::UNLIMITED, 61_000, &reply).join("\n"), @"
        fixer failed (verification): it claimed completion and ended, but its work failed verification.
          process       exit0        (holder's wait status, 1m ago) · exit code 0, by itself
          rule          X2: it claimed completion and ended, but its work failed verification
        ");
    }

    #[test]
    fn detail_wraps_below_its_labels() {
        let text = "the login works again, and so do the tests that were red before it did";
        let row = SessionRow { claim_text: Some(text.to_owned()), ..failed() };
        insta::assert_snapshot!(session_detail(Paint::OFF, Screen::with_columns(60), 61_000, &row).join("\n"), @"
        fixer · 0199aa11-0000-7000-8000-0000deadbeef
          state     failed (verification), sealed · for 1m
          note      the checks failed
          agent     command: make all
          claim     completed by agent, 59s ago: the login works
                    again, and so do the tests that were red before
                    it did
          process   exit 0
          activity  exited
          verified  failed
          check 1   failed `cargo test` (exit 101, 1m1s, tree
                    4b825dc642cb)
          in        /src/app
          late      completed by agent: but I did it
        ");
    }

    #[test]
    fn secret_answer_is_not_an_argument() {
        let mut request = asking().requests.remove(0);
        assert_eq!(request.answer_command(), "provost answer deadbeef.q1 --revision 2 TEXT");
        request.questions[0].secret = true;
        assert_eq!(request.answer_command(), "provost answer deadbeef.q1 --revision 2 --secret");
    }

    #[test]
    fn stopped_process_names_who_stopped_it() {
        let exit = ExitRow { code: None, signal: Some(15), by: "provost".to_owned() };
        let row = SessionRow { exit: Some(exit), ..session("x", "needs_input") };
        assert_eq!(describe_process(&row), "ended by Provost (signal 15)");
        let mut row = session("x", "working");
        row.launches[0].stop = Some("terminate".to_owned());
        assert_eq!(describe_process(&row), "alive, pid 42, being stopped (terminate)");
        row.launches[0].stop = Some("given_up".to_owned());
        assert_eq!(describe_process(&row), "alive, pid 42, could not be stopped, still alive");
    }

    #[test]
    fn ended_process_is_not_being_stopped() {
        let mut row = SessionRow {
            process: Extensible::from_name("not_started"),
            ..session("x", "accepted")
        };
        row.launches[0].pid = None;
        row.launches[0].stop = Some("terminate".to_owned());
        for phase in ["ended", "unobserved", "failed"] {
            row.launches[0].phase = Extensible::from_name(phase);
            assert_eq!(describe_process(&row), "not started");
        }
    }

    #[test]
    fn deadlines_are_described() {
        assert_eq!(describe_deadline("seal in 1500 ms"), "the outcome is sealed, in 1 s");
        assert_eq!(
            describe_deadline("time_limit in 600000 ms"),
            "the time limit expires, in 10 min"
        );
        assert_eq!(describe_deadline("something else"), "something else");
    }
}
