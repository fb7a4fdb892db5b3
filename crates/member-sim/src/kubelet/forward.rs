//! Ports of pods. Nothing listens in a simulated pod: a port leads to an address that the member was
//! told to stand for it, or to a server that says which pod was reached.

use std::collections::HashMap;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::Response;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apiserver::connect::Connection;
use karmada_apiserver::http::body::Body;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::spdy::{self, Output, Stream};
use super::terminal::{self, Protocol};
use super::{Kubelets, websocket};

const PROTOCOL: [&str; 1] = ["portforward.k8s.io"];
/// The same inside a WebSocket, byte for byte.
const TUNNELLED: [&str; 1] = ["SPDY/3.1+portforward.k8s.io"];
/// Bytes that may wait between a WebSocket and the protocol inside.
const BUFFER: usize = 64 << 10;
/// The longest request that is read before it is answered.
const LONGEST_REQUEST: usize = 64 << 10;

pub(super) async fn open(
    kubelets: Kubelets,
    connection: Connection,
) -> Result<Response<Body>, Status> {
    let pod = connection.object.clone().unwrap_or_default();
    if pod.str_at(&["status", "phase"]) != Some("Running") {
        let phase = pod.str_at(&["status", "phase"]).unwrap_or("Pending");
        let why =
            format!("unable to forward port because pod is not running. Current status={phase}");
        return Err(Status::bad_request(why));
    }
    match Protocol::of(&connection)? {
        Protocol::Spdy => terminal::accept_spdy(connection, &PROTOCOL, async move |streams| {
            forward(kubelets, pod, streams).await;
        }),
        Protocol::WebSocket => websocket::accept(connection, &TUNNELLED, async move |socket| {
            let (inside, outside) = tokio::io::duplex(BUFFER);
            let streams = spdy::serve(inside);
            tokio::join!(forward(kubelets, pod, streams), tunnel(socket, outside));
        }),
    }
}

/// Carries bytes between a WebSocket and what is spoken inside it.
async fn tunnel(socket: websocket::Socket, inside: DuplexStream) {
    let (mut outgoing, mut incoming) = socket.split();
    let (mut read, mut write) = tokio::io::split(inside);
    let to_client = async {
        let mut piece = vec![0; BUFFER];
        while let Ok(length) = read.read(&mut piece).await {
            let message = Message::Binary(Bytes::copy_from_slice(&piece[..length]));
            if length == 0 || outgoing.send(message).await.is_err() {
                break;
            }
        }
        // The client may be gone already.
        let _ = outgoing.close().await;
    };
    let from_client = async {
        while let Some(Ok(message)) = incoming.next().await {
            match message {
                Message::Binary(data) if write.write_all(&data).await.is_err() => break,
                Message::Close(_) => break,
                _ => {}
            }
        }
        // Ends the protocol inside; it may have ended itself.
        let _ = write.shutdown().await;
    };
    tokio::join!(to_client, from_client);
}

/// Serves the connections of one client: each is a pair of streams with the same request id.
async fn forward(kubelets: Kubelets, pod: Value, mut streams: mpsc::Receiver<Stream>) {
    let mut waiting: HashMap<String, Stream> = HashMap::new();
    while let Some(stream) = streams.recv().await {
        let header = |name: &str| stream.headers.get(name).cloned().unwrap_or_default();
        let (request, port) =
            (format!("{}/{}", header("requestid"), header("port")), header("port"));
        let is_error = header("streamtype") == "error";
        match waiting.remove(&request) {
            None => drop(waiting.insert(request, stream)),
            Some(other) => {
                let (data, error) = if is_error { (other, stream) } else { (stream, other) };
                let (kubelets, pod) = (kubelets.clone(), pod.clone());
                tokio::spawn(async move {
                    let port = port.parse().unwrap_or_default();
                    if let Err(why) = connect(&kubelets, &pod, port, data).await {
                        error.output.send(why.as_bytes()).await;
                    }
                    error.output.end().await;
                });
            }
        }
    }
}

async fn connect(
    kubelets: &Kubelets,
    pod: &Value,
    port: u16,
    Stream { input, output, .. }: Stream,
) -> Result<(), String> {
    let refuse = |why: &dyn std::fmt::Display| {
        format!("error forwarding port {port} to pod {}, uid : {why}", pod.uid())
    };
    if let Some(address) = kubelets.forwards.get(&port) {
        let stream = TcpStream::connect(address).await.map_err(|error| refuse(&error))?;
        pass(stream, input, output).await;
        return Ok(());
    }
    if !listens(pod, port) {
        output.end().await;
        return Err(refuse(&"connect: connection refused"));
    }
    introduce(pod, port, input, output).await;
    Ok(())
}

/// A pod that names ports listens on these; one that names none may listen anywhere.
fn listens(pod: &Value, port: u16) -> bool {
    let containers = pod.list_at(&["spec", "containers"]).iter();
    let ports: Vec<_> = containers
        .flat_map(|container| container.list_at(&["ports"]))
        .filter_map(|port| port.i64_at(&["containerPort"]))
        .collect();
    ports.is_empty() || ports.contains(&i64::from(port))
}

async fn pass(stream: TcpStream, mut input: mpsc::Receiver<Bytes>, output: Output) {
    let (mut read, mut write) = stream.into_split();
    let there = async {
        while let Some(data) = input.recv().await {
            if write.write_all(&data).await.is_err() {
                return;
            }
        }
        // It may have closed first.
        let _ = write.shutdown().await;
    };
    let back = async {
        let mut piece = vec![0; BUFFER];
        while let Ok(length) = read.read(&mut piece).await {
            if length == 0 || !output.send(&piece[..length]).await {
                break;
            }
        }
        output.end().await;
    };
    tokio::join!(there, back);
}

/// Answers an HTTP request with the name of the pod.
async fn introduce(pod: &Value, port: u16, mut input: mpsc::Receiver<Bytes>, output: Output) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST_REQUEST {
        match input.recv().await {
            Some(data) => request.extend_from_slice(&data),
            None => break,
        }
    }
    let text = format!("{} answers on port {port}: nothing really runs here\n", pod.name());
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    output.send(answer.as_bytes()).await;
    output.end().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn pods_listen_on_the_ports_they_name() {
        let silent = json!({"spec": {"containers": [{}]}});
        let web = json!({"spec": {"containers": [{}, {"ports": [{"containerPort": 80}]}]}});
        assert!(listens(&silent, 9) && listens(&web, 80));
        assert!(!listens(&web, 81));
    }
}
