//! The real binary with the real Codex, which uses a scripted model on loopback.
//!
//! Each test is named after the requirement it covers.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, also in helpers")]

mod agent_profile;
mod agent_reports;
mod approvals;
mod attach;
mod codex_env;
mod control;
mod crash_recovery;
mod goals;
mod hosted_terminal;
mod journal;
mod limits;
mod locate_codex;
mod mcp_forms;
mod mcp_reports;
mod one_shot;
mod questions;
mod runs;
mod sandbox_attacks;
mod secrets;
mod team;
mod team_scenario;
mod thread_switch;
mod tmux_panes;
mod tmux_screen;
mod typed_input;
mod verified_work;
