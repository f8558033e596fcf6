//! Scenarios: the instructions of a scripted agent, parsed strictly from TOML.

mod flood;
mod parse;
mod sample;
mod step;
mod text;

pub use flood::write_flood;
pub use parse::{Error, parse};
pub use sample::{sample, sample_names};
pub use step::{
    Action, Bytes, Channel, Expect, FileText, Flood, Forgery, Kind, LateReport, OnEof, OneLine,
    ReadLine, Record, Repeat, Report, Run, Scenario, Spawn, Step, True, WaitFile, WaitInput,
};
pub use text::{RUNTIME_NAMES, render};
