//! Bad input: every case has a clear error, and nothing is lost.

mod excess;
mod http;
mod names;
mod output;
mod reports;
mod socket;
