//! Tests of teams: messages, criteria, loops, permissions and finishing.

mod blind_proposals;
mod clean_up;
mod communication;
mod criteria;
mod criteria_drafts;
mod delivery;
mod delivery_model;
mod finish;
mod hostile_text;
mod kit;
mod loop_ownership;
mod loop_templates;
mod loops;
mod message_text;
mod news;
mod pictures;
mod policy;
mod probe;
mod prompts;
mod push_delivery;
mod recipes;
mod roles;
mod tool_calls;
mod undelivered;
mod waits;
