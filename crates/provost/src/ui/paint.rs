//! Colors, and when to use them.

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

/// Colors text, or leaves it unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

/// What determines whether an output is colored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColorInputs {
    pub(crate) configured: Color,
    /// Whether `NO_COLOR` is set and not overridden by one of Provost's variables.
    pub(crate) no_color: bool,
    pub(crate) terminal: bool,
}

impl Paint {
    pub(crate) const OFF: Paint = Paint { on: false };

    pub(crate) fn from_inputs(wish: ColorInputs) -> Self {
        let on = match wish.configured {
            Color::Auto => wish.terminal && !wish.no_color,
            Color::Always => !wish.no_color,
            Color::Never => false,
        };
        Paint { on }
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
            Paint::from_inputs(ColorInputs { configured, no_color, terminal }).on
        };
        assert!(on(Color::Auto, false, true));
        assert!(!on(Color::Auto, true, true));
        assert!(!on(Color::Auto, false, false));
        assert!(on(Color::Always, false, false));
        assert!(!on(Color::Always, true, true));
        assert!(!on(Color::Never, false, true));
    }

    #[test]
    fn painted_text_resets_its_color() {
        let paint = Paint { on: true };
        assert_eq!(paint.paint(Tone::Good, "x"), "\u{1b}[32mx\u{1b}[0m");
        assert_eq!(paint.paint(Tone::Plain, "x"), "x");
    }
}
