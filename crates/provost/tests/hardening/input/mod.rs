//! Bad input: every case has a clear error, and nothing is lost.

mod names;
mod offline_reports;
mod output;
mod oversized_input;
mod raw_client;
mod socket;
