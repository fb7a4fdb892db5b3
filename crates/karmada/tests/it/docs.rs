//! Runs the documentation: every `console` block of the guides is typed into a shell, and what is printed must be what
//! the page shows. `KARMADA_BLESS=1` writes what was printed into the pages instead.

use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::environment::{confine, has_kubectl};
use crate::server::{Server, eventually};

/// The guides that are run, each on a control plane of its own with three simulated members.
const GUIDES: &[&str] = &["quick-start.md", "policies.md"];

/// A command of a page and what it printed there.
struct Step {
    command: String,
    expected: String,
}

enum Part {
    /// Prose and blocks that are not run.
    Text(String),
    /// A YAML block that begins with `# file: NAME`.
    File {
        name: String,
        text: String,
    },
    Console(Vec<Step>),
}

/// Cuts a page into parts that together are the page.
fn parse(page: &str) -> Vec<Part> {
    let mut parts = vec![Part::Text(String::new())];
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let is_console = line == "```console";
        if !is_console && line != "```yaml" {
            if let Some(Part::Text(text)) = parts.last_mut() {
                text.push_str(&format!("{line}\n"));
            }
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if is_console {
            parts.push(Part::Console(steps(&block)));
        } else {
            let name =
                block.first().and_then(|line| line.strip_prefix("# file: ")).unwrap_or_default();
            parts.push(Part::File { name: name.to_owned(), text: block.join("\n") + "\n" });
        }
        parts.push(Part::Text(String::new()));
    }
    parts
}

fn steps(block: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                steps.push(Step { command: command.to_owned(), expected: String::new() })
            }
            (None, Some(step)) if step.command.ends_with('\\') => {
                step.command.push_str(&format!("\n{line}"))
            }
            (None, Some(step)) => step.expected.push_str(&format!("{line}\n")),
            (None, None) => panic!("a console block begins with a command, not with {line:?}"),
        }
    }
    steps
}

fn run(server: &Server, home: &Path, command: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = confine(&mut Command::new("bash"), home)
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(server.scratch())
        .env("KUBECONFIG", server.kubeconfig())
        .env("PATH", format!("{}:{path}", server.data().join("bin").display()))
        .output()
        .expect("run bash");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What differs from run to run: ages, and the widths of columns that follow from them.
fn steady(text: &str) -> String {
    let age = Regex::new(r"\b(\d+[dhms])+\b").unwrap();
    let uid = Regex::new(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    let pod = Regex::new(r"\b([a-z-]+)-[0-9a-z]{6,10}-[0-9a-z]{5}\b").unwrap();
    let room = Regex::new(r"room for \d+").unwrap();
    let blanks = Regex::new(" {2,}").unwrap();
    let lines = text.lines().map(|line| {
        let line = room.replace_all(line, "room for N").into_owned();
        let line = uid.replace_all(&line, "UID").into_owned();
        let line = pod.replace_all(&line, "$1-POD").into_owned();
        let line = age.replace_all(&line, "AGE").into_owned();
        blanks.replace_all(&line, " ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Commands that only read are repeated until the system has got there; others are typed once.
fn only_reads(command: &str) -> bool {
    let writes = [
        "apply", "create", "delete", "patch", "label", "annotate", "cordon", "taint", "promote",
        "scale", "join",
    ];
    !command
        .split_whitespace()
        .any(|word| writes.contains(&word) || word == "uncordon" || word == "unjoin")
}

fn type_in(server: &Server, home: &Path, step: &mut Step, bless: bool) {
    if bless {
        if only_reads(&step.command) {
            // Whoever reads the page has given the system a moment, too.
            std::thread::sleep(std::time::Duration::from_secs(3));
        }
        step.expected = run(server, home, &step.command);
        return;
    }
    let mut printed = String::new();
    if only_reads(&step.command) {
        let what = format!("$ {}\nto print\n{}", step.command, step.expected);
        eventually(&what, || {
            printed = run(server, home, &step.command);
            (steady(&printed) == steady(&step.expected)).then_some(())
        });
    } else {
        printed = run(server, home, &step.command);
    }
    assert_eq!(steady(&printed), steady(&step.expected), "$ {}", step.command);
}

fn play(guide: &str) {
    if !has_kubectl() {
        return;
    }
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(guide);
    let page = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    let bless = std::env::var_os("KARMADA_BLESS").is_some();
    let server = Server::up_with(&["--members", "3"]);
    let home = server.scratch().join("home");
    std::fs::create_dir_all(home.join(".local/share")).expect("make a home");
    std::os::unix::fs::symlink(server.data(), home.join(".local/share/karmada"))
        .expect("link the data");
    eventually("the members are ready", || {
        let clusters = run(&server, &home, "karmadactl get clusters");
        (clusters.matches(" True ").count() == 3).then_some(())
    });
    let mut written = String::new();
    for part in &mut parse(&page) {
        match part {
            Part::Text(text) => written.push_str(text),
            Part::File { name, text } => {
                if !name.is_empty() {
                    std::fs::write(server.scratch().join(&*name), &*text)
                        .expect("write a file of the page");
                }
                written.push_str(&format!("```yaml\n{text}```\n"));
            }
            Part::Console(steps) => {
                written.push_str("```console\n");
                for step in steps {
                    type_in(&server, &home, step, bless);
                    written.push_str(&format!("$ {}\n{}", step.command, step.expected));
                }
                written.push_str("```\n");
            }
        }
    }
    if bless {
        std::fs::write(&path, written).expect("write the page");
    }
}

#[test]
fn the_quick_start_does_what_it_says() {
    play(GUIDES[0]);
}

#[test]
fn the_examples_of_policies_do_what_they_say() {
    play(GUIDES[1]);
}
