//! Hardening on the real binary: crashes at every commit, bad input, and floods.

mod crash;
mod damage;
mod disk;
mod flood;
mod homes;
mod input;
mod kit;
mod races;
mod shortages;
