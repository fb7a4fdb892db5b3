//! Commands in a container, and attaching to what it says.

use futures::StreamExt as _;
use http::Response;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::time::format_time;
use karmada_apiserver::connect::Connection;
use karmada_apiserver::http::body::Body;
use karmada_runtime::ObjectKey;

use super::shell::Inside;
use super::terminal::{self, Terminal};
use super::{Kubelets, log};

/// What a terminal sends for the end of input and for an interruption.
const END: u8 = 4;
const INTERRUPT: u8 = 3;
const DELETE: u8 = 127;

pub(super) async fn run(
    kubelets: Kubelets,
    connection: Connection,
) -> Result<Response<Body>, Status> {
    let pod = connection.object.clone().unwrap_or_default();
    let running = pod.str_at(&["status", "phase"]) == Some("Running")
        && log::running_since(&pod, &connection.container).is_ok();
    if !running {
        let why = format!(
            "unable to upgrade connection: container not found (\"{}\")",
            connection.container
        );
        return Err(Status::internal(why));
    }
    let query = connection.query();
    let words: Vec<String> = query.all("command").into_iter().map(str::to_owned).collect();
    let (tty, stdin) = (query.flag("tty") == Some(true), query.flag("stdin") == Some(true));
    let date = format_time(kubelets.clock.now());
    let inside = Inside::of(&pod, &connection.container, date);
    terminal::accept(connection, async move |mut terminal| {
        let is_shell = words.len() == 1
            && matches!(words[0].rsplit('/').next(), Some("sh" | "bash" | "ash" | "dash"));
        let echoes = words.len() == 1 && words[0].ends_with("cat");
        let code = match (stdin, is_shell, echoes) {
            (true, true, _) => interact(&mut terminal, &inside, tty).await,
            (true, _, true) => {
                while let Some(typed) = terminal.read().await {
                    terminal.print(&typed).await;
                }
                0
            }
            _ => {
                let output = inside.run(&words);
                show(&mut terminal, &output.stdout, &output.stderr, tty).await;
                output.code
            }
        };
        terminal.exit(code).await;
    })
}

/// On a terminal everything comes through one stream, with the line ends of one.
async fn show(terminal: &mut Terminal, stdout: &str, stderr: &str, tty: bool) {
    if tty {
        let text = format!("{stdout}{stderr}").replace('\n', "\r\n");
        terminal.print(text.as_bytes()).await;
    } else {
        terminal.print(stdout.as_bytes()).await;
        terminal.complain(stderr.as_bytes()).await;
    }
}

/// A shell that reads its commands line by line.
async fn interact(terminal: &mut Terminal, inside: &Inside, tty: bool) -> i32 {
    let (mut line, mut code) = (Vec::new(), 0);
    if tty {
        terminal.print(b"/ # ").await;
    }
    while let Some(typed) = terminal.read().await {
        for byte in typed {
            match byte {
                b'\r' | b'\n' => {
                    if tty {
                        terminal.print(b"\r\n").await;
                    }
                    let command = String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned();
                    let output = inside.script(&command);
                    show(terminal, &output.stdout, &output.stderr, tty).await;
                    code = output.code;
                    if output.exits {
                        return code;
                    }
                    if tty {
                        terminal.print(b"/ # ").await;
                    }
                }
                END if line.is_empty() => return code,
                INTERRUPT => {
                    line.clear();
                    terminal.print(b"^C\r\n/ # ").await;
                }
                DELETE if tty => {
                    if line.pop().is_some() {
                        terminal.print(b"\x08 \x08").await;
                    }
                }
                byte => {
                    line.push(byte);
                    if tty {
                        terminal.print(&[byte]).await;
                    }
                }
            }
        }
    }
    if !line.is_empty() {
        let output = inside.script(&String::from_utf8_lossy(&line));
        show(terminal, &output.stdout, &output.stderr, tty).await;
        code = output.code;
    }
    code
}

/// Shows what the container says until the client leaves or the pod goes.
pub(super) async fn attach(
    kubelets: Kubelets,
    connection: Connection,
) -> Result<Response<Body>, Status> {
    let pod = connection.object.clone().unwrap_or_default();
    let since = log::running_since(&pod, &connection.container)?;
    let key = ObjectKey::new(connection.namespace.as_str(), connection.name.as_str());
    let container = connection.container.clone();
    terminal::accept(connection, async move |mut terminal| {
        let said = log::so_far(&pod, &container, since, kubelets.clock.now());
        terminal.print(said.as_bytes()).await;
        let more = log::follow(kubelets, (key, pod.uid().to_owned()), since, false);
        futures::pin_mut!(more);
        while let Some(line) = more.next().await {
            if !terminal.print(&line).await {
                return;
            }
        }
        terminal.exit(0).await;
    })
}
