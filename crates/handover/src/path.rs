//! Paths and queries of requests, for when they are put into words.

use std::fmt::Write;

/// Returns the path of a resource, of one object of it, or of a subresource.
pub fn path(
    (group, version, resource): (&str, &str, &str),
    namespace: Option<&str>,
    name: &str,
    subresource: &str,
) -> String {
    let mut path = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    if let Some(namespace) = namespace {
        path.push_str("/namespaces/");
        encode(&mut path, namespace);
    }
    for segment in [resource, name, subresource] {
        if !segment.is_empty() {
            path.push('/');
            encode(&mut path, segment);
        }
    }
    path
}

/// Query parameters; absent and empty ones are left out.
#[derive(Debug, Default)]
pub struct Query(String);

impl Query {
    pub fn of<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut query = Self::default();
        for (key, value) in parameters {
            query.add(key, value);
        }
        query
    }

    pub fn add(&mut self, key: &str, value: &str) -> &mut Self {
        if !value.is_empty() {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            encode(&mut self.0, key);
            self.0.push('=');
            encode(&mut self.0, value);
        }
        self
    }

    pub fn flag(&mut self, key: &str, set: bool) -> &mut Self {
        self.add(key, if set { "true" } else { "" })
    }

    pub fn number(&mut self, key: &str, value: Option<u64>) -> &mut Self {
        self.add(key, &value.map(|value| value.to_string()).unwrap_or_default())
    }

    pub fn append_to(&self, mut path: String) -> String {
        path.push_str(&self.0);
        path
    }
}

fn encode(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                out.push(char::from(byte));
            }
            _ => write!(out, "%{byte:02X}").expect("a string takes everything"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_group_namespace_object_and_subresource() {
        let pods = ("", "v1", "pods");
        let deployments = ("apps", "v1", "deployments");
        let cases = [
            (path(pods, None, "", ""), "/api/v1/pods"),
            (path(pods, Some("a"), "", ""), "/api/v1/namespaces/a/pods"),
            (path(pods, Some("a"), "b", "log"), "/api/v1/namespaces/a/pods/b/log"),
            (path(deployments, None, "", ""), "/apis/apps/v1/deployments"),
            (
                path(deployments, Some("a"), "b/c?", ""),
                "/apis/apps/v1/namespaces/a/deployments/b%2Fc%3F",
            ),
            (path(deployments, None, "system:x", ""), "/apis/apps/v1/deployments/system:x"),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn queries_leave_out_what_is_empty_and_escape_the_rest() {
        let mut query = Query::default();
        query.add("labelSelector", "a in (b,c),d!=ä").add("x", "").flag("watch", true);
        query.number("limit", Some(5)).number("timeoutSeconds", None);
        let expected = "/p?labelSelector=a%20in%20%28b%2Cc%29%2Cd%21%3D%C3%A4&watch=true&limit=5";
        assert_eq!(query.append_to("/p".into()), expected);
    }
}
