//! Protocols over recorded lines.

mod jsonl;
