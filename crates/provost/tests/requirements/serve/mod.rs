//! `provost serve`: each issue of a tracker becomes one run, which follows the state of its issue.

mod cancelled_issues;
mod dispatched_issues;
mod github;
mod rejected_workflows;
mod retries_and_restarts;
mod serve_env;
mod workflow_reload;
