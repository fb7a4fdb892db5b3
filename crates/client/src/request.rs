//! Paths and queries of requests.

use http::{Request, header};
use karmada_apimachinery::gvk::Gvr;
pub use karmada_handover::Query;
use karmada_handover::{Asked, Content};
use kube::client::Body;

use crate::error::{Error, Result};

/// Returns the path of a resource, of one object of it, or of a subresource.
pub fn path(gvr: &Gvr, namespace: Option<&str>, name: &str, subresource: &str) -> String {
    karmada_handover::path((&gvr.group, &gvr.version, &gvr.resource), namespace, name, subresource)
}

/// A request as it goes over a connection.
pub(crate) fn spelled_out(asked: Asked) -> Result<Request<Body>> {
    let Asked { group, version, resource, namespace, name, subresource, .. } = &asked;
    let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let path = karmada_handover::path((group, version, resource), namespace, name, subresource);
    let path =
        Query::of(asked.query.iter().map(|(key, value)| (*key, value.as_str()))).append_to(path);
    let mut request =
        Request::builder().method(asked.method).uri(&path).header(header::ACCEPT, asked.accept);
    let mut body = Body::empty();
    if let Some((media_type, content)) = asked.content {
        request = request.header(header::CONTENT_TYPE, media_type);
        body = match content {
            Content::Tree(value) => Body::from(value.to_string().into_bytes()),
            Content::Text(text) => Body::from(text),
        };
    }
    request.body(body).map_err(|error| Error::transport(path, error))
}
