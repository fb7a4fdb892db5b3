//! Group versions that another server answers for, as an APIService names it.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use tokio::sync::Semaphore;

/// How many requests may wait for the first byte of an answer of one server; watches are not counted.
const WAITING: usize = 400;

/// Where another server is, and how it is told from an impostor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    pub namespace: String,
    pub name: String,
    pub port: u16,
    /// The authorities of its certificate as base64 of PEM; those of the machine if empty.
    pub bundle: String,
    pub is_unverified: bool,
}

/// What a server told about one group version.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Learned {
    /// Its resources as aggregated discovery lists them.
    pub resources: Vec<Value>,
    /// Where its OpenAPI v3 document is found, by the hash in its address.
    pub document: Option<String>,
    /// Paths and definitions of its OpenAPI v2 document.
    pub swagger: Option<Arc<Value>>,
}

/// A group version of another server.
#[derive(Debug, Clone)]
pub struct Remote {
    /// The name of the APIService.
    pub name: String,
    pub group: String,
    pub version: String,
    pub group_priority: i32,
    pub version_priority: i32,
    pub place: Place,
    /// Nothing if the server could not be asked; what was known before is not trusted any more.
    pub learned: Option<Arc<Learned>>,
    /// Places of requests that wait for an answer.
    pub waiting: Arc<Semaphore>,
}

impl PartialEq for Remote {
    fn eq(&self, other: &Self) -> bool {
        let of =
            |remote: &Self| (remote.name.clone(), remote.group_priority, remote.version_priority);
        of(self) == of(other) && self.place == other.place && self.learned == other.learned
    }
}

impl Remote {
    /// Reads an APIService; nothing if this process serves the group version itself.
    pub fn read(api_service: &Value) -> Option<Self> {
        let text = |path: &[&str]| api_service.str_at(path).unwrap_or_default().to_owned();
        let priority = |key: &str| {
            let value = api_service.i64_at(&["spec", key]).unwrap_or_default();
            i32::try_from(value).unwrap_or_default()
        };
        api_service.map_at(&["spec", "service"])?;
        let (group, version) = (text(&["spec", "group"]), text(&["spec", "version"]));
        // Without these nothing could be registered, or taken back, any more.
        if matches!(group.as_str(), "" | "apiregistration.k8s.io") {
            return None;
        }
        let port = api_service.i64_at(&["spec", "service", "port"]);
        Some(Self {
            name: api_service.name().to_owned(),
            group,
            version,
            group_priority: priority("groupPriorityMinimum"),
            version_priority: priority("versionPriority"),
            place: Place {
                namespace: text(&["spec", "service", "namespace"]),
                name: text(&["spec", "service", "name"]),
                port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
                bundle: text(&["spec", "caBundle"]),
                is_unverified: api_service.bool_at(&["spec", "insecureSkipTLSVerify"])
                    == Some(true),
            },
            learned: None,
            waiting: Arc::new(Semaphore::new(WAITING)),
        })
    }
}
