//! Opens files that an agent can write: follows no link, never blocks, reads at most a stated number of bytes.
