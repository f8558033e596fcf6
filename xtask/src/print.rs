//! Prints progress to the user. No other module prints.

/// Prints a line.
#[expect(clippy::print_stdout, reason = "the only place that prints")]
pub(crate) fn print_line(text: &str) {
    println!("{text}");
}
