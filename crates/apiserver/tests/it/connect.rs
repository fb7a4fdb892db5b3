//! Connections: streams and upgrades that the embedding program serves.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use karmada_apiserver::Config;
use karmada_apiserver::auth::Identity;
use karmada_apiserver::connect::{Connected, Connection};
use karmada_apiserver::http::body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::Service;

use crate::server::{admin, get, post, server};

const POD: &str =
    r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;

fn log(connection: Connection) -> Connected {
    let line = format!("{} {}\n", connection.name, connection.container);
    let lines = futures::stream::iter((0..3).map(move |_| Bytes::from(line.clone())));
    async move { Ok(Response::new(body::stream(lines))) }.boxed()
}

/// Answers with what it is sent.
fn echo(mut connection: Connection) -> Connected {
    let protocol = connection.wants_upgrade().unwrap_or_default().to_owned();
    let upgrade = connection.upgrade();
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        let mut buffer = [0; 4];
        stream.read_exact(&mut buffer).await.unwrap();
        stream.write_all(&buffer).await.unwrap();
    });
    async move {
        let response = Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header("connection", "Upgrade")
            .header("upgrade", protocol);
        Ok(response.body(body::empty()).unwrap())
    }
    .boxed()
}

// Shows: NEG-8
#[tokio::test(start_paused = true)]
async fn a_connector_streams_its_answer() {
    let server = server(Config::default()).await;
    let path = "/api/v1/namespaces/default/pods";
    assert_eq!(post(&server, admin(), path, POD).await.0, 201);
    server.handle().connect(("", "pods", "log"), Arc::new(log));
    let response = get(&server, admin(), &format!("{path}/p/log")).await;
    assert_eq!(response.status(), 200);
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text, "p c\np c\np c\n");
    assert_eq!(get(&server, admin(), &format!("{path}/q/log")).await.status(), 404);
    let other = get(&server, admin(), &format!("{path}/p/log?container=x")).await;
    assert_eq!(other.status(), 400);
    let nobody = Identity::new("nobody", ["system:authenticated"]);
    assert_eq!(get(&server, nobody, &format!("{path}/p/log")).await.status(), 403);
}

// Shows: NEG-8
#[tokio::test]
async fn a_connector_takes_over_the_connection() {
    let server = server(Config::default()).await;
    let path = "/api/v1/namespaces/default/pods";
    assert_eq!(post(&server, admin(), path, POD).await.0, 201);
    server.handle().connect(("", "pods", "exec"), Arc::new(echo));
    let (near, far) = tokio::io::duplex(4096);
    let acting = server.handle().acting_as(admin());
    tokio::spawn(async move {
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let answer = acting.clone().call(request);
            async move { Ok::<_, Infallible>(answer.await.unwrap()) }
        });
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(far), service)
            .with_upgrades()
            .await
    });
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let request = Request::get(format!("{path}/p/exec?command=ls"))
        .header("host", "x")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket");
    let response = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()["upgrade"], "websocket");
    let mut stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    stream.write_all(b"ping").await.unwrap();
    let mut buffer = [0; 4];
    stream.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"ping");
}
