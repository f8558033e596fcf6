//! What the byte stream of a terminal says: sequences in it, its title, and the screen that it draws; and when one is
//! written to that somebody else reads.
//!
//! Whatever runs in a terminal can write all of this. It may raise a person's attention and take that back; it
//! never ends a turn.

mod scan;
mod screen;
mod title;
mod writes;

pub use scan::{AgentState, Blocked, Heard, Scanner, Signal};
pub use screen::{MOST_COLUMNS, MOST_ROWS, Screen};
pub use title::{TitleState, title_state};
pub use writes::{WriteTicket, Writes};
