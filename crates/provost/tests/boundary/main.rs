//! The security boundary, attacked on the real binary. Each test is named after the finding that it reproduces.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

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
