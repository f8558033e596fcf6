//! Provost with one more agent.

use std::{process::ExitCode, sync::Arc};

use provost_toy_agent::ToyAdapter;

fn main() -> ExitCode {
    provost::main([Arc::new(ToyAdapter) as _])
}
