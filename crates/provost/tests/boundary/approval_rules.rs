//! Approval rules: what allow, deny and ask match.
