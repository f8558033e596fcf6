//! Hardening on the real binary: crashes at every commit, bad input, and floods.

mod crash;
mod input;
mod kit;
