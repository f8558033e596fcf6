//! A page of quoted texts and lists, as Markdown and as HTML. All input is rendered as plain text.

use provost_core::text::is_deceptive;

/// A page under construction.
#[derive(Debug)]
pub(super) struct ReportPage {
    title: String,
    /// The blocks before the title.
    lead: Vec<PagePart>,
    parts: Vec<(String, Vec<PagePart>)>,
}

/// One block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PagePart {
    /// A line written by Provost itself.
    Text(String),
    /// Quoted text, which may span several lines.
    Quote(String),
    List(Vec<String>),
    /// A line by Provost that contains paths or commands.
    Spans(Vec<Span>),
    /// A list of such lines.
    SpanList(Vec<Vec<Span>>),
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Span {
    Text(String),
    /// A path or a command, which is shown verbatim.
    Code(String),
}

/// Where Markdown is read, which determines how paths and commands are rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkdownReader {
    /// The page is read in a terminal or an editor. Paths and commands are code spans, so that none
    /// of their characters is escaped.
    Terminal,
    /// The page is read on a forge. There, [`neutralize`] works only if there are no code spans.
    Forge,
}

impl ReportPage {
    pub(super) fn new(title: &str) -> ReportPage {
        ReportPage { title: title.to_owned(), lead: Vec::new(), parts: Vec::new() }
    }

    /// Adds parts before the title.
    pub(super) fn add_lead(&mut self, parts: impl IntoIterator<Item = PagePart>) {
        self.lead.extend(parts);
    }

    /// Adds a section, unless it is empty.
    pub(super) fn add_section(&mut self, title: &str, parts: impl IntoIterator<Item = PagePart>) {
        let parts: Vec<PagePart> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if !parts.is_empty() {
            self.parts.push((title.to_owned(), parts));
        }
    }

    pub(super) fn to_markdown(&self) -> String {
        self.render_markdown(MarkdownReader::Terminal)
    }

    fn render_markdown(&self, reader: MarkdownReader) -> String {
        let lead = self.lead.iter().map(|part| part.to_markdown(reader) + "\n\n");
        let mut text: String = lead.collect();
        text += &format!("# {}\n", markdown_line(&self.title));
        for (title, parts) in &self.parts {
            if !title.is_empty() {
                text += &format!("\n## {title}\n");
            }
            parts.iter().for_each(|part| text += &format!("\n{}\n", part.to_markdown(reader)));
        }
        text
    }

    /// Renders the page for a forge. The result does not notify users, link to other sites or refer to issues.
    pub(super) fn to_forge_markdown(&self) -> String {
        neutralize(&self.render_markdown(MarkdownReader::Forge))
    }

    pub(super) fn to_html(&self) -> String {
        let title = escape_html(&plain_line(&self.title));
        let mut body: String = self.lead.iter().map(PagePart::to_html).collect();
        body += &format!("<h1>{title}</h1>\n");
        for (title, parts) in &self.parts {
            if !title.is_empty() {
                body += &format!("<h2>{}</h2>\n", escape_html(title));
            }
            parts.iter().for_each(|part| body += &part.to_html());
        }
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
        )
    }
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap;border-left:3px solid #999;padding-left:1rem}";

impl PagePart {
    fn is_empty(&self) -> bool {
        match self {
            PagePart::Text(text) | PagePart::Quote(text) => text.trim().is_empty(),
            PagePart::List(items) => items.is_empty(),
            PagePart::Spans(spans) => spans.is_empty(),
            PagePart::SpanList(items) => items.is_empty(),
        }
    }

    fn to_markdown(&self, reader: MarkdownReader) -> String {
        match self {
            PagePart::Text(text) => markdown_line(text),
            PagePart::Spans(spans) => markdown_spans(spans, reader),
            PagePart::SpanList(items) => {
                let lines = items.iter().map(|item| format!("- {}", markdown_spans(item, reader)));
                lines.collect::<Vec<_>>().join("\n")
            }
            PagePart::Quote(text) => {
                let lines =
                    text.trim_end().lines().map(|line| format!("> {}", markdown_line(line)));
                lines.collect::<Vec<_>>().join("\n")
            }
            PagePart::List(items) => {
                let lines = items.iter().map(|item| format!("- {}", markdown_line(item)));
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }

    fn to_html(&self) -> String {
        match self {
            PagePart::Text(text) => format!("<p>{}</p>\n", escape_html(&plain_line(text))),
            PagePart::Spans(spans) => format!("<p>{}</p>\n", html_spans(spans)),
            PagePart::SpanList(items) => {
                let item = |item: &Vec<Span>| format!("<li>{}</li>\n", html_spans(item));
                format!("<ul>\n{}</ul>\n", items.iter().map(item).collect::<String>())
            }
            PagePart::Quote(text) => format!("<pre>{}</pre>\n", escape_html(text.trim_end())),
            PagePart::List(items) => {
                let item = |item: &String| format!("<li>{}</li>\n", escape_html(&plain_line(item)));
                format!("<ul>\n{}</ul>\n", items.iter().map(item).collect::<String>())
            }
        }
    }
}

/// Puts into code spans all text that a forge would turn into a mention, a link or a reference: `@`, `://`, `www.`, and
/// `#` before a digit. All other backticks on the page are escaped, so no code span is open where this function adds a
/// code span.
fn neutralize(text: &str) -> String {
    let (mut inert, mut rest, mut in_code) = (String::with_capacity(text.len()), text, false);
    while let Some(next) = rest.chars().next() {
        let taken = active_prefix_len(rest);
        if (taken > 0) != in_code {
            inert.push('`');
            in_code = taken > 0;
        }
        let end = if in_code { taken } else { next.len_utf8() };
        // A number sign is already escaped, and inside code the backslash would be visible.
        inert.push_str(if in_code { rest[..end].trim_start_matches('\\') } else { &rest[..end] });
        rest = &rest[end..];
    }
    if in_code {
        inert.push('`');
    }
    inert
}

/// Returns the number of bytes at the start of a text that a forge would turn into a mention, link
/// or reference.
fn active_prefix_len(text: &str) -> usize {
    let begins = |with: &str| text.get(..with.len()).is_some_and(|s| s.eq_ignore_ascii_case(with));
    let is_number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    if begins("@") {
        1
    } else if begins("://") {
        3
    } else if begins("www.") {
        4
    } else if text.strip_prefix("\\#").is_some_and(is_number) {
        2
    } else {
        0
    }
}

/// Renders a text on a single line, such that Markdown treats it as plain text.
fn markdown_line(text: &str) -> String {
    let mut line = String::new();
    for c in replace_hidden(text).replace('\n', " ").chars() {
        match c {
            '<' => line += "&lt;",
            '&' => line += "&amp;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' => line.extend(['\\', c]),
            c => line.push(c),
        }
    }
    // The beginning of the line could still start a list, a quote or a heading.
    if line.trim_start().starts_with(['-', '+', '>', '=']) {
        format!("\\{}", line.trim_start())
    } else {
        line
    }
}

fn markdown_spans(spans: &[Span], reader: MarkdownReader) -> String {
    let span = |span: &Span| match (span, reader) {
        (Span::Code(code), MarkdownReader::Terminal) => code_span(code),
        (Span::Text(text) | Span::Code(text), _) => markdown_line(text),
    };
    spans.iter().map(span).collect()
}

/// Renders a code span whose fence is longer than any run of backticks in the text.
fn code_span(text: &str) -> String {
    let text = replace_hidden(text).replace('\n', " ");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    // A space keeps a backtick at the start or end of the text apart from the fence.
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

fn html_spans(spans: &[Span]) -> String {
    let span = |span: &Span| match span {
        Span::Text(text) => escape_html(&plain_line(text)),
        Span::Code(code) => format!("<code>{}</code>", escape_html(&plain_line(code))),
    };
    spans.iter().map(span).collect()
}

fn plain_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Escapes a text for HTML.
fn escape_html(text: &str) -> String {
    let mut safe = String::new();
    for c in replace_hidden(text).chars() {
        match c {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c => safe.push(c),
        }
    }
    safe
}

/// Replaces characters that control a terminal, change the writing direction, or are invisible.
fn replace_hidden(text: &str) -> String {
    let hidden = |c: char| is_deceptive(c) && c != '\n' && c != '\t';
    text.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forge_markdown_has_no_mentions_or_links() {
        let mut page = ReportPage::new("x");
        let text = "ask @octo @@team/x, see https://a.example and WWW.b.example, as in o/r#12 \u{202e}\u{200b}c\\d #e a@b.example";
        page.add_section("Said", [PagePart::Quote(text.to_owned())]);
        let expected = "> ask `@`octo `@@`team/x, see https`://`a.example and `WWW.`b.example, as in o/r`#`12 \u{fffd}\u{fffd}c\\\\d \\#e a`@`b.example";
        assert_eq!(page.to_forge_markdown(), format!("# x\n\n## Said\n\n{expected}\n"));
    }

    #[test]
    fn paths_are_code_spans_except_on_a_forge() {
        let mut page = ReportPage::new("x");
        let code = |text: &str| Span::Code(text.to_owned());
        let tail = Span::Text(": a_b".to_owned());
        let items = vec![vec![code("c1-2\u{202e}~9_af\n#1"), tail], vec![code("a ``b`")]];
        page.add_section("Proved", [PagePart::SpanList(items)]);
        let expected = "# x\n\n## Proved\n\n- `c1-2\u{fffd}~9_af #1`: a\\_b\n- ``` a ``b` ```\n";
        assert_eq!(page.to_markdown(), expected);
        let forge = page.to_forge_markdown();
        assert!(forge.contains("- c1-2\u{fffd}\\~9\\_af `#`1: a\\_b\n"), "{forge}");
        let html = page.to_html();
        assert!(html.contains("<li><code>c1-2\u{fffd}~9_af #1</code>: a_b</li>"), "{html}");
    }

    #[test]
    fn quoted_text_is_escaped() {
        let mut page = ReportPage::new("x: <b>\n# y");
        page.add_section(
            "Asked",
            [PagePart::Quote("# Proved\n- all\n<script>alert('1')</script>\u{1b}[2J".to_owned())],
        );
        page.add_section(
            "Decided",
            [PagePart::List(vec!["a\n## b `c`".to_owned(), "- d".to_owned()])],
        );
        page.add_section("Nothing", []);
        let expected = [
            r"# x: &lt;b> \# y",
            "\n## Asked",
            "\n> \\# Proved\n> \\- all\n> &lt;script>alert('1')&lt;/script>\u{fffd}\\[2J",
            "\n## Decided",
            "\n- a \\#\\# b \\`c\\`\n- \\- d\n",
        ];
        assert_eq!(page.to_markdown(), expected.join("\n"));
        let html = page.to_html();
        assert!(html.contains("<h1>x: &lt;b&gt; # y</h1>"), "{html}");
        assert!(html.contains("&lt;script&gt;alert(&#39;1&#39;)"), "{html}");
        assert!(!html.contains("<script"), "{html}");
    }
}
