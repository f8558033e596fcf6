//! What the chores tell the person who runs them: the one place that prints.

/// Prints a line.
#[expect(clippy::print_stdout, reason = "the chores talk to a person, and this is where they do")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}
