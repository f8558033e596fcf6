//! Programs that a repository makes git run.
