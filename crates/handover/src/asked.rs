//! Requests about one resource and what comes back, in the terms both sides think in: no path, no query
//! and no headers that one side would write for the other to read.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, StatusCode};
use karmada_apimachinery::Value;
use karmada_apimachinery::value::Text;

/// A request about one resource. Texts that are empty are absent.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    pub group: Text,
    pub version: Text,
    pub resource: Text,
    pub namespace: Text,
    pub name: Text,
    pub subresource: Text,
    pub query: Vec<(&'static str, String)>,
    /// What the caller reads, as a header says it.
    pub accept: &'static str,
    /// The body and its media type.
    pub content: Option<(&'static str, Content)>,
    /// The name of the program that asks.
    pub agent: Option<HeaderValue>,
}

/// What a request or its answer carries.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Tree(Value),
    Text(Bytes),
}

/// What comes back. Refusals are answers too.
#[derive(Debug, Clone)]
pub struct Reply {
    pub code: StatusCode,
    pub content: Content,
}

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A server of the same process, for one of its users.
pub trait Server: Send + Sync + 'static {
    /// Answers when the answer is whole; fails where it breaks off, as those of other servers may.
    fn ask(&self, asked: Asked) -> BoxFuture<'static, Result<Reply, Failure>>;
}

impl Asked {
    /// Whether a path would say the same. What is no part of an API's name may be read as more or fewer steps
    /// of a path, or not at all, and a step named `watch` says that a watch is wanted.
    pub fn is_plain(&self) -> bool {
        let plain = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        };
        plain(&self.group)
            && plain(&self.version)
            && !self.version.is_empty()
            && !matches!(self.resource.as_str(), "" | "watch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_of_apis_are_left_to_paths() {
        let cases = [
            (("", "v1", "pods"), true),
            (("apps.example-1.io", "v1beta1", "pods/x"), true),
            (("a/b", "v1", "pods"), false),
            (("a b", "v1", "pods"), false),
            (("apps", "", "pods"), false),
            (("apps", "v1?", "pods"), false),
            (("apps", "v1", ""), false),
            (("apps", "v1", "watch"), false),
        ];
        for ((group, version, resource), plain) in cases {
            let asked = Asked {
                method: Method::GET,
                group: group.into(),
                version: version.into(),
                resource: resource.into(),
                namespace: Text::default(),
                name: Text::default(),
                subresource: Text::default(),
                query: Vec::new(),
                accept: "application/json",
                content: None,
                agent: None,
            };
            assert_eq!(asked.is_plain(), plain, "{asked:?}");
        }
    }
}
