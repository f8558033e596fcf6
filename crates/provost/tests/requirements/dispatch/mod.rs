//! Teams, through the commands that users and programs run.

mod bundles;
mod criteria;
mod delivery;
mod delivery_channels;
mod gates;
mod hints;
mod history;
mod idempotency_keys;
mod image_checks;
mod member_tools;
mod member_views;
mod message_text;
mod policy;
mod proposals;
mod retention;
mod team_env;
mod team_guarantees;
mod tour;
mod waiting;
