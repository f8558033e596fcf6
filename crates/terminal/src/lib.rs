//! Reads the byte stream of a terminal: its control sequences, title and screen. Also detects
//! writes to a terminal that another program reads.
//!
//! Any program in a terminal can write any control sequence, title and text. Such output may
//! therefore request the user's attention, and withdraw that request, but it never ends a turn.

mod escape_scanner;
mod screen;
mod styles;
mod title;
pub mod tmux;
mod write_events;

pub use escape_scanner::{AgentState, BlockedReason, ScannedSignal, Scanner, TerminalSignal};
pub use screen::{MAX_COLUMNS, MAX_ROWS, StyledLine, TerminalScreen};
pub use styles::parse_styles;
pub use title::{TitleState, title_state};
pub use write_events::{WriteQueue, WriteTicket};
