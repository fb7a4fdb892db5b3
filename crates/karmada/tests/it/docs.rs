//! Runs the documentation: every `console` block of the guides is typed into a shell, and what is printed must be what
//! the page shows. The guides follow each other on one control plane with three simulated members, so each leaves it as
//! it found it. `KARMADA_BLESS=1` writes what was printed into the pages instead; `KARMADA_GUIDES` names the pages to run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use regex::Regex;

use crate::environment::{confine, has_kubectl};
use crate::server::{PATIENCE, Server, eventually};

/// The pages that have commands, in the order in which they are run.
const GUIDES: &[&str] = &[
    "quick-start.md",
    "kubectl-alone.md",
    "policies.md",
    "two-clusters-in-one-city.md",
    "two-cities-three-centres.md",
    "concepts.md",
    "coming-from-karmada.md",
    "operations.md",
];

/// Pages whose commands are run by a leg of `./test` of the same name.
const LEGS: &[&str] = &["conformance.md"];

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
    let number = Regex::new(r"^(karmada_[a-z_]+(?:\{.*\})?) \d+$").unwrap();
    let blanks = Regex::new(" {2,}").unwrap();
    let lines = text.lines().map(|line| {
        let line = room.replace_all(line, "room for N").into_owned();
        let line = number.replace_all(&line, "$1 N").into_owned();
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
        "scale", "join", "fault",
    ];
    !command
        .split_whitespace()
        .any(|word| writes.contains(&word) || word == "uncordon" || word == "unjoin")
}

/// What a command prints once nothing changes any more; for whoever writes the pages.
fn settled(server: &Server, home: &Path, command: &str) -> String {
    let (mut last, mut since) = (run(server, home, command), Instant::now());
    while since.elapsed() < SETTLED {
        std::thread::sleep(Duration::from_secs(1));
        let next = run(server, home, command);
        if steady(&next) != steady(&last) {
            since = Instant::now();
        }
        last = next;
    }
    last
}

/// Long enough for a workload to arrive, and for a cluster to count as lost.
const SETTLED: Duration = Duration::from_secs(12);
const LOST: Duration = Duration::from_secs(75);

fn bless(server: &Server, home: &Path, step: &mut Step) {
    step.expected = match only_reads(&step.command) {
        true => settled(server, home, &step.command),
        false => run(server, home, &step.command),
    };
    if step.command.contains(" fault ") {
        std::thread::sleep(LOST);
    }
}

fn type_in(server: &Server, home: &Path, step: &Step) {
    let mut printed = run(server, home, &step.command);
    let began = Instant::now();
    while only_reads(&step.command)
        && steady(&printed) != steady(&step.expected)
        && began.elapsed() < PATIENCE
    {
        std::thread::sleep(Duration::from_millis(500));
        printed = run(server, home, &step.command);
    }
    assert_eq!(steady(&printed), steady(&step.expected), "$ {}", step.command);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn play(server: &Server, home: &Path, guide: &str, blessing: bool) {
    let path = folder().join(guide);
    let page = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
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
                    match blessing {
                        true => bless(server, home, step),
                        false => type_in(server, home, step),
                    }
                    written.push_str(&format!("$ {}\n{}", step.command, step.expected));
                }
                written.push_str("```\n");
            }
        }
    }
    if blessing {
        std::fs::write(&path, written).expect("write the page");
    }
}

#[test]
fn the_guides_do_what_they_say() {
    if !has_kubectl() {
        return;
    }
    let blessing = std::env::var_os("KARMADA_BLESS").is_some();
    let wanted = std::env::var("KARMADA_GUIDES").unwrap_or_default();
    let server = Server::up_with(&["--members", "3", "--failover"]);
    let home = server.scratch().join("home");
    std::fs::create_dir_all(home.join(".local/share")).expect("make a home");
    std::os::unix::fs::symlink(server.data(), home.join(".local/share/karmada"))
        .expect("link the data");
    eventually("the members are ready", || {
        let clusters = run(&server, &home, "karmadactl get clusters");
        (clusters.matches(" True ").count() == 3).then_some(())
    });
    for guide in GUIDES.iter().filter(|guide| wanted.is_empty() || wanted.contains(*guide)) {
        eprintln!("{guide}");
        play(&server, &home, guide, blessing);
    }
}

/// The page about kubectl has nothing else: neither our program nor its plugin, nor anything on the machine of a member.
#[test]
fn kubectl_alone_is_kubectl_alone() {
    let page = std::fs::read_to_string(folder().join("kubectl-alone.md")).expect("read the page");
    let parts = parse(&page);
    let consoles = parts.iter().filter_map(|part| match part {
        Part::Console(steps) => Some(steps),
        _ => None,
    });
    let commands: Vec<&str> = consoles.flatten().map(|step| step.command.as_str()).collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        assert!(
            command.starts_with("kubectl ") && !command.contains("kubectl karmada"),
            "{command}"
        );
        assert!(!command.contains("--kubeconfig"), "{command}");
    }
}

/// Commands stand in blocks that are run; a page with some is on the list.
#[test]
fn no_page_has_commands_that_nobody_runs() {
    for entry in std::fs::read_dir(folder()).expect("read docs") {
        let path = entry.expect("read docs").path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let page = std::fs::read_to_string(&path).expect("read a page");
        assert!(!page.contains("```sh") && !page.contains("```bash"), "{name}: use ```console");
        if !LEGS.contains(&name) {
            assert_eq!(page.contains("```console"), GUIDES.contains(&name), "{name}");
        }
    }
}

/// Pictures and pages that are pointed to exist.
#[test]
fn links_between_pages_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)#:]+)(#[^)]*)?\)").unwrap();
    for guide in GUIDES {
        let page = std::fs::read_to_string(folder().join(guide)).expect("read a page");
        for found in link.captures_iter(&page) {
            assert!(folder().join(&found[1]).exists(), "{guide} points to {}", &found[1]);
        }
    }
}
