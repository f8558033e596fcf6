//! Tests of the pure domain through its public surface.

mod contract;
mod kit;
mod purity;
mod stories;
mod verdict;
