//! Runs: real Codex takes a goal through its stages to an outcome.

mod cancellation;
mod crash;
mod end_to_end;
mod final_review;
mod graph;
mod invalid_runs;
mod landing;
mod planning;
mod pull_requests;
mod run_threads;
mod stage_permissions;
mod unattended;
