//! Text, bundles, panes and messages from untrusted sources.
