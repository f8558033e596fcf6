//! Attacks on the security boundary of the real binary. Each test is named after the finding it reproduces.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, also in helpers")]

mod approval_rules;
mod forged_records;
mod git_programs;
mod held_changes;
mod identity;
mod pipes;
mod quotas;
mod stalls;
mod trust;
mod untrusted_input;
