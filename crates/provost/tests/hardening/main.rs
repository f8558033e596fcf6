//! Hardening tests on the real binary: crashes at every commit, bad input, and floods.

#[expect(clippy::print_stdout, reason = "a campaign prints its seed and the faults it skips")]
mod campaign;
mod crash;
mod damage;
mod disk;
mod flood;
mod homes;
mod input;
mod kit;
mod races;
mod recovery;
mod scripts;
mod shortages;
