//! Chores of the workspace: `cargo xtask tidy` keeps the map true, `cargo xtask gen` derives tables.

fn main() {}
