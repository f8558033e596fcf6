//! The holder and the agent are killed: another end than the undisturbed one, and a defined one.
