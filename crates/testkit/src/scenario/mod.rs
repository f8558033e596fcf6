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
    AgentScenario, EnabledFlag, ExpectedExit, FileText, Flood, Forgery, GrandchildKind, LateReport,
    OnEof, OneLine, OutputChannel, RawBytes, ReadLine, RepeatStep, ReportStep, RolloutStep,
    RunCommandStep, ScenarioStep, SpawnStep, StepAction, WaitFile, WaitInput,
};
pub use text::{RUNTIME_NAMES, render};
