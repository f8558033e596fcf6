//! One file for each command: its arguments, whose comments are the help, and what it does.

pub(crate) mod answer;
pub(crate) mod approve;
mod asking;
pub(crate) mod attach;
pub(crate) mod cancel;
mod change;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod exit_codes;
pub(crate) mod gc;
mod input;
pub(crate) mod ledger;
pub(crate) mod limit;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod report;
pub(crate) mod resolve;
pub(crate) mod resume;
pub(crate) mod send;
pub(crate) mod skills;
pub(crate) mod spawn;
pub(crate) mod status;
pub(crate) mod stop;
