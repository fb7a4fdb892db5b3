//! Every benchmark of the project, as tables.

fn main() {}
