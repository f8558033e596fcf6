//! Teams, through the commands that users and programs run.

mod bundles;
mod criteria;
mod delivery;
mod faces;
mod gates;
mod hints;
mod keys;
mod kit;
mod looking_back;
mod pictures;
mod policy;
mod proposals;
mod reaching;
mod retention;
mod texts;
mod tools;
mod tour;
mod truth;
