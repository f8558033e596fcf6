//! The requirements as tests of the real binary. A test name starts with the id of the requirement it proves,
//! if the requirement has one.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

mod agent_authority;
mod concurrent_writers;
mod config_layers;
mod dispatch;
mod doctor;
mod endings;
mod export_import;
mod failures_shown;
mod foreign_agents;
mod foreign_tmux;
mod graphs;
mod guides;
mod home_format_1;
mod hooks;
mod idempotency_keys;
mod json_shapes;
mod limits;
mod listing;
mod liveness;
mod lost_launch_dir;
mod messages;
mod monitor;
mod observation;
mod options;
mod output_flood;
mod reactions;
mod read_only;
mod reading;
mod reports;
mod rollouts;
mod run_cancel;
mod run_env;
mod run_git;
mod run_options;
mod run_safety;
mod run_trust;
mod runs;
mod safety;
mod schemas;
mod screen_signals;
mod serve;
mod sessions;
mod spawn_flags;
mod states;
mod streams;
mod submodules;
mod tmux_panes;
mod tmux_windows;
mod unreadable_records;
mod verification;
mod waits;
