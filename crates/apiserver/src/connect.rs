//! Subresources that lead somewhere else: logs, terminals, port forwards, proxies.
//!
//! The server establishes who asks, whether they may, and that the object exists; a [`Connect`] that
//! the embedding program registers does the rest. It gets the request as it came, body unread, and
//! answers with whatever it likes: a stream, or `101 Switching Protocols` after taking the
//! connection over with [`Connection::upgrade`].

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Request, Response};
use karmada_apimachinery::Value;
use karmada_apimachinery::status::Status;
use parking_lot::RwLock;

use crate::auth::Identity;
use crate::http::body::Body;
use crate::http::query::Query;

/// A request for a connection, allowed by authorization and admission.
pub struct Connection {
    pub user: Arc<Identity>,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    /// What follows the subresource in the path (the name, where that is the entrance),
    /// percent-encoded as it came: empty or `/…`.
    pub rest: String,
    /// The object, in the version served. Built-in kinds always have one; for kinds of the embedding
    /// program the name may stand for something else.
    pub object: Option<Value>,
    /// The container a request to a pod is about; empty for all else.
    pub container: String,
    /// Method, URI, headers and body as they arrived.
    pub request: Request<Body>,
}

impl Connection {
    /// The decoded parameters of the request.
    pub fn query(&self) -> Query {
        Query::parse(self.request.uri().query().unwrap_or_default())
    }

    /// Takes over the client's connection; it is there once the `101` was sent. A caller in the same
    /// process has no connection to take over: the future then fails.
    pub fn upgrade(&mut self) -> hyper::upgrade::OnUpgrade {
        hyper::upgrade::on(&mut self.request)
    }

    /// The protocol the client wants to switch to, if any: `websocket` or `SPDY/3.1`.
    pub fn wants_upgrade(&self) -> Option<&str> {
        let headers = self.request.headers();
        let connection = headers.get(http::header::CONNECTION)?.to_str().ok()?;
        let asks = connection.split(',').any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
        headers.get(http::header::UPGRADE).filter(|_| asks)?.to_str().ok()
    }
}

/// What a connection is answered with.
pub type Connected = BoxFuture<'static, Result<Response<Body>, Status>>;

/// Serves connections to a subresource.
pub trait Connect: Send + Sync + 'static {
    fn connect(&self, connection: Connection) -> Connected;
}

impl<F> Connect for F
where
    F: Fn(Connection) -> Connected + Send + Sync + 'static,
{
    fn connect(&self, connection: Connection) -> Connected {
        self(connection)
    }
}

/// How much of the paths of a resource a connector answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// One subresource, or the object itself.
    There,
    /// A name and everything below it.
    Below,
}

/// A place below a group and who answers for it.
struct Row {
    resource: String,
    /// Empty where the whole resource is only computed.
    subresource: String,
    reach: Reach,
    to: Arc<dyn Connect>,
}

/// Who serves which subresource, or a whole resource that is only computed.
#[derive(Default)]
pub(crate) struct Connectors {
    /// By group.
    rows: RwLock<HashMap<String, Vec<Row>>>,
}

impl Connectors {
    pub(crate) fn add(&self, (group, resource, sub): (&str, &str, &str), to: Arc<dyn Connect>) {
        let (resource, subresource) = (resource.to_owned(), sub.to_owned());
        self.put(group, Row { resource, subresource, reach: Reach::There, to });
    }

    pub(crate) fn add_whole(
        &self,
        (group, resource): (&str, &str),
        reach: Reach,
        to: Arc<dyn Connect>,
    ) {
        let (resource, subresource) = (resource.to_owned(), String::new());
        self.put(group, Row { resource, subresource, reach, to });
    }

    fn put(&self, group: &str, row: Row) {
        let mut rows = self.rows.write();
        let rows = rows.entry(group.to_owned()).or_default();
        rows.retain(|old| (&old.resource, &old.subresource) != (&row.resource, &row.subresource));
        rows.push(row);
    }

    pub(crate) fn find(
        &self,
        group: &str,
        resource: &str,
        sub: &str,
    ) -> Option<(Arc<dyn Connect>, Reach)> {
        let rows = self.rows.read();
        let own = || rows.get(group).into_iter().flatten().filter(|row| row.resource == resource);
        let below = own().find(|row| row.subresource.is_empty() && row.reach == Reach::Below);
        let found = below.or_else(|| own().find(|row| row.subresource == sub))?;
        Some((found.to.clone(), found.reach))
    }
}

/// What follows the subresource in a path.
pub(crate) fn rest_of(path: &str, segments: usize) -> &str {
    // `/apis/g/v/clusters/m1/proxy/api` has one empty segment in front of its slash.
    match path.match_indices('/').nth(segments) {
        Some((at, _)) => &path[at..],
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::rest_of;

    #[test]
    fn the_rest_of_a_path_keeps_its_slashes_and_escapes() {
        assert_eq!(rest_of("/apis/g/v/clusters/m1/proxy", 6), "");
        assert_eq!(rest_of("/apis/g/v/clusters/m1/proxy/", 6), "/");
        assert_eq!(rest_of("/apis/g/v/clusters/m1/proxy/a%2Fb/c/", 6), "/a%2Fb/c/");
    }
}
