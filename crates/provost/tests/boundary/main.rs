//! Attacks on the security boundary of the real binary. Each test is named after the finding it reproduces.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, also in helpers")]

mod approval_gates;
mod approval_rules;
mod codex_trust;
mod commit_trust;
mod disclosure;
mod fifos;
mod forged_records;
mod git_programs;
mod orphans;
mod peer_identity;
mod perl_client;
mod quotas;
mod stalls;
mod trust;
mod untrusted_input;
