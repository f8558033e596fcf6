//! Repositories that nobody has trusted yet.
