//! Chores of the workspace. Each is a function in a file of its own and a row in [`TASKS`].

mod generate;
mod golden;
mod metadata;
mod parity;
mod pictures;
mod tidy;

use anyhow::{Result, bail};

struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const TASKS: &[Task] = &[
    Task {
        name: "gen",
        about: "derive the tables of crates/kinds/data (--check: only compare)",
        run: generate::run,
    },
    Task {
        name: "tidy",
        about: "check the map, dependency directions, licences, banned crates and forgotten tests",
        run: tidy::run,
    },
    Task {
        name: "golden",
        about: "import DIR: take recordings of a real API server into the repository",
        run: golden::run,
    },
    Task {
        name: "parity",
        about: "write docs/parity.md from the tests (--check: only compare)",
        run: parity::run,
    },
    Task {
        name: "pictures",
        about: "draw docs/pictures (--check: only compare)",
        run: pictures::run,
    },
];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted = args.first().map_or("", String::as_str);
    if let Some(task) = TASKS.iter().find(|task| task.name == wanted) {
        return (task.run)(&args[1..]);
    }
    eprintln!("usage: cargo xtask TASK");
    for task in TASKS {
        eprintln!("  {:<10} {}", task.name, task.about);
    }
    if matches!(wanted, "" | "help" | "--help" | "-h") {
        return Ok(());
    }
    bail!("no task {wanted:?}")
}
