//! One binary, many programs: argv[0] or the subcommand picks the component.

fn main() {}
