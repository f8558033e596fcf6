//! Colors and line drawings, and when to use them.

use anstyle::{AnsiColor, Style};
use provost_config::Color;

/// The meaning of a text, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    Bold,
    Good,
    Bad,
    Warn,
    Live,
}

/// Colors text and draws lines as far as the output supports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
    charset: Charset,
}

/// The characters with which graphs are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Charset {
    #[default]
    Unicode,
    /// For the locales `C` and `POSIX`, whose terminals may be unable to show other characters.
    Ascii,
}

/// What determines whether an output is colored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColorInputs {
    pub(crate) configured: Color,
    /// Whether `NO_COLOR` is set and not overridden by one of Provost's variables.
    pub(crate) no_color: bool,
    /// Whether `CLICOLOR_FORCE` asks for colors even if the output is not a terminal.
    pub(crate) forced: bool,
    pub(crate) terminal: bool,
}

impl Paint {
    pub(crate) const OFF: Paint = Paint { on: false, charset: Charset::Unicode };

    pub(crate) fn from_inputs(wish: ColorInputs) -> Self {
        let on = match wish.configured {
            Color::Auto => (wish.terminal || wish.forced) && !wish.no_color,
            Color::Always => !wish.no_color,
            Color::Never => false,
        };
        Paint { on, ..Paint::OFF }
    }

    pub(crate) fn with_charset(self, charset: Charset) -> Self {
        Paint { charset, ..self }
    }

    /// Converts a character of a line drawing to one that the output can show.
    pub(crate) fn drawing(self, drawn: char) -> char {
        match (self.charset, drawn) {
            (Charset::Unicode, _) => drawn,
            (Charset::Ascii, '─') => '-',
            (Charset::Ascii, '│') => '|',
            (Charset::Ascii, '├' | '┤' | '┼' | '╰' | '╯' | '┴' | '╭' | '╮' | '┬') => {
                '+'
            }
            (Charset::Ascii, '○') => 'o',
            (Charset::Ascii, '●') => '@',
            (Charset::Ascii, '✓') => '*',
            (Charset::Ascii, '✗') => 'X',
            (Charset::Ascii, '×') => 'x',
            (Charset::Ascii, other) => other,
        }
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let style = style(tone);
        if self.on && style != Style::new() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

fn style(tone: Tone) -> Style {
    let coloured = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    match tone {
        Tone::Plain => Style::new(),
        Tone::Dim => Style::new().dimmed(),
        Tone::Bold => Style::new().bold(),
        Tone::Good => coloured(AnsiColor::Green),
        Tone::Bad => coloured(AnsiColor::Red).bold(),
        Tone::Warn => coloured(AnsiColor::Yellow),
        Tone::Live => coloured(AnsiColor::Cyan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_need_a_terminal_or_a_setting() {
        let on = |configured, no_color, terminal| {
            let forced = false;
            Paint::from_inputs(ColorInputs { configured, no_color, forced, terminal }).on
        };
        assert!(on(Color::Auto, false, true));
        assert!(!on(Color::Auto, true, true));
        assert!(!on(Color::Auto, false, false));
        assert!(on(Color::Always, false, false));
        assert!(!on(Color::Always, true, true));
        assert!(!on(Color::Never, false, true));
    }

    #[test]
    fn clicolor_force_colors_a_pipe_unless_a_setting_forbids_it() {
        let on = |configured, no_color| {
            let wish = ColorInputs { configured, no_color, forced: true, terminal: false };
            Paint::from_inputs(wish).on
        };
        assert!(on(Color::Auto, false));
        assert!(!on(Color::Auto, true));
        assert!(!on(Color::Never, false));
    }

    #[test]
    fn painted_text_resets_its_color() {
        let paint = Paint { on: true, ..Paint::OFF };
        assert_eq!(paint.paint(Tone::Good, "x"), "\u{1b}[32mx\u{1b}[0m");
        assert_eq!(paint.paint(Tone::Plain, "x"), "x");
    }
}
