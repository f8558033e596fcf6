//! Hardening tests on the real binary: crashes at every commit, bad input, and floods.

#[expect(clippy::print_stdout, reason = "a campaign prints its seed and the faults it skips")]
mod campaign;
mod crash;
mod damaged_files;
mod full_disk;
mod homes;
mod input;
mod ledger_recovery;
mod operator_script;
mod output_flood;
mod races;
mod shortages;
