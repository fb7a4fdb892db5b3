//! `clusters/*/proxy`: one request to all members. Lists are put together, a named object is
//! looked for in all of them, and what is about no resource is the control plane's own.

use bytes::Bytes;
use futures::future::join_all;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use karmada_api::cluster::Cluster;
use karmada_apimachinery::Value;
use karmada_apimachinery::status::Status;
use karmada_apiserver::auth::Identity;
use karmada_apiserver::connect::Connection;
use karmada_apiserver::http::body::{self, Body};
use karmada_client::Client;

use super::Proxy;

/// What a path is about.
#[derive(Debug, PartialEq, Eq)]
enum About {
    /// No resource: discovery, health, metrics.
    Server,
    Collection,
    /// One object; the path leads to it, without its subresource.
    Object(String),
}

/// Reads a path such as `/apis/apps/v1/namespaces/a/deployments/b/scale`.
fn about(path: &str) -> About {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let prefix = match segments.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => return About::Server,
    };
    let Some(rest) = segments.get(prefix..).filter(|rest| !rest.is_empty()) else {
        return About::Server;
    };
    // A namespace alone is an object itself.
    let resource = match rest {
        ["namespaces", _, _, ..] => prefix + 2,
        _ => prefix,
    };
    match segments.get(..resource + 2) {
        Some(object) => About::Object(format!("/{}", object.join("/"))),
        None => About::Collection,
    }
}

pub(super) async fn answer(
    proxy: &Proxy,
    connection: Connection,
) -> Result<Response<Body>, Status> {
    match about(&connection.rest) {
        About::Server => proxy.ask_plane(connection).await,
        About::Collection => list(proxy, connection).await,
        About::Object(path) => find(proxy, connection, &path).await,
    }
}

/// Another server in front answers as to the caller as well, not as to this program.
pub(super) async fn ask_front(
    front: &Client,
    mut request: Request<Body>,
    user: &Identity,
) -> Result<Response<Body>, Status> {
    super::impersonate(request.headers_mut(), user)?;
    request.headers_mut().remove(header::HOST);
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(super::unreachable)?.to_bytes();
    let request = Request::from_parts(parts, karmada_client::Body::from(body));
    let answer = front.kube().send(request).await.map_err(super::unreachable)?;
    Ok(answer.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
}

/// Looks for an object everywhere and passes the request on to the cluster that has it.
async fn find(proxy: &Proxy, connection: Connection, path: &str) -> Result<Response<Body>, Status> {
    let clusters = proxy.clusters();
    let user = connection.user.clone();
    let asked = clusters.iter().map(|cluster| get(proxy, cluster, &user, path, None));
    let answers = join_all(asked).await;
    let found: Vec<&Cluster> = clusters
        .iter()
        .zip(answers)
        .filter(|(_, answer)| answer.as_ref().is_some_and(|(code, _)| code.is_success()))
        .map(|(cluster, _)| cluster)
        .collect();
    match found.as_slice() {
        [] => Err(Status::new(
            404,
            "NotFound",
            "resource not found or don't have permission to get it",
        )),
        [cluster] => proxy.forward(cluster, connection).await,
        several => {
            let names: Vec<&str> = several.iter().map(|c| c.metadata.name.as_str()).collect();
            let message =
                format!("conflict resource, exist in more than one cluster: {}", names.join(","));
            Err(Status::new(409, "Conflict", message))
        }
    }
}

/// Puts the lists of all clusters together.
async fn list(proxy: &Proxy, connection: Connection) -> Result<Response<Body>, Status> {
    let method = connection.request.method();
    if method != Method::GET {
        let message = format!("Request verb {} is not support", verb(method));
        return Err(Status::new(405, "MethodNotAllowed", message));
    }
    let clusters = proxy.clusters();
    let Connection { request, rest, user, .. } = connection;
    let query = request.into_parts().0.uri.query().map(str::to_owned);
    let asked = clusters.iter().map(|cluster| get(proxy, cluster, &user, &rest, query.as_deref()));
    let answers = join_all(asked).await.into_iter().flatten();
    let mut lists = answers
        .filter(|(code, _)| code.is_success())
        .filter_map(|(_, bytes)| serde_json::from_slice::<Value>(&bytes).ok());
    let Some(mut all) = lists.next() else {
        return Err(Status::new(404, "NotFound", "not found"));
    };
    for list in lists {
        let more = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        match all.get_mut("items").and_then(Value::as_array_mut) {
            Some(items) => items.extend(more),
            None => all["items"] = more.into(),
        }
    }
    Ok(body::json(StatusCode::OK, &all))
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "deletecollection",
        _ => "unknown",
    }
}

/// Reads a path of one cluster as the caller. A cluster that does not answer has nothing.
async fn get(
    proxy: &Proxy,
    cluster: &Cluster,
    user: &Identity,
    path: &str,
    query: Option<&str>,
) -> Option<(StatusCode, Bytes)> {
    let uri = match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut request = Request::get(&uri).body(body::empty()).ok()?;
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::ACCEPT, json);
    let request = proxy.rewrite(cluster, request, path, user).await.ok()?;
    let response = proxy.send(cluster, request).await.ok()?;
    let code = response.status();
    Some((code, response.into_body().collect().await.ok()?.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_what_they_are_about() {
        let object = |path: &str| About::Object(path.to_owned());
        let cases = [
            ("", About::Server),
            ("/version", About::Server),
            ("/api/v1", About::Server),
            ("/apis/apps/v1", About::Server),
            ("/api/v1/pods", About::Collection),
            ("/api/v1/namespaces", About::Collection),
            ("/api/v1/namespaces/a", object("/api/v1/namespaces/a")),
            ("/api/v1/namespaces/a/pods", About::Collection),
            ("/api/v1/namespaces/a/pods/b/log", object("/api/v1/namespaces/a/pods/b")),
            ("/apis/apps/v1/deployments", About::Collection),
            (
                "/apis/apps/v1/namespaces/a/deployments/b",
                object("/apis/apps/v1/namespaces/a/deployments/b"),
            ),
        ];
        for (path, expected) in cases {
            assert_eq!(about(path), expected, "{path}");
        }
    }
}
