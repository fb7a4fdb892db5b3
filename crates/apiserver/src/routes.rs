//! What a path means: which resource, object and subresource, or which fixed endpoint.

use http::Method;
use karmada_apimachinery::value::Text;
use karmada_handover::Asked;

use crate::http::query::{Query, decode_percent};

/// A request's path taken apart. Nothing here says that the resource exists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) verb: &'static str,
    pub(crate) path: Text,
    pub(crate) is_resource: bool,
    pub(crate) group: Text,
    pub(crate) version: Text,
    pub(crate) namespace: Text,
    pub(crate) resource: Text,
    pub(crate) name: Text,
    pub(crate) subresource: Text,
    /// What follows the subresource.
    pub(crate) rest: Vec<Text>,
    /// The only object an old-style watch is about.
    pub(crate) watched_name: Text,
    /// The path names a namespace for a namespaced resource.
    pub(crate) has_namespace: bool,
}

impl Target {
    /// Takes a path apart as Kubernetes' own request info does.
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Self {
        let segments: Vec<Text> =
            path.split('/').filter(|part| !part.is_empty()).map(decode_segment).collect();
        let target = Self { path: path.into(), verb: plain_verb(method), ..Self::default() };
        match segments.as_slice() {
            [api, version, parts @ ..] if api == "api" && !parts.is_empty() => {
                Self { version: version.clone(), ..target }.about(method, parts, query)
            }
            [apis, group, version, parts @ ..] if apis == "apis" && !parts.is_empty() => {
                let (group, version) = (group.clone(), version.clone());
                Self { group, version, ..target }.about(method, parts, query)
            }
            _ => target,
        }
    }

    /// What a client of the same process asks for; [`Target::to_path`] makes the path of it.
    pub(crate) fn handed(asked: &Asked, query: &Query) -> Self {
        let (group, version) = (asked.group.clone(), asked.version.clone());
        let named = !asked.namespace.is_empty();
        let mut parts = [const { Text::new_static("") }; 5];
        let given = named.then(|| [Text::new_static("namespaces"), asked.namespace.clone()]);
        let own = [&asked.resource, &asked.name, &asked.subresource].map(Text::clone);
        let mut length = 0;
        for part in given.into_iter().flatten().chain(own).filter(|part| !part.is_empty()) {
            parts[length] = part;
            length += 1;
        }
        let target = Self { group, version, ..Self::default() };
        target.about(&asked.method, &parts[..length], query)
    }

    /// Completes what a request is about from the steps below its group version.
    fn about(mut self, method: &Method, parts: &[Text], query: &Query) -> Self {
        self.is_resource = true;
        // Compat: the old spelling of watches, `/api/v1/watch/…`.
        let (parts, watches) = match parts {
            [watch, rest @ ..] if watch == "watch" && !rest.is_empty() => (rest, true),
            _ => (parts, false),
        };
        self.take_apart(parts);
        self.verb = self.resource_verb(method, query);
        if watches && matches!(self.verb, "get" | "list") {
            self.verb = "watch";
            self.watched_name = self.name.clone();
        }
        if matches!(self.verb, "list" | "watch" | "deletecollection")
            && let Some(name) = name_in_selector(query)
        {
            self.name = name;
        }
        self
    }

    /// The path of what a client of the same process asks for.
    pub(crate) fn to_path(&self) -> String {
        // The name of a list is the one its selector names.
        let lists = matches!(self.verb, "list" | "watch" | "deletecollection");
        let name = if lists { "" } else { self.name.as_str() };
        let namespace = self.has_namespace.then_some(self.namespace.as_str());
        let place = (&*self.group, &*self.version, &*self.resource);
        karmada_handover::path(place, namespace, name, &self.subresource)
    }

    fn take_apart(&mut self, parts: &[Text]) {
        // Below `namespaces/{name}` only these belong to the namespace itself.
        let parts = match parts {
            [namespaces, namespace, rest @ ..] if namespaces == "namespaces" => {
                self.namespace = namespace.clone();
                match rest.first().map(Text::as_str) {
                    None | Some("status" | "finalize") => parts,
                    Some(_) => {
                        self.has_namespace = true;
                        rest
                    }
                }
            }
            _ => parts,
        };
        let mut parts = parts.iter().cloned();
        self.resource = parts.next().unwrap_or_default();
        self.name = parts.next().unwrap_or_default();
        self.subresource = parts.next().unwrap_or_default();
        self.rest = parts.collect();
    }

    fn resource_verb(&self, method: &Method, query: &Query) -> &'static str {
        let collection = self.name.is_empty();
        match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if collection => "deletecollection",
            Method::DELETE => "delete",
            Method::GET | Method::HEAD if !collection => "get",
            Method::GET | Method::HEAD if query.flag("watch") == Some(true) => "watch",
            Method::GET | Method::HEAD => "list",
            _ => "",
        }
    }
}

fn decode_segment(segment: &str) -> Text {
    if segment.contains('%') { decode_percent(segment).into() } else { segment.into() }
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}

/// The name a list is limited to by its field selector; authorization then applies to that name.
fn name_in_selector(query: &Query) -> Option<Text> {
    let selector = query.non_empty("fieldSelector")?;
    selector.split(',').find_map(|term| {
        let name = term.strip_prefix("metadata.name=")?;
        let name = name.strip_prefix('=').unwrap_or(name);
        let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%']);
        plain.then(|| name.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, path: &str, expected: [&str; 6]) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let t = Target::parse(&method, path, &Query::parse(query));
        let got = [t.verb, &t.group, &t.namespace, &t.resource, &t.name, &t.subresource];
        assert_eq!(got, expected, "{method} {path}");
    }

    #[test]
    fn paths_are_taken_apart_as_kubernetes_does() {
        check(Method::GET, "/api/v1/namespaces", ["list", "", "", "namespaces", "", ""]);
        check(Method::GET, "/api/v1/namespaces/a", ["get", "", "a", "namespaces", "a", ""]);
        check(
            Method::PUT,
            "/api/v1/namespaces/a/finalize",
            ["update", "", "a", "namespaces", "a", "finalize"],
        );
        check(Method::GET, "/api/v1/namespaces/a/pods/b/log", ["get", "", "a", "pods", "b", "log"]);
        check(
            Method::GET,
            "/apis/apps/v1/deployments?watch=1",
            ["watch", "apps", "", "deployments", "", ""],
        );
        check(
            Method::GET,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            ["get", "rbac.authorization.k8s.io", "", "clusterroles", "system:node", ""],
        );
        check(
            Method::GET,
            "/api/v1/pods?fieldSelector=metadata.name%3Dx",
            ["list", "", "", "pods", "x", ""],
        );
        check(
            Method::DELETE,
            "/api/v1/namespaces/a/pods",
            ["deletecollection", "", "a", "pods", "", ""],
        );
    }

    #[test]
    fn what_is_handed_over_means_what_its_path_would() {
        let places = [
            ("", "v1", "namespaces", "", "a", ""),
            ("", "v1", "namespaces", "", "a", "status"),
            ("", "v1", "namespaces", "", "", ""),
            ("", "v1", "pods", "a", "b", "log"),
            ("", "v1", "pods", "a", "", ""),
            ("", "v1", "pods", "", "", "status"),
            ("apps", "v1", "deployments", "a", "b/c?", ""),
            ("apps", "v1", "deployments", "a b", "50%", "scale"),
            ("rbac.authorization.k8s.io", "v1", "clusterroles", "", "system:node", ""),
            ("", "v1", "status", "a", "", ""),
        ];
        let queries = [vec![], vec![("fieldSelector", "metadata.name=x"), ("dryRun", "All")]];
        for (group, version, resource, namespace, name, subresource) in places {
            for (method, pairs) in
                [Method::GET, Method::POST, Method::PATCH, Method::DELETE, Method::PUT]
                    .into_iter()
                    .flat_map(|method| queries.iter().map(move |pairs| (method.clone(), pairs)))
            {
                let asked = Asked {
                    method,
                    group: group.into(),
                    version: version.into(),
                    resource: resource.into(),
                    namespace: namespace.into(),
                    name: name.into(),
                    subresource: subresource.into(),
                    query: pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect(),
                    accept: "application/json",
                    content: None,
                    agent: None,
                };
                let query = Query::of(asked.query.clone());
                let mut handed = Target::handed(&asked, &query);
                let inside = Some(namespace).filter(|namespace| !namespace.is_empty());
                let place = (group, version, resource);
                let path = karmada_handover::path(place, inside, name, subresource);
                let whole = query.append_to(path.clone());
                let text = whole.split_once('?').map_or("", |(_, text)| text);
                assert_eq!(handed.to_path(), path, "{asked:?}");
                handed.path = path.as_str().into();
                let query = Query::parse(text);
                assert_eq!(handed, Target::parse(&asked.method, &path, &query), "{asked:?}");
            }
        }
    }
}
