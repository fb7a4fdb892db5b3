//! `clusters/<name>/proxy`: the API of a member, reached through the control plane as whoever asks.
//! The member sees the impersonator's token and the caller's name; what the caller may do there is
//! for the member to decide. `clusters/*/proxy` asks all members at once.

mod fan_out;
mod transport;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::FutureExt as _;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use karmada_api::cluster::{Cluster, LocalSecretReference, SECRET_TOKEN_KEY};
use karmada_api::meta::Kind as _;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupResource, Gvr};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apiserver::Handle;
use karmada_apiserver::auth::Identity;
use karmada_apiserver::connect::{Connect, Connected, Connection};
use karmada_apiserver::http::body::{self, Body};
use karmada_apiserver::http::relay::Way;
use karmada_client::Client;
use karmada_member_sim::Network;

/// The way into a member of the same process, by its endpoint.
pub(crate) type Shortcut = Arc<dyn Fn(&str) -> Option<Network> + Send + Sync>;

/// Groups every caller is in by itself; the member adds them.
const IMPLIED_GROUPS: [&str; 2] = ["system:authenticated", "system:unauthenticated"];

/// Serves `clusters/proxy` of the control plane's API server.
pub(crate) fn serve(handle: &Handle, shortcut: Shortcut) -> Proxy {
    let proxy = Proxy { handle: handle.clone(), shortcut, front: None };
    install(proxy.clone());
    proxy
}

/// Serves `clusters/proxy` behind another API server, which keeps the credentials of members.
pub(crate) fn serve_behind(handle: &Handle, front: Client) {
    let nobody: Shortcut = Arc::new(|_| None);
    install(Proxy { handle: handle.clone(), shortcut: nobody, front: Some(front) });
}

fn install(proxy: Proxy) {
    let handle = proxy.handle.clone();
    handle.connect((Cluster::GROUP, Cluster::PLURAL, "proxy"), Arc::new(proxy));
}

/// The way into members, for whoever asks.
#[derive(Clone)]
pub(crate) struct Proxy {
    handle: Handle,
    shortcut: Shortcut,
    /// The API server in front, if Clusters are served behind one.
    front: Option<Client>,
}

impl Connect for Proxy {
    fn connect(&self, connection: Connection) -> Connected {
        let proxy = self.clone();
        async move {
            match (connection.name.as_str(), connection.object.as_ref()) {
                ("*", _) => fan_out::answer(&proxy, connection).await,
                (name, None) => Err(Status::not_found(&clusters(), name)),
                (_, Some(object)) => {
                    let cluster = Cluster::from_value(object)
                        .map_err(|error| Status::internal(format!("read the cluster: {error}")))?;
                    proxy.forward(&cluster, connection).await
                }
            }
        }
        .boxed()
    }
}

fn clusters() -> GroupResource {
    GroupResource::new(Cluster::GROUP, Cluster::PLURAL)
}

impl Proxy {
    /// Passes a request on to one member and its answer back.
    pub(crate) async fn forward(
        &self,
        cluster: &Cluster,
        mut connection: Connection,
    ) -> Result<Response<Body>, Status> {
        let is_read = matches!(*connection.request.method(), Method::GET | Method::HEAD);
        if connection.rest.is_empty() && is_read {
            return Ok(with_slash(&connection));
        }
        let wants_upgrade = connection.wants_upgrade().is_some();
        let client = wants_upgrade.then(|| connection.upgrade());
        let Connection { request, rest, user, .. } = connection;
        let request = self.rewrite(cluster, request, &rest, &user).await?;
        match client {
            Some(client) => {
                let way = self.open(cluster).await?;
                way.switch(request, client).await.map_err(unreachable)
            }
            None => self.send(cluster, request).await,
        }
    }

    /// The control plane answers as to the caller itself.
    pub(crate) async fn ask_plane(
        &self,
        mut connection: Connection,
    ) -> Result<Response<Body>, Status> {
        let upgrade = connection.wants_upgrade().is_some().then(|| connection.upgrade());
        let Connection { mut request, rest, user, .. } = connection;
        let path = if rest.is_empty() { "/".to_owned() } else { rest };
        let path = match request.uri().query() {
            Some(query) => format!("{path}?{query}"),
            None => path,
        };
        *request.uri_mut() = path.parse().map_err(|_| Status::bad_request("the path is none"))?;
        request.extensions_mut().clear();
        if let Some(front) = &self.front {
            return fan_out::ask_front(front, request, &user).await;
        }
        // The caller is known by now, also if it was named by somebody else.
        forget_caller(request.headers_mut());
        request.extensions_mut().insert(user);
        if let Some(upgrade) = upgrade {
            request.extensions_mut().insert(upgrade);
        }
        Ok(self.handle.answer(request).await)
    }

    /// A cluster, as the server knows it.
    pub(crate) fn cluster(&self, name: &str) -> Result<Cluster, Status> {
        let found = self.handle.objects().get(&clusters(), "", name);
        let found = found.ok_or_else(|| Status::not_found(&clusters(), name))?;
        Cluster::from_value(&found)
            .map_err(|error| Status::internal(format!("read the cluster: {error}")))
    }

    /// Sends a request that is ready for the member.
    async fn send(
        &self,
        cluster: &Cluster,
        request: Request<Body>,
    ) -> Result<Response<Body>, Status> {
        if cluster.spec.proxy_url.is_empty()
            && let Some(network) = (self.shortcut)(&cluster.spec.api_endpoint)
        {
            return network.answer(request).await.map_err(unreachable);
        }
        let way = self.open(cluster).await?;
        way.send(request).await.map_err(unreachable)
    }

    async fn open(&self, cluster: &Cluster) -> Result<Way, Status> {
        let secret = match &cluster.spec.secret_ref {
            Some(name) => self.secret(name).await?,
            None => None,
        };
        transport::open(cluster, secret.as_deref()).await.map_err(unreachable)
    }

    /// Makes the caller's request one of the impersonator for the caller.
    async fn rewrite(
        &self,
        cluster: &Cluster,
        mut request: Request<Body>,
        rest: &str,
        user: &Identity,
    ) -> Result<Request<Body>, Status> {
        let name = &cluster.metadata.name;
        if cluster.spec.api_endpoint.is_empty() {
            let message = format!("API endpoint of cluster {name} should not be empty");
            return Err(Status::internal(message));
        }
        let Some(reference) = &cluster.spec.impersonator_secret_ref else {
            let message = format!("the impersonatorSecretRef of cluster {name} is nil");
            return Err(Status::internal(message));
        };
        let token =
            self.secret(reference).await?.and_then(|secret| token(&secret)).ok_or_else(|| {
                let LocalSecretReference { namespace, name } = reference;
                Status::internal(format!("failed to get token from secret {namespace}/{name}"))
            })?;
        let path = if rest.is_empty() { "/" } else { rest };
        let target = match request.uri().query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        *request.uri_mut() = target
            .parse()
            .map_err(|error| Status::bad_request(format!("path {target}: {error}")))?;
        identify(request.headers_mut(), &token, user)?;
        // What this server knows about the caller is not the member's business.
        request.extensions_mut().clear();
        Ok(request)
    }

    async fn secret(&self, name: &LocalSecretReference) -> Result<Option<Arc<Value>>, Status> {
        let LocalSecretReference { namespace, name } = name;
        let Some(front) = &self.front else {
            let secrets = GroupResource::new("", "secrets");
            return Ok(self.handle.objects().get(&secrets, namespace, name));
        };
        let secrets = front.api(&Gvr::new("", "v1", "secrets")).namespaced(namespace);
        let found = secrets.find(name).await.map_err(|error| {
            Status::internal(format!("failed to get secret {namespace}/{name}: {error}"))
        })?;
        Ok(found.map(Arc::new))
    }

    fn clusters(&self) -> Vec<Cluster> {
        let found = self.handle.objects().list(&clusters(), None).into_iter();
        found.filter_map(|cluster| Cluster::from_value(&cluster).ok()).collect()
    }
}

fn token(secret: &Value) -> Option<String> {
    let token = BASE64.decode(secret.str_at(&["data", SECRET_TOKEN_KEY])?).ok()?;
    String::from_utf8(token).ok().filter(|token| !token.is_empty())
}

/// Headers that say who asks, to one kind of server or another.
fn names_somebody(name: &header::HeaderName) -> bool {
    *name == header::AUTHORIZATION
        || ["impersonate-", "x-remote-"].iter().any(|prefix| name.as_str().starts_with(prefix))
}

fn forget_caller(headers: &mut HeaderMap) {
    let own: Vec<_> = headers.keys().filter(|name| names_somebody(name)).cloned().collect();
    for name in own {
        headers.remove(name);
    }
}

/// Makes the headers those of the impersonator, acting for the caller.
fn identify(headers: &mut HeaderMap, token: &str, user: &Identity) -> Result<(), Status> {
    impersonate(headers, user)?;
    headers.insert(header::AUTHORIZATION, header_value(&format!("Bearer {token}"))?);
    Ok(())
}

/// What cannot be said in a header must not be left out either: nobody else may be meant then.
fn header_value(text: &str) -> Result<HeaderValue, Status> {
    HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| Status::bad_request("the name of the caller cannot be passed on"))
}

/// Replaces whatever the caller identified itself with by its name and groups. Compat: uid and extra
/// fields stay here; the impersonator may not act for those.
fn impersonate(headers: &mut HeaderMap, user: &Identity) -> Result<(), Status> {
    forget_caller(headers);
    headers.insert("impersonate-user", header_value(&user.user)?);
    for group in user.groups.iter().filter(|group| !IMPLIED_GROUPS.contains(&group.as_str())) {
        headers.append("impersonate-group", header_value(group)?);
    }
    Ok(())
}

/// Paths below a proxy are relative to it, so it has to end in a slash.
fn with_slash(connection: &Connection) -> Response<Body> {
    let uri = connection.request.uri();
    let place = match uri.query() {
        Some(query) => format!("{}/?{query}", uri.path()),
        None => format!("{}/", uri.path()),
    };
    let mut response = body::text(StatusCode::MOVED_PERMANENTLY, "");
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

fn unreachable(error: impl std::fmt::Display) -> Status {
    Status::unavailable(format!("error trying to reach service: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_arrive_as_themselves_and_as_nobody_else() {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer mine"));
        headers.insert("impersonate-user", HeaderValue::from_static("root"));
        headers.insert("impersonate-extra-a", HeaderValue::from_static("b"));
        headers.insert("x-remote-user", HeaderValue::from_static("root"));
        headers.insert("x-remote-group", HeaderValue::from_static("system:masters"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let user = Identity::new("ada", ["dev", "system:authenticated", "ops"]);
        identify(&mut headers, "t", &user).unwrap();
        let mut found: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                "accept: application/json",
                "authorization: Bearer t",
                "impersonate-group: dev",
                "impersonate-group: ops",
                "impersonate-user: ada",
            ]
        );
        let hostile = Identity::new("ada\r\nimpersonate-group: system:masters", [""; 0]);
        assert!(identify(&mut headers, "t", &hostile).is_err());
    }
}
