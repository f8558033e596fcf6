//! Tests of teams: messages, criteria, loops, permissions and finishing.

mod calling;
mod checking;
mod cleaning;
mod criteria;
mod delivery;
mod drafting;
mod ends;
mod hostile;
mod kit;
mod loops;
mod model;
mod news;
mod pictures;
mod policy;
mod prompts;
mod proposing;
mod reaching;
mod recipes;
mod roles;
mod templates;
mod undelivered;
mod waits;
mod waking;
mod whose_loop;
mod words;
