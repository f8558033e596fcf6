//! The holder process: takes on the launch, starts the command, and supervises it until its process
//! tree has verifiably ended.

mod admission;
mod clients;
mod ending;
mod input;
mod leader;
mod masks;
mod output;
mod pace;
mod relay;
mod set_up;
mod stops;
mod supervisor;
mod terminal;

pub(crate) use set_up::{ANSWER_ALREADY, ANSWER_OK, ANSWER_TAKEN_BACK};
pub use set_up::{EXIT_ALREADY, hold};
