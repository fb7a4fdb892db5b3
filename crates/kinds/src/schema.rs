//! Schemas of the built-in kinds.
