//! `search.karmada.io`: objects of all members at once. `search/cache` lists what the caches hold;
//! below `proxying/<name>/proxy` stands the API of one large cluster: what registries name is read from
//! the caches and written to the cluster that has it, all else is the control plane's.
//!
//! Who may ask is decided by the rights on `search` and `proxying/proxy`. Compat: reads from the caches
//! are not judged by the members once more; writes are, as those of the caller.

mod feed;
mod keeper;
mod path;
mod present;
mod read;
mod row;
mod selection;
mod versions;
mod watch;

use std::sync::Arc;

use futures::FutureExt as _;
use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use karmada_api::native::API_SERVICES;
use karmada_api::search::GROUP;
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::connect::{Connect, Connected, Connection};
use karmada_apiserver::http::body::{self, Body};
use karmada_apiserver::http::query::Query;
use karmada_apiserver::registry::{Served, VersionPlace};
use karmada_apiserver::{Entrance, Handle, Passage};
use karmada_client::Client;
use karmada_controllers::members::Dial;
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};

use self::feed::Feed;
use self::keeper::{Caches, Keeper};
use self::path::ResourcePath;
use self::read::Read;
use crate::cluster_proxy::Proxy;

/// What an API server takes as a body.
const LARGEST_BODY: usize = 3 << 20;

/// Serves `search` and `proxying`, and keeps the caches they read.
pub(crate) fn serve(server: &Handle, proxy: Proxy, dial: Arc<dyn Dial>, shutdown: &Shutdown) {
    let identity = Identity::new("system:karmada-search", ["system:masters"]);
    let client = Client::beside(server.acting_as(identity)).with_user_agent("karmada-search");
    let clock = Clock::real();
    let manager = Manager::new(client, clock.clone(), Metrics::default(), shutdown.clone());
    let caches = Keeper::start(manager, server.clone(), dial);
    let search =
        Search { server: server.clone(), caches, proxy, clock, shutdown: shutdown.clone() };
    open(server, ("Search", "search"), Entrance::Name, Arc::new(search.clone()));
    let through = Entrance::Subresource("proxy");
    open(server, ("Proxying", "proxying"), through, Arc::new(Proxying(search)));
}

fn open(server: &Handle, (kind, name): (&str, &str), entrance: Entrance, to: Arc<dyn Connect>) {
    let Some(service) = API_SERVICES.iter().find(|service| service.group == GROUP) else { return };
    let place = VersionPlace {
        version: service.version.to_owned(),
        group_priority: service.group_priority,
        version_priority: service.version_priority,
    };
    let gvk = Gvk::new(GROUP, service.version, kind);
    server.open(Passage { gvk, name: name.to_owned(), place, entrance, connect: to });
}

#[derive(Clone)]
struct Search {
    server: Handle,
    caches: Caches,
    proxy: Proxy,
    clock: Clock,
    shutdown: Shutdown,
}

/// `search/<name>/…`
impl Connect for Search {
    fn connect(&self, connection: Connection) -> Connected {
        let answer = match connection.name.as_str() {
            "cache" => Ok(self.cached(&connection)),
            // Compat: the original accepts this and says nothing.
            "opensearch" => Ok(Response::new(body::empty())),
            other => {
                let why = format!("connect with unrecognized search category {other}");
                Err(Status::bad_request(why))
            }
        };
        async move { answer }.boxed()
    }
}

impl Search {
    fn cached(&self, connection: &Connection) -> Response<Body> {
        match self.find_cached(connection) {
            Ok(list) => body::json(StatusCode::OK, &list),
            // Compat: refusals have a form of their own here.
            Err(status) => body::json(body::code_of(&status), &json!({"error": status.message})),
        }
    }

    fn find_cached(&self, connection: &Connection) -> Result<Value, Status> {
        let shown = connection.rest.trim_start_matches('/');
        let path = ResourcePath::parse(&connection.rest).ok_or_else(|| {
            Status::bad_request(format!(
                "k8s native Request URL({shown}) is not a resource request"
            ))
        })?;
        if !path.subresource.is_empty() || path.goes_on {
            let why =
                format!("{shown} leads below an object; objects and lists of them are cached");
            return Err(Status::bad_request(why));
        }
        let Some(feed) = self.caches.find(&path.gvr).or_else(|| self.nothing_of(&path.gvr)) else {
            let Gvr { group, version, resource } = &path.gvr;
            let why = format!("no matches for {group}/{version}, Resource={resource}");
            return Err(Status::unexplained(why));
        };
        self.read(feed, path, connection).everything()
    }

    /// A kind that nobody has asked to keep, but the control plane knows.
    fn nothing_of(&self, gvr: &Gvr) -> Option<Arc<Feed>> {
        let gvk = self.served(gvr)?.gvk.clone();
        Some(Arc::new(Feed::new(gvr.clone(), gvk)))
    }

    fn served(&self, gvr: &Gvr) -> Option<Arc<Served>> {
        let snapshot = self.server.registry().snapshot();
        snapshot.find(&gvr.group, &gvr.version, &gvr.resource).cloned()
    }

    fn read(&self, feed: Arc<Feed>, path: ResourcePath, connection: &Connection) -> Read {
        let served = self.served(&path.gvr);
        let headers = connection.request.headers().clone();
        let query = Query::parse(connection.request.uri().query().unwrap_or_default());
        Read { feed, path, query, headers, served, clock: self.clock.clone() }
    }

    /// Answers as the one large cluster.
    async fn answer(self, connection: Connection) -> Result<Response<Body>, Status> {
        let Some(path) = ResourcePath::parse(&connection.rest) else {
            return self.proxy.ask_plane(connection).await;
        };
        if path.gvr.group == GROUP && path.gvr.resource == "proxying" {
            return Err(Status::bad_request("this way leads to itself"));
        }
        let Some(feed) = self.caches.find(&path.gvr) else {
            return self.proxy.ask_plane(connection).await;
        };
        if !path.is_read(connection.request.method()) {
            return self.pass_on(&feed, &path, connection).await;
        }
        let read = self.read(feed, path, &connection);
        match (read.path.is_watch(&read.query), read.path.name.is_empty()) {
            (true, _) => watch::watch(&read, self.shutdown),
            (false, true) => read.list(),
            (false, false) => read.get(),
        }
    }

    /// Passes a request on to the cluster that has the object.
    async fn pass_on(
        &self,
        feed: &Feed,
        path: &ResourcePath,
        mut connection: Connection,
    ) -> Result<Response<Body>, Status> {
        let method = connection.request.method().clone();
        if path.name.is_empty() {
            let verb = if method == Method::POST { "create" } else { "deletecollection" };
            let resource = feed.gvr.group_resource();
            let why =
                format!("{verb} is not supported on resources of kind {:?}", resource.to_string());
            return Err(Status::new(405, "MethodNotAllowed", why));
        }
        let (cluster, _) = read::find_one(feed, path)?;
        if matches!(method, Method::PUT | Method::PATCH) && connection.wants_upgrade().is_none() {
            restore_body(&mut connection, &cluster).await?;
        }
        let cluster = self.proxy.cluster(&cluster)?;
        self.proxy.forward(&cluster, connection).await
    }
}

/// Objects were changed a little when they were read here; their cluster gets them as it gave them.
async fn restore_body(connection: &mut Connection, cluster: &str) -> Result<(), Status> {
    let kind = connection.request.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/vnd.kubernetes.protobuf"))
    {
        let why = "objects of several clusters are written as JSON here, not as protobuf";
        return Err(Status::unsupported_media_type(why));
    }
    let body = std::mem::replace(connection.request.body_mut(), body::empty());
    let bytes = Limited::new(body, LARGEST_BODY).collect().await;
    let mut bytes = bytes.map_err(Status::too_large)?.to_bytes();
    if let Ok(mut object) = serde_json::from_slice::<Value>(&bytes)
        && versions::restore(&mut object, cluster)
    {
        bytes = serde_json::to_vec(&object).map_err(Status::internal)?.into();
    }
    let length = HeaderValue::from(bytes.len());
    connection.request.headers_mut().insert(header::CONTENT_LENGTH, length);
    *connection.request.body_mut() = body::full(bytes);
    Ok(())
}

/// `proxying/<name>/proxy/…`
struct Proxying(Search);

impl Connect for Proxying {
    fn connect(&self, connection: Connection) -> Connected {
        self.0.clone().answer(connection).boxed()
    }
}
