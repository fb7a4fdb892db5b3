//! The parts of a pod that controllers decide by, as small as they can be: there are very many pods.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::time::parse_time;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Body {
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

karmada_apimachinery::readable!(Body);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) node_name: String,
    pub(crate) hostname: String,
    pub(crate) subdomain: String,
    pub(crate) containers: Box<[Container]>,
    pub(crate) init_containers: Box<[Container]>,
    /// Those that stand for a claim: of the others controllers know nothing.
    #[serde(deserialize_with = "claiming")]
    pub(super) volumes: Box<[Volume]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: String,
}

impl Volume {
    /// The claim behind the volume; one made for an ephemeral volume is named after the pod.
    pub(super) fn claim(&self, pod: &str) -> Option<String> {
        let named = self.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
        named.or_else(|| self.ephemeral.map(|_| format!("{pod}-{}", self.name)))
    }
}

fn claiming<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[Volume]>, D::Error> {
    let mut volumes: Vec<Volume> = Option::deserialize(deserializer)?.unwrap_or_default();
    volumes.retain(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some());
    Ok(volumes.into())
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) ports: Box<[ContainerPort]>,
    pub(crate) resources: Resources,
    #[serde(deserialize_with = "word")]
    pub(crate) restart_policy: Word,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    pub(crate) name: String,
    pub(crate) container_port: i64,
    #[serde(deserialize_with = "word")]
    pub(crate) protocol: Word,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Resources {
    /// By name. There are two or three: a map would be ten times as large.
    #[serde(deserialize_with = "pairs")]
    requests: Amounts,
}

type Amounts = Box<[(Box<str>, Value)]>;

impl Resources {
    pub(crate) fn request(&self, resource: &str) -> Option<&Value> {
        self.requests.iter().find(|(name, _)| **name == *resource).map(|(_, amount)| amount)
    }
}

fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amounts, D::Error> {
    let pairs: Option<BTreeMap<Box<str>, Value>> = Option::deserialize(deserializer)?;
    Ok(pairs.unwrap_or_default().into_iter().collect())
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    #[serde(deserialize_with = "word")]
    pub(crate) phase: Word,
    pub(crate) conditions: Box<[Condition]>,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: String,
    #[serde(rename = "podIPs")]
    pub(crate) pod_ips: Box<[PodIp]>,
    pub(crate) container_statuses: Box<[ContainerStatus]>,
    pub(crate) init_container_statuses: Box<[ContainerStatus]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodIp {
    pub(crate) ip: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition {
    #[serde(deserialize_with = "word")]
    pub(crate) r#type: Word,
    #[serde(deserialize_with = "word")]
    pub(crate) status: Word,
    /// The time of its last transition.
    #[serde(rename = "lastTransitionTime", deserialize_with = "time")]
    pub(crate) since: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) restart_count: i64,
    pub(crate) state: ContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub(crate) exit_code: i64,
    #[serde(deserialize_with = "time")]
    pub(crate) finished_at: Option<Timestamp>,
}

/// A word that is nearly always one of a few.
type Word = Cow<'static, str>;

/// The words nearly all pods are described with.
const WORDS: [&str; 18] = [
    "",
    "True",
    "False",
    "Unknown",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodScheduled",
    "PodReadyToStartContainers",
    "DisruptionTarget",
    "Running",
    "Pending",
    "Succeeded",
    "Failed",
    "Always",
    "OnFailure",
    "TCP",
    "UDP",
];

fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
    let text: Cow<'de, str> = Text::deserialize(deserializer)?.0;
    let known = WORDS.iter().find(|word| ***word == *text);
    Ok(known.map_or_else(|| text.into_owned().into(), |known| Cow::Borrowed(*known)))
}

/// A text that is borrowed where it can be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A time; one that cannot be read counts as none.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<Text<'de>> = Option::deserialize(deserializer)?;
    Ok(text.and_then(|text| parse_time(&text.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;
    use karmada_apimachinery::readable::Readable as _;

    #[test]
    fn words_that_are_not_known_and_times_that_are_none_are_read_too() {
        let conditions = json!([
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"},
            {"type": "example.com/a\"b", "status": "?", "lastTransitionTime": null},
            {"type": "Other", "lastTransitionTime": "soon"},
        ]);
        let pod = json!({"status": {"phase": "Odd", "conditions": conditions}});
        let body = Body::from_text(pod.to_string().as_bytes()).unwrap();
        assert_eq!(body.status.phase, "Odd");
        let read = body.status.conditions.iter();
        let read: Vec<_> = read.map(|one| (&*one.r#type, &*one.status, one.since)).collect();
        let since = parse_time("2026-01-02T03:04:05Z");
        assert!(since.is_some() && matches!(body.status.conditions[0].r#type, Cow::Borrowed(_)));
        let expected =
            [("Ready", "True", since), ("example.com/a\"b", "?", None), ("Other", "", None)];
        assert_eq!(read, expected);
    }
}
