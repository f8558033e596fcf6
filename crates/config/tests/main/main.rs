//! The configuration from outside: layers, messages, provenance, schema, reference and files.

mod agent_section;
mod agents;
mod approvals;
mod explain;
mod files;
mod hooks;
mod layers;
mod loops;
mod messages;
mod outputs;
mod runs;
mod support;
mod variables;
mod workflows;
