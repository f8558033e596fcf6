//! The labeled lines of a detail view, which sessions and runs share.

use provost_api::{CheckResultName, CheckRow, QuestionRow, RequestRow, SubjectRow};

use super::{
    Paint, Screen, Tone, ago, format_duration,
    text::{clip, escape_line},
};

/// How many further lines of a message to show.
const MESSAGE_LINES: usize = 20;

/// The maximum width of a long text in the view. It can extend over several lines.
pub(super) const TEXT_WIDTH: usize = 400;

/// How many lines of a change to show in a request for approval.
const DIFF_LINES: usize = 40;

/// The width of the label column.
const LABEL_WIDTH: usize = 10;

/// The labeled lines of a detail view.
pub(super) struct DetailView {
    pub(super) paint: Paint,
    pub(super) screen: Screen,
    pub(super) now_ms: i64,
    pub(super) lines: Vec<String>,
}

impl DetailView {
    pub(super) fn new(paint: Paint, screen: Screen, now_ms: i64) -> Self {
        DetailView { paint, screen, now_ms, lines: Vec::new() }
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines
    }

    /// Adds a line without a label.
    pub(super) fn line(&mut self, line: &str) {
        self.lines.extend(self.screen.wrap(line, 2));
    }

    pub(super) fn check(&mut self, no: usize, check: &CheckRow) {
        let tone = match check.result.known() {
            Some(CheckResultName::Passed) => Tone::Good,
            Some(CheckResultName::Failed | CheckResultName::Unfinished) => Tone::Bad,
            Some(CheckResultName::Pending | CheckResultName::NotRun) | None => Tone::Dim,
        };
        let detail = check.detail.as_deref().map(escape_line);
        let took = check.duration_ms.map(format_duration);
        let tree = check
            .tree
            .as_deref()
            .map(|tree| format!("tree {}", escape_line(tree.get(..12).unwrap_or(tree))));
        let base = (!check.base_files.is_empty())
            .then(|| format!("{} as of the base", escape_line(&check.base_files.join(", "))));
        let by = check.by.as_deref().map(|by| match by {
            "agent" => "written by an agent".to_owned(),
            "configuration" => "configured".to_owned(),
            _ => "set by you".to_owned(),
        });
        let receipt: Vec<_> = [by, detail, took, tree, base].into_iter().flatten().collect();
        let result = self.paint.paint(tone, &escape_line(&check.result));
        let receipt = match receipt.join(", ") {
            empty if empty.is_empty() => empty,
            receipt => format!(" {}", self.paint.paint(Tone::Dim, &format!("({receipt})"))),
        };
        let command = clip(&escape_line(&check.command), TEXT_WIDTH);
        self.label(&format!("check {no}"), &format!("{result} `{command}`{receipt}"));
    }

    pub(super) fn request(&mut self, request: &RequestRow) {
        let waits = if request.blocking { "" } else { " (not blocking)" };
        let since = ago(self.now_ms, request.asked_at);
        let title = escape_line(&format!("{}: {}", request.kind, request.title));
        let title = self.paint.paint(Tone::Warn, &clip(&title, TEXT_WIDTH));
        self.label("request", &format!("{title}{waits}, {since}"));
        for question in &request.questions {
            self.question(question, request.questions.len() > 1);
        }
        if let Some(subject) = &request.subject {
            self.subject(subject);
        }
        // The command that shows the details of the request comes before the commands that answer
        // it.
        let looks = request.commands.len() > 2;
        if looks {
            self.command(&request.commands[0]);
        }
        let settles = if looks { request.commands.get(1) } else { None };
        self.command(&settles.cloned().unwrap_or_else(|| request.answer_command()));
        if request.questions.len() > 1 {
            self.text("", &format!("FILE has {}", request.answers_form()));
        }
        if request.can_be_denied() {
            self.command(&request.deny_command());
        }
    }

    /// Shows a question. If a request has several questions, each is answered by its id.
    fn question(&mut self, question: &QuestionRow, several: bool) {
        let id = if several { format!("{} · ", question.id) } else { String::new() };
        let header = match question.header.as_str() {
            "" => String::new(),
            header => format!("{header}: "),
        };
        let secret = if question.secret { " (the answer is a secret)" } else { "" };
        self.text("", &format!("{id}{header}{}{secret}", question.question));
        let described = question.descriptions.iter().any(|text| !text.is_empty());
        let free = !question.options.is_empty() && !question.only_options;
        if described {
            for (at, option) in question.options.iter().enumerate() {
                let meaning = question.descriptions.get(at).filter(|text| !text.is_empty());
                let meaning = meaning.map_or(String::new(), |text| format!(": {text}"));
                self.text("", &format!("- {option}{meaning}"));
            }
            if free {
                self.text("", "- or your own words");
            }
        } else if !question.options.is_empty() {
            let free = if free { ", or your own words" } else { "" };
            self.text("", &format!("one of: {}{free}", question.options.join(" | ")));
        }
    }

    fn subject(&mut self, subject: &SubjectRow) {
        let parts = [
            ("command", &subject.command),
            ("in", &subject.cwd),
            ("because", &subject.reason),
            ("network", &subject.network),
        ];
        let guessed = subject.inferred_from.as_ref().map(|by| format!(" (inferred from its {by})"));
        for (label, text) in parts {
            if let Some(text) = text {
                let guess = if label == "command" { guessed.as_deref() } else { None };
                let guess = guess.unwrap_or_default();
                self.text("", &format!("{label}: {text}{guess}"));
            }
        }
        if !subject.paths.is_empty() {
            self.text("", &format!("files: {}", subject.paths.join(", ")));
        }
        for line in subject.diff.iter().flat_map(|diff| diff.lines()).take(DIFF_LINES) {
            self.lines.push(format!(
                "  {:LABEL_WIDTH$}{}",
                "",
                clip(&escape_line(line), TEXT_WIDTH)
            ));
        }
    }

    pub(super) fn text(&mut self, label: &str, text: &str) {
        self.label(label, &clip(&escape_line(text), TEXT_WIDTH));
    }

    /// Adds a text of several lines, such as a message from git. All lines but the first are indented.
    pub(super) fn text_lines(&mut self, label: &str, text: &str) {
        let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        self.text(label, lines.next().unwrap_or_default());
        let mut rest = lines.by_ref().take(MESSAGE_LINES);
        rest.by_ref().for_each(|line| self.text("", &line.replace('\t', "  ")));
        let hidden = lines.count();
        if hidden > 0 {
            self.text("", &format!("({hidden} more lines)"));
        }
    }

    pub(super) fn label(&mut self, label: &str, text: &str) {
        // If a label is too long, it extends into the text column, but there is still a space before the text.
        let label =
            self.paint.paint(Tone::Dim, &format!("{label:<width$}", width = LABEL_WIDTH - 1));
        self.lines.extend(self.screen.wrap(&format!("  {label} {text}"), LABEL_WIDTH + 2));
    }

    /// Adds a line that must not be wrapped, such as a part of a drawing.
    pub(super) fn unwrapped_line(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    /// Adds a command on a single line, so that it can be copied.
    pub(super) fn command(&mut self, command: &str) {
        let command = self.paint.paint(Tone::Dim, command);
        self.lines.push(format!("  {:LABEL_WIDTH$}{command}", ""));
    }
}
