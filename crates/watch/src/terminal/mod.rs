//! Reads the byte stream of a terminal: its control sequences, title and screen. Also detects
//! writes to a terminal that another program reads.
//!
//! Any program in a terminal can write all of this. It may request the user's attention and
//! withdraw that; it never ends a turn.

mod scan;
mod screen;
mod title;
mod writes;

pub use scan::{AgentState, Blocked, Heard, Scanner, Signal};
pub use screen::{MOST_COLUMNS, MOST_ROWS, Screen};
pub use title::{TitleState, title_state};
pub use writes::{WriteTicket, Writes};
