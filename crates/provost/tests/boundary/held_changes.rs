//! Changes of trusted or protected files, and commands that an agent wrote, wait for the operator.
