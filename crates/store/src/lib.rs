//! A revisioned key-value store with watch: memory and embedded.
