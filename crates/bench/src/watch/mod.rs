//! What it costs to watch: a large record of a conversation, and twenty agents in terminals.

mod ingest;
mod terminals;

pub(crate) use ingest::run as ingest;
pub(crate) use terminals::run as terminals;
