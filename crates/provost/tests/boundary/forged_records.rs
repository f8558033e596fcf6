//! Records of checks, hooks and other effects that an agent forges.
