//! Plans: parsing, validation, and how tasks are ordered, edited and chained.

mod chains;
mod edits;
mod faults;
mod kit;
mod laws;
mod parsing;
mod reviews;
